//! Checks a change of the graph before it is made. If an io edge of the change already exists, closes a cycle or reverses an
//! existing edge, it is refused with the reason, and no part of the change is made.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::import::{json_format, text};
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::graph::tools::io_chain::IO;
use crate::graph::{node_names, scc};
use crate::model::{GraphChange, GraphEdge, GraphFormat, GraphPart};

/// Maximum number of unknown nodes for which a refusal suggests similarly spelled nodes, because each is compared with all
/// nodes of the graph.
const MAX_HINTS: usize = 20;
/// Maximum number of edges in one change; a larger change is an error.
const MAX_EDGES: usize = 10_000;
/// Maximum number of edges visited in the search for cycles, about half a second. After that, edges on a cycle are still
/// refused, but the refusal does not show the cycle.
const MAX_VISITED_EDGES: usize = 5_000_000;
/// Maximum number of nodes of a cycle that a refusal shows.
const MAX_SHOWN_NODES: usize = 20;

/// Parses a change from its format to a graph part.
///
/// # Errors
/// The text does not have the format, or the change has too many edges.
pub(crate) fn parse_change(name: &str, change: &GraphChange) -> Result<GraphPart> {
    let part = match change.format {
        GraphFormat::Text => text::parse(&change.text)?,
        GraphFormat::Json => {
            let mut whole = GraphPart::default();
            for part in json_format::parse(name, &change.text)? {
                whole.nodes.extend(part.nodes);
                whole.edges.extend(part.edges);
                whole.schemas.extend(part.schemas);
            }
            whole
        }
        GraphFormat::Proposals => {
            return Err(Error::invalid("a file of proposals cannot be applied as a change")
                .hint("import them with `vic graph import --form proposals`"));
        }
    };
    match part.edges.len() {
        many if many > MAX_EDGES => Err(Error::invalid(format!("a change has at most {MAX_EDGES} edges, not {many}"))),
        _ => Ok(part),
    }
}

/// Replaces the ids of entities as vic prints them, such as `File#7` or `plan.md (File#7)`, by the keys of these entities.
///
/// # Errors
/// `NotFound` if the graph has the type of an id, but not the id.
pub(crate) fn replace_printed_ids(view: &View, part: &mut GraphPart, format: GraphFormat) -> Result<()> {
    // Only a change in JSON defines nodes. In a change as text, the ends of each edge are also listed as nodes, which does
    // not define them.
    let nodes = part.nodes.iter().filter(|_| format != GraphFormat::Text);
    let defined: HashSet<String> = nodes.map(|it| it.key.clone()).collect();
    let key = |text: &str| -> Result<Option<String>> {
        if defined.contains(text) || view.snapshot.node_by_key(text).is_some() {
            return Ok(None);
        }
        match node_names::key_of_printed_id(view, text) {
            None if node_names::is_id_of_known_type(view, text) => {
                let message = node_names::unknown_nodes(view, &[text]).concat();
                Err(Error::not_found(message).hint("`vic graph show` takes an id, and prints it"))
            }
            found => Ok(found.map(String::from)),
        }
    };
    for edge in &mut part.edges {
        for end in [&mut edge.source, &mut edge.target] {
            if let Some(key) = key(end)? {
                *end = key;
            }
        }
    }
    let mut nodes = Vec::with_capacity(part.nodes.len());
    for node in std::mem::take(&mut part.nodes) {
        if key(&node.key)?.is_none() {
            nodes.push(node);
        }
    }
    part.nodes = nodes;
    Ok(())
}

/// Checks the edges of a change in order, each as if the accepted ones before it were made. Returns the refused edges with
/// the reasons.
pub(crate) fn refused_edges(view: &View, part: &GraphPart) -> Vec<Value> {
    let own: HashSet<&str> = part.nodes.iter().map(|it| it.key.as_str()).collect();
    let is_known = |key: &str| own.contains(key) || view.snapshot.node_by_key(key).is_some();
    let unknown_end =
        |edge: &GraphEdge| [edge.source.clone(), edge.target.clone()].into_iter().find(|it| !is_known(it));
    let unknown = unknown_messages(view, part.edges.iter().filter_map(unknown_end));
    let joined = part.edges.iter().filter(|it| is_known(&it.source) && is_known(&it.target));
    let mut io = IoEdges::new(view, joined.filter(|it| it.relation == IO));
    let mut refused = Vec::new();
    for edge in &part.edges {
        let why = match unknown_end(edge) {
            Some(id) => {
                let message = unknown.get(&id).cloned();
                Some(("unknown", message.unwrap_or_else(|| format!("there is no node `{id}`"))))
            }
            None if edge.relation == IO => io.check_edge(edge),
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

/// Returns, for the first [`MAX_HINTS`] of these unknown nodes, a sentence that suggests similarly spelled nodes.
fn unknown_messages(view: &View, ids: impl Iterator<Item = String>) -> HashMap<String, String> {
    let mut first: Vec<String> = Vec::new();
    for id in ids {
        if first.len() == MAX_HINTS {
            break;
        }
        if !first.contains(&id) {
            first.push(id);
        }
    }
    if first.is_empty() {
        return HashMap::new();
    }
    let messages = node_names::unknown_nodes(view, &first.iter().map(String::as_str).collect::<Vec<_>>());
    first.into_iter().zip(messages).collect()
}

/// The io edges of the graph and the accepted ones of the change.
///
/// An edge closes a cycle only if both its ends are in the same strongly connected component of graph and change. One pass
/// finds the components, so that paths are searched only within a component.
struct IoEdges<'a> {
    view: &'a View,
    relations: Vec<u16>,
    /// Nodes that are in the change but not in the graph, by key; their numbers follow those of the graph's nodes.
    new: HashMap<&'a str, NodeIx>,
    keys: Vec<&'a str>,
    added: HashMap<NodeIx, Vec<NodeIx>>,
    /// For each node on a cycle, the strongly connected component that it is in.
    component_of: HashMap<NodeIx, usize>,
    visits_left: usize,
}

/// The result of searching a path between two nodes.
enum PathSearch {
    None,
    Shortest(Vec<NodeIx>),
    /// The search visited `MAX_VISITED_EDGES` edges without a result.
    Unknown,
}

impl<'a> IoEdges<'a> {
    fn new(view: &'a View, edges: impl Iterator<Item = &'a GraphEdge>) -> IoEdges<'a> {
        let mut io = IoEdges {
            view,
            relations: view.snapshot.relation_numbers(IO),
            new: HashMap::new(),
            keys: Vec::new(),
            added: HashMap::new(),
            component_of: HashMap::new(),
            visits_left: MAX_VISITED_EDGES,
        };
        for edge in edges {
            let (source, target) = (io.node_number(&edge.source), io.node_number(&edge.target));
            io.added.entry(source).or_default().push(target);
        }
        let begins: Vec<NodeIx> = io.added.keys().copied().collect();
        let circles = scc::components(begins, |node| io.targets(node).collect());
        let members = circles.into_iter().enumerate().flat_map(|(at, them)| them.into_iter().map(move |it| (it, at)));
        io.component_of = members.collect();
        io.added.clear();
        io
    }

    fn node_number(&mut self, key: &'a str) -> NodeIx {
        if let Some(node) = self.view.snapshot.node_by_key(key) {
            return node;
        }
        let next = (self.view.snapshot.nodes() + self.keys.len()) as NodeIx;
        *self.new.entry(key).or_insert_with(|| {
            self.keys.push(key);
            next
        })
    }

    fn key(&self, node: NodeIx) -> &str {
        match (node as usize).checked_sub(self.view.snapshot.nodes()) {
            Some(at) => self.keys[at],
            None => self.view.snapshot.key(node),
        }
    }

    fn add(&mut self, edge: &'a GraphEdge) {
        let (source, target) = (self.node_number(&edge.source), self.node_number(&edge.target));
        self.added.entry(source).or_default().push(target);
    }

    fn targets(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        let is_old = (node as usize) < self.view.snapshot.nodes();
        let relations = self.relations.iter().filter(move |_| is_old);
        let known = relations.flat_map(move |it| self.view.outgoing_by_relation(node, *it)).map(|it| it.1);
        self.added.get(&node).into_iter().flatten().copied().chain(known)
    }

    fn has_edge(&self, source: NodeIx, target: NodeIx) -> bool {
        let snapshot = &self.view.snapshot;
        let is_old = |node: NodeIx| (node as usize) < snapshot.nodes();
        if self.added.get(&source).is_some_and(|it| it.contains(&target)) {
            return true;
        }
        let joins = |relation: &u16| {
            // Finds the target by binary search, because a node may have very many edges.
            let edges = snapshot.outgoing_by_relation(source, *relation);
            let targets = &snapshot.outgoing.values[edges.start as usize..edges.end as usize];
            let first = edges.start + targets.partition_point(|it| *it < target) as EdgeIx;
            let mut those = (first..edges.end).take_while(|it| snapshot.target(*it) == target);
            those.any(|it| self.view.is_edge_visible(it)) && self.view.is_visible(target)
        };
        is_old(source) && is_old(target) && self.relations.iter().any(joins)
    }

    fn check_edge(&mut self, edge: &'a GraphEdge) -> Option<(&'static str, String)> {
        let (from, to) = (&edge.source, &edge.target);
        let (source, target) = (self.node_number(from), self.node_number(to));
        if source == target {
            return Some(("circular", format!("the edge leads from `{from}` to itself")));
        }
        if self.has_edge(source, target) {
            return Some(("duplicate", format!("`{from} -io-> {to}` already exists")));
        }
        if self.has_edge(target, source) {
            return Some(("bidirectional", format!("`{to} -io-> {from}` exists, which the edge would reverse")));
        }
        match self.shortest_path(target, source) {
            PathSearch::None => None,
            PathSearch::Shortest(way) => {
                Some(("circular", format!("the edge would close the cycle {} -> {to}", self.path_text(&way))))
            }
            PathSearch::Unknown => {
                Some(("circular", "the edge is on a cycle, not shown because the search limit was reached".into()))
            }
        }
    }

    /// Returns the shortest path along io edges from one node to another.
    fn shortest_path(&mut self, from: NodeIx, to: NodeIx) -> PathSearch {
        let Some(circle) = self.component_of.get(&from).copied() else { return PathSearch::None };
        if self.component_of.get(&to) != Some(&circle) {
            return PathSearch::None;
        }
        let mut came: HashMap<NodeIx, NodeIx> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        let mut looks = self.visits_left;
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut way = vec![node];
                while let Some(before) = way.last().and_then(|it| came.get(it)) {
                    way.push(*before);
                }
                way.reverse();
                self.visits_left = looks;
                return PathSearch::Shortest(way);
            }
            for next in self.targets(node) {
                looks = looks.saturating_sub(1);
                if next != from && self.component_of.get(&next) == Some(&circle) && !came.contains_key(&next) {
                    came.insert(next, node);
                    queue.push_back(next);
                }
            }
            if looks == 0 {
                self.visits_left = 0;
                return PathSearch::Unknown;
            }
        }
        self.visits_left = looks;
        PathSearch::None
    }

    /// Returns the nodes of a path as text; the middle of a long path is left out.
    fn path_text(&self, way: &[NodeIx]) -> String {
        let names = |part: &[NodeIx]| part.iter().map(|it| self.key(*it)).collect::<Vec<&str>>().join(" -> ");
        match way.len().checked_sub(MAX_SHOWN_NODES) {
            None | Some(0) => names(way),
            Some(left) => {
                let (head, tail) = (&way[..MAX_SHOWN_NODES / 2], &way[way.len() - MAX_SHOWN_NODES / 2..]);
                format!("{} -> ({left} more) -> {}", names(head), names(tail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::graph::tests::text_graph;

    type Ends = (u32, u32);

    fn lines(edges: impl IntoIterator<Item = Ends>) -> String {
        edges.into_iter().map(|(from, to)| format!("N{from}.FN.001 -io-> N{to}.FN.001\n")).collect()
    }

    /// Returns issue and reason of each refused edge.
    fn checked(before: &str, change: &str) -> Vec<(String, String)> {
        let change = GraphChange { format: GraphFormat::Text, text: change.into(), write: false };
        let text = |it: &Value| it.as_str().unwrap().to_string();
        let refused = refused_edges(&text_graph(before), &parse_change("c", &change).unwrap());
        refused.iter().map(|it| (text(&it["issue"]), text(&it["reason"]))).collect()
    }

    /// Returns the number of edges on the shortest path from one node to another, by exhaustive search.
    fn distance(edges: &BTreeSet<Ends>, from: u32, to: u32) -> Option<usize> {
        let mut reached = BTreeMap::from([(from, 0)]);
        for steps in 1..=edges.len() {
            let ends: Vec<Ends> = edges.iter().filter(|it| reached.contains_key(&it.0)).copied().collect();
            for (_, end) in ends {
                reached.entry(end).or_insert(steps);
            }
        }
        reached.get(&to).copied()
    }

    fn expected(before: &[Ends], change: &[Ends]) -> Vec<(&'static str, Option<usize>)> {
        let mut edges: BTreeSet<Ends> = before.iter().copied().collect();
        let mut refused = Vec::new();
        for (from, to) in change.iter().copied() {
            let issue = match distance(&edges, to, from) {
                Some(0) => Some(("circular", None)),
                _ if edges.contains(&(from, to)) => Some(("duplicate", None)),
                _ if edges.contains(&(to, from)) => Some(("bidirectional", None)),
                way => way.map(|steps| ("circular", Some(steps + 1))),
            };
            match issue {
                Some(issue) => refused.push(issue),
                None => drop(edges.insert((from, to))),
            }
        }
        refused
    }

    proptest! {
        #[test]
        fn refusals_match_sequential_reference_check(
            before in prop::collection::vec((0..6u32, 0..6u32), 1..10),
            change in prop::collection::vec((0..8u32, 0..8u32), 1..10),
        ) {
            let refused = checked(&lines(before.clone()), &lines(change.clone()));
            let arrows = |it: &str| it.starts_with("the edge would").then(|| it.matches(" -> ").count());
            let told: Vec<(&str, Option<usize>)> = refused.iter().map(|it| (it.0.as_str(), arrows(&it.1))).collect();
            prop_assert_eq!(told, expected(&before, &change), "{:?}", refused);
        }
    }

    #[test]
    fn ten_thousand_edges_are_checked_quickly() {
        let begun = Instant::now();
        let chain = lines((0..10_000).map(|it| (it, it + 1)));
        let backward = lines((0..10_000).rev().map(|it| (it, it + 1)));
        assert!(checked("X.AC.001 -io-> N0.FN.001", &backward).is_empty());
        let refused = checked(&chain, &lines((0..9_000).map(|it| (10_000, it))));
        assert_eq!((refused.len(), refused.iter().filter(|it| it.0 == "circular").count()), (9_000, 9_000));
        let (first, last) = (&refused[0].1, &refused[8_999].1);
        assert!(first.contains("N0.FN.001 -> N1.FN.001") && first.contains("(9981 more)"), "{first}");
        assert!(first.len() < 1_000 && last.starts_with("the edge is on a cycle"), "{last}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
