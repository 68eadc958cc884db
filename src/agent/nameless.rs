//! Hides a backend's address and name from callers other than the owner. An error of a server loses the address. An error of
//! a command keeps only its code, because its output and arguments may hold the owner's secrets. The log has the full error.

use async_trait::async_trait;

use crate::agent::assistant::Assistant;
use crate::agent::choice::Choice;
use crate::agent::reasoner::Reasoner;
use crate::agent::room::Room;
use crate::embed::redact_hosts;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::LlmStreamEvent;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;
use crate::model::agent::BackendKind;

/// Message for a failed command.
const FAILED: &str = "the backend failed; the owner finds the reason in the log of vicd";

/// A reasoner with redacted name and errors, for callers other than the owner.
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
    /// Redacts an error of the backend for callers other than the owner.
    pub(super) fn told(&self, choice: &Choice, error: Error) -> Error {
        if self.owns { error } else { told(choice.backend, error) }
    }

    /// Redacts an event of a model's answer in the same way.
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
    // vic itself reports invalid requests.
    if backend != BackendKind::Command || error.code == ErrorCode::InvalidArgument {
        return redact_hosts::hide(error);
    }
    tracing::warn!(%error, "the backend command failed");
    Error { message: FAILED.into(), hint: None, ..error }
}
