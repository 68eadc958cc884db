//! The tools that describe the graph: a summary with counts, an entity with its edges, a type, a relation.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::node_names;
use crate::graph::query::answer::{self, constraints, context_names, signatures};
use crate::graph::query::ir::shortest_decimal;
use crate::graph::query::text_match::TextMatch;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::model::{AT_TIME, IN_CONTEXT};

/// Maximum number of edges shown of an entity, in each direction.
const MAX_EDGES: usize = 50;
/// Maximum number of examples of a type or a relation.
const EXAMPLES: usize = 5;
/// Hint of an error about an unknown type or relation.
const NAMES_HINT: &str = "`vic graph stats` and the tool `db_summary` list the types and relations";
/// Maximum edit distance of a name that counts as a typo.
const MAX_EDITS: u32 = 2;

/// Returns the types, relations, schemas, contexts, times and imports of the graph, with counts.
pub(crate) fn summary(view: &View) -> Value {
    let snapshot = &view.snapshot;
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for node in view.nodes() {
        let label = snapshot.labels[snapshot.label_of[node as usize] as usize];
        *types.entry(snapshot.qualified_name(label)).or_default() += 1;
    }
    let mut relations: BTreeMap<String, usize> = BTreeMap::new();
    for (number, label) in snapshot.relations.iter().enumerate() {
        let count = view.edges_of_relation(number as u16).count();
        if count > 0 {
            *relations.entry(snapshot.qualified_name(*label)).or_default() += count;
        }
    }
    let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
    let listed = |counts: &BTreeMap<String, usize>| {
        let mut rows: Vec<(&String, &usize)> = counts.iter().collect();
        rows.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
        rows.into_iter().map(|(name, count)| json!({"name": name, "count": count})).collect::<Vec<_>>()
    };
    let schemas: Vec<&str> = view.schema().all().iter().map(|it| it.name.as_str()).collect();
    json!({
        "nodes": sum(&types), "edges": sum(&relations),
        "types": listed(&types), "relations": listed(&relations),
        "schemas": schemas,
        "relation_signatures": signatures(view.schema()),
        "relation_constraints": constraints(view.schema()),
        "contexts": context_names(view, IN_CONTEXT), "times": context_names(view, AT_TIME),
        "imports": import_names(view),
    })
}

fn import_names(view: &View) -> Vec<String> {
    let origins = view.snapshot.origins.iter().zip(0..).filter(|(_, number)| view.is_origin_visible(*number));
    let name = |name: &str| Some(name.strip_prefix("import:")?.rsplit_once('#')?.0.to_string());
    let mut names: Vec<String> = origins.filter_map(|(it, _)| name(&it.name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Finds entities by name: first exact matches, then names and display names that contain the text, then names with typos.
pub(crate) fn find_by_name(view: &View, name: &str, type_name: Option<&str>, limit: usize) -> Value {
    let labels = type_name.map(|it| node_names::visible_types(view, it));
    let fits =
        |it: &NodeIx| labels.as_ref().is_none_or(|labels| labels.contains(&view.snapshot.label_of[*it as usize]));
    let mut found: Vec<(NodeIx, &str)> = Vec::new();
    let ways: [(&str, Vec<NodeIx>); 4] = [
        ("exact", node_names::resolve(view, name)),
        ("part", view.with_matching_value("called", |it| TextMatch::contains(name).matches(it))),
        ("part", view.with_matching_value("name", |it| TextMatch::contains(name).matches(it))),
        ("near", view.with_matching_value("name", |it| TextMatch::within_edits(name, MAX_EDITS).matches(it))),
    ];
    for (way, nodes) in ways {
        for node in nodes.into_iter().filter(fits) {
            if !found.iter().any(|it| it.0 == node) && found.len() <= limit {
                found.push((node, way));
            }
        }
    }
    let truncated = found.len() > limit;
    let entity = |(node, way): &(NodeIx, &str)| {
        let mut value = named_cell(view, *node);
        value["key"] = json!(view.snapshot.key(*node));
        value["match"] = json!(way);
        value
    };
    let mut answer =
        json!({"entities": found.iter().take(limit).map(entity).collect::<Vec<_>>(), "truncated": truncated});
    if let Some(unknown) = type_name.filter(|_| labels.as_ref().is_some_and(Vec::is_empty)) {
        answer["notes"] = json!([node_names::unknown_type(view, unknown)]);
    }
    answer
}

/// Describes an entity with its attributes and the first `MAX_EDGES` edges in each direction.
///
/// # Errors
/// `NotFound` with the near names; `InvalidArgument` if several entities match.
pub(crate) fn describe_entity(view: &View, named: &str) -> Result<Value> {
    let node = node_names::find_entity(view, named)?;
    let mut value = named_cell(view, node);
    value["key"] = json!(view.snapshot.key(node));
    let attributes: Map<String, Value> =
        view.attributes(node).into_iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    value["attributes"] = Value::Object(attributes);
    let (out, into) = (view.outgoing(node).count(), view.incoming(node).count());
    value["out"] = view.outgoing(node).take(MAX_EDGES).map(|(edge, end)| edge_json(view, edge, end)).collect();
    value["in"] = view.incoming(node).take(MAX_EDGES).map(|(edge, end)| edge_json(view, edge, end)).collect();
    value["out_count"] = json!(out);
    value["in_count"] = json!(into);
    value["truncated"] = json!(out.max(into) > MAX_EDGES);
    Ok(value)
}

/// Returns an entity with its id, type and name, and for a person known by address the display name in `called`.
fn named_cell(view: &View, node: NodeIx) -> Value {
    let mut value = answer::entity_cell(view, node);
    let is_address = value["entity_type"] == "Person" && view.snapshot.name(node).contains('@');
    if let Some((_, called)) = view.attributes(node).into_iter().find(|(key, _)| is_address && *key == "called") {
        value["called"] = json!(called);
    }
    value
}

fn edge_json(view: &View, edge: EdgeIx, end: NodeIx) -> Value {
    let snapshot = &view.snapshot;
    let mut value = json!({
        "relation": snapshot.relation_name(edge),
        "entity": named_cell(view, end),
        "confidence": shortest_decimal(snapshot.confidence(edge)),
    });
    if let Some(found) = snapshot.evidence(edge) {
        let chunk = snapshot.symbols.get(found.chunk);
        value["evidence"] = json!({"chunk_id": chunk, "start": found.start, "end": found.end});
    }
    value
}

/// Describes a type: the number of its entities, examples, relations and attributes.
///
/// # Errors
/// `NotFound` with the near types.
pub(crate) fn describe_type(view: &View, name: &str) -> Result<Value> {
    let snapshot = &view.snapshot;
    let labels = snapshot.type_numbers(name);
    let declared = view.schema().types(name);
    if labels.is_empty() && declared.is_empty() {
        return Err(Error::not_found(node_names::unknown_type(view, name)).hint(NAMES_HINT));
    }
    let nodes: Vec<NodeIx> =
        labels.iter().flat_map(|it| snapshot.nodes_of_type(*it)).copied().filter(|it| view.is_visible(*it)).collect();
    let mut relations: BTreeMap<&str, usize> = BTreeMap::new();
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    // Counts relations and attributes of the first thousand entities only, which is a sufficient sample.
    for node in nodes.iter().take(1_000) {
        view.outgoing(*node).for_each(|(edge, _)| *relations.entry(snapshot.relation_name(edge)).or_default() += 1);
        view.attributes(*node).into_iter().for_each(|(key, _)| *keys.entry(key).or_default() += 1);
    }
    let below: Vec<String> = declared
        .iter()
        .flat_map(|(schema, bare)| {
            view.schema().subtypes(schema, bare).into_iter().map(move |it| format!("{schema}.{it}"))
        })
        .collect();
    Ok(json!({
        "type": name, "count": nodes.len(), "subtypes": below,
        "relations": relations, "attributes": keys,
        "examples": nodes.iter().take(EXAMPLES).map(|it| answer::entity_cell(view, *it)).collect::<Vec<_>>(),
    }))
}

/// Describes a relation: the number of its edges, the types that it connects, and its signature in the schemas.
///
/// # Errors
/// `NotFound` with the near relations.
pub(crate) fn describe_relation(view: &View, name: &str) -> Result<Value> {
    let snapshot = &view.snapshot;
    let numbers = snapshot.relation_numbers(name);
    let declared = view.schema().relations(name);
    if numbers.is_empty() && declared.is_empty() {
        return Err(Error::not_found(node_names::unknown_relation(view, name)).hint(NAMES_HINT));
    }
    let edges: Vec<EdgeIx> = numbers.iter().flat_map(|it| view.edges_of_relation(*it)).collect();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for edge in &edges {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        *ends.entry(format!("{} -> {}", snapshot.type_name(source), snapshot.type_name(target))).or_default() += 1;
    }
    let example = |edge: &EdgeIx| {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        json!({"source": answer::entity_cell(view, source), "target": answer::entity_cell(view, target)})
    };
    let of_this = |all: Vec<String>| -> Vec<String> {
        let means = |it: &String| {
            declared.iter().any(|(schema, relation)| it.starts_with(&format!("{schema}.{}", relation.name)))
        };
        all.into_iter().filter(means).collect()
    };
    Ok(json!({
        "relation": name, "count": edges.len(), "ends": ends,
        "signatures": of_this(signatures(view.schema())),
        "constraints": of_this(constraints(view.schema())),
        "examples": edges.iter().take(EXAMPLES).map(example).collect::<Vec<_>>(),
    }))
}
