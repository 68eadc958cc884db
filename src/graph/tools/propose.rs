//! The tool `propose_relation_proposals`: makes proposals of relations, which people review and import. Stores nothing.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::import::proposals::{Pointer, Proposal, Proposals, ProposedItem, Source, VERSION};
use crate::graph::node_names::find_entity;
use crate::graph::snapshot::view::View;

/// Maximum number of relations in one call.
pub(crate) const MAX_RELATIONS: usize = 200;

/// A relation in the arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationArgs {
    rel_type: String,
    source: String,
    target: String,
    #[serde(default = "default_confidence")]
    confidence: f32,
    #[serde(default)]
    rationale: String,
    #[serde(default)]
    evidence: Vec<Pointer>,
}

fn default_confidence() -> f32 {
    0.5
}

/// Makes proposals of relations between entities of the graph. Lists relations that already exist separately.
///
/// # Errors
/// An entity does not exist (with the near names) or is ambiguous; a confidence is out of range.
pub(crate) fn propose_relations(view: &View, wanted: &Value) -> Result<Value> {
    let wanted: Vec<RelationArgs> = serde_path_to_error::deserialize(wanted).map_err(|error| {
        let place = format!("relations.{}", error.path());
        Error::invalid(error.inner().to_string()).field(place)
    })?;
    let (mut proposals, mut present) = (Vec::new(), Vec::new());
    for (number, it) in wanted.into_iter().enumerate() {
        let place = |error: Error| error.field(format!("relations[{number}]"));
        if !(0.0..=1.0).contains(&it.confidence) {
            return Err(place(Error::invalid(format!("the confidence {} is not between 0 and 1", it.confidence))));
        }
        let (source, target) =
            (find_entity(view, &it.source).map_err(place)?, find_entity(view, &it.target).map_err(place)?);
        let relations = view.snapshot.relation_numbers(&it.rel_type);
        if relations.into_iter().any(|number| view.outgoing_by_relation(source, number).any(|(_, end)| end == target)) {
            present.push(json!({"rel_type": it.rel_type, "source": it.source, "target": it.target}));
            continue;
        }
        let (source, target) = (view.snapshot.key(source).to_string(), view.snapshot.key(target).to_string());
        let hash = blake3::hash(format!("{}\0{source}\0{target}", it.rel_type).as_bytes()).to_hex();
        proposals.push(Proposal {
            proposal_id: format!("rel-{}", &hash[..16]),
            confidence: it.confidence,
            evidence: it.evidence,
            public_rationale: it.rationale,
            metadata: Map::new(),
            schema_hint: None,
            what: ProposedItem::Relation {
                relation_id: format!("{}-{}", it.rel_type, &hash[..8]),
                rel_type: it.rel_type,
                source,
                target,
                attributes: std::collections::BTreeMap::new(),
            },
        });
    }
    let file = Proposals {
        version: VERSION,
        generated_at: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        source: Source { source_type: "tool".into(), locator: "propose_relation_proposals".into() },
        schema_hint: None,
        proposals,
    };
    let file = serde_json::to_value(file).map_err(Error::internal)?;
    Ok(json!({"proposals": file, "already_present": present}))
}
