//! Converts JSON to graph parts: nodes, edges, facts, schemas.
//!
//! ```json
//! {"nodes": [{"id": 0, "type": "Node", "name": "a", "attributes": {"size": "3"}}],
//!  "edges": [{"source": 0, "target": "b", "type": "rel_0", "confidence": 0.9}],
//!  "facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"]}],
//!  "schemas": [{"name": "Fam", "types": [{"name": "Person"}], "relations": []}]}
//! ```
//!
//! A node is referenced by its number, its key (a text as `id`), or its name if it is unique in the import. Edges may also
//! reference entities of the graph by their keys.
//!
//! The result is handed over in parts of bounded size, so that only one of them is in memory.

pub(in crate::graph) mod change_check;
mod json_reader;
mod json_items;
pub mod proposals;
#[cfg(test)]
mod tests;
pub(in crate::graph) mod text;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph::import::json_items::Importer;
use crate::model::GraphPart;

/// Most edges, and most nodes, of one part, the unit of storage.
pub(super) const PART_ITEMS: usize = 20_000;

/// Receives the parts of a graph in order.
pub(crate) type TakePart<'a> = &'a mut dyn FnMut(GraphPart) -> Result<()>;

/// Parses the import `name` into parts of bounded size. After an error, parts already handed over are invalid.
///
/// # Errors
/// `InvalidArgument` naming the problem and its place; errors of `take`.
pub(crate) fn parse_in_parts(name: &str, text: &str, take: TakePart<'_>) -> Result<()> {
    let head = json_reader::read_head(text)?;
    let (has_edges, has_facts) = (head.has_edges, head.has_facts);
    let mut importer = Importer::new(name, head.schemas, &head.nodes, take);
    importer.add_nodes(head.nodes)?;
    if has_edges {
        json_reader::read_edges(text, |number, it| {
            importer.add_edge(it).map_err(|error| with_item_place(error, "edges", number))?;
            importer.hand_on_when_full()
        })?;
    }
    if has_facts {
        // After all edges, in any file order: facts create contexts and times that edges must not resolve to.
        json_reader::read_facts(text, |number, it| {
            importer.add_fact(number, it).map_err(|error| with_item_place(error, "facts", number))?;
            importer.hand_on_when_full()
        })?;
    }
    importer.finish()
}

/// Parses a small graph at once.
///
/// # Errors
/// As [`parse_in_parts`].
pub(crate) fn parse(name: &str, text: &str) -> Result<Vec<GraphPart>> {
    let mut parts = Vec::new();
    parse_in_parts(name, text, &mut |part| {
        parts.push(part);
        Ok(())
    })?;
    Ok(parts)
}

/// Splits a part, with all nodes in the first piece.
///
/// # Errors
/// Errors of `take`.
pub(crate) fn split_part(mut part: GraphPart, take: TakePart<'_>) -> Result<()> {
    let mut edges = std::mem::take(&mut part.edges).into_iter();
    part.edges.extend(edges.by_ref().take(PART_ITEMS));
    take(part)?;
    while !edges.as_slice().is_empty() {
        take(GraphPart { edges: edges.by_ref().take(PART_ITEMS).collect(), ..GraphPart::default() })?;
    }
    Ok(())
}

/// Adds the index of an item to its error; the field within the item is kept.
fn with_item_place(error: Error, list: &str, number: usize) -> Error {
    let place = match &error.field {
        Some(part) => format!("{list}[{number}].{part}"),
        None => format!("{list}[{number}]"),
    };
    Error { message: format!("`{place}`: {}", error.message), ..error }.field(place)
}

/// Converts attribute values to texts; refuses nested values.
pub(super) fn text_attributes(map: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>> {
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((key.clone(), value.to_string())),
        _ => Err(Error::invalid(format!("attribute `{key}` is not a text, number or boolean"))),
    };
    map.iter().map(text).collect()
}
