//! Imports graphs from JSON, from lines of text, and from proposals that the user has reviewed. Checks changes to the graph.

pub(in crate::graph) mod change_check;
pub(in crate::graph) mod change_warnings;
pub(in crate::graph) mod json_format;
mod json_items;
mod json_reader;
pub(in crate::graph) mod parts;
pub mod proposals;
#[cfg(test)]
mod tests;
pub(in crate::graph) mod text;
