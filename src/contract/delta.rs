//! DELTA: what was added, removed and modified, and nothing that stayed the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::contract::answer::{Answer, Unknown};
use crate::contract::corpus::{Corpus, Paper};
use crate::contract::past::Past;
use crate::contract::reading::Reading;
use crate::contract::refusal::Outcome;
use crate::contract::validate::Request;
use crate::contract::{claims, compare, dates, watch};
use crate::model::FileId;

/// Fields whose contradictions count as new ones.
const FIELDS: [&str; 4] = ["recommendation", "best-practice", "conclusion", "requirement"];

/// An earlier state: a session or a result, with what is left of what was read then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    /// `session 4`, or `result r-…`.
    pub(crate) name: String,
    /// The files that could be read then.
    pub(crate) files: BTreeMap<FileId, SessionFile>,
    /// Whether their metadata are known as a session knows them: then a view can be asked which of them belonged to it.
    pub(crate) has_metadata: bool,
    /// Whether texts were kept at all.
    pub(crate) keeps_text: bool,
    /// Texts of then, as far as they are needed.
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

    /// A result as a baseline, with the documents that it was made of.
    pub(crate) fn result(id: &str, files: BTreeMap<FileId, SessionFile>) -> Earlier {
        Earlier { name: format!("result {id}"), files, keeps_text: true, ..Earlier::default() }
    }

    /// The earlier state as a view that was read.
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

/// Whether a document is another one than before. Where no content is known, its size and moment tell.
pub(crate) fn differs(paper: &Paper, before: &SessionFile) -> bool {
    match before.hash {
        Some(hash) => hash != paper.hash,
        None => (before.size, before.modified_ns) != (paper.size, paper.modified_ns),
    }
}

/// The verb. `earlier` is the baseline, or the newest session before `since`, or the last one that knew the watched file.
pub(crate) fn run(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Outcome<Answer> {
    if request.has("watch") {
        return watch::run(request, corpus, earlier);
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
    let mut lists = differences(corpus, earlier);
    lists[0].retain(|it| it["file"].as_i64().is_some_and(|it| recent.contains(&it)));
    note_lost(&mut answer, &lists[2]);
    finish(request, corpus, answer, lists)
}

fn since_baseline(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Answer {
    let mut answer = Answer::new("files and contents of the baseline against those of now");
    let lists = earlier.map(|it| differences(corpus, it)).unwrap_or_default();
    if let Some(earlier) = earlier {
        answer.parameter("baseline", earlier.name.as_str());
    }
    note_lost(&mut answer, &lists[2]);
    finish(request, corpus, answer, lists)
}

/// What was added, removed and modified.
fn differences(corpus: &Corpus, earlier: &Earlier) -> [Vec<Value>; 3] {
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
            Some(before) if differs(paper, before) => modified.push(modified_entry(paper, before, earlier)),
            // The same content elsewhere: nothing of it changed but its name.
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
    [added, gone, modified]
}

/// Says of how many modified files nobody can say what changed in them.
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
        // That nothing is left is all there is to know.
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

fn modified_entry(paper: &Paper, before: &SessionFile, earlier: &Earlier) -> Value {
    let mut shown = entry(paper);
    if before.path != paper.path {
        shown["moved_from"] = json!(before.path);
    }
    if before.size != paper.size {
        shown["size"] = json!([before.size, paper.size]);
    }
    if let Some(old) = earlier.readings.get(&before.file) {
        let changes = compare::changes(&old.passages, &paper.reading.passages);
        let sections: BTreeSet<&str> =
            changes.iter().filter_map(|it| it["section"].as_str()).filter(|it| !it.is_empty()).collect();
        shown["sections"] = json!(sections);
        shown["changes"] = json!(changes.len());
    }
    shown
}

/// Contradictions by the wording of both sides, in whichever order they stand.
fn contradictions(corpus: &Corpus) -> BTreeMap<[String; 2], Value> {
    let mut found = BTreeMap::new();
    for field in FIELDS {
        for topic in claims::topics(claims::find(corpus, field)) {
            for (one, other, why) in topic.contradictions() {
                let mut key = [one.text.clone(), other.text.clone()];
                key.sort();
                let shown = json!({"field": field, "why": why, "a": one.value(), "b": other.value()});
                found.entry(key).or_insert(shown);
            }
        }
    }
    found
}

fn new_contradictions(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Answer {
    let mut answer = Answer::new("contradictions of now without those of the baseline, by their wording");
    let before = earlier.map(|it| contradictions(&it.corpus())).unwrap_or_default();
    let lost: BTreeSet<FileId> = earlier
        .into_iter()
        .flat_map(|it| it.files.keys().filter(|file| !it.readings.contains_key(file)))
        .copied()
        .collect();
    let of_now = contradictions(corpus);
    let resolved = before.keys().filter(|it| !of_now.contains_key(*it)).count();
    let is_lost =
        |it: &Value| ["a", "b"].iter().any(|side| it[side]["file"].as_i64().is_some_and(|it| lost.contains(&it)));
    // Where the earlier text of a side is gone, nobody can say whether it stood there before.
    let (open, new): (Vec<Value>, Vec<Value>) =
        of_now.into_iter().filter(|it| !before.contains_key(&it.0)).map(|it| it.1).partition(is_lost);
    if !lost.is_empty() {
        let files: Vec<FileId> = lost.iter().copied().collect();
        answer.unknown(
            Unknown::new("earlier_content_not_kept", lost.len()).files(&files).detail("sessions in mode full keep it"),
        );
    }
    if !open.is_empty() {
        answer.unknown(Unknown::new("new_or_old_contradictions", open.len()));
    }
    answer.confidence = if lost.is_empty() { 0.8 } else { 0.5 };
    for paper in &corpus.papers {
        answer.evidence(
            paper,
            new.iter().filter(|it| it["a"]["file"] == paper.file || it["b"]["file"] == paper.file).count(),
        );
    }
    let count = new.len();
    let page = answer.page(request, new);
    answer.data = json!({"count": count, "resolved": resolved, "undecided": open.len(), "new_contradictions": page});
    answer
}
