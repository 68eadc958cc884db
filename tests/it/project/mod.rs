//! Tests of the source tree: layers, import circles, dependencies, and the list of adversarial cases.

pub(crate) mod cases;
pub(crate) mod dependencies;
pub(crate) mod import_circles;
pub(crate) mod layers;
pub(crate) mod web_page;
