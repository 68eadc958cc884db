//! Answers graph queries: searches the index for the texts that a query mentions, then runs the query over the graph.

use serde_json::{Value, json};

use crate::error::Result;
use crate::graph::query::answer;
use crate::graph::query::axql::Query;
use crate::graph::query::plan::TextResults;
use crate::graph::service::GraphService;
use crate::graph::snapshot::view::View;
use crate::graph::tools::passages;
use crate::index::blocking;
use crate::model::GraphQuestion;

impl GraphService {
    /// Answers a query with `{vars, rows, truncated}`, or only elaborates the query without running it.
    ///
    /// # Errors
    /// As [`GraphService::request`].
    pub async fn query(&self, question: &GraphQuestion) -> Result<Value> {
        let query = answer::parse_question(question)?;
        let view = self.view().await?;
        let (texts, cut) = self.texts(&view, &query).await?;
        let (elaborate, explain) = (question.elaborate, question.explain);
        let value = blocking(move || match elaborate {
            true => answer::elaborate_only(&view, &query),
            false => answer::run_query(view, &query, &texts, explain),
        })
        .await?;
        Ok(with_notes(value, if elaborate { Vec::new() } else { cut }, self.state_note()))
    }

    /// Searches the index for the words in `fts` conditions. Returns matching entities, and notes about truncated results.
    async fn texts(&self, view: &View, query: &Query) -> Result<(TextResults, Vec<String>)> {
        let (mut texts, mut cut) = (TextResults::new(), Vec::new());
        for words in answer::index_texts(query) {
            let (nodes, note) = passages::matching_nodes(self, view, &words).await?;
            cut.extend(note);
            texts.insert(words, nodes);
        }
        Ok((texts, cut))
    }
}

/// Adds notes to an answer. If `cut` (notes about truncated results) is not empty, also sets `truncated`.
pub(super) fn with_notes(mut value: Value, cut: Vec<String>, note: Option<String>) -> Value {
    if !cut.is_empty() {
        value["truncated"] = json!(true);
    }
    for note in cut.into_iter().chain(note) {
        match value.get_mut("notes").and_then(Value::as_array_mut) {
            Some(notes) => notes.push(json!(note)),
            None => value["notes"] = json!([note]),
        }
    }
    value
}
