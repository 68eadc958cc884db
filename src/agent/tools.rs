//! The tools that a model may call, whoever has them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Result;
use crate::llm::RegisteredTools;
use crate::llm::tools::registry;
use crate::model::{Scope, ToolSpec};

/// Tools over what vic knows. Every one of them reads; none writes or reaches out.
#[async_trait]
pub trait Tools: Send + Sync {
    /// What there is.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Runs one. Arguments were held against the schema before.
    ///
    /// # Errors
    /// As the tool says; the model is told.
    async fn call(&self, name: &str, arguments: Value, scope: &Scope) -> Result<Value>;
}

/// The tools as one caller may use them: a list that does not change any more, with checked arguments, times and sizes.
pub(crate) fn registered(tools: &Arc<dyn Tools>, scope: &Scope) -> Result<RegisteredTools> {
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
