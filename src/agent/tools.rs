//! Interface of the tools that a model may call; `graph_tools` implements them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Result;
use crate::llm::RegisteredTools;
use crate::llm::tools::registry;
use crate::model::{Scope, ToolSpec};

/// Name of the tool that summarises the graph: types, relations and schemas.
pub(super) const SUMMARY_TOOL: &str = "db_summary";
/// Name of the tool that runs a graph query.
pub(super) const RUN_TOOL: &str = "axql_run";
/// Name of the tool that searches passages.
pub(super) const SEARCH_TOOL: &str = "semantic_search";

/// Read-only tools over vic's data. None of them writes or uses the network.
#[async_trait]
pub trait ToolProvider: Send + Sync {
    /// Returns the specifications of all tools.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Runs one tool. The caller has already validated the arguments against the tool's schema.
    ///
    /// # Errors
    /// The tool's own error, which is passed on to the model.
    async fn call(&self, name: &str, arguments: Value, scope: &Scope) -> Result<Value>;
}

/// Returns the tools limited to the files of `scope`. Each call checks the arguments, and limits the time and result size.
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
