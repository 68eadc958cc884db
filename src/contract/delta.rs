//! DELTA: what was added, removed and modified, and nothing that stayed the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::contract::answer::{Answer, Unknown};
use crate::contract::claims;
use crate::contract::compare;
use crate::contract::corpus::{Corpus, Paper};
use crate::contract::dates;
use crate::contract::reading::Reading;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::validate::Request;
use crate::model::{ContentHash, FileId};

/// Fields whose contradictions count as new ones.
const FIELDS: [&str; 4] = ["recommendation", "best-practice", "conclusion", "requirement"];

/// An earlier state: a session, with what is left of what was read then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    pub(crate) session: i64,
    pub(crate) files: Vec<SessionFile>,
    pub(crate) readings: BTreeMap<ContentHash, Arc<Reading>>,
}

impl Earlier {
    fn file(&self, file: FileId) -> Option<&SessionFile> {
        self.files.iter().find(|it| it.file == file && it.problem.is_empty())
    }

    fn reading(&self, file: &SessionFile) -> Option<&Arc<Reading>> {
        file.hash.and_then(|it| self.readings.get(&it))
    }

    /// The session as a view that was read.
    fn corpus(&self) -> Corpus {
        let paper = |it: &SessionFile| {
            let reading = self.reading(it)?.clone();
            Some(Paper {
                file: it.file,
                path: it.path.clone(),
                modified_ns: it.modified_ns,
                size: it.size,
                hash: it.hash?,
                reading,
            })
        };
        Corpus { papers: self.files.iter().filter_map(paper).collect(), ..Corpus::default() }
    }
}

/// The verb. `earlier` is the baseline, or the newest session before `since`, or the last one that knew the watched file.
pub(crate) fn run(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Outcome<Answer> {
    if let Some(watched) = request.fields.get("watch") {
        return watch(request, corpus.paper(watched, "watch")?, earlier);
    }
    if request.text("only") == Some("new-contradictions") {
        return Ok(new_contradictions(request, corpus, earlier));
    }
    match request.text("since").and_then(dates::moment) {
        Some(since) => Ok(since_moment(request, corpus, earlier, since)),
        None => Ok(since_session(request, corpus, earlier)),
    }
}

fn since_moment(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>, since: i64) -> Answer {
    let mut answer =
        Answer::new("files changed at or after the moment; added and removed by the last session before it");
    answer.parameter("since", request.text("since").unwrap_or_default());
    let recent: Vec<&Paper> = corpus.papers.iter().filter(|it| it.modified_ns >= since).collect();
    let (mut added, mut modified, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    match earlier {
        Some(earlier) => {
            answer.parameter("compared_with_session", earlier.session);
            for paper in corpus.papers.iter() {
                match earlier.file(paper.file) {
                    None if recent.iter().any(|it| it.file == paper.file) => added.push(entry(paper)),
                    Some(before) if before.hash != Some(paper.hash) => {
                        modified.push(modified_entry(paper, before, earlier));
                    }
                    _ => {}
                }
            }
            removed = gone(corpus, earlier);
        }
        None => {
            modified = recent.iter().map(|it| entry(it)).collect();
            answer.unknown(
                Unknown::new("added_or_modified_and_removals", recent.len())
                    .detail("no session is older than the moment; INGEST makes one"),
            );
        }
    }
    answer.confidence = if earlier.is_some() { 1.0 } else { 0.6 };
    finish(request, corpus, answer, [added, removed, modified])
}

fn since_session(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Answer {
    let mut answer = Answer::new("files and contents of a session against those of now");
    let (mut added, mut modified) = (Vec::new(), Vec::new());
    let mut removed = Vec::new();
    if let Some(earlier) = earlier {
        answer.parameter("baseline", earlier.session);
        for paper in &corpus.papers {
            match earlier.file(paper.file) {
                None => added.push(entry(paper)),
                Some(before) if before.hash != Some(paper.hash) => {
                    modified.push(modified_entry(paper, before, earlier));
                }
                Some(_) => {}
            }
        }
        removed = gone(corpus, earlier);
    }
    let unread = modified.iter().filter(|it| it.get("changes").is_none()).count();
    if unread > 0 {
        answer.unknown(Unknown::new("earlier_content_not_kept", unread).detail("sessions in mode full keep it"));
    }
    finish(request, corpus, answer, [added, removed, modified])
}

fn finish(request: &Request, corpus: &Corpus, mut answer: Answer, lists: [Vec<Value>; 3]) -> Answer {
    let names = ["added", "removed", "modified"];
    let only = request.text("only");
    let counts: Vec<usize> = lists.iter().map(Vec::len).collect();
    let mut data = json!({"counts": {"added": counts[0], "removed": counts[1], "modified": counts[2]}});
    for (name, list) in names.into_iter().zip(lists) {
        for paper in &corpus.papers {
            answer.evidence(paper, list.iter().filter(|it| it["file"] == paper.file).count());
        }
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

fn gone(corpus: &Corpus, earlier: &Earlier) -> Vec<Value> {
    let is_there =
        |file: FileId| corpus.papers.iter().any(|it| it.file == file) || corpus.unread.iter().any(|it| it.file == file);
    let gone = earlier.files.iter().filter(|it| it.problem.is_empty() && !is_there(it.file));
    gone.map(|it| json!({"file": it.file, "path": it.path})).collect()
}

fn modified_entry(paper: &Paper, before: &SessionFile, earlier: &Earlier) -> Value {
    let mut shown = entry(paper);
    if let Some(old) = earlier.reading(before) {
        let changes = compare::changes(&old.passages, &paper.reading.passages);
        let mut sections: Vec<&str> =
            changes.iter().filter_map(|it| it["section"].as_str()).filter(|it| !it.is_empty()).collect();
        sections.dedup();
        shown["sections"] = json!(sections);
        shown["changes"] = json!(changes.len());
    }
    shown
}

fn contradictions(corpus: &Corpus) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for field in FIELDS {
        for topic in claims::topics(claims::find(corpus, field)) {
            for (one, other, why) in topic.contradictions() {
                let key = format!("{}\n{}", one.text, other.text);
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
    let new: Vec<Value> =
        contradictions(corpus).into_iter().filter(|it| !before.contains_key(&it.0)).map(|it| it.1).collect();
    let lost = earlier.map_or(0, |it| it.files.iter().filter(|file| it.reading(file).is_none()).count());
    if lost > 0 {
        answer.unknown(Unknown::new("earlier_content_not_kept", lost).detail("sessions in mode full keep it"));
    }
    answer.confidence = if lost == 0 { 0.8 } else { 0.5 };
    for paper in &corpus.papers {
        answer.evidence(
            paper,
            new.iter().filter(|it| it["a"]["file"] == paper.file || it["b"]["file"] == paper.file).count(),
        );
    }
    let count = new.len();
    let page = answer.page(request, new);
    answer.data = json!({"count": count, "new_contradictions": page});
    answer
}

/// One field of one file, now and then.
fn watch(request: &Request, paper: &Paper, earlier: Option<&Earlier>) -> Outcome<Answer> {
    let field = request.text("field").unwrap_or("content");
    let found = earlier.and_then(|it| Some((it, it.file(paper.file)?)));
    let Some((earlier, before)) = found else {
        return Err(Refusal::new(Cause::UnknownSession, "no session knows an earlier state of the file")
            .field("watch")
            .action("INGEST the file; DELTA then compares with that session"));
    };
    let mut answer = Answer::new("one field of a file against the last session that knew it");
    answer.parameter("session", earlier.session);
    answer.evidence(paper, 1);
    let changed = before.hash != Some(paper.hash);
    let mut data = json!({"file": paper.file, "field": field});
    match (field, earlier.reading(before)) {
        ("size", _) => (data["before"], data["after"]) = (json!(before.size), json!(paper.size)),
        ("modified", _) => {
            (data["before"], data["after"]) =
                (json!(dates::day_of(before.modified_ns)), json!(dates::day_of(paper.modified_ns)));
        }
        ("content", Some(old)) => {
            let changes = compare::changes(&old.passages, &paper.reading.passages);
            data["changes"] = Value::Array(answer.page(request, changes));
        }
        (_, Some(old)) => {
            let (old, new) = (listed(old, field), listed(&paper.reading, field));
            let only = |one: &[String], other: &[String]| {
                one.iter().filter(|it| !other.contains(it)).map(|it| json!(it)).collect::<Vec<_>>()
            };
            data["added"] = Value::Array(answer.page(request, only(&new, &old)));
            data["removed"] = Value::Array(answer.page(request, only(&old, &new)));
        }
        (_, None) if !changed => {}
        (_, None) => {
            answer.unknown(
                Unknown::new("earlier_content_not_kept", 1)
                    .files(&[paper.file])
                    .detail("sessions in mode full keep it"),
            );
            answer.confidence = 0.5;
        }
    }
    data["changed"] = match field {
        "size" => json!(before.size != paper.size),
        "modified" => json!(before.modified_ns != paper.modified_ns),
        _ => json!(changed),
    };
    answer.data = data;
    Ok(answer)
}

fn listed(reading: &Reading, field: &str) -> Vec<String> {
    let schema = match field {
        "headings" => return reading.headings().map(|it| it.text.clone()).collect(),
        "tables" => "Table",
        "code" => "Code",
        _ => "Reference",
    };
    let shown = |it: &crate::contract::extract::Object| Value::Object(it.fields.clone()).to_string();
    reading.objects.get(schema).into_iter().flatten().map(shown).collect()
}
