//! A question as a list of words; each word records whether a rule has turned it into a filter. Pure functions.

use crate::planner::spelling;
use crate::planner::translate::{self, Dictionary};
pub(super) use crate::planner::typed_words::{QuestionPart, Word, is_in_list, typed_words};

/// Maximum number of words that a rule looks ahead; two dates with their conjunction need half as many. Without the limit, a
/// long question would cost a hundred million steps.
const LOOKAHEAD_WORDS: usize = 24;

/// The words of a question, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(pub(super) Vec<Word>);

impl Words {
    pub(super) fn new(pieces: &[QuestionPart]) -> Words {
        let words = typed_words(pieces);
        let dictionary = translate::detect_dictionary(&words);
        Words::translated(words, dictionary)
    }

    /// Returns the words with typing errors in the words of rules corrected, and the corrected words as typed. `None` if there
    /// is nothing to correct.
    pub(super) fn corrected(pieces: &[QuestionPart]) -> Option<(Words, Vec<String>)> {
        let mut words = typed_words(pieces);
        let dictionary = translate::detect_dictionary(&words);
        let corrected = spelling::correct(&mut words, dictionary);
        let typed: Vec<String> = corrected.iter().map(|it| words[*it].text.clone()).collect();
        (!typed.is_empty()).then(|| (Words::translated(words, dictionary), typed))
    }

    fn translated(words: Vec<Word>, dictionary: Option<&Dictionary>) -> Words {
        match dictionary {
            Some(dictionary) => Words(translate::translate(words, dictionary)),
            None => Words(words),
        }
    }

    /// Whether the question is in another language than English, see [`translate`].
    pub(super) fn is_foreign(&self) -> bool {
        self.0.iter().any(|it| it.is_foreign)
    }

    /// Returns the word as typed, in lower case without punctuation; an empty string out of bounds.
    pub(super) fn plain_at(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |it| it.plain.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the normalized word, or an empty string out of bounds.
    pub(super) fn normalized_at(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |it| it.normalized.as_str())
    }

    /// Returns the normalized words from `index` on, at most `LOOKAHEAD_WORDS`.
    pub(super) fn lookahead(&self, index: usize) -> Vec<&str> {
        self.0.iter().skip(index).take(LOOKAHEAD_WORDS).map(|it| it.normalized.as_str()).collect()
    }

    /// If the question has `phrase` (words separated by single blanks) at word `index`, returns its length in words.
    pub(super) fn match_phrase(&self, index: usize, phrase: &str) -> Option<usize> {
        let mut length = 0;
        for word in phrase.split(' ') {
            if self.normalized_at(index + length) != word {
                return None;
            }
            length += 1;
        }
        Some(length)
    }

    /// Returns the length in words of the longest of `phrases` that begins at word `index`.
    pub(super) fn match_longest(&self, index: usize, phrases: &[&str]) -> Option<usize> {
        phrases.iter().filter_map(|it| self.match_phrase(index, it)).max()
    }

    /// Whether any of `phrases` occurs in the question.
    pub(super) fn contains_any(&self, phrases: &[&str]) -> bool {
        (0..self.len()).any(|index| self.match_longest(index, phrases).is_some())
    }

    pub(super) fn is_used(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|it| it.is_used)
    }

    pub(super) fn mark_used(&mut self, start: usize, end: usize) {
        self.0[start..end].iter_mut().for_each(|it| it.is_used = true);
    }

    /// Whether the preposition at `index` begins a condition on files: `over 5 MB`, `before 2020`, `in the x folder`.
    pub(super) fn is_condition(&self, index: usize) -> bool {
        let folder = (2..6).any(|it| matches!(self.normalized_at(index + it), "folder" | "directory" | "dossier"));
        self.normalized_at(index + 1).starts_with(|it: char| it.is_ascii_digit()) || folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::syntax;

    #[test]
    fn punctuation_is_stripped_paths_and_quotes_are_kept() {
        let words = Words::new(&syntax::split_operators("(Where's) ~/notes/a.md, \"Who Signed\"?").1);
        let bare: Vec<&str> = words.0.iter().map(|it| it.normalized.as_str()).collect();
        assert_eq!(bare, ["where's", "~/notes/a.md", "", ""]);
        assert_eq!(words.match_phrase(0, "where's ~/notes/a.md"), Some(2));
        assert_eq!(words.match_phrase(1, "~/notes/a.md x"), None);
    }

    #[test]
    fn lookahead_is_bounded_for_long_question() {
        let words = Words::new(&syntax::split_operators(&"word ".repeat(6_000)).1);
        assert_eq!(
            (words.lookahead(0).len(), words.lookahead(5_999).len(), words.lookahead(6_001).len()),
            (LOOKAHEAD_WORDS, 1, 0)
        );
    }
}
