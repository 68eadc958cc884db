//! Renders a part of the graph as JSON, as lines of text, as Graphviz DOT, or as a self-contained HTML page without external
//! scripts, fonts or network access.
//!
//! Names of entities come from files, so they are untrusted. In DOT they are quoted. In the page they are JSON with `<`
//! escaped, become text nodes only, and a content security policy forbids everything except the page's own script.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::export::{self, Subgraph};
use crate::graph::node_names::typed_id;
use crate::graph::snapshot::view::View;
use crate::model::{GraphExtent, GraphShape};

/// Maximum number of entities in a drawing (DOT or HTML); with more, a drawing is unreadable.
const MAX_DRAWN: usize = 2_000;
/// Maximum number of entities in an export (JSON or text).
const MAX_EXPORTED: usize = 5_000_000;
/// Maximum number of characters of a name in a drawing; longer names are shortened.
const MAX_NAME_CHARS: usize = 60;

/// Colours of entities; each type has one, and types share colours if there are more types.
const COLOURS: [&str; 8] = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b"];

/// Renders the part of the graph that `request` selects, in the format `shape`.
pub(in crate::graph) fn render(view: &View, shape: GraphShape, request: &GraphExtent) -> Result<Value> {
    let most = match shape {
        GraphShape::Json | GraphShape::Text => MAX_EXPORTED,
        GraphShape::Dot | GraphShape::Html => MAX_DRAWN,
    };
    let extent = export::select_extent(view, request, most)?;
    let text = match shape {
        GraphShape::Json => serde_json::to_string_pretty(&export::to_json(view, &extent)).map_err(Error::internal)?,
        GraphShape::Text => export::to_lines(view, &extent),
        GraphShape::Dot => dot(view, &extent),
        GraphShape::Html => html(view, &extent)?,
    };
    let (nodes, edges) = (extent.nodes.len(), extent.edges.len());
    let mut answer = json!({"text": text, "nodes": nodes, "edges": edges, "truncated": extent.truncated});
    if !extent.notes.is_empty() {
        answer["notes"] = json!(extent.notes);
    }
    Ok(answer)
}

/// Renders a part of the graph as Graphviz DOT.
pub(in crate::graph) fn dot(view: &View, extent: &Subgraph) -> String {
    let snapshot = &view.snapshot;
    let mut dot =
        String::from("digraph vic {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for node in &extent.nodes {
        let label = format!("{}\n{}", shorten(snapshot.name(*node)), snapshot.type_name(*node));
        let colour = colour(snapshot.label_of[*node as usize]);
        let (id, label) = (quote_dot(&typed_id(view, *node)), quote_dot(&label));
        let _ = writeln!(dot, "  {id} [label={label}, color=\"{colour}\"];");
    }
    for edge in &extent.edges {
        let [source, target] =
            [snapshot.source(*edge), snapshot.target(*edge)].map(|it| quote_dot(&typed_id(view, it)));
        let _ = writeln!(dot, "  {source} -> {target} [label={}];", quote_dot(snapshot.relation_name(*edge)));
    }
    dot.push_str("}\n");
    dot
}

fn shorten(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

fn colour(label: u16) -> &'static str {
    COLOURS[label as usize % COLOURS.len()]
}

/// Quotes a text for DOT, where a backslash starts an escape sequence.
fn quote_dot(text: &str) -> String {
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

/// Renders a part of the graph as an HTML page.
///
/// # Errors
/// Only because of a bug in vic: the data cannot be serialized.
pub(in crate::graph) fn html(view: &View, extent: &Subgraph) -> Result<String> {
    let snapshot = &view.snapshot;
    let place = |node: u32| extent.nodes.binary_search(&node).unwrap_or(0);
    let nodes: Vec<Value> = extent
        .nodes
        .iter()
        .map(|it| {
            let colour = colour(snapshot.label_of[*it as usize]);
            json!([shorten(snapshot.name(*it)), snapshot.type_name(*it), colour, snapshot.id(*it)])
        })
        .collect();
    let edges: Vec<Value> = extent
        .edges
        .iter()
        .map(|it| json!([place(snapshot.source(*it)), place(snapshot.target(*it)), snapshot.relation_name(*it)]))
        .collect();
    let data = json!({"nodes": nodes, "edges": edges, "truncated": extent.truncated});
    // Escapes `<`, so that the names cannot contain `</script` or `<!--`, the only sequences that are special in a script.
    let data = serde_json::to_string(&data).map_err(Error::internal)?.replace('<', "\\u003c");
    Ok(PAGE.replacen("__DATA__", &data, 1))
}

/// The HTML page: a force-directed layout with zoom by wheel and pan by drag.
const PAGE: &str = include_str!("viz.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_escapes_quotes_and_control_characters() {
        assert_eq!(quote_dot("a\"];\nx\\"), "\"a\\\"];\\nx\\\\\"");
        assert_eq!(quote_dot("\u{1b}[2J"), "\" [2J\"");
    }

    #[test]
    fn page_has_no_external_references() {
        for sign in ["http://", "https://", "src=", "href=", "@import", "url(", "innerHTML", "document.write", "eval("]
        {
            assert!(!PAGE.replace("http://www.w3.org/2000/svg", "").contains(sign), "{sign}");
        }
        assert!(PAGE.contains("default-src 'none'") && PAGE.matches("__DATA__").count() == 1);
    }
}
