//! The text form: one edge a line, `SourceID -io-> TargetID`. A line with an id alone is a node; `#` begins a comment.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::graph::codes;
use crate::model::{GraphEdge, GraphNode, GraphPart};

/// Reads lines.
///
/// # Errors
/// `InvalidArgument` naming the line, and what was expected there.
pub(crate) fn read(text: &str) -> Result<GraphPart> {
    let mut part = GraphPart::default();
    let mut known = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let ends = match line.split_once("->") {
            None => vec![line],
            Some((left, target)) => {
                // The last ` -` before the arrow: ids may have hyphens and spaces.
                let cut = left.rfind(" -").map(|at| (&left[..at], &left[at + 2..]));
                let Some((source, relation)) = cut else { return Err(wrong(number, line)) };
                let (source, relation, target) = (source.trim(), relation.trim(), target.trim());
                if [source, relation, target].contains(&"") {
                    return Err(wrong(number, line));
                }
                part.edges.push(edge(source, relation, target));
                vec![source, target]
            }
        };
        for id in ends {
            if known.insert(id.to_string()) {
                part.nodes.push(node(id));
            }
        }
    }
    Ok(part)
}

fn wrong(number: u32, line: &str) -> Error {
    let line: String = line.chars().take(80).collect();
    Error::invalid(format!("line {number}: found `{line}`, expected `SourceID -relation-> TargetID`"))
        .hint("e.g. `PRDContent.FL.001 -io-> SubmitPRD.FN.001`")
}

/// A node as its id describes it.
pub(crate) fn node(id: &str) -> GraphNode {
    let (name, entity_type) = codes::read(id);
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

    #[test]
    fn edges_comments_and_lone_nodes_are_read() {
        let part = read("# io\nA.FL.001 -io-> B.FN.001\n\n  C.AC.001\nA.FL.001 -io-> B.FN.001\n").unwrap();
        let keys: Vec<&str> = part.nodes.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["A.FL.001", "B.FN.001", "C.AC.001"]);
        assert_eq!(part.edges.len(), 2, "an edge that is there twice is there twice, so that it can be found");
        assert_eq!((part.edges[0].relation.as_str(), part.nodes[1].entity_type.as_str()), ("io", "FUNC"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for line in ["A -> B", "A -io->", "-io-> B", "A --> B"] {
            let error = read(&format!("X -io-> Y\n{line}")).unwrap_err();
            assert!(error.message.starts_with("line 2: found"), "{line}: {error}");
        }
    }
}
