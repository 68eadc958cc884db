//! The parts of an import: each is stored on its own, and only one of them is in memory.

use crate::error::Result;
use crate::model::GraphPart;

/// Most edges, and most nodes, of one part, the unit of storage.
pub(super) const PART_ITEMS: usize = 20_000;

/// Receives the parts of a graph in order.
pub(crate) type TakePart<'a> = &'a mut dyn FnMut(GraphPart) -> Result<()>;

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
