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

/// What an agent did, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// Who reasoned.
    pub model: String,
    /// The question, as it was kept.
    pub question: String,
    /// How it ended, e.g. `answered`.
    pub ended: String,
    /// Steps of whoever reasoned.
    pub steps: u64,
    /// Citations that stood.
    pub citations: u64,
    /// Milliseconds that it took.
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
