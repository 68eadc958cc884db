//! A tool that a language model may call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model is told of a tool. Whoever runs it checks the arguments against the schema first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name to call it by.
    pub name: String,
    /// What it does and when to use it, in a sentence or two.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// What an agent did for one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptRecord {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// Who reasoned.
    pub model: String,
    /// The question.
    pub question: String,
    /// The whole report: the answer, what it cites, and every call with its result.
    pub report: Value,
}
