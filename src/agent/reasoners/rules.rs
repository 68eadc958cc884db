//! The stub: a rule-based reasoner without a model, with deterministic answers. If a model gives no answer, the report
//! quotes passages that these rules choose.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::agent::citable::{Citable, CitableIndex};
use crate::agent::proposals::augment;
use crate::agent::reasoners::Reasoner;
use crate::agent::tools::SEARCH_TOOL;
use crate::error::Result;
use crate::llm::plugin::{
    FinalAnswer, PluginRequest, PluginResponse, PluginTask, SchemaHints, ToolInvocation, ToolOffer, TranscriptStep,
};
use crate::machine::block_in_place;
use crate::text::function_words;

/// Row limit in the queries that the rules write.
const QUERY_LIMIT: u32 = 20;
/// Maximum number of rows that an answer lists; of further rows it gives only the number.
const MAX_ROWS: usize = 10;
/// Maximum number of passages quoted in an answer.
const MAX_PASSAGES: usize = 3;
/// Maximum number of words of a question that are counted in passages; further words are ignored.
const MAX_WORDS: usize = 100;
/// Maximum characters of a quoted passage; the quote of a longer one ends with `…`.
const MAX_PASSAGE_CHARS: usize = 300;
/// The answer when no tool result answers the question.
const NO_ANSWER: &str = "Nothing that was found answers this.";
/// Words that introduce a name, as in `node named b`.
const NAMING_WORDS: [&str; 6] = ["named", "called", "name", "titled", "labelled", "labeled"];
/// Words by which users ask, which are not searched, as function words are not.
const REQUEST_WORDS: &[&str] = &["all", "every", "find", "get", "give", "list", "show", "tell"];

/// The stub: a reasoner that follows fixed rules, without a model.
pub(in crate::agent) struct RuleReasoner;

#[async_trait]
impl Reasoner for RuleReasoner {
    fn name(&self) -> String {
        "mock".into()
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        // Uses `block_in_place`, because files of proposals and long transcripts take much CPU time.
        Ok(block_in_place(|| match &request.task {
            PluginTask::ToQuery { question, schema } => {
                PluginResponse { query_ir_v1: Some(build_query(question, schema)), ..PluginResponse::default() }
            }
            PluginTask::Answer { results, .. } => {
                PluginResponse { answer: Some(describe_rows(results)), ..PluginResponse::default() }
            }
            PluginTask::AugmentProposals { proposals, evidence_chunks, max_new_proposals } => {
                augment::proposals_by_rules(proposals, evidence_chunks.as_ref(), *max_new_proposals)
            }
            PluginTask::ToolLoopStep { question, tools, transcript, .. } => next_step(question, tools, transcript),
        }))
    }
}

/// Builds a graph query. `find Node named b` becomes a search by type and name, a type alone a search for all entities of
/// that type, and any other question a search for its words in names.
fn build_query(question: &str, schema: &SchemaHints) -> Value {
    let words: Vec<&str> = question.split_whitespace().map(trim_marks).filter(|it| !it.is_empty()).collect();
    let kind = named_type(&words, &schema.types);
    let naming = words.iter().position(|it| NAMING_WORDS.contains(&it.to_lowercase().as_str()));
    let name = naming.map(|at| words[at + 1..].join(" ")).filter(|it| !it.is_empty());
    let mut atoms = Vec::new();
    if let Some(kind) = kind {
        atoms.push(json!({ "kind": "type", "term": "?x", "type": kind }));
    }
    if let Some(name) = &name {
        atoms.push(json!({ "kind": "attr_eq", "term": "?x", "key": "name", "value": name }));
    }
    if atoms.is_empty() || name.is_none() && kind.is_some() {
        let rest = content_words(&words, kind.map(String::as_str));
        if !rest.is_empty() {
            atoms.push(json!({ "kind": "attr_fts", "term": "?x", "key": "name", "query": rest.join(" ") }));
        }
    }
    if atoms.is_empty() {
        atoms.push(json!({ "kind": "attr_contains", "term": "?x", "key": "name", "needle": question.trim() }));
    }
    json!({ "version": 1, "select": ["?x"], "where": atoms, "limit": QUERY_LIMIT })
}

/// Returns a word without the punctuation around it, except `_`, `#` and `/`.
fn trim_marks(word: &str) -> &str {
    word.trim_matches(|it: char| !it.is_alphanumeric() && !matches!(it, '_' | '#' | '/'))
}

/// Returns the lower-case name of a type without its namespace.
fn local_type_name(kind: &str) -> String {
    kind.rsplit('.').next().unwrap_or(kind).to_lowercase()
}

/// Returns whether a word is the name of a type, in any case, or its plural.
fn is_type_name(word: &str, kind: &str) -> bool {
    let (word, kind) = (word.to_lowercase(), local_type_name(kind));
    word == kind || word.strip_suffix('s') == Some(&kind) || word.strip_suffix("es") == Some(&kind)
}

/// Finds the first word of the question that is the name of a type, and returns this type.
fn named_type<'a>(words: &[&str], types: &'a [String]) -> Option<&'a String> {
    let mut places = HashMap::new();
    for (place, kind) in types.iter().enumerate() {
        places.entry(local_type_name(kind)).or_insert(place);
    }
    let named = |word: &str| {
        let word = word.to_lowercase();
        let forms = [Some(word.as_str()), word.strip_suffix('s'), word.strip_suffix("es")];
        forms.into_iter().flatten().filter_map(|it| places.get(it).copied()).min()
    };
    words.iter().find_map(|word| named(word)).map(|place| &types[place])
}

/// Returns the words to search: all except function words and the name of the type `kind`.
fn content_words<'a>(words: &[&'a str], kind: Option<&str>) -> Vec<&'a str> {
    let lower: Vec<String> = words.iter().map(|it| it.to_lowercase()).collect();
    let language = function_words::detect_language(lower.iter().map(String::as_str));
    let carries = |it: &&&str| {
        let lower = it.to_lowercase();
        !REQUEST_WORDS.contains(&lower.as_str())
            && !function_words::is_function_word_in(language, &lower)
            && !kind.is_some_and(|kind| is_type_name(it, kind))
    };
    words.iter().filter(carries).copied().collect()
}

/// Describes the rows of a query result as text, one line per row.
fn describe_rows(results: &Value) -> String {
    let rows = results["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return "Nothing was found.".into();
    }
    let entity = |it: &Value| match (it["name"].as_str(), it["entity_type"].as_str(), &it["id"]) {
        (Some(name), Some(kind), _) => format!("{name} ({kind})"),
        (Some(name), None, _) => name.to_string(),
        (None, Some(kind), id) => format!("{kind}#{id}"),
        (None, None, _) => it.to_string(),
    };
    let row = |it: &Value| match it.as_object() {
        Some(map) => map.iter().map(|(name, it)| format!("{name} = {}", entity(it))).collect::<Vec<_>>().join(", "),
        None => it.to_string(),
    };
    let more = if results["truncated"] == true { " or more" } else { "" };
    let mut lines = vec![format!("{}{more} {}:", rows.len(), if rows.len() == 1 { "row" } else { "rows" })];
    lines.extend(rows.iter().take(MAX_ROWS).map(row));
    if rows.len() > MAX_ROWS {
        lines.push(format!("and {} more", rows.len() - MAX_ROWS));
    }
    lines.join("\n")
}

/// Returns the next step of an agent: a search if none was made yet, else an answer that quotes the best passages.
fn next_step(question: &str, tools: &[ToolOffer], transcript: &[TranscriptStep]) -> PluginResponse {
    let searched = transcript.iter().any(|it| it.tool == SEARCH_TOOL);
    if !searched && tools.iter().any(|it| it.name == SEARCH_TOOL) {
        let call = ToolInvocation { name: SEARCH_TOOL.into(), args: json!({ "query": question }) };
        return PluginResponse { tool_call: Some(call), ..PluginResponse::default() };
    }
    PluginResponse { final_answer: Some(quote_passages(question, transcript)), ..PluginResponse::default() }
}

/// Returns the answer [`NO_ANSWER`], without citations.
pub(in crate::agent) fn no_answer() -> FinalAnswer {
    FinalAnswer { answer: NO_ANSWER.into(), ..FinalAnswer::default() }
}

/// Returns whether the reasoner reports that it found no answer: no citations, and a text that is empty or [`NO_ANSWER`].
pub(in crate::agent) fn is_no_answer(answer: &FinalAnswer) -> bool {
    let said = answer.answer.trim();
    answer.citations.is_empty() && (said.is_empty() || said == NO_ANSWER)
}

/// Returns an answer that quotes the passages of a transcript with the most words of the question.
pub(in crate::agent) fn quote_passages(question: &str, transcript: &[TranscriptStep]) -> FinalAnswer {
    let words: Vec<&str> = question.split_whitespace().map(trim_marks).collect();
    let words: BTreeSet<String> =
        content_words(&words, None).iter().take(MAX_WORDS).map(|it| it.to_lowercase()).collect();
    let offered = CitableIndex::from_transcript(transcript);
    let held = |it: &Citable| {
        let text = it.text.to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count()
    };
    let mut best: Vec<(usize, &Citable)> = offered.texts.iter().map(|it| (held(it), it)).collect();
    // The sort is stable, so passages with equally many words keep the order of the results.
    best.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
    best.retain(|(held, _)| *held > 0);
    best.truncate(MAX_PASSAGES);
    if best.is_empty() {
        return no_answer();
    }
    let quote = |it: &Citable| {
        let text: Vec<&str> = it.text.split_whitespace().collect();
        let text = text.join(" ");
        let cut: String = text.chars().take(MAX_PASSAGE_CHARS).collect();
        let mark = if cut.len() < text.len() { " …" } else { "" };
        format!("\"{cut}{mark}\" ({})", it.id)
    };
    FinalAnswer {
        answer: best.iter().map(|(_, it)| quote(it)).collect::<Vec<_>>().join("\n"),
        citations: best.iter().map(|(_, it)| it.id.clone()).collect(),
        queries: Vec::new(),
        notes: vec!["quoted from files, not written by a model".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, atoms: Value) {
        let schema = SchemaHints { types: vec!["Node".into(), "Proto.ProtoService".into()], ..SchemaHints::default() };
        let query = build_query(question, &schema);
        assert_eq!(query["where"], atoms, "{question}");
        assert_eq!((&query["version"], &query["select"], &query["limit"]), (&json!(1), &json!(["?x"]), &json!(20)));
    }

    #[test]
    fn documented_example_becomes_its_query() {
        let expected = json!([
            { "kind": "type", "term": "?x", "type": "Node" },
            { "kind": "attr_eq", "term": "?x", "key": "name", "value": "b" }
        ]);
        check("find nodes named b", expected.clone());
        check("find Node named b", expected.clone());
        check("Which node is called \"b\"?", expected);
    }

    #[test]
    fn query_falls_back_to_types_and_words() {
        check("list all ProtoServices", json!([{ "kind": "type", "term": "?x", "type": "Proto.ProtoService" }]));
        check(
            "the winter notes",
            json!([{ "kind": "attr_fts", "term": "?x", "key": "name", "query": "winter notes" }]),
        );
        check("?!", json!([{ "kind": "attr_contains", "term": "?x", "key": "name", "needle": "?!" }]));
    }

    #[test]
    fn rows_are_described_in_words() {
        let row = |name| json!({ "?x": { "id": 1, "entity_type": "Node", "name": name } });
        let results = json!({ "vars": ["?x"], "rows": [row("a"), row("b")], "truncated": false });
        assert_eq!(describe_rows(&results), "2 rows:\n?x = a (Node)\n?x = b (Node)");
        assert_eq!(describe_rows(&json!({ "rows": [] })), "Nothing was found.");
        assert_eq!(describe_rows(&json!({})), "Nothing was found.");
    }

    #[test]
    fn stub_searches_first_then_quotes_best_passages() {
        let offer = ToolOffer { name: SEARCH_TOOL.into(), description: String::new(), args_schema: json!({}) };
        let question = "how heavy was the hive";
        let first = next_step(question, std::slice::from_ref(&offer), &[]);
        assert_eq!(first.tool_call.unwrap().args, json!({ "query": question }));
        let hits = json!({ "hits": [
            { "citation": "a.md, line 1", "text": "Honey is sweet." },
            { "citation": "b.md, line 2", "text": "The hive  weighed\n31 kg." },
        ] });
        let transcript = [TranscriptStep { tool: SEARCH_TOOL.into(), args: json!({}), result: hits }];
        let answer = next_step(question, &[offer], &transcript).final_answer.unwrap();
        assert_eq!(answer.answer, "\"The hive weighed 31 kg.\" (b.md, line 2)");
        assert_eq!(answer.citations, ["b.md, line 2"]);
        assert!(quote_passages("what is blue", &transcript).citations.is_empty());
    }
}
