//! Implements the interfaces that an agent needs: `ToolProvider` with the tools of the graph, and `PassageVerifier`
//! with the `Asker`, which checks that a passage is still in its file.

use std::path::Path;

use async_trait::async_trait;
use serde_json::Value;

use crate::agent::citations::PassageVerifier;
use crate::agent::tools::ToolProvider;
use crate::ask::Asker;
use crate::error::Result;
use crate::graph::{GraphService, tools};
use crate::model::{Anchor, Scope, ToolSpec};

/// Offers agents the tools of the graph, the same ones as over MCP and gRPC.
pub struct GraphTools(pub GraphService);

#[async_trait]
impl ToolProvider for GraphTools {
    fn specs(&self) -> Vec<ToolSpec> {
        tools::specs()
    }

    async fn call(&self, name: &str, arguments: Value, scope: &Scope) -> Result<Value> {
        tools::call_tool(&self.0, name, arguments, scope.clone()).await
    }
}

#[async_trait]
impl PassageVerifier for Asker {
    async fn verify_passage(&self, path: &str, anchor: &Anchor, passage: &str, scope: &Scope) -> bool {
        self.with_scope(scope.clone()).passage_is_current(Path::new(path), anchor, passage).await
    }
}
