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

use crate::error::{Error, Result};
use crate::graph::import::json_items::Importer;
use crate::graph::import::json_reader;
use crate::graph::import::parts::TakePart;
use crate::model::GraphPart;

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

/// Adds the index of an item to its error; the field within the item is kept.
fn with_item_place(error: Error, list: &str, number: usize) -> Error {
    let place = match &error.field {
        Some(part) => format!("{list}[{number}].{part}"),
        None => format!("{list}[{number}]"),
    };
    Error { message: format!("`{place}`: {}", error.message), ..error }.field(place)
}
