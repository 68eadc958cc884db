//! Collects the queries that ran from tool results, and checks the queries that an answer names.

use std::collections::HashSet;

use crate::agent::tools::RUN_TOOL;
use crate::graph::query::axql;
use crate::llm::plugin::{FinalAnswer, TranscriptStep};

/// The queries of a transcript that ran without an error.
#[derive(Debug, Default)]
pub(super) struct RanQueries {
    /// Graph queries that returned rows, as AxQL, each once and in the order of the calls.
    with_rows: Vec<String>,
    /// All graph queries, each in the form of [`comparable`].
    graph: HashSet<String>,
    /// Queries of the other tools, for passages and words.
    searches: HashSet<String>,
}

impl RanQueries {
    /// Collects the queries in a transcript.
    pub(super) fn from_transcript(transcript: &[TranscriptStep]) -> RanQueries {
        let mut ran = RanQueries::default();
        for step in transcript.iter().filter(|it| it.result.get("error").is_none()) {
            if step.tool == RUN_TOOL {
                ran.add_graph_query(step);
            } else if let Some(query) = step.args["query"].as_str() {
                ran.searches.insert(query.trim().into());
            }
        }
        ran
    }

    fn add_graph_query(&mut self, step: &TranscriptStep) {
        let forms = [&step.result["query"], &step.args["axql"]];
        let forms: Vec<&str> = forms.into_iter().filter_map(|it| it.as_str()).collect();
        self.graph.extend(forms.iter().map(|it| comparable(it)));
        let has_rows = step.result["rows"].as_array().is_some_and(|it| !it.is_empty());
        if let Some(form) = forms.first().filter(|it| has_rows && !self.with_rows.iter().any(|row| row == *it)) {
            self.with_rows.push((*form).into());
        }
    }

    /// Returns whether a query ran. The limit of a graph query does not count, because a tool call may lower it.
    pub(super) fn contains(&self, query: &str) -> bool {
        self.graph.contains(&comparable(query)) || self.searches.contains(query.trim())
    }

    /// Returns the queries that prove an answer without citations: the graph queries that it names, else, if it names no
    /// query at all, every graph query that returned rows. Empty if nothing proves the answer.
    pub(super) fn proof_of(&self, answer: &FinalAnswer) -> Vec<String> {
        if !answer.citations.is_empty() || answer.answer.trim().is_empty() {
            return Vec::new();
        }
        match answer.queries.is_empty() {
            true => self.with_rows.clone(),
            false => answer.queries.iter().filter(|it| self.graph.contains(&comparable(it))).cloned().collect(),
        }
    }
}

/// Returns a query in a form in which equal queries are equal texts: AxQL as vic writes it, without its limit.
fn comparable(query: &str) -> String {
    match axql::parse(query) {
        Ok(query) => axql::Query { limit: None, ..query }.to_string(),
        Err(_) => query.trim().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(tool: &str, args: Value, result: Value) -> TranscriptStep {
        TranscriptStep { tool: tool.into(), args, result }
    }

    fn ran() -> RanQueries {
        let row = json!({ "?x": { "id": 2, "entity_type": "Node", "name": "b" } });
        RanQueries::from_transcript(&[
            step(
                RUN_TOOL,
                json!({ "query_ir_v1": {} }),
                json!({ "rows": [row], "query": "select ?x where ?x is Node limit 20" }),
            ),
            step(RUN_TOOL, json!({ "axql": "select ?y where ?y is File" }), json!({ "rows": [] })),
            step(RUN_TOOL, json!({ "axql": "select ?z where ?z is Tag" }), json!({ "error": { "message": "x" } })),
            step("semantic_search", json!({ "query": "hive" }), json!({ "hits": [] })),
        ])
    }

    fn proof(queries: &[&str], citations: &[&str]) -> Vec<String> {
        let texts = |it: &[&str]| it.iter().map(|it| it.to_string()).collect();
        let (queries, citations) = (texts(queries), texts(citations));
        ran().proof_of(&FinalAnswer { answer: "one".into(), citations, queries, notes: Vec::new() })
    }

    #[test]
    fn only_queries_that_ran_are_known() {
        let ran = ran();
        for query in [
            "select ?x where ?x is Node",
            "select  ?x where ?x is Node limit 5",
            "select ?y where ?y is File",
            " hive ",
        ] {
            assert!(ran.contains(query), "{query}");
        }
        for query in ["select ?z where ?z is Tag", "select ?x where ?x is Nodes", "hives", ""] {
            assert!(!ran.contains(query), "{query}");
        }
    }

    #[test]
    fn graph_queries_prove_an_answer_without_citations() {
        let (node, file) = ("select ?x where ?x is Node", "select ?y where ?y is File");
        assert_eq!(proof(&[node, "made up"], &[]), [node]);
        // A named query proves that there are no rows.
        assert_eq!(proof(&[file], &[]), [file]);
        assert_eq!(proof(&[], &[]), ["select ?x where ?x is Node limit 20"]);
        for (queries, citations) in [(vec!["made up"], vec![]), (vec!["hive"], vec![]), (vec![node], vec!["made up"])] {
            assert!(proof(&queries, &citations).is_empty(), "{queries:?} {citations:?}");
        }
        assert!(
            RanQueries::default().proof_of(&FinalAnswer { answer: "one".into(), ..FinalAnswer::default() }).is_empty()
        );
        assert!(ran().proof_of(&FinalAnswer::default()).is_empty(), "an empty answer needs no proof");
    }
}
