//! JSON to what a source says: nodes, edges, facts, schemas.
//!
//! ```json
//! {"nodes": [{"id": 0, "type": "Node", "name": "a", "attributes": {"size": "3"}}],
//!  "edges": [{"source": 0, "target": "b", "type": "rel_0", "confidence": 0.9}],
//!  "facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"]}],
//!  "schemas": [{"name": "Fam", "types": [{"name": "Person"}], "relations": []}]}
//! ```
//!
//! A node is named by its number, its key (a text as `id`), or its name where no other node of the import has it. Edges may
//! also name entities by the keys that they have in the graph already.
//!
//! What is made of the text is handed on in parts of bounded size, so that no more than one of them is in memory.

mod file;
mod importer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph::import::importer::Importer;
use crate::model::GraphPart;

/// Edges of one part, and nodes: what is replaced and read at a time.
pub(super) const PART_ITEMS: usize = 20_000;

/// Is given the parts of a graph, in their order.
pub(crate) type TakePart<'a> = &'a mut dyn FnMut(GraphPart) -> Result<()>;

/// Reads a graph that is to be called `name`, in parts of bounded size. What was handed over before an error is no graph.
///
/// # Errors
/// `InvalidArgument` naming what is wrong and where; what `take` says.
pub(crate) fn each(name: &str, text: &str, take: TakePart<'_>) -> Result<()> {
    let head = file::head(text)?;
    let (has_edges, has_facts) = (head.has_edges, head.has_facts);
    let mut importer = Importer::new(name, head.schemas, &head.nodes, take);
    importer.nodes(head.nodes)?;
    if has_edges {
        file::edges(text, |number, it| {
            importer.edge(it).map_err(|error| at(error, "edges", number))?;
            importer.hand_on_when_full()
        })?;
    }
    if has_facts {
        // After all edges, wherever they stand in the file: the first fact names contexts and times that they must not see.
        file::facts(text, |number, it| {
            importer.fact(number, it).map_err(|error| at(error, "facts", number))?;
            importer.hand_on_when_full()
        })?;
    }
    importer.end()
}

/// The same at once, for a graph that is known to be small.
///
/// # Errors
/// As [`each`].
pub(crate) fn read(name: &str, text: &str) -> Result<Vec<GraphPart>> {
    let mut parts = Vec::new();
    each(name, text, &mut |part| {
        parts.push(part);
        Ok(())
    })?;
    Ok(parts)
}

/// Hands a part on in several, the nodes in the first.
///
/// # Errors
/// What `take` says.
pub(crate) fn cut(mut part: GraphPart, take: TakePart<'_>) -> Result<()> {
    let mut edges = std::mem::take(&mut part.edges).into_iter();
    part.edges.extend(edges.by_ref().take(PART_ITEMS));
    take(part)?;
    while !edges.as_slice().is_empty() {
        take(GraphPart { edges: edges.by_ref().take(PART_ITEMS).collect(), ..GraphPart::default() })?;
    }
    Ok(())
}

/// An error with the item that it is about; what it says of a part of that stays.
fn at(error: Error, list: &str, number: usize) -> Error {
    let place = match &error.field {
        Some(part) => format!("{list}[{number}].{part}"),
        None => format!("{list}[{number}]"),
    };
    Error { message: format!("`{place}`: {}", error.message), ..error }.field(place)
}

/// Attributes as texts; what has parts is refused.
pub(super) fn attributes(map: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>> {
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((key.clone(), value.to_string())),
        _ => Err(Error::invalid(format!("attribute `{key}` is no text, number or truth value"))),
    };
    map.iter().map(text).collect()
}
