//! `Reasoner`: the interface of the backends (command, model or rules) that run tasks of the plugin protocol.

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

/// Runs one task at a time, such as writing a query or an answer. The caller must check the result.
#[async_trait]
pub trait Reasoner: Send + Sync {
    /// Returns the name that reports and the audit log show.
    fn name(&self) -> String;

    /// Returns which secrets are redacted in requests: by default none, because the request stays in this process.
    fn redaction(&self) -> Redaction {
        Redaction::None
    }

    /// Returns the size limit of a request. The caller shortens the task to this limit, see [`ContextBudget`].
    async fn context_budget(&self, _request: &PluginRequest) -> ContextBudget {
        ContextBudget::Unlimited
    }

    /// Runs a task. The response is well-formed, but not checked for truth.
    ///
    /// # Errors
    /// The backend cannot be reached, or returns nothing usable.
    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse>;
}
