//! Reranks the best files by how closely their passages have the wording of the question. Pure functions.
//!
//! Keyword search sees single words, and vector search sees none. So this module raises passages that contain more content
//! words of the question, contain them near each other, have them in the title or file name, or contain the question
//! verbatim: `score + (1 - score) * merit`, where
//! `merit = strength * (0.1 * coverage + 0.2 * nearness + 0.1 * title) + 0.4 * run^4`. The strength is 0.5 for the order of
//! files, and 1 for the order of passages in them. Each part is 0 to 1:
//!
//! - coverage: the fraction of the content words that the passage contains;
//! - nearness: the fraction of the pairs of neighbouring content words that the passage has near each other: 1 for
//!   neighbours, `1 / sqrt(d)` at a distance of `d` content words, 0 beyond 8;
//! - title: the fraction of the content words in the title, headings or file name;
//! - run: the fraction of the question that the passage contains word for word, function words included.
//!
//! In these fractions a word weighs `ln(1 + (n - k + 0.5) / (k + 0.5))` if `k` of the `n` compared passages contain it; a
//! pair weighs as much as its lighter word. A word in all passages does not discriminate, and a word in none weighs most, so
//! nonsense with one common word stays low. Two words are equal if their first six letters are: that ranks as well as
//! stemming (measured), without a stemmer for each language. Words of fewer than six letters must be equal as a whole.
//!
//! Keyword search ranks the shortest passage with a word highest. For a question of one word, that is often a stub: a title
//! with nothing below it. [`QuestionWords::is_stub`] finds such passages, and their files come after the other first files.

use crate::ask::word_runs::{FirstBytes, word_key};
use crate::ask::{excerpt, word_runs};

/// Weights of the parts of a merit (see the module docs).
const COVERAGE_WEIGHT: f32 = 0.1;
const NEARNESS_WEIGHT: f32 = 0.2;
const TITLE_WEIGHT: f32 = 0.1;
/// Weight of the longest verbatim run; the largest, because a user who types a whole sentence wants the passage with this
/// sentence. The run is raised to the fourth power, because half a sentence proves little.
const RUN_WEIGHT: f32 = 0.4;
/// Strength of the wording in the order of files. With 1, nDCG@10 is 0.003 higher on abstracts, but 0.03 lower on code and
/// 0.014 lower on titles, whose words say less about what they are about.
pub(super) const FILE_STRENGTH: f32 = 0.5;
/// Strength of the wording in the order of the passages of a file.
pub(super) const PASSAGE_STRENGTH: f32 = 1.0;
/// Maximum distance, in content words, at which two words still count as near.
const MAX_WORD_DISTANCE: u32 = 8;
/// Maximum number of content words of a question that are compared; further ones are ignored.
const MAX_CONTENT_WORDS: usize = 64;

/// Maximum number of content words below the title of a stub.
const MAX_STUB_WORDS: usize = 1;
/// Maximum number of keys that one word has: a word of four Chinese characters is three pairs.
const MAX_KEYS_OF_ONE_WORD: usize = 3;

/// The words of a question, prepared for the comparison with passages.
pub(super) struct QuestionWords {
    /// All words of the question, to find the longest run in a passage.
    question: Vec<String>,
    /// The comparison keys of the content words, without duplicates.
    keys: Vec<String>,
    starts: FirstBytes,
    /// Pairs of neighbouring content words, as indices into `keys`.
    pairs: Vec<(usize, usize)>,
    is_one_word: bool,
}

/// Where a passage contains the words of the question.
#[derive(Debug, PartialEq)]
pub(super) struct PassageWords {
    /// For each content word of the question, its positions in the passage, counted in content words.
    places: Vec<Vec<u32>>,
    in_title: Vec<bool>,
    run: f32,
}

impl PassageWords {
    /// Returns whether the passage contains a content word of the question.
    pub(super) fn has_words(&self) -> bool {
        self.places.iter().any(|it| !it.is_empty())
    }
}

impl QuestionWords {
    /// Parses a question. Takes the words of verbatim runs from `typed`, the question as the user typed it, and the content
    /// words from `searched`.
    pub(super) fn parse(typed: &str, searched: &str) -> QuestionWords {
        let plain = word_runs::normalize(searched);
        let mut keys: Vec<String> = Vec::new();
        let content =
            word_runs::split_words(&plain).filter(|it| !excerpt::is_function_word(it)).take(MAX_CONTENT_WORDS);
        let numbers: Vec<usize> = content
            .map(word_key)
            .map(|key| {
                keys.iter().position(|it| it == key).unwrap_or_else(|| {
                    keys.push(key.to_owned());
                    keys.len() - 1
                })
            })
            .collect();
        let pairs = numbers.windows(2).filter(|it| it[0] != it[1]).map(|it| (it[0], it[1])).collect();
        let is_one_word = vic_words::segments(&plain).count() == 1 && keys.len() <= MAX_KEYS_OF_ONE_WORD;
        QuestionWords {
            question: word_runs::words(typed),
            starts: FirstBytes::from_words(&keys),
            keys,
            pairs,
            is_one_word,
        }
    }

    /// Returns the comparison keys of the content words, without duplicates.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// Returns the index of a word of a passage in `keys`; `None` if the question does not contain it.
    fn word_index(&self, word: &str) -> Option<usize> {
        if !self.starts.may_contain(word) {
            return None;
        }
        let key = word_key(word);
        self.keys.iter().position(|it| it == key)
    }

    /// Finds the words of the question in the text of a passage and in its title.
    pub(super) fn read_passage(&self, text: &str, title: &str) -> PassageWords {
        let plain = word_runs::normalize(text);
        let words: Vec<&str> = word_runs::split_words(&plain).collect();
        let mut places = vec![Vec::new(); self.keys.len()];
        for (place, word) in (0..).zip(words.iter().filter(|it| !excerpt::is_function_word(it))) {
            if let Some(number) = self.word_index(word) {
                places[number].push(place);
            }
        }
        let mut in_title = vec![false; self.keys.len()];
        for word in word_runs::split_words(&word_runs::normalize(title)) {
            if let Some(number) = self.word_index(word) {
                in_title[number] = true;
            }
        }
        PassageWords { places, in_title, run: word_runs::shared_run_share(&self.question, &words) }
    }

    /// Returns whether the question is one word that stands in the lines above a passage, and the passage says hardly anything
    /// about it: it has at most one content word. A number may be the answer.
    pub(super) fn is_stub(&self, above: &str, body: &str) -> bool {
        if !self.is_one_word {
            return false;
        }
        let (above, body) = (word_runs::normalize(above), word_runs::normalize(body));
        let content = word_runs::split_words(&body).filter(|it| !excerpt::is_function_word(it));
        let content: Vec<&str> = content.take(MAX_STUB_WORDS + 1).collect();
        let says_it = |it: &str| self.word_index(it).is_some();
        content.len() <= MAX_STUB_WORDS
            && !content.iter().any(|it| says_it(it) || it.contains(char::is_numeric))
            && word_runs::split_words(&above).any(says_it)
    }

    /// Returns the weight of each content word: the fewer of these passages contain the word, the higher.
    pub(super) fn word_weights<'a>(&self, passages: impl Iterator<Item = &'a PassageWords>) -> Vec<f32> {
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

    /// Returns how closely a passage has the wording of the question, 0 to 1 (the merit of the module docs).
    pub(super) fn wording_merit(&self, weights: &[f32], passage: &PassageWords, strength: f32) -> f32 {
        let held = |number: &usize| !passage.places[*number].is_empty();
        let all: f32 = weights.iter().sum();
        let covered: f32 = (0..weights.len()).filter(held).map(|it| weights[it]).sum();
        let titled: f32 = (0..weights.len()).filter(|it| passage.in_title[*it]).map(|it| weights[it]).sum();
        let lesser = |(a, b): &(usize, usize)| weights[*a].min(weights[*b]);
        let paired: f32 = self.pairs.iter().map(lesser).sum();
        let near: f32 =
            self.pairs.iter().map(|it| lesser(it) * nearness(&passage.places[it.0], &passage.places[it.1])).sum();
        strength
            * (COVERAGE_WEIGHT * ratio(covered, all)
                + NEARNESS_WEIGHT * ratio(near, paired)
                + TITLE_WEIGHT * ratio(titled, all))
            + RUN_WEIGHT * passage.run.powi(4)
    }
}

/// Raises the score of a passage or file by its merit; the result is at most 1.
pub(super) fn boost_score(score: f32, merit: f32) -> f32 {
    score + (1.0 - score) * merit
}

fn ratio(some: f32, all: f32) -> f32 {
    if all > 0.0 { some / all } else { 0.0 }
}

/// Returns the nearness of two words from their sorted positions: 1 for neighbours, 0 beyond `MAX_WORD_DISTANCE`.
fn nearness(a: &[u32], b: &[u32]) -> f32 {
    let (mut i, mut j, mut least) = (0, 0, u32::MAX);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        least = least.min(x.abs_diff(*y));
        if x < y { i += 1 } else { j += 1 }
    }
    if least <= MAX_WORD_DISTANCE { 1.0 / (least.max(1) as f32).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the merits of passages, each given as title and text.
    fn check(question: &str, passages: &[(&str, &str)]) -> Vec<f32> {
        let wording = QuestionWords::parse(question, question);
        let readings: Vec<PassageWords> =
            passages.iter().map(|(title, text)| wording.read_passage(text, title)).collect();
        let weights = wording.word_weights(readings.iter());
        let merits: Vec<f32> =
            readings.iter().map(|it| wording.wording_merit(&weights, it, PASSAGE_STRENGTH)).collect();
        assert!(merits.iter().all(|it| (0.0..=1.0).contains(it)), "{merits:?}");
        merits
    }

    #[test]
    fn adjacent_words_beat_distant_words() {
        let far = format!("A pump in the cellar. {} New seals were ordered.", "Rain fell on the long quay. ".repeat(9));
        let merits = check("pump seals", &[("", "Replace the seals of the pump."), ("", &far)]);
        assert!(merits[0] > merits[1] + 0.1, "{merits:?}");
    }

    #[test]
    fn verbatim_question_beats_scattered_words() {
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
    fn rare_word_weighs_more_than_common_word() {
        let merits =
            check("harbour dredging", &[("", "harbour office"), ("", "dredging"), ("", "harbour gate, harbour")]);
        assert!(merits[1] > merits[0], "{merits:?}");
    }

    #[test]
    fn words_match_despite_endings() {
        let merits = check("contractual obligations", &[("", "an obligation by contract"), ("", "a fishing boat")]);
        assert!(merits[0] > 0.1 && merits[1] == 0.0, "{merits:?}");
    }

    #[test]
    fn word_in_title_raises_merit() {
        let merits = check("lease", &[("lease-2024.pdf", "The shed is let."), ("scan.pdf", "The shed is let.")]);
        assert!(merits[0] > merits[1], "{merits:?}");
    }

    #[test]
    fn nonsense_with_common_word_has_little_merit() {
        let merits =
            check("flurble zorps harbour", &[("", "the harbour"), ("", "harbour office"), ("", "harbour gate")]);
        assert!(merits.iter().all(|it| *it < 0.02), "{merits:?}");
    }

    #[test]
    fn question_without_content_words_has_no_merit() {
        assert_eq!(check("", &[("a", "b")]), [0.0]);
        assert_eq!(check("?!", &[("", "")]), [0.0]);
        assert_eq!(check("who is it", &[("who", "is it")]), [0.0]);
    }

    #[test]
    fn key_counts_characters_not_bytes() {
        assert_eq!(word_key("übergröße"), "übergr");
        assert!(check("договоры", &[("", "договора нет")])[0] > 0.0);
    }

    #[test]
    fn title_with_nothing_below_it_is_a_stub() {
        let check =
            |question: &str, above: &str, body: &str| QuestionWords::parse(question, question).is_stub(above, body);
        assert!(check("发票", "发票", "目录。") && check("invoices", "Invoices", "To do."));
        assert!(
            !check("发票", "记录", "货物到达以后请把发票寄到财务部。") && !check("dentist", "Dentist", "Dr. Meier")
        );
        assert!(!check("baker", "", "The almanac of the baker."), "the text itself is about it");
        assert!(!check("wifi", "Wifi", "hunter2"), "a number may be the answer");
        assert!(!check("wifi password", "Wifi password", "murka"), "the question has two words");
        assert!(!check("invoice", "Boats", ""), "the title lacks the word");
    }

    #[test]
    fn lifted_score_stays_at_most_one() {
        assert_eq!(boost_score(1.0, 0.8), 1.0);
        assert!(boost_score(0.9, 0.8) < 1.0);
    }
}
