//! The events of a request to a language model, in order. The last one is always a final event.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::tool::ToolError;

/// The id of a running request: random, so that other callers cannot guess it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl TaskId {
    /// Creates a random task id.
    pub fn random() -> Result<TaskId> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("cannot get random numbers: {error}")))?;
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
    /// The content filter of the server ended the answer.
    ContentFilter,
    /// The caller cancelled the request.
    Cancelled,
    /// Any other reason.
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

/// Numbers of tokens, if the server reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub answer_tokens: u64,
}

/// One event of a request. The last is always [`LlmStreamEvent::Completed`] or [`LlmStreamEvent::Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LlmStreamEvent {
    /// The request was accepted.
    Started {
        /// Id of the request, with which it can be cancelled.
        task_id: TaskId,
        /// Time of acceptance, in milliseconds since the epoch.
        accepted_at: i64,
    },
    /// The next piece of the answer's text.
    Token {
        /// Text of the piece.
        text: String,
        /// Number of the piece, from 0.
        index: u64,
    },
    /// The model calls a tool.
    ToolCall {
        /// Name of the tool.
        descriptor_name: String,
        /// Id of the call, which its result repeats.
        invocation_id: String,
        /// Arguments of the call as JSON, as the model wrote them.
        arguments_json: String,
    },
    /// A registered tool returned a result, which was sent to the model.
    ToolResult {
        /// Id of the call.
        invocation_id: String,
        /// Result of the tool, as JSON.
        payload_json: String,
    },
    /// A registered tool failed or was not run; the error was sent to the model.
    ToolError {
        /// Id of the call.
        invocation_id: String,
        /// Why the call failed.
        error: ToolError,
    },
    /// An attempt failed, and the retry policy allows another one.
    Retrying {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Error message of the failed attempt.
        message: String,
        /// Milliseconds until the next attempt starts.
        delay_ms: u64,
    },
    /// Measurements of the request so far: latency, queue position and token counts.
    Metrics {
        /// Milliseconds since the request was accepted.
        latency_ms: Option<u64>,
        /// Number of requests that will run before this one.
        queue_depth: Option<u64>,
        /// Tokens used so far.
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
        /// Error message, one sentence.
        message: String,
        /// What the user can do about the error.
        hint: Option<String>,
        /// Whether a retry of the request can help, if known.
        retriable: Option<bool>,
        /// Milliseconds to wait before a retry, if the backend reports it.
        retry_after_ms: Option<u64>,
    },
}

fn serialize_code<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.name())
}

impl LlmStreamEvent {
    /// Converts an error into the final event [`LlmStreamEvent::Error`].
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

    /// Converts an error event into an [`Error`] and passes on every other event.
    ///
    /// # Errors
    /// The error of an error event.
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

/// Record of the events of a request, with a hash chain over all of them that reveals removed or changed events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProofRecord {
    /// Id of the request, once accepted.
    pub task_id: Option<TaskId>,
    /// Number of events recorded.
    pub events: u64,
    /// Final hash of the chain: BLAKE3, in hex, of the last event's JSON and the previous hash.
    pub seal: String,
    /// Why the answer ended; `None` if the request ended with an error.
    pub finish_reason: Option<FinishReason>,
    /// Token counts, if the server reports them.
    pub usage: Usage,
    /// Time from acceptance to the end of the request.
    pub latency: Option<Duration>,
}

impl ProofRecord {
    /// Adds the next event to the record.
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

/// Returns the hash of `event` and the previous hash `before`, which extends the hash chain by one event.
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
        // If the server reports no delay, the event must not contain one either.
        let silent = LlmStreamEvent::from_error(&Error::new(ErrorCode::Unavailable, "away"));
        assert!(matches!(silent, LlmStreamEvent::Error { retry_after_ms: None, retriable: Some(true), .. }));
    }

    #[test]
    fn task_ids_are_unique() {
        assert_ne!(TaskId::random().unwrap(), TaskId::random().unwrap());
        assert_eq!(TaskId::random().unwrap().0.len(), 32);
    }
}
