//! Client for language models: sends a request to a model and returns an ordered stream of events, which always ends.
//!
//! Other modules and the network APIs use [`LlmClient`], whose clones share their state. [`LlmClient::enqueue`] checks a
//! request against the limits of its model and queues it, [`LlmClient::stream`] returns its events, [`LlmClient::cancel`]
//! ends it. A [`Transport`] talks to the model: an Ollama server, an OpenAI-compatible server, an external command
//! ([`plugin`]), or a deterministic mock.
//!
//! A client makes one attempt unless a [`RetryPolicy`] allows more; each retry is an event. Tools run only if they are in
//! the client's frozen registry, with arguments that satisfy their schema, and within their timeout. The [`ProofCollector`]
//! receives every event in order. This module accesses neither files nor the index. Secrets in requests are redacted, and
//! then every request to a server is sent through [`crate::egress`].
//!
//! Every failure is a typed error: missing model (`NotFound`, with the command that fetches it), server unreachable or
//! closing early (`Unavailable`), timeout (`DeadlineExceeded`), an error inside the answer or an unparsable answer
//! (`FailedPrecondition`), an oversized answer or a full queue (`ResourceExhausted`), the privacy mode
//! (`PermissionDenied`), a value outside the limits (`InvalidArgument`).

mod client;
mod client_state;
mod clock;
mod redact;
mod memory_limit;
pub mod plugin;
mod event_log;
mod queue;
pub mod response;
mod request_task;
pub mod stream;
mod token_estimate;
pub mod tools;
mod transport;
#[cfg(test)]
mod tests;

pub use crate::llm::event_log::{ProofCollector, ProofEvent, ProofLog};
pub use crate::llm::token_estimate::estimated_tokens;
pub use crate::model::llm::{
    CapabilitySnapshot, FinishReason, Guardrails, LlmRequest, LlmRequestBuilder, LlmStreamEvent, Message,
    ModelCapability, ModelId, ModelLimits, Prompt, ProofRecord, QueueState, RetryPolicy, Role, Schema, TaskId,
    Timeouts, ToolCall, ToolError, ToolFault, Usage, Violation, WorkloadKind,
};
pub use client::{CancelOutcome, LlmAnswer, LlmClient, LlmClientConfig, LlmStream, TaskHandle, client};
pub use clock::{Clock, SystemClock};
pub use queue::QueueLimits;
pub use tools::RegisteredTools;
pub use transport::{AnswerPiece, PieceStream, Transport, TransportConfig};

#[cfg(test)]
pub(crate) use clock::tests::ManualClock;
#[cfg(test)]
pub(crate) use transport::mock::Mock;

use crate::config::{Config, LlmBackend};
use crate::error::Result;

/// vic's error type. The error code tells whether the transport, a schema, a tool or a limit failed; see the module docs.
pub use crate::error::Error as LlmError;

/// The purpose for which a model is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Plans searches and answers questions.
    Reasoning,
    /// Reads the content of images.
    Vision,
}

/// Creates the client of the model that is configured for a task, without sending anything. Vision always has a client
/// (Ollama unless the backend is `openai`); reasoning has none if the backend is `stub`.
///
/// # Errors
/// `InvalidArgument` if the default guardrails are invalid.
pub fn open(config: &Config, task: Task) -> Result<Option<LlmClient>> {
    let llm = &config.llm;
    let transport = match (llm.backend, task) {
        (LlmBackend::Stub, Task::Reasoning) => return Ok(None),
        (LlmBackend::Ollama, Task::Reasoning) => TransportConfig::ollama(config, &llm.model),
        (LlmBackend::OpenAi, Task::Reasoning) => TransportConfig::openai(config, &llm.model),
        (LlmBackend::Stub | LlmBackend::Ollama, Task::Vision) => TransportConfig::ollama(config, &llm.vision_model),
        (LlmBackend::OpenAi, Task::Vision) => TransportConfig::openai(config, &llm.vision_model),
    };
    let (redaction, context_tokens) = (config.limits.redaction, llm.context_tokens);
    client(LlmClientConfig { transport, redaction, context_tokens, ..LlmClientConfig::default() }).map(Some)
}
