//! Answers a question with quotes of the best hits and a confidence. Checks each quote against its current file. Adds a
//! summary for people, written by a language model if there is one (`generate`).
//!
//! `units` splits passages into units, `evidence` computes their features, `weights` scores the features, `candidates` ranks
//! the units, and `choose` selects the quotes and the outcome.

mod candidates;
mod choose;
mod evidence;
mod kind;
mod scale;
mod tables;
mod units;
mod value;
mod weights;
mod windows;

pub(super) use scale::Scales;

use serde_json::{Value, json};

use crate::ask::answer::candidates::Candidate;
use crate::ask::answer::choose::Choice;
use crate::ask::answer::evidence::Asked;
use crate::ask::events::Events;
use crate::ask::generate::{self, Generated};
use crate::ask::hit::Found;
use crate::ask::{Asker, Outcome, PATIENCE, Question, citation};
use crate::error::Result;
use crate::index::Served;
use crate::model::{Anchor, Answer, AnswerOutcome, AnswerQuote, AskEvent, FileRecord};

/// Summary if there are no hits.
const NOTHING: &str = "Nothing in the indexed files answers this.";
/// Summary if no hit answers the question.
const NO_ANSWER: &str = "Nothing in the indexed files answers this; the nearest passages are listed.";
/// Heading of quotes that are only pointers.
const LOOK: &str = "No single sentence answers this; these passages come nearest:";
/// Confidence in a file that matches by name alone.
const NAMED: f32 = 0.5;
/// Most candidates in an explained answer.
const EXPLAINED: usize = 40;

/// An answer in both forms.
#[derive(Default)]
pub(super) struct Said {
    /// The summary for people.
    pub(super) summary: Option<String>,
    /// The answer for programs; none for a list of files.
    pub(super) answer: Option<Answer>,
}

impl Said {
    fn nothing(summary: &str, confidence: f32) -> Said {
        let answer = Answer { outcome: AnswerOutcome::Nothing, confidence: rounded(confidence), quotes: Vec::new() };
        Said { summary: Some(summary.to_string()), answer: Some(answer) }
    }
}

/// A quote before its check.
struct Quote {
    shown: AnswerQuote,
    /// The verbatim text in the passage.
    text: String,
    record: FileRecord,
    anchor: Anchor,
}

impl Asker {
    /// Answers from the hits. Leaves out quotes that are not in their files any more, and warns about them.
    pub(super) async fn answer(
        &self,
        served: &Served,
        question: &Question,
        outcome: &mut Outcome,
        events: &Events,
    ) -> Result<Said> {
        let (said, streamed) = self.say(served, question, outcome, events).await?;
        if let (Some(text), false) = (&said.summary, streamed) {
            events.send(|| AskEvent::Text(text.clone())).await;
        }
        Ok(said)
    }

    /// Also returns whether the summary has already been streamed.
    async fn say(
        &self,
        served: &Served,
        question: &Question,
        outcome: &mut Outcome,
        events: &Events,
    ) -> Result<(Said, bool)> {
        if question.is_listing() {
            let summary = Some(counted(outcome.merged, outcome.hits.len()));
            return Ok((Said { summary, answer: None }, false));
        }
        if outcome.hits.is_empty() {
            return Ok((Said::nothing(NOTHING, 0.0), false));
        }
        if outcome.hits.iter().all(|it| it.evidence.is_none()) {
            return Ok((named(question, &outcome.hits).unwrap_or_default(), false));
        }
        let told = self.ask_tables(&question.plan.raw_user_text, &outcome.hits).await;
        let (candidates, choice) = self.choose(served, question, outcome).await;
        windows::show(&candidates, &mut outcome.hits);
        if question.explain {
            explain(outcome, &candidates);
        }
        if let Some(told) = told {
            return Ok((told, false));
        }
        if choice.outcome == AnswerOutcome::Nothing
            && let Some(named) = named(question, &outcome.hits)
        {
            return Ok((named, false));
        }
        if choice.outcome == AnswerOutcome::Nothing {
            return Ok((Said::nothing(NO_ANSWER, choice.confidence), false));
        }
        let quotes = self.checked(quotes(&choice, &candidates, &outcome.hits), outcome).await?;
        if quotes.is_empty() {
            return Ok((Said::nothing(NO_ANSWER, 0.0), false));
        }
        let answer = Answer { outcome: choice.outcome, confidence: rounded(choice.confidence), quotes };
        if let Some(Generated { text, .. }) = self.written(question, outcome, events).await {
            let nothing = || Said::nothing(NO_ANSWER, choice.confidence);
            let said = text.map_or_else(nothing, |text| Said { summary: Some(text), answer: Some(answer) });
            return Ok((said, true));
        }
        Ok((Said { summary: summary(&answer), answer: Some(answer) }, false))
    }

    async fn choose(&self, served: &Served, question: &Question, outcome: &Outcome) -> (Vec<Candidate>, Choice) {
        let asked = asked(question, outcome);
        let embedder = served.embedder.as_ref().zip(outcome.vector.as_deref());
        let scale = match embedder {
            Some((embedder, _)) => self.scales.of(embedder).await,
            None => None,
        };
        let mut candidates = candidates::by_words(&asked, &outcome.hits, scale);
        if let (Some((embedder, vector)), Some(scale)) = (embedder, scale) {
            candidates::by_meaning(embedder.as_ref(), vector, scale, &outcome.hits, &mut candidates).await;
        }
        let choice = choose::choose(&asked, &parts(question, outcome), &candidates);
        (candidates, choice)
    }

    /// Returns the model's summary of the hits. Returns `None` without a model, or if the model fails, with a warning.
    async fn written(&self, question: &Question, outcome: &mut Outcome, events: &Events) -> Option<Generated> {
        let llm = self.llm.as_ref()?;
        if question.model_away {
            outcome
                .warnings
                .push(format!("the summary is quoted, not written by `{}`, which was unavailable", llm.name()));
            return None;
        }
        match generate::generate(llm, question.privacy, question, &outcome.hits, events).await {
            Ok(written) => {
                if written.cut {
                    outcome.warnings.push(format!("the answer of `{}` was cut at its token limit", llm.name()));
                }
                if written.dropped > 0 {
                    let dropped = written.dropped;
                    let warning = format!("{dropped} sentences of the model were left out: no passage supports them");
                    outcome.warnings.push(warning);
                }
                Some(written)
            }
            Err(error) => {
                let name = llm.name();
                let why = self.told(&error.message);
                outcome.warnings.push(format!("the summary is quoted, not written by `{name}`: {why}"));
                None
            }
        }
    }

    /// Returns the quotes that are still in their files.
    async fn checked(&self, quotes: Vec<Quote>, outcome: &mut Outcome) -> Result<Vec<AnswerQuote>> {
        let all = quotes.len();
        let standing = crate::index::at_files(PATIENCE, move || {
            let stands = |it: &Quote| citation::quote_stands(&it.record, &it.anchor, &it.text);
            let shown = |it: Quote| AnswerQuote { checked: true, ..it.shown };
            Ok(quotes.into_iter().filter(stands).map(shown).collect::<Vec<_>>())
        })
        .await?;
        let dropped = all - standing.len();
        if dropped > 0 {
            outcome
                .warnings
                .push(format!("{dropped} citations were left out: their files have changed or are unavailable"));
        }
        Ok(standing)
    }
}

/// Shows the best unit of the first hit, by words alone, for a search without an answer.
pub(super) fn show_best(question: &Question, outcome: &mut Outcome) {
    let first = outcome.hits.len().min(1);
    let candidates = candidates::by_words(&asked(question, outcome), &outcome.hits[..first], None);
    windows::show(&candidates, &mut outcome.hits);
}

fn asked(question: &Question, outcome: &Outcome) -> Asked {
    let weight = |key: &str| outcome.word_weights.get(key).copied().unwrap_or(1.0);
    Asked::of(&question.plan.raw_user_text, question.text().unwrap_or_default(), weight)
}

/// Returns the parts of a question with two parts; empty for all others.
fn parts(question: &Question, outcome: &Outcome) -> Vec<Asked> {
    let parts = kind::parts(&question.plan.raw_user_text);
    let weight = |key: &str| outcome.word_weights.get(key).copied().unwrap_or(1.0);
    if parts.len() < 2 { Vec::new() } else { parts.into_iter().map(|it| Asked::of(it, it, weight)).collect() }
}

/// Returns the answer if no text answers, but the name of the best file holds all words of the question.
fn named(question: &Question, hits: &[Found]) -> Option<Said> {
    let hit = &hits.first()?.hit;
    let held = hit.metadata.get("name_words")?.as_array()?.len();
    if question.words.is_empty() || held < question.words.len() {
        return None;
    }
    let answer = Answer { outcome: AnswerOutcome::Passage, confidence: rounded(NAMED), quotes: Vec::new() };
    Some(Said { summary: Some(format!("No text answers this; `{}` has the name.", hit.path)), answer: Some(answer) })
}

fn counted(found: usize, shown: usize) -> String {
    match (found, shown) {
        (0, _) => "No file matches.".into(),
        (1, _) => "1 file matches.".into(),
        (found, shown) if found == shown => format!("{found} files match."),
        (found, shown) => format!("{found} files match; the newest {shown} are listed."),
    }
}

fn quotes(choice: &Choice, candidates: &[Candidate], hits: &[Found]) -> Vec<Quote> {
    let quote = |index: &usize| {
        let candidate = &candidates[*index];
        let hit = &hits[candidate.hit];
        let passage = hit.evidence.as_ref()?.passages.get(candidate.passage)?;
        let text = passage.chunk.body()[candidate.unit.range.clone()].to_string();
        let anchor = passage.chunk.anchor_of(candidate.unit.range.clone());
        let shown = AnswerQuote {
            hit: u32::try_from(candidate.hit + 1).ok()?,
            text: candidate.text.clone(),
            place: hit.cited(&anchor),
            checked: false,
        };
        Some(Quote { shown, text, record: hit.record.clone(), anchor })
    };
    choice.quotes.iter().filter_map(quote).collect()
}

/// Formats the quotes as lines for people; none if there are no quotes.
fn summary(answer: &Answer) -> Option<String> {
    let quotes = answer.quotes.iter();
    let mut lines: Vec<String> = quotes.map(|it| format!("[{}] \"{}\" ({})", it.hit, it.text, it.place)).collect();
    if lines.is_empty() {
        return None;
    }
    if answer.outcome == AnswerOutcome::Passage {
        lines.insert(0, LOOK.to_string());
    }
    Some(lines.join("\n"))
}

/// Adds the best candidates with their features to the metadata of their hits, to explain the answer. `benches/answers.py`
/// fits the weights to them.
fn explain(outcome: &mut Outcome, candidates: &[Candidate]) {
    for (number, hit) in outcome.hits.iter_mut().enumerate() {
        let own = candidates.iter().take(EXPLAINED).filter(|it| it.hit == number);
        let shown: Vec<Value> = own
            .map(|it| {
                let numbers = evidence::NAMES.iter().zip(it.numbers);
                let numbers: serde_json::Map<String, Value> =
                    numbers.map(|(name, value)| ((*name).to_string(), json!(value))).collect();
                json!({ "text": it.text, "score": it.score, "numbers": numbers })
            })
            .collect();
        if !shown.is_empty() {
            hit.hit.metadata.insert("candidates".into(), Value::Array(shown));
        }
    }
}

/// Rounds a probability to three digits.
fn rounded(probability: f32) -> f64 {
    (f64::from(probability) * 1_000.0).round() / 1_000.0
}
