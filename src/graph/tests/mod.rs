mod graph_query;
mod incremental;
mod near_names;
mod query_brute_force;
mod reference_examples;
mod service;
mod snapshot_merge;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::Result;
use crate::graph::import::{json_format, text};
use crate::graph::query::plan::TextResults;
use crate::graph::query::{answer, axql};
use crate::graph::snapshot::builder::Builder;
use crate::graph::snapshot::view::View;
use crate::model::{GraphPart, GraphSource, Scope};

/// Returns a view of a graph with one source for each part, numbered from 0.
pub(super) fn view_of(parts: Vec<GraphPart>) -> View {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    for node in parts.iter().flat_map(|it| &it.nodes) {
        let next = numbers.len() as u32;
        numbers.entry(node.key.clone()).or_insert(next);
    }
    let mut builder = Builder::default();
    for (number, part) in parts.into_iter().enumerate() {
        let source = GraphSource { name: format!("import:t#{number}"), ..GraphSource::default() };
        builder.add_source(number as i64, &source, part, |key| numbers.get(key).copied()).unwrap();
    }
    View::new(Arc::new(builder.build()), &Scope::All)
}

/// Returns the graph of an import in JSON form.
pub(super) fn graph(value: &Value) -> View {
    view_of(json_format::parse("t", &value.to_string()).unwrap())
}

/// Returns the graph of an import in text form.
pub(super) fn text_graph(text: &str) -> View {
    view_of(vec![text::parse(text).unwrap()])
}

/// Runs a query in AxQL and returns its result.
pub(super) fn query_json(view: &View, text: &str) -> Result<Value> {
    answer::run_query(view.clone(), &axql::parse(text)?, &TextResults::new(), false)
}

/// Returns the names in the rows of a query, the cells of a row joined by a space.
pub(super) fn row_names(view: &View, text: &str) -> Vec<String> {
    let value = query_json(view, text).unwrap_or_else(|error| panic!("{text}: {error} {:?}", error.hint));
    let vars: Vec<String> = value["vars"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().into()).collect();
    let row = |row: &Value| {
        let cells: Vec<&str> = vars.iter().map(|it| row[it]["name"].as_str().unwrap()).collect();
        cells.join(" ")
    };
    value["rows"].as_array().unwrap().iter().map(row).collect()
}

fn people() -> View {
    graph(&json!({
        "nodes": [
            {"id": 0, "type": "Person", "name": "Ada", "attributes": {"city": "Larkmouth", "motto": "Measure twice, cut once"}},
            {"id": 1, "type": "Person", "name": "Bob", "attributes": {"city": "Cinder Bay"}},
            {"id": 2, "type": "Person", "name": "Carol"},
            {"id": 3, "type": "Organization", "name": "Harbour Office"},
            {"id": 4, "type": "Robot", "name": "ada"}
        ],
        "edges": [
            {"source": 0, "target": 1, "type": "knows"}, {"source": 1, "target": 2, "type": "knows", "confidence": 0.4},
            {"source": 2, "target": 0, "type": "knows"}, {"source": 0, "target": 3, "type": "works_for"}
        ]
    }))
}

#[test]
fn atoms_match_reference_semantics() {
    let view = people();
    for (text, rows) in [
        ("select ?x where ?x is Person", vec!["Ada", "Bob", "Carol"]),
        ("select ?x where ?x : Person or ?x : Organization limit 10", vec!["Ada", "Bob", "Carol", "Harbour Office"]),
        ("select ?x where ?x.city = \"Larkmouth\"", vec!["Ada"]),
        ("select ?x where contains(?x, \"city\", \"BAY\")", vec!["Bob"]),
        ("select ?x where fts(?x, \"motto\", \"cut measure\")", vec!["Ada"]),
        ("select ?x where fts(?x, \"motto\", \"cut measured\")", vec![]),
        ("select ?x where fuzzy(?x, \"name\", \"carl\", 1)", vec!["Carol"]),
        ("select ?x where ?x has works_for", vec!["Ada"]),
        ("select ?x where has(?x, works_for, knows)", vec!["Ada"]),
        ("select ?x where attrs(?x, name=\"Bob\", city=\"Cinder Bay\")", vec!["Bob"]),
        ("select ?x where ?x { is Person, knows, name=\"Carol\" }", vec!["Carol"]),
        ("select ?x where ?x is Robot, _ { is Person, works_for, name=\"Ada\" }", vec!["ada"]),
        ("select ?x where ?x is Robot, _ { is Organization, works_for }", vec![]),
        ("select ?x where ?x is Robot, _ { is Person, works_for, name=\"Bob\" }", vec![]),
        ("select ?x where ?x is Robot, attrs(_, name=\"Ada\", city=\"Cinder Bay\")", vec![]),
        ("select ?y where 0 -knows/knows-> ?y", vec!["Carol"]),
        ("select ?y where Ada -knows-> ?y", vec!["Bob"]),
        ("select ?y where ada -knows-> ?y", vec![]),
        ("select ?y where BOB -knows-> ?y", vec!["Carol"]),
        ("select ?y where entity(\"city\", \"Larkmouth\") -works_for-> ?y", vec!["Harbour Office"]),
        ("select ?x where ?x -knows-> _, ?x -works_for-> _", vec!["Ada"]),
        ("select ?x where ?x -knows+-> ?x", vec!["Ada", "Bob", "Carol"]),
        ("select ?x where ?x -knows-> ?x", vec![]),
        ("select ?x ?y where ?x -knows-> ?y, ?y -knows-> Ada", vec!["Bob Carol"]),
        ("select ?y where 0 -knows+-> ?y min_conf 0.5", vec!["Bob"]),
        ("select ?y where 0 -knows*-> ?y max_hops 1", vec!["Ada", "Bob"]),
        ("select ?y where 0 -(knows|works_for)?-> ?y", vec!["Ada", "Bob", "Harbour Office"]),
        ("select ?x where ?x -knows*/works_for-> 3", vec!["Ada", "Bob", "Carol"]),
        ("select ?x where ?x is Missing", vec![]),
    ] {
        assert_eq!(row_names(&view, text), rows, "{text}");
    }
}

#[test]
fn answer_has_protocol_form_and_truncation_flag() {
    let value = query_json(&people(), "select ?x where ?x is Person limit 2").unwrap();
    assert_eq!(
        value,
        json!({"vars": ["?x"], "truncated": true, "rows": [
            {"?x": {"id": 0, "entity_type": "Person", "name": "Ada"}},
            {"?x": {"id": 1, "entity_type": "Person", "name": "Bob"}}
        ]})
    );
    assert_eq!(query_json(&people(), "select ?x where ?x is Person limit 3").unwrap()["truncated"], false);
}

#[test]
fn unknown_names_are_noted() {
    let notes = |text: &str| query_json(&people(), text).unwrap()["notes"].clone();
    assert_eq!(notes("select ?x where ?x is Persn"), json!(["the graph has no type `Persn`; did you mean `Person`?"]));
    assert_eq!(
        notes("select ?x where ?x { is Invoice, kows } or ?x -kows+-> _"),
        json!(["the graph has no type `Invoice`", "the graph has no relation `kows`; did you mean `knows`?"])
    );
    assert_eq!(notes("select ?x where ?x is Robot, ?x -knows-> _"), Value::Null, "no rows, and every name is known");
    let error = query_json(&people(), "select ?x where ?x is Person in Hearsay").unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("no fact of the graph has a context; leave `in` out"));
}

fn census() -> View {
    let field = |name: &str| json!({"name": name, "type": "Person"});
    graph(&json!({
        "schemas": [
            {"name": "Fam", "types": [{"name": "Agent"}, {"name": "Person", "supertypes": ["Agent"]}, {"name": "Place"}],
             "relations": [
                {"name": "Parent", "fields": [field("child"), field("parent")], "source_field": "child",
                 "target_field": "parent", "constraints": ["key(child, parent)"]},
                {"name": "livesIn", "fields": [field("who"), {"name": "where", "type": "Place"}]}]},
            {"name": "Census", "types": [{"name": "Household"}],
             "relations": [{"name": "Parent", "fields": [{"name": "child", "type": "Household"}, {"name": "parent", "type": "Household"}]}]}
        ],
        "nodes": [
            {"id": 0, "type": "Person", "name": "Alice"}, {"id": 1, "type": "Person", "name": "Bob"},
            {"id": 2, "type": "Person", "name": "Carol"}, {"id": 3, "type": "Place", "name": "Larkmouth"},
            {"id": 4, "type": "Household", "name": "East"}, {"id": 5, "type": "Household", "name": "West"}
        ],
        "edges": [{"source": 2, "target": 3, "type": "livesIn"}],
        "facts": [
            {"relation": "Parent", "schema": "Fam", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"], "times": ["T2023"]},
            {"relation": "Parent", "schema": "Fam", "fields": {"child": "Carol", "parent": "Alice"}, "contexts": ["Hearsay"], "confidence": 0.3},
            {"relation": "Parent", "schema": "Census", "fields": {"child": "West", "parent": "East"}}
        ]
    }))
}

#[test]
fn facts_contexts_and_schemas_filter_rows() {
    let view = census();
    for (text, rows) in [
        ("select ?f where ?f = Parent(child=Carol) in CensusData", vec!["Parent(child=t#2, parent=t#1)"]),
        ("select ?y where Parent(child=Carol, parent=?y)", vec!["Alice", "Bob"]),
        ("select ?y where Parent(child=Carol, parent=?y) in {Hearsay}", vec!["Alice"]),
        ("select ?y where Parent(child=Carol, parent=?y) min_conf 0.5", vec!["Bob"]),
        ("select ?x where Fam.Parent(child=?x)", vec!["Carol"]),
        ("select ?x where Census.Parent(child=?x)", vec!["West"]),
        ("select ?x ?y where ?x -Fam.Parent-> ?y", vec!["Carol Alice", "Carol Bob"]),
        ("select ?x ?y where ?x -Fam.Parent-> ?y in CensusData", vec!["Carol Bob"]),
        ("select ?x ?y where ?x -Census.Parent-> ?y", vec!["West East"]),
        ("select ?x where ?x is Agent", vec!["Alice", "Bob", "Carol"]),
        ("select ?x where ?x is Fam.Agent, ?x -livesIn-> _", vec!["Carol"]),
    ] {
        assert_eq!(row_names(&view, text), rows, "{text}");
    }
}

#[test]
fn schema_adds_types_and_refuses_contradictions() {
    let view = census();
    let value = answer::elaborate_only(&view, &axql::parse("select ?x where ?x -livesIn-> ?y").unwrap()).unwrap();
    assert_eq!(value["axql"], "select ?x where ?x -livesIn-> ?y, ?x is Fam.Person, ?y is Fam.Place");
    assert_eq!(value["query_ir_v1"]["where"][2]["type"], "Fam.Place");
    for (text, message, hint) in [
        ("select ?x where ?x is Place, ?x -livesIn-> _", "`?x` would be a `Place`", None),
        ("select ?x where ?x is Persn", "the type `Persn`", Some("did you mean `Person`?")),
        ("select ?x where ?x -livesInn-> _", "the relation `livesInn`", Some("did you mean `livesIn`?")),
        ("select ?x where Fam.Parent(chld=?x)", "the field `chld`", Some("did you mean `child`?")),
        ("select ?x where ?x is Person in CensusDat", "the context `CensusDat`", Some("did you mean `CensusData`?")),
    ] {
        let error = query_json(&view, text).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error}");
        if let Some(hint) = hint {
            assert!(error.hint.as_ref().unwrap().contains(hint), "{text}: {:?}", error.hint);
        }
    }
}

#[test]
fn exported_graph_round_trips_through_import() {
    for view in [people(), census(), text_graph("A.FL.001 -io-> B.FN.001\nA.FL.001 -io-> B.FN.001")] {
        let all = |view: &View| {
            let extent = super::export::select_extent(view, &crate::model::GraphExtent::default(), 1_000).unwrap();
            super::export::to_json(view, &extent)
        };
        let first = all(&view);
        assert_eq!(all(&graph(&first)), first);
    }
}

#[test]
fn out_of_scope_data_is_in_no_result() {
    let part = |keys: &[&str], edges: &[(&str, &str)]| GraphPart {
        nodes: keys.iter().map(|it| text::node_of_id(it)).collect(),
        edges: edges
            .iter()
            .map(|(source, target)| crate::model::GraphEdge {
                relation: "r".into(),
                source: (*source).into(),
                target: (*target).into(),
                confidence: 1.0,
                ..crate::model::GraphEdge::default()
            })
            .collect(),
        ..GraphPart::default()
    };
    let mut builder = Builder::default();
    let number = |key: &str| Some(key.bytes().map(u32::from).sum());
    let source = |path: &str| GraphSource { name: format!("file:{path}"), path: path.into(), ..GraphSource::default() };
    builder.add_source(1, &source("/w/a/x"), part(&["x", "shared"], &[("x", "shared"), ("x", "y")]), number).unwrap();
    builder.add_source(2, &source("/w/b/y"), part(&["y", "shared"], &[("y", "shared"), ("y", "x")]), number).unwrap();
    builder
        .add_source(3, &GraphSource { name: "import:i#0".into(), ..GraphSource::default() }, part(&["z"], &[]), number)
        .unwrap();
    let snapshot = Arc::new(builder.build());
    let view = |scope: &Scope| View::new(snapshot.clone(), scope);
    let all = "select ?x where ?x is Node";
    assert_eq!(row_names(&view(&Scope::All), all).len(), 4);
    let mine = view(&Scope::Folders(["/w/a".into()].into()));
    assert_eq!(row_names(&mine, all).len(), 2);
    assert_eq!(row_names(&mine, "select ?x ?y where ?x -r-> ?y"), ["x shared"]);
    assert!(
        row_names(&mine, "select ?y where x -r/r-> ?y").is_empty()
            && row_names(&mine, "select ?y where y -r-> ?y").is_empty()
    );
    let summary = crate::graph::tools::describe::summary(&mine);
    assert_eq!((&summary["nodes"], &summary["edges"], &summary["imports"]), (&json!(2), &json!(1), &json!([])));
    let edges = crate::graph::tools::graph_query::run(&mine, json!({"queryType": "edges"})).unwrap();
    assert_eq!(edges["count"], 1);
}

#[test]
fn entity_names_are_escaped_in_drawings() {
    let evil = "</script><img src=x onerror=alert(1)>\"];\u{202e}";
    let view = graph(
        &json!({"nodes": [{"id": 0, "type": "T", "name": evil}], "edges": [{"source": 0, "target": 0, "type": evil}]}),
    );
    let extent = super::export::select_extent(&view, &crate::model::GraphExtent::default(), 10).unwrap();
    let page = crate::graph::export::drawing::html(&view, &extent).unwrap();
    assert_eq!(page.matches("</script").count(), 1, "only the page's own");
    assert!(!page.contains("<img") && page.contains("\\u003cimg"));
    let dot = crate::graph::export::drawing::dot(&view, &extent);
    assert!(dot.contains("\\\"];") && dot.lines().count() == 6, "{dot}");
}
