//! What a language model is told of a tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tool: its name, what it is for, and the JSON Schema that its arguments must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name to call it by.
    pub name: String,
    /// What it does, in one sentence or two.
    pub description: String,
    /// JSON Schema of the arguments, which are one object.
    pub parameters: serde_json::Value,
}
