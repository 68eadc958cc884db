//! A snapshot merged from the previous one and changes must equal a snapshot built from all sources.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::graph::snapshot::builder::Builder;
use crate::graph::snapshot::interner::Symbol;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, EdgeStatement, Label, NodeIx, Snapshot};
use crate::graph::tools::describe;
use crate::model::{GraphEdge, GraphEvidence, GraphNode, GraphPart, GraphSchema, GraphSource, GraphType, Scope};

/// The stored sources of a graph, like those in the catalog.
#[derive(Default)]
struct StoredSources {
    sources: BTreeMap<i64, (GraphSource, GraphPart)>,
    entities: HashMap<String, u32>,
    last: i64,
}

/// Changes of several sources at once: a part adds the source or replaces its content, `None` drops it.
type Change = Vec<(usize, Option<GraphPart>)>;

impl StoredSources {
    /// Applies a change and returns the numbers of the sources that it concerns.
    fn change(&mut self, change: &[(usize, Option<GraphPart>)]) -> Vec<i64> {
        let mut about = Vec::new();
        for (which, part) in change {
            let known = self.sources.keys().nth(*which).copied();
            let number = match (known, part) {
                (Some(number), None) => {
                    self.sources.remove(&number);
                    number
                }
                (known, Some(part)) => {
                    let number = known.unwrap_or(self.last + 1);
                    self.last = self.last.max(number);
                    // Two of three sources are files with the same name in several folders; the third is an import.
                    let path = if which % 3 == 2 { String::new() } else { format!("/w/d{}/e/f{which}.md", which % 2) };
                    let source = GraphSource { name: format!("import:s{number}#0"), path, ..GraphSource::default() };
                    for node in &part.nodes {
                        let next = self.entities.len() as u32;
                        self.entities.entry(node.key.clone()).or_insert(next);
                    }
                    self.sources.insert(number, (source, part.clone()));
                    number
                }
                (None, None) => continue,
            };
            about.push(number);
        }
        about.sort_unstable();
        about.dedup();
        about
    }

    fn add(&self, number: i64, builder: &mut Builder) {
        match self.sources.get(&number) {
            Some((source, part)) => {
                builder.add_source(number, source, part.clone(), |key| self.entities.get(key).copied()).unwrap();
            }
            None => builder.drop_source(number),
        }
    }

    fn rebuilt(&self) -> Snapshot {
        let mut builder = Builder::default();
        self.sources.keys().for_each(|it| self.add(*it, &mut builder));
        builder.build()
    }
}

/// Generates names for keys and aliases alike, so that a name may be a key, an alias or unresolved.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => (0u8..6).prop_map(|it| format!("n{it}")), 2 => (0u8..3).prop_map(|it| format!("stem:{it}"))]
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let pair = (0u8..2, 0u8..3).prop_map(|(key, value)| (format!("k{key}"), format!("v{value}")));
    prop::collection::vec(pair, 0..3)
}

fn node() -> impl Strategy<Value = GraphNode> {
    (name(), 0u8..3, 0u8..3, pairs(), any::<bool>()).prop_map(|(key, kind, name, attributes, fact)| GraphNode {
        key,
        entity_type: format!("T{kind}"),
        name: format!("name {name}"),
        attributes,
        fact,
        ..GraphNode::default()
    })
}

fn edge() -> impl Strategy<Value = GraphEdge> {
    let evidence = prop::option::of((0u8..3).prop_map(|it| GraphEvidence {
        chunk_id: format!("c{it}"),
        start: it.into(),
        end: 9,
    }));
    // Generates qualifying folders; only some of them exist.
    let within = prop::option::of((0u8..3).prop_map(|it| ("within".to_string(), format!("d{it}/e"))));
    let attributes = (pairs(), within).prop_map(|(pairs, within)| pairs.into_iter().chain(within).collect());
    (name(), 0u8..3, name(), attributes, prop::option::of(name()), evidence).prop_map(
        |(source, relation, target, attributes, fact, evidence)| GraphEdge {
            relation: format!("r{relation}"),
            source,
            target,
            confidence: 0.5,
            attributes,
            fact,
            evidence,
            ..GraphEdge::default()
        },
    )
}

fn part() -> impl Strategy<Value = GraphPart> {
    let schema = (0u8..2, 0u8..2).prop_map(|(name, kind)| GraphSchema {
        name: format!("S{name}"),
        types: vec![GraphType { name: format!("T{kind}"), supertypes: vec!["Top".into()] }],
        relations: Vec::new(),
    });
    (
        prop::collection::vec(node(), 0..4),
        prop::collection::vec(edge(), 0..6),
        prop::collection::vec((name(), name()), 0..3),
        prop::collection::vec(schema, 0..2),
    )
        .prop_map(|(nodes, edges, aliases, schemas)| GraphPart { nodes, edges, aliases, schemas })
}

fn change() -> impl Strategy<Value = Change> {
    prop::collection::vec((0usize..6, prop_oneof![3 => part().prop_map(Some), 2 => Just(None)]), 1..4)
}

/// Returns the content of a snapshot without the numbers of strings, which alone may differ.
fn content(snapshot: &Snapshot) -> Value {
    let text = |it: Symbol| snapshot.symbols.get(it);
    let label = |it: &Label| (text(it.schema).to_string(), text(it.name).to_string());
    let nodes = 0..snapshot.nodes() as NodeIx;
    let entity = |node: NodeIx| {
        let holders =
            snapshot.statements.row(node).iter().map(|it| json!([it.origin, text(it.name), it.label, it.fact]));
        json!([
            snapshot.id(node),
            snapshot.key(node),
            snapshot.name(node),
            snapshot.type_name(node),
            snapshot.is_fact(node),
            holders.collect::<Vec<_>>(),
            snapshot.attributes(node).collect::<Vec<_>>(),
            snapshot.incoming_edges(node),
            snapshot.outgoing_edges(node),
            snapshot.node_by_key(snapshot.key(node)),
            snapshot.nodes_named(snapshot.name(node)),
        ])
    };
    let edge = |edge: EdgeIx| {
        let evidence = snapshot.evidence(edge).map(|it| (text(it.chunk), it.start, it.end));
        json!([
            snapshot.source(edge),
            snapshot.relation_name(edge),
            snapshot.target(edge),
            snapshot.confidence(edge),
            snapshot.origin_of[edge as usize],
            snapshot.positions[edge as usize],
            evidence,
            snapshot.fact_of(edge),
            snapshot.edge_attributes(edge).collect::<Vec<_>>(),
        ])
    };
    let open = |it: &EdgeStatement| {
        json!([it.origin, it.position, text(it.ends.source), text(it.ends.target), it.ends.fact.map(text), it.relation])
    };
    let mut aliases: Vec<_> = snapshot.aliases.iter().map(|it| (text(it.alias), text(it.key), it.origin)).collect();
    aliases.sort_unstable();
    let keys = ["k0", "k1"].map(|key| {
        let rows = snapshot.with_attribute(key).iter();
        let mut rows: Vec<_> = rows.map(|(key, value, node)| (text(*key), text(*value), *node)).collect();
        rows.sort_unstable();
        rows
    });
    json!({
        "entities": nodes.map(entity).collect::<Vec<_>>(),
        "edges": (0..snapshot.edges() as EdgeIx).map(edge).collect::<Vec<_>>(),
        "open": snapshot.unresolved.iter().map(open).collect::<Vec<_>>(),
        "aliases": aliases,
        "attributes": keys,
        "labels": snapshot.labels.iter().map(label).collect::<Vec<_>>(),
        "relations": snapshot.relations.iter().map(label).collect::<Vec<_>>(),
        "by label": (0..snapshot.labels.len() as u16).map(|it| snapshot.nodes_of_type(it)).collect::<Vec<_>>(),
        "by relation": (0..snapshot.relations.len() as u16).map(|it| snapshot.edges_of_relation(it)).collect::<Vec<_>>(),
        "origins": snapshot.origins.iter().map(|it| (it.number, &it.name, &it.path)).collect::<Vec<_>>(),
        "schemas": snapshot.schema.all().iter().map(|it| &**it).collect::<Vec<_>>(),
    })
}

fn check(changes: &[Change]) {
    let mut stored = StoredSources::default();
    let mut snapshot = Arc::new(Snapshot::default());
    for change in changes {
        let about = stored.change(change);
        let mut builder = Builder::extending(snapshot);
        about.iter().for_each(|it| stored.add(*it, &mut builder));
        snapshot = Arc::new(builder.build());
        let anew = stored.rebuilt();
        assert_eq!(content(&snapshot), content(&anew));
        let summary = |snapshot: &Arc<Snapshot>| describe::summary(&View::new(snapshot.clone(), &Scope::All));
        assert_eq!(summary(&snapshot), summary(&Arc::new(anew)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn merged_snapshot_equals_full_rebuild(changes in prop::collection::vec(change(), 1..8)) {
        check(&changes);
    }
}

/// Returns a part with these entities, aliases (alias, key) and edges (source, target).
fn part_with(entities: &[&str], aliases: &[(&str, &str)], edges: &[(&str, &str)]) -> GraphPart {
    let node = |it: &&str| GraphNode {
        key: (*it).into(),
        entity_type: "T".into(),
        name: (*it).into(),
        ..GraphNode::default()
    };
    let edge = |(source, target): &(&str, &str)| GraphEdge {
        source: (*source).into(),
        target: (*target).into(),
        relation: "r".into(),
        confidence: 1.0,
        ..GraphEdge::default()
    };
    GraphPart {
        nodes: entities.iter().map(node).collect(),
        aliases: aliases.iter().map(|(alias, key)| ((*alias).into(), (*key).into())).collect(),
        edges: edges.iter().map(edge).collect(),
        schemas: Vec::new(),
    }
}

/// Applies the changes and returns the edges after each.
fn edges_after(changes: Vec<Change>) -> Vec<Vec<String>> {
    check(&changes);
    let mut stored = StoredSources::default();
    let shown = |snapshot: Snapshot| {
        let name = |it: NodeIx| snapshot.name(it);
        let edge = |it: EdgeIx| format!("{} {}", name(snapshot.source(it)), name(snapshot.target(it)));
        (0..snapshot.edges() as EdgeIx).map(edge).collect::<Vec<_>>()
    };
    changes
        .iter()
        .map(|change| {
            stored.change(change);
            shown(stored.rebuilt())
        })
        .collect()
}

#[test]
fn edge_follows_its_end_through_changes() {
    let edges = edges_after(vec![
        vec![(0, Some(part_with(&["a"], &[], &[("a", "b"), ("a", "other")])))],
        vec![(1, Some(part_with(&["b"], &[("other", "b")], &[])))],
        vec![(2, Some(part_with(&["c"], &[("other", "c")], &[])))],
        vec![(1, None)],
        vec![(1, None)],
        vec![(1, Some(part_with(&["other"], &[], &[])))],
    ]);
    assert_eq!(edges[0], Vec::<String>::new());
    assert_eq!(edges[1], ["a b", "a b"]);
    assert_eq!(edges[2], ["a b", "a b"], "the first of two entities with the alias wins");
    assert_eq!(edges[3], ["a c"]);
    assert_eq!(edges[4], Vec::<String>::new());
    assert_eq!(edges[5], ["a other"], "a key has precedence over an alias");
}

#[test]
fn unused_strings_trigger_rebuild() {
    let mut stored = StoredSources::default();
    let mut snapshot = Arc::new(Snapshot::default());
    let worn = (0..4).map(|round| {
        let keys: Vec<String> = (0..6_000).map(|it| format!("{round} {it}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let about = stored.change(&[(0, Some(part_with(&keys, &[], &[])))]);
        let mut builder = Builder::extending(snapshot.clone());
        about.iter().for_each(|it| stored.add(*it, &mut builder));
        snapshot = Arc::new(builder.build());
        snapshot.has_excess_strings()
    });
    assert_eq!(worn.collect::<Vec<_>>(), [false, false, false, true]);
    assert!(!stored.rebuilt().has_excess_strings());
}
