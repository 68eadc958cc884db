//! The verb SUMMARIZE: structured data for decisions, never prose or advice. Advice is withheld; only its location is given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::corpus::analysis::pros_cons::Approach;
use crate::corpus::analysis::statements::{Statement, StatementTopic, distinct_files};
use crate::corpus::analysis::{pros_cons, statements};
use crate::corpus::api::answer::{Answer, Unknown, mean, round_score};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::stored_passage::PassageKind;
use crate::corpus::filter;
use crate::corpus::text::words::{normalize_key, truncate_to_line};
use crate::corpus::text::{dates, words};
use crate::corpus::verbs::score;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::text::trimmed_sentences;
use crate::verbs::Verb;

/// Phrases that no summary may contain.
pub(crate) const FORBIDDEN_PHRASES: [&str; 4] = ["best choice", "recommendation", "conclusion", "you should"];

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let mut answer = match request.form.name {
        "coverage" => topic_coverage(request, corpus),
        "decision-inputs" => decision_inputs(request, corpus),
        "timeline" => document_timeline(request, corpus),
        _ => comparison_matrix(request, corpus)?,
    };
    let mut withheld = 0;
    remove_advice(&mut answer.data, &mut withheld);
    // Remove parameters that contain advice: they repeat texts of the request, and no summary may contain advice.
    answer.parameters.retain(|_, it| !it.as_str().is_some_and(is_advice));
    if withheld > 0 {
        answer.push_unknown(
            Unknown::new("withheld_wording", withheld)
                .detail("texts with advice are left out; read them at their locations"),
        );
    }
    Ok(answer)
}

/// Returns the first string or key in a JSON value that contains a forbidden phrase, at any depth. Skips the values of the
/// key `path`, because a path is the name of a file and not advice.
fn find_advice(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => is_advice(text).then_some(text),
        Value::Array(list) => list.iter().find_map(find_advice),
        Value::Object(map) => {
            let key = map.keys().find(|it| is_advice(it)).map(String::as_str);
            key.or_else(|| map.iter().filter(|it| it.0 != "path").find_map(|it| find_advice(it.1)))
        }
        _ => None,
    }
}

/// Rejects a summary with forbidden phrases, so that none is ever returned.
pub(crate) fn check_wording(verb: &Verb, answer: &Answer) -> ApiResult<()> {
    if verb.name != "SUMMARIZE" {
        return Ok(());
    }
    let around = answer.unknowns.iter().map(|it| it.value()).chain([Value::Object(answer.parameters.clone())]);
    if find_advice(&answer.data).is_none() && around.into_iter().all(|it| find_advice(&it).is_none()) {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::Internal, "the summary is withheld, because it contains advice")
        .action("use EXTRACT or COMPARE, which quote the sources verbatim"))
}

fn is_advice(text: &str) -> bool {
    let lower = text.to_lowercase();
    FORBIDDEN_PHRASES.iter().any(|it| lower.contains(it))
}

/// Replaces texts with forbidden phrases by null, at any depth; their locations stay.
fn remove_advice(value: &mut Value, withheld: &mut usize) {
    match value {
        Value::String(text) if is_advice(text) => {
            *value = Value::Null;
            *withheld += 1;
        }
        Value::Array(list) => list.iter_mut().for_each(|it| remove_advice(it, withheld)),
        Value::Object(map) => {
            let (kept, taken): (Map<String, Value>, Map<String, Value>) =
                std::mem::take(map).into_iter().partition(|it| !is_advice(&it.0));
            *withheld += taken.len();
            *map = kept;
            map.values_mut().for_each(|it| remove_advice(it, withheld));
        }
        _ => {}
    }
}

fn topic_coverage(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let topic = request.text("topic").unwrap_or_default();
    let mut answer = Answer::new("stems of the topic in headings and text");
    answer.parameter("topic", topic);
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    for paper in &corpus.documents {
        let found = score::topic_coverage(paper, topic);
        if found.matched == 0 {
            silent.push(paper.file);
            continue;
        }
        answer.push_evidence(paper, found.mentions as usize);
        let shown = json!({"file": paper.file, "mentions": found.mentions, "sections": found.headings, "score": round_score(found.score)});
        rows.push((found.score, shown));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !silent.is_empty() {
        answer.push_unknown(Unknown::new("topic_not_found", silent.len()).files(&silent));
    }
    let covering = rows.len();
    answer.confidence = if covering == 0 { 0.3 } else { 0.85 };
    let page = answer.page(request, rows.into_iter().map(|it| it.1).collect());
    answer.data =
        json!({"topic": topic, "documents_covering": covering, "documents": corpus.documents.len(), "rows": page});
    answer
}

fn decision_inputs(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let question = request.text("question").unwrap_or_default();
    let mut answer = Answer::new(
        "options from lists of pros and cons and from tables; points by heading; agreement by shared stems",
    );
    answer.parameter("question", question);
    let approaches: Vec<Approach> =
        pros_cons::find_approaches(corpus).into_iter().filter(|it| fits_question(it, question, corpus)).collect();
    let mut options: BTreeSet<String> = approaches.iter().map(|it| it.name.clone()).collect();
    options.extend(table_options(corpus, question));
    let topics = relevant_topics(corpus, question, &options);
    statements::report_not_compared(&mut answer, &topics);
    let bare: Vec<&String> = options.iter().filter(|it| approaches.iter().all(|own| own.name != **it)).collect();
    let mut unknowns: Vec<Value> = bare.iter().map(|it| json!({"type": "no_evidence", "option": it})).collect();
    if options.is_empty() {
        unknowns
            .push(json!({"type": "no_options", "reason": "no list of pros and cons and no table fits the question"}));
    }
    let taking: Vec<&CorpusDocument> =
        corpus.documents.iter().filter(|it| approaches.iter().any(|own| own.has(it.file))).collect();
    taking.iter().for_each(|it| answer.push_evidence(it, 1));
    let covered = taking.len() as f64 / corpus.total().max(1) as f64;
    let sided = approaches
        .iter()
        .map(|it| if it.pros.is_empty() || it.cons.is_empty() { 0.6 } else { 0.85 })
        .collect::<Vec<_>>();
    answer.confidence = round_score(mean(&sided));
    let mut side = |points: &dyn Fn(&Approach) -> Vec<Value>| {
        let mut of = |option: &String| {
            let all = approaches.iter().filter(|it| it.name == *option).flat_map(points).collect();
            (option.clone(), Value::Array(answer.page(request, all)))
        };
        Value::Object(options.iter().map(&mut of).collect())
    };
    let pros = side(&|it| it.pros.iter().map(pros_cons::Argument::value).collect());
    let cons = side(&|it| it.cons.iter().map(pros_cons::Argument::value).collect());
    let (_, agreed) = answer.page_of(request, topics.iter().filter_map(agreement), |it| it);
    let (_, disputed) =
        answer.page_of(request, topics.iter().flat_map(StatementTopic::contradictions), |it| it.value());
    answer.data = json!({
        "question": question, "options": options, "evidence_for": pros, "evidence_against": cons,
        "disagreements": disputed, "consensus_points": agreed, "unknowns": unknowns,
        "coverage": round_score(covered), "confidence": answer.confidence,
    });
    answer
}

/// Returns whether an approach fits the question: one of its documents contains a stem of the question. Every approach
/// fits a question without stems.
fn fits_question(approach: &Approach, question: &str, corpus: &Corpus) -> bool {
    let wanted = words::stems(question);
    wanted.is_empty()
        || corpus
            .documents
            .iter()
            .filter(|it| approach.has(it.file))
            .any(|paper| wanted.iter().any(|it| paper.parsed.terms.contains_key(it)))
}

/// Returns the first column of tables that have a word of the question in their header.
fn table_options(corpus: &Corpus, question: &str) -> Vec<String> {
    let wanted = words::stems(question);
    let mut found = Vec::new();
    for table in corpus.documents.iter().flat_map(|it| it.parsed.objects.get("Table").into_iter().flatten()) {
        let head = table.fields["headers"][0].as_str().unwrap_or_default();
        if words::stems(head).iter().any(|it| wanted.contains(it)) {
            let rows = table.fields["rows"].as_array().into_iter().flatten();
            found.extend(rows.filter_map(|it| it[0].as_str()).filter(|it| !it.is_empty()).map(String::from));
        }
    }
    found
}

/// Returns the statements about the options and the question, by topic.
fn relevant_topics(corpus: &Corpus, question: &str, options: &BTreeSet<String>) -> Vec<StatementTopic> {
    let mut wanted: BTreeSet<String> = words::stems(question).into_iter().collect();
    wanted.extend(options.iter().flat_map(|it| words::stems(it)));
    let all = ["recommendation", "best-practice", "limitation"]
        .into_iter()
        .flat_map(|it| statements::find_statements(corpus, it));
    let mut seen = BTreeSet::new();
    let near = |it: &Statement| it.topic_stems.iter().any(|stem| wanted.contains(stem));
    let relevant: Vec<Statement> = all.filter(near).filter(|it| seen.insert((it.file, it.text.clone()))).collect();
    statements::group_by_topic(relevant)
}

/// Returns the statement of a topic on which more than one document agrees.
fn agreement(topic: &StatementTopic) -> Option<Value> {
    let (side, _) = topic.split_sides();
    let count = distinct_files(&side).len();
    (count > 1).then(|| json!({"statement": side[0].value(), "documents": count}))
}

fn document_timeline(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let field = request.text("field").unwrap_or("published_at");
    let mut answer = Answer::new(match field {
        "mentioned" => "every date in the text with its sentence",
        "modified" => "the last change of each file",
        _ => "the date that each document states as its own",
    });
    let (mut events, mut undated) = (Vec::new(), Vec::new());
    for paper in &corpus.documents {
        let own = match field {
            "mentioned" => mentioned_dates(paper),
            "modified" => vec![(dates::day_of(paper.modified_ns), event(paper))],
            _ => paper.parsed.facts.published_at.iter().map(|it| (it.clone(), event(paper))).collect(),
        };
        if own.is_empty() {
            undated.push(paper.file);
        }
        answer.push_evidence(paper, own.len());
        events.extend(own);
    }
    events.sort_by(|a, b| a.0.cmp(&b.0));
    if !undated.is_empty() {
        answer.push_unknown(Unknown::new("no_date", undated.len()).files(&undated));
    }
    answer.coverage = Some((corpus.documents.len() - undated.len()) as f64 / corpus.total().max(1) as f64);
    answer.confidence = if events.is_empty() { 0.0 } else { 0.85 };
    let span = [events.first().map(|it| it.0.clone()), events.last().map(|it| it.0.clone())];
    let count = events.len();
    let dated = |(date, mut event): (String, Value)| {
        event["date"] = json!(date);
        event
    };
    let page = answer.page(request, events.into_iter().map(dated).collect());
    answer.data = json!({"field": field, "count": count, "first": span[0], "last": span[1], "events": page});
    answer
}

fn event(paper: &CorpusDocument) -> Value {
    json!({"file": paper.file, "title": paper.parsed.facts.title})
}

fn mentioned_dates(paper: &CorpusDocument) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for passage in paper
        .parsed
        .passages
        .iter()
        .filter(|it| matches!(it.part, PassageKind::Text | PassageKind::Item | PassageKind::Table))
    {
        let dated = dates::find(&passage.text);
        // Split the passage into sentences once, not for each date: a log is one passage with thousands of dates.
        let sentences = if dated.is_empty() { Vec::new() } else { trimmed_sentences(&passage.text) };
        for date in dated {
            let Some(iso) = date.iso else { continue };
            let at = sentences.partition_point(|it| it.end <= date.range.start);
            let sentence = sentences.get(at).filter(|it| it.contains(&date.range.start)).cloned();
            let sentence = sentence.unwrap_or(date.range);
            let mut shown = Map::from_iter([("file".to_string(), json!(paper.file))]);
            passage.place.write(&mut shown);
            shown.insert("text".into(), json!(truncate_to_line(&passage.text[sentence], 120)));
            found.push((iso, Value::Object(shown)));
        }
    }
    found
}

/// Creates a table of documents by fields: facts by name, other fields from `key: value` pairs of the documents.
fn comparison_matrix(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    // Leave out file and path, which every row has anyway.
    let columns: Vec<&str> = request.texts("schema").into_iter().filter(|it| !["file", "path"].contains(it)).collect();
    if let Some(advice) = columns.iter().find(|it| is_advice(it)) {
        return Err(ApiError::new(
            ApiErrorKind::OutOfRange,
            format!("`{advice}` asks for advice, so it cannot be a field"),
        )
        .field("schema")
        .action("use COMPARE with the form consensus, which lists what documents advise"));
    }
    let items = request.fields["items"].as_array().cloned().unwrap_or_default();
    let papers =
        items.iter().map(|it| corpus.find_document(it, "items")).collect::<ApiResult<Vec<&CorpusDocument>>>()?;
    let mut answer = Answer::new("facts by name, other fields by what a document states as `key: value`");
    let (mut rows, mut known) = (Vec::new(), 0);
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for paper in &papers {
        let mut row = vec![json!(paper.file), json!(paper.path)];
        for column in &columns {
            let value = matrix_cell(paper, column);
            if value.is_null() {
                *unknown.entry(column.to_string()).or_default() += 1;
            } else {
                known += 1;
            }
            row.push(value);
        }
        answer.push_evidence(paper, 1);
        rows.push(Value::Array(row));
    }
    for (column, count) in unknown {
        // Report only the number of empty cells: the rows show which cells are empty.
        answer.push_unknown(Unknown::new("no_value", count).detail(column));
    }
    let cells = papers.len() * columns.len();
    answer.coverage = Some(if cells == 0 { 1.0 } else { f64::from(known) / cells as f64 });
    answer.confidence = if known == 0 && cells > 0 { 0.0 } else { 0.9 };
    let rows = answer.page(request, rows);
    let columns: Vec<&str> = ["file", "path"].into_iter().chain(columns).collect();
    answer.data = json!({"columns": columns, "rows": rows});
    Ok(answer)
}

fn matrix_cell(paper: &CorpusDocument, column: &str) -> Value {
    match column {
        "size" => return json!(paper.size),
        "modified" => return json!(dates::day_of(paper.modified_ns)),
        _ => {}
    }
    let fact = filter::field_by_name(column).and_then(|it| paper.parsed.facts.value_of(it.name));
    match fact {
        Some(fact) => fact.value(),
        None => paper.parsed.stated.get(&normalize_key(column)).map_or(Value::Null, |it| json!(it.0)),
    }
}
