//! DELTA: reports added, removed and modified files, and leaves out unchanged ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::corpus::analysis::statements::{self, Contradiction, Topic};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::Outcome;
use crate::corpus::api::validate::Request;
use crate::corpus::document::parsed::Reading;
use crate::corpus::text::dates;
use crate::corpus::verbs::compare::Changes;
use crate::corpus::verbs::{compare, field_diff};
use crate::corpus::views::documents::{Corpus, Paper};
use crate::corpus::views::snapshot::Past;
use crate::model::FileId;

/// Fields searched for new contradictions.
const FIELDS: [&str; 4] = ["recommendation", "best-practice", "conclusion", "requirement"];

/// Most contradictions kept of each state for the comparison.
const MOST_WORDINGS: usize = 500_000;

/// A baseline: a session or a result, with the parsed documents that are still stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    /// `session 4`, or `result r-…`.
    pub(crate) name: String,
    /// The files that could be read then.
    pub(crate) files: BTreeMap<FileId, SessionFile>,
    /// Whether their metadata is known, as it is for a session. Then filters of a view can be applied to them.
    pub(crate) has_metadata: bool,
    /// Whether texts were stored at all.
    pub(crate) keeps_text: bool,
    /// The parsed documents of that time that the comparison needs.
    pub(crate) readings: BTreeMap<FileId, Arc<Reading>>,
}

impl Earlier {
    /// A session as a baseline.
    pub(crate) fn session(past: &Past) -> Earlier {
        let files = past.files.iter().filter(|it| it.problem.is_empty()).map(|it| (it.file, it.clone()));
        Earlier {
            name: format!("session {}", past.session),
            files: files.collect(),
            has_metadata: true,
            keeps_text: !past.metadata_only,
            readings: BTreeMap::new(),
        }
    }

    /// A result as a baseline, with its documents.
    pub(crate) fn result(id: &str, files: BTreeMap<FileId, SessionFile>) -> Earlier {
        Earlier { name: format!("result {id}"), files, keeps_text: true, ..Earlier::default() }
    }

    /// The baseline as a loaded view.
    fn corpus(&self) -> Corpus {
        let paper = |it: &SessionFile| {
            let reading = self.readings.get(&it.file)?.clone();
            Some(Paper {
                file: it.file,
                path: it.path.clone(),
                modified_ns: it.modified_ns,
                size: it.size,
                hash: it.hash?,
                reading,
            })
        };
        let mut corpus = Corpus { papers: self.files.values().filter_map(paper).collect(), ..Corpus::default() };
        corpus.sort();
        corpus
    }
}

/// Returns whether a document changed: by content hash, or by size and modification time if no hash is known.
pub(crate) fn differs(paper: &Paper, before: &SessionFile) -> bool {
    match before.hash {
        Some(hash) => hash != paper.hash,
        None => (before.size, before.modified_ns) != (paper.size, paper.modified_ns),
    }
}

/// Runs DELTA. `earlier` is the named baseline, the newest session before `since`, or the last one with the watched file.
pub(crate) fn run(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Outcome<Answer> {
    if request.has("watch") {
        return field_diff::run(request, corpus, earlier);
    }
    if request.text("only") == Some("new-contradictions") {
        return Ok(new_contradictions(request, corpus, earlier));
    }
    match request.text("since").and_then(dates::moment) {
        Some(since) => Ok(since_moment(request, corpus, earlier, since)),
        None => Ok(since_baseline(request, corpus, earlier)),
    }
}

fn since_moment(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>, since: i64) -> Answer {
    let mut answer =
        Answer::new("files changed at or after the moment; added and removed by the last session before it");
    answer.parameter("since", request.text("since").unwrap_or_default());
    let recent: Vec<&Paper> = corpus.papers.iter().filter(|it| it.modified_ns >= since).collect();
    let Some(earlier) = earlier else {
        let modified = recent.iter().map(|it| entry(it)).collect();
        answer.unknown(
            Unknown::new("added_or_modified_and_removals", recent.len())
                .detail("no session is older than the moment; INGEST makes one"),
        );
        answer.confidence = 0.6;
        return finish(request, corpus, answer, [Vec::new(), Vec::new(), modified]);
    };
    answer.parameter("compared_with", earlier.name.as_str());
    let recent: BTreeSet<FileId> = recent.into_iter().map(|it| it.file).collect();
    let mut lists = differences(corpus, earlier, &mut answer);
    lists[0].retain(|it| it["file"].as_i64().is_some_and(|it| recent.contains(&it)));
    note_lost(&mut answer, &lists[2]);
    finish(request, corpus, answer, lists)
}

fn since_baseline(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Answer {
    let mut answer = Answer::new("files and contents of the baseline against those of now");
    let lists = earlier.map(|it| differences(corpus, it, &mut answer)).unwrap_or_default();
    if let Some(earlier) = earlier {
        answer.parameter("baseline", earlier.name.as_str());
    }
    note_lost(&mut answer, &lists[2]);
    finish(request, corpus, answer, lists)
}

/// The added, removed and modified files.
fn differences(corpus: &Corpus, earlier: &Earlier, answer: &mut Answer) -> [Vec<Value>; 3] {
    let (until, mut coarse) = (Instant::now() + compare::PATIENCE, Vec::new());
    let there: BTreeSet<FileId> =
        corpus.papers.iter().map(|it| it.file).chain(corpus.unread.iter().map(|it| it.file)).collect();
    let gone: Vec<&SessionFile> = earlier.files.values().filter(|it| !there.contains(&it.file)).collect();
    let by_content: HashMap<_, &str> = gone.iter().filter_map(|it| Some((it.hash?, it.path.as_str()))).collect();
    let (mut added, mut modified) = (Vec::new(), Vec::new());
    for paper in &corpus.papers {
        match earlier.files.get(&paper.file) {
            None => {
                let mut shown = entry(paper);
                if let Some(from) = by_content.get(&paper.hash) {
                    shown["same_content_as_removed"] = json!(from);
                }
                added.push(shown);
            }
            Some(before) if differs(paper, before) => {
                let (shown, is_coarse) = modified_entry(paper, before, earlier, until);
                coarse.extend(is_coarse.then_some(paper.file));
                modified.push(shown);
            }
            // The same content under another path: only the name changed.
            Some(before) if before.path != paper.path => {
                let mut shown = entry(paper);
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
        compare::note_coarse(answer, &coarse);
    }
    [added, gone, modified]
}

/// Reports modified files without stored earlier content.
fn note_lost(answer: &mut Answer, modified: &[Value]) {
    let lost = modified.iter().filter(|it| it.get("changes").is_none());
    let lost: Vec<FileId> = lost.filter_map(|it| it["file"].as_i64()).collect();
    if !lost.is_empty() {
        answer.unknown(
            Unknown::new("earlier_content_not_kept", lost.len()).files(&lost).detail("sessions in mode full keep it"),
        );
    }
}

fn finish(request: &Request, corpus: &Corpus, mut answer: Answer, lists: [Vec<Value>; 3]) -> Answer {
    if corpus.total() == 0 {
        // An empty view is fully known.
        answer.coverage = Some(1.0);
    }
    let names = ["added", "removed", "modified"];
    let only = request.text("only");
    let counts: Vec<usize> = lists.iter().map(Vec::len).collect();
    let named: BTreeSet<FileId> = lists.iter().flatten().filter_map(|it| it["file"].as_i64()).collect();
    for paper in &corpus.papers {
        answer.evidence(paper, usize::from(named.contains(&paper.file)));
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

fn entry(paper: &Paper) -> Value {
    json!({"file": paper.file, "path": paper.path})
}

/// A modified document, and whether its diff was cut by the time limit.
fn modified_entry(paper: &Paper, before: &SessionFile, earlier: &Earlier, until: Instant) -> (Value, bool) {
    let (mut shown, mut is_coarse) = (entry(paper), false);
    if before.path != paper.path {
        shown["moved_from"] = json!(before.path);
    }
    if before.size != paper.size {
        shown["size"] = json!([before.size, paper.size]);
    }
    if let Some(old) = earlier.readings.get(&before.file) {
        let Changes { list: changes, is_coarse: given_up } =
            compare::changes(&old.passages, &paper.reading.passages, until);
        is_coarse = given_up;
        let sections: BTreeSet<&str> =
            changes.iter().filter_map(|it| it["section"].as_str()).filter(|it| !it.is_empty()).collect();
        shown["sections"] = json!(sections);
        shown["changes"] = json!(changes.len());
    }
    (shown, is_coarse)
}

/// The statements of a state, by field and topic.
fn topics(corpus: &Corpus) -> Vec<(&'static str, Topic)> {
    let of = |field: &'static str| {
        statements::topics(statements::find(corpus, field)).into_iter().map(move |it| (field, it))
    };
    FIELDS.into_iter().flat_map(of).collect()
}

/// Contradictions by the wording of both sides, in either order.
struct Wordings<'t> {
    found: BTreeMap<[&'t str; 2], (&'static str, Contradiction<'t>)>,
    /// Number of pairs with other wordings beyond the limit.
    left_out: usize,
}

/// Collects at most `most` contradictions with different wordings.
fn contradictions<'t>(topics: &'t [(&'static str, Topic)], most: usize) -> Wordings<'t> {
    let mut wordings = Wordings { found: BTreeMap::new(), left_out: 0 };
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

fn new_contradictions(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Answer {
    let mut answer = Answer::new("current contradictions without those of the baseline, by their wording");
    let (then, now) = (earlier.map(|it| topics(&it.corpus())).unwrap_or_default(), topics(corpus));
    let (before, of_now) = (contradictions(&then, MOST_WORDINGS), contradictions(&now, MOST_WORDINGS));
    statements::note_left_out(&mut answer, then.iter().chain(&now).map(|it| &it.1));
    let lost: BTreeSet<FileId> = earlier
        .into_iter()
        .flat_map(|it| it.files.keys().filter(|file| !it.readings.contains_key(file)))
        .copied()
        .collect();
    let resolved = before.found.keys().filter(|it| !of_now.found.contains_key(*it)).count();
    let is_lost =
        |(_, pair): &(&str, Contradiction<'_>)| [pair.one, pair.other].iter().any(|it| lost.contains(&it.file));
    // If the earlier text of a side is not stored, it is unknown whether the contradiction is new.
    let (open, new): (Vec<_>, Vec<_>) =
        of_now.found.into_iter().filter(|it| !before.found.contains_key(&it.0)).map(|it| it.1).partition(is_lost);
    if !lost.is_empty() {
        let files: Vec<FileId> = lost.iter().copied().collect();
        answer.unknown(
            Unknown::new("earlier_content_not_kept", lost.len()).files(&files).detail("sessions in mode full keep it"),
        );
    }
    if !open.is_empty() {
        answer.unknown(Unknown::new("new_or_old_contradictions", open.len()));
    }
    let left_out = before.left_out + of_now.left_out;
    if left_out > 0 {
        let detail = format!("of each state the first {MOST_WORDINGS} are compared; name a smaller view");
        answer.unknown(Unknown::new("contradictions_not_compared", left_out).detail(detail));
    }
    answer.confidence = if lost.is_empty() && left_out == 0 { 0.8 } else { 0.5 };
    let mut taking: HashMap<FileId, usize> = HashMap::new();
    for side in new.iter().flat_map(|(_, pair)| [pair.one, pair.other]) {
        *taking.entry(side.file).or_default() += 1;
    }
    for paper in &corpus.papers {
        answer.evidence(paper, taking.get(&paper.file).copied().unwrap_or(0));
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
        let topics = topics(&corpus);
        let all = contradictions(&topics, 1_000);
        // Ten by ten between `a` and `b`, and the pairs within `a` and `c` that differ: 45 wordings.
        assert_eq!((all.found.len(), all.left_out), (145, 0));
        let some = contradictions(&topics, 100);
        assert_eq!(some.found.len(), 100);
        assert!(some.left_out >= 45 && some.found.keys().all(|it| all.found.contains_key(it)));
    }
}
