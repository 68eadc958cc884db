//! Turns accepted proposals into a graph file that `vic graph import` reads.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::agent::proposals::augment::validate_proposals;
use crate::error::{Error, Result};

/// Selects the proposals that become nodes and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promotion {
    /// Minimum confidence of a proposal, from 0 to 1.
    pub min_confidence: f64,
    /// The `proposal_id`s of the proposals to select; empty selects all.
    pub only: Vec<String>,
}

/// Returns the nodes and edges of the selected proposals. A relation is kept only if both of its entities are selected.
///
/// # Errors
/// The file is invalid, a proposal in `only` does not exist, or a relation in `only` has an entity that is not selected.
pub fn promote_proposals(file: &Value, promotion: &Promotion) -> Result<Value> {
    validate_proposals(file)?;
    let all = file["proposals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let id = |it: &Value| it["proposal_id"].as_str().unwrap_or_default().to_string();
    if let Some(missing) = promotion.only.iter().find(|wanted| !all.iter().any(|it| id(it) == **wanted)) {
        return Err(Error::not_found(format!("there is no proposal `{missing}`")));
    }
    let chosen = |it: &&Value| {
        let wanted = promotion.only.is_empty() || promotion.only.contains(&id(it));
        wanted && it["confidence"].as_f64().unwrap_or_default() >= promotion.min_confidence
    };
    let (mut nodes, mut edges, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for it in all.iter().filter(chosen).filter(|it| it["kind"] == "Entity") {
        if known.insert(it["entity_id"].as_str().unwrap_or_default()) {
            nodes.push(node(it));
        }
    }
    for it in all.iter().filter(chosen).filter(|it| it["kind"] == "Relation") {
        let ends = ["source", "target"].map(|end| it[end].as_str().unwrap_or_default());
        if let Some(end) = ends.iter().find(|end| !known.contains(**end)) {
            // Drops a relation whose entity is below the minimum confidence.
            if promotion.only.is_empty() {
                continue;
            }
            return Err(Error::invalid(format!("`{}` needs the entity `{end}`, which was not selected", id(it))));
        }
        edges.push(edge(it));
    }
    Ok(json!({ "nodes": nodes, "edges": edges }))
}

fn node(it: &Value) -> Value {
    let mut attributes = attributes(it);
    if let Some(description) = it["description"].as_str() {
        attributes.insert("description".into(), description.into());
    }
    json!({
        "id": it["entity_id"], "type": it["entity_type"], "name": it["name"], "attributes": attributes,
        "schema": it["schema_hint"].as_str().unwrap_or_default(),
    })
}

fn edge(it: &Value) -> Value {
    let mut edge = json!({
        "source": it["source"], "target": it["target"], "type": it["rel_type"], "confidence": it["confidence"],
        "attributes": attributes(it), "schema": it["schema_hint"].as_str().unwrap_or_default(),
    });
    if let Some(chunk) = it["evidence"][0]["chunk_id"].as_str() {
        edge["evidence"] = json!({ "chunk_id": chunk });
    }
    edge
}

fn attributes(it: &Value) -> Map<String, Value> {
    it["attributes"].as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn file() -> Value {
        let entity = |id: &str, confidence: f64| {
            json!({ "kind": "Entity", "proposal_id": format!("p-{id}"), "entity_id": id, "entity_type": "Person",
                    "name": id, "confidence": confidence, "attributes": { "mail": "x" }, "description": "d" })
        };
        json!({ "version": 1, "proposals": [
            entity("ada", 0.9), entity("bo", 0.4),
            { "kind": "Relation", "proposal_id": "r", "relation_id": "r", "rel_type": "knows", "source": "ada",
              "target": "bo", "confidence": 0.8, "evidence": [{ "chunk_id": "c1" }], "schema_hint": "people" },
        ] })
    }

    #[test]
    fn selected_proposals_become_nodes_and_edges() {
        let graph = promote_proposals(&file(), &Promotion::default()).unwrap();
        assert_eq!(
            graph["nodes"][0],
            json!({ "id": "ada", "type": "Person", "name": "ada", "schema": "",
                                              "attributes": { "mail": "x", "description": "d" } })
        );
        assert_eq!(
            graph["edges"],
            json!([{ "source": "ada", "target": "bo", "type": "knows", "confidence": 0.8,
                                            "attributes": {}, "schema": "people", "evidence": { "chunk_id": "c1" } }])
        );
    }

    #[test]
    fn relation_without_its_ends_is_dropped_or_rejected() {
        let sure = promote_proposals(&file(), &Promotion { min_confidence: 0.5, only: vec![] }).unwrap();
        assert_eq!((sure["nodes"].as_array().unwrap().len(), sure["edges"].as_array().unwrap().len()), (1, 0));
        let only =
            |ids: &[&str]| Promotion { min_confidence: 0.0, only: ids.iter().map(|it| it.to_string()).collect() };
        assert_eq!(promote_proposals(&file(), &only(&["r"])).unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(promote_proposals(&file(), &only(&["p-eve"])).unwrap_err().code, ErrorCode::NotFound);
        assert!(promote_proposals(&json!({ "version": 3 }), &Promotion::default()).is_err());
    }
}
