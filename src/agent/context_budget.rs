//! Shortens a task to the size limit of its reasoner: a model's context or a plugin's input limit. vic reports what was left
//! out, while a model server would cut a long request silently.
//!
//! A question is never shortened: a task is rejected if its question alone does not fit. The newest tool results stay nearly
//! whole, lists keep their first items, and the task tells the reasoner that something is missing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::agent::limits::ContextBudget;
use crate::agent::reasoners::Reasoner;
use crate::agent::redact;
use crate::error::{Error, Result};
use crate::llm::plugin::{PluginRequest, PluginTask, RefusedAnswer, SchemaHints, ToolOffer, TranscriptStep};
use crate::machine::block_in_place;

/// Once the results in a transcript exceed this many bytes, older results are shortened more.
const TRANSCRIPT_BYTES: usize = 32_000;
/// This many of the newest results are shortened less than older results.
const NEWEST_RESULTS: usize = 2;

/// Redacts a request and shortens it to the reasoner's limit. Returns the request, and notes about what was left out.
///
/// # Errors
/// `FailedPrecondition`: the question alone exceeds the limit.
pub(super) async fn fit_request(
    reasoner: &dyn Reasoner,
    request: PluginRequest,
) -> Result<(PluginRequest, BTreeSet<&'static str>)> {
    let request = block_in_place(|| redact::redact_request(request, reasoner.redaction()))?;
    let room = reasoner.context_budget(&request).await;
    let (task, cuts) = block_in_place(|| fit_task(request.task, room))?;
    Ok((PluginRequest { task, ..request }, cuts))
}

/// Shortens a task to a size limit. Returns the task, and notes about what was left out.
fn fit_task(task: PluginTask, room: ContextBudget) -> Result<(PluginTask, BTreeSet<&'static str>)> {
    match task {
        PluginTask::ToolLoopStep { question, schema, tools, transcript, refused } => {
            fit_step(room, &Step { question, schema, tools, transcript, refused })
        }
        task if room.fits(&task) => Ok((task, BTreeSet::new())),
        PluginTask::ToQuery { question, schema } => fit_query(room, question, &schema),
        PluginTask::Answer { question, query, results } => fit_answer(room, question, query, &results),
        PluginTask::AugmentProposals { proposals, evidence_chunks, max_new_proposals } => {
            fit_augment(room, &proposals, evidence_chunks.unwrap_or_default(), max_new_proposals)
        }
    }
}

/// Shortens a query task: offers fewer schema names, down to none, because a query can be written without them.
fn fit_query(
    room: ContextBudget,
    question: String,
    schema: &SchemaHints,
) -> Result<(PluginTask, BTreeSet<&'static str>)> {
    let task = |names| PluginTask::ToQuery { question: question.clone(), schema: schema.clone().truncate(names) };
    let fits = [100, 50, 20, 8, 0].into_iter().map(task).find(|it| room.fits(it));
    let fits = fits.ok_or_else(|| room.too_small_error(&task(0)))?;
    Ok((fits, BTreeSet::from(["some names of the schema did not fit and were not shown to the model"])))
}

/// Shortens an answer task: keeps the first rows that fit.
fn fit_answer(
    room: ContextBudget,
    question: String,
    mut query: Value,
    results: &Value,
) -> Result<(PluginTask, BTreeSet<&'static str>)> {
    let rows = results["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let task = |query: &Value, rows: &[Value]| {
        let results = json!({ "vars": results["vars"], "rows": rows, "truncated": true });
        PluginTask::Answer { question: question.clone(), query: query.clone(), results }
    };
    if room.cost(&task(&query, &[])) > room.limit() / 2
        && let Some(map) = query.as_object_mut()
    {
        // Drops the JSON form of the query, because little space is left and the AxQL form of the query states the same.
        map.shift_remove("query_ir_v1");
    }
    let whole = PluginTask::Answer { question: question.clone(), query: query.clone(), results: results.clone() };
    if room.fits(&whole) {
        return Ok((whole, BTreeSet::new()));
    }
    let bare = task(&query, &[]);
    if !room.fits(&bare) {
        return Err(room.too_small_error(&bare));
    }
    let (shown, _) = room.prefix_that_fits(rows, room.cost(&bare));
    let cut = "some rows did not fit and were not shown to the model";
    Ok((task(&query, &rows[..shown]), BTreeSet::from([cut])))
}

/// Keeps the first proposals in half of the free space, and evidence texts in the remaining space, cited ones first.
fn fit_augment(
    room: ContextBudget,
    proposals: &Value,
    evidence: BTreeMap<String, String>,
    most: u32,
) -> Result<(PluginTask, BTreeSet<&'static str>)> {
    let all = proposals["proposals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let task = |proposals: &[Value], evidence: BTreeMap<String, String>, file: &Value| {
        let mut file = file.clone();
        file["proposals"] = proposals.into();
        let evidence_chunks = (!evidence.is_empty()).then_some(evidence);
        PluginTask::AugmentProposals { proposals: file, evidence_chunks, max_new_proposals: most }
    };
    let mut head = proposals.clone();
    head["proposals"] = json!([]);
    let bare = task(&[], BTreeMap::new(), &head);
    if !room.fits(&bare) {
        return Err(room.too_small_error(&bare));
    }
    // Reserves bytes for the JSON key and braces around the evidence texts.
    let base = room.cost(&bare) + 32;
    let half = if evidence.is_empty() { 0 } else { room.limit().saturating_sub(base) / 2 };
    let (kept, taken) = room.prefix_that_fits(all, base + half);
    let taken = taken - half;
    let cited = all[..kept].iter().filter_map(|it| it["evidence"].as_array()).flatten();
    let cited: BTreeSet<&str> = cited.filter_map(|it| it["chunk_id"].as_str()).collect();
    let (near, far): (Vec<_>, Vec<_>) = evidence.iter().partition(|(id, _)| cited.contains(id.as_str()));
    let texts: Vec<(&String, &String)> = near.into_iter().chain(far).collect();
    let (shown, _) = room.prefix_that_fits(&texts, taken);
    let mut cuts = BTreeSet::new();
    if kept < all.len() {
        cuts.insert("some proposals did not fit and were not shown to the model");
    }
    if shown < texts.len() {
        cuts.insert("some evidence texts did not fit and were not shown to the model");
    }
    let texts = texts[..shown].iter().map(|(id, text)| ((*id).clone(), (*text).clone())).collect();
    Ok((task(&all[..kept], texts, &head), cuts))
}

/// The parts of an agent step that can be shortened.
struct Step {
    question: String,
    schema: SchemaHints,
    tools: Vec<ToolOffer>,
    transcript: Vec<TranscriptStep>,
    refused: Option<RefusedAnswer>,
}

/// How much of each part of an agent step the reasoner is shown.
#[derive(Clone, Copy)]
struct StepExtent {
    /// Maximum number of schema names of each kind, such as types or relations.
    names: usize,
    /// Maximum bytes of each of the newest tool results.
    newest: usize,
    /// Maximum bytes of each older tool result.
    older: usize,
    /// Maximum number of earlier tool calls in the step; the latest ones are kept.
    calls: usize,
    /// Whether the tools' argument schemas keep their descriptions.
    explained: bool,
}

/// The extents to try until a step fits, from its full size down to the smallest useful one.
const EXTENTS: [StepExtent; 7] = [
    StepExtent { names: 60, newest: 6_000, older: 600, calls: usize::MAX, explained: true },
    StepExtent { names: 30, newest: 4_000, older: 400, calls: 24, explained: true },
    StepExtent { names: 15, newest: 2_500, older: 250, calls: 12, explained: true },
    StepExtent { names: 15, newest: 2_500, older: 250, calls: 12, explained: false },
    StepExtent { names: 8, newest: 1_500, older: 150, calls: 6, explained: false },
    StepExtent { names: 4, newest: 900, older: 120, calls: 4, explained: false },
    StepExtent { names: 0, newest: 500, older: 100, calls: 2, explained: false },
];

fn fit_step(room: ContextBudget, step: &Step) -> Result<(PluginTask, BTreeSet<&'static str>)> {
    let mut least = None;
    for extent in EXTENTS {
        let (task, cuts) = reduce_step(step, extent);
        if room.fits(&task) {
            return Ok((task, cuts));
        }
        least = Some(task);
    }
    Err(least.map_or_else(|| Error::internal("a step without an extent"), |it| room.too_small_error(&it)))
}

/// Returns a step shortened to an extent, and notes about what was left out.
fn reduce_step(step: &Step, extent: StepExtent) -> (PluginTask, BTreeSet<&'static str>) {
    let mut cuts = BTreeSet::new();
    let from = step.transcript.len().saturating_sub(extent.calls);
    if from > 0 {
        cuts.insert("the first tool calls did not fit and were not shown to the model");
    }
    let mut left = TRANSCRIPT_BYTES;
    let mut calls: Vec<TranscriptStep> = Vec::with_capacity(step.transcript.len() - from);
    for (back, it) in step.transcript[from..].iter().rev().enumerate() {
        // If no calls were dropped yet, a result may be as long as the newest ones while bytes are left for the transcript.
        // Otherwise only the last `NEWEST_RESULTS` results may.
        let is_long = if extent.calls == usize::MAX { left > extent.newest } else { back < NEWEST_RESULTS };
        let result = cut_result(&it.result, if is_long { extent.newest } else { extent.older });
        if result != it.result {
            cuts.insert("long results were shortened");
        }
        left = left.saturating_sub(result.to_string().len());
        calls.push(TranscriptStep { result, ..it.clone() });
    }
    calls.reverse();
    let mut tools = step.tools.clone();
    if !extent.explained {
        tools.iter_mut().for_each(|it| remove_descriptions(&mut it.args_schema));
    }
    let (question, schema) = (step.question.clone(), step.schema.clone().truncate(extent.names));
    let refused = step.refused.clone();
    (PluginTask::ToolLoopStep { question, schema, tools, transcript: calls, refused }, cuts)
}

/// Removes the descriptions from a JSON Schema, because the names of the arguments mostly suffice. An argument named
/// `description` stays.
fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|name, it| name != "description" || !it.is_string());
            map.values_mut().for_each(remove_descriptions);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Shortens a tool result to `most` bytes of JSON: removes the last items of its lists, or, if that is not enough, returns
/// the beginning of the JSON text. Either result has `"truncated": true`.
fn cut_result(result: &Value, most: usize) -> Value {
    let whole = result.to_string();
    if whole.len() <= most {
        return result.clone();
    }
    if let Some(shorter) = shorten_lists(result, most) {
        return shorter;
    }
    let end = whole.floor_char_boundary(most);
    json!({ "truncated": true, "bytes": whole.len(), "beginning": &whole[..end] })
}

/// Returns the object with shorter lists, also in the objects of its fields; `None` if it still exceeds `most` bytes.
fn shorten_lists(result: &Value, most: usize) -> Option<Value> {
    let map = result.as_object()?;
    let nested = map.values().filter_map(Value::as_object);
    let mut kept = std::iter::once(map).chain(nested).filter_map(longest_list).max()?;
    while kept > 1 {
        kept = kept * 2 / 3;
        let mut fewer = map.clone();
        for inner in fewer.values_mut().filter_map(Value::as_object_mut) {
            truncate_lists(inner, kept);
        }
        truncate_lists(&mut fewer, kept);
        fewer.insert("truncated".into(), true.into());
        let fewer = Value::Object(fewer);
        if fewer.to_string().len() <= most {
            return Some(fewer);
        }
    }
    None
}

fn longest_list(map: &Map<String, Value>) -> Option<usize> {
    map.values().filter_map(|it| Some(it.as_array()?.len())).max()
}

/// Keeps the first `most` items of each list of an object. Sets `truncated` if a list was longer.
fn truncate_lists(map: &mut Map<String, Value>, most: usize) {
    if longest_list(map).is_some_and(|it| it > most) {
        map.values_mut().filter_map(Value::as_array_mut).for_each(|it| it.truncate(most));
        map.insert("truncated".into(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn call(it: usize, bytes: usize) -> TranscriptStep {
        let result = json!({ "text": format!("{it} {}", "x".repeat(bytes)) });
        TranscriptStep { tool: "t".into(), args: json!({}), result }
    }

    fn steps(transcript: Vec<TranscriptStep>) -> PluginTask {
        let parameters =
            json!({ "type": "object", "properties": { "query": { "type": "string", "description": "long" } } });
        let tools = vec![ToolOffer { name: "find".into(), description: "finds".into(), args_schema: parameters }];
        let types = (0..500).map(|it| format!("Type{it}")).collect();
        let schema = SchemaHints { types, ..SchemaHints::default() };
        PluginTask::ToolLoopStep { question: "who?".into(), schema, tools, transcript, refused: None }
    }

    fn rows(count: usize) -> PluginTask {
        let row = |it: usize| json!({ "?x": { "id": it, "entity_type": "Node", "name": format!("node {it}") } });
        PluginTask::Answer {
            question: "who?".into(),
            query: json!({ "kind": "axql", "axql": "select ?x where ?x is Node" }),
            results: json!({ "vars": ["?x"], "rows": (0..count).map(row).collect::<Vec<_>>(), "truncated": false }),
        }
    }

    fn proposals(count: usize) -> PluginTask {
        let one = |it: usize| json!({ "kind": "Entity", "proposal_id": format!("p{it}"), "evidence": [{ "chunk_id": format!("c{it:03}") }] });
        let file = json!({ "version": 1, "proposals": (0..count).map(one).collect::<Vec<_>>() });
        let evidence = (0..count).rev().map(|it| (format!("c{it:03}"), "what was said there ".repeat(20))).collect();
        PluginTask::AugmentProposals { proposals: file, evidence_chunks: Some(evidence), max_new_proposals: 9 }
    }

    /// Shortens a task to several limits. The task must fit each time, and report what was left out.
    fn check(task: &PluginTask, rooms: &[ContextBudget]) {
        for room in rooms {
            let (fitted, cuts) = fit_task(task.clone(), *room).unwrap();
            assert!(room.fits(&fitted), "{room:?}: {} of {}", room.cost(&fitted), room.limit());
            assert_eq!(cuts.is_empty(), fitted == *task, "{room:?}: {cuts:?}");
        }
    }

    #[test]
    fn fit_respects_every_limit_and_reports_cuts() {
        let rooms = [
            ContextBudget::Tokens(400),
            ContextBudget::Tokens(1_000),
            ContextBudget::Tokens(8_000),
            ContextBudget::Bytes(1_500),
            ContextBudget::Bytes(40_000),
        ];
        check(&rows(3_000), &rooms);
        check(&proposals(400), &rooms);
        let schema = SchemaHints { types: (0..900).map(|it| format!("Type{it}")).collect(), ..SchemaHints::default() };
        check(&PluginTask::ToQuery { question: "who?".into(), schema }, &rooms[..4]);
        for room in [
            ContextBudget::Tokens(700),
            ContextBudget::Tokens(4_000),
            ContextBudget::Tokens(12_000),
            ContextBudget::Bytes(20_000),
        ] {
            let (fitted, cuts) = fit_task(steps((0..40).map(|it| call(it, 5_000)).collect()), room).unwrap();
            assert!(room.fits(&fitted) && !cuts.is_empty(), "{room:?}");
        }
    }

    #[test]
    fn fit_keeps_a_task_within_the_limit() {
        for task in [rows(5), proposals(5)] {
            assert_eq!(fit_task(task.clone(), ContextBudget::Tokens(4_000)).unwrap(), (task.clone(), BTreeSet::new()));
            assert_eq!(fit_task(task.clone(), ContextBudget::Unlimited).unwrap().0, task);
        }
    }

    #[test]
    fn rows_are_cut_from_the_end_and_marked() {
        let (task, _) = fit_task(rows(1_000), ContextBudget::Bytes(2_000)).unwrap();
        let PluginTask::Answer { results, .. } = task else { panic!("another task") };
        assert!(results["truncated"] == true && results["rows"][0]["?x"]["id"] == 0, "{results}");
        assert!(results["rows"].as_array().unwrap().len() > 10);
    }

    #[test]
    fn proposals_keep_their_evidence_texts() {
        let (task, cuts) = fit_task(proposals(400), ContextBudget::Bytes(10_000)).unwrap();
        let PluginTask::AugmentProposals { proposals, evidence_chunks, .. } = task else { panic!("another task") };
        let (kept, texts) = (proposals["proposals"].as_array().unwrap(), evidence_chunks.unwrap());
        assert!(kept.len() > 10 && texts.len() > 5 && texts.contains_key("c000"), "{} {}", kept.len(), texts.len());
        assert_eq!(cuts.len(), 2);
    }

    #[test]
    fn long_transcript_keeps_its_newest_results() {
        let (task, cuts) =
            fit_task(steps((0..40).map(|it| call(it, 5_000)).collect()), ContextBudget::Unlimited).unwrap();
        let PluginTask::ToolLoopStep { transcript, schema, .. } = task else { panic!("another task") };
        assert_eq!((transcript.len(), &transcript[39]), (40, &call(39, 5_000)));
        assert_eq!((&transcript[0].result["truncated"], schema.types.len()), (&json!(true), 60));
        assert_eq!(cuts.into_iter().collect::<Vec<_>>(), ["long results were shortened"]);
        let (small, _) =
            fit_task(steps((0..40).map(|it| call(it, 5_000)).collect()), ContextBudget::Tokens(1_200)).unwrap();
        let PluginTask::ToolLoopStep { transcript, tools, .. } = small else { panic!("another task") };
        assert!(transcript.len() < 10 && transcript.last().unwrap().result.to_string().contains("39 x"));
        assert!(!tools[0].args_schema.to_string().contains("description"));
    }

    #[test]
    fn oversized_question_is_rejected() {
        let question = "why ".repeat(3_000);
        let task = PluginTask::ToQuery { question, schema: SchemaHints::default() };
        for room in [ContextBudget::Tokens(2_000), ContextBudget::Bytes(2_000)] {
            let error = fit_task(task.clone(), room).unwrap_err();
            assert!(error.code == ErrorCode::FailedPrecondition && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn cut_result_is_marked_and_fits() {
        let hits: Vec<Value> = (0..50).map(|it| json!({ "id": it, "text": "x".repeat(100) })).collect();
        let short = cut_result(&json!({ "hits": hits }), 1_000);
        assert!(short.to_string().len() <= 1_000 && short["truncated"] == true, "{short}");
        assert!(short["hits"].as_array().unwrap().len() > 3);
        // The rows of a query stand twice in its result, and both lists become shorter.
        let rows: Vec<Value> = (0..100).map(|it| json!({ "?x": { "id": it, "name": "a name" } })).collect();
        let results = json!({ "vars": ["?x"], "rows": rows, "truncated": false });
        let run = cut_result(&json!({ "rows": rows, "query": "select ?x", "results": results }), 1_500);
        let (outer, inner) = (run["rows"].as_array().unwrap(), run["results"]["rows"].as_array().unwrap());
        assert!(outer == inner && !inner.is_empty() && run.to_string().len() <= 1_500, "{run}");
        assert_eq!((&run["results"]["truncated"], &run["query"]), (&json!(true), &json!("select ?x")));
        let text = cut_result(&json!({ "text": "ä".repeat(5_000) }), 1_000);
        assert!(text["truncated"] == true && text["beginning"].as_str().unwrap().len() <= 1_000);
        assert_eq!(cut_result(&json!({ "a": 1 }), 100), json!({ "a": 1 }));
    }
}
