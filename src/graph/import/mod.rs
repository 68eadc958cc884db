//! Imports graphs: JSON, lines of text, and proposals that a person has accepted. Checks changes to imported graphs.

pub(in crate::graph) mod change_check;
pub(in crate::graph) mod json_format;
mod json_items;
mod json_reader;
pub(in crate::graph) mod parts;
pub mod proposals;
#[cfg(test)]
mod tests;
pub(in crate::graph) mod text;
