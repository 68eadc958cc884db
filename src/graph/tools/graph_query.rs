//! The `graph_query` tool, for models that change a graph: lists edges or nodes, checks whether an edge exists, reports the
//! io chain of a function chain.
//!
//! Requests and results name entities by their keys, which are semantic ids such as `ReviewFeedback.FL.001` if possible.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::semantic_id::type_matches;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::graph::suggest;
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
                    "fchainId": {"type": "string", "description": "FCHAIN ID for io_chain query"}
                },
                "additionalProperties": false
            }
        },
        "required": ["queryType"],
        "additionalProperties": false
    })
}

/// Runs the query that the arguments describe.
///
/// # Errors
/// `InvalidArgument` for a missing or empty filter; `NotFound` for an unknown function chain.
pub(crate) fn run(view: &View, args: Value) -> Result<Value> {
    let Request { query_type, filters } = serde_path_to_error::deserialize(args).map_err(|error| {
        let place = error.path().to_string();
        Error::invalid(format!("{}", error.inner())).field(place)
    })?;
    filters.reject_empty()?;
    match query_type {
        QueryType::Edges => Ok(edges(view, &filters)),
        QueryType::Nodes => Ok(nodes(view, &filters)),
        QueryType::CheckEdge => check_edge(view, &filters),
        QueryType::IoChain => {
            let id = required(filters.fchain_id.as_deref(), "fchainId", "io_chain")?;
            Ok(io_chain::report_chain(view, node_by_id(view, id)?))
        }
    }
}

fn required<'a>(value: Option<&'a str>, field: &str, query: &str) -> Result<&'a str> {
    value.ok_or_else(|| {
        Error::invalid(format!("`{query}` needs the filter `{field}`")).field(format!("filters.{field}"))
    })
}

/// Returns the entity with a semantic id, or else with this name.
pub(crate) fn node_by_id(view: &View, id: &str) -> Result<NodeIx> {
    let found = view
        .snapshot
        .node_by_key(id)
        .filter(|it| view.is_visible(*it))
        .or_else(|| view.resolve_name(id).first().copied());
    found.ok_or_else(|| {
        let error = Error::not_found(format!("there is no node `{id}` in the graph"));
        suggest::with_suggestion(error, id, view.nodes().map(|it| view.snapshot.key(it)))
    })
}

/// Returns a result with at most [`MAX_ITEMS`] items; sets `truncated` if `count` is higher.
fn list_answer(name: &str, count: usize, items: Vec<Value>) -> Value {
    let cut = count > items.len();
    let mut answer = json!({"count": count, name: items});
    if cut {
        answer["truncated"] = json!(true);
    }
    answer
}

fn edges(view: &View, filters: &Filters) -> Value {
    let snapshot = &view.snapshot;
    let typed = |node: NodeIx, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|it| type_matches(snapshot.type_name(node), it))
    };
    let passes = |edge: &EdgeIx| {
        let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
        view.is_edge_visible(*edge)
            && view.is_visible(source)
            && view.is_visible(target)
            && typed(source, &filters.source_type)
            && typed(target, &filters.target_type)
    };
    let mut found: Vec<EdgeIx> = candidates(view, filters).into_iter().filter(passes).collect();
    found.sort_unstable();
    found.dedup();
    let shown = |edge: &EdgeIx| {
        let (source, target) = (snapshot.key(snapshot.source(*edge)), snapshot.key(snapshot.target(*edge)));
        json!({"source": source, "target": target, "type": snapshot.relation_name(*edge)})
    };
    list_answer("edges", found.len(), found.iter().take(MAX_ITEMS).map(shown).collect())
}

/// Returns the edges that may match, preselected by the most selective filter.
fn candidates(view: &View, filters: &Filters) -> Vec<EdgeIx> {
    let snapshot = &view.snapshot;
    let relations = filters.edge_type.as_ref().map(|it| snapshot.relation_numbers(it));
    let related =
        |edge: &EdgeIx| relations.as_ref().is_none_or(|it| it.contains(&snapshot.relation_of[*edge as usize]));
    let by_id = |id: &Option<String>| id.as_ref().map(|it| snapshot.node_by_key(it));
    match (by_id(&filters.semantic_id), by_id(&filters.target_id)) {
        (Some(source), Some(target)) => {
            let leaving = source.into_iter().flat_map(|it| snapshot.outgoing_edges(it)).filter(related);
            leaving.filter(|it| Some(snapshot.target(*it)) == target).collect()
        }
        // The filter `id` without a target id selects the edges that begin or end at the node with this id.
        (Some(node), None) => {
            let leaving = node.into_iter().flat_map(|it| snapshot.outgoing_edges(it));
            let reaching = node.into_iter().flat_map(|it| snapshot.incoming_edges(it).iter().copied());
            leaving.chain(reaching).filter(related).collect()
        }
        (None, Some(target)) => {
            let reaching = target.into_iter().flat_map(|it| snapshot.incoming_edges(it).iter().copied());
            reaching.filter(related).collect()
        }
        (None, None) => match &relations {
            Some(relations) => {
                relations.iter().flat_map(|it| snapshot.edges_of_relation(*it).iter().copied()).collect()
            }
            None => (0..snapshot.edges() as EdgeIx).collect(),
        },
    }
}

fn nodes(view: &View, filters: &Filters) -> Value {
    let snapshot = &view.snapshot;
    let typed =
        |it: &NodeIx| filters.node_type.as_ref().is_none_or(|wanted| type_matches(snapshot.type_name(*it), wanted));
    let named =
        |it: &NodeIx| filters.semantic_id.as_ref().is_none_or(|pattern| matches_pattern(pattern, snapshot.key(*it)));
    let mut found: Vec<NodeIx> = match &filters.semantic_id {
        Some(id) if !id.contains('*') => {
            snapshot.node_by_key(id).filter(|it| view.is_visible(*it)).into_iter().collect()
        }
        _ => view.nodes().collect(),
    };
    found.retain(|it| typed(it) && named(it));
    let shown = |it: &NodeIx| json!({"semanticId": snapshot.key(*it), "type": snapshot.type_name(*it), "name": snapshot.name(*it)});
    list_answer("nodes", found.len(), found.iter().take(MAX_ITEMS).map(shown).collect())
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

fn check_edge(view: &View, filters: &Filters) -> Result<Value> {
    let snapshot = &view.snapshot;
    let source = required(filters.semantic_id.as_deref(), "semanticId", "check_edge")?;
    let target = required(filters.target_id.as_deref(), "targetId", "check_edge")?;
    // If an end does not exist, neither does the edge.
    let (Some(from), Some(to)) = (snapshot.node_by_key(source), snapshot.node_by_key(target)) else {
        return Ok(json!({"exists": false}));
    };
    let relations = filters.edge_type.as_ref().map(|it| snapshot.relation_numbers(it));
    let found = view.outgoing(from).filter(|_| view.is_visible(from)).find(|(edge, end)| {
        let related = relations.as_ref().is_none_or(|it| it.contains(&snapshot.relation_of[*edge as usize]));
        *end == to && related
    });
    Ok(match found {
        Some((edge, _)) => json!({"exists": true, "edge": {
            "uuid": edge_uuid(source, snapshot.relation_name(edge), target), "source": source, "target": target,
        }}),
        None => json!({"exists": false}),
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
}
