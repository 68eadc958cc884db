//! Builds the answer to a question: quotes from the best hits, each checked against its current file, with a confidence, and
//! a summary for people, which a language model writes if one is configured (`llm_summary`).
//!
//! `units` splits passages into units (sentences, rows), `features` computes their features, `scoring` turns features into
//! scores, `candidates` ranks the units, and `select_quotes` selects the quotes and the outcome.

mod candidates;
mod composed_answer;
mod cosine_scale;
mod features;
mod question_kind;
mod scoring;
mod select_quotes;
mod tables;
mod units;
mod value_check;
mod excerpt_windows;

use serde_json::{Value, json};

use crate::ask::answer::candidates::Candidate;
use crate::ask::answer::composed_answer::{answer_by_name, list_summary, quotes_summary, round_probability};
use crate::ask::answer::features::ParsedQuestion;
use crate::ask::answer::select_quotes::QuoteSelection;
use crate::ask::answer_events::Events;
use crate::ask::asker::Asker;
use crate::ask::citation::{self, FILE_CHECK_TIMEOUT};
use crate::ask::hit::{RankedHit, SearchOutcome};
use crate::ask::llm_summary::{self, GeneratedSummary};
use crate::ask::question::Question;
use crate::error::Result;
use crate::index::ServingTable;
use crate::model::{Anchor, Answer, AnswerOutcome, AnswerQuote, AskEvent, FileRecord};

pub(super) use composed_answer::ComposedAnswer;
pub(super) use cosine_scale::CosineScaleCache;

/// Summary of an answer without hits.
const NO_HITS_SUMMARY: &str = "Nothing in the indexed files answers this.";
/// Summary if there are hits, but none of them answers the question.
const NO_ANSWER_SUMMARY: &str = "Nothing in the indexed files answers this; the nearest passages are listed.";
/// Maximum number of best candidates that an explained answer lists.
const MAX_EXPLAINED_CANDIDATES: usize = 40;

/// A quote that is yet to be checked against its file.
struct Quote {
    shown: AnswerQuote,
    /// The text of the quote exactly as it is in the passage.
    text: String,
    record: FileRecord,
    anchor: Anchor,
}

impl Asker {
    /// Builds the answer from the hits. Leaves out quotes that are no longer in their files, and warns about them.
    pub(super) async fn build_answer(
        &self,
        served: &ServingTable,
        question: &Question,
        outcome: &mut SearchOutcome,
        events: &Events,
    ) -> Result<ComposedAnswer> {
        let (said, streamed) = self.compose_answer(served, question, outcome, events).await?;
        if let (Some(text), false) = (&said.summary, streamed) {
            events.send(|| AskEvent::Text(text.clone())).await;
        }
        Ok(said)
    }

    /// Composes the answer. The second value is true if the summary was already streamed to the caller.
    async fn compose_answer(
        &self,
        served: &ServingTable,
        question: &Question,
        outcome: &mut SearchOutcome,
        events: &Events,
    ) -> Result<(ComposedAnswer, bool)> {
        if question.is_listing() {
            let summary = Some(list_summary(outcome.merged, outcome.hits.len()));
            return Ok((ComposedAnswer { summary, answer: None }, false));
        }
        if outcome.hits.is_empty() {
            return Ok((ComposedAnswer::nothing(NO_HITS_SUMMARY, 0.0), false));
        }
        if outcome.hits.iter().all(|it| it.evidence.is_none()) {
            return Ok((answer_by_name(question, &outcome.hits).unwrap_or_default(), false));
        }
        let told = self.answer_from_tables(&question.plan.raw_user_text, &outcome.hits).await;
        let (candidates, choice) = self.select_quotes(served, question, outcome).await;
        excerpt_windows::show_windows(&candidates, &mut outcome.hits);
        if question.explain {
            explain(outcome, &candidates);
        }
        if let Some(told) = told {
            return Ok((told, false));
        }
        if choice.outcome == AnswerOutcome::Nothing
            && let Some(named) = answer_by_name(question, &outcome.hits)
        {
            return Ok((named, false));
        }
        if choice.outcome == AnswerOutcome::Nothing {
            return Ok((ComposedAnswer::nothing(NO_ANSWER_SUMMARY, choice.confidence), false));
        }
        let quotes = self.current_quotes(build_quotes(&choice, &candidates, &outcome.hits), outcome).await?;
        if quotes.is_empty() {
            return Ok((ComposedAnswer::nothing(NO_ANSWER_SUMMARY, 0.0), false));
        }
        let answer = Answer { outcome: choice.outcome, confidence: round_probability(choice.confidence), quotes };
        if let Some(GeneratedSummary { text, .. }) = self.model_summary(question, outcome, events).await {
            let nothing = || ComposedAnswer::nothing(NO_ANSWER_SUMMARY, choice.confidence);
            let said = text.map_or_else(nothing, |text| ComposedAnswer { summary: Some(text), answer: Some(answer) });
            return Ok((said, true));
        }
        Ok((ComposedAnswer { summary: quotes_summary(&answer), answer: Some(answer) }, false))
    }

    async fn select_quotes(
        &self,
        served: &ServingTable,
        question: &Question,
        outcome: &SearchOutcome,
    ) -> (Vec<Candidate>, QuoteSelection) {
        let asked = parse_question(question, outcome);
        let embedder = served.embedder.as_ref().zip(outcome.vector.as_deref());
        let scale = match embedder {
            Some((embedder, _)) => self.scales.scale_of(embedder).await,
            None => None,
        };
        let mut candidates = candidates::rank_by_words(&asked, &outcome.hits);
        if let (Some((embedder, vector)), Some(scale)) = (embedder, scale) {
            candidates::rerank_by_meaning(embedder.as_ref(), vector, scale, &outcome.hits, &mut candidates).await;
        }
        if question.plan.date_order.is_some() {
            candidates::keep_first_hit(&mut candidates);
        }
        let choice = select_quotes::select_quotes(&asked, &question_parts(question, outcome), &candidates);
        (candidates, choice)
    }

    /// Returns the summary that a language model writes. Returns `None` if no model is configured, or if it fails; the
    /// failure is added to the warnings.
    async fn model_summary(
        &self,
        question: &Question,
        outcome: &mut SearchOutcome,
        events: &Events,
    ) -> Option<GeneratedSummary> {
        let llm = self.llm.as_ref()?;
        if question.model_unavailable {
            outcome
                .warnings
                .push(format!("the summary is quoted, not written by `{}`, which was unavailable", llm.name()));
            return None;
        }
        match llm_summary::generate_summary(llm, question.privacy, question, &outcome.hits, events).await {
            Ok(written) => {
                if written.cut {
                    outcome.warnings.push(format!("the summary by `{}` was cut off at its token limit", llm.name()));
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
                let why = self.redact_addresses(&error.message);
                outcome.warnings.push(format!("the summary is quoted, not written by `{name}`: {why}"));
                None
            }
        }
    }

    /// Returns the quotes that are still in their files, and warns if others are left out.
    async fn current_quotes(&self, quotes: Vec<Quote>, outcome: &mut SearchOutcome) -> Result<Vec<AnswerQuote>> {
        let all = quotes.len();
        let standing = crate::index::blocking_with_timeout(FILE_CHECK_TIMEOUT, move || {
            let stands = |it: &Quote| citation::quote_is_current(&it.record, &it.anchor, &it.text);
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

/// Makes the first hit of a search show the excerpt around its best unit. Ranks the units by words only, because a search
/// without an answer embeds no units.
pub(super) fn show_best_unit(question: &Question, outcome: &mut SearchOutcome) {
    let first = outcome.hits.len().min(1);
    let candidates = candidates::rank_by_words(&parse_question(question, outcome), &outcome.hits[..first]);
    excerpt_windows::show_windows(&candidates, &mut outcome.hits);
}

fn parse_question(question: &Question, outcome: &SearchOutcome) -> ParsedQuestion {
    let weight = |key: &str| outcome.word_weights.get(key).copied().unwrap_or(1.0);
    ParsedQuestion::parse(&question.plan.raw_user_text, question.text().unwrap_or_default(), weight)
}

/// Returns both parts of a question that asks two things; empty for all other questions.
fn question_parts(question: &Question, outcome: &SearchOutcome) -> Vec<ParsedQuestion> {
    let parts = question_kind::split_question(&question.plan.raw_user_text);
    let weight = |key: &str| outcome.word_weights.get(key).copied().unwrap_or(1.0);
    if parts.len() < 2 {
        Vec::new()
    } else {
        parts.into_iter().map(|it| ParsedQuestion::parse(it, it, weight)).collect()
    }
}

fn build_quotes(choice: &QuoteSelection, candidates: &[Candidate], hits: &[RankedHit]) -> Vec<Quote> {
    let quote = |index: &usize| {
        let candidate = &candidates[*index];
        let hit = &hits[candidate.hit];
        let passage = hit.evidence.as_ref()?.passages.get(candidate.passage)?;
        let text = passage.chunk.body()[candidate.unit.range.clone()].to_string();
        let anchor = passage.chunk.body_anchor(candidate.unit.range.clone());
        let shown = AnswerQuote {
            hit: u32::try_from(candidate.hit + 1).ok()?,
            text: candidate.text.clone(),
            place: hit.citation(&anchor),
            checked: false,
        };
        Some(Quote { shown, text, record: hit.record.clone(), anchor })
    };
    choice.quotes.iter().filter_map(quote).collect()
}

/// Adds the best candidates with their features to the metadata of their hits, to explain the answer. `benches/answers.py`
/// fits the weights of `scoring` to these features.
fn explain(outcome: &mut SearchOutcome, candidates: &[Candidate]) {
    for (number, hit) in outcome.hits.iter_mut().enumerate() {
        let own = candidates.iter().take(MAX_EXPLAINED_CANDIDATES).filter(|it| it.hit == number);
        let shown: Vec<Value> = own
            .map(|it| {
                let numbers = features::FEATURE_NAMES.iter().zip(it.features);
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
