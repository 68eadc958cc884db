//! The events of a request, in order. A final event always follows.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::tool::ToolError;

/// The id of a running request. Unguessable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl TaskId {
    /// Creates a random id.
    pub fn random() -> Result<TaskId> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random numbers: {error}")))?;
        Ok(TaskId(bytes.iter().map(|it| format!("{it:02x}")).collect()))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished, or reached a stop sequence.
    Stop,
    /// The answer reached `max_tokens`.
    Length,
    /// The model called tools for the caller to run.
    ToolCalls,
    /// The server's content filter ended it.
    ContentFilter,
    /// The request was cancelled.
    Cancelled,
    /// Anything else.
    Other,
}

impl FinishReason {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Cancelled => "cancelled",
            FinishReason::Other => "other",
        }
    }

    /// Returns the reason with this wire name.
    pub fn from_name(name: &str) -> Option<FinishReason> {
        use FinishReason::{Cancelled, ContentFilter, Length, Other, Stop, ToolCalls};
        [Stop, Length, ToolCalls, ContentFilter, Cancelled, Other].into_iter().find(|it| it.name() == name)
    }
}

/// Token counts, if the server reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub answer_tokens: u64,
}

/// One event. The last is always [`LlmStreamEvent::Completed`] or [`LlmStreamEvent::Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LlmStreamEvent {
    /// The request was accepted.
    Started {
        /// Its id, for cancellation.
        task_id: TaskId,
        /// Milliseconds since the epoch.
        accepted_at: i64,
    },
    /// More text.
    Token {
        /// The text.
        text: String,
        /// Counted from 0.
        index: u64,
    },
    /// The model calls a tool.
    ToolCall {
        /// The tool's name.
        descriptor_name: String,
        /// Links the result to the call.
        invocation_id: String,
        /// Arguments as written by the model.
        arguments_json: String,
    },
    /// A registered tool returned a result, which was sent to the model.
    ToolResult {
        /// The call.
        invocation_id: String,
        /// Its result.
        payload_json: String,
    },
    /// A registered tool failed or was not run; the model was told.
    ToolError {
        /// The call.
        invocation_id: String,
        /// The error.
        error: ToolError,
    },
    /// The request is retried, as the retry policy allows.
    Retrying {
        /// The next attempt, from 2.
        attempt: u32,
        /// The error of the last attempt.
        message: String,
        /// Milliseconds until the next attempt.
        delay_ms: u64,
    },
    /// Latency, queue position and token counts.
    Metrics {
        /// Milliseconds since the request was accepted.
        latency_ms: Option<u64>,
        /// Requests ahead of this one.
        queue_depth: Option<u64>,
        /// Tokens so far.
        usage: Option<Usage>,
    },
    /// The request ended normally.
    Completed {
        /// Why the answer ended.
        finish_reason: FinishReason,
    },
    /// The request ended with an error.
    Error {
        /// The error code, for programs.
        #[serde(serialize_with = "serialize_code")]
        code: ErrorCode,
        /// The message, one sentence.
        message: String,
        /// A hint for the user.
        hint: Option<String>,
        /// Whether a retry can help, if known.
        retriable: Option<bool>,
        /// Milliseconds to wait before it, if the backend says so.
        retry_after_ms: Option<u64>,
    },
}

fn serialize_code<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.name())
}

impl LlmStreamEvent {
    /// Converts an error into a final event.
    pub fn from_error(error: &Error) -> LlmStreamEvent {
        let retriable = match error.code {
            ErrorCode::Unavailable
            | ErrorCode::ResourceExhausted
            | ErrorCode::StorageFull
            | ErrorCode::DeadlineExceeded => Some(true),
            ErrorCode::Internal => None,
            _ => Some(false),
        };
        LlmStreamEvent::Error {
            code: error.code,
            message: error.message.clone(),
            hint: error.hint.clone(),
            retriable,
            retry_after_ms: error.retry_after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Returns whether this is a final event.
    pub fn is_last(&self) -> bool {
        matches!(self, LlmStreamEvent::Completed { .. } | LlmStreamEvent::Error { .. })
    }

    /// Converts an error event into an error, for callers that need no other detail.
    ///
    /// # Errors
    /// The error of the event.
    pub fn into_result(self) -> Result<LlmStreamEvent> {
        match self {
            LlmStreamEvent::Error { code, message, hint, retry_after_ms, .. } => {
                let retry_after = retry_after_ms.map(Duration::from_millis);
                Err(Error { hint, retry_after, ..Error::new(code, message) })
            }
            event => Ok(event),
        }
    }
}

/// Record of a stream: a hash chain over all events, which reveals removed or changed events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProofRecord {
    /// The task, once accepted.
    pub task_id: Option<TaskId>,
    /// Number of events.
    pub events: u64,
    /// BLAKE3, in hex, of the last event's JSON and the previous hash.
    pub seal: String,
    /// Why it ended; `None` if it ended with an error.
    pub finish_reason: Option<FinishReason>,
    /// Token counts, if the server reports them.
    pub usage: Usage,
    /// From acceptance to the end.
    pub latency: Option<Duration>,
}

impl ProofRecord {
    /// Adds the next event.
    pub fn add(&mut self, event: &LlmStreamEvent) {
        self.events += 1;
        self.seal = extend_hash_chain(&self.seal, event);
        match event {
            LlmStreamEvent::Started { task_id, .. } => self.task_id = Some(task_id.clone()),
            LlmStreamEvent::Metrics { latency_ms, usage, .. } => {
                self.latency = latency_ms.map(Duration::from_millis).or(self.latency);
                self.usage = usage.unwrap_or(self.usage);
            }
            LlmStreamEvent::Completed { finish_reason } => self.finish_reason = Some(*finish_reason),
            _ => (),
        }
    }
}

/// Returns the hash chain extended by one event.
pub fn extend_hash_chain(before: &str, event: &LlmStreamEvent) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes());
    hasher.update(b"\n");
    hasher.update(serde_json::to_string(event).unwrap_or_default().as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_event_keeps_code_and_hint() {
        let error = Error::new(ErrorCode::Unavailable, "`x` is away").hint("run x").retry_after(Duration::from_secs(1));
        let event = LlmStreamEvent::from_error(&error);
        assert!(event.is_last());
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            json!({ "event": "error", "code": "unavailable", "message": "`x` is away", "hint": "run x",
                    "retriable": true, "retry_after_ms": 1000 })
        );
        assert_eq!(event.into_result().unwrap_err(), error);
        // Without a server delay, none is invented.
        let silent = LlmStreamEvent::from_error(&Error::new(ErrorCode::Unavailable, "away"));
        assert!(matches!(silent, LlmStreamEvent::Error { retry_after_ms: None, retriable: Some(true), .. }));
    }

    #[test]
    fn task_ids_are_unique() {
        assert_ne!(TaskId::random().unwrap(), TaskId::random().unwrap());
        assert_eq!(TaskId::random().unwrap().0.len(), 32);
    }
}
