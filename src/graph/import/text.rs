//! Imports a graph from lines of text, one edge per line: `SourceID -io-> TargetID`. A line with only an id is a node, and a
//! line that begins with `#` is a comment.
//!
//! Any other line is an error with its line number, and nothing is imported: a line of prose must not become a node. So a
//! single node must be a semantic id `Name.TYPE.001`, or a JSON string in quotes. An id of an edge needs quotes only if it
//! would be read as something else.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::error::{Error, Result};
use crate::graph::import::parts::{PART_ITEMS, TakePart};
use crate::graph::semantic_id;
use crate::model::{GraphEdge, GraphNode, GraphPart};

/// The arrow between two ids, with the relation in it.
static ARROW: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\s-("(?:[^"\\]|\\.)*"|[^\s"]\S*?)->"#).expect("a constant"));

/// Parses a text into a single part.
///
/// # Errors
/// As [`parse_in_parts`].
pub(crate) fn parse(text: &str) -> Result<GraphPart> {
    let mut whole = GraphPart::default();
    parse_in_parts(text, &mut |part| {
        whole.nodes.extend(part.nodes);
        whole.edges.extend(part.edges);
        Ok(())
    })?;
    Ok(whole)
}

/// Parses a text into parts of limited size. After an error, the parts already passed to `take` are invalid.
///
/// # Errors
/// `InvalidArgument` with the number of the line and the expected form; the errors of `take`.
pub(crate) fn parse_in_parts(text: &str, take: TakePart<'_>) -> Result<()> {
    let mut part = GraphPart::default();
    let mut known = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // Tries a single node first, because an id in quotes may contain an arrow.
        let ids = single_node_id(line).map(|it| vec![it]).or_else(|| split_edge(line).map(|it| it.to_vec()));
        let ids = ids.ok_or_else(|| line_error(number, line))?;
        if let [source, relation, target] = ids.as_slice() {
            part.edges.push(edge(source, relation, target));
        }
        // Skips the relation between the two ids.
        for id in ids.into_iter().step_by(2) {
            if known.insert(id.clone()) {
                part.nodes.push(node_of_id(&id));
            }
        }
        if part.edges.len().max(part.nodes.len()) >= PART_ITEMS {
            take(std::mem::take(&mut part))?;
        }
    }
    take(part)
}

/// Splits a line into source, relation and target; `None` if it is not a valid edge.
fn split_edge(line: &str) -> Option<[String; 3]> {
    let (source, rest) = match line.starts_with('"') {
        true => split_quoted(line)?,
        false => {
            let arrow = ARROW.find(line)?;
            (line[..arrow.start()].trim().to_string(), &line[arrow.start()..])
        }
    };
    let arrow = ARROW.captures(rest).filter(|it| it.get(0).is_some_and(|it| it.start() == 0))?;
    let relation = unquoted(&arrow[1])?;
    let target = rest[arrow[0].len()..].trim();
    // Refuses `a -x-> b -y-> c`, because the part after the second arrow would become part of the target.
    let target = if target.contains("->") && !target.starts_with('"') { None } else { unquoted(target) }?;
    let parts = [source, relation, target];
    (!parts.iter().any(String::is_empty)).then_some(parts)
}

/// Returns the id of a line that is a single node.
fn single_node_id(line: &str) -> Option<String> {
    match line.starts_with('"') {
        true => unquoted(line).filter(|it| !it.is_empty()),
        false => semantic_id::is_semantic_id(line).then(|| line.to_string()),
    }
}

/// Returns a text without its quotes, if it has any; `None` if text follows the closing quote.
fn unquoted(text: &str) -> Option<String> {
    match text.starts_with('"') {
        true => split_quoted(text).filter(|(_, rest)| rest.is_empty()).map(|(held, _)| held),
        false => Some(text.to_string()),
    }
}

/// Returns the content of the quotes at the beginning of a text, and the text after them.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let held = strings.next()?.ok()?;
    Some((held, &text[strings.byte_offset()..]))
}

/// Writes an id in the form that [`parse`] reads. A single node (`is_alone`) needs quotes in more cases than the end of an
/// edge.
pub(crate) fn quote_id(text: &str, is_alone: bool) -> Cow<'_, str> {
    let is_odd = text.trim() != text
        || text.is_empty()
        || text.starts_with(['"', '#'])
        || text.chars().any(char::is_control)
        || text.contains("->")
        || text.contains(" -");
    match is_odd || is_alone && !semantic_id::is_semantic_id(text) {
        true => Cow::Owned(serde_json::Value::from(text).to_string()),
        false => Cow::Borrowed(text),
    }
}

/// Writes a relation in the form that [`parse`] reads.
pub(crate) fn quote_relation(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_whitespace) {
        true => Cow::Owned(serde_json::Value::from(text).to_string()),
        false => quote_id(text, false),
    }
}

fn line_error(number: u32, line: &str) -> Error {
    let shown: String = line.chars().take(80).collect();
    let expected = "expected `SourceID -relation-> TargetID`, or a node as `Name.TYPE.001` or in quotes";
    let error = Error::invalid(format!("line {number}: found `{shown}`, {expected}")).field(format!("line {number}"));
    match semantic_id::suggest_id(line) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        None => error.hint("e.g. `PRDContent.FL.001 -io-> SubmitPRD.FN.001`; nothing was imported"),
    }
}

/// Makes a node whose name and type are those in its semantic id.
pub(crate) fn node_of_id(id: &str) -> GraphNode {
    let (name, entity_type) = semantic_id::split_id(id);
    GraphNode { key: id.into(), entity_type: entity_type.into(), name: name.into(), ..GraphNode::default() }
}

fn edge(source: &str, relation: &str, target: &str) -> GraphEdge {
    GraphEdge {
        relation: relation.into(),
        source: source.into(),
        target: target.into(),
        confidence: 1.0,
        ..GraphEdge::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text and compares the keys of its nodes, and its edges.
    fn check(text: &str, nodes: &[&str], edges: &[[&str; 3]]) {
        let part = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let keys: Vec<&str> = part.nodes.iter().map(|it| it.key.as_str()).collect();
        let wires: Vec<[&str; 3]> =
            part.edges.iter().map(|it| [it.source.as_str(), it.relation.as_str(), it.target.as_str()]).collect();
        assert_eq!((keys.as_slice(), wires.as_slice()), (nodes, edges), "{text}");
    }

    #[test]
    fn edges_comments_and_single_nodes_parse() {
        let io = ["A.FL.001", "io", "B.FN.001"];
        // Keeps duplicate edges, so that the quality report can list them.
        check(
            "# io\nA.FL.001 -io-> B.FN.001\n\n  C.AC.001\nA.FL.001 -io-> B.FN.001\n",
            &["A.FL.001", "B.FN.001", "C.AC.001"],
            &[io, io],
        );
        check("a-b c -io-> d e", &["a-b c", "d e"], &[["a-b c", "io", "d e"]]);
        check("a -x-y->b", &["a", "b"], &[["a", "x-y", "b"]]);
        assert_eq!(parse("B.FN.001").unwrap().nodes[0].entity_type, "FUNC");
    }

    #[test]
    fn quoted_ids_may_contain_any_text() {
        check("\"a line of prose\"", &["a line of prose"], &[]);
        check(
            r##""a -x-> b" -"is part of"-> "#c\n\"d\"""##,
            &["a -x-> b", "#c\n\"d\""],
            &[["a -x-> b", "is part of", "#c\n\"d\""]],
        );
    }

    #[test]
    fn written_ids_and_relations_round_trip() {
        let odd =
            ["A.FL.001", "plain", "two words", "a -b c", "x->y", "#1", "\"q\"", "line\nbreak", " edge ", "ä -> ö"];
        for id in odd {
            check(&quote_id(id, true), &[id], &[]);
            for relation in ["io", "is part of", "x->y", "a-b", "\"r\""] {
                let line = format!("{} -{}-> {}", quote_id(id, false), quote_relation(relation), quote_id("z", false));
                check(&line, &[id, "z"], &[[id, relation, "z"]]);
            }
        }
    }

    #[test]
    fn invalid_line_is_named_and_refused() {
        for line in [
            "A -> B",
            "A -io->",
            "-io-> B",
            "A --> B",
            "A -io-> B -io-> C",
            "A - io -> B",
            "The hive weighed 31 kg.",
            "hive",
            "notes.md",
            "See fig.A.3",
            "\"open",
            "\"a\" b",
            "\"\"",
            "\"a\" -io-> \"b\" c",
            "{\"nodes\": []}",
        ] {
            let error = parse(&format!("X -io-> Y\n{line}")).unwrap_err();
            assert!(error.message.starts_with("line 2: found"), "{line}: {error}");
            assert!(error.hint.is_some() && error.field.as_deref() == Some("line 2"), "{line}");
        }
        let hint = |line: &str| parse(line).unwrap_err().hint.unwrap();
        assert_eq!(hint("Submit.fn.001"), "did you mean `Submit.FN.001`?");
        assert_eq!(hint("Submit.Fun.001"), "did you mean `Submit.FN.001`?");
    }
}
