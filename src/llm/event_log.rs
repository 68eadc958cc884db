//! The event log: passes every model request, stream event and tool call, in order, to callers that keep such a log.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use crate::model::llm::event::{LlmStreamEvent, TaskId};
use crate::model::llm::request::LlmRequest;

/// Receives every request and event of a client. Called in order for each task; must not block.
pub trait ProofCollector: Send + Sync {
    /// Records one entry.
    fn record(&self, event: &ProofEvent);
}

/// One entry of the event log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "proof", rename_all = "snake_case")]
pub enum ProofEvent {
    /// A request as it was sent, with secrets redacted. Images are represented by their BLAKE3 hashes.
    Request {
        /// Id of the task.
        task_id: TaskId,
        /// Time of the entry, in milliseconds since the epoch.
        at: i64,
        /// The request as JSON.
        request: Value,
    },
    /// An event of the task's stream.
    Event {
        /// Id of the task.
        task_id: TaskId,
        /// Time of the entry, in milliseconds since the epoch.
        at: i64,
        /// The event that was emitted.
        event: LlmStreamEvent,
    },
}

/// Returns a request as the JSON that is recorded in the event log.
pub(super) fn recorded_request(request: &LlmRequest, backend: &str, model: &str) -> Value {
    let images: Vec<String> = request.images.iter().map(|it| blake3::hash(it).to_hex().to_string()).collect();
    json!({
        "backend": backend, "model": model, "workload": request.workload,
        "privacy_mode": request.privacy_mode.name(), "system": request.system, "messages": request.messages,
        "images": images, "schema": request.schema, "tools": request.tools, "max_tokens": request.max_tokens,
        "temperature": request.temperature, "seed": request.seed, "metadata": request.metadata,
    })
}

/// An event log that is kept in memory.
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
