//! Imports a graph from JSON with nodes, edges, facts and schemas:
//!
//! ```json
//! {"nodes": [{"id": 0, "type": "Node", "name": "a", "attributes": {"size": "3"}}],
//!  "edges": [{"source": 0, "target": "b", "type": "rel_0", "confidence": 0.9}],
//!  "facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"]}],
//!  "schemas": [{"name": "Fam", "types": [{"name": "Person"}], "relations": []}]}
//! ```
//!
//! A node is referenced by its number, by its key (a text as `id`), or by its name if no other node of the import has this
//! name. Edges may also reference entities that already are in the graph, by their keys.
//!
//! The result is passed on in parts of limited size, so that only one part is in memory.

use crate::error::{Error, Result};
use crate::graph::import::json_items::Importer;
use crate::graph::import::json_reader;
use crate::graph::import::parts::TakePart;
use crate::model::GraphPart;

/// Parses the import `name` into parts of limited size. After an error, the parts already passed to `take` are invalid.
///
/// # Errors
/// `InvalidArgument` with the problem and its location; the errors of `take`.
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
        // Reads facts after all edges, because facts create contexts and times, which no edge may reference by name.
        json_reader::read_facts(text, |number, it| {
            importer.add_fact(number, it).map_err(|error| with_item_place(error, "facts", number))?;
            importer.hand_on_when_full()
        })?;
    }
    importer.finish()
}

/// Parses a small graph and returns all its parts.
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

/// Adds list and index of an item to an error; if the error names a field, it becomes the end of this location.
fn with_item_place(error: Error, list: &str, number: usize) -> Error {
    let place = match &error.field {
        Some(part) => format!("{list}[{number}].{part}"),
        None => format!("{list}[{number}]"),
    };
    Error { message: format!("`{place}`: {}", error.message), ..error }.field(place)
}
