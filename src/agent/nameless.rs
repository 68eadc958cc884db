//! A backend as whoever does not own the daemon sees it: what it says, and neither where it is nor how it is called. Of a
//! server that fails the address is left out; of a command everything but the code, as the words of a program and its
//! arguments may hold what only the owner knows. The log has the whole.

use async_trait::async_trait;

use crate::agent::assistant::Assistant;
use crate::agent::choice::Choice;
use crate::agent::reasoner::Reasoner;
use crate::agent::room::Room;
use crate::embed::addresses;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::LlmStreamEvent;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;
use crate::model::agent::BackendKind;

/// What is told of a command that fails.
const FAILED: &str = "the backend failed; the log of vicd says why, to its owner";

/// A reasoner for others than the owner.
pub(super) struct Nameless {
    pub(super) reasoner: Box<dyn Reasoner>,
    pub(super) backend: BackendKind,
}

#[async_trait]
impl Reasoner for Nameless {
    fn name(&self) -> String {
        match self.backend {
            BackendKind::Command => self.backend.name().into(),
            BackendKind::Mock | BackendKind::Ollama | BackendKind::OpenAi => self.reasoner.name(),
        }
    }

    fn redaction(&self) -> Redaction {
        self.reasoner.redaction()
    }

    async fn room(&self, request: &PluginRequest) -> Room {
        self.reasoner.room(request).await
    }

    async fn think(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.reasoner.think(request).await.map_err(|error| told(self.backend, error))
    }
}

impl Assistant {
    /// A failure of a backend as whoever asks may read it.
    pub(super) fn told(&self, choice: &Choice, error: Error) -> Error {
        if self.owns { error } else { told(choice.backend, error) }
    }

    /// The same of what happens while a model answers.
    pub(super) fn told_event(&self, choice: &Choice, event: LlmStreamEvent) -> LlmStreamEvent {
        match event {
            event if self.owns => event,
            LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms } => {
                let Error { message, hint, .. } = told(choice.backend, Error { hint, ..Error::new(code, message) });
                LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms }
            }
            LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
                let message = told(choice.backend, Error::new(ErrorCode::Unavailable, message)).message;
                LlmStreamEvent::Retrying { attempt, message, delay_ms }
            }
            event => event,
        }
    }
}

fn told(backend: BackendKind, error: Error) -> Error {
    // What is wrong with a request, vic itself says.
    if backend != BackendKind::Command || error.code == ErrorCode::InvalidArgument {
        return addresses::hide(error);
    }
    tracing::warn!(%error, "the command that is the model failed");
    Error { message: FAILED.into(), hint: None, ..error }
}
