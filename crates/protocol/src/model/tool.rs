//! Tools for language models, and records of agent runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Description of a tool for a model. The caller validates the arguments against the schema before it runs the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name to call it by.
    pub name: String,
    /// Purpose and use, in a sentence or two.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// Record of one agent run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptRecord {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// The model or backend.
    pub model: String,
    /// The question.
    pub question: String,
    /// The whole report: the answer, its citations, and every call with its result.
    pub report: Value,
}

/// Summary of one agent run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// The model or backend.
    pub model: String,
    /// The question, as stored.
    pub question: String,
    /// How it ended, e.g. `answered`.
    pub ended: String,
    /// Steps of the model.
    pub steps: u64,
    /// Citations that were verified.
    pub citations: u64,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
}

impl From<TranscriptRecord> for AgentRun {
    fn from(it: TranscriptRecord) -> AgentRun {
        let number = |name: &str| it.report[name].as_u64().unwrap_or_default();
        AgentRun {
            ended: it.report["ended"].as_str().unwrap_or_default().into(),
            steps: number("steps"),
            elapsed_ms: number("elapsed_ms"),
            citations: it.report["citations"].as_array().map_or(0, Vec::len) as u64,
            time_ms: it.time_ms,
            model: it.model,
            question: it.question,
        }
    }
}
