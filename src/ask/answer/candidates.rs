//! Collects the units (sentences, table rows etc.) of the best hits as candidates for an answer. Scores all units by their
//! words, then the best units also by their cosine.

use std::ops::Range;
use std::time::Duration;

use crate::ask::answer::cosine_scale::CosineScale;
use crate::ask::answer::features::{Features, ParsedQuestion, UnitContext, WordMatch};
use crate::ask::answer::units::{self, Unit, UnitForm};
use crate::ask::answer::{features, scoring, value_check};
use crate::ask::hit::{Passage, RankedHit};
use crate::ask::stop_words;
use crate::embed::Embedder;
use crate::model::Tier;

/// Number of best hits whose passages may provide an answer.
const MAX_HITS: usize = 4;
/// Maximum number of text units to embed, and of words in all of these units, because embedding can take half of the time
/// of an answer. Further units are dropped.
const MAX_EMBEDDED_UNITS: usize = 16;
const MAX_EMBEDDED_WORDS: usize = 300;
/// Maximum number of words of one unit that are embedded; the rest of the unit is cut off.
const MAX_UNIT_WORDS: usize = 90;
/// Bonus of a unit that contains the whole question verbatim. It is multiplied by the fourth power of the fraction of the
/// question that the unit contains, because half of a question proves little.
const VERBATIM_BONUS: f32 = 4.0;
/// Bonus for text that a skill (e.g. OCR) found, if the hit shows it.
const EVIDENCE_BONUS: f32 = 4.0;
/// Maximum number of characters of a quote of text that a skill found (a form or table); longer text is cut.
const MAX_EVIDENCE_CHARS: usize = 300;
/// Maximum difference of score at which a unit of an earlier hit is preferred, in a question for the newest or oldest file.
const MAX_GAP_IN_DATE_ORDER: f32 = 1.5;
/// Maximum wait for the vectors of the text units; after that, the units keep the order that their words give.
const EMBED_TIMEOUT: Duration = Duration::from_millis(1_500);

/// A text unit (sentence, list item, table row etc.) of a passage that may answer the question.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Index of the hit that the text unit is from.
    pub(super) hit: usize,
    /// Index of the passage that the text unit is from, among the passages of the hit.
    pub(super) passage: usize,
    pub(super) unit: Unit,
    /// Byte range of the previous unit, if this unit is a sentence that begins with a pronoun: it may refer to that unit.
    before: Option<Range<usize>>,
    /// The text unit as it is quoted in an answer.
    pub(super) text: String,
    /// Bit mask of the question's content words that are in the file or its path.
    pub(super) known_words: u64,
    pub(super) features: Features,
    pub(super) has_cosine: bool,
    /// Part of the score: `VERBATIM_BONUS` for words of the question verbatim, and `EVIDENCE_BONUS`.
    pub(super) bonus: f32,
    /// Sum of weighted features and bonus; comparable among the units of one question.
    pub(super) score: f32,
}

/// A passage of a hit, split into units and compared with the question.
struct ComparedPassage<'a> {
    hit: usize,
    place: usize,
    passage: &'a Passage,
    units: Vec<Unit>,
    texts: Vec<String>,
    word_matches: Vec<WordMatch>,
    whole: WordMatch,
    is_shown_evidence: bool,
}

/// Returns all text units of the best hits, best first, scored without embedding them.
pub(super) fn rank_by_words(asked: &ParsedQuestion, hits: &[RankedHit]) -> Vec<Candidate> {
    let mut compared = Vec::new();
    for (hit, found) in hits.iter().enumerate().take(MAX_HITS) {
        let Some(evidence) = &found.evidence else { continue };
        for (place, passage) in evidence.passages.iter().enumerate() {
            let is_looked_for = passage.chunk.tier == Tier::L2 && passage.chunk.id == evidence.chunk.id;
            compared.push(ComparedPassage {
                is_shown_evidence: is_looked_for,
                ..compare_passage(asked, (hit, place), passage)
            });
        }
    }
    let asked = asked.weighted_among(compared.iter().flat_map(|it| &it.word_matches));
    let mut candidates = Vec::new();
    for of_hit in compared.chunk_by(|a, b| a.hit == b.hit) {
        let path = hits[of_hit[0].hit].record.found.path.to_string_lossy();
        let file = of_hit.iter().fold(asked.match_text(&path), |all, it| all.union(it.whole));
        for passage in of_hit {
            let cosine = passage.passage.nearness.unwrap_or(0.0);
            add_candidates(&asked, passage, cosine, file, &mut candidates);
        }
    }
    sort_by_score(&mut candidates);
    candidates
}

fn compare_passage<'a>(
    asked: &ParsedQuestion,
    (hit, place): (usize, usize),
    passage: &'a Passage,
) -> ComparedPassage<'a> {
    let body = passage.chunk.body();
    let (units, texts) = match passage.chunk.tier {
        Tier::L2 => (vec![units::whole_unit(body)], vec![evidence_text(body)]),
        _ => {
            let units = units::split_units(body);
            let texts: Vec<String> = units.iter().map(|it| quote_text(body, it)).collect();
            (units, texts)
        }
    };
    let held = texts.iter().map(|it| asked.match_text(it)).collect();
    let whole = asked.match_text(&passage.chunk.text);
    ComparedPassage { hit, place, passage, units, texts, word_matches: held, whole, is_shown_evidence: false }
}

fn add_candidates(
    asked: &ParsedQuestion,
    compared: &ComparedPassage<'_>,
    passage_cosine: f32,
    file: WordMatch,
    candidates: &mut Vec<Candidate>,
) {
    let ComparedPassage { hit, place, passage, texts, word_matches: held, .. } = compared;
    let body = passage.chunk.body();
    let lines_above = &passage.chunk.text[..passage.chunk.body_start as usize];
    for (index, unit) in compared.units.iter().enumerate() {
        let text = &texts[index];
        if cannot_answer(asked, compared, index) {
            continue;
        }
        let beside = [index.checked_sub(1), Some(index + 1)];
        let beside = beside.into_iter().flatten().filter_map(|it| held.get(it));
        let context = UnitContext {
            above: asked.match_text(&features::heading_context(lines_above, body, unit.heading.as_ref())),
            beside: beside.fold(WordMatch::default(), |all, it| all.union(*it)),
            passage: compared.whole,
            file,
            passage_cosine,
            passage_score: passage.score,
            hit: *hit,
        };
        let numbers = asked.features(unit, text, held[index], &context);
        let looked_for = if compared.is_shown_evidence { EVIDENCE_BONUS } else { 0.0 };
        let bonus = VERBATIM_BONUS * asked.verbatim_share(text).powi(4) + looked_for;
        candidates.push(Candidate {
            hit: *hit,
            passage: *place,
            unit: unit.clone(),
            before: sentence_before(body, &compared.units, index),
            text: text.clone(),
            known_words: file.words,
            features: numbers,
            has_cosine: false,
            bonus,
            score: scoring::unit_score(&numbers, false) + bonus,
        });
    }
}

/// Returns the byte range of the unit before a sentence that begins with a pronoun; the pronoun may refer to it.
fn sentence_before(body: &str, units: &[Unit], index: usize) -> Option<Range<usize>> {
    let first = body[units[index].range.clone()].split(|it: char| !it.is_alphabetic()).next()?.to_lowercase();
    let before = units.get(index.checked_sub(1)?)?;
    (units[index].form == UnitForm::Sentence && stop_words::is_pronoun(&first)).then(|| before.range.clone())
}

/// Returns whether a unit cannot be an answer: it is a question, a title, a heading, a page number, or the subject of a mail
/// that the question does not ask for.
fn cannot_answer(asked: &ParsedQuestion, compared: &ComparedPassage<'_>, index: usize) -> bool {
    let (unit, text, passage) = (&compared.units[index], &compared.texts[index], compared.passage);
    let is_question = text.ends_with(['?', '\u{ff1f}', '\u{61f}']);
    let is_field_behind = compared.units.get(index + 1).is_some_and(|it| it.form == UnitForm::Field);
    let may_be_title = unit.form == UnitForm::Fragment || (unit.form == UnitForm::Field && !is_field_behind);
    // `len() > 1` excludes text that a skill found, which is always a single unit and never a title.
    let is_first = index == 0 && passage.chunk.ordinal == 0 && compared.units.len() > 1;
    let is_heading = passage.chunk.heading_path.iter().any(|it| it == text);
    let is_title = (is_first && may_be_title) || asked.is_unrequested_title(unit, text);
    is_question || is_title || is_heading || (unit.form == UnitForm::Fragment && value_check::is_page_number(text))
}

/// Joins the lines of text that a skill found into one, because the lines of a form, a table or a signature belong
/// together.
fn evidence_text(body: &str) -> String {
    let lines = body.lines().map(|it| it.trim_matches(|it: char| it.is_whitespace() || it == '_'));
    let whole = lines.filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; ");
    let end = whole.char_indices().nth(MAX_EVIDENCE_CHARS).map_or(whole.len(), |(at, _)| at);
    whole[..end].to_string()
}

/// Returns a text unit as a quote on one line: a table row with its column names, all other units verbatim.
fn quote_text(body: &str, unit: &Unit) -> String {
    let text = &body[unit.range.clone()];
    let text = match unit.form {
        units::UnitForm::Row => units::row_with_heads(unit.head.clone().map(|it| &body[it]), text),
        _ => text.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Embeds the best text units, drops the others, and sorts by the new scores. Keeps the order if the vectors are late.
pub(super) async fn rerank_by_meaning(
    embedder: &dyn Embedder,
    vector: &[f32],
    scale: CosineScale,
    hits: &[RankedHit],
    candidates: &mut Vec<Candidate>,
) {
    let texts = embedded_texts(hits, candidates);
    candidates.truncate(texts.len());
    match tokio::time::timeout(EMBED_TIMEOUT, embedder.embed_urgent(&texts)).await {
        Ok(Ok(vectors)) => {
            for (candidate, unit) in candidates.iter_mut().zip(&vectors) {
                candidate.features[0] = scale.nearness(vector.iter().zip(unit).map(|(a, b)| a * b).sum());
                candidate.has_cosine = true;
                candidate.score = scoring::unit_score(&candidate.features, true) + candidate.bonus;
            }
            sort_by_score(candidates);
        }
        Ok(Err(error)) => tracing::debug!("cannot embed the units of an answer: {error}"),
        Err(_) => tracing::debug!("embedding the units of an answer timed out"),
    }
}

/// Returns the texts to embed for the best units, up to the limits: each unit after its nearest heading and the sentence
/// that its pronoun may refer to.
fn embedded_texts(hits: &[RankedHit], candidates: &[Candidate]) -> Vec<String> {
    let mut words = 0;
    let mut texts = Vec::new();
    for candidate in candidates.iter().take(MAX_EMBEDDED_UNITS) {
        let evidence = hits[candidate.hit].evidence.as_ref();
        let Some(passage) = evidence.and_then(|it| it.passages.get(candidate.passage)) else { break };
        let body = passage.chunk.body();
        let inner = candidate.unit.heading.clone().map(|it| &body[it]);
        let heading = inner.or_else(|| passage.chunk.heading_path.last().map(String::as_str)).unwrap_or_default();
        let before = candidate.before.clone().map_or("", |it| &body[it]);
        let text = [heading, before, &candidate.text].into_iter().flat_map(str::split_whitespace);
        let text: Vec<&str> = text.take(MAX_UNIT_WORDS).collect();
        words += text.len();
        if words > MAX_EMBEDDED_WORDS && !texts.is_empty() {
            break;
        }
        texts.push(text.join(" "));
    }
    texts
}

/// Keeps the units of one hit: the first one with a unit that is nearly as good as the best. The hits of a question for the
/// newest or oldest file are in that order, so units of later hits would contradict it.
pub(super) fn keep_first_hit(candidates: &mut Vec<Candidate>) {
    let Some(best) = candidates.first().map(|it| it.score) else { return };
    let near = candidates.iter().filter(|it| it.score >= best - MAX_GAP_IN_DATE_ORDER);
    let first = near.map(|it| it.hit).min().unwrap_or_default();
    candidates.retain(|it| it.hit == first);
}

fn sort_by_score(candidates: &mut [Candidate]) {
    // Uses a stable sort: among equal scores the better hit comes first, then the earlier unit.
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
}
