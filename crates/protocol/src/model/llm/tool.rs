//! A call of a tool that gave no result.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// Why a tool call gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFault {
    /// No tool has that name.
    Unknown,
    /// The arguments are not valid JSON or violate the schema; the tool was not run.
    InvalidArguments,
    /// It timed out.
    Timeout,
    /// Its result is too large.
    TooLarge,
    /// It failed.
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

/// A failed tool call. The model and the caller are told; there is no retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolError {
    /// The kind of failure, for programs.
    pub kind: ToolFault,
    /// The message, one sentence.
    pub message: String,
}

impl ToolError {
    /// Creates an error of a kind.
    pub fn new(kind: ToolFault, message: impl Into<String>) -> ToolError {
        ToolError { kind, message: message.into() }
    }

    /// Returns the result sent to the model.
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
