//! After any sequence of changes, the graph must equal a graph built from the final state, and a rebuild from the store.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::graph::snapshot::view::View;
use crate::graph::tools::{describe, graph_query};
use crate::graph::{GraphService, export};
use crate::model::{GraphExtent, GraphFormat, GraphImport, GraphRequest, Scope};

/// An edge: source, relation, target.
type Line = (u8, u8, u8);

#[derive(Clone, Debug)]
enum Change {
    /// Creates the import with this name, or replaces it.
    Import(u8, Vec<Line>),
    /// Deletes the import with this name, if it exists.
    Forget(u8),
    /// Restarts the graph service.
    Restart,
}

fn change() -> impl Strategy<Value = Change> {
    let lines = prop::collection::vec((0u8..6, 0u8..3, 0u8..6), 1..6);
    prop_oneof![
        5 => (0u8..4, lines).prop_map(|(name, lines)| Change::Import(name, lines)),
        2 => (0u8..4).prop_map(Change::Forget),
        1 => Just(Change::Restart),
    ]
}

fn line_texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|(source, relation, target)| format!("n{source} -r{relation}-> n{target}")).collect()
}

fn open(path: &Path) -> GraphService {
    GraphService::open(path, None, CancellationToken::new()).unwrap()
}

fn view(runtime: &Runtime, service: &GraphService) -> View {
    View::new(runtime.block_on(service.snapshot()).unwrap(), &Scope::All)
}

/// Returns the whole content of a snapshot as JSON.
fn content(view: &View) -> Value {
    let extent = export::select_extent(view, &GraphExtent::default(), 1_000).unwrap();
    json!({"graph": export::to_json(view, &extent), "summary": describe::summary(view)})
}

/// Returns the edges of a view as sorted lines.
fn lines(view: &View) -> Vec<String> {
    let edges = graph_query::run(view, json!({"queryType": "edges"})).unwrap()["edges"].clone();
    let text = |edge: &Value, field: &str| edge[field].as_str().unwrap().to_string();
    let line = |it: &Value| format!("{} -{}-> {}", text(it, "source"), text(it, "type"), text(it, "target"));
    let mut lines: Vec<String> = edges.as_array().unwrap().iter().map(line).collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn graph_after_changes_equals_final_state(changes in prop::collection::vec(change(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph.sqlite");
        let mut service = open(&path);
        let mut stated: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Import(name, lines) => {
                    let text = line_texts(&lines).join("\n");
                    let import = GraphImport { name: format!("i{name}"), format: GraphFormat::Text, text };
                    runtime.block_on(service.request(GraphRequest::Import(import))).unwrap();
                    stated.insert(name, line_texts(&lines));
                }
                Change::Forget(name) => {
                    let forgotten = runtime.block_on(service.request(GraphRequest::Forget { name: format!("i{name}") }));
                    prop_assert_eq!(forgotten.is_ok(), stated.remove(&name).is_some());
                }
                Change::Restart => {
                    drop(service);
                    service = open(&path);
                }
            }
            let mut expected: Vec<String> = stated.values().flatten().cloned().collect();
            expected.sort_unstable();
            prop_assert_eq!(lines(&view(&runtime, &service)), expected);
        }
        let before = content(&view(&runtime, &service));
        drop(service);
        prop_assert_eq!(content(&view(&runtime, &open(&path))), before, "a rebuild gives the same graph");
    }
}
