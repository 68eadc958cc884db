//! The verb COMPARE: lists every difference between documents with counts, and does not judge which one is right.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::corpus::analysis::statements::{StatementTopic, distinct_files};
use crate::corpus::analysis::{pros_cons, statements};
use crate::corpus::api::answer::{Answer, Unknown, mean, round_score};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::stored_passage::{PassageKind, StoredPassage};
use crate::corpus::text::words::truncate_to_line;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;

/// Maximum characters of a passage shown in a difference.
const MAX_SHOWN_CHARS: usize = 160;

/// Time limit for the diffs of one answer: a diff of two long texts without a common line takes quadratic time.
pub(crate) const DIFF_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The differences between two texts.
pub(crate) struct PassageDiff {
    pub(crate) list: Vec<Value>,
    /// Whether the time limit stopped the search; the list then reports more changes than there are.
    pub(crate) is_coarse: bool,
}

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    match request.form.name {
        "versions" => compare_versions(request, corpus),
        "consensus" => Ok(compare_consensus(request, corpus)),
        "contradictions" => Ok(compare_contradictions(request, corpus)),
        _ => Ok(compare_approaches(request, corpus)),
    }
}

fn compare_versions(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let one = corpus.find_document(&request.fields["doc_a"], "doc_a")?;
    let other = corpus.find_document(&request.fields["doc_b"], "doc_b")?;
    if one.file == other.file {
        return Err(ApiError::new(ApiErrorKind::OutOfRange, "`doc_a` and `doc_b` are the same document")
            .field("doc_b")
            .action("name two different documents"));
    }
    let PassageDiff { list: changes, is_coarse } =
        diff_passages(&one.parsed.passages, &other.parsed.passages, Instant::now() + DIFF_TIME_LIMIT);
    let mut answer = Answer::new("Patience diff over passages, sections by heading, objects by their fields");
    if is_coarse {
        report_coarse_diff(&mut answer, &[one.file, other.file]);
    }
    let count = |op: &str| changes.iter().filter(|it| it["op"] == op).count();
    let counts = (count("added"), count("removed"), count("modified"));
    answer.push_evidence(one, 1);
    answer.push_evidence(other, 1);
    let schemas: Vec<Value> =
        crate::verbs::SCHEMA_NAMES.iter().filter_map(|it| object_changes(one, other, it)).collect();
    let (sections, parts) = (section_changes(one, other, &changes), count_by_part(&changes));
    let same_text = changes.is_empty();
    let page = answer.page(request, changes);
    answer.data = json!({
        "doc_a": one.file, "doc_b": other.file, "identical": one.hash == other.hash, "same_text": same_text,
        "added": counts.0, "removed": counts.1, "modified": counts.2,
        "sections": sections, "parts": parts, "objects": schemas, "changes": page,
    });
    Ok(answer)
}

/// Returns the sections that only one document has, and the common sections with differences.
fn section_changes(one: &CorpusDocument, other: &CorpusDocument, changes: &[Value]) -> Value {
    let headings = |it: &CorpusDocument| {
        it.parsed.headings().map(|it| truncate_to_line(&it.text, MAX_SHOWN_CHARS)).collect::<BTreeSet<String>>()
    };
    let (old, new) = (headings(one), headings(other));
    let touched: BTreeSet<&str> =
        changes.iter().filter(|it| it["part"] != "heading").filter_map(|it| it["section"].as_str()).collect();
    let changed = old.intersection(&new).filter(|it| touched.contains(it.as_str()));
    json!({
        "added": new.difference(&old).collect::<Vec<_>>(),
        "removed": old.difference(&new).collect::<Vec<_>>(),
        "changed": changed.collect::<Vec<_>>(),
    })
}

/// Counts the differences by part: headings, text, items, tables, code.
fn count_by_part(changes: &[Value]) -> Value {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for change in changes {
        let (part, op) = (change["part"].as_str().unwrap_or_default(), change["op"].as_str().unwrap_or_default());
        *counts.entry(part).or_default().entry(op).or_default() += 1;
    }
    json!(counts)
}

/// Counts the objects of a schema, e.g. tables or quotes, that only one document has; `None` if there are none. Objects that
/// differ only in their location count as equal.
fn object_changes(one: &CorpusDocument, other: &CorpusDocument, schema: &str) -> Option<Value> {
    let listed = |paper: &CorpusDocument| -> Vec<String> {
        let objects = paper.parsed.objects.get(schema).into_iter().flatten();
        objects.map(|it| Value::Object(without_place(&it.fields)).to_string()).collect()
    };
    let (old, mut new) = (listed(one), listed(other));
    let (a, b) = (old.len(), new.len());
    let mut removed = 0;
    for object in old {
        match new.iter().position(|it| *it == object) {
            Some(at) => drop(new.swap_remove(at)),
            None => removed += 1,
        }
    }
    let differs = removed > 0 || !new.is_empty();
    differs.then(|| json!({"schema": schema, "doc_a": a, "doc_b": b, "added": new.len(), "removed": removed}))
}

/// Returns the fields of an object without those that depend on its location.
fn without_place(fields: &Map<String, Value>) -> Map<String, Value> {
    const PLACES: [&str; 4] = ["line_numbers", "context", "source_context", "index"];
    fields.iter().filter(|it| !PLACES.contains(&it.0.as_str())).map(|it| (it.0.clone(), it.1.clone())).collect()
}

/// Reports the documents whose diff was stopped at the time limit.
pub(crate) fn report_coarse_diff(answer: &mut Answer, files: &[FileId]) {
    let detail = "the diff was stopped at its time limit, so that more changes are reported than there are";
    answer.push_unknown(Unknown::new("coarse_difference", files.len()).files(files).detail(detail));
    answer.confidence = answer.confidence.min(0.6);
}

/// Returns every passage that only one side has or that differs; the search stops at the time `until`.
pub(crate) fn diff_passages(before: &[StoredPassage], after: &[StoredPassage], until: Instant) -> PassageDiff {
    let keys =
        |side: &[StoredPassage]| side.iter().map(|it| truncate_to_line(&it.text, usize::MAX)).collect::<Vec<String>>();
    let (old, new) = (keys(before), keys(after));
    let mut found = Vec::new();
    let ops = capture_diff_slices_deadline(Algorithm::Patience, &old, &new, Some(until));
    let is_coarse = Instant::now() > until && old != new;
    for op in ops {
        match op {
            DiffOp::Equal { .. } => {}
            DiffOp::Delete { old_index, old_len, .. } => {
                found.extend(
                    before[old_index..old_index + old_len].iter().map(|it| change_value("removed", Some(it), None)),
                );
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                found.extend(
                    after[new_index..new_index + new_len].iter().map(|it| change_value("added", None, Some(it))),
                );
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                let (old, new) = (&before[old_index..old_index + old_len], &after[new_index..new_index + new_len]);
                found.extend(pair_passages(old, new));
            }
        }
    }
    PassageDiff { list: found, is_coarse }
}

/// Pairs the passages of both sides in order; a passage without a partner was added or removed.
fn pair_passages(old: &[StoredPassage], new: &[StoredPassage]) -> Vec<Value> {
    let both = old.len().min(new.len());
    let pairs = old.iter().zip(new).map(|(a, b)| change_value("modified", Some(a), Some(b)));
    let removed = old[both..].iter().map(|it| change_value("removed", Some(it), None));
    pairs.chain(removed).chain(new[both..].iter().map(|it| change_value("added", None, Some(it)))).collect()
}

fn change_value(op: &str, before: Option<&StoredPassage>, after: Option<&StoredPassage>) -> Value {
    let one = after.or(before);
    let part = one.map_or("text", |it| match it.part {
        PassageKind::Heading => "heading",
        PassageKind::Text => "text",
        PassageKind::Item => "item",
        PassageKind::Table => "table",
        PassageKind::Code => "code",
        PassageKind::Facts => "facts",
    });
    let from = match (before, after) {
        (Some(before), Some(after)) => first_difference(&before.text, &after.text),
        _ => 0,
    };
    let side =
        |it: &StoredPassage| json!({"lines": it.place.lines, "page": it.place.page, "text": excerpt(&it.text, from)});
    let mut shown = json!({"op": op, "part": part, "section": one.map_or("", |it| it.section.as_str())});
    if let Some(before) = before {
        shown["a"] = side(before);
    }
    if let Some(after) = after {
        shown["b"] = side(after);
    }
    shown
}

/// Returns the number of leading characters that two texts have in common.
fn first_difference(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|it| it.0 == it.1).count()
}

/// Returns the start of a text, or the part of a long text around its first difference.
fn excerpt(text: &str, from: usize) -> String {
    if from < MAX_SHOWN_CHARS * 3 / 4 {
        return truncate_to_line(text, MAX_SHOWN_CHARS);
    }
    let part: String = text.chars().skip(from - MAX_SHOWN_CHARS / 4).collect();
    format!("… {}", truncate_to_line(&part, MAX_SHOWN_CHARS - 2))
}

fn compare_consensus(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let (field, threshold) = (request.text("field").unwrap_or_default(), request.number("threshold").unwrap_or(0.8));
    let statements = statements::find_statements(corpus, field);
    let mut answer = statement_answer(corpus, &statements);
    answer.parameter("threshold", threshold);
    let mut points = Vec::new();
    let mut below = 0;
    let topics = statements::group_by_topic(statements);
    statements::report_not_compared(&mut answer, &topics);
    for topic in &topics {
        let (agreeing, others) = topic.split_sides();
        let (agree, all) = (distinct_files(&agreeing), distinct_files(&topic.statements.iter().collect::<Vec<_>>()));
        let agreement = agree.len() as f64 / all.len().max(1) as f64;
        if all.len() < 2 || agreement < threshold {
            below += 1;
            continue;
        }
        let disagree = all.difference(&agree).count();
        points.push(json!({
            "statement": agreeing[0].value(), "agree": agree.len(), "disagree": disagree,
            "agreement": round_score(agreement), "files": agree,
            "against": others.iter().map(|it| it.value()).collect::<Vec<_>>(),
        }));
    }
    points.sort_by_key(|it| std::cmp::Reverse(it["agree"].as_u64()));
    let (count, page) = answer.page_of(request, points, |it| it);
    answer.data = json!({"field": field, "consensus_points": count, "below_threshold": below, "points": page});
    answer
}

fn compare_contradictions(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let field = request.text("field").unwrap_or_default();
    let statements = statements::find_statements(corpus, field);
    let mut answer = statement_answer(corpus, &statements);
    let topics = statements::group_by_topic(statements);
    statements::report_not_compared(&mut answer, &topics);
    let compared =
        topics.iter().filter(|it| distinct_files(&it.statements.iter().collect::<Vec<_>>()).len() > 1).count();
    let found = topics.iter().flat_map(StatementTopic::contradictions);
    let (count, page) = answer.page_of(request, found, |it| it.value());
    answer.data = json!({
        "field": field, "disagreements": count, "topics_compared": compared, "contradictions": page,
    });
    answer
}

/// Creates the answer from the statements found in the documents. Lists the documents without a statement among its
/// unknowns.
fn statement_answer(corpus: &Corpus, statements: &[statements::Statement]) -> Answer {
    let mut answer = Answer::new(
        "statements by cue words; same topic by shared stems; contradictions by negation, opposites and numbers",
    );
    answer.parameter("same_topic", statements::SAME_TOPIC);
    let count = |paper: &CorpusDocument| statements.iter().filter(|it| it.file == paper.file).count();
    let silent: Vec<i64> = corpus.documents.iter().filter(|it| count(it) == 0).map(|it| it.file).collect();
    for paper in &corpus.documents {
        answer.push_evidence(paper, count(paper));
    }
    if !silent.is_empty() {
        answer.push_unknown(Unknown::new("no_statement", silent.len()).files(&silent));
    }
    answer.confidence = if statements.is_empty() { 0.0 } else { 0.8 };
    answer
}

fn compare_approaches(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let found = pros_cons::find_approaches(corpus);
    let mut answer =
        Answer::new("lists and sections named pros, advantages, cons, drawbacks and the like, by the heading above");
    for paper in &corpus.documents {
        answer.push_evidence(paper, found.iter().filter(|it| it.has(paper.file)).count());
    }
    let one_sided = found.iter().filter(|it| it.pros.is_empty() || it.cons.is_empty()).count();
    if one_sided > 0 {
        answer.push_unknown(Unknown::new("one_sided_approach", one_sided));
    }
    answer.confidence = round_score(mean(
        &found.iter().map(|it| if it.pros.is_empty() || it.cons.is_empty() { 0.7 } else { 0.9 }).collect::<Vec<_>>(),
    ));
    let (pros, cons) =
        (found.iter().map(|it| it.pros.len()).sum::<usize>(), found.iter().map(|it| it.cons.len()).sum::<usize>());
    let count = found.len();
    let page = answer.page(request, found.iter().map(pros_cons::Approach::value).collect());
    answer.data = json!({"approaches": count, "pros": pros, "cons": cons, "list": page});
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::tests::reading;

    #[test]
    fn diff_past_deadline_is_coarse_and_reported() {
        let text =
            |from: usize| (from..from + 400).map(|it| format!("It was {}.\n\n", it % 7 * it)).collect::<String>();
        let read = |from: usize| reading("a.md", text(from).as_bytes()).passages;
        let (old, new, now) = (read(0), read(20), Instant::now());
        let fine = diff_passages(&old, &new, now + DIFF_TIME_LIMIT);
        let coarse = diff_passages(&old, &new, now);
        assert!(!fine.is_coarse && coarse.is_coarse);
        assert!(coarse.list.len() > fine.list.len(), "{} {}", coarse.list.len(), fine.list.len());
        let same = diff_passages(&old, &old, now);
        assert!(same.list.is_empty() && !same.is_coarse, "equal texts need no time");
        let mut answer = Answer::new("a method");
        report_coarse_diff(&mut answer, &[1, 2]);
        assert_eq!((answer.unknowns[0].value()["type"].as_str(), answer.confidence), (Some("coarse_difference"), 0.6));
    }
}
