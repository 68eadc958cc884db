//! The tools that the index alone can serve, and the witness that reads files again.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::agent::citations::Witness;
use crate::agent::tools::Tools;
use crate::ask::Asker;
use crate::error::{Error, Result};
use crate::model::{Anchor, AskRequest, GrepRequest, Scope, SearchHit, ToolSpec};

/// Hits when the model asks for no number.
const LIMIT: u64 = 8;
/// Most hits of one search.
const MAX_LIMIT: u64 = 50;
/// Characters of a passage.
const PASSAGE_CHARS: usize = 1_500;

/// Search over the files.
#[derive(Clone)]
pub struct SearchTools {
    asker: Asker,
}

impl SearchTools {
    /// Makes the tools over an index.
    pub fn new(asker: Asker) -> SearchTools {
        SearchTools { asker }
    }

    /// The same as whoever may be asked for tools.
    pub fn shared(self) -> Arc<dyn Tools> {
        Arc::new(self)
    }

    async fn semantic_search(&self, arguments: &Value, scope: &Scope) -> Result<Value> {
        let request = AskRequest {
            query: text(arguments, "query"),
            limit: u32::try_from(arguments["limit"].as_u64().unwrap_or(LIMIT)).ok(),
            ..AskRequest::default()
        };
        let answer = self.asker.within(scope.clone()).search(request).await?;
        let hits: Vec<Value> = answer.hits.iter().filter(|it| !it.excerpt.is_empty()).map(hit).collect();
        Ok(json!({ "hits": hits, "warnings": answer.warnings }))
    }

    async fn fts_chunks(&self, arguments: &Value, scope: &Scope) -> Result<Value> {
        let limit = arguments["limit"].as_u64().unwrap_or(LIMIT);
        let request = GrepRequest {
            pattern: text(arguments, "query"),
            ignore_case: true,
            fixed: true,
            limit: u32::try_from(limit).ok(),
            ..GrepRequest::default()
        };
        let found = self.asker.within(scope.clone()).grep(request).await?;
        let line = |it: &crate::model::GrepMatch| {
            let place = it.anchor.place();
            let citation = if place.is_empty() { it.path.clone() } else { format!("{}, {place}", it.path) };
            json!({ "citation": citation, "text": it.line, "absolute_path": it.absolute_path, "anchor": it.anchor })
        };
        let hits: Vec<Value> = found.matches.iter().map(line).collect();
        Ok(json!({ "hits": hits, "truncated": found.truncated }))
    }
}

fn text(arguments: &Value, field: &str) -> String {
    arguments[field].as_str().unwrap_or_default().to_string()
}

/// A hit as a model is shown it: what to cite, and the passage.
fn hit(it: &SearchHit) -> Value {
    let anchor: Anchor =
        it.metadata.get("anchor").and_then(|it| serde_json::from_value(it.clone()).ok()).unwrap_or_default();
    let place = anchor.place();
    let citation = if place.is_empty() { it.path.clone() } else { format!("{}, {place}", it.path) };
    let passage: String = it.excerpt.chars().take(PASSAGE_CHARS).collect();
    json!({
        "citation": citation, "text": passage, "path": it.path, "score": it.score,
        "absolute_path": it.metadata.get("absolute_path"), "anchor": anchor,
    })
}

#[async_trait]
impl Tools for SearchTools {
    fn specs(&self) -> Vec<ToolSpec> {
        let parameters = json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {
                "query": { "type": "string", "minLength": 1, "maxLength": 2_000 },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT },
            },
        });
        let tool = |name: &str, description: &str| ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters: parameters.clone(),
        };
        vec![
            tool("semantic_search", "Finds passages of the files by meaning and by word; cite them by `citation`"),
            tool("fts_chunks", "Finds lines of the files that hold this exact text, whatever its case"),
        ]
    }

    async fn call(&self, name: &str, arguments: Value, scope: &Scope) -> Result<Value> {
        match name {
            "semantic_search" => self.semantic_search(&arguments, scope).await,
            "fts_chunks" => self.fts_chunks(&arguments, scope).await,
            other => Err(Error::not_found(format!("there is no tool `{other}`"))),
        }
    }
}

#[async_trait]
impl Witness for SearchTools {
    async fn stands(&self, path: &str, anchor: &Anchor, passage: &str, scope: &Scope) -> bool {
        self.asker.within(scope.clone()).stands(Path::new(path), anchor, passage).await
    }
}
