//! The parts that an import is split into: each is stored separately, so that only one of them is in memory.

use crate::error::Result;
use crate::model::GraphPart;

/// Number of nodes or edges at which a part of an import is full and is stored.
pub(super) const PART_ITEMS: usize = 20_000;

/// Callback that receives the parts of a graph in order.
pub(crate) type TakePart<'a> = &'a mut dyn FnMut(GraphPart) -> Result<()>;

/// Splits a graph part into parts of at most `PART_ITEMS` edges each; the first of them has all nodes.
///
/// # Errors
/// The errors of `take`.
pub(crate) fn split_part(mut part: GraphPart, take: TakePart<'_>) -> Result<()> {
    let mut edges = std::mem::take(&mut part.edges).into_iter();
    part.edges.extend(edges.by_ref().take(PART_ITEMS));
    take(part)?;
    while !edges.as_slice().is_empty() {
        take(GraphPart { edges: edges.by_ref().take(PART_ITEMS).collect(), ..GraphPart::default() })?;
    }
    Ok(())
}
