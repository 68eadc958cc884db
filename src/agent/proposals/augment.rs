//! Lets a reasoner add to `proposals.json`, a file of entities and relations that are not accepted yet. Validates what the
//! reasoner adds, records its name as the proposer, and marks what cites no evidence as unproven.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::agent::context_budget;
use crate::agent::reasoners::Reasoner;
use crate::agent::sanitize::sanitize;
use crate::error::{Error, Result};
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask, SchemaHintUpdate};
use crate::machine::block_in_place;

/// Maximum bytes of one evidence text in a request to a reasoner; a longer text is cut.
const MAX_CHUNK_BYTES: usize = 1_200;
/// Maximum bytes of all evidence texts in a request; further texts are left out.
const MAX_EVIDENCE_BYTES: usize = 200_000;
/// Maximum number of proposals in one file; a file with more is invalid.
const MAX_PROPOSALS: usize = 100_000;
/// Maximum number of evidence texts in a request; further texts are left out.
const MAX_EVIDENCE_TEXTS: usize = 1_000;
/// Maximum number of proposals added in one call; a request cannot raise this limit.
const MAX_NEW_PROPOSALS: u32 = 2_000;
/// The rules relate at most this many names in one passage to each other, because relations of more names are noise.
const MAX_NAMES: usize = 100;
/// Attribute of an added entity or relation that cites no evidence; the graph keeps it, so that a query can ask for it.
const UNPROVEN: &str = "unproven";
/// Confidence of a relation that the rules propose: low, because two names in one passage are weak evidence.
const RULE_CONFIDENCE: f64 = 0.3;

/// A file of proposals, extended by a reasoner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Augmented {
    /// The whole file of proposals, old and new ones.
    pub proposals: Value,
    /// Number of proposals that were added.
    pub added: usize,
    /// Number of added proposals that cite none of the evidence texts; each has the attribute `unproven`.
    pub unproven: usize,
    /// Number of existing proposals to which the reasoner assigned a schema.
    pub routed: usize,
    /// Notes for the caller, including what was left out and why.
    pub notes: Vec<String>,
    /// Name of the reasoner that proposed the new entities and relations.
    pub model: String,
}

/// Lets a reasoner add at most `most` proposals to a file. `chunks` holds the known evidence texts by chunk id.
pub(in crate::agent) async fn augment_proposals(
    reasoner: &dyn Reasoner,
    model: Option<String>,
    proposals: Value,
    chunks: BTreeMap<String, String>,
    most: u32,
) -> Result<Augmented> {
    let evidence_chunks = Some(chunks);
    let task = PluginTask::AugmentProposals { proposals: proposals.clone(), evidence_chunks, max_new_proposals: most };
    let (task, mut notes) = block_in_place(|| validate_task(task))?;
    let (request, cuts) = context_budget::fit_request(reasoner, PluginRequest::new(model, task)).await?;
    let mut response = reasoner.run_task(&request).await?;
    notes.extend(cuts.into_iter().map(String::from));
    notes.extend(response.notes.iter().map(|it| sanitize(it)));
    response.notes = notes;
    // New proposals may cite only the texts of the shortened request, because the reasoner did not see the others.
    let shown = match request.task {
        PluginTask::AugmentProposals { evidence_chunks, .. } => evidence_chunks.unwrap_or_default(),
        PluginTask::ToQuery { .. } | PluginTask::Answer { .. } | PluginTask::ToolLoopStep { .. } => BTreeMap::new(),
    };
    block_in_place(|| merge_response(proposals, response, &shown, most.min(MAX_NEW_PROPOSALS), reasoner.name()))
}

/// Validates a task that adds proposals, and bounds its size. Returns the task, and notes about what was left out. Other
/// tasks pass unchanged.
///
/// # Errors
/// See [`validate_proposals`].
pub(in crate::agent) fn validate_task(task: PluginTask) -> Result<(PluginTask, Vec<String>)> {
    let PluginTask::AugmentProposals { proposals, evidence_chunks, max_new_proposals } = task else {
        return Ok((task, Vec::new()));
    };
    validate_proposals(&proposals)?;
    let mut notes = Vec::new();
    if max_new_proposals > MAX_NEW_PROPOSALS {
        notes.push(format!("at most {MAX_NEW_PROPOSALS} proposals are added at once"));
    }
    let max_new_proposals = max_new_proposals.min(MAX_NEW_PROPOSALS);
    let evidence = bound_evidence(evidence_chunks.unwrap_or_default(), &mut notes);
    let evidence_chunks = (!evidence.is_empty()).then_some(evidence);
    Ok((PluginTask::AugmentProposals { proposals, evidence_chunks, max_new_proposals }, notes))
}

/// Bounds the number and sizes of the evidence texts in a request to a reasoner, and notes what was left out.
fn bound_evidence(chunks: BTreeMap<String, String>, notes: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut left = MAX_EVIDENCE_BYTES;
    let mut kept = BTreeMap::new();
    let (all, mut cut) = (chunks.len(), 0);
    for (id, mut text) in chunks {
        cut += usize::from(text.len() > MAX_CHUNK_BYTES);
        text.truncate(text.floor_char_boundary(MAX_CHUNK_BYTES));
        if text.len() > left || kept.len() >= MAX_EVIDENCE_TEXTS {
            break;
        }
        left -= text.len();
        kept.insert(id, text);
    }
    if cut > 0 {
        notes.push(format!("long evidence texts were cut to the first {MAX_CHUNK_BYTES} bytes"));
    }
    if kept.len() < all {
        notes.push(format!("{} of {all} evidence texts were shown to the model", kept.len()));
    }
    kept
}

/// Adds the valid proposals of a reasoner's response to the file, and notes why the others were left out.
fn merge_response(
    mut proposals: Value,
    response: PluginResponse,
    evidence: &BTreeMap<String, String>,
    most: u32,
    model: String,
) -> Result<Augmented> {
    let mut notes = response.notes;
    let list = proposal_list(&proposals)?;
    let mut ids: BTreeSet<String> = list.iter().filter_map(|it| it["proposal_id"].as_str().map(String::from)).collect();
    // An added relation may connect entities of the file and of the response.
    let entities: BTreeSet<&str> =
        list.iter().chain(&response.added_proposals).filter_map(|it| it["entity_id"].as_str()).collect();
    let (mut added, mut unproven) = (Vec::new(), 0);
    for (number, proposal) in response.added_proposals.iter().enumerate() {
        let problem = if added.len() >= most as usize {
            Some(format!("the limit of added proposals is {most}"))
        } else {
            validate_added(proposal, &ids, &entities).err().map(|it| it.message)
        };
        match problem {
            Some(problem) => notes.push(format!("added proposal {} was left out: {problem}", number + 1)),
            None => {
                ids.insert(proposal["proposal_id"].as_str().unwrap_or_default().to_string());
                let mut proposal = mark_proposer(proposal, &model);
                if !cites_any(&proposal, evidence) {
                    unproven += 1;
                    mark_unproven(&mut proposal);
                }
                added.push(proposal);
            }
        }
    }
    if unproven > 0 {
        notes.push(format!("{unproven} of the added proposals cite no text that the model was shown: marked unproven"));
    }
    let count = added.len();
    let all = proposals["proposals"].as_array_mut().ok_or_else(|| Error::internal("`proposals` is not a list"))?;
    let routed = apply_schema_hints(all, &response.schema_hint_updates, &mut notes);
    all.extend(added);
    Ok(Augmented { proposals, added: count, unproven, routed, notes, model })
}

/// Sets the schema of proposals without a schema, and returns how many were set.
fn apply_schema_hints(all: &mut [Value], updates: &[SchemaHintUpdate], notes: &mut Vec<String>) -> usize {
    let mut routed = 0;
    let numbered = all.iter().enumerate().filter_map(|(at, it)| Some((it["proposal_id"].as_str()?.to_string(), at)));
    let places: HashMap<String, usize> = numbered.collect();
    for update in updates {
        match places.get(&update.proposal_id).and_then(|at| all.get_mut(*at)) {
            Some(proposal) if proposal["schema_hint"].as_str().is_none_or(str::is_empty) => {
                proposal["schema_hint"] = update.schema_hint.as_str().into();
                routed += 1;
            }
            Some(_) => notes.push(format!("proposal `{}` already has a schema", update.proposal_id)),
            None => notes.push(format!("cannot set a schema: no proposal `{}`", update.proposal_id)),
        }
    }
    routed
}

/// Returns the proposal with the name of the proposing model in `metadata.proposed_by`.
fn mark_proposer(proposal: &Value, model: &str) -> Value {
    let mut marked = proposal.clone();
    if !marked["metadata"].is_object() {
        marked["metadata"] = Value::Object(Map::new());
    }
    marked["metadata"]["proposed_by"] = model.into();
    marked
}

/// Returns whether a proposal cites an evidence text that the reasoner saw.
fn cites_any(proposal: &Value, evidence: &BTreeMap<String, String>) -> bool {
    let cited = proposal["evidence"].as_array().map(Vec::as_slice).unwrap_or_default();
    cited.iter().any(|it| it["chunk_id"].as_str().is_some_and(|it| evidence.contains_key(it)))
}

/// Marks a proposal as unproven, and removes its evidence, which names texts that the reasoner has not seen.
fn mark_unproven(proposal: &mut Value) {
    proposal["evidence"] = json!([]);
    if !proposal["attributes"].is_object() {
        proposal["attributes"] = json!({});
    }
    proposal["attributes"][UNPROVEN] = "true".into();
}

/// Validates a file of proposals: version 1, and every proposal with the fields of its kind.
///
/// # Errors
/// `InvalidArgument` that names the field or the proposal, e.g. `proposals[3]`.
pub fn validate_proposals(file: &Value) -> Result<()> {
    if file["version"] != 1 {
        let text = format!("`version` is {}, but this version of vic reads only 1", file["version"]);
        return Err(Error::invalid(text).field("version"));
    }
    let mut ids = BTreeSet::new();
    for (number, proposal) in proposal_list(file)?.iter().enumerate() {
        let at = |error: Error| {
            let field = format!("proposals[{number}]");
            Error { message: format!("`{field}`: {}", error.message), ..error }.field(field)
        };
        validate_proposal(proposal).map_err(at)?;
        let id = proposal["proposal_id"].as_str().unwrap_or_default();
        if !ids.insert(id) {
            return Err(at(Error::invalid(format!("`{id}` is a duplicate"))));
        }
    }
    Ok(())
}

fn proposal_list(file: &Value) -> Result<&Vec<Value>> {
    let list = file["proposals"].as_array();
    let list = list.ok_or_else(|| Error::invalid("`proposals` is not a list").field("proposals"))?;
    match list.len() {
        0..=MAX_PROPOSALS => Ok(list),
        many => Err(Error::invalid(format!("{many} proposals; the limit is {MAX_PROPOSALS}")).field("proposals")),
    }
}

fn validate_proposal(proposal: &Value) -> Result<()> {
    let needed: &[&str] = match proposal["kind"].as_str() {
        Some("Entity") => &["proposal_id", "entity_id", "entity_type", "name"],
        Some("Relation") => &["proposal_id", "relation_id", "rel_type", "source", "target"],
        _ => return Err(Error::invalid("`kind` is neither `Entity` nor `Relation`")),
    };
    let missing = needed.iter().find(|it| proposal[**it].as_str().is_none_or(|it| it.trim().is_empty()));
    if let Some(missing) = missing {
        return Err(Error::invalid(format!("`{missing}` is missing")));
    }
    match proposal["confidence"].as_f64() {
        Some(confidence) if (0.0..=1.0).contains(&confidence) => Ok(()),
        _ => Err(Error::invalid("`confidence` is not between 0 and 1")),
    }
}

/// Validates an added proposal: all fields present, a new id, and a relation between known entities.
fn validate_added(proposal: &Value, ids: &BTreeSet<String>, entities: &BTreeSet<&str>) -> Result<()> {
    validate_proposal(proposal)?;
    let id = proposal["proposal_id"].as_str().unwrap_or_default();
    if ids.contains(id) {
        return Err(Error::invalid(format!("`{id}` already exists")));
    }
    if proposal["kind"] == "Relation" {
        let unknown =
            ["source", "target"].iter().find(|it| !proposal[**it].as_str().is_some_and(|it| entities.contains(it)));
        if let Some(end) = unknown {
            return Err(Error::invalid(format!("its `{end}` is not an entity of the file or of the added proposals")));
        }
    }
    Ok(())
}

/// Proposes relations without a model: one between any two entities whose names occur in the same passage.
pub(in crate::agent) fn proposals_by_rules(
    proposals: &Value,
    evidence: Option<&BTreeMap<String, String>>,
    most: u32,
) -> PluginResponse {
    let most = most.min(MAX_NEW_PROPOSALS) as usize;
    let none = Vec::new();
    let all = proposals["proposals"].as_array().unwrap_or(&none);
    let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_string();
    let named = all.iter().filter(|it| it["kind"] == "Entity").map(|it| (text(it, "entity_id"), text(it, "name")));
    let entities: Vec<(String, String)> = named.filter(|(_, name)| name.len() > 2).collect();
    let finders: Vec<Finder<'_>> = entities.iter().map(|(_, name)| Finder::new(name)).collect();
    let mut known: HashSet<(String, String)> =
        all.iter().filter(|it| it["kind"] == "Relation").map(|it| (text(it, "source"), text(it, "target"))).collect();
    let mut added: Vec<Value> = Vec::new();
    for (chunk, passage) in evidence.into_iter().flatten() {
        let stand = finders.iter().zip(&entities).filter(|(it, _)| it.find(passage.as_bytes()).is_some());
        let here: Vec<&(String, String)> = stand.map(|(_, entity)| entity).take(MAX_NAMES).collect();
        for (place, source) in here.iter().enumerate() {
            for target in &here[place + 1..] {
                if added.len() >= most {
                    return PluginResponse { added_proposals: added, ..PluginResponse::default() };
                }
                if known.insert((source.0.clone(), target.0.clone())) {
                    added.push(mentioned_with(source, target, chunk));
                }
            }
        }
    }
    PluginResponse { added_proposals: added, ..PluginResponse::default() }
}

/// Returns the proposal of a relation between two entities, each an id and a name, that occur in the same chunk.
fn mentioned_with((source, first): &(String, String), (target, second): &(String, String), chunk: &str) -> Value {
    let id = format!("mentioned_with:{source}:{target}");
    json!({
        "kind": "Relation", "proposal_id": id, "relation_id": id, "rel_type": "mentioned_with",
        "source": source, "target": target, "confidence": RULE_CONFIDENCE,
        "evidence": [{ "chunk_id": chunk }], "attributes": {}, "metadata": {},
        "public_rationale": format!("{first} and {second} stand in the same passage"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::reasoners::rules::RuleReasoner;

    fn entity(id: &str, name: &str) -> Value {
        json!({ "kind": "Entity", "proposal_id": format!("p-{id}"), "entity_id": id, "entity_type": "Person", "name": name,
                "confidence": 0.9, "evidence": [{ "chunk_id": "c1" }], "public_rationale": "", "metadata": {},
                "attributes": {} })
    }

    fn file(proposals: Vec<Value>) -> Value {
        json!({ "version": 1, "generated_at": "2026-01-01T00:00:00Z",
                "source": { "source_type": "warehouse", "locator": "/w" }, "proposals": proposals })
    }

    fn chunks() -> BTreeMap<String, String> {
        BTreeMap::from([("c1".to_string(), "Ada Quill met Bo Reed.".to_string())])
    }

    #[tokio::test]
    async fn rules_relate_names_in_the_same_passage() {
        let before = file(vec![entity("ada", "Ada Quill"), entity("bo", "Bo Reed"), entity("cy", "Cy Moor")]);
        let after = augment_proposals(&RuleReasoner, None, before.clone(), chunks(), 2_000).await.unwrap();
        assert_eq!((after.added, after.notes.len()), (1, 0), "{:?}", after.notes);
        let added = &after.proposals["proposals"][3];
        assert_eq!((&added["source"], &added["target"]), (&json!("ada"), &json!("bo")));
        assert_eq!(added["metadata"]["proposed_by"], "mock");
        validate_proposals(&after.proposals).unwrap();
        // A second run adds nothing.
        assert_eq!(augment_proposals(&RuleReasoner, None, after.proposals, chunks(), 2_000).await.unwrap().added, 0);
        assert_eq!(augment_proposals(&RuleReasoner, None, before, chunks(), 0).await.unwrap().added, 0);
    }

    #[tokio::test]
    async fn many_names_in_many_passages_stay_bounded() {
        // All entities have the same name, so that each occurs in every passage.
        let entities: Vec<Value> = (0..20_000).map(|it| entity(&format!("e{it}"), "Ada")).collect();
        let texts = |count: usize| (0..count).map(|it| (format!("c{it}"), "Ada met Ada.".into())).collect();
        let begun = std::time::Instant::now();
        let after =
            augment_proposals(&RuleReasoner, None, file(entities.clone()), texts(5_000), u32::MAX).await.unwrap();
        assert_eq!(after.added, MAX_NEW_PROPOSALS as usize);
        for said in ["1000 of 5000 evidence texts", "at most 2000 proposals"] {
            assert!(after.notes.iter().any(|it| it.contains(said)), "{said}: {:?}", after.notes);
        }
        // With a limit of 0 additions, the rules end without a pass over all passages.
        let none = augment_proposals(&RuleReasoner, None, file(entities), texts(5_000), 0).await.unwrap();
        assert!(none.added == 0 && begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[test]
    fn invalid_additions_are_dropped_with_a_note() {
        let relation = |id: &str, target: &str| {
            json!({ "kind": "Relation", "proposal_id": id, "relation_id": id, "rel_type": "knows", "source": "ada",
                    "target": target, "confidence": 0.5, "evidence": [{ "chunk_id": "c1" }] })
        };
        let mut sure = entity("dan", "Dan");
        sure["confidence"] = json!(7);
        let response = PluginResponse {
            added_proposals: vec![
                entity("bo", "Bo"),
                relation("r1", "bo"),
                relation("r2", "nobody"),
                entity("ada", "Ada"),
                sure,
                json!({ "kind": "Poem" }),
                json!(7),
            ],
            schema_hint_updates: vec![
                SchemaHintUpdate { proposal_id: "p-ada".into(), schema_hint: "people".into() },
                SchemaHintUpdate { proposal_id: "p-none".into(), schema_hint: "people".into() },
            ],
            ..PluginResponse::default()
        };
        let after = merge_response(file(vec![entity("ada", "Ada")]), response, &chunks(), 10, "m".into()).unwrap();
        assert_eq!((after.added, after.routed), (2, 1));
        assert_eq!(after.proposals["proposals"][0]["schema_hint"], "people");
        for said in ["`target` is not an entity", "`p-ada` already exists", "confidence", "kind", "p-none"] {
            assert!(after.notes.iter().any(|it| it.contains(said)), "{said}: {:?}", after.notes);
        }
    }

    #[test]
    fn additions_without_shown_evidence_are_unproven() {
        let cites = |id: &str, evidence: Value| {
            let mut entity = entity(id, id);
            entity["evidence"] = evidence;
            entity
        };
        let mut bare = cites("fay", Value::Null);
        bare["attributes"] = Value::Null;
        let response = || PluginResponse {
            added_proposals: vec![
                cites("bo", json!([{ "chunk_id": "c1" }])),
                cites("cy", json!([])),
                cites("dan", json!([{ "chunk_id": "c9" }])),
                cites("eve", json!("c1")),
                bare.clone(),
            ],
            ..PluginResponse::default()
        };
        let after = merge_response(file(vec![entity("ada", "Ada")]), response(), &chunks(), 10, "m".into()).unwrap();
        assert_eq!((after.added, after.unproven), (5, 4));
        assert!(after.notes.iter().any(|it| it.starts_with("4 of the added proposals")), "{:?}", after.notes);
        let added = &after.proposals["proposals"].as_array().unwrap()[1..];
        assert_eq!(added[0]["evidence"], json!([{ "chunk_id": "c1" }]));
        assert_eq!(added[0]["attributes"], json!({}));
        for one in &added[1..] {
            let expected = (&json!([]), &json!({ "unproven": "true" }), &json!("m"));
            assert_eq!((&one["evidence"], &one["attributes"], &one["metadata"]["proposed_by"]), expected, "{one}");
        }
        validate_proposals(&after.proposals).unwrap();
        // Without evidence texts nothing that the reasoner adds is proven.
        let none = merge_response(file(Vec::new()), response(), &BTreeMap::new(), 10, "m".into()).unwrap();
        assert_eq!((none.added, none.unproven), (5, 5));
    }

    #[test]
    fn invalid_file_error_names_the_field() {
        let mut nameless = entity("bo", "Bo");
        nameless["name"] = Value::Null;
        for (file, place) in [
            (json!({ "version": 2, "proposals": [] }), "version"),
            (json!({ "version": 1 }), "proposals"),
            (file(vec![entity("ada", "Ada"), nameless]), "proposals[1]"),
            (file(vec![entity("ada", "Ada"), entity("ada", "Ada")]), "proposals[1]"),
            (json!([]), "version"),
        ] {
            let error = validate_proposals(&file).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(place), "{error}");
        }
        validate_proposals(&file(vec![])).unwrap();
    }
}
