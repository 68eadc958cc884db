//! The part of each file that is shown: the window around the unit that answers best, over all passages of the file; of the
//! first file up to three, where they lie apart. Pure.

use serde_json::{Map, Value, json};

use crate::ask::answer::candidates::Candidate;
use crate::ask::excerpt;
use crate::ask::hit::{self, Found, Passage};

/// Windows of the first file.
const WINDOWS: usize = 3;
/// A further window holds a unit with a score at most this far below the best.
const BESIDE: f32 = 2.0;
/// A hit with less than this part of the score of the first is marked as weak.
const WEAK: f64 = 0.5;

/// Puts the windows into the hits; `candidates` are in order.
pub(super) fn show(candidates: &[Candidate], hits: &mut [Found]) {
    mark_weak(hits);
    for (number, found) in hits.iter_mut().enumerate() {
        let own: Vec<&Candidate> = candidates.iter().filter(|it| it.hit == number).collect();
        let Some(evidence) = found.evidence.as_deref_mut() else { continue };
        let Some(best) = own.first() else { continue };
        let Some(passage) = evidence.passages.get(best.passage).cloned() else { continue };
        let anchor = passage.chunk.anchor_of(range(best, &passage));
        found.hit.excerpt = text(best, &passage);
        found.hit.metadata.insert("anchor".into(), json!(anchor));
        found.hit.metadata.insert("chunk_ids".into(), json!([passage.chunk.id.0]));
        found.hit.path = hit::shown_path(&found.record, anchor.member.as_deref());
        if passage.chunk.id != evidence.chunk.id {
            tell_passage(&mut found.hit.metadata, &passage);
        }
        if number == 0 {
            let further = further(&own, &evidence.passages);
            if !further.is_empty() {
                found.hit.metadata.insert("windows".into(), Value::Array(further));
            }
        }
        (evidence.chunk, evidence.anchor) = (passage.chunk, anchor);
    }
}

/// What the metadata says of the passage that is shown. It was not read again in the file.
fn tell_passage(metadata: &mut Map<String, Value>, passage: &Passage) {
    metadata.insert("chunk_tier".into(), json!(passage.chunk.tier.name()));
    match passage.chunk.heading_path.as_slice() {
        [] => metadata.remove("heading_path"),
        headings => metadata.insert("heading_path".into(), json!(headings)),
    };
    if metadata.get("citation") == Some(&json!("verified")) {
        metadata.insert("citation".into(), json!("unchanged"));
    }
}

fn mark_weak(hits: &mut [Found]) {
    let Some(first) = hits.first().map(|it| it.hit.score) else { return };
    for found in hits.iter_mut().filter(|it| it.hit.score < WEAK * first) {
        found.hit.metadata.insert("weak".into(), json!(true));
    }
}

/// Further windows of a file, of units that no window before them shows.
fn further(own: &[&Candidate], passages: &[Passage]) -> Vec<Value> {
    let Some(best) = own.first() else { return Vec::new() };
    let shown_of = |it: &Candidate| passages.get(it.passage).map_or(0..0, |passage| range(it, passage));
    let mut shown = vec![(best.passage, shown_of(best))];
    let mut windows = Vec::new();
    for candidate in own.iter().skip(1).take_while(|it| it.score >= best.score - BESIDE) {
        if windows.len() + 1 == WINDOWS {
            break;
        }
        let start = candidate.unit.range.start;
        let is_shown = shown.iter().any(|(passage, range)| *passage == candidate.passage && range.contains(&start));
        let Some(passage) = passages.get(candidate.passage).filter(|_| !is_shown) else { continue };
        shown.push((candidate.passage, shown_of(candidate)));
        let anchor = passage.chunk.anchor_of(range(candidate, passage));
        windows.push(json!({ "excerpt": text(candidate, passage), "place": anchor.place(), "anchor": anchor }));
    }
    windows
}

/// The bytes of the body that are shown around a unit, all on its page.
fn range(candidate: &Candidate, passage: &Passage) -> std::ops::Range<usize> {
    let (body, at) = (passage.chunk.body(), candidate.unit.range.start);
    let page = passage.chunk.page_around(at);
    let shown = excerpt::excerpt_at(&body[page.clone()], at - page.start);
    page.start + shown.start..page.start + shown.end
}

/// The window of a unit; a row comes below the heads of its table.
fn text(candidate: &Candidate, passage: &Passage) -> String {
    let body = passage.chunk.body();
    let range = range(candidate, passage);
    let head = candidate.unit.head.clone().filter(|it| it.end <= range.start).map(|it| &body[it]);
    let window = body[range].trim();
    head.map_or(window.to_string(), |it| format!("{it}\n{window}"))
}
