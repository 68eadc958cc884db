//! Exports a part of the graph as JSON (which [`super::import`] reads back) or as lines of text.

pub(in crate::graph) mod drawing;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::graph::import::text;
use crate::graph::node_names;
use crate::graph::query::ir::shortest_decimal;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::model::GraphExtent;

/// Default maximum distance, in edges, of an exported entity from the start entities.
const DEFAULT_HOPS: u32 = 2;

/// A part of the graph to draw or export.
#[derive(Debug, Default)]
pub(crate) struct Subgraph {
    /// Indices of the entities, sorted.
    pub(crate) nodes: Vec<NodeIx>,
    /// Indices of the edges between these entities, sorted.
    pub(crate) edges: Vec<EdgeIx>,
    /// True if the limit on entities was reached and some were left out.
    pub(crate) truncated: bool,
    /// Sentences about types and relations of the request that the graph does not have.
    pub(crate) notes: Vec<String>,
}

/// Finds the requested part of the graph: at most `most` entities, nearest to the start entities first.
///
/// # Errors
/// `NotFound` if a start entity does not exist.
pub(crate) fn select_extent(view: &View, request: &GraphExtent, most: usize) -> Result<Subgraph> {
    let snapshot = &view.snapshot;
    let most = request.limit.map_or(most, |it| most.min(it as usize));
    let mut notes = Vec::new();
    let labels = resolve_all(
        &request.types,
        |it| node_names::visible_types(view, it),
        |it| notes.push(node_names::unknown_type(view, it)),
    );
    let relations = resolve_all(
        &request.relations,
        |it| node_names::visible_relations(view, it),
        |it| notes.push(node_names::unknown_relation(view, it)),
    );
    let fits = |node: NodeIx| request.types.is_empty() || labels.contains(&snapshot.label_of[node as usize]);
    let follows =
        |edge: EdgeIx| request.relations.is_empty() || relations.contains(&snapshot.relation_of[edge as usize]);
    let mut found: Vec<NodeIx> = if request.around.is_empty() {
        view.nodes().filter(|it| fits(*it)).take(most + 1).collect()
    } else {
        let mut queue: VecDeque<(NodeIx, u32)> = VecDeque::new();
        for name in &request.around {
            queue.extend(node_names::find_entities(view, name)?.into_iter().map(|it| (it, 0)));
        }
        let mut seen: BTreeSet<NodeIx> = queue.iter().map(|it| it.0).collect();
        let mut reached: Vec<NodeIx> = Vec::new();
        while let Some((node, distance)) = queue.pop_front() {
            reached.push(node);
            if reached.len() > most {
                break;
            }
            if distance < request.hops.unwrap_or(DEFAULT_HOPS) {
                let near = view.outgoing(node).chain(view.incoming(node)).filter(|(edge, _)| follows(*edge));
                let new = near.map(|it| it.1).filter(|it| fits(*it) && seen.insert(*it)).collect::<Vec<_>>();
                queue.extend(new.into_iter().map(|it| (it, distance + 1)));
            }
        }
        reached
    };
    let truncated = found.len() > most;
    found.truncate(most);
    found.sort_unstable();
    let between = |node: &NodeIx| {
        let edges = view.outgoing(*node).filter(|(edge, end)| follows(*edge) && found.binary_search(end).is_ok());
        edges.map(|it| it.0).collect::<Vec<_>>()
    };
    let edges = found.iter().flat_map(between).collect();
    Ok(Subgraph { nodes: found, edges, truncated, notes })
}

/// Returns the numbers of the types or relations with these names. Calls `unknown` with each name that the graph lacks.
fn resolve_all(names: &[String], find: impl Fn(&str) -> Vec<u16>, mut unknown: impl FnMut(&str)) -> BTreeSet<u16> {
    let numbers = names.iter().flat_map(|name| {
        let found = find(name);
        if found.is_empty() {
            unknown(name);
        }
        found
    });
    numbers.collect()
}

/// Exports the entities and edges of a part of the graph as JSON.
pub(crate) fn to_json(view: &View, extent: &Subgraph) -> Value {
    let snapshot = &view.snapshot;
    let nodes: Vec<Value> = extent.nodes.iter().map(|it| node_json(view, *it)).collect();
    let edges: Vec<Value> = extent.edges.iter().map(|it| edge_json(view, extent, *it)).collect();
    let schemas = snapshot.schema.all();
    let mut value = json!({"nodes": nodes, "edges": edges});
    if view.is_whole() && !schemas.is_empty() {
        value["schemas"] = json!(schemas);
    }
    value
}

fn node_json(view: &View, node: NodeIx) -> Value {
    let snapshot = &view.snapshot;
    let label = snapshot.labels[snapshot.label_of[node as usize] as usize];
    let mut value = json!({
        "id": snapshot.id(node), "key": snapshot.key(node), "type": snapshot.type_name(node), "name": snapshot.name(node),
    });
    let schema = snapshot.symbols.get(label.schema);
    if !schema.is_empty() {
        value["schema"] = json!(schema);
    }
    let attributes: Map<String, Value> =
        view.attributes(node).into_iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    if !attributes.is_empty() {
        value["attributes"] = Value::Object(attributes);
    }
    if snapshot.is_fact(node) {
        value["fact"] = json!(true);
    }
    value
}

fn edge_json(view: &View, extent: &Subgraph, edge: EdgeIx) -> Value {
    let snapshot = &view.snapshot;
    let mut value = json!({
        "source": snapshot.id(snapshot.source(edge)),
        "target": snapshot.id(snapshot.target(edge)),
        "type": snapshot.relation_name(edge),
        "confidence": shortest_decimal(snapshot.confidence(edge)),
    });
    let label = snapshot.relations[snapshot.relation_of[edge as usize] as usize];
    let schema = snapshot.symbols.get(label.schema);
    if !schema.is_empty() {
        value["schema"] = json!(schema);
    }
    if let Some(found) = snapshot.evidence(edge) {
        let chunk = snapshot.symbols.get(found.chunk);
        value["evidence"] = json!({"chunk_id": chunk, "start": found.start, "end": found.end});
    }
    let attributes: Map<String, Value> =
        snapshot.edge_attributes(edge).map(|(key, value)| (key.to_string(), json!(value))).collect();
    if !attributes.is_empty() {
        value["attributes"] = Value::Object(attributes);
    }
    if let Some(fact) = snapshot.fact_of(edge).filter(|it| extent.nodes.binary_search(it).is_ok()) {
        value["fact"] = json!(snapshot.id(fact));
    }
    value
}

/// Exports a part of the graph as text, one edge per line; an entity without an edge is a line of its own.
pub(crate) fn to_lines(view: &View, extent: &Subgraph) -> String {
    let snapshot = &view.snapshot;
    let mut text = String::new();
    let mut alone: BTreeSet<NodeIx> = extent.nodes.iter().copied().collect();
    for edge in &extent.edges {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        alone.remove(&source);
        alone.remove(&target);
        let ends = [source, target].map(|it| text::quote_id(snapshot.key(it), false));
        let relation = text::quote_relation(snapshot.relation_name(*edge));
        let _ = writeln!(text, "{} -{relation}-> {}", ends[0], ends[1]);
    }
    for node in alone {
        let _ = writeln!(text, "{}", text::quote_id(snapshot.key(node), true));
    }
    text
}
