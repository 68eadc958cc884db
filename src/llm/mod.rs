//! Language models: a request to an ordered stream of events that always comes to an end.
//!
//! [`LlmClient`] is what the rest of vic and every program on the wire uses; a clone of it shares everything.
//! [`LlmClient::enqueue`] checks a request against the limits of its model and takes it on, [`LlmClient::stream`] follows
//! it, [`LlmClient::cancel`] ends it. What talks to the model is a [`Transport`]: an Ollama server, an OpenAI-compatible
//! server, an external command ([`plugin`]), or a mock that says the same every time.
//!
//! Who owns what: a client tries once, unless a [`RetryPolicy`] says more, and each further try is an event. Tools run only
//! when they are in the frozen registry of the client, with arguments that meet their schema, and in their time. Whatever
//! happens is told to the [`ProofCollector`] in order. Nothing here touches a file or the index, and every request to a
//! server passes [`crate::embed::egress`]; keys and tokens in a request are blacked out before that.
//!
//! Every bad ending is a typed error: no model (`NotFound`, with the command that fetches it), no server or one that
//! closes early (`Unavailable`), silence (`DeadlineExceeded`), an error in the middle of the answer or nonsense instead of
//! one (`FailedPrecondition`), an answer without end or a full queue (`ResourceExhausted`), the privacy mode
//! (`PermissionDenied`), a value outside the limits (`InvalidArgument`).

mod client;
mod clock;
mod discreet;
mod load;
pub mod plugin;
mod proof;
mod queue;
pub mod response;
mod run;
pub mod stream;
mod tokens;
pub mod tools;
mod transport;
#[cfg(test)]
mod tests;

pub use crate::model::llm::{
    CapabilitySnapshot, FinishReason, Guardrails, LlmRequest, LlmRequestBuilder, LlmStreamEvent, Message,
    ModelCapability, ModelId, ModelLimits, Patience, Prompt, ProofRecord, QueueState, RetryPolicy, Role, Schema,
    TaskId, ToolCall, ToolError, ToolFault, Usage, Violation, WorkloadKind,
};
pub use client::{Cancelled, LlmAnswer, LlmClient, LlmClientConfig, LlmStream, TaskHandle, client};
pub use clock::{Clock, SystemClock};
pub use proof::{ProofCollector, ProofEvent, ProofLog};
pub use queue::QueueLimits;
pub use tokens::estimated_tokens;
pub use tools::RegisteredTools;
pub use transport::{Piece, PieceStream, Transport, TransportConfig};

#[cfg(test)]
pub(crate) use clock::tests::ManualClock;
#[cfg(test)]
pub(crate) use transport::mock::Mock;

use crate::config::{Config, LlmBackend};
use crate::error::Result;

/// The error of this room is the one of vic: its code says whether the transport, a schema, a tool or the limits are at
/// fault, see the module.
pub use crate::error::Error as LlmError;

/// What a model is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Plans and answers.
    Reasoning,
    /// Looking at images.
    Vision,
}

/// Makes the client of the configured model; nothing is sent yet. There is always one for vision (Ollama's unless the
/// backend is `openai`), and none for reasoning when the backend is `stub`.
///
/// # Errors
/// The server's address is no http address.
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
