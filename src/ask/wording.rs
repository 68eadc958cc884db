//! How well a passage bears the words of a question, beyond what the legs see. Pure.
//!
//! The keyword leg looks at words one by one, the vector leg at none. Among the best files this puts those first whose
//! passages hold more of the question's content words, hold them near each other, hold them in title or name, or hold the
//! question as it stands: `score + (1 - score) * merit`, where
//! `merit = 0.1 * coverage + 0.2 * nearness + 0.1 * title + 0.4 * run^4`. Each part is 0 to 1:
//!
//! - coverage: the share of the content words that the passage holds;
//! - nearness: the share of the pairs of neighbouring content words that the passage holds near each other: whole when they
//!   are neighbours there too, `1 / sqrt(d)` at a distance of `d` content words, nothing beyond 8;
//! - title: the share of the content words in title, headings or the file's name;
//! - run: the part of the question that stands in the passage word for word, function words included.
//!
//! In the shares a word counts `ln(1 + (n - k + 0.5) / (k + 0.5))` when `k` of the `n` passages that are compared hold it, a
//! pair as much as the lesser of its words. What all of them hold tells nothing apart, and what none holds weighs most, so
//! that nonsense with one common word in it stays low. Words are the same when their first six letters are: that orders as
//! well as stems do (measured), and needs no stems of each language. Short words have to be the same.

use crate::ask::phrase::{Starts, key};
use crate::ask::{excerpt, phrase};

/// What each part is worth. The maximum is flat: 0 to 0.2, 0.1 to 0.3, 0 to 0.2 and 0 to 0.5 give nDCG@10 within 0.003.
const COVERAGE: f32 = 0.1;
const NEARNESS: f32 = 0.2;
const TITLE: f32 = 0.1;
/// Large, because who types a sentence out wants the passage that has it; to the fourth power, because half of it is little.
const RUN: f32 = 0.4;
/// Content words between which nothing counts as near any more.
const FARTHEST: u32 = 8;
/// Content words of a question that are looked at.
const MOST_WORDS: usize = 64;

/// The words of a question.
pub(super) struct Wording {
    /// All of them, for the run.
    question: Vec<String>,
    /// The beginnings of the content words, each once.
    keys: Vec<String>,
    starts: Starts,
    /// Numbers of the content words that are neighbours.
    pairs: Vec<(usize, usize)>,
}

/// Where a passage holds the words of a question.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    /// For each content word its places, counted in content words.
    places: Vec<Vec<u32>>,
    in_title: Vec<bool>,
    run: f32,
}

impl Wording {
    /// Takes a question apart: `typed` is what the run is looked for in, `searched` has the content words.
    pub(super) fn of(typed: &str, searched: &str) -> Wording {
        let plain = phrase::plain(searched);
        let mut keys: Vec<String> = Vec::new();
        let content = phrase::split(&plain).filter(|it| !excerpt::is_function_word(it)).take(MOST_WORDS);
        let numbers: Vec<usize> = content
            .map(key)
            .map(|key| {
                keys.iter().position(|it| it == key).unwrap_or_else(|| {
                    keys.push(key.to_owned());
                    keys.len() - 1
                })
            })
            .collect();
        let pairs = numbers.windows(2).filter(|it| it[0] != it[1]).map(|it| (it[0], it[1])).collect();
        Wording { question: phrase::words(typed), starts: Starts::of(&keys), keys, pairs }
    }

    /// The beginnings of the content words, each once.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// Returns which content word this one is.
    fn number(&self, word: &str) -> Option<usize> {
        if !self.starts.may_hold(word) {
            return None;
        }
        let key = key(word);
        self.keys.iter().position(|it| it == key)
    }

    /// Reads a passage: its whole text, and what stands above it.
    pub(super) fn read(&self, text: &str, title: &str) -> Reading {
        let plain = phrase::plain(text);
        let words: Vec<&str> = phrase::split(&plain).collect();
        let mut places = vec![Vec::new(); self.keys.len()];
        for (place, word) in (0..).zip(words.iter().filter(|it| !excerpt::is_function_word(it))) {
            if let Some(number) = self.number(word) {
                places[number].push(place);
            }
        }
        let mut in_title = vec![false; self.keys.len()];
        for word in phrase::split(&phrase::plain(title)) {
            if let Some(number) = self.number(word) {
                in_title[number] = true;
            }
        }
        Reading { places, in_title, run: phrase::share(&self.question, &words) }
    }

    /// Returns what each content word counts among these passages.
    pub(super) fn weights<'a>(&self, passages: impl Iterator<Item = &'a Reading>) -> Vec<f32> {
        let mut count = 0.0f32;
        let mut holding = vec![0.0f32; self.keys.len()];
        for passage in passages {
            count += 1.0;
            for (holding, places) in holding.iter_mut().zip(&passage.places) {
                *holding += f32::from(u8::from(!places.is_empty()));
            }
        }
        holding.into_iter().map(|it| ((count - it + 0.5) / (it + 0.5)).ln_1p()).collect()
    }

    /// Returns the merit of a passage, 0 to 1.
    pub(super) fn merit(&self, weights: &[f32], passage: &Reading) -> f32 {
        let held = |number: &usize| !passage.places[*number].is_empty();
        let all: f32 = weights.iter().sum();
        let covered: f32 = (0..weights.len()).filter(held).map(|it| weights[it]).sum();
        let titled: f32 = (0..weights.len()).filter(|it| passage.in_title[*it]).map(|it| weights[it]).sum();
        let lesser = |(a, b): &(usize, usize)| weights[*a].min(weights[*b]);
        let paired: f32 = self.pairs.iter().map(lesser).sum();
        let near: f32 =
            self.pairs.iter().map(|it| lesser(it) * nearness(&passage.places[it.0], &passage.places[it.1])).sum();
        COVERAGE * part(covered, all)
            + NEARNESS * part(near, paired)
            + TITLE * part(titled, all)
            + RUN * passage.run.powi(4)
    }
}

/// Returns the score of a passage or file that had `score` before its words were looked at.
pub(super) fn lift(score: f32, merit: f32) -> f32 {
    score + (1.0 - score) * merit
}

fn part(some: f32, all: f32) -> f32 {
    if all > 0.0 { some / all } else { 0.0 }
}

/// How near two words come, of which the places are known in order.
fn nearness(a: &[u32], b: &[u32]) -> f32 {
    let (mut i, mut j, mut least) = (0, 0, u32::MAX);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        least = least.min(x.abs_diff(*y));
        if x < y { i += 1 } else { j += 1 }
    }
    if least <= FARTHEST { 1.0 / (least.max(1) as f32).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The merits of passages with titles.
    fn check(question: &str, passages: &[(&str, &str)]) -> Vec<f32> {
        let wording = Wording::of(question, question);
        let readings: Vec<Reading> = passages.iter().map(|(title, text)| wording.read(text, title)).collect();
        let weights = wording.weights(readings.iter());
        let merits: Vec<f32> = readings.iter().map(|it| wording.merit(&weights, it)).collect();
        assert!(merits.iter().all(|it| (0.0..=1.0).contains(it)), "{merits:?}");
        merits
    }

    #[test]
    fn words_that_stand_together_beat_the_same_words_far_apart() {
        let far = format!("A pump in the cellar. {} New seals were ordered.", "Rain fell on the long quay. ".repeat(9));
        let merits = check("pump seals", &[("", "Replace the seals of the pump."), ("", &far)]);
        assert!(merits[0] > merits[1] + 0.1, "{merits:?}");
    }

    #[test]
    fn the_question_word_for_word_beats_everything_else() {
        let merits = check(
            "the pump lost its seal again",
            &[
                ("Pump, seal, lost again", "The seal that the pump lost is lost again: pump, seal."),
                ("", "Today the pump lost its seal again."),
            ],
        );
        assert!(merits[1] > merits[0], "{merits:?}");
    }

    #[test]
    fn a_rare_word_counts_more_than_one_that_every_passage_holds() {
        let merits =
            check("harbour dredging", &[("", "harbour office"), ("", "dredging"), ("", "harbour gate, harbour")]);
        assert!(merits[1] > merits[0], "{merits:?}");
    }

    #[test]
    fn endings_make_no_other_word() {
        let merits = check("contractual obligations", &[("", "an obligation by contract"), ("", "a fishing boat")]);
        assert!(merits[0] > 0.1 && merits[1] == 0.0, "{merits:?}");
    }

    #[test]
    fn a_word_in_the_name_or_title_counts() {
        let merits = check("lease", &[("lease-2024.pdf", "The shed is let."), ("scan.pdf", "The shed is let.")]);
        assert!(merits[0] > merits[1], "{merits:?}");
    }

    #[test]
    fn nonsense_with_one_common_word_has_little_merit() {
        let merits =
            check("flurble zorps harbour", &[("", "the harbour"), ("", "harbour office"), ("", "harbour gate")]);
        assert!(merits.iter().all(|it| *it < 0.02), "{merits:?}");
    }

    #[test]
    fn a_question_without_words_has_no_merit_anywhere() {
        assert_eq!(check("", &[("a", "b")]), [0.0]);
        assert_eq!(check("?!", &[("", "")]), [0.0]);
        assert_eq!(check("who is it", &[("who", "is it")]), [0.0]);
    }

    #[test]
    fn letters_are_not_bytes() {
        assert_eq!(key("übergröße"), "übergr");
        assert!(check("договоры", &[("", "договора нет")])[0] > 0.0);
    }

    #[test]
    fn a_lifted_score_stays_below_one() {
        assert_eq!(lift(1.0, 0.8), 1.0);
        assert!(lift(0.9, 0.8) < 1.0);
    }
}
