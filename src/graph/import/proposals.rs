//! `proposals.json`, version 1: proposed entities and relations. They enter the graph only when a person imports them, with
//! their stated confidence.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::graph::import::json_reader;
use crate::model::{GraphEdge, GraphEvidence, GraphNode, GraphPart};

/// The supported version.
pub const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposals {
    /// [`VERSION`].
    pub version: u32,
    /// When it was made, RFC 3339.
    pub generated_at: String,
    /// The input from which the proposals were made.
    pub source: Source,
    /// The schema that fits all proposals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// The proposals.
    pub proposals: Vec<Proposal>,
}

/// The input from which proposals were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// E.g. `index`, `model`.
    pub source_type: String,
    /// Its location.
    pub locator: String,
}

/// The evidence of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// The chunk.
    pub chunk_id: String,
    /// Its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locator: Option<String>,
    /// A part of the chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

/// One proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The id of the proposal.
    pub proposal_id: String,
    /// 0 to 1.
    pub confidence: f32,
    /// Its evidence.
    #[serde(default)]
    pub evidence: Vec<Pointer>,
    /// The reason, for people.
    #[serde(default)]
    pub public_rationale: String,
    /// Additional data.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The schema that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// The proposed item.
    #[serde(flatten)]
    pub what: ProposedItem,
}

/// The proposed item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum ProposedItem {
    /// An entity.
    Entity {
        /// Its id in this file.
        entity_id: String,
        /// Its type.
        entity_type: String,
        /// Its name.
        name: String,
        /// Its attributes.
        #[serde(default, deserialize_with = "text_attributes")]
        attributes: BTreeMap<String, String>,
        /// A description for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// A relation between two entities of the file or the graph.
    Relation {
        /// Its id in this file.
        relation_id: String,
        /// Its label.
        rel_type: String,
        /// The source: an `entity_id`, or a key of the graph.
        source: String,
        /// The target.
        target: String,
        /// Its attributes.
        #[serde(default, deserialize_with = "text_attributes")]
        attributes: BTreeMap<String, String>,
    },
}

/// Reads attributes as texts: models also write numbers and booleans.
fn text_attributes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::deserialize(deserializer)?;
    json_reader::text_attributes(&map)
        .map(|it| it.into_iter().collect())
        .map_err(|error| D::Error::custom(error.message))
}

/// Parses the file.
///
/// # Errors
/// `InvalidArgument` naming the problem and its place; another version.
pub(crate) fn parse(text: &str) -> Result<Proposals> {
    let deserializer = &mut serde_json::Deserializer::from_str(text);
    let proposals: Proposals = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let place = error.path().to_string();
        Error::invalid(format!("`{place}` of the proposals cannot be read: {}", error.inner())).field(place)
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

/// Converts the file to a graph part.
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
