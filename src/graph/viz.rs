//! Pictures: Graphviz, and a page that needs nothing else and reaches nobody: no script of others, no font, no address.
//!
//! Names of entities come out of files. In DOT they are quoted; in the page they are data (JSON in which `<` is escaped)
//! that only ever becomes text nodes, and a content security policy forbids everything beside the page's own script.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::export::Extent;
use crate::graph::view::View;

/// Characters of a name in a picture.
const NAME: usize = 60;

/// Colours of types, by turns.
const COLOURS: [&str; 8] = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b"];

/// Draws as Graphviz.
pub(crate) fn dot(view: &View, extent: &Extent) -> String {
    let snapshot = &view.snapshot;
    let mut dot =
        String::from("digraph vic {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for node in &extent.nodes {
        let label = format!("{}\n{}", shown(snapshot.name(*node)), snapshot.type_name(*node));
        let colour = colour(snapshot.label_of[*node as usize]);
        let _ = writeln!(dot, "  n{} [label={}, color=\"{colour}\"];", snapshot.id(*node), quoted(&label));
    }
    for edge in &extent.edges {
        let (source, target) = (snapshot.id(snapshot.source(*edge)), snapshot.id(snapshot.target(*edge)));
        let _ = writeln!(dot, "  n{source} -> n{target} [label={}];", quoted(snapshot.relation_name(*edge)));
    }
    dot.push_str("}\n");
    dot
}

fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

fn colour(label: u16) -> &'static str {
    COLOURS[label as usize % COLOURS.len()]
}

/// A text of DOT. Escapes of DOT itself begin with a backslash.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            it if it.is_control() => quoted.push(' '),
            it => quoted.push(it),
        }
    }
    quoted.push('"');
    quoted
}

/// Draws as a page.
///
/// # Errors
/// None but a defect.
pub(crate) fn html(view: &View, extent: &Extent) -> Result<String> {
    let snapshot = &view.snapshot;
    let place = |node: u32| extent.nodes.binary_search(&node).unwrap_or(0);
    let nodes: Vec<Value> = extent
        .nodes
        .iter()
        .map(|it| {
            let colour = colour(snapshot.label_of[*it as usize]);
            json!([shown(snapshot.name(*it)), snapshot.type_name(*it), colour, snapshot.id(*it)])
        })
        .collect();
    let edges: Vec<Value> = extent
        .edges
        .iter()
        .map(|it| json!([place(snapshot.source(*it)), place(snapshot.target(*it)), snapshot.relation_name(*it)]))
        .collect();
    let data = json!({"nodes": nodes, "edges": edges, "truncated": extent.truncated});
    // Inside a script nothing but `</script` and `<!--` has a meaning; without `<` there is neither.
    let data = serde_json::to_string(&data).map_err(Error::internal)?.replace('<', "\\u003c");
    Ok(PAGE.replacen("__DATA__", &data, 1))
}

/// The page. Forces push entities apart and edges pull them together until they rest; wheel and drag move the picture.
const PAGE: &str = include_str!("viz.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_quotes_in_dot() {
        assert_eq!(quoted("a\"];\nx\\"), "\"a\\\"];\\nx\\\\\"");
        assert_eq!(quoted("\u{1b}[2J"), "\" [2J\"");
    }

    #[test]
    fn the_page_reaches_nobody() {
        for sign in ["http://", "https://", "src=", "href=", "@import", "url(", "innerHTML", "document.write", "eval("]
        {
            assert!(!PAGE.replace("http://www.w3.org/2000/svg", "").contains(sign), "{sign}");
        }
        assert!(PAGE.contains("default-src 'none'") && PAGE.matches("__DATA__").count() == 1);
    }
}
