//! Collects the units of the best hits as answer candidates. Scores them by words first, and then the best of them by
//! meaning.

use std::ops::Range;
use std::time::Duration;

use crate::ask::answer::evidence::{self, Asked, Context, Held, Numbers};
use crate::ask::answer::scale::Scale;
use crate::ask::answer::units::{self, Form, Unit};
use crate::ask::answer::{value, weights};
use crate::ask::hit::{Found, Passage};
use crate::ask::stop_words;
use crate::embed::Embedder;
use crate::model::Tier;

/// Hits that may provide an answer.
const HITS: usize = 4;
/// Limits on units to embed and on their words in all: this step may take half of an answer's time.
const EMBEDDED: usize = 24;
const EMBEDDED_WORDS: usize = 560;
/// Words of one unit that are embedded.
const UNIT_WORDS: usize = 90;
/// Bonus of a unit that holds the question verbatim; to the fourth power, because half of it is little.
const VERBATIM: f32 = 4.0;
/// Bonus of evidence that is the shown passage of its file.
const LOOKED_FOR: f32 = 4.0;
/// Most characters of a form or table in a quote.
const FOUND_CHARS: usize = 300;
/// Longest wait for the vectors of the units. After it, words alone decide.
const WAIT: Duration = Duration::from_millis(1_500);

/// A unit of a hit.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Index of the hit.
    pub(super) hit: usize,
    /// Index of the passage in the hit.
    pub(super) passage: usize,
    pub(super) unit: Unit,
    /// The sentence before, if this one begins with a pronoun that refers to it.
    before: Option<Range<usize>>,
    /// The text of the quote.
    pub(super) text: String,
    /// The content words of the question in its file or path, one bit each.
    pub(super) known: u64,
    pub(super) numbers: Numbers,
    pub(super) has_cosine: bool,
    /// Added to the score: for the question verbatim, and for shown evidence from a skill.
    pub(super) bonus: f32,
    /// Score, comparable among the units of one question.
    pub(super) score: f32,
}

/// A passage of a hit, split into units and compared with the question.
struct Compared<'a> {
    hit: usize,
    place: usize,
    passage: &'a Passage,
    units: Vec<Unit>,
    texts: Vec<String>,
    held: Vec<Held>,
    whole: Held,
    is_looked_for: bool,
}

/// Returns all units of the best hits, best first by their words.
pub(super) fn by_words(asked: &Asked, hits: &[Found], scale: Option<Scale>) -> Vec<Candidate> {
    let mut compared = Vec::new();
    for (hit, found) in hits.iter().enumerate().take(HITS) {
        let Some(evidence) = &found.evidence else { continue };
        for (place, passage) in evidence.passages.iter().enumerate() {
            let is_looked_for = passage.chunk.tier == Tier::L2 && passage.chunk.id == evidence.chunk.id;
            compared.push(Compared { is_looked_for, ..compare(asked, (hit, place), passage) });
        }
    }
    let asked = asked.among(compared.iter().flat_map(|it| &it.held));
    let mut candidates = Vec::new();
    for of_hit in compared.chunk_by(|a, b| a.hit == b.hit) {
        let path = hits[of_hit[0].hit].record.found.path.to_string_lossy();
        let file = of_hit.iter().fold(asked.held(&path), |all, it| all.or(it.whole));
        for passage in of_hit {
            let cosine = passage.passage.similarity.zip(scale).map_or(0.0, |(it, scale)| scale.of(it));
            add(&asked, passage, cosine, file, &mut candidates);
        }
    }
    sort(&mut candidates);
    candidates
}

fn compare<'a>(asked: &Asked, (hit, place): (usize, usize), passage: &'a Passage) -> Compared<'a> {
    let body = passage.chunk.body();
    let (units, texts) = match passage.chunk.tier {
        Tier::L2 => (vec![units::whole(body)], vec![found_text(body)]),
        _ => {
            let units = units::units(body);
            let texts: Vec<String> = units.iter().map(|it| quoted(body, it)).collect();
            (units, texts)
        }
    };
    let held = texts.iter().map(|it| asked.held(it)).collect();
    let whole = asked.held(&passage.chunk.text);
    Compared { hit, place, passage, units, texts, held, whole, is_looked_for: false }
}

fn add(asked: &Asked, compared: &Compared<'_>, passage_cosine: f32, file: Held, candidates: &mut Vec<Candidate>) {
    let Compared { hit, place, passage, texts, held, .. } = compared;
    let body = passage.chunk.body();
    let lines_above = &passage.chunk.text[..passage.chunk.body_start as usize];
    for (index, unit) in compared.units.iter().enumerate() {
        let text = &texts[index];
        if is_no_answer(asked, compared, index) {
            continue;
        }
        let beside = [index.checked_sub(1), Some(index + 1)];
        let beside = beside.into_iter().flatten().filter_map(|it| held.get(it));
        let context = Context {
            above: asked.held(&evidence::above(lines_above, body, unit.heading.as_ref())),
            beside: beside.fold(Held::default(), |all, it| all.or(*it)),
            passage: compared.whole,
            file,
            passage_cosine,
            passage_score: passage.score,
            hit: *hit,
        };
        let numbers = asked.numbers(unit, text, held[index], &context);
        let looked_for = if compared.is_looked_for { LOOKED_FOR } else { 0.0 };
        let bonus = VERBATIM * asked.run(text).powi(4) + looked_for;
        candidates.push(Candidate {
            hit: *hit,
            passage: *place,
            unit: unit.clone(),
            before: before(body, &compared.units, index),
            text: text.clone(),
            known: file.words,
            numbers,
            has_cosine: false,
            bonus,
            score: weights::score(&numbers, false) + bonus,
        });
    }
}

/// Returns the unit before a sentence that begins with a pronoun.
fn before(body: &str, units: &[Unit], index: usize) -> Option<Range<usize>> {
    let first = body[units[index].range.clone()].split(|it: char| !it.is_alphabetic()).next()?.to_lowercase();
    let before = units.get(index.checked_sub(1)?)?;
    (units[index].form == Form::Sentence && stop_words::is_pronoun(&first)).then(|| before.range.clone())
}

/// Returns whether a unit cannot be an answer: a question, a title, a heading, a page number, or a subject that the question
/// does not ask for.
fn is_no_answer(asked: &Asked, compared: &Compared<'_>, index: usize) -> bool {
    let (unit, text, passage) = (&compared.units[index], &compared.texts[index], compared.passage);
    let is_question = text.ends_with(['?', '\u{ff1f}', '\u{61f}']);
    let is_field_behind = compared.units.get(index + 1).is_some_and(|it| it.form == Form::Field);
    let may_be_title = unit.form == Form::Fragment || (unit.form == Form::Field && !is_field_behind);
    // Evidence from a skill is a single unit.
    let is_first = index == 0 && passage.chunk.ordinal == 0 && compared.units.len() > 1;
    let is_heading = passage.chunk.heading_path.iter().any(|it| it == text);
    let is_title = (is_first && may_be_title) || asked.is_title_not_asked_for(unit, text);
    is_question || is_title || is_heading || (unit.form == Form::Fragment && value::is_page_number(text))
}

/// Joins the lines of evidence from a skill: the lines of a form, a table or a signature belong together.
fn found_text(body: &str) -> String {
    let lines = body.lines().map(|it| it.trim_matches(|it: char| it.is_whitespace() || it == '_'));
    let whole = lines.filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; ");
    let end = whole.char_indices().nth(FOUND_CHARS).map_or(whole.len(), |(at, _)| at);
    whole[..end].to_string()
}

/// Returns the quote of a unit on one line: a row with its column heads, other units verbatim.
fn quoted(body: &str, unit: &Unit) -> String {
    let text = &body[unit.range.clone()];
    let text = match unit.form {
        units::Form::Row => units::row(unit.head.clone().map(|it| &body[it]), text),
        _ => text.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Embeds the best units and sorts them again. If that fails or takes too long, the order by words stays.
pub(super) async fn by_meaning(
    embedder: &dyn Embedder,
    vector: &[f32],
    scale: Scale,
    hits: &[Found],
    candidates: &mut Vec<Candidate>,
) {
    let texts = embedded_texts(hits, candidates);
    candidates.truncate(texts.len());
    match tokio::time::timeout(WAIT, embedder.embed_urgent(&texts)).await {
        Ok(Ok(vectors)) => {
            for (candidate, unit) in candidates.iter_mut().zip(&vectors) {
                candidate.numbers[0] = scale.of(vector.iter().zip(unit).map(|(a, b)| a * b).sum());
                candidate.has_cosine = true;
                candidate.score = weights::score(&candidate.numbers, true) + candidate.bonus;
            }
            sort(candidates);
        }
        Ok(Err(error)) => tracing::debug!("cannot embed answer units: {error}"),
        Err(_) => tracing::debug!("embedding of answer units timed out"),
    }
}

/// Returns the texts of the best units, up to the limits, each after its last heading and the sentence that its pronoun
/// refers to.
fn embedded_texts(hits: &[Found], candidates: &[Candidate]) -> Vec<String> {
    let mut words = 0;
    let mut texts = Vec::new();
    for candidate in candidates.iter().take(EMBEDDED) {
        let evidence = hits[candidate.hit].evidence.as_ref();
        let Some(passage) = evidence.and_then(|it| it.passages.get(candidate.passage)) else { break };
        let body = passage.chunk.body();
        let inner = candidate.unit.heading.clone().map(|it| &body[it]);
        let heading = inner.or_else(|| passage.chunk.heading_path.last().map(String::as_str)).unwrap_or_default();
        let before = candidate.before.clone().map_or("", |it| &body[it]);
        let text = [heading, before, &candidate.text].into_iter().flat_map(str::split_whitespace);
        let text: Vec<&str> = text.take(UNIT_WORDS).collect();
        words += text.len();
        if words > EMBEDDED_WORDS && !texts.is_empty() {
            break;
        }
        texts.push(text.join(" "));
    }
    texts
}

fn sort(candidates: &mut [Candidate]) {
    // The sort is stable: among equal scores the better hit comes first, then the earlier unit.
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
}
