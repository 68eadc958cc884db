//! Selects the excerpt that each hit shows: the text around the unit that answers best, among all passages of the file. The
//! first hit has up to three excerpts that do not overlap. Pure functions.

use serde_json::{Map, Value, json};

use crate::ask::answer::candidates::Candidate;
use crate::ask::excerpt;
use crate::ask::hit::{self, Passage, RankedHit};

/// Maximum number of excerpts of the first hit.
const MAX_WINDOWS: usize = 3;
/// Further excerpts show units whose score is at most this much below the score of the best unit.
const MAX_SCORE_GAP: f32 = 2.0;
/// A hit with less than this fraction of the first hit's score gets `weak` in its metadata.
const WEAK_SCORE_SHARE: f64 = 0.5;

/// Sets the excerpts of the hits; `candidates` must be sorted, best first.
pub(super) fn show_windows(candidates: &[Candidate], hits: &mut [RankedHit]) {
    mark_weak(hits);
    for (number, found) in hits.iter_mut().enumerate() {
        let own: Vec<&Candidate> = candidates.iter().filter(|it| it.hit == number).collect();
        let Some(evidence) = found.evidence.as_deref_mut() else { continue };
        let Some(best) = own.first() else { continue };
        let Some(passage) = evidence.passages.get(best.passage).cloned() else { continue };
        let anchor = passage.chunk.body_anchor(window_range(best, &passage));
        found.hit.excerpt = window_text(best, &passage);
        found.hit.metadata.insert("anchor".into(), json!(anchor));
        found.hit.metadata.insert("chunk_ids".into(), json!([passage.chunk.id.0]));
        found.hit.path = hit::shown_path(&found.record, anchor.member.as_deref());
        if passage.chunk.id != evidence.chunk.id {
            update_passage_metadata(&mut found.hit.metadata, &passage);
        }
        if number == 0 {
            let further = further_windows(&own, &evidence.passages);
            if !further.is_empty() {
                found.hit.metadata.insert("windows".into(), Value::Array(further));
            }
        }
        (evidence.chunk, evidence.anchor) = (passage.chunk, anchor);
    }
}

/// Updates the metadata of a hit that now shows another passage. Changes `verified` to `unchanged`, because only the
/// former passage was compared with the file.
fn update_passage_metadata(metadata: &mut Map<String, Value>, passage: &Passage) {
    metadata.insert("chunk_tier".into(), json!(passage.chunk.tier.name()));
    match passage.chunk.heading_path.as_slice() {
        [] => metadata.remove("heading_path"),
        headings => metadata.insert("heading_path".into(), json!(headings)),
    };
    if metadata.get("citation") == Some(&json!("verified")) {
        metadata.insert("citation".into(), json!("unchanged"));
    }
}

fn mark_weak(hits: &mut [RankedHit]) {
    let Some(first) = hits.first().map(|it| it.hit.score) else { return };
    for found in hits.iter_mut().filter(|it| it.hit.score < WEAK_SCORE_SHARE * first) {
        found.hit.metadata.insert("weak".into(), json!(true));
    }
}

/// Returns further excerpts of a file, around text units that no excerpt shows yet.
fn further_windows(own: &[&Candidate], passages: &[Passage]) -> Vec<Value> {
    let Some(best) = own.first() else { return Vec::new() };
    let shown_of = |it: &Candidate| passages.get(it.passage).map_or(0..0, |passage| window_range(it, passage));
    let mut shown = vec![(best.passage, shown_of(best))];
    let mut windows = Vec::new();
    for candidate in own.iter().skip(1).take_while(|it| it.score >= best.score - MAX_SCORE_GAP) {
        if windows.len() + 1 == MAX_WINDOWS {
            break;
        }
        let start = candidate.unit.range.start;
        let is_shown = shown.iter().any(|(passage, range)| *passage == candidate.passage && range.contains(&start));
        let Some(passage) = passages.get(candidate.passage).filter(|_| !is_shown) else { continue };
        shown.push((candidate.passage, shown_of(candidate)));
        let anchor = passage.chunk.body_anchor(window_range(candidate, passage));
        windows.push(json!({ "excerpt": window_text(candidate, passage), "place": anchor.place(), "anchor": anchor }));
    }
    windows
}

/// Returns the byte range of the excerpt around a text unit; the excerpt does not cross pages.
fn window_range(candidate: &Candidate, passage: &Passage) -> std::ops::Range<usize> {
    let (body, at) = (passage.chunk.body(), candidate.unit.range.start);
    let page = passage.chunk.page_around(at);
    let shown = excerpt::excerpt_at(&body[page.clone()], at - page.start);
    page.start + shown.start..page.start + shown.end
}

/// Returns the excerpt around a text unit; for a table row, preceded by the header row of the table.
fn window_text(candidate: &Candidate, passage: &Passage) -> String {
    let body = passage.chunk.body();
    let range = window_range(candidate, passage);
    let head = candidate.unit.head.clone().filter(|it| it.end <= range.start).map(|it| &body[it]);
    let window = body[range].trim();
    head.map_or(window.to_string(), |it| format!("{it}\n{window}"))
}
