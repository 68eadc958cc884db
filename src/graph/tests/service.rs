//! Tests the graph service with imports only: import, removal, changes and restarts.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorCode, Result};
use crate::graph::import::text;
use crate::graph::service::{GraphService, incomplete_note};
use crate::model::{GraphChange, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphSource, Scope};

fn open(dir: &tempfile::TempDir) -> GraphService {
    GraphService::open(&dir.path().join("graph.sqlite"), None, CancellationToken::new()).unwrap()
}

fn import(name: &str, text: &str) -> GraphRequest {
    let format = if text.starts_with('{') { GraphFormat::Json } else { GraphFormat::Text };
    GraphRequest::Import(GraphImport { name: name.into(), format, text: text.into() })
}

async fn count(service: &GraphService, axql: &str) -> usize {
    let question = GraphQuestion { axql: Some(axql.into()), ..GraphQuestion::default() };
    service.query(&question).await.unwrap()["rows"].as_array().unwrap().len()
}

const FLOWS: &str = "select ?x where ?x is FLOW";

#[tokio::test]
async fn import_is_replaced_removed_and_survives_restart() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("a", "A.FL.001 -io-> B.FN.001\nC.FL.001 -io-> B.FN.001")).await.unwrap();
    service.request(import("b", "D.FL.001 -io-> B.FN.001")).await.unwrap();
    assert_eq!(count(&service, FLOWS).await, 3);
    let answer = service.request(import("a", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    assert_eq!(answer, json!({"name": "a", "nodes": 2, "edges": 1, "replaced": true}));
    assert_eq!(count(&service, FLOWS).await, 2);
    drop(service);
    let service = open(&dir);
    assert_eq!(count(&service, FLOWS).await, 2);
    service.request(GraphRequest::Forget { name: "a".into() }).await.unwrap();
    assert_eq!(count(&service, FLOWS).await, 1);
    let prose = "E.FL.001 -io-> B.FN.001\nThe hive weighed 31 kg.\n";
    let error = service.request(import("prose", prose)).await.unwrap_err();
    assert!(error.message.starts_with("line 2: found `The hive"), "{error}");
    assert_eq!(count(&service, FLOWS).await, 1, "a text with an invalid line is not imported");
    let error = service.request(GraphRequest::Forget { name: "bb".into() }).await.unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean `b`?"));
    let error = service.request(GraphRequest::Forget { name: "a".into() }).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn import_with_late_error_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("a", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    let good: String = (0..30_000).map(|it| format!("N{it}.FL.001 -io-> B.FN.001\n")).collect();
    let edge = |it: usize| json!({"source": format!("N{it}.FL.001"), "target": "B", "type": "io"});
    let mut wrong: Vec<_> = (0..30_000).map(edge).collect();
    wrong.push(json!({"source": "N.FL.001", "target": "", "type": "io"}));
    for text in [format!("{good}The hive weighed 31 kg.\n"), json!({"edges": wrong}).to_string()] {
        let error = service.request(import("a", &text)).await.unwrap_err();
        assert!(error.message.contains("line 30001") || error.message.contains("edges[30000].target"), "{error}");
        assert_eq!(count(&service, FLOWS).await, 1, "{error}");
    }
    drop(service);
    let service = open(&dir);
    assert_eq!(count(&service, FLOWS).await, 1);
    let answer = service.request(import("a", &good)).await.unwrap();
    assert_eq!(answer, json!({"name": "a", "nodes": 30_001, "edges": 30_000, "replaced": true}));
    drop(service);
    let edges = json!({"queryType": "edges"});
    let count = GraphRequest::Tool { name: "graph_query".into(), args: edges };
    assert_eq!(open(&dir).request(count).await.unwrap()["count"], 30_000, "all its parts are there after a restart");
}

#[tokio::test]
async fn change_is_atomic_and_needs_write_flag() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("a", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    let apply =
        |text: &str, write| GraphRequest::Apply(GraphChange { format: GraphFormat::Text, text: text.into(), write });
    let good = "B.FN.001 -io-> C.FL.001";
    assert_eq!(service.request(apply(good, false)).await.unwrap()["applied"], false);
    assert_eq!(count(&service, FLOWS).await, 1);
    let mixed = format!("{good}\nB.FN.001 -io-> A.FL.001");
    let answer = service.request(apply(&mixed, true)).await.unwrap();
    assert_eq!((&answer["applied"], answer["refused"].as_array().unwrap().len()), (&json!(false), 1));
    assert_eq!(count(&service, FLOWS).await, 1);
    assert_eq!(service.request(apply(good, true)).await.unwrap(), json!({"applied": true, "edges": 1, "refused": []}));
    assert_eq!(count(&service, FLOWS).await, 2);
    let answer = service.request(apply(good, true)).await.unwrap();
    assert_eq!(answer["refused"][0]["issue"], "duplicate");
}

#[tokio::test]
async fn data_stored_before_panic_appears_with_next_change() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("a", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    assert_eq!(count(&service, FLOWS).await, 1);
    let broken = service.shared.with_write_lock(|mut turn| -> Result<()> {
        let source = GraphSource { name: "import:b#0".into(), ..GraphSource::default() };
        turn.store(&[], vec![(source, text::parse("C.FL.001 -io-> B.FN.001")?)])?;
        panic!("in the middle of a change")
    });
    assert_eq!(broken.await.unwrap_err().code, ErrorCode::Internal);
    assert_eq!(count(&service, FLOWS).await, 1);
    service.request(import("d", "D.FL.001 -io-> B.FN.001")).await.unwrap();
    assert_eq!(count(&service, FLOWS).await, 3);
}

#[tokio::test]
async fn imports_are_hidden_from_scoped_caller() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("a", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    let other = service.with_scope(Scope::Folders(["/w".into()].into()));
    assert_eq!(count(&other, FLOWS).await, 0);
    assert!(import("a", "A -r-> B").writes() && !GraphRequest::Query(GraphQuestion::default()).writes());
}

#[tokio::test]
async fn tools_run_over_imports_and_report_missing_index() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    service.request(import("plan", "A.FL.001 -io-> B.FN.001")).await.unwrap();
    let call = async |name: &str, args| service.request(GraphRequest::Tool { name: name.into(), args }).await;
    let summary = call("db_summary", json!({})).await.unwrap();
    assert_eq!((&summary["nodes"], &summary["edges"], &summary["imports"]), (&json!(2), &json!(1), &json!(["plan"])));
    let run = call(
        "axql_run",
        json!({"query_ir_v1": {"version": 1, "where": [{"kind": "type", "term": "?x", "type": "FLOW"}]}, "limit": 25}),
    );
    let run = run.await.unwrap();
    assert_eq!(run["rows"][0]["?x"]["name"], "A");
    // The same rows in the form of the plugin protocol, with the query as text.
    assert_eq!(run["results"], json!({"vars": ["?x"], "rows": run["rows"], "truncated": false}));
    assert_eq!(run["query"], "select ?x where ?x is FLOW limit 25");
    let found = call("lookup_entity", json!({"name": "a"})).await.unwrap();
    assert_eq!(found["entities"][0]["key"], "A.FL.001");
    let entity = call("describe_entity", json!({"entity": "A.FL.001"})).await.unwrap();
    assert_eq!((&entity["out"][0]["relation"], &entity["out_count"]), (&json!("io"), &json!(1)));
    assert_eq!(call("describe_entity", json!({"entity": "FLOW#0"})).await.unwrap()["name"], "A");
    assert_eq!(call("lookup_type", json!({"name": "FLOW"})).await.unwrap()["count"], 1);
    assert_eq!(call("lookup_relation", json!({"name": "io"})).await.unwrap()["ends"], json!({"FLOW -> FUNC": 1}));
    assert_eq!(call("graph_query", json!({"queryType": "edges"})).await.unwrap()["count"], 1);
    assert!(
        call("viz_render", json!({"around": ["A"]})).await.unwrap()["text"].as_str().unwrap().starts_with("digraph")
    );
    assert!(call("quality_report", json!({})).await.unwrap()["issues"].is_array());
    let elaborated = call("axql_elaborate", json!({"axql": "select ?x where ?x is FLOW"})).await.unwrap();
    assert_eq!(elaborated["query_ir_v1"]["select"], json!(["?x"]));
    let wanted =
        json!([{"rel_type": "io", "source": "A", "target": "B"}, {"rel_type": "feeds", "source": "A", "target": "B"}]);
    let proposed = call("propose_relation_proposals", json!({"relations": wanted})).await.unwrap();
    assert_eq!(proposed["already_present"].as_array().unwrap().len(), 1);
    let text = proposed["proposals"].to_string();
    assert_eq!(count(&service, "select ?x where ?x -feeds-> _").await, 0, "a proposal is not an edge");
    let promoted = GraphImport { name: "p".into(), format: GraphFormat::Proposals, text };
    service.request(GraphRequest::Import(promoted)).await.unwrap();
    assert_eq!(count(&service, "select ?x where ?x -feeds-> _").await, 1);
    for (tool, args, code) in [
        ("semantic_search", json!({"query": "x"}), ErrorCode::FailedPrecondition),
        ("describe_entity", json!({"entity": "Z"}), ErrorCode::NotFound),
        ("axql_run", json!({}), ErrorCode::InvalidArgument),
        ("axql_run", json!({"axql": "select"}), ErrorCode::InvalidArgument),
        ("nothing", json!({}), ErrorCode::NotFound),
    ] {
        assert_eq!(call(tool, args).await.unwrap_err().code, code, "{tool}");
    }
}

#[tokio::test]
async fn invalid_graphs_are_refused_with_place() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(&dir);
    for (text, place) in [
        ("{\"nodes\": [{\"id\": 0, \"nam\": \"x\"}]}", "nodes[0].nam"),
        ("{\"edges\": [{\"source\": 7, \"target\": 8, \"type\": \"r\"}]}", "edges[0]"),
        (
            "{\"nodes\": [{\"id\": 0}, {\"id\": 1}], \"edges\": [{\"source\": 0, \"target\": 1, \"type\": \"r\", \"confidence\": 2}]}",
            "edges[0]",
        ),
        ("{\"nodes\": [", "nodes"),
        ("A -> B", ""),
    ] {
        let error = service.request(import("a", text)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}: {error}");
        assert!(error.field.unwrap_or_default().contains(place), "{text}");
    }
    assert_eq!(count(&service, "select ?x where ?x is Node").await, 0);
}

#[test]
fn missing_file_count_is_hidden_from_scoped_caller() {
    let some = Scope::Folders(["/w".into()].into());
    assert!(incomplete_note(&Scope::All, 4_321).contains("4321"));
    let told = incomplete_note(&some, 4_321);
    assert!(told.contains("being built") && !told.contains(|it: char| it.is_ascii_digit()), "{told}");
}
