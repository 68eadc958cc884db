//! Reads an event stream to its end, and summarizes it as readable lines and as a hash-chained record.

use futures::StreamExt;
use serde::Serialize;

use crate::error::Result;
use crate::llm::client::LlmStream;
use crate::model::llm::{LlmStreamEvent, ProofRecord};

/// Readable summary of an event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Narration {
    /// The complete text that the model answered.
    pub text: String,
    /// One line for each event that is not text, in order.
    pub lines: Vec<String>,
}

/// Reads a stream to its end. Calls `line` with the line of each event as it arrives, also of a final error.
///
/// # Errors
/// The stream itself fails, which would be a bug in vic.
pub async fn adapter(mut stream: LlmStream, mut line: impl FnMut(&str)) -> Result<(Narration, ProofRecord)> {
    let mut narration = Narration::default();
    let mut proof = ProofRecord::default();
    while let Some(event) = stream.next().await {
        let event = event?;
        proof.add(&event);
        if let LlmStreamEvent::Token { text, .. } = &event {
            narration.text.push_str(text);
        } else if let Some(told) = event_line(&event) {
            line(&told);
            narration.lines.push(told);
        }
    }
    Ok((narration, proof))
}

/// Describes an event in one line; returns `None` for text and most metrics.
fn event_line(event: &LlmStreamEvent) -> Option<String> {
    Some(match event {
        LlmStreamEvent::Started { task_id, .. } => format!("task {task_id} was accepted"),
        LlmStreamEvent::ToolCall { descriptor_name, arguments_json, .. } => {
            format!("calls {descriptor_name} {arguments_json}")
        }
        LlmStreamEvent::ToolResult { payload_json, .. } => format!("the tool returned {} bytes", payload_json.len()),
        LlmStreamEvent::ToolError { error, .. } => format!("the tool failed: {error}"),
        LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
            format!("retry (attempt {attempt}) in {delay_ms} ms: {message}")
        }
        LlmStreamEvent::Metrics { queue_depth: Some(depth @ 1..), .. } => format!("waits behind {depth} requests"),
        LlmStreamEvent::Completed { finish_reason } => format!("ended: {}", finish_reason.name()),
        LlmStreamEvent::Error { message, .. } => format!("failed: {message}"),
        LlmStreamEvent::Token { .. } | LlmStreamEvent::Metrics { .. } => return None,
    })
}
