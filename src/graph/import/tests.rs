use serde_json::{Value, json};

use crate::error::ErrorCode;
use crate::graph::import::json_format::{parse, parse_in_parts};
use crate::graph::import::parts::PART_ITEMS;
use crate::model::GraphPart;

/// Returns a chain of `edges` edges, as JSON.
fn chain(edges: usize) -> String {
    let nodes: Vec<Value> = (0..=edges).map(|it| json!({"id": it, "name": format!("n{it}")})).collect();
    let edges: Vec<Value> = (0..edges).map(|it| json!({"source": it, "target": it + 1, "type": "next"})).collect();
    json!({"edges": edges, "nodes": nodes}).to_string()
}

/// Parses a text and joins its parts.
fn whole(text: &str) -> GraphPart {
    let mut whole = GraphPart::default();
    for part in parse("t", text).unwrap_or_else(|error| panic!("{text}: {error}")) {
        whole.nodes.extend(part.nodes);
        whole.edges.extend(part.edges);
        whole.schemas.extend(part.schemas);
    }
    whole
}

#[test]
fn large_graph_is_split_into_bounded_parts() {
    let parts = parse("t", &chain(50_000)).unwrap();
    assert!(parts.iter().all(|it| it.nodes.len() <= PART_ITEMS && it.edges.len() <= PART_ITEMS));
    let (nodes, edges): (usize, usize) =
        (parts.iter().map(|it| it.nodes.len()).sum(), parts.iter().map(|it| it.edges.len()).sum());
    assert_eq!((nodes, edges), (50_001, 50_000));
    let last = parts.iter().flat_map(|it| &it.edges).next_back().unwrap();
    assert_eq!((last.source.as_str(), last.target.as_str()), ("t#49999", "t#50000"));
}

#[test]
fn parsing_stops_at_refused_part() {
    let mut parts = 0;
    let error = parse_in_parts("t", &chain(100_000), &mut |_| {
        parts += 1;
        if parts == 2 { Err(crate::error::Error::internal("the disk is full")) } else { Ok(()) }
    });
    assert_eq!((parts, error.unwrap_err().code), (2, ErrorCode::Internal));
}

#[test]
fn lists_may_appear_in_any_order() {
    let nodes = r#""nodes": [{"id": "a", "name": "Ann"}, {"id": 7, "name": "Bob"}]"#;
    let edges = r#""edges": [{"source": "Ann", "target": 7, "type": "knows"}, {"source": "a", "target": "C", "type": "knows"}]"#;
    let facts = r#""facts": [{"relation": "Parent", "fields": {"child": "Ann", "parent": 7}, "contexts": ["C"]}]"#;
    let schemas = r#""schemas": [{"name": "Fam", "relations": [{"name": "Parent"}]}]"#;
    let text = |lists: [&str; 4]| format!("{{{}}}", lists.join(", "));
    let expected = whole(&text([nodes, edges, facts, schemas]));
    assert_eq!((expected.nodes.len(), expected.edges.len(), expected.schemas.len()), (4, 6, 1));
    // The context of the fact must not become the end of an edge, in any order of the lists.
    assert_eq!(expected.edges[1].target, "C");
    for lists in [[facts, edges, nodes, schemas], [schemas, facts, edges, nodes], [edges, nodes, schemas, facts]] {
        assert_eq!(whole(&text(lists)), expected, "{lists:?}");
    }
}

#[test]
fn invalid_items_are_named_with_place() {
    let node = r#""nodes": [{"id": 1, "name": "x"}, {"id": 2, "name": "x"}]"#;
    for (lists, place, said) in [
        (r#""edges": [{"source": 1, "target": "", "type": "r"}]"#, "edges[0].target", "is empty"),
        (r#""edges": [{"source": " ", "target": 1, "type": "r"}]"#, "edges[0].source", "is empty"),
        (r#""edges": [{"source": 1, "target": 2, "type": ""}]"#, "edges[0].type", "is empty"),
        (r#""edges": [{"source": 1, "target": 2, "type": "r", "fact": ""}]"#, "edges[0].fact", "is empty"),
        (r#""edges": [{"source": 1, "target": 3, "type": "r"}]"#, "edges[0].target", "found the number 3"),
        (r#""edges": [{"source": "x", "target": 1, "type": "r"}]"#, "edges[0].source", "several nodes"),
        (r#""edges": [{"source": 1, "target": 2, "type": "r", "confidence": 2}]"#, "edges[0]", "between 0 and 1"),
        (r#""edges": [{"source": 1, "target": 2}]"#, "edges[0]", "missing field `type`"),
        (r#""edges": [{"source": 1, "target": 2, "type": 3}]"#, "edges[0].type", "invalid type"),
        (r#""edges": {"source": 1}"#, "edges", "a list"),
        (r#""facts": [{"relation": "", "fields": {}}]"#, "facts[0].relation", "is empty"),
        (r#""facts": [{"relation": "R", "fields": {"a": ""}}]"#, "facts[0].fields.a", "is empty"),
        (r#""facts": [{"id": "", "relation": "R", "fields": {}}]"#, "facts[0].id", "is empty"),
        (r#""edges": [], "edges": []"#, "", "duplicate field `edges`"),
        (r#""edgs": []"#, "edgs", "unknown field `edgs`, expected one of `nodes`, `edges`, `facts`, `schemas`"),
    ] {
        let error = parse("t", &format!("{{{node}, {lists}}}")).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{lists}");
        assert!(error.message.contains(said), "{lists}: {error}");
        if !place.is_empty() {
            assert_eq!(error.field.as_deref(), Some(place), "{lists}: {error}");
            assert!(error.message.contains(place), "{lists}: {error}");
        }
    }
}

#[test]
fn malformed_json_is_refused() {
    for text in ["", "[]", "7", "{\"nodes\": [", "{\"edges\": [{]}", "{\"nodes\": []} and more"] {
        assert_eq!(parse("t", text).unwrap_err().code, ErrorCode::InvalidArgument, "{text}");
    }
}
