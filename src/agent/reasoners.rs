//! The interface of the backends that run tasks of the plugin protocol.

pub(in crate::agent) mod command;
pub(in crate::agent) mod model;
pub(in crate::agent) mod prompts;
pub(in crate::agent) mod redacted;
pub(in crate::agent) mod rules;

use async_trait::async_trait;

use crate::agent::limits::ContextBudget;
use crate::error::Result;
use crate::llm::plugin::{PluginRequest, PluginResponse};
use crate::model::Redaction;

/// Runs one task at a time. Its result is a proposal that the caller must check.
#[async_trait]
pub trait Reasoner: Send + Sync {
    /// Returns the name for people and for the audit.
    fn name(&self) -> String;

    /// Returns the redaction of requests: none if the request stays in this process.
    fn redaction(&self) -> Redaction {
        Redaction::None
    }

    /// Returns the size limit of a request. The caller cuts the task to it, see [`ContextBudget`].
    async fn context_budget(&self, _request: &PluginRequest) -> ContextBudget {
        ContextBudget::Unlimited
    }

    /// Runs a task. The response is well-formed, but not checked for truth.
    ///
    /// # Errors
    /// The backend cannot be reached, or returns nothing usable.
    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse>;
}
