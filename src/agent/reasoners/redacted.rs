//! Hides a backend's address and name from callers other than the owner. An error of a server loses the address. An error of
//! a command keeps only its code, because its output and arguments may hold the owner's secrets. The log has the full error.

use async_trait::async_trait;

use crate::agent::assistant::Assistant;
use crate::agent::backend::BackendChoice;
use crate::agent::context_budget::ContextBudget;
use crate::agent::reasoners::Reasoner;
use crate::embed::redact_hosts;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::LlmStreamEvent;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;
use crate::model::agent::BackendKind;

/// Message for a failed command.
const FAILED_COMMAND_MESSAGE: &str = "the backend failed; the owner finds the reason in the log of vicd";

/// A reasoner with redacted name and errors, for callers other than the owner.
pub(in crate::agent) struct RedactedReasoner {
    pub(in crate::agent) reasoner: Box<dyn Reasoner>,
    pub(in crate::agent) backend: BackendKind,
}

#[async_trait]
impl Reasoner for RedactedReasoner {
    fn name(&self) -> String {
        match self.backend {
            BackendKind::Command => self.backend.name().into(),
            BackendKind::Mock | BackendKind::Ollama | BackendKind::OpenAi => self.reasoner.name(),
        }
    }

    fn redaction(&self) -> Redaction {
        self.reasoner.redaction()
    }

    async fn context_budget(&self, request: &PluginRequest) -> ContextBudget {
        self.reasoner.context_budget(request).await
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.reasoner.run_task(request).await.map_err(|error| redacted_error(self.backend, error))
    }
}

impl Assistant {
    /// Redacts an error of the backend for callers other than the owner.
    pub(in crate::agent) fn redact_error(&self, choice: &BackendChoice, error: Error) -> Error {
        if self.is_owner { error } else { redacted_error(choice.backend, error) }
    }

    /// Redacts an event of a model's answer in the same way.
    pub(in crate::agent) fn redact_event(&self, choice: &BackendChoice, event: LlmStreamEvent) -> LlmStreamEvent {
        match event {
            event if self.is_owner => event,
            LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms } => {
                let Error { message, hint, .. } =
                    redacted_error(choice.backend, Error { hint, ..Error::new(code, message) });
                LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms }
            }
            LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
                let message = redacted_error(choice.backend, Error::new(ErrorCode::Unavailable, message)).message;
                LlmStreamEvent::Retrying { attempt, message, delay_ms }
            }
            event => event,
        }
    }
}

fn redacted_error(backend: BackendKind, error: Error) -> Error {
    // vic itself reports invalid requests.
    if backend != BackendKind::Command || error.code == ErrorCode::InvalidArgument {
        return redact_hosts::hide_in_error(error);
    }
    tracing::warn!(%error, "the backend command failed");
    Error { message: FAILED_COMMAND_MESSAGE.into(), hint: None, ..error }
}
