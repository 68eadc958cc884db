//! Descriptions of tools for language models, and records of agent runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Description of a tool for a model. The caller validates the arguments against the schema before it runs the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name by which the model calls the tool.
    pub name: String,
    /// What the tool does and when to use it, in a sentence or two.
    pub description: String,
    /// JSON Schema of the tool's arguments, which are an object.
    pub parameters: Value,
}

/// Record of one agent run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptRecord {
    /// Time of the run, in milliseconds since the epoch.
    pub time_ms: i64,
    /// Name of the model or backend.
    pub model: String,
    /// The question that the agent answered.
    pub question: String,
    /// The whole report of the run: the answer, its citations, and every tool call with its result.
    pub report: Value,
}

/// Summary of one agent run, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    /// Time of the run, in milliseconds since the epoch.
    pub time_ms: i64,
    /// Name of the model or backend.
    pub model: String,
    /// The question, as stored in the transcript.
    pub question: String,
    /// How the run ended, e.g. `answered`.
    pub ended: String,
    /// Number of steps (calls of the model).
    pub steps: u64,
    /// Number of citations that were verified.
    pub citations: u64,
    /// Duration of the run in milliseconds.
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
