//! The verb DELTA: reports files that were added, removed or modified since a baseline; unchanged files are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::corpus::analysis::statements::{self, Contradiction, StatementTopic};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::ApiResult;
use crate::corpus::api::request::ValidRequest;
use crate::corpus::text::dates;
use crate::corpus::verbs::compare::PassageDiff;
use crate::corpus::verbs::{compare, field_diff};
use crate::corpus::views::baseline::{DeltaBaseline, has_changed};
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;

/// Fields of statements that are searched for new contradictions.
const CONTRADICTION_FIELDS: [&str; 4] = ["recommendation", "best-practice", "conclusion", "requirement"];

/// Maximum contradictions collected from each of the two compared states; further ones are only counted.
const MAX_WORDINGS: usize = 500_000;

/// Runs DELTA. `earlier` is the requested baseline, the newest session before `since`, or the newest session that contains
/// the watched file.
pub(crate) fn run(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>) -> ApiResult<Answer> {
    if request.has("watch") {
        return field_diff::diff_field(request, corpus, earlier);
    }
    if request.text("only") == Some("new-contradictions") {
        return Ok(new_contradictions(request, corpus, earlier));
    }
    match request.text("since").and_then(dates::parse_moment) {
        Some(since) => Ok(since_moment(request, corpus, earlier, since)),
        None => Ok(since_baseline(request, corpus, earlier)),
    }
}

fn since_moment(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>, since: i64) -> Answer {
    let mut answer = Answer::new(
        "files changed at or after `since`; added and removed in comparison with the last session before it",
    );
    answer.parameter("since", request.text("since").unwrap_or_default());
    let recent: Vec<&CorpusDocument> = corpus.documents.iter().filter(|it| it.modified_ns >= since).collect();
    let Some(earlier) = earlier else {
        let modified = recent.iter().map(|it| file_entry(it)).collect();
        answer.push_unknown(
            Unknown::new("added_or_modified_and_removals", recent.len())
                .detail("no session is older than `since`; INGEST makes a session"),
        );
        answer.confidence = 0.6;
        return build_answer(request, corpus, answer, [Vec::new(), Vec::new(), modified]);
    };
    answer.parameter("compared_with", earlier.name.as_str());
    let recent: BTreeSet<FileId> = recent.into_iter().map(|it| it.file).collect();
    let mut lists = diff_files(corpus, earlier, &mut answer);
    lists[0].retain(|it| it["file"].as_i64().is_some_and(|it| recent.contains(&it)));
    report_lost_content(&mut answer, &lists[2]);
    build_answer(request, corpus, answer, lists)
}

fn since_baseline(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>) -> Answer {
    let mut answer = Answer::new("files and contents of the baseline compared with the current ones");
    let lists = earlier.map(|it| diff_files(corpus, it, &mut answer)).unwrap_or_default();
    if let Some(earlier) = earlier {
        answer.parameter("baseline", earlier.name.as_str());
    }
    report_lost_content(&mut answer, &lists[2]);
    build_answer(request, corpus, answer, lists)
}

/// Returns the added, removed and modified files.
fn diff_files(corpus: &Corpus, earlier: &DeltaBaseline, answer: &mut Answer) -> [Vec<Value>; 3] {
    let (until, mut coarse) = (Instant::now() + compare::DIFF_TIME_LIMIT, Vec::new());
    let there: BTreeSet<FileId> =
        corpus.documents.iter().map(|it| it.file).chain(corpus.unread.iter().map(|it| it.file)).collect();
    let gone: Vec<&SessionFile> = earlier.files.values().filter(|it| !there.contains(&it.file)).collect();
    let by_content: HashMap<_, &str> = gone.iter().filter_map(|it| Some((it.hash?, it.path.as_str()))).collect();
    let (mut added, mut modified) = (Vec::new(), Vec::new());
    for paper in &corpus.documents {
        match earlier.files.get(&paper.file) {
            None => {
                let mut shown = file_entry(paper);
                if let Some(from) = by_content.get(&paper.hash) {
                    shown["same_content_as_removed"] = json!(from);
                }
                added.push(shown);
            }
            Some(before) if has_changed(paper, before) => {
                let (shown, is_coarse) = modified_entry(paper, before, earlier, until);
                coarse.extend(is_coarse.then_some(paper.file));
                modified.push(shown);
            }
            // Report a file with the same content under another path as renamed.
            Some(before) if before.path != paper.path => {
                let mut shown = file_entry(paper);
                shown["moved_from"] = json!(before.path);
                shown["changes"] = json!(0);
                modified.push(shown);
            }
            Some(_) => {}
        }
    }
    let mut gone: Vec<Value> = gone.iter().map(|it| json!({"file": it.file, "path": it.path})).collect();
    gone.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    if !coarse.is_empty() {
        compare::report_coarse_diff(answer, &coarse);
    }
    [added, gone, modified]
}

/// Reports modified files whose earlier content is not stored.
fn report_lost_content(answer: &mut Answer, modified: &[Value]) {
    let lost = modified.iter().filter(|it| it.get("changes").is_none());
    let lost: Vec<FileId> = lost.filter_map(|it| it["file"].as_i64()).collect();
    if !lost.is_empty() {
        answer.push_unknown(
            Unknown::new("earlier_content_not_kept", lost.len())
                .files(&lost)
                .detail("sessions made in mode full store it"),
        );
    }
}

fn build_answer(request: &ValidRequest, corpus: &Corpus, mut answer: Answer, lists: [Vec<Value>; 3]) -> Answer {
    if corpus.total() == 0 {
        // Set the coverage of an empty view to 1: all of its files are known.
        answer.coverage = Some(1.0);
    }
    let names = ["added", "removed", "modified"];
    let only = request.text("only");
    let counts: Vec<usize> = lists.iter().map(Vec::len).collect();
    let named: BTreeSet<FileId> = lists.iter().flatten().filter_map(|it| it["file"].as_i64()).collect();
    for paper in &corpus.documents {
        answer.push_evidence(paper, usize::from(named.contains(&paper.file)));
    }
    let mut data = json!({"counts": {"added": counts[0], "removed": counts[1], "modified": counts[2]}});
    for (name, list) in names.into_iter().zip(lists) {
        if only.is_none_or(|it| it == name) {
            data[name] = Value::Array(answer.page(request, list));
        }
    }
    answer.data = data;
    answer
}

fn file_entry(paper: &CorpusDocument) -> Value {
    json!({"file": paper.file, "path": paper.path})
}

/// Returns the entry for a modified document, and whether its diff was stopped at the time limit.
fn modified_entry(
    paper: &CorpusDocument,
    before: &SessionFile,
    earlier: &DeltaBaseline,
    until: Instant,
) -> (Value, bool) {
    let (mut shown, mut is_coarse) = (file_entry(paper), false);
    if before.path != paper.path {
        shown["moved_from"] = json!(before.path);
    }
    if before.size != paper.size {
        shown["size"] = json!([before.size, paper.size]);
    }
    if let Some(old) = earlier.parsed.get(&before.file) {
        let PassageDiff { list: changes, is_coarse: given_up } =
            compare::diff_passages(&old.passages, &paper.parsed.passages, until);
        is_coarse = given_up;
        let sections: BTreeSet<&str> =
            changes.iter().filter_map(|it| it["section"].as_str()).filter(|it| !it.is_empty()).collect();
        shown["sections"] = json!(sections);
        shown["changes"] = json!(changes.len());
    }
    (shown, is_coarse)
}

/// Groups the statements of a view by field and topic.
fn topics_by_field(corpus: &Corpus) -> Vec<(&'static str, StatementTopic)> {
    let of = |field: &'static str| {
        statements::group_by_topic(statements::find_statements(corpus, field)).into_iter().map(move |it| (field, it))
    };
    CONTRADICTION_FIELDS.into_iter().flat_map(of).collect()
}

/// Contradictions, identified by the wording of both statements in either order.
struct ContradictionWordings<'t> {
    found: BTreeMap<[&'t str; 2], (&'static str, Contradiction<'t>)>,
    /// Number of contradictions found after `found` was full, with wordings that are not in `found`.
    left_out: usize,
}

/// Collects at most `most` contradictions with different wordings.
fn collect_contradictions<'t>(topics: &'t [(&'static str, StatementTopic)], most: usize) -> ContradictionWordings<'t> {
    let mut wordings = ContradictionWordings { found: BTreeMap::new(), left_out: 0 };
    let pairs = topics.iter().flat_map(|(field, topic)| topic.contradictions().map(move |it| (*field, it)));
    for (field, pair) in pairs {
        let mut key = [pair.one.text.as_str(), pair.other.text.as_str()];
        key.sort_unstable();
        if wordings.found.len() < most {
            wordings.found.entry(key).or_insert((field, pair));
        } else if !wordings.found.contains_key(&key) {
            wordings.left_out += 1;
        }
    }
    wordings
}

fn new_contradictions(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>) -> Answer {
    let mut answer = Answer::new("current contradictions without those of the baseline, by their wording");
    let (then, now) = (earlier.map(|it| topics_by_field(&it.to_corpus())).unwrap_or_default(), topics_by_field(corpus));
    let (before, of_now) = (collect_contradictions(&then, MAX_WORDINGS), collect_contradictions(&now, MAX_WORDINGS));
    statements::report_not_compared(&mut answer, then.iter().chain(&now).map(|it| &it.1));
    let lost: BTreeSet<FileId> = earlier
        .into_iter()
        .flat_map(|it| it.files.keys().filter(|file| !it.parsed.contains_key(file)))
        .copied()
        .collect();
    let resolved = before.found.keys().filter(|it| !of_now.found.contains_key(*it)).count();
    let is_lost =
        |(_, pair): &(&str, Contradiction<'_>)| [pair.one, pair.other].iter().any(|it| lost.contains(&it.file));
    // Do not report as new a contradiction whose earlier text is not stored: it may have existed before.
    let (open, new): (Vec<_>, Vec<_>) =
        of_now.found.into_iter().filter(|it| !before.found.contains_key(&it.0)).map(|it| it.1).partition(is_lost);
    if !lost.is_empty() {
        let files: Vec<FileId> = lost.iter().copied().collect();
        answer.push_unknown(
            Unknown::new("earlier_content_not_kept", lost.len())
                .files(&files)
                .detail("sessions made in mode full store it"),
        );
    }
    if !open.is_empty() {
        answer.push_unknown(Unknown::new("new_or_old_contradictions", open.len()));
    }
    let left_out = before.left_out + of_now.left_out;
    if left_out > 0 {
        let detail =
            format!("only the first {MAX_WORDINGS} contradictions of each state are compared; name a smaller view");
        answer.push_unknown(Unknown::new("contradictions_not_compared", left_out).detail(detail));
    }
    answer.confidence = if lost.is_empty() && left_out == 0 { 0.8 } else { 0.5 };
    let mut taking: HashMap<FileId, usize> = HashMap::new();
    for side in new.iter().flat_map(|(_, pair)| [pair.one, pair.other]) {
        *taking.entry(side.file).or_default() += 1;
    }
    for paper in &corpus.documents {
        answer.push_evidence(paper, taking.get(&paper.file).copied().unwrap_or(0));
    }
    let (count, page) = answer.page_of(
        request,
        new,
        |(field, pair)| json!({"field": field, "why": pair.why, "a": pair.one.value(), "b": pair.other.value()}),
    );
    answer.data = json!({"count": count, "resolved": resolved, "undecided": open.len(), "new_contradictions": page});
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::tests::corpus;

    #[test]
    fn contradictions_over_limit_are_counted() {
        let report = |day: usize| -> String {
            (0..10).map(|it| format!("We conclude that the temperature was {} degrees.\n\n", day * 10 + it)).collect()
        };
        let texts = [report(0), report(1), report(0)];
        let corpus = corpus(&[("a.md", &texts[0]), ("b.md", &texts[1]), ("c.md", &texts[2])]);
        let topics = topics_by_field(&corpus);
        let all = collect_contradictions(&topics, 1_000);
        // 100 pairs of a sentence of `a` and one of `b`, and 45 pairs of different sentences of `a` and its copy `c`.
        assert_eq!((all.found.len(), all.left_out), (145, 0));
        let some = collect_contradictions(&topics, 100);
        assert_eq!(some.found.len(), 100);
        assert!(some.left_out >= 45 && some.found.keys().all(|it| all.found.contains_key(it)));
    }
}
