//! Warnings about a change of the graph that do not refuse it: new nodes, types and relations that look like misspelled old
//! ones, and io edges that lead from a function straight to a function.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use crate::graph::node_names;
use crate::graph::semantic_id::{self, PLAIN_TYPE, type_matches};
use crate::graph::similar_names::NameSearch;
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;
use crate::graph::tools::io_chain::IO;
use crate::model::{GraphEdge, GraphNode, GraphPart};

/// Maximum number of new nodes that are compared with the old ones; of further ones only a note reports that they were not
/// compared. Comparing more would take longer than writing the change.
const MAX_COMPARED: usize = 200;
/// Names with fewer characters are not compared, because all short names look alike.
const MIN_CHARS: usize = 4;
/// Maximum number of similarly spelled old nodes that are listed for a new node.
const MAX_OLD: usize = 3;
/// Maximum number of warnings of each kind, so that a user can read them all; further ones are left out.
const MAX_WARNINGS: usize = 20;

/// Adds the warnings about a change to the answer: `similar_nodes`, a list of `{node, near}`, and `warnings`, a list of
/// sentences. Adds neither field if there are no warnings.
pub(crate) fn add_warnings(view: &View, part: &GraphPart, answer: &mut Value) {
    let new: Vec<&GraphNode> = part.nodes.iter().filter(|it| view.snapshot.node_by_key(&it.key).is_none()).collect();
    let (similar, mut warnings) = similar_nodes(view, &new);
    warnings.extend(unknown_types(view, &new));
    warnings.extend(unknown_relations(view, &part.edges));
    warnings.extend(direct_io_edges(view, part));
    if !similar.is_empty() {
        answer["similar_nodes"] = json!(similar);
    }
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
}

/// Returns the new nodes that look like misspelled old ones, and a warning if not all new nodes were compared.
fn similar_nodes(view: &View, new: &[&GraphNode]) -> (Vec<Value>, Vec<String>) {
    let all = || new.iter().filter(|it| it.name.chars().count() >= MIN_CHARS);
    let compared: Vec<&GraphNode> = all().take(MAX_COMPARED).copied().collect();
    if compared.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut old: Vec<Vec<(usize, NodeIx)>> = vec![Vec::new(); compared.len()];
    let mut search = NameSearch::for_lookalikes(compared.iter().map(|it| it.name.as_str()));
    for (symbol, text) in view.snapshot.symbols.iter() {
        search.compare(text, |number, edits| {
            let old = &mut old[number];
            if old.len() == MAX_OLD && old.last().is_some_and(|it| it.0 <= edits) {
                return;
            }
            let near = view.called(symbol).filter(|it| has_same_number(view, *it, &compared[number].key));
            for node in near.take(MAX_OLD) {
                if !old.iter().any(|it| it.1 == node) {
                    old.push((edits, node));
                }
            }
            old.sort_unstable();
            old.truncate(MAX_OLD);
        });
    }
    let is_whole = search.is_complete() && compared.len() == all().count();
    let note = "the change has too many new nodes to compare all of them with the old ones: apply it in parts";
    let listed = compared.into_iter().zip(old).filter(|(_, old)| !old.is_empty());
    let row = |(node, old): (&GraphNode, Vec<(usize, NodeIx)>)| {
        let near: Vec<String> = old.into_iter().map(|(_, it)| node_names::printed(view, it)).collect();
        json!({"node": node.key, "near": near})
    };
    (listed.map(row).collect(), (!is_whole).then(|| note.to_string()).into_iter().collect())
}

/// Returns whether a new node may be a misspelled old one, by the numbers at the end of their semantic ids: false if both
/// have a number and the numbers differ, because then the nodes are different on purpose.
fn has_same_number(view: &View, old: NodeIx, new_key: &str) -> bool {
    match (semantic_id::number(view.snapshot.key(old)), semantic_id::number(new_key)) {
        (Some(old), Some(new)) => old == new,
        _ => true,
    }
}

/// Returns a warning for each type of a new node that the graph lacks, but that is spelled similarly to an existing type.
fn unknown_types(view: &View, new: &[&GraphNode]) -> Vec<String> {
    let types: BTreeSet<&str> = new.iter().map(|it| it.entity_type.as_str()).filter(|it| *it != PLAIN_TYPE).collect();
    let unknown = types.into_iter().filter(|it| node_names::visible_types(view, it).is_empty());
    let near = unknown.map(|it| (it, node_names::near_types(view, it))).filter(|it| !it.1.is_empty());
    near.take(MAX_WARNINGS)
        .map(|(name, near)| format!("the node type `{name}` is new; near: {}", near.join(", ")))
        .collect()
}

/// Returns a warning for each relation that the graph lacks, but that is spelled similarly to an existing relation.
fn unknown_relations(view: &View, edges: &[GraphEdge]) -> Vec<String> {
    let relations: BTreeSet<&str> = edges.iter().map(|it| it.relation.as_str()).collect();
    let unknown = relations.into_iter().filter(|it| node_names::visible_relations(view, it).is_empty());
    let near = unknown.map(|it| (it, node_names::near_relations(view, it))).filter(|it| !it.1.is_empty());
    near.take(MAX_WARNINGS)
        .map(|(name, near)| format!("the edge type `{name}` is new; near: {}", near.join(", ")))
        .collect()
}

/// Returns warnings about io edges from a function to a function: a flow belongs between them.
fn direct_io_edges(view: &View, part: &GraphPart) -> Vec<String> {
    let types: HashMap<&str, &str> = part.nodes.iter().map(|it| (it.key.as_str(), it.entity_type.as_str())).collect();
    let is_function = |key: &str| {
        let old = || view.snapshot.node_by_key(key).filter(|it| view.is_visible(*it));
        let known = types.get(key).copied().or_else(|| old().map(|it| view.snapshot.type_name(it)));
        known.is_some_and(|it| type_matches(it, "FUNC"))
    };
    let mut seen = HashSet::new();
    let direct = part.edges.iter().filter(|it| it.relation == IO && is_function(&it.source) && is_function(&it.target));
    let direct: Vec<&GraphEdge> = direct.filter(|it| seen.insert((&it.source, &it.target))).collect();
    let sentence = |it: &&GraphEdge| {
        let (source, target) = (&it.source, &it.target);
        format!("`{source} -io-> {target}` leads from a FUNC straight to a FUNC: put a FLOW between them")
    };
    let more = direct.len().saturating_sub(MAX_WARNINGS);
    let rest = (more > 0).then(|| format!("{more} more io edges lead from a FUNC straight to a FUNC"));
    direct.iter().take(MAX_WARNINGS).map(sentence).chain(rest).collect()
}
