//! DELTA with `watch` and `field`: the diff of a text, the added and removed items of a list, or a value before and after.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};
use similar::TextDiff;

use crate::catalog::{Column, SessionFile};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult, nearest_name};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::loader::extension;
use crate::corpus::document::metadata::Facts;
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::filter::{self, FieldSource, FilterField};
use crate::corpus::text::words::normalize_key;
use crate::corpus::verbs::compare::{DIFF_TIME_LIMIT, report_coarse_diff};
use crate::corpus::views::baseline::{DeltaBaseline, has_changed};
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::corpus::views::filter_row::FilterRow;
use crate::model::{FileKind, FileState};

/// Fields of a document that are not metadata: its text, and the lists found in it.
pub(crate) const TEXT_FIELDS: [&str; 9] =
    ["content", "headings", "tables", "code", "references", "quotes", "definitions", "citations", "links"];

/// Number of context lines around each difference in a text diff.
const CONTEXT_LINES: usize = 1;

/// One state of a document: its catalog row, facts and text, as far as they are known.
struct DocumentState<'s> {
    file: &'s SessionFile,
    facts: Option<Facts>,
    reading: Option<&'s ParsedDocument>,
}

/// What the field name of a request refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldReference<'r> {
    /// A name in [`TEXT_FIELDS`].
    Part(&'static str),
    /// A metadata field that filters know.
    Metadata(&'static FilterField),
    /// A key that documents state in the form `key: value`.
    Stated(&'r str),
}

/// Resolves a field name. A name that is neither in [`TEXT_FIELDS`] nor metadata is the key of a `key: value` pair.
pub(crate) fn resolve_field(name: &str) -> FieldReference<'_> {
    match TEXT_FIELDS.iter().find(|it| it.eq_ignore_ascii_case(name)) {
        Some(part) => FieldReference::Part(part),
        None => filter::field_by_name(name).map_or(FieldReference::Stated(name), FieldReference::Metadata),
    }
}

/// Compares one field of one file with its state in the baseline.
pub(crate) fn diff_field(
    request: &ValidRequest,
    corpus: &Corpus,
    earlier: Option<&DeltaBaseline>,
) -> ApiResult<Answer> {
    let name = request.text("field").unwrap_or("content");
    let field = resolve_field(name);
    let before = earlier.and_then(|it| it.files.values().next());
    let paper = corpus.documents.first();
    let (Some(earlier), Some(before)) = (earlier, before) else {
        return Err(ApiError::new(ApiErrorKind::UnknownSession, "no session holds an earlier state of the file")
            .field("watch")
            .action("INGEST the file; DELTA then compares with that session"));
    };
    let mut answer =
        Answer::new("one field of a file compared with the baseline, or with the last session that read the file");
    answer.parameter("baseline", earlier.name.as_str());
    let own = paper.map(to_session_file);
    let then = DocumentState {
        file: before,
        facts: facts_then(before, earlier),
        reading: earlier.parsed.get(&before.file).map(|it| &**it),
    };
    let same_text = paper.is_some_and(|it| !has_changed(it, before));
    let now = own.as_ref().zip(paper).map(|(file, paper)| DocumentState {
        file,
        facts: Some(paper.parsed.facts.clone()),
        reading: Some(&paper.parsed),
    });
    if let Some(paper) = paper {
        answer.push_evidence(paper, 1);
    }
    if let (FieldReference::Stated(key), Some(paper)) = (field, paper) {
        check_key_exists(key, paper, then.reading)?;
    }
    let mut data = json!({"file": before.file, "path": before.path, "field": name, "vanished": paper.is_none()});
    match field {
        FieldReference::Part(part) => {
            diff_part(request, &mut answer, &mut data, part, [Some(&then), now.as_ref()], same_text);
        }
        FieldReference::Metadata(known) => {
            let is_text = matches!(known.origin, FieldSource::Fact(_));
            // For an unchanged text, use its current facts for both states, so that a newer parser shows no change.
            let then = if is_text && same_text { now.as_ref() } else { Some(&then) };
            write_before_and_after(
                &mut answer,
                &mut data,
                then.map(|it| metadata_value(it, known)),
                now.as_ref().map(|it| metadata_value(it, known)),
            );
        }
        FieldReference::Stated(key) => {
            let value = |it: &DocumentState<'_>| {
                it.reading.map(|it| it.stated.get(&normalize_key(key)).map_or(Value::Null, |it| json!(it.0)))
            };
            let then = if same_text { now.as_ref() } else { Some(&then) };
            write_before_and_after(&mut answer, &mut data, then.map(value), now.as_ref().map(value));
        }
    }
    if paper.is_none() {
        data["changed"] = json!(true);
    }
    answer.coverage = Some(1.0);
    answer.data = data;
    Ok(answer)
}

/// Rejects a key that the document states neither now nor in the baseline.
fn check_key_exists(key: &str, paper: &CorpusDocument, then: Option<&ParsedDocument>) -> ApiResult<()> {
    let stated = paper.parsed.stated.keys().chain(then.into_iter().flat_map(|it| it.stated.keys()));
    let mut names: Vec<&str> = stated.map(String::as_str).collect();
    if names.contains(&normalize_key(key).as_str()) {
        return Ok(());
    }
    names.extend(TEXT_FIELDS);
    names.extend(filter::FILTER_FIELDS.iter().map(|it| it.name));
    names.sort_unstable();
    names.dedup();
    let refusal = match nearest_name(key, &names) {
        Some(near) => ApiError::new(ApiErrorKind::UnknownField, format!("the file has no field `{key}`"))
            .action(format!("did you mean `{near}`?")),
        None => ApiError::new(ApiErrorKind::UnknownField, format!("the file has no field `{key}`"))
            .action(format!("watch one of {}", TEXT_FIELDS.join(", ")))
            .action("or metadata such as size, title, word_count, or a key that the file states"),
    };
    Err(refusal.field("field"))
}

fn to_session_file(paper: &CorpusDocument) -> SessionFile {
    let extension = extension(&paper.path);
    SessionFile {
        hash: Some(paper.hash),
        size: paper.size,
        modified_ns: paper.modified_ns,
        kind: FileKind::from_extension(&extension),
        extension,
        state: FileState::Indexed,
        ..SessionFile::failed_page(paper.file, paper.path.clone(), String::new())
    }
}

fn facts_then(file: &SessionFile, earlier: &DeltaBaseline) -> Option<Facts> {
    let kept = file.facts.as_deref().and_then(|it| serde_json::from_str(it).ok());
    kept.or_else(|| earlier.parsed.get(&file.file).map(|it| it.facts.clone()))
}

/// Returns the value of a metadata field; `None` if it is not known.
fn metadata_value(state: &DocumentState<'_>, known: &'static FilterField) -> Option<Value> {
    let columns: [Column; 1] = match known.origin {
        FieldSource::Catalog(column) => [column],
        FieldSource::Fact(_) => [Column::Hash],
    };
    let row = state.file.predicate_row(&columns);
    let sight = FilterRow { row: &row, columns: &columns, facts: state.facts.as_ref() };
    let is_known = matches!(known.origin, FieldSource::Catalog(_)) || state.facts.is_some();
    is_known.then(|| sight.value_of(known).map_or(Value::Null, |it| it.value()))
}

/// Writes a value before and after. The outer `None` means a missing file, the inner an unknown value.
fn write_before_and_after(
    answer: &mut Answer,
    data: &mut Value,
    before: Option<Option<Value>>,
    after: Option<Option<Value>>,
) {
    data["before"] = before.clone().flatten().unwrap_or_default();
    data["after"] = after.clone().flatten().unwrap_or_default();
    match (before.flatten(), after) {
        (Some(before), Some(Some(after))) => data["changed"] = json!(before != after),
        (Some(_), None) => {}
        _ => {
            data["changed"] = Value::Null;
            report_lost_content(answer, data);
        }
    }
}

fn report_lost_content(answer: &mut Answer, data: &Value) {
    let file = data["file"].as_i64().unwrap_or_default();
    answer.push_unknown(
        Unknown::new("earlier_content_not_kept", 1).files(&[file]).detail("sessions made in mode full store it"),
    );
    answer.confidence = 0.5;
}

/// Compares a part of a document: the diff of its text, or the added and removed items of a list.
fn diff_part(
    request: &ValidRequest,
    answer: &mut Answer,
    data: &mut Value,
    part: &'static str,
    [then, now]: [Option<&DocumentState<'_>>; 2],
    same_text: bool,
) {
    data["changed"] = json!(!same_text);
    if same_text {
        return;
    }
    let (Some(old), new) = (then.and_then(|it| it.reading), now.and_then(|it| it.reading)) else {
        return report_lost_content(answer, data);
    };
    if part == "content" {
        let (lines, is_coarse) = diff_lines(&full_text(Some(old)), &full_text(new), Instant::now() + DIFF_TIME_LIMIT);
        if let (true, Some(file)) = (is_coarse, data["file"].as_i64()) {
            report_coarse_diff(answer, &[file]);
        }
        let count = |sign: char| lines.iter().filter(|it| it.starts_with(sign)).count();
        (data["lines_added"], data["lines_removed"]) = (json!(count('+')), json!(count('-')));
        data["diff"] = Value::Array(answer.page(request, lines.into_iter().map(Value::from).collect()));
        return;
    }
    let (old, new) = (list_items(old, part), new.map(|it| list_items(it, part)).unwrap_or_default());
    data["changed"] = json!(old != new);
    data["added"] = json!(not_in(&new, &old));
    data["removed"] = json!(not_in(&old, &new));
}

/// Returns the items of `all` that are not in `others`, in order.
fn not_in<'a>(all: &'a [String], others: &[String]) -> Vec<&'a String> {
    let others: HashSet<&String> = others.iter().collect();
    all.iter().filter(|it| !others.contains(it)).collect()
}

fn full_text(reading: Option<&ParsedDocument>) -> String {
    let passages = reading.into_iter().flat_map(|it| &it.passages);
    passages.map(|it| format!("{}\n", it.text.trim_end())).collect()
}

/// Returns the lines of a unified diff with little context; `@@` separates hunks. Also returns whether the search was
/// stopped at the deadline.
fn diff_lines(old: &str, new: &str, until: Instant) -> (Vec<String>, bool) {
    let diff = TextDiff::configure().deadline(until).diff_lines(old, new);
    let is_coarse = Instant::now() > until && old != new;
    let unified = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
    (unified.lines().map(String::from).collect(), is_coarse)
}

fn list_items(reading: &ParsedDocument, part: &str) -> Vec<String> {
    let schema = match part {
        "headings" => return reading.headings().map(|it| it.text.clone()).collect(),
        "links" => return reading.links.iter().map(|it| it.target.clone()).collect(),
        "tables" => "Table",
        "code" => "Code",
        "quotes" => "Quote",
        "definitions" => "Definition",
        "citations" => "Citation",
        _ => "Reference",
    };
    let shown = |it: &crate::corpus::objects::Object| Value::Object(it.fields.clone()).to_string();
    reading.objects.get(schema).into_iter().flatten().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_diff_past_deadline_is_coarse() {
        let text = |from: usize| (from..from + 400).map(|it| format!("line {}\n", it % 7 * it)).collect::<String>();
        let (old, new) = (text(0), text(20));
        let now = Instant::now();
        let (fine, is_coarse) = diff_lines(&old, &new, now + DIFF_TIME_LIMIT);
        assert!(!is_coarse);
        let (coarse, is_coarse) = diff_lines(&old, &new, now);
        assert!(is_coarse && coarse.len() > fine.len(), "{} {}", coarse.len(), fine.len());
        assert_eq!(diff_lines(&old, &old, now), (vec![], false), "equal texts need no time");
    }

    #[test]
    fn not_in_keeps_list_order() {
        let [old, new] = [["a", "b", "c"], ["d", "b", "a"]].map(|it| it.map(String::from).to_vec());
        assert_eq!((not_in(&new, &old), not_in(&old, &new)), (vec![&new[0]], vec![&old[2]]));
    }
}
