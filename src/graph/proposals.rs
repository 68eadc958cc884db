//! `proposals.json`, version 1: entities and relations that somebody proposes. They enter the graph only when a person
//! imports them; nothing here believes them more than their confidence.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::graph::import;
use crate::model::{GraphEdge, GraphEvidence, GraphNode, GraphPart};

/// The version that is read and written.
pub const VERSION: u32 = 1;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposals {
    /// [`VERSION`].
    pub version: u32,
    /// When it was made, RFC 3339.
    pub generated_at: String,
    /// What it was made of.
    pub source: Source,
    /// Schema that fits all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// The proposals.
    pub proposals: Vec<Proposal>,
}

/// What proposals were made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// E.g. `index`, `model`.
    pub source_type: String,
    /// Where it lies.
    pub locator: String,
}

/// Where a proposal comes from.
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
    /// Its id.
    pub proposal_id: String,
    /// 0 to 1.
    pub confidence: f32,
    /// Where it comes from.
    #[serde(default)]
    pub evidence: Vec<Pointer>,
    /// Why, for people.
    #[serde(default)]
    pub public_rationale: String,
    /// Anything else.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Schema that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_hint: Option<String>,
    /// What is proposed.
    #[serde(flatten)]
    pub what: What,
}

/// What is proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum What {
    /// An entity.
    Entity {
        /// Names it in this file.
        entity_id: String,
        /// Its type.
        entity_type: String,
        /// Its name.
        name: String,
        /// Its attributes.
        #[serde(default, deserialize_with = "texts")]
        attributes: BTreeMap<String, String>,
        /// What it is, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// A relation between two entities of the file or the graph.
    Relation {
        /// Names it in this file.
        relation_id: String,
        /// Its label.
        rel_type: String,
        /// Where it begins: an `entity_id`, or a key of the graph.
        source: String,
        /// Where it ends.
        target: String,
        /// Its attributes.
        #[serde(default, deserialize_with = "texts")]
        attributes: BTreeMap<String, String>,
    },
}

/// Attributes as texts: models write numbers and truth values as such.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::deserialize(deserializer)?;
    import::attributes(&map).map(|it| it.into_iter().collect()).map_err(|error| D::Error::custom(error.message))
}

/// Reads the file.
///
/// # Errors
/// `InvalidArgument` naming what is wrong and where; another version.
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

/// Reads the file as what a source says.
pub(crate) fn read(text: &str) -> Result<GraphPart> {
    let mut part = GraphPart::default();
    for proposal in parse(text)?.proposals {
        let schema = proposal.schema_hint.unwrap_or_default();
        let mut more = vec![("proposal_id".to_string(), proposal.proposal_id)];
        if !proposal.public_rationale.is_empty() {
            more.push(("rationale".into(), proposal.public_rationale));
        }
        let first = proposal.evidence.into_iter().next();
        match proposal.what {
            What::Entity { entity_id, entity_type, name, attributes, description } => {
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
            What::Relation { rel_type, source, target, attributes, .. } => {
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
