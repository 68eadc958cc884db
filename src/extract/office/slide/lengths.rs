//! Lengths in OOXML: attributes state them in English metric units.

use crate::extract::xml_tree::Node;

/// English metric units per point.
const EMU_PER_POINT: f32 = 12_700.0;

/// Returns an attribute that states a length, in points.
pub(super) fn length(node: Node<'_>, name: &str) -> Option<f32> {
    points(&node.attr(name)?)
}

/// Returns a stated length in points.
pub(super) fn points(stated: &str) -> Option<f32> {
    stated.parse::<f32>().ok().filter(|it| it.is_finite()).map(|it| it / EMU_PER_POINT)
}
