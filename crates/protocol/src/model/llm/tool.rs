//! A call of a tool that gave no result.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// Why a call of a tool gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFault {
    /// No tool has that name.
    Unknown,
    /// The arguments are no JSON, or break the schema; the tool was not run.
    InvalidArguments,
    /// It took too long.
    Timeout,
    /// Its result is too large.
    TooLarge,
    /// It failed.
    Failed,
}

impl ToolFault {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ToolFault::Unknown => "unknown",
            ToolFault::InvalidArguments => "invalid_arguments",
            ToolFault::Timeout => "timeout",
            ToolFault::TooLarge => "too_large",
            ToolFault::Failed => "failed",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<ToolFault> {
        use ToolFault::{Failed, InvalidArguments, Timeout, TooLarge, Unknown};
        [Unknown, InvalidArguments, Timeout, TooLarge, Failed].into_iter().find(|it| it.name() == name)
    }
}

/// A call that gave no result. The model is told, and the caller; nothing is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolError {
    /// What a caller can branch on.
    pub kind: ToolFault,
    /// One sentence.
    pub message: String,
}

impl ToolError {
    pub fn new(kind: ToolFault, message: impl Into<String>) -> ToolError {
        ToolError { kind, message: message.into() }
    }

    /// What the model is told.
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
