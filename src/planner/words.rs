//! A question as a list of words, each marked once a rule has used it. Pure.

use crate::planner::syntax::Piece;

/// Lookahead of a rule in words; two dates with their conjunction need half of it. An unbounded lookahead would cost a
/// hundred million steps for a long question.
const AHEAD: usize = 24;

/// A word of a question.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// As typed, punctuation included.
    pub(super) text: String,
    /// Lower case without surrounding punctuation. Empty in quoted text, so that no rule matches it.
    pub(super) bare: String,
    /// Whether a rule turned it into a filter. Used words are not part of the search text.
    pub(super) used: bool,
}

/// The words of a question, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(pub(super) Vec<Word>);

impl Words {
    pub(super) fn new(pieces: &[Piece]) -> Words {
        let word = |piece: &Piece, text: &str| Word {
            text: text.to_string(),
            bare: if piece.literal { String::new() } else { bare(text) },
            used: false,
        };
        Words(pieces.iter().flat_map(|it| it.text.split_whitespace().map(move |text| word(it, text))).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bare word, or an empty string out of bounds.
    pub(super) fn at(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |it| it.bare.as_str())
    }

    /// The bare words from `index` on, up to the lookahead limit.
    pub(super) fn from(&self, index: usize) -> Vec<&str> {
        self.0.iter().skip(index).take(AHEAD).map(|it| it.bare.as_str()).collect()
    }

    /// Returns the length of `phrase` if it stands at `index`. Single blanks separate its words.
    pub(super) fn phrase(&self, index: usize, phrase: &str) -> Option<usize> {
        let mut length = 0;
        for word in phrase.split(' ') {
            if self.at(index + length) != word {
                return None;
            }
            length += 1;
        }
        Some(length)
    }

    /// The length of the longest of `phrases` that stands at `index`.
    pub(super) fn longest(&self, index: usize, phrases: &[&str]) -> Option<usize> {
        phrases.iter().filter_map(|it| self.phrase(index, it)).max()
    }

    /// Whether any of `phrases` occurs in the question.
    pub(super) fn any(&self, phrases: &[&str]) -> bool {
        (0..self.len()).any(|index| self.longest(index, phrases).is_some())
    }

    pub(super) fn is_used(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|it| it.used)
    }

    pub(super) fn spend(&mut self, start: usize, end: usize) {
        self.0[start..end].iter_mut().for_each(|it| it.used = true);
    }

    /// Whether the words after the preposition describe files: `over 5 MB`, `before 2020`, `in the x folder`.
    pub(super) fn is_condition(&self, index: usize) -> bool {
        let folder = (2..6).any(|it| matches!(self.at(index + it), "folder" | "directory"));
        self.at(index + 1).starts_with(|it: char| it.is_ascii_digit()) || folder
    }
}

/// Whether a blank-separated list contains a word. An empty word is never in it.
pub(super) fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

fn bare(text: &str) -> String {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let cut = lower.trim_end_matches([',', ';', ':', '.', '?', '!', ')', ']', '"', '\'']);
    cut.trim_start_matches(['(', '[', '"', '\'']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::syntax;

    #[test]
    fn punctuation_is_stripped_paths_and_quotes_are_kept() {
        let words = Words::new(&syntax::pieces("(Where's) ~/notes/a.md, \"Who Signed\"?").1);
        let bare: Vec<&str> = words.0.iter().map(|it| it.bare.as_str()).collect();
        assert_eq!(bare, ["where's", "~/notes/a.md", "", ""]);
        assert_eq!(words.phrase(0, "where's ~/notes/a.md"), Some(2));
        assert_eq!(words.phrase(1, "~/notes/a.md x"), None);
    }

    #[test]
    fn lookahead_is_bounded_for_long_question() {
        let words = Words::new(&syntax::pieces(&"word ".repeat(6_000)).1);
        assert_eq!((words.from(0).len(), words.from(5_999).len(), words.from(6_001).len()), (AHEAD, 1, 0));
    }
}
