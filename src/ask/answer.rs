//! The summary of an answer: written by the model where there is one (`generate`), else sentences of the best hits, copied and cited, each checked against the file as it is now.
//!
//! A sentence is quoted only when its hit speaks of what was asked; when none does, the summary says that nothing answers.

use std::ops::Range;

use crate::ask::events::Events;
use crate::ask::generate::{self, Generated};
use crate::ask::hit::{Evidence, Found};
use crate::ask::{Asker, Outcome, PATIENCE, Question, citation, excerpt};
use crate::error::Result;
use crate::model::{Anchor, AskEvent, FileRecord, Tier};

/// Sentences of the summary at most.
const SUMMARY_HITS: usize = 3;
/// A passage with this share of the question's words and [`NEAR`] similarity speaks of what was asked.
const MOST_WORDS: f64 = 0.5;
/// See [`MOST_WORDS`]. Passages about something else lie below 0.25 with the default model.
const NEAR: f32 = 0.3;
/// A passage with so many of the words, and this share of them, speaks of it at [`FAR`] similarity: vectors of code and of
/// long passages say little of a single sentence in them.
const MANY_WORDS: usize = 4;
/// See [`MANY_WORDS`].
const NEARLY_ALL_WORDS: f64 = 0.8;
/// See [`MANY_WORDS`].
const FAR: f32 = 0.2;
/// A passage this near speaks of it whatever its words.
const VERY_NEAR: f32 = 0.55;
/// Characters of a form or table that are quoted.
const FOUND_CHARS: usize = 300;
/// What is said when nothing was found.
const NOTHING: &str = "Nothing in the indexed files answers this.";
/// What is said when something was found that does not speak of it.
const NO_ANSWER: &str = "Nothing in the indexed files answers this; the nearest passages are listed.";

/// A sentence that was copied from a hit.
struct Quote {
    /// Place of the hit in the answer, from 1.
    number: usize,
    sentence: String,
    /// Path and place, e.g. `Contracts/lease.pdf, page 3`.
    place: String,
    record: FileRecord,
    anchor: Anchor,
}

impl Asker {
    /// Sums the hits up. What cannot be found in its file any more is left out, and a warning says so.
    pub(super) async fn summary(
        &self,
        question: &Question,
        outcome: &mut Outcome,
        events: &Events,
    ) -> Result<Option<String>> {
        let summary = if question.is_listing() {
            Some(counted(outcome.merged, outcome.hits.len()))
        } else if outcome.hits.is_empty() {
            Some(NOTHING.to_string())
        } else if outcome.hits.iter().all(|it| it.evidence.is_none()) {
            None
        } else {
            let quotes = quotes(question, &outcome.hits);
            if quotes.is_empty() {
                Some(NO_ANSWER.to_string())
            } else {
                if let Some(written) = self.written(question, outcome, events).await {
                    return Ok(Some(written));
                }
                self.quoted(quotes, outcome).await?
            }
        };
        if let Some(text) = &summary {
            events.send(|| AskEvent::Text(text.clone())).await;
        }
        Ok(summary)
    }

    /// What the model makes of the hits; none without a model, or when it fails, which a warning says.
    async fn written(&self, question: &Question, outcome: &mut Outcome, events: &Events) -> Option<String> {
        let llm = self.llm.as_ref()?;
        if question.model_away {
            outcome.warnings.push(format!("the summary is quoted, not written by `{}`, which was away", llm.name()));
            return None;
        }
        match generate::generate(llm, question.privacy, question, &outcome.hits, events).await {
            Ok(Generated { text, dropped, cut }) => {
                if cut {
                    outcome.warnings.push(format!("the answer of `{}` was cut: it came to no end", llm.name()));
                }
                if dropped > 0 {
                    let warning = format!("{dropped} sentences of the model were left out: no passage bears them out");
                    outcome.warnings.push(warning);
                }
                Some(text.unwrap_or_else(|| NO_ANSWER.to_string()))
            }
            Err(error) => {
                let name = llm.name();
                let why = self.told(&error.message);
                outcome.warnings.push(format!("the summary is quoted, not written by `{name}`: {why}"));
                None
            }
        }
    }

    /// Sentences of the hits that stand in their files as they are now.
    async fn quoted(&self, quotes: Vec<Quote>, outcome: &mut Outcome) -> Result<Option<String>> {
        let asked = quotes.len();
        let standing = crate::index::at_files(PATIENCE, move || {
            let stands = |it: &Quote| citation::quote_stands(&it.record, &it.anchor, &it.sentence);
            Ok(quotes.into_iter().filter(stands).collect::<Vec<_>>())
        })
        .await?;
        let dropped = asked - standing.len();
        if dropped > 0 {
            outcome.warnings.push(format!("{dropped} citations were left out: their files have changed or are away"));
        }
        let lines: Vec<String> =
            standing.iter().map(|it| format!("[{}] \"{}\" ({})", it.number, it.sentence, it.place)).collect();
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }
}

fn counted(found: usize, shown: usize) -> String {
    match (found, shown) {
        (0, _) => "No file matches.".into(),
        (1, _) => "1 file matches.".into(),
        (found, shown) if found == shown => format!("{found} files match."),
        (found, shown) => format!("{found} files match; the newest {shown} are listed."),
    }
}

/// The sentences worth quoting, best hit first.
fn quotes(question: &Question, hits: &[Found]) -> Vec<Quote> {
    let speaks = |it: &&(usize, &Evidence)| speaks(question, it.1);
    let candidates: Vec<(usize, &Evidence)> =
        hits.iter().enumerate().filter_map(|(index, it)| Some((index, it.evidence.as_deref()?))).collect();
    let most = candidates.iter().filter(speaks).map(|(_, it)| it.words_matched).max().unwrap_or(0);
    candidates
        .iter()
        .filter(speaks)
        .filter(|(_, it)| it.words_matched * 4 >= most * 3)
        .filter_map(|(index, evidence)| {
            let (sentence, range) = said(question, evidence);
            let anchor = evidence.chunk.anchor_of(range);
            let (record, place) = (hits[*index].record.clone(), hits[*index].cited(&anchor));
            let quote = Quote { number: index + 1, sentence, place, record, anchor };
            (!quote.sentence.is_empty()).then_some(quote)
        })
        .take(SUMMARY_HITS)
        .collect()
}

/// What a passage says on the question, and the bytes of its body that say it: its best sentence. What a skill found is a
/// form, a table or a signature, whose lines belong together.
fn said(question: &Question, evidence: &Evidence) -> (String, Range<usize>) {
    let body = evidence.chunk.body();
    let best = excerpt::best_sentence(&question.words, body);
    if evidence.chunk.tier != Tier::L2 {
        return (body[best.clone()].to_string(), best);
    }
    let page = evidence.chunk.page_around(best.start);
    let lines = body[page.clone()].lines().map(|it| it.trim_matches(|it: char| it.is_whitespace() || it == '_'));
    let whole = lines.filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; ");
    let end = whole.char_indices().nth(FOUND_CHARS).map_or(whole.len(), |(at, _)| at);
    (whole[..end].to_string(), page)
}

/// Says whether any hit is about what was asked.
pub(super) fn any_speaks(question: &Question, hits: &[Found]) -> bool {
    hits.iter().filter_map(|it| it.evidence.as_deref()).any(|it| speaks(question, it))
}

/// Says whether a passage is about what was asked.
fn speaks(question: &Question, evidence: &Evidence) -> bool {
    is_about(question.words.len(), evidence.words_matched, evidence.similarity)
}

/// The same of one with so many of so many words; the similarity is known unless words alone were asked.
fn is_about(words: usize, matched: usize, similarity: Option<f32>) -> bool {
    let share = matched as f64 / words.max(1) as f64;
    let Some(similarity) = similarity else { return share >= MOST_WORDS };
    let says_it = matched >= MANY_WORDS && share >= NEARLY_ALL_WORDS;
    similarity >= VERY_NEAR || (share >= MOST_WORDS && similarity >= NEAR) || (says_it && similarity >= FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_speaks_of_what_was_asked_by_words_and_nearness_together() {
        for (words, matched, similarity, speaks) in [
            (4, 2, Some(0.3), true),
            (4, 1, Some(0.5), false),
            (4, 0, Some(0.6), true),
            (6, 5, Some(0.26), true),
            (6, 4, Some(0.26), false),
            (3, 3, Some(0.26), false),
            (6, 6, Some(0.1), false),
            (4, 2, None, true),
            (4, 1, None, false),
        ] {
            assert_eq!(is_about(words, matched, similarity), speaks, "{matched} of {words}, {similarity:?}");
        }
    }
}
