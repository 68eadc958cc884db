//! Whoever does the tasks of the plugin protocol.

use async_trait::async_trait;

use crate::agent::room::Room;
use crate::error::Result;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;

/// Does one task at a time. What it gives is a proposal, and is checked by whoever asked.
#[async_trait]
pub trait Reasoner: Send + Sync {
    /// What it is called, for people and for the audit.
    fn name(&self) -> String;

    /// What is blacked out in whatever it is told: nothing where nobody else is told of it.
    fn redaction(&self) -> Redaction {
        Redaction::None
    }

    /// How much of a request it takes; whoever asks cuts the task to that, see [`Room`].
    async fn room(&self, _request: &PluginRequest) -> Room {
        Room::Whole
    }

    /// Does a task. The response answers it; whether it is right is another question.
    ///
    /// # Errors
    /// The backend cannot be asked, or gives nothing that can be used.
    async fn think(&self, request: &PluginRequest) -> Result<PluginResponse>;
}
