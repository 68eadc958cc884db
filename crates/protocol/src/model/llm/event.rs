//! What happens while a request is answered, in order, up to an end that always comes.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::tool::ToolError;

/// Names a request while it is at work. Cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl TaskId {
    /// A new one.
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
    /// The model was done, or came to a stop sequence.
    Stop,
    /// `max_tokens` cut it.
    Length,
    /// The model called tools that the caller is to run.
    ToolCalls,
    /// The server's filter cut it.
    ContentFilter,
    /// Somebody cancelled it.
    Cancelled,
    /// Anything else.
    Other,
}

impl FinishReason {
    /// The name on the wire.
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

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<FinishReason> {
        use FinishReason::{Cancelled, ContentFilter, Length, Other, Stop, ToolCalls};
        [Stop, Length, ToolCalls, ContentFilter, Cancelled, Other].into_iter().find(|it| it.name() == name)
    }
}

/// Tokens that were counted, where the server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Of the prompts.
    pub prompt_tokens: u64,
    /// Of the answers.
    pub answer_tokens: u64,
}

/// One thing that happened. [`LlmStreamEvent::Completed`] and [`LlmStreamEvent::Error`] are last, and one of them comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LlmStreamEvent {
    /// The request was taken on.
    Started {
        /// Its name, to cancel it.
        task_id: TaskId,
        /// Milliseconds since the epoch.
        accepted_at: i64,
    },
    /// More text.
    Token {
        /// It.
        text: String,
        /// Counted from 0.
        index: u64,
    },
    /// The model calls a tool.
    ToolCall {
        /// Which.
        descriptor_name: String,
        /// Ties the result to it.
        invocation_id: String,
        /// Arguments as the model wrote them.
        arguments_json: String,
    },
    /// A tool of the registry gave this, and the model was told.
    ToolResult {
        /// The call.
        invocation_id: String,
        /// What it gave.
        payload_json: String,
    },
    /// A tool of the registry failed, or was not run; the model was told.
    ToolError {
        /// The call.
        invocation_id: String,
        /// Why.
        error: ToolError,
    },
    /// The request is sent again, as the caller's policy has it.
    Retrying {
        /// Which try comes, from 2.
        attempt: u32,
        /// What went wrong.
        message: String,
        /// Milliseconds until then.
        delay_ms: u64,
    },
    /// Numbers.
    Metrics {
        /// Milliseconds since the request was taken on.
        latency_ms: Option<u64>,
        /// Requests before this one.
        queue_depth: Option<u64>,
        /// Tokens so far.
        usage: Option<Usage>,
    },
    /// The end.
    Completed {
        /// Why.
        finish_reason: FinishReason,
    },
    /// The end, and a bad one.
    Error {
        /// What a caller can branch on.
        #[serde(serialize_with = "code_name")]
        code: ErrorCode,
        /// One sentence.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
        /// Whether another try can help, where that is known.
        retriable: Option<bool>,
        /// Milliseconds to wait before it, where the backend has said so.
        retry_after_ms: Option<u64>,
    },
}

fn code_name<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.name())
}

impl LlmStreamEvent {
    /// The bad end that an error is.
    pub fn of(error: &Error) -> LlmStreamEvent {
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

    /// Says whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        matches!(self, LlmStreamEvent::Completed { .. } | LlmStreamEvent::Error { .. })
    }

    /// Turns the bad end into an error, for callers that need no more.
    ///
    /// # Errors
    /// The one of the event.
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

/// What happened, to be kept: a chain of hashes over every event, so that none can be taken out or changed unseen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProofRecord {
    /// The task, once it was taken on.
    pub task_id: Option<TaskId>,
    /// Number of events.
    pub events: u64,
    /// BLAKE3, in hex, of the last event's JSON and the hash of all before it.
    pub seal: String,
    /// Why it ended; None when it ended with an error.
    pub finish_reason: Option<FinishReason>,
    /// Tokens, where the server counts them.
    pub usage: Usage,
    /// From acceptance to the end.
    pub latency: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_keeps_its_code_and_cure_on_its_way() {
        let error = Error::new(ErrorCode::Unavailable, "`x` is away").hint("run x").retry_after(Duration::from_secs(1));
        let event = LlmStreamEvent::of(&error);
        assert!(event.is_last());
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            json!({ "event": "error", "code": "unavailable", "message": "`x` is away", "hint": "run x",
                    "retriable": true, "retry_after_ms": 1000 })
        );
        assert_eq!(event.into_result().unwrap_err(), error);
        // Nobody has said it: nothing is made up.
        let silent = LlmStreamEvent::of(&Error::new(ErrorCode::Unavailable, "away"));
        assert!(matches!(silent, LlmStreamEvent::Error { retry_after_ms: None, retriable: Some(true), .. }));
    }

    #[test]
    fn no_two_tasks_have_the_same_name() {
        assert_ne!(TaskId::random().unwrap(), TaskId::random().unwrap());
        assert_eq!(TaskId::random().unwrap().0.len(), 32);
    }
}
