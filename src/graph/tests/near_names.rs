//! Tests how requests name entities, types and relations: near names of unknown ones, ids as vic prints them, patterns, and
//! the warnings about a change.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode};
use crate::graph::node_names;
use crate::graph::query::plan::TextResults;
use crate::graph::query::{answer, axql, ir};
use crate::graph::service::GraphService;
use crate::graph::snapshot::view::View;
use crate::graph::tests::{graph, people, query_json, row_names, text_graph};
use crate::graph::tools::{self, describe, graph_query, propose};
use crate::model::{
    AXQL_HELP, GraphChange, GraphExtent, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape, Scope,
};

/// Returns a graph of functions and flows; the numbers of its entities are 0 to 4, in the order of the text.
fn flows() -> View {
    text_graph(
        "SubmitPRD.FN.001 -io-> Feedback.FL.001\nFeedback.FL.001 -io-> ReviewPRD.FN.001\n\
         Chain.FC.001 -compose-> SubmitPRD.FN.001\nChain.FC.001 -compose-> ReviewPRD.FN.001\nHive notes -io-> Feedback.FL.001",
    )
}

fn ask(view: &View, query: &str, filters: Value) -> Value {
    graph_query::run(view, json!({"queryType": query, "filters": filters})).unwrap()
}

#[test]
fn unknown_names_of_graph_query_get_near_ones() {
    let view = flows();
    for (query, filters, note) in [
        (
            "edges",
            json!({"semanticId": "SumbitPRD.FN.001"}),
            "there is no node `SumbitPRD.FN.001`; near: `SubmitPRD.FN.001` (FUNC#0)",
        ),
        ("edges", json!({"edgeType": "oi"}), "there is no edge type `oi`; near: `io`"),
        ("edges", json!({"sourceType": "FLWO"}), "there is no node type `FLWO`; near: `FLOW`"),
        ("nodes", json!({"nodeType": "FUNCTON"}), "there is no node type `FUNCTON`; near: `FUNCTION`"),
        ("nodes", json!({"nodeType": "Invoice"}), "there is no node type `Invoice`"),
        (
            "nodes",
            json!({"semanticId": "Chian.FC.001"}),
            "there is no node `Chian.FC.001`; near: `Chain.FC.001` (FCHAIN#3)",
        ),
        ("nodes", json!({"semanticId": "hive note"}), "there is no node `hive note`; near: `Hive notes` (Node#4)"),
    ] {
        let answer = ask(&view, query, filters.clone());
        assert_eq!((&answer["count"], &answer["notes"]), (&json!(0), &json!([note])), "{query} {filters}");
    }
    let ends = json!({"semanticId": "SubmitPR.FN.001", "targetId": "Feedbak.FL.001", "edgeType": "ioo"});
    let answer = ask(&view, "check_edge", ends);
    assert_eq!(
        answer,
        json!({"exists": false, "notes": [
            "there is no node `SubmitPR.FN.001`; near: `SubmitPRD.FN.001` (FUNC#0)",
            "there is no node `Feedbak.FL.001`; near: `Feedback.FL.001` (FLOW#1)",
            "there is no edge type `ioo`; near: `io`"
        ]})
    );
    let known = ask(&view, "edges", json!({"semanticId": "Chain.FC.001", "edgeType": "io"}));
    assert_eq!(known, json!({"count": 0, "edges": []}), "an empty answer about known names has no note");
}

#[test]
fn names_that_begin_with_unknown_one_are_near() {
    let told = |name: &str| node_names::unknown_nodes(&flows(), &[name]).concat();
    assert_eq!(told("Feed"), "there is no node `Feed`; near: `Feedback.FL.001` (FLOW#1)");
    assert_eq!(told("Fe"), "there is no node `Fe`");
    assert_eq!(told("FLOW#0"), "there is no node `FLOW#0`; near: `SubmitPRD.FN.001` (FUNC#0)", "another type");
    assert_eq!(
        told("Chain.FC.001 (FCHAIN#77)"),
        "there is no node `Chain.FC.001 (FCHAIN#77)`; near: `Chain.FC.001` (FCHAIN#3)"
    );
    let long = told(&"long".repeat(1_000));
    assert!(long.len() < 120 && long.ends_with("…`"), "{long}");
}

#[test]
fn unknown_nodes_of_query_are_noted() {
    let notes = |text: &str| query_json(&people(), text).unwrap()["notes"].clone();
    assert_eq!(
        notes("select ?x where ?x -knows-> Caro, ?x -works_for-> 99"),
        json!(["there is no node `Caro`; near: `Carol` (Person#2)", "there is no node `99`"])
    );
    let error = describe::describe_entity(&people(), "Bbo").unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::NotFound, "there is no node `Bbo`; near: `Bob` (Person#1)")
    );
    let error = describe::describe_type(&people(), "Persn").unwrap_err();
    assert_eq!(error.message, "there is no node type `Persn`; near: `Person`");
    let error = describe::describe_relation(&people(), "know").unwrap_err();
    assert_eq!(error.message, "there is no edge type `know`; near: `knows`");
    let found = describe::find_by_name(&people(), "Ada", Some("Persn"), 5);
    assert_eq!(found["notes"], json!(["there is no node type `Persn`; near: `Person`"]));
}

/// Runs a query in JSON form, and returns the names in its rows.
fn ir_names(view: &View, form: &Value) -> Vec<String> {
    let query = ir::parse(form).unwrap_or_else(|error| panic!("{form}: {error}"));
    row_names(view, &query.to_string())
}

#[test]
fn printed_ids_denote_their_entities() {
    let view = flows();
    for id in [
        "FUNC#0",
        "FN#0",
        "SubmitPRD (FUNC#0)",
        "SubmitPRD.FN.001 (FUNC#0)",
        "`SubmitPRD.FN.001` (FUNC#0)",
        " FUNC#0 ",
        "SubmitPRD.FN.001",
        "SubmitPRD",
        "submitprd",
    ] {
        let edge = ask(&view, "check_edge", json!({"semanticId": id, "targetId": "Feedback (FLOW#1)"}));
        assert_eq!(edge["edge"]["source"], "SubmitPRD.FN.001", "{id}: {edge}");
        assert_eq!(ask(&view, "edges", json!({"semanticId": id}))["count"], 2, "{id}");
        assert_eq!(ask(&view, "nodes", json!({"semanticId": id}))["count"], 1, "{id}");
        assert_eq!(describe::describe_entity(&view, id).unwrap()["id"], 0, "{id}");
        assert_eq!(row_names(&view, &format!("select ?x where \"{id}\" -io-> ?x")), ["Feedback"], "{id}");
        let edge = json!({"kind": "edge", "left": id, "path": "io", "right": "?x"});
        assert_eq!(ir_names(&view, &json!({"version": 1, "where": [edge]})), ["Feedback"], "{id}");
        let extent = GraphExtent { around: vec![id.into()], hops: Some(0), ..GraphExtent::default() };
        assert_eq!(crate::graph::export::select_extent(&view, &extent, 9).unwrap().nodes, [0], "{id}");
        let wanted = json!([{"rel_type": "io", "source": id, "target": "FLOW#1"}]);
        assert_eq!(propose::propose_relations(&view, &wanted).unwrap()["already_present"][0]["source"], id);
    }
    assert_eq!(row_names(&view, "select ?x where FUNC#0 -io-> ?x"), ["Feedback"]);
    let cell = query_json(&view, "select ?x where ?x is FCHAIN").unwrap()["rows"][0]["?x"].clone();
    let edge = json!({"kind": "edge", "left": cell, "path": "compose", "right": "?x"});
    assert_eq!(ir_names(&view, &json!({"version": 1, "where": [edge]})), ["SubmitPRD", "ReviewPRD"]);
    for wrong in ["FLOW#0", "Feedback (FUNC#0)", "FUNC#99", "#0", "FUNC#x"] {
        assert_eq!(describe::describe_entity(&view, wrong).unwrap_err().code, ErrorCode::NotFound, "{wrong}");
    }
    let chain = ask(&view, "io_chain", json!({"fchainId": "Chain (FCHAIN#3)"}));
    assert_eq!(chain["chain"][0]["flow"], "Feedback.FL.001");
}

#[test]
fn ambiguous_name_lists_ids_that_are_accepted() {
    let view = graph(&json!({"nodes": [{"id": 0, "type": "A", "name": "x"}, {"id": 1, "type": "B", "name": "x"}]}));
    let error = describe::describe_entity(&view, "x").unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.hint.as_deref()),
        ("2 entities are named `x`", Some("use an id: `A#0`, `B#1`"))
    );
    assert_eq!(describe::describe_entity(&view, "B#1").unwrap()["entity_type"], "B");
}

#[test]
fn person_known_by_address_has_display_name() {
    let view = graph(&json!({"nodes": [
        {"id": 0, "type": "Person", "name": "ada@x.org", "attributes": {"called": "Ada L"}}, {"id": 1, "type": "File", "name": "m.eml"}
    ], "edges": [{"source": 1, "target": 0, "type": "authored_by"}]}));
    assert_eq!(describe::describe_entity(&view, "ada@x.org").unwrap()["called"], "Ada L");
    assert_eq!(describe::find_by_name(&view, "Ada L", Some("Person"), 9)["entities"][0]["name"], "ada@x.org");
    let file = describe::describe_entity(&view, "m.eml").unwrap();
    assert_eq!((&file["called"], &file["out"][0]["entity"]["called"]), (&json!(null), &json!("Ada L")));
    let edge = json!({"kind": "edge", "left": "?x", "path": "authored_by", "right": file["out"][0]["entity"]});
    assert_eq!(ir_names(&view, &json!({"version": 1, "where": [edge]})), ["m.eml"]);
}

#[test]
fn name_that_looks_like_id_means_itself() {
    let node = |id: u32, name: &str| json!({"id": id, "type": "Chunk", "name": name});
    let view = graph(&json!({"nodes": [node(0, "bees.md#1"), node(1, "Chunk#0")]}));
    assert_eq!(describe::describe_entity(&view, "bees.md#1").unwrap()["id"], 0);
    assert_eq!(describe::describe_entity(&view, "Chunk#0").unwrap()["id"], 1, "the name precedes the id");
    assert_eq!(row_names(&view, "select ?x where ?x is Chunk, attr(?x, \"name\", \"bees.md#1\")"), ["bees.md#1"]);
    let answer =
        answer::run_query(view, &axql::parse("select ?x where bees.md#1 -r-> ?x").unwrap(), &TextResults::new(), false);
    assert!(!answer.unwrap()["notes"].to_string().contains("no node"), "the name is known");
}

#[test]
fn name_pattern_filters_nodes_and_edges() {
    let view = flows();
    let names = |filters: Value| {
        let answer = ask(&view, "nodes", filters);
        answer["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(json!({"namePattern": "prd"})), ["SubmitPRD", "ReviewPRD"]);
    assert_eq!(names(json!({"namePattern": "submit*"})), ["SubmitPRD"]);
    assert_eq!(names(json!({"namePattern": "*.FL.*"})), ["Feedback"]);
    assert_eq!(names(json!({"namePattern": ".*prd", "nodeType": "FUNC"})), ["SubmitPRD", "ReviewPRD"]);
    assert_eq!(names(json!({"namePattern": "prd", "nodeType": "FLOW"})), [""; 0]);
    assert_eq!(ask(&view, "edges", json!({"namePattern": "hive*"}))["edges"][0]["source"], "Hive notes");
    let regex = ask(&view, "nodes", json!({"namePattern": "^Submit$"}));
    assert!(regex["notes"][0].as_str().unwrap().contains("not a regular expression"), "{regex}");
    for (query, instead) in [("check_edge", "semanticId"), ("io_chain", "fchainId")] {
        let args = json!({"queryType": query, "filters": {"namePattern": "x"}});
        let error = graph_query::run(&view, args).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("filters.namePattern"));
        assert!(error.hint.unwrap().contains(instead), "{query}");
    }
}

#[test]
fn wrapped_json_query_equals_bare_one() {
    let bare = json!({"version": 1, "where": [{"kind": "type", "term": "?x", "type": "Person"}], "limit": 2});
    let wrapped = json!({"query_ir_v1": bare, "notes": ["written by a model"]});
    assert_eq!(ir::parse(&wrapped), ir::parse(&bare));
    assert_eq!(ir_names(&people(), &wrapped), ["Ada", "Bob"]);
    let question = GraphQuestion { ir: Some(wrapped), ..GraphQuestion::default() };
    assert_eq!(answer::parse_question(&question).unwrap().limit, Some(2));
    for (wrong, message) in [
        (json!({"query_ir_v1": bare, "qurey": 1}), "found the field `qurey`"),
        (json!({"query_ir_v1": null}), "query_ir_v1: found null, expected an object"),
        (json!({"query_ir_v1": {"query_ir_v1": bare}}), "found the field `query_ir_v1`"),
        (json!([bare]), "expected an object"),
    ] {
        let error = ir::parse(&wrong).unwrap_err();
        assert!(error.message.contains(message), "{wrong}: {error}");
    }
    let error = axql::parse(&bare.to_string()).unwrap_err();
    assert!(error.hint.unwrap().contains("--ir"), "JSON instead of AxQL");
}

/// Opens a service with the graph of [`flows`].
async fn service(dir: &tempfile::TempDir) -> GraphService {
    let service = GraphService::open(&dir.path().join("graph.sqlite"), None, CancellationToken::new()).unwrap();
    let text = "SubmitPRD.FN.001 -io-> Feedback.FL.001\nFeedback.FL.001 -io-> ReviewPRD.FN.001\n".into();
    let import = GraphImport { name: "flows".into(), format: GraphFormat::Text, text };
    service.request(GraphRequest::Import(import)).await.unwrap();
    service
}

async fn apply(service: &GraphService, text: &str, write: bool) -> Result<Value, Error> {
    let format = if text.starts_with('{') { GraphFormat::Json } else { GraphFormat::Text };
    service.request(GraphRequest::Apply(GraphChange { format, text: text.into(), write })).await
}

#[tokio::test]
async fn change_lists_new_nodes_that_look_like_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir).await;
    let answer = apply(&service, "SumbitPRD.FN.001 -io-> Verdict.FL.001", false).await.unwrap();
    let similar = json!([{"node": "SumbitPRD.FN.001", "near": ["SubmitPRD.FN.001 (FUNC#0)"]}]);
    assert_eq!(answer, json!({"applied": false, "edges": 1, "refused": [], "similar_nodes": similar}));
    let known =
        apply(&service, "Verdict.FL.001 -io-> SubmitPRD.FN.001\nSubmitPRD.FN.002 -io-> Verdict.FL.001", false).await;
    assert_eq!(known.unwrap(), json!({"applied": false, "edges": 2, "refused": []}), "another number is meant");
    let json = json!({"nodes": [{"id": "f1", "type": "FLOW", "name": "feedback"}]}).to_string();
    let answer = apply(&service, &json, true).await.unwrap();
    assert_eq!(answer["similar_nodes"], json!([{"node": "f1", "near": ["Feedback.FL.001 (FLOW#1)"]}]));
    assert_eq!(answer["applied"], true, "the list is no refusal");
    let many: String = (0..300).map(|it| format!("Other{it}.FN.001 -io-> Next{it}.FL.001\n")).collect();
    let answer = apply(&service, &many, false).await.unwrap();
    assert!(answer["warnings"][0].as_str().unwrap().contains("too many new nodes"), "{answer}");
}

#[tokio::test]
async fn change_warns_of_direct_io_and_near_types() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir).await;
    let warnings = async |text: &str| apply(&service, text, false).await.unwrap()["warnings"].clone();
    assert_eq!(
        warnings("ReviewPRD.FN.001 -io-> Publish.FN.001\nReviewPRD.FN.001 -compose-> Publish.FN.001").await,
        json!([
            "`ReviewPRD.FN.001 -io-> Publish.FN.001` leads from a FUNC straight to a FUNC: put a FLOW between them"
        ])
    );
    assert_eq!(warnings("ReviewPRD.FN.001 -io-> Verdict.FL.001").await, Value::Null);
    let odd = json!({
        "nodes": [{"id": "v", "type": "FLWO", "name": "Verdict"}],
        "edges": [{"source": "ReviewPRD.FN.001", "target": "v", "type": "ioo"}]
    });
    assert_eq!(
        warnings(&odd.to_string()).await,
        json!(["the node type `FLWO` is new; near: `FLOW`", "the edge type `ioo` is new; near: `io`"])
    );
    let many: String = (0..25).map(|it| format!("ReviewPRD.FN.001 -io-> P{it}.FN.001\n")).collect();
    let told = warnings(&many).await;
    assert_eq!(told.as_array().unwrap().len(), 21);
    assert_eq!(told[20], "5 more io edges lead from a FUNC straight to a FUNC");
}

#[tokio::test]
async fn change_takes_printed_ids_and_names_near_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir).await;
    let text = "ReviewPRD (FUNC#2) -io-> Verdict.FL.001\nVerdict.FL.001 -io-> Publish.FN.001\nFUNC#0 -cites-> FLOW#1\n";
    let answer = apply(&service, text, true).await.unwrap();
    assert_eq!((&answer["applied"], &answer["edges"]), (&json!(true), &json!(3)), "{answer}");
    let question = |axql: &str| GraphQuestion { axql: Some(axql.into()), ..GraphQuestion::default() };
    let rows = service.query(&question("select ?x ?y where ?x -cites-> ?y")).await.unwrap()["rows"].clone();
    assert_eq!((&rows[0]["?x"]["name"], &rows[0]["?y"]["name"]), (&json!("SubmitPRD"), &json!("Feedback")));
    let count = GraphRequest::Tool { name: "graph_query".into(), args: json!({"queryType": "nodes"}) };
    assert_eq!(service.request(count).await.unwrap()["count"], 5, "no node is called by an id");
    let error = apply(&service, "FUNC#1 -io-> Verdict.FL.001", true).await.unwrap_err();
    assert_eq!(error.message, "there is no node `FUNC#1`; near: `Feedback.FL.001` (FLOW#1)");
    let edge = json!({"edges": [{"source": "SumbitPRD.FN.001", "target": "FLOW#1", "type": "io"}]}).to_string();
    let refused = apply(&service, &edge, true).await.unwrap()["refused"][0].clone();
    assert_eq!(refused["reason"], "there is no node `SumbitPRD.FN.001`; near: `SubmitPRD.FN.001` (FUNC#0)");
    let issues = apply(&service, "Issue#12 -blocks-> Issue#13", true).await.unwrap();
    assert_eq!(issues["applied"], true, "a name that looks like an id of a type that the graph does not have");
}

#[tokio::test]
async fn near_names_stay_within_scope_of_caller() {
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir).await;
    let other = service.with_scope(Scope::Folders(["/w".into()].into()));
    let call = async |name: &str, args| {
        let told = other.request(GraphRequest::Tool { name: name.into(), args }).await;
        told.map_or_else(|error| format!("{} {:?}", error.message, error.hint), |it| it.to_string())
    };
    for (tool, args) in [
        ("describe_entity", json!({"entity": "FeedbackX"})),
        ("describe_entity", json!({"entity": "FLOW#1"})),
        ("lookup_type", json!({"name": "FLO"})),
        ("lookup_relation", json!({"name": "oi"})),
        ("graph_query", json!({"queryType": "nodes", "filters": {"semanticId": "Feedbac.FL.001", "nodeType": "FLO"}})),
        ("graph_query", json!({"queryType": "edges", "filters": {"edgeType": "oi"}})),
        ("axql_run", json!({"axql": "select ?x where Feedbac -r-> ?x"})),
    ] {
        let told = call(tool, args).await;
        assert!(told.contains("there is no") && !told.contains("near"), "{tool}: {told}");
    }
    let drawn = GraphExtent { types: vec!["FLO".into()], relations: vec!["oi".into()], ..GraphExtent::default() };
    let notes = |answer: Value| answer["notes"].clone();
    let draw = |it: &GraphExtent| GraphRequest::Draw(GraphShape::Dot, it.clone());
    assert_eq!(
        notes(service.request(draw(&drawn)).await.unwrap()),
        json!(["there is no node type `FLO`; near: `FL`, `FLOW`", "there is no edge type `oi`; near: `io`"])
    );
    assert_eq!(
        notes(other.request(draw(&drawn)).await.unwrap()),
        json!(["there is no node type `FLO`", "there is no edge type `oi`"])
    );
}

#[tokio::test]
async fn grammar_fits_screen_and_its_examples_parse() {
    assert!(AXQL_HELP.lines().count() <= 40 && AXQL_HELP.lines().all(|it| it.chars().count() <= 80));
    let examples: Vec<&str> = AXQL_HELP.lines().filter_map(|it| it.strip_prefix("  select ")).skip(1).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        axql::parse(&format!("select {example}")).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
    for atom in [
        "?x is File",
        "?x : File",
        "?x -links_to-> ?y",
        "?x has links_to",
        "has(?x, r, s)",
        "?x.title = \"Plan\"",
        "attr(?x, \"title\", \"Plan\")",
        "attrs(?x, a=\"1\", b=\"2\")",
        "contains(?x, \"name\", \"plan\")",
        "fts(?x, \"text\", \"notice rent\")",
        "fuzzy(?x, \"name\", \"paln\", 2)",
        "?x { is File, links_to, name=\"plan.md\" }",
        "Parent(child=?x, parent=Ada)",
        "?f = Parent(child=?x)",
    ] {
        assert!(AXQL_HELP.contains(atom), "{atom}");
        axql::parse(&format!("select ?x where {atom}")).unwrap_or_else(|error| panic!("{atom}: {error}"));
    }
    for term in [
        "7",
        "File#7",
        "\"plan.md (File#7)\"",
        "Ada",
        "\"plan.md\"",
        "name(\"plan.md\")",
        "entity(\"city\", \"Larkmouth\")",
    ] {
        assert!(AXQL_HELP.contains(term), "{term}");
        axql::parse(&format!("select ?x where {term} -r-> ?x")).unwrap_or_else(|error| panic!("{term}: {error}"));
    }
    for clause in ["in C", "in {C, D}", "max_hops N", "min_conf X", "limit N"] {
        assert!(AXQL_HELP.contains(clause), "{clause}");
    }
    let dir = tempfile::tempdir().unwrap();
    let told = tools::call_tool(&service(&dir).await, "axql_help", json!({}), Scope::All).await.unwrap();
    assert_eq!(told["grammar"], AXQL_HELP);
}
