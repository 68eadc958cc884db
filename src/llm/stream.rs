//! A stream of events told as a story, and sealed as a proof.

use std::time::Duration;

use futures::StreamExt;
use serde::Serialize;

use crate::error::Result;
use crate::llm::client::LlmStream;
use crate::model::llm::event::{FinishReason, LlmStreamEvent, TaskId, Usage};

/// What happened, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Narration {
    /// The whole text of the model.
    pub text: String,
    /// One line for everything that is no text, in order.
    pub lines: Vec<String>,
}

/// Follows a stream to its end. `line` hears the story as it happens; a bad end is part of it.
///
/// # Errors
/// The stream itself breaks, which is a defect of vic.
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
    /// Takes in the next event.
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

/// The seal after one more event.
pub fn seal(before: &str, event: &LlmStreamEvent) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes());
    hasher.update(b"\n");
    hasher.update(serde_json::to_string(event).unwrap_or_default().as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// An event in one line; None for what nobody wants to read.
fn told(event: &LlmStreamEvent) -> Option<String> {
    Some(match event {
        LlmStreamEvent::Started { task_id, .. } => format!("task {task_id} was taken on"),
        LlmStreamEvent::ToolCall { descriptor_name, arguments_json, .. } => {
            format!("calls {descriptor_name} {arguments_json}")
        }
        LlmStreamEvent::ToolResult { payload_json, .. } => format!("got {} bytes", payload_json.len()),
        LlmStreamEvent::ToolError { error, .. } => format!("the tool failed: {error}"),
        LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
            format!("try {attempt} in {delay_ms} ms, because {message}")
        }
        LlmStreamEvent::Metrics { queue_depth: Some(depth @ 1..), .. } => format!("waits behind {depth} others"),
        LlmStreamEvent::Completed { finish_reason } => format!("ended: {}", finish_reason.name()),
        LlmStreamEvent::Error { message, .. } => format!("failed: {message}"),
        LlmStreamEvent::Token { .. } | LlmStreamEvent::Metrics { .. } => return None,
    })
}
