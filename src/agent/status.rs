//! Reports which language model backend is in use, and whether it is ready (`vic llm status`).

use serde::Serialize;

use crate::agent::assistant::Assistant;
use crate::agent::backend::BackendChoice;
use crate::agent::reasoners::redacted::UNREADY_PROBLEM;
use crate::error::Result;
use crate::llm::{CapabilitySnapshot, ModelId, ModelLimits};
use crate::model::PrivacyMode;
use crate::model::agent::{BackendKind, Override};

/// Note in the status of a command backend in privacy mode `local_only`.
const OFFLINE_NOTE: &str = "the command has no network access, not even to this machine; otherwise it runs as you, and can read and write \
your files; `vic audit` lists what it was sent";

/// Note in the status of a command backend in the other privacy modes, where vic cannot confine the command.
const UNCONFINED_NOTE: &str = "the command is not confined: it runs as you, can read your files and reach the network; `vic \
audit` lists what it was sent";

/// The language model backend in use, and whether it is ready.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmStatus {
    /// Name of the kind of backend.
    pub backend: &'static str,
    /// Name of the model that is requested.
    pub model: String,
    /// The command line, if the backend is a plugin command. Shown only to the owner, because its arguments may hold
    /// secrets.
    pub command: Option<String>,
    /// Name of the daemon's privacy mode.
    pub privacy_mode: &'static str,
    /// Whether the backend is ready.
    pub ready: bool,
    /// Why the backend is not ready, with the remedy.
    pub problem: Option<String>,
    /// The capabilities of the backend's models.
    pub capabilities: Option<CapabilitySnapshot>,
    /// The limits of a request to the model; `None` for backends without a model.
    pub limits: Option<ModelLimits>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The tools that an agent may call.
    pub tools: Vec<String>,
}

impl Assistant {
    /// Returns the backend in use, and whether it is ready.
    ///
    /// # Errors
    /// The saved choice cannot be parsed.
    pub async fn status(&self, over: &Override) -> Result<LlmStatus> {
        let choice = self.resolve_backend(over)?;
        let looked = match (choice.backend, &choice.command) {
            (BackendKind::Command, Some(command)) => command.check(self.privacy_mode()).await.map(|()| None),
            _ => match self.client(&choice) {
                Ok(client) => client.capabilities(self.privacy_mode()).await.map(Some),
                Err(error) => Err(error),
            },
        };
        let model = choice.model_name(&self.shared.config);
        let missing = readiness_problem(&choice, &model, &looked);
        let limits = match choice.backend {
            BackendKind::Ollama | BackendKind::OpenAi if missing.is_none() => {
                let model = ModelId(model.clone());
                Some(self.client(&choice)?.limits(Some(&model), self.privacy_mode()).await)
            }
            _ => None,
        };
        let notes = match (choice.backend, self.privacy_mode()) {
            (BackendKind::Command, PrivacyMode::LocalOnly) => vec![OFFLINE_NOTE.to_string()],
            (BackendKind::Command, _) => vec![UNCONFINED_NOTE.to_string()],
            _ => Vec::new(),
        };
        Ok(LlmStatus {
            limits,
            notes,
            backend: choice.backend.name(),
            model,
            command: choice.command.as_ref().map(|it| it.command_line()).filter(|_| self.is_owner),
            privacy_mode: self.privacy_mode().name(),
            ready: missing.is_none(),
            problem: missing.map(|it| if self.is_owner { it } else { UNREADY_PROBLEM.into() }),
            capabilities: looked.ok().flatten().map(|it| if self.is_owner { it } else { it.without_place() }),
            tools: self.shared.tools.specs().into_iter().map(|it| it.name).collect(),
        })
    }
}

/// Returns why a backend is not ready, with the remedy.
fn readiness_problem(
    choice: &BackendChoice,
    model: &str,
    looked: &Result<Option<CapabilitySnapshot>>,
) -> Option<String> {
    let snapshot = match looked {
        Err(error) => return Some(error.one_line()),
        Ok(snapshot) => snapshot.as_ref()?,
    };
    if choice.backend == BackendKind::Mock || snapshot.model(&model.into()).is_some() {
        return None;
    }
    let cure = match choice.backend {
        BackendKind::Ollama => format!("run `ollama pull {model}`, or choose another model with `vic llm model`"),
        BackendKind::OpenAi | BackendKind::Command | BackendKind::Mock => {
            "choose a model of the server with `vic llm model`".into()
        }
    };
    Some(format!("the server has no model `{model}` ({cure})"))
}
