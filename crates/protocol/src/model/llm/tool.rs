//! The error of a tool call that gave no result.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// Why a tool call gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFault {
    /// There is no tool with the called name.
    Unknown,
    /// The arguments are not valid JSON or violate the schema; the tool was not run.
    InvalidArguments,
    /// The tool took longer than its time limit.
    Timeout,
    /// The tool's result is larger than the limit.
    TooLarge,
    /// The tool returned an error.
    Failed,
}

impl ToolFault {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ToolFault::Unknown => "unknown",
            ToolFault::InvalidArguments => "invalid_arguments",
            ToolFault::Timeout => "timeout",
            ToolFault::TooLarge => "too_large",
            ToolFault::Failed => "failed",
        }
    }

    /// Returns the fault with this wire name.
    pub fn from_name(name: &str) -> Option<ToolFault> {
        use ToolFault::{Failed, InvalidArguments, Timeout, TooLarge, Unknown};
        [Unknown, InvalidArguments, Timeout, TooLarge, Failed].into_iter().find(|it| it.name() == name)
    }
}

/// A failed tool call. Reported to the model and to the caller; the call is not retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolError {
    /// Kind of failure, for programs.
    pub kind: ToolFault,
    /// Error message, one sentence.
    pub message: String,
}

impl ToolError {
    /// Creates an error of this kind.
    pub fn new(kind: ToolFault, message: impl Into<String>) -> ToolError {
        ToolError { kind, message: message.into() }
    }

    /// Returns the JSON that is sent to the model as the result of the call.
    pub fn payload(&self) -> Value {
        json!({ "error": { "kind": self.kind, "message": self.message } })
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}
