//! Changes to imported graphs, checked before they are made: an io edge that is there already, that would close a circle,
//! or that would make a flow go both ways, is refused with the reason, and nothing of the change is made then.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::io_chain::IO;
use crate::graph::view::View;
use crate::graph::{import, intake, near};
use crate::model::{GraphChange, GraphEdge, GraphFormat, GraphPart};

/// Refusals that say which node was probably meant: each looks at all of them.
const MOST_HINTS: usize = 20;
/// Edges of one change.
const MOST_EDGES: usize = 10_000;

/// Reads a change.
///
/// # Errors
/// The text is not of its form; it is too large.
pub(crate) fn read(name: &str, change: &GraphChange) -> Result<GraphPart> {
    let part = match change.format {
        GraphFormat::Text => intake::read(&change.text)?,
        GraphFormat::Json => {
            let mut whole = GraphPart::default();
            for part in import::read(name, &change.text)? {
                whole.nodes.extend(part.nodes);
                whole.edges.extend(part.edges);
                whole.schemas.extend(part.schemas);
            }
            whole
        }
        GraphFormat::Proposals => {
            return Err(
                Error::invalid("proposals are imported, not applied").hint("`vic graph import --form proposals`")
            );
        }
    };
    match part.edges.len() {
        many if many > MOST_EDGES => {
            Err(Error::invalid(format!("a change has at most {MOST_EDGES} edges, not {many}")))
        }
        _ => Ok(part),
    }
}

/// Looks at each edge of a change, in its order, as if those before it were made. Returns what is refused, and why.
pub(crate) fn refused(view: &View, part: &GraphPart) -> Vec<Value> {
    let mut io = Io { view, added: HashMap::new() };
    let mut refused = Vec::new();
    let own: HashSet<&str> = part.nodes.iter().map(|it| it.key.as_str()).collect();
    for edge in &part.edges {
        let unknown = [&edge.source, &edge.target]
            .into_iter()
            .find(|it| !own.contains(it.as_str()) && view.snapshot.keyed(it).is_none());
        let why = match unknown {
            Some(id) => Some(("unknown", no_node(view, id, refused.len() < MOST_HINTS))),
            None if edge.relation == IO => io.problem(edge),
            None => None,
        };
        match why {
            Some((kind, reason)) => refused.push(json!({
                "source": edge.source, "target": edge.target, "type": edge.relation, "issue": kind, "reason": reason,
            })),
            None if edge.relation == IO => io.add(edge),
            None => {}
        }
    }
    refused
}

/// That there is no such node, and which was probably meant.
fn no_node(view: &View, id: &str, is_hinted: bool) -> String {
    let keys = || view.nodes().map(|it| view.snapshot.key(it));
    match is_hinted.then(|| near::did_you_mean(id, keys())).flatten() {
        Some(hint) => format!("there is no node `{id}`: {hint}"),
        None => format!("there is no node `{id}`"),
    }
}

/// The io edges of the graph and of the change so far, by key.
struct Io<'a> {
    view: &'a View,
    added: HashMap<String, Vec<String>>,
}

impl Io<'_> {
    fn add(&mut self, edge: &GraphEdge) {
        self.added.entry(edge.source.clone()).or_default().push(edge.target.clone());
    }

    fn targets(&self, key: &str) -> Vec<String> {
        let snapshot = &self.view.snapshot;
        let mut targets = self.added.get(key).cloned().unwrap_or_default();
        if let Some(node) = snapshot.keyed(key) {
            let relations = snapshot.relations_of(IO);
            let known = relations.into_iter().flat_map(|it| self.view.leaving_of(node, it));
            targets.extend(known.map(|it| snapshot.key(it.1).to_string()));
        }
        targets
    }

    fn problem(&self, edge: &GraphEdge) -> Option<(&'static str, String)> {
        let (source, target) = (&edge.source, &edge.target);
        if source == target {
            return Some(("circular", format!("`{source}` would flow into itself")));
        }
        if self.targets(source).contains(target) {
            return Some(("duplicate", format!("`{source} -io-> {target}` is there already")));
        }
        if self.targets(target).contains(source) {
            return Some(("bidirectional", format!("`{target} -io-> {source}` is there: it would flow both ways")));
        }
        let way = self.way(target, source)?;
        Some(("circular", format!("it would close the circle {} -> {target}", way.join(" -> "))))
    }

    /// The shortest way along io edges.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came: HashMap<String, String> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([from.to_string()]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut way = vec![node];
                while let Some(before) = way.last().and_then(|it| came.get(it)) {
                    way.push(before.clone());
                }
                way.reverse();
                return Some(way);
            }
            for next in self.targets(&node) {
                if next != from && !came.contains_key(&next) {
                    came.insert(next.clone(), node.clone());
                    queue.push_back(next);
                }
            }
        }
        None
    }
}
