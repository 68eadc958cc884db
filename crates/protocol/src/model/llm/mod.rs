//! Requests to a language model, and the events that the daemon sends in reply.

pub mod capabilities;
pub mod event;
pub mod guardrails;
pub mod request;
pub mod schema;
pub mod tool;

pub use capabilities::{CapabilitySnapshot, ModelCapability, ModelLimits, QueueState};
pub use event::{FinishReason, LlmStreamEvent, ProofRecord, TaskId, Usage};
pub use guardrails::{Guardrails, RetryPolicy, StopFilter};
pub use request::{LlmRequest, LlmRequestBuilder, Message, ModelId, Prompt, Role, Timeouts, ToolCall, WorkloadKind};
pub use schema::{Schema, Violation};
pub use tool::{ToolError, ToolFault};
