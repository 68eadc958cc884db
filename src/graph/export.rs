//! Exports a part of the graph as JSON, which [`super::import`] reads back, and as lines.

pub(in crate::graph) mod drawing;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::import::text;
use crate::graph::query::ir::decimal;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, Ix};
use crate::graph::suggest;
use crate::model::GraphExtent;

/// Default number of hops.
const HOPS: u32 = 2;

/// The part of the graph to draw or export.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    /// Entities, sorted.
    pub(crate) nodes: Vec<Ix>,
    /// Edges between them, sorted.
    pub(crate) edges: Vec<EdgeIx>,
    /// Whether the limit cut entities.
    pub(crate) truncated: bool,
}

/// Finds the requested part: at most `most` entities, nearest first.
///
/// # Errors
/// `NotFound` for an unknown start entity.
pub(crate) fn extent(view: &View, request: &GraphExtent, most: usize) -> Result<Extent> {
    let snapshot = &view.snapshot;
    let most = request.limit.map_or(most, |it| most.min(it as usize));
    let labels: BTreeSet<u16> = request.types.iter().flat_map(|it| snapshot.labels_of(it)).collect();
    let relations: BTreeSet<u16> = request.relations.iter().flat_map(|it| snapshot.relations_of(it)).collect();
    let fits = |node: Ix| request.types.is_empty() || labels.contains(&snapshot.label_of[node as usize]);
    let follows =
        |edge: EdgeIx| request.relations.is_empty() || relations.contains(&snapshot.relation_of[edge as usize]);
    let mut found: Vec<Ix> = if request.around.is_empty() {
        view.nodes().filter(|it| fits(*it)).take(most + 1).collect()
    } else {
        let mut queue: VecDeque<(Ix, u32)> = VecDeque::new();
        for name in &request.around {
            queue.extend(begin(view, name)?.into_iter().map(|it| (it, 0)));
        }
        let mut seen: BTreeSet<Ix> = queue.iter().map(|it| it.0).collect();
        let mut reached: Vec<Ix> = Vec::new();
        while let Some((node, distance)) = queue.pop_front() {
            reached.push(node);
            if reached.len() > most {
                break;
            }
            if distance < request.hops.unwrap_or(HOPS) {
                let near = view.leaving(node).chain(view.reaching(node)).filter(|(edge, _)| follows(*edge));
                let new = near.map(|it| it.1).filter(|it| fits(*it) && seen.insert(*it)).collect::<Vec<_>>();
                queue.extend(new.into_iter().map(|it| (it, distance + 1)));
            }
        }
        reached
    };
    let truncated = found.len() > most;
    found.truncate(most);
    found.sort_unstable();
    let between = |node: &Ix| {
        let edges = view.leaving(*node).filter(|(edge, end)| follows(*edge) && found.binary_search(end).is_ok());
        edges.map(|it| it.0).collect::<Vec<_>>()
    };
    let edges = found.iter().flat_map(between).collect();
    Ok(Extent { nodes: found, edges, truncated })
}

/// Returns the entities with this name, key or number; at least one.
///
/// # Errors
/// `NotFound` with the nearest name.
pub(crate) fn begin(view: &View, name: &str) -> Result<Vec<Ix>> {
    // Entities are cited as `Chunk#128`.
    let digits = name.rsplit_once('#').map_or(name, |it| it.1);
    let by_number = || {
        let node = view.snapshot.by_id(digits.parse().ok()?).filter(|it| view.sees(*it))?;
        let cited = name.rsplit_once('#').is_none_or(|it| it.0 == view.snapshot.type_name(node));
        cited.then_some(vec![node])
    };
    let called = view.called(name);
    if !called.is_empty() {
        return Ok(called);
    }
    by_number().ok_or_else(|| {
        let error = Error::not_found(format!("there is no entity `{name}` in the graph"))
            .hint("`vic graph stats` lists the types, `vic graph tool lookup_entity` finds names");
        suggest::suggest(error, name, view.nodes().map(|it| view.snapshot.name(it)))
    })
}

/// Exports nodes and edges as JSON.
pub(crate) fn json(view: &View, extent: &Extent) -> Value {
    let snapshot = &view.snapshot;
    let nodes: Vec<Value> = extent.nodes.iter().map(|it| node(view, *it)).collect();
    let edges: Vec<Value> = extent.edges.iter().map(|it| edge(view, extent, *it)).collect();
    let schemas = snapshot.schema.all();
    let mut value = json!({"nodes": nodes, "edges": edges});
    if view.is_whole() && !schemas.is_empty() {
        value["schemas"] = json!(schemas);
    }
    value
}

fn node(view: &View, node: Ix) -> Value {
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

fn edge(view: &View, extent: &Extent, edge: EdgeIx) -> Value {
    let snapshot = &view.snapshot;
    let mut value = json!({
        "source": snapshot.id(snapshot.source(edge)),
        "target": snapshot.id(snapshot.target(edge)),
        "type": snapshot.relation_name(edge),
        "confidence": decimal(snapshot.confidence(edge)),
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

/// Exports one edge per line; entities without an edge have their own line.
pub(crate) fn lines(view: &View, extent: &Extent) -> String {
    let snapshot = &view.snapshot;
    let mut text = String::new();
    let mut alone: BTreeSet<Ix> = extent.nodes.iter().copied().collect();
    for edge in &extent.edges {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        alone.remove(&source);
        alone.remove(&target);
        let ends = [source, target].map(|it| text::written(snapshot.key(it), false));
        let relation = text::written_relation(snapshot.relation_name(*edge));
        let _ = writeln!(text, "{} -{relation}-> {}", ends[0], ends[1]);
    }
    for node in alone {
        let _ = writeln!(text, "{}", text::written(snapshot.key(node), true));
    }
    text
}
