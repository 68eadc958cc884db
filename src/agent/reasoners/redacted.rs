//! Hides a backend's address and command line from callers other than the owner. The address is removed from errors of a
//! server. Of an error of a command only the code is kept, because the output and arguments of the command may hold the
//! owner's secrets. The log has the full error of a command.

use async_trait::async_trait;

use crate::agent::limits::ContextBudget;
use crate::agent::reasoners::Reasoner;
use crate::egress::redact_hosts;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::LlmStreamEvent;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;
use crate::model::agent::BackendKind;

/// Shown instead of the reason why a backend is not ready, to callers other than the owner: the reason may name the address
/// of the backend or the words of a command.
pub(in crate::agent) const UNREADY_PROBLEM: &str =
    "the backend does not answer; the daemon's owner sees why with `vic llm status`";

/// Shown instead of the error of a backend command, to callers other than the owner.
const FAILED_COMMAND_MESSAGE: &str = "the backend failed; the owner finds the reason in the log of vicd";

/// A reasoner whose name and errors hide addresses and command lines, for callers other than the owner.
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

/// Redacts the messages in a stream event like `redacted_error`.
pub(in crate::agent) fn redacted_event(backend: BackendKind, event: LlmStreamEvent) -> LlmStreamEvent {
    match event {
        LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms } => {
            let Error { message, hint, .. } = redacted_error(backend, Error { hint, ..Error::new(code, message) });
            LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms }
        }
        LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
            let message = redacted_error(backend, Error::new(ErrorCode::Unavailable, message)).message;
            LlmStreamEvent::Retrying { attempt, message, delay_ms }
        }
        event => event,
    }
}

/// Removes host names from an error of a server, and replaces the message of an error of a command.
pub(in crate::agent) fn redacted_error(backend: BackendKind, error: Error) -> Error {
    // Keeps the message of an invalid request of a command, because vic wrote it, not the command.
    if backend != BackendKind::Command || error.code == ErrorCode::InvalidArgument {
        return redact_hosts::hide_in_error(error);
    }
    tracing::warn!(%error, "the backend command failed");
    Error { message: FAILED_COMMAND_MESSAGE.into(), hint: None, ..error }
}
