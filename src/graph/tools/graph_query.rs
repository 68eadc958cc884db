//! The `graph_query` tool, for models that change a graph: lists edges or nodes, checks whether an edge exists, and reports
//! the steps of a function chain along its `io` edges (io chain).
//!
//! Requests and results name entities by their keys, which are semantic ids such as `ReviewFeedback.FL.001` if possible.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::node_names;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::graph::tools::io_chain;

/// Maximum number of edges or nodes in a result; `count` is the number of all matching ones.
const MAX_ITEMS: usize = 500;

/// Arguments of the `graph_query` tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Request {
    query_type: QueryType,
    #[serde(default)]
    filters: Filters,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QueryType {
    Edges,
    Nodes,
    CheckEdge,
    IoChain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Filters {
    source_type: Option<String>,
    target_type: Option<String>,
    edge_type: Option<String>,
    node_type: Option<String>,
    semantic_id: Option<String>,
    target_id: Option<String>,
    fchain_id: Option<String>,
    name_pattern: Option<String>,
}

impl Filters {
    /// Returns an error if a filter is an empty text: nothing would match, and the empty result would mislead the model.
    fn reject_empty(&self) -> Result<()> {
        let all = [
            ("sourceType", &self.source_type),
            ("targetType", &self.target_type),
            ("edgeType", &self.edge_type),
            ("nodeType", &self.node_type),
            ("semanticId", &self.semantic_id),
            ("targetId", &self.target_id),
            ("fchainId", &self.fchain_id),
            ("namePattern", &self.name_pattern),
        ];
        match all.iter().find(|(_, held)| held.as_ref().is_some_and(|it| it.trim().is_empty())) {
            Some((name, _)) => Err(Error::invalid(format!("the filter `{name}` is empty"))
                .hint("omit it or give it a value")
                .field(format!("filters.{name}"))),
            None => Ok(()),
        }
    }
}

/// Returns the JSON schema of the arguments, which is published to models.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "queryType": {
                "type": "string",
                "enum": ["edges", "nodes", "check_edge", "io_chain"],
                "description": "Type of query to execute"
            },
            "filters": {
                "type": "object",
                "properties": {
                    "sourceType": {"type": "string", "description": "Node type of edge source"},
                    "targetType": {"type": "string", "description": "Node type of edge target"},
                    "edgeType": {"type": "string", "description": "Edge type (compose, io, satisfy, etc.)"},
                    "nodeType": {"type": "string", "description": "Filter nodes by type"},
                    "semanticId": {
                        "type": "string",
                        "description": "Specific node semantic ID; for check_edge the source, for nodes also a pattern with *"
                    },
                    "targetId": {"type": "string", "description": "Semantic ID of the edge target"},
                    "fchainId": {"type": "string", "description": "FCHAIN ID for io_chain query"},
                    "namePattern": {
                        "type": "string",
                        "description": "For nodes, and for either end of edges: part of the name or semantic ID, or a pattern with *; ignores case"
                    }
                },
                "additionalProperties": false
            }
        },
        "required": ["queryType"],
        "additionalProperties": false
    })
}

/// Runs the query that the arguments describe. Notes in the answer report each name in the arguments that the graph lacks.
///
/// # Errors
/// `InvalidArgument` for a missing, empty or unsuitable filter; `NotFound` for an unknown function chain.
pub(crate) fn run(view: &View, args: Value) -> Result<Value> {
    let Request { query_type, filters } = serde_path_to_error::deserialize(args).map_err(|error| {
        let place = error.path().to_string();
        Error::invalid(format!("{}", error.inner())).field(place)
    })?;
    filters.reject_empty()?;
    match query_type {
        QueryType::Edges => Ok(edges(view, &filters)),
        QueryType::Nodes => Ok(nodes(view, &filters)),
        QueryType::CheckEdge => {
            reject_pattern(&filters, "check_edge", "semanticId")?;
            check_edge(view, &filters)
        }
        QueryType::IoChain => {
            reject_pattern(&filters, "io_chain", "fchainId")?;
            let id = required(filters.fchain_id.as_deref(), "fchainId", "io_chain")?;
            Ok(io_chain::report_chain(view, chain_by_id(view, id)?))
        }
    }
}

fn required<'a>(value: Option<&'a str>, field: &str, query: &str) -> Result<&'a str> {
    value.ok_or_else(|| {
        Error::invalid(format!("`{query}` needs the filter `{field}`")).field(format!("filters.{field}"))
    })
}

fn reject_pattern(filters: &Filters, query: &str, instead: &str) -> Result<()> {
    match filters.name_pattern {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!("`{query}` does not take the filter `namePattern`"))
            .hint(format!("use `{instead}`; `nodes` with `namePattern` finds it"))
            .field("filters.namePattern")),
    }
}

/// Returns the entity that a semantic id, a name or a printed id denotes; of several, the one with this key, or the first.
fn chain_by_id(view: &View, id: &str) -> Result<NodeIx> {
    let found = nodes_by_id(view, id);
    let found = found.first().copied();
    found.ok_or_else(|| {
        Error::not_found(node_names::unknown_nodes(view, &[id]).concat())
            .hint("`nodes` with the filter `nodeType` lists the function chains")
            .field("filters.fchainId")
    })
}

/// Returns the visible entity with this semantic id; if there is none, those with this name or printed id.
fn nodes_by_id(view: &View, id: &str) -> Vec<NodeIx> {
    let keyed = view.snapshot.node_by_key(id).filter(|it| view.is_visible(*it));
    keyed.map_or_else(|| node_names::resolve(view, id), |it| vec![it])
}

/// The entities, types and relations that the filters denote; `None` for a filter that is not set. Notes report each name
/// in a filter that the graph lacks.
struct Selection {
    sources: Option<Vec<NodeIx>>,
    targets: Option<Vec<NodeIx>>,
    source_types: Option<Vec<u16>>,
    target_types: Option<Vec<u16>>,
    node_types: Option<Vec<u16>>,
    relations: Option<Vec<u16>>,
    pattern: Option<NamePattern>,
    notes: Vec<String>,
}

impl Selection {
    /// Resolves the filters. With `is_pattern`, does not resolve the semantic id: it contains `*`, and the query for nodes
    /// compares it with the ids of all nodes.
    fn new(view: &View, filters: &Filters, is_pattern: bool) -> Selection {
        let ids = |id: &Option<String>| id.as_deref().map(|it| nodes_by_id(view, it));
        let types = |name: &Option<String>| name.as_deref().map(|it| node_names::visible_types(view, it));
        let mut selection = Selection {
            sources: if is_pattern { None } else { ids(&filters.semantic_id) },
            targets: ids(&filters.target_id),
            source_types: types(&filters.source_type),
            target_types: types(&filters.target_type),
            node_types: types(&filters.node_type),
            relations: filters.edge_type.as_deref().map(|it| node_names::visible_relations(view, it)),
            pattern: filters.name_pattern.as_deref().map(NamePattern::new),
            notes: Vec::new(),
        };
        selection.add_notes(view, filters);
        selection
    }

    fn add_notes(&mut self, view: &View, filters: &Filters) {
        fn unknown<'a, T>(found: &Option<Vec<T>>, name: &'a Option<String>) -> Option<&'a str> {
            name.as_deref().filter(|_| found.as_ref().is_some_and(Vec::is_empty))
        }
        let ids = [unknown(&self.sources, &filters.semantic_id), unknown(&self.targets, &filters.target_id)];
        let mut notes = node_names::unknown_nodes(view, &ids.into_iter().flatten().collect::<Vec<_>>());
        for (found, name) in [
            (&self.source_types, &filters.source_type),
            (&self.target_types, &filters.target_type),
            (&self.node_types, &filters.node_type),
        ] {
            notes.extend(unknown(found, name).map(|it| node_names::unknown_type(view, it)));
        }
        notes.extend(unknown(&self.relations, &filters.edge_type).map(|it| node_names::unknown_relation(view, it)));
        notes.dedup();
        self.notes = notes;
    }

    fn is_related(&self, view: &View, edge: EdgeIx) -> bool {
        self.relations.as_ref().is_none_or(|it| it.contains(&view.snapshot.relation_of[edge as usize]))
    }
}

/// A pattern for names, which ignores case. With `*`, which stands for any text, it must match the whole name; without `*`,
/// the name must contain it.
struct NamePattern {
    folded: String,
}

impl NamePattern {
    /// Compiles a pattern. Treats `.*` like `*`, because models write regular expressions.
    fn new(pattern: &str) -> NamePattern {
        NamePattern { folded: pattern.to_lowercase().replace(".*", "*") }
    }

    fn matches_node(&self, view: &View, node: NodeIx) -> bool {
        self.matches(view.snapshot.name(node)) || self.matches(view.snapshot.key(node))
    }

    fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        if self.folded.contains('*') { matches_pattern(&self.folded, &name) } else { name.contains(&self.folded) }
    }

    /// Returns a note for a pattern that matches nothing and looks like a regular expression.
    fn note(&self) -> Option<String> {
        let is_regex = self.folded.contains(['^', '$', '[', '\\', '|', '+']);
        is_regex.then(|| "`namePattern` is not a regular expression: only `*` has a meaning, which is any text".into())
    }
}

/// Returns a result with at most [`MAX_ITEMS`] items; sets `truncated` if `count` is higher.
fn list_answer(name: &str, count: usize, items: Vec<Value>, selection: Selection) -> Value {
    let cut = count > items.len();
    let mut answer = json!({"count": count, name: items});
    if cut {
        answer["truncated"] = json!(true);
    }
    let pattern_note = selection.pattern.filter(|_| count == 0).and_then(|it| it.note());
    add_notes(answer, selection.notes.into_iter().chain(pattern_note).collect())
}

fn add_notes(mut answer: Value, notes: Vec<String>) -> Value {
    if !notes.is_empty() {
        answer["notes"] = json!(notes);
    }
    answer
}

fn edges(view: &View, filters: &Filters) -> Value {
    let snapshot = &view.snapshot;
    let selection = Selection::new(view, filters, false);
    let typed = |node: NodeIx, wanted: &Option<Vec<u16>>| {
        wanted.as_ref().is_none_or(|it| it.contains(&snapshot.label_of[node as usize]))
    };
    let named = |source: NodeIx, target: NodeIx| {
        let pattern = selection.pattern.as_ref();
        pattern.is_none_or(|it| it.matches_node(view, source) || it.matches_node(view, target))
    };
    let passes = |edge: &EdgeIx| {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        view.is_edge_visible(*edge)
            && view.is_visible(source)
            && view.is_visible(target)
            && typed(source, &selection.source_types)
            && typed(target, &selection.target_types)
            && named(source, target)
    };
    let mut found: Vec<EdgeIx> = candidates(view, &selection).into_iter().filter(passes).collect();
    found.sort_unstable();
    found.dedup();
    let shown = |edge: &EdgeIx| {
        let (source, target) = (snapshot.key(snapshot.source(*edge)), snapshot.key(snapshot.target(*edge)));
        json!({"source": source, "target": target, "type": snapshot.relation_name(*edge)})
    };
    let items = found.iter().take(MAX_ITEMS).map(shown).collect();
    list_answer("edges", found.len(), items, selection)
}

/// Returns the edges that may match, preselected by the most selective filter.
fn candidates(view: &View, selection: &Selection) -> Vec<EdgeIx> {
    let snapshot = &view.snapshot;
    let related = |edge: &EdgeIx| selection.is_related(view, *edge);
    let leaving = |nodes: &Vec<NodeIx>| -> Vec<EdgeIx> {
        nodes.iter().flat_map(|it| snapshot.outgoing_edges(*it)).filter(related).collect()
    };
    let reaching = |nodes: &Vec<NodeIx>| -> Vec<EdgeIx> {
        nodes.iter().flat_map(|it| snapshot.incoming_edges(*it)).copied().filter(related).collect()
    };
    match (&selection.sources, &selection.targets) {
        (Some(sources), Some(targets)) => {
            leaving(sources).into_iter().filter(|it| targets.contains(&snapshot.target(*it))).collect()
        }
        // With a semantic id but without a target id, selects the edges that begin or end at this node.
        (Some(nodes), None) => [leaving(nodes), reaching(nodes)].concat(),
        (None, Some(targets)) => reaching(targets),
        (None, None) => match &selection.relations {
            Some(relations) => {
                relations.iter().flat_map(|it| snapshot.edges_of_relation(*it).iter().copied()).collect()
            }
            None => (0..snapshot.edges() as EdgeIx).collect(),
        },
    }
}

fn nodes(view: &View, filters: &Filters) -> Value {
    let snapshot = &view.snapshot;
    let pattern_of_ids = filters.semantic_id.as_ref().filter(|it| it.contains('*'));
    let selection = Selection::new(view, filters, pattern_of_ids.is_some());
    let mut found: Vec<NodeIx> = match &selection.sources {
        Some(nodes) => nodes.clone(),
        None => view.nodes().collect(),
    };
    found.retain(|it| {
        selection.node_types.as_ref().is_none_or(|types| types.contains(&snapshot.label_of[*it as usize]))
            && pattern_of_ids.is_none_or(|pattern| matches_pattern(pattern, snapshot.key(*it)))
            && selection.pattern.as_ref().is_none_or(|pattern| pattern.matches_node(view, *it))
    });
    let shown = |it: &NodeIx| json!({"semanticId": snapshot.key(*it), "type": snapshot.type_name(*it), "name": snapshot.name(*it)});
    let items = found.iter().take(MAX_ITEMS).map(shown).collect();
    list_answer("nodes", found.len(), items, selection)
}

/// Returns whether a key matches a pattern with `*` wildcards.
fn matches_pattern(pattern: &str, key: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = key.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Checks whether an edge exists. If an end or the relation does not exist, neither does the edge, and notes tell why.
fn check_edge(view: &View, filters: &Filters) -> Result<Value> {
    let snapshot = &view.snapshot;
    required(filters.semantic_id.as_deref(), "semanticId", "check_edge")?;
    required(filters.target_id.as_deref(), "targetId", "check_edge")?;
    let selection = Selection::new(view, filters, false);
    let (sources, targets) = (selection.sources.as_deref().unwrap_or(&[]), selection.targets.as_deref().unwrap_or(&[]));
    let leaving = sources.iter().flat_map(|it| view.outgoing(*it));
    let found = leaving.filter(|(_, end)| targets.contains(end)).find(|(edge, _)| selection.is_related(view, *edge));
    Ok(match found {
        Some((edge, target)) => {
            let (source, target) = (snapshot.key(snapshot.source(edge)), snapshot.key(target));
            let uuid = edge_uuid(source, snapshot.relation_name(edge), target);
            json!({"exists": true, "edge": {"uuid": uuid, "source": source, "target": target}})
        }
        None => add_notes(json!({"exists": false}), selection.notes),
    })
}

/// Returns an id of an edge that depends only on the keys of its ends and on its relation.
fn edge_uuid(source: &str, relation: &str, target: &str) -> String {
    let hash = blake3::hash(format!("{source}\0{relation}\0{target}").as_bytes());
    let hex: String = hash.to_hex().chars().take(32).collect();
    // Sets the version digit to 8 (custom hash) and the variant digit to 8.
    format!("{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        for (pattern, key, fits) in [
            ("*.FN.*", "Submit.FN.001", true),
            ("Submit*", "Submit.FN.001", true),
            ("*001", "Submit.FN.001", true),
            ("Submit.FN.001", "Submit.FN.001", true),
            ("Submit", "Submit.FN.001", false),
            ("*.FL.*", "Submit.FN.001", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, key), fits, "{pattern} {key}");
        }
    }

    #[test]
    fn name_pattern_ignores_case_and_may_be_part() {
        for (pattern, name, fits) in [
            ("submit", "ReSubmitPRD", true),
            ("submit*", "SubmitPRD", true),
            ("submit*", "ReSubmitPRD", false),
            (".*prd", "SubmitPRD", true),
            ("prd", "Submit", false),
        ] {
            assert_eq!(NamePattern::new(pattern).matches(name), fits, "{pattern} {name}");
        }
        assert!(NamePattern::new("^Submit").note().is_some() && NamePattern::new("Submit*").note().is_none());
    }
}
