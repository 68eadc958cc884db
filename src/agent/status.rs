//! Which backend is in use, and whether it can do what it is for.

use serde::Serialize;

use crate::agent::assistant::Assistant;
use crate::agent::choice::Choice;
use crate::error::{Error, Result};
use crate::llm::{CapabilitySnapshot, ModelId, ModelLimits};
use crate::model::PrivacyMode;
use crate::model::agent::{BackendKind, Override};

/// What is to be said of a command in mode `local_only`.
const OFFLINE: &str = "the command has no network, also not to this machine; else it runs as you, and can read and write \
your files; `vic audit` lists what it was sent";

/// What is to be said of it in the other modes: vic cannot know what it does.
const UNCONFINED: &str = "the command is not confined: it runs as you, can read your files and reach the network; `vic \
audit` lists what it was sent";

/// What whoever does not own the daemon is told of a backend that does not answer: why, may name its address, or the words
/// of a command.
pub(super) const UNREADY: &str = "the backend does not answer; the daemon's owner sees why with `vic llm status`";

/// The backend that is in use, and whether it can be reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmStatus {
    /// Its kind.
    pub backend: &'static str,
    /// The model.
    pub model: String,
    /// The command, where it is one; for the owner alone, as its arguments may hold what only he knows.
    pub command: Option<String>,
    /// What may leave the machine.
    pub privacy_mode: &'static str,
    /// Whether it answers.
    pub ready: bool,
    /// Why it does not, with the cure.
    pub problem: Option<String>,
    /// What its models can do.
    pub capabilities: Option<CapabilitySnapshot>,
    /// What a question to the model may take; None for what is no model.
    pub limits: Option<ModelLimits>,
    /// What whoever uses it should know.
    pub notes: Vec<String>,
    /// The tools that an agent may call.
    pub tools: Vec<String>,
}

impl Assistant {
    /// Says which backend is in use and whether it can be reached.
    ///
    /// # Errors
    /// The choice cannot be understood.
    pub async fn status(&self, over: &Override) -> Result<LlmStatus> {
        let choice = self.choice(over)?;
        let looked = match (choice.backend, &choice.command) {
            (BackendKind::Command, Some(command)) => command.check(self.mode()).await.map(|()| None),
            _ => match self.client(&choice) {
                Ok(client) => client.capabilities(self.mode()).await.map(Some),
                Err(error) => Err(error),
            },
        };
        let model = choice.model_name(&self.shared.config);
        let missing = missing(&choice, &model, &looked);
        let limits = match choice.backend {
            BackendKind::Ollama | BackendKind::OpenAi if missing.is_none() => {
                let model = ModelId(model.clone());
                Some(self.client(&choice)?.limits(Some(&model), self.mode()).await)
            }
            _ => None,
        };
        let notes = match (choice.backend, self.mode()) {
            (BackendKind::Command, PrivacyMode::LocalOnly) => vec![OFFLINE.to_string()],
            (BackendKind::Command, _) => vec![UNCONFINED.to_string()],
            _ => Vec::new(),
        };
        Ok(LlmStatus {
            limits,
            notes,
            backend: choice.backend.name(),
            model,
            command: choice.command.as_ref().map(|it| it.shown()).filter(|_| self.owns),
            privacy_mode: self.mode().name(),
            ready: missing.is_none(),
            problem: missing.map(|it| if self.owns { it } else { UNREADY.into() }),
            capabilities: looked.ok().flatten().map(|it| if self.owns { it } else { it.without_place() }),
            tools: self.shared.tools.specs().into_iter().map(|it| it.name).collect(),
        })
    }
}

/// What keeps a backend from answering, with the cure.
fn missing(choice: &Choice, model: &str, looked: &Result<Option<CapabilitySnapshot>>) -> Option<String> {
    let snapshot = match looked {
        Err(error) => return Some(with_hint(error)),
        Ok(snapshot) => snapshot.as_ref()?,
    };
    if choice.backend == BackendKind::Mock || snapshot.model(&model.into()).is_some() {
        return None;
    }
    let cure = match choice.backend {
        BackendKind::Ollama => format!("run `ollama pull {model}`, or choose another with `vic llm model`"),
        BackendKind::OpenAi | BackendKind::Command | BackendKind::Mock => {
            "choose one that it has with `vic llm model`".into()
        }
    };
    Some(format!("the server has no model `{model}` ({cure})"))
}

fn with_hint(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}
