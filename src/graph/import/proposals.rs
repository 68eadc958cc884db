//! The file format `proposals.json`, version 1: proposed entities and relations. They enter the graph only when the user
//! imports the file, and keep the stated confidence.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::graph::import::json_reader;
use crate::model::{GraphEdge, GraphEvidence, GraphNode, GraphPart};

/// The supported version of the format; a file with another version is an error.
pub const VERSION: u32 = 1;

/// The content of a `proposals.json` file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposals {
    /// Version of the format; must be [`VERSION`].
    pub version: u32,
    /// Time when the file was made, in the form of RFC 3339.
    pub generated_at: String,
    /// The input from which the proposals were made.
    pub source: Source,
    /// Name of the schema that the proposals as a whole conform to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// The proposed entities and relations.
    pub proposals: Vec<Proposal>,
}

/// The input that the proposals were made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Kind of the input, e.g. `index` or `model`.
    pub source_type: String,
    /// Location of the input.
    pub locator: String,
}

/// A reference to the passage that supports a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// Id of the chunk.
    pub chunk_id: String,
    /// Path of the file that contains the chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locator: Option<String>,
    /// Id of a part of the chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

/// A proposal of one entity or relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The id of the proposal.
    pub proposal_id: String,
    /// Confidence in the proposal, 0 to 1.
    pub confidence: f32,
    /// The passages that support the proposal.
    #[serde(default)]
    pub evidence: Vec<Pointer>,
    /// The reason for the proposal, shown to the user.
    #[serde(default)]
    pub public_rationale: String,
    /// Additional data of the program that made the proposal.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Name of the schema that declares the type or relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// The proposed entity or relation.
    #[serde(flatten)]
    pub what: ProposedItem,
}

/// The entity or relation that a proposal adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum ProposedItem {
    /// A proposed entity.
    Entity {
        /// Id of the entity in this file; becomes its key in the graph.
        entity_id: String,
        /// Type of the entity.
        entity_type: String,
        /// Name of the entity.
        name: String,
        /// Attributes of the entity.
        #[serde(default, deserialize_with = "text_attributes")]
        attributes: BTreeMap<String, String>,
        /// A description for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// A proposed relation between two entities of the file or the graph.
    Relation {
        /// Id of the relation in this file.
        relation_id: String,
        /// Name of the relation, e.g. `links_to`.
        rel_type: String,
        /// The source entity: an `entity_id` of this file, or the key of an entity in the graph.
        source: String,
        /// The target entity, given like the source.
        target: String,
        /// Attributes of the relation.
        #[serde(default, deserialize_with = "text_attributes")]
        attributes: BTreeMap<String, String>,
    },
}

/// Reads attribute values as texts, because models write numbers and booleans too.
fn text_attributes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::deserialize(deserializer)?;
    json_reader::text_attributes(&map)
        .map(|it| it.into_iter().collect())
        .map_err(|error| D::Error::custom(error.message))
}

/// Parses a `proposals.json` file.
///
/// # Errors
/// `InvalidArgument` with the problem and its location, also for another version.
pub(crate) fn parse(text: &str) -> Result<Proposals> {
    let deserializer = &mut serde_json::Deserializer::from_str(text);
    let proposals: Proposals = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let place = error.path().to_string();
        Error::invalid(format!("cannot parse `{place}` of the proposals: {}", error.inner())).field(place)
    })?;
    if proposals.version != VERSION {
        return Err(Error::invalid(format!("found version {} of proposals, expected {VERSION}", proposals.version)));
    }
    let wrong = proposals.proposals.iter().find(|it| !(0.0..=1.0).contains(&it.confidence));
    match wrong {
        Some(it) => Err(Error::invalid(format!("the confidence of `{}` is not between 0 and 1", it.proposal_id))),
        None => Ok(proposals),
    }
}

/// Converts a `proposals.json` file to a graph part.
pub(crate) fn to_graph_part(text: &str) -> Result<GraphPart> {
    let mut part = GraphPart::default();
    for proposal in parse(text)?.proposals {
        let schema = proposal.schema_hint.unwrap_or_default();
        let mut more = vec![("proposal_id".to_string(), proposal.proposal_id)];
        if !proposal.public_rationale.is_empty() {
            more.push(("rationale".into(), proposal.public_rationale));
        }
        let first = proposal.evidence.into_iter().next();
        match proposal.what {
            ProposedItem::Entity { entity_id, entity_type, name, attributes, description } => {
                more.extend(description.map(|it| ("description".into(), it)));
                more.extend(attributes);
                part.nodes.push(GraphNode {
                    key: entity_id,
                    schema,
                    entity_type,
                    name,
                    attributes: more,
                    ..GraphNode::default()
                });
            }
            ProposedItem::Relation { rel_type, source, target, attributes, .. } => {
                more.extend(attributes);
                part.edges.push(GraphEdge {
                    schema,
                    relation: rel_type,
                    source,
                    target,
                    confidence: proposal.confidence,
                    evidence: first.map(|it| GraphEvidence { chunk_id: it.chunk_id, ..GraphEvidence::default() }),
                    attributes: more,
                    fact: None,
                });
            }
        }
    }
    Ok(part)
}
