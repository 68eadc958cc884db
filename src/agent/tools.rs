//! The tools that a model may call, independent of their implementation.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Result;
use crate::llm::RegisteredTools;
use crate::llm::tools::registry;
use crate::model::{Scope, ToolSpec};

/// The tool that summarises the database.
pub(super) const SUMMARY_TOOL: &str = "db_summary";
/// The tool that runs queries.
pub(super) const RUN_TOOL: &str = "axql_run";
/// The tool that finds passages.
pub(super) const SEARCH_TOOL: &str = "semantic_search";

/// Read-only tools over vic's data. None of them writes or uses the network.
#[async_trait]
pub trait ToolProvider: Send + Sync {
    /// Returns the specifications of all tools.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Runs one tool. The arguments already match its schema.
    ///
    /// # Errors
    /// Errors of the tool; the model sees them.
    async fn call(&self, name: &str, arguments: Value, scope: &Scope) -> Result<Value>;
}

/// Returns the tools for one caller: a fixed list, with checked arguments, times and sizes.
pub(crate) fn register_tools(tools: &Arc<dyn ToolProvider>, scope: &Scope) -> Result<RegisteredTools> {
    let mut all = registry();
    for spec in tools.specs() {
        let (tools, scope, name) = (tools.clone(), scope.clone(), spec.name.clone());
        all = all.register(spec, move |arguments| {
            let (tools, scope, name) = (tools.clone(), scope.clone(), name.clone());
            async move { tools.call(&name, arguments, &scope).await }
        })?;
    }
    Ok(all.freeze())
}
