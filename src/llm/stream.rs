//! Summarises an event stream as readable lines and as a hash-chained record.

use std::time::Duration;

use futures::StreamExt;
use serde::Serialize;

use crate::error::Result;
use crate::llm::client::LlmStream;
use crate::model::llm::event::{FinishReason, LlmStreamEvent, TaskId, Usage};

/// Readable summary of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Narration {
    /// The whole text of the model.
    pub text: String,
    /// One line for each event that is not text, in order.
    pub lines: Vec<String>,
}

/// Reads a stream to its end. Calls `line` with each line as it happens; a final error is one of them.
///
/// # Errors
/// The stream itself fails, which is a bug in vic.
pub async fn adapter(mut stream: LlmStream, mut line: impl FnMut(&str)) -> Result<(Narration, ProofRecord)> {
    let mut narration = Narration::default();
    let mut proof = ProofRecord::default();
    while let Some(event) = stream.next().await {
        let event = event?;
        proof.add(&event);
        if let LlmStreamEvent::Token { text, .. } = &event {
            narration.text.push_str(text);
        } else if let Some(told) = told(&event) {
            line(&told);
            narration.lines.push(told);
        }
    }
    Ok((narration, proof))
}

impl ProofRecord {
    /// Adds the next event.
    pub fn add(&mut self, event: &LlmStreamEvent) {
        self.events += 1;
        self.seal = seal(&self.seal, event);
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

/// Returns the hash chain extended by one event.
pub fn seal(before: &str, event: &LlmStreamEvent) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes());
    hasher.update(b"\n");
    hasher.update(serde_json::to_string(event).unwrap_or_default().as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// Returns an event as one line; `None` for events without a line.
fn told(event: &LlmStreamEvent) -> Option<String> {
    Some(match event {
        LlmStreamEvent::Started { task_id, .. } => format!("task {task_id} was accepted"),
        LlmStreamEvent::ToolCall { descriptor_name, arguments_json, .. } => {
            format!("calls {descriptor_name} {arguments_json}")
        }
        LlmStreamEvent::ToolResult { payload_json, .. } => format!("got {} bytes", payload_json.len()),
        LlmStreamEvent::ToolError { error, .. } => format!("the tool failed: {error}"),
        LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
            format!("retry (attempt {attempt}) in {delay_ms} ms: {message}")
        }
        LlmStreamEvent::Metrics { queue_depth: Some(depth @ 1..), .. } => format!("waits behind {depth} others"),
        LlmStreamEvent::Completed { finish_reason } => format!("ended: {}", finish_reason.name()),
        LlmStreamEvent::Error { message, .. } => format!("failed: {message}"),
        LlmStreamEvent::Token { .. } | LlmStreamEvent::Metrics { .. } => return None,
    })
}
