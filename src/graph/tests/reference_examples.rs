//! Runs the examples of queries, tools and proposals in the reference and the protocol document, unchanged.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::graph::import::proposals;
use crate::graph::query::plan::TextResults;
use crate::graph::query::{answer, ir};
use crate::graph::snapshot::view::View;
use crate::graph::tests::{graph, query_json, row_names};
use crate::graph::tools::{self, graph_query};

/// Returns the graph of the examples: a cycle of three nodes, some people, an office, and a fact from a census.
fn example() -> View {
    let node = |id: u32, kind: &str, name: &str| json!({"id": id, "type": kind, "name": name});
    let edge = |source: u32, kind: &str, target: u32| json!({"source": source, "type": kind, "target": target});
    let mut nodes = vec![
        node(0, "Node", "a"),
        node(1, "Node", "b"),
        node(2, "Node", "c"),
        node(3, "Node", "node_42"),
        node(4, "Person", "Carol"),
        node(5, "Person", "Alice"),
        node(6, "Organization", "Harbour Office"),
    ];
    nodes[2]["attributes"] = json!({"k": "v", "text": "some words of c"});
    graph(&json!({
        "nodes": nodes,
        "edges": [edge(0, "rel_0", 1), edge(1, "rel_1", 2), edge(2, "rel_0", 0), edge(3, "rel_0", 0), edge(3, "rel_1", 3)],
        "facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Alice"}, "contexts": ["CensusData"]}]
    }))
}

/// Returns the names in the rows of a query in JSON form with one atom.
fn atom_names(view: &View, atom: &Value) -> Vec<String> {
    ir_names(view, &json!({"version": 1, "select": ["?x"], "where": [atom]}))
}

/// Returns the names in the rows of a query in JSON form.
fn ir_names(view: &View, value: &Value) -> Vec<String> {
    let query = ir::parse(value).unwrap_or_else(|error| panic!("{value}: {error}"));
    let rows = answer::run_query(view.clone(), &query, &TextResults::new(), false).unwrap()["rows"].clone();
    rows.as_array().unwrap().iter().map(|row| row["?x"]["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn reference_queries_run() {
    let view = example();
    for (text, rows) in [
        ("select ?y where 0 -rel_0/rel_1-> ?y", vec!["c"]),
        ("select ?y where 0 -(rel_0|rel_1)*-> ?y max_hops 5", vec!["a", "b", "c"]),
        ("select ?x where ?x is Node, ?x.name = \"b\" limit 20", vec!["b"]),
        ("select ?f where ?f = Parent(child=Carol) in CensusData", vec!["Parent(child=t#4, parent=t#5)"]),
        ("select ?x where ?x { is Node, rel_0, name=\"node_42\" }", vec!["node_42"]),
        ("select ?x where ?x : Person or ?x : Organization limit 10", vec!["Carol", "Alice", "Harbour Office"]),
    ] {
        assert_eq!(row_names(&view, text), rows, "{text}");
    }
}

#[test]
fn both_query_forms_give_same_rows() {
    let view = example();
    let typed = json!({
        "version": 1,
        "select": ["?x"],
        "where": [
            { "kind": "type", "term": "?x", "type": "Node" },
            { "kind": "attr_eq", "term": "?x", "key": "name", "value": "b" }
        ],
        "limit": 20
    });
    let rows = json!({"vars": ["?x"], "truncated": false,
                      "rows": [{ "?x": { "id": 1, "entity_type": "Node", "name": "b" } }]});
    let by_ir = answer::run_query(view.clone(), &ir::parse(&typed).unwrap(), &TextResults::new(), false).unwrap();
    let by_text = query_json(&view, "select ?x where ?x is Node, ?x.name = \"b\" limit 20").unwrap();
    assert_eq!((&by_ir, &by_text), (&rows, &rows));
    // Checks the rows from which the documented answer is made.
    let reached = query_json(&view, "select ?x ?y where ?x -rel_0-> ?y, ?y.name = \"b\"").unwrap();
    let row = json!({"?x": { "id": 0, "entity_type": "Node", "name": "a" }, "?y": { "id": 1, "entity_type": "Node", "name": "b" }});
    assert_eq!(reached, json!({"vars": ["?x", "?y"], "rows": [row], "truncated": false}));
}

#[test]
fn every_ir_kind_matches_its_text_form() {
    let view = example();
    let kinds = [
        (json!({"kind": "type", "term": "?x", "type": "Person"}), "?x is Person", vec!["Carol", "Alice"]),
        (json!({"kind": "type", "term": "?x", "ty": "Person"}), "?x : Person", vec!["Carol", "Alice"]),
        (json!({"kind": "type", "term": "?x", "type_name": "Person"}), "?x is Person", vec!["Carol", "Alice"]),
        (json!({"kind": "edge", "left": "a", "path": "rel_0/rel_1", "right": "?x"}), "a -rel_0/rel_1-> ?x", vec!["c"]),
        (json!({"kind": "edge", "left": 0, "path": "rel_0", "right": "?x"}), "0 -[rel_0]-> ?x", vec!["b"]),
        (json!({"kind": "attr_eq", "term": "?x", "key": "k", "value": "v"}), "attr(?x, \"k\", \"v\")", vec!["c"]),
        (
            json!({"kind": "attr_contains", "term": "?x", "key": "name", "needle": "OFF"}),
            "contains(?x, \"name\", \"OFF\")",
            vec!["Harbour Office"],
        ),
        (
            json!({"kind": "attr_fts", "term": "?x", "key": "name", "query": "office harbour"}),
            "fts(?x, \"name\", \"office harbour\")",
            vec!["Harbour Office"],
        ),
        (
            json!({"kind": "attr_fuzzy", "term": "?x", "key": "name", "needle": "carl", "max_dist": 1}),
            "fuzzy(?x, \"name\", \"carl\", 1)",
            vec!["Carol"],
        ),
        (
            json!({"kind": "fact", "fact": "?x", "relation": "Parent", "fields": {"child": "Carol"}}),
            "?x = Parent(child=Carol)",
            vec!["Parent(child=t#4, parent=t#5)"],
        ),
        (json!({"kind": "fact", "relation": "Parent", "fields": {"parent": "?x"}}), "Parent(parent=?x)", vec!["Alice"]),
        (
            json!({"kind": "has_out", "term": "?x", "rels": ["rel_0", "rel_1"]}),
            "has(?x, rel_0, rel_1)",
            vec!["node_42"],
        ),
        (
            json!({"kind": "attrs", "term": "?x", "pairs": {"name": "c", "k": "v"}}),
            "attrs(?x, name=\"c\", k=\"v\")",
            vec!["c"],
        ),
        (
            json!({"kind": "shape", "term": "?x", "type_name": "Node", "rels": ["rel_1"], "attrs": {"name": "b"}}),
            "?x { is Node, rel_1, name=\"b\" }",
            vec!["b"],
        ),
    ];
    for (atom, text, rows) in kinds {
        let text = format!("select ?x where {text}");
        assert_eq!(row_names(&view, &text), rows, "{text}");
        assert_eq!(atom_names(&view, &atom), rows, "{atom}");
        assert_eq!(ir_names(&view, &json!({"version": 1, "select_vars": ["?x"], "where_atoms": [atom]})), rows);
        let twice = json!({"version": 1, "select": ["?x"], "disjuncts": [[atom], [atom]], "limit": 200});
        assert_eq!(ir_names(&view, &twice), rows, "each row once");
    }
}

#[test]
fn every_term_form_denotes_its_entity() {
    let view = example();
    for term in [
        json!("a"),
        json!(0),
        json!({"kind": "name", "name": "a"}),
        json!({"kind": "entity", "key": "name", "value": "a"}),
    ] {
        let atom = json!({"kind": "edge", "left": term, "path": "rel_0", "right": {"kind": "var", "name": "?x"}});
        assert_eq!(atom_names(&view, &atom), ["b"], "{term}");
    }
    for anything in [json!("_"), json!({"kind": "wildcard"})] {
        let atom = json!({"kind": "edge", "left": anything, "path": "rel_1", "right": "?x"});
        assert_eq!(atom_names(&view, &atom), ["c", "node_42"]);
    }
    for text in ["a", "0", "name(\"a\")", "entity(\"name\", \"a\")"] {
        assert_eq!(row_names(&view, &format!("select ?x where {text} -rel_0-> ?x")), ["b"], "{text}");
    }
}

#[test]
fn graph_query_schema_matches_its_document() {
    let documented = json!({
        "name": "graph_query",
        "description": "Query the current graph structure to understand existing nodes and edges before making changes",
        "input_schema": {
            "type": "object",
            "properties": {
                "queryType": {
                    "type": "string",
                    "enum": ["edges", "nodes", "check_edge", "io_chain"],
                    "description": "Type of query to execute"
                },
                "filters": {
                    "type": "object",
                    "properties": {
                        "sourceType": { "type": "string", "description": "Node type of edge source" },
                        "targetType": { "type": "string", "description": "Node type of edge target" },
                        "edgeType": { "type": "string", "description": "Edge type (compose, io, satisfy, etc.)" },
                        "nodeType": { "type": "string", "description": "Filter nodes by type" },
                        "semanticId": { "type": "string", "description": "Specific node semantic ID" },
                        "fchainId": { "type": "string", "description": "FCHAIN ID for io_chain query" }
                    }
                }
            },
            "required": ["queryType"]
        }
    });
    let tool = tools::specs().into_iter().find(|it| it.name == "graph_query").unwrap();
    assert_eq!(documented["description"], tool.description);
    let (wanted, published) = (&documented["input_schema"], &tool.parameters);
    assert_eq!((&wanted["type"], &wanted["required"]), (&published["type"], &published["required"]));
    assert_eq!(wanted["properties"]["queryType"], published["properties"]["queryType"]);
    let filters = |schema: &Value| schema["properties"]["filters"]["properties"].as_object().unwrap().clone();
    for (name, filter) in filters(wanted) {
        let ours = &filters(published)[&name];
        assert_eq!(filter["type"], ours["type"], "{name}");
        let (said, says) = (filter["description"].as_str().unwrap(), ours["description"].as_str().unwrap());
        assert!(says.starts_with(said), "{name}: {says}");
    }
    assert!(filters(published).contains_key("targetId"), "the second example uses it");
    assert!(graph_query::run(&example(), json!({"queryType": "edges", "filters": {"edgeType": "rel_0"}})).is_ok());
}

#[test]
fn tool_loop_tools_exist_by_name() {
    let offered: BTreeSet<String> = tools::specs().into_iter().map(|it| it.name).collect();
    let wanted = [
        "db_summary",
        "semantic_search",
        "lookup_entity",
        "describe_entity",
        "lookup_type",
        "lookup_relation",
        "fts_chunks",
        "docchunk_get",
        "axql_elaborate",
        "axql_help",
        "axql_run",
        "viz_render",
        "quality_report",
        "propose_relation_proposals",
        "graph_query",
    ];
    assert_eq!(offered, wanted.map(String::from).into());
}

#[test]
fn proposals_parse_with_every_field() {
    let evidence =
        json!([{"chunk_id": "doc_proto_api_0", "locator": "api.proto", "span_id": "s1"}, {"chunk_id": "doc_1"}]);
    let file = json!({
        "version": 1,
        "generated_at": "2026-01-01T00:00:00Z",
        "source": {"source_type": "doc", "locator": "api.md"},
        "schema_hint": "machinist_learning",
        "proposals": [
            {"kind": "Entity", "proposal_id": "p1", "confidence": 0.9, "evidence": evidence, "public_rationale": "named",
             "metadata": {"by": "a reader"}, "schema_hint": "machinist_learning", "entity_id": "tool:lathe",
             "entity_type": "Tool", "name": "lathe", "attributes": {"rpm": "900"}, "description": "turns"},
            {"kind": "Entity", "proposal_id": "p2", "confidence": 0.5, "evidence": [], "public_rationale": "",
             "metadata": {}, "entity_id": "tool:bit", "entity_type": "Tool", "name": "bit", "attributes": {}},
            {"kind": "Relation", "proposal_id": "p3", "confidence": 0.25, "evidence": evidence, "public_rationale": "said",
             "metadata": {}, "relation_id": "r1", "rel_type": "holds", "source": "tool:lathe", "target": "tool:bit",
             "attributes": {"how": "by a chuck"}}
        ]
    });
    let read = proposals::parse(&file.to_string()).unwrap();
    assert_eq!(read.schema_hint.as_deref(), Some("machinist_learning"));
    assert_eq!((read.source.source_type.as_str(), read.source.locator.as_str()), ("doc", "api.md"));
    assert_eq!(read.proposals[0].evidence[0].span_id.as_deref(), Some("s1"));
    let part = proposals::to_graph_part(&file.to_string()).unwrap();
    let view = super::view_of(vec![part]);
    assert_eq!(row_names(&view, "select ?x ?y where ?x -holds-> ?y, ?x.rpm = \"900\""), ["lathe bit"]);
    assert!(row_names(&view, "select ?x ?y where ?x -holds-> ?y min_conf 0.5").is_empty());
    let other =
        json!({"version": 2, "generated_at": "", "source": {"source_type": "", "locator": ""}, "proposals": []});
    assert!(proposals::parse(&other.to_string()).unwrap_err().message.contains("version 2"));
}
