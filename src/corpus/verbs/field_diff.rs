//! DELTA of one field of one file: a diff of its text, added and removed items of its lists, or a value before and after.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};
use similar::TextDiff;

use crate::catalog::{Column, SessionFile};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{Cause, Outcome, Refusal, nearest};
use crate::corpus::api::validate::Request;
use crate::corpus::document::loader::extension;
use crate::corpus::document::metadata::Facts;
use crate::corpus::document::parsed::{Reading, key_of};
use crate::corpus::filter::{self, Known, Origin};
use crate::corpus::verbs::compare::{PATIENCE, note_coarse};
use crate::corpus::verbs::delta::{Earlier, differs};
use crate::corpus::views::documents::{Corpus, Paper};
use crate::corpus::views::select::Sight;
use crate::model::{FileKind, FileState};

/// The fields besides metadata: the text, and the lists that it holds.
pub(crate) const PARTS: [&str; 9] =
    ["content", "headings", "tables", "code", "references", "quotes", "definitions", "citations", "links"];

/// Context lines around each difference in a text diff.
const AROUND: usize = 1;

/// One state of a document: its row, facts and text, as far as known.
struct State<'s> {
    file: &'s SessionFile,
    facts: Option<Facts>,
    reading: Option<&'s Reading>,
}

/// The field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Watched<'r> {
    /// A name in [`PARTS`].
    Part(&'static str),
    /// A metadata field that filters know.
    Metadata(&'static Known),
    /// A key that documents state as `key: value`.
    Stated(&'r str),
}

/// Resolves a field name. A name that is neither a part nor metadata is a stated key.
pub(crate) fn watched(name: &str) -> Watched<'_> {
    match PARTS.iter().find(|it| it.eq_ignore_ascii_case(name)) {
        Some(part) => Watched::Part(part),
        None => filter::known(name).map_or(Watched::Stated(name), Watched::Metadata),
    }
}

/// Compares one field of one file with the baseline.
pub(crate) fn run(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Outcome<Answer> {
    let name = request.text("field").unwrap_or("content");
    let field = watched(name);
    let before = earlier.and_then(|it| it.files.values().next());
    let paper = corpus.papers.first();
    let (Some(earlier), Some(before)) = (earlier, before) else {
        return Err(Refusal::new(Cause::UnknownSession, "no session holds an earlier state of the file")
            .field("watch")
            .action("INGEST the file; DELTA then compares with that session"));
    };
    let mut answer = Answer::new("one field of a file against the baseline, or the last session that read it");
    answer.parameter("baseline", earlier.name.as_str());
    let own = paper.map(as_file);
    let then = State {
        file: before,
        facts: facts_then(before, earlier),
        reading: earlier.readings.get(&before.file).map(|it| &**it),
    };
    let same_text = paper.is_some_and(|it| !differs(it, before));
    let now = own.as_ref().zip(paper).map(|(file, paper)| State {
        file,
        facts: Some(paper.reading.facts.clone()),
        reading: Some(&paper.reading),
    });
    if let Some(paper) = paper {
        answer.evidence(paper, 1);
    }
    if let (Watched::Stated(key), Some(paper)) = (field, paper) {
        refuse_unknown_key(key, paper, then.reading)?;
    }
    let mut data = json!({"file": before.file, "path": before.path, "field": name, "vanished": paper.is_none()});
    match field {
        Watched::Part(part) => {
            watch_part(request, &mut answer, &mut data, part, [Some(&then), now.as_ref()], same_text);
        }
        Watched::Metadata(known) => {
            let is_text = matches!(known.origin, Origin::Fact(_));
            // Facts of an unchanged text are compared in their current form, so that a newer parser shows no change.
            let then = if is_text && same_text { now.as_ref() } else { Some(&then) };
            old_and_new(
                &mut answer,
                &mut data,
                then.map(|it| metadata(it, known)),
                now.as_ref().map(|it| metadata(it, known)),
            );
        }
        Watched::Stated(key) => {
            let value =
                |it: &State<'_>| it.reading.map(|it| it.stated.get(&key_of(key)).map_or(Value::Null, |it| json!(it.0)));
            let then = if same_text { now.as_ref() } else { Some(&then) };
            old_and_new(&mut answer, &mut data, then.map(value), now.as_ref().map(value));
        }
    }
    if paper.is_none() {
        data["changed"] = json!(true);
    }
    answer.coverage = Some(1.0);
    answer.data = data;
    Ok(answer)
}

/// Rejects a key that neither state has.
fn refuse_unknown_key(key: &str, paper: &Paper, then: Option<&Reading>) -> Outcome<()> {
    let stated = paper.reading.stated.keys().chain(then.into_iter().flat_map(|it| it.stated.keys()));
    let mut names: Vec<&str> = stated.map(String::as_str).collect();
    if names.contains(&key_of(key).as_str()) {
        return Ok(());
    }
    names.extend(PARTS);
    names.extend(filter::FIELDS.iter().map(|it| it.name));
    names.sort_unstable();
    names.dedup();
    let refusal = match nearest(key, &names) {
        Some(near) => Refusal::new(Cause::UnknownField, format!("the file has no field `{key}`"))
            .action(format!("did you mean `{near}`?")),
        None => Refusal::new(Cause::UnknownField, format!("the file has no field `{key}`"))
            .action(format!("watch one of {}", PARTS.join(", ")))
            .action("or metadata such as size, title, word_count, or a key that the file states"),
    };
    Err(refusal.field("field"))
}

fn as_file(paper: &Paper) -> SessionFile {
    let extension = extension(&paper.path);
    SessionFile {
        hash: Some(paper.hash),
        size: paper.size,
        modified_ns: paper.modified_ns,
        kind: FileKind::of_extension(&extension),
        extension,
        state: FileState::Indexed,
        ..SessionFile::page(paper.file, paper.path.clone(), String::new())
    }
}

fn facts_then(file: &SessionFile, earlier: &Earlier) -> Option<Facts> {
    let kept = file.facts.as_deref().and_then(|it| serde_json::from_str(it).ok());
    kept.or_else(|| earlier.readings.get(&file.file).map(|it| it.facts.clone()))
}

/// The value of a metadata field; `None` if unknown.
fn metadata(state: &State<'_>, known: &'static Known) -> Option<Value> {
    let columns: [Column; 1] = match known.origin {
        Origin::Catalog(column) => [column],
        Origin::Fact(_) => [Column::Hash],
    };
    let row = state.file.row(&columns);
    let sight = Sight { row: &row, columns: &columns, facts: state.facts.as_ref() };
    let is_known = matches!(known.origin, Origin::Catalog(_)) || state.facts.is_some();
    is_known.then(|| sight.datum(known).map_or(Value::Null, |it| it.value()))
}

/// Shows a value before and after. The outer `None` is a missing file, the inner an unknown value.
fn old_and_new(answer: &mut Answer, data: &mut Value, before: Option<Option<Value>>, after: Option<Option<Value>>) {
    data["before"] = before.clone().flatten().unwrap_or_default();
    data["after"] = after.clone().flatten().unwrap_or_default();
    match (before.flatten(), after) {
        (Some(before), Some(Some(after))) => data["changed"] = json!(before != after),
        (Some(_), None) => {}
        _ => {
            data["changed"] = Value::Null;
            lost(answer, data);
        }
    }
}

fn lost(answer: &mut Answer, data: &Value) {
    let file = data["file"].as_i64().unwrap_or_default();
    answer.unknown(Unknown::new("earlier_content_not_kept", 1).files(&[file]).detail("sessions in mode full keep it"));
    answer.confidence = 0.5;
}

/// Compares a part of a text: a diff of the content, added and removed items of lists.
fn watch_part(
    request: &Request,
    answer: &mut Answer,
    data: &mut Value,
    part: &'static str,
    [then, now]: [Option<&State<'_>>; 2],
    same_text: bool,
) {
    data["changed"] = json!(!same_text);
    if same_text {
        return;
    }
    let (Some(old), new) = (then.and_then(|it| it.reading), now.and_then(|it| it.reading)) else {
        return lost(answer, data);
    };
    if part == "content" {
        let (lines, is_coarse) = diff(&text_of(Some(old)), &text_of(new), Instant::now() + PATIENCE);
        if let (true, Some(file)) = (is_coarse, data["file"].as_i64()) {
            note_coarse(answer, &[file]);
        }
        let count = |sign: char| lines.iter().filter(|it| it.starts_with(sign)).count();
        (data["lines_added"], data["lines_removed"]) = (json!(count('+')), json!(count('-')));
        data["diff"] = Value::Array(answer.page(request, lines.into_iter().map(Value::from).collect()));
        return;
    }
    let (old, new) = (listed(old, part), new.map(|it| listed(it, part)).unwrap_or_default());
    data["changed"] = json!(old != new);
    data["added"] = json!(not_in(&new, &old));
    data["removed"] = json!(not_in(&old, &new));
}

/// The items of one list that are not in the other, in order.
fn not_in<'a>(all: &'a [String], others: &[String]) -> Vec<&'a String> {
    let others: HashSet<&String> = others.iter().collect();
    all.iter().filter(|it| !others.contains(it)).collect()
}

fn text_of(reading: Option<&Reading>) -> String {
    let passages = reading.into_iter().flat_map(|it| &it.passages);
    passages.map(|it| format!("{}\n", it.text.trim_end())).collect()
}

/// The lines of a unified diff with a little context; `@@` separates distant hunks. Also returns whether the deadline cut
/// the search.
fn diff(old: &str, new: &str, until: Instant) -> (Vec<String>, bool) {
    let diff = TextDiff::configure().deadline(until).diff_lines(old, new);
    let is_coarse = Instant::now() > until && old != new;
    let unified = diff.unified_diff().context_radius(AROUND).to_string();
    (unified.lines().map(String::from).collect(), is_coarse)
}

fn listed(reading: &Reading, part: &str) -> Vec<String> {
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
        let (fine, is_coarse) = diff(&old, &new, now + PATIENCE);
        assert!(!is_coarse);
        let (coarse, is_coarse) = diff(&old, &new, now);
        assert!(is_coarse && coarse.len() > fine.len(), "{} {}", coarse.len(), fine.len());
        assert_eq!(diff(&old, &old, now), (vec![], false), "equal texts need no time");
    }

    #[test]
    fn not_in_keeps_list_order() {
        let [old, new] = [["a", "b", "c"], ["d", "b", "a"]].map(|it| it.map(String::from).to_vec());
        assert_eq!((not_in(&new, &old), not_in(&old, &new)), (vec![&new[0]], vec![&old[2]]));
    }
}
