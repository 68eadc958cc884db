//! The event log of requests: records every request, event and tool call in order, for callers that keep such a log.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use crate::model::llm::event::{LlmStreamEvent, TaskId};
use crate::model::llm::request::LlmRequest;

/// Receives the recorded events. Called in order for each task; must not block.
pub trait ProofCollector: Send + Sync {
    /// Records one event.
    fn record(&self, event: &ProofEvent);
}

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "proof", rename_all = "snake_case")]
pub enum ProofEvent {
    /// A request as sent, with secrets redacted. Images are represented by their hash.
    Request {
        /// The task.
        task_id: TaskId,
        /// Milliseconds since the epoch.
        at: i64,
        /// The request.
        request: Value,
    },
    /// An event of the stream.
    Event {
        /// The task.
        task_id: TaskId,
        /// Milliseconds since the epoch.
        at: i64,
        /// The event.
        event: LlmStreamEvent,
    },
}

/// Returns the recorded form of a request.
pub(super) fn recorded_request(request: &LlmRequest, backend: &str, model: &str) -> Value {
    let images: Vec<String> = request.images.iter().map(|it| blake3::hash(it).to_hex().to_string()).collect();
    json!({
        "backend": backend, "model": model, "workload": request.workload,
        "privacy_mode": request.privacy_mode.name(), "system": request.system, "messages": request.messages,
        "images": images, "schema": request.schema, "tools": request.tools, "max_tokens": request.max_tokens,
        "temperature": request.temperature, "seed": request.seed, "metadata": request.metadata,
    })
}

/// Keeps the recorded events in memory.
#[derive(Debug, Default)]
pub struct ProofLog {
    events: Mutex<Vec<ProofEvent>>,
}

impl ProofLog {
    /// Returns the events recorded so far.
    pub fn events(&self) -> Vec<ProofEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ProofCollector for ProofLog {
    fn record(&self, event: &ProofEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}
