//! Corrects typing errors in the words of rules: `modifed since yesterday`. Pure functions.
//!
//! A corrected question counts only if the rules then use every corrected word, see [`super::rule_planner`]. So `charged` in a
//! question about a battery does not become `changed`.

use crate::planner::translate::{self, Dictionary};
use crate::planner::typed_words::{Word, is_in_list};

/// The English words that are corrected.
const ENGLISH: &str = "modified changed created updated uploaded downloaded scanned yesterday since today documents presentations spreadsheets \
     pictures screenshots january february september october november december monday tuesday wednesday thursday saturday";
/// Words of the language that resemble a word of a rule. They are no typing errors.
const REAL_WORDS: &str = "charged chanced changes changer hanged chained crated creased creates treated updates update uploads scanner spanned \
     scammed mince wince singe sinces modifies pictured document presentation spreadsheet picture screenshot document's";
/// Minimum length of a word of a vocabulary in characters. Shorter ones resemble too many other words.
const MIN_LENGTH: usize = 6;
/// Maximum number of words of a question that is corrected. Longer ones are no list of files.
const MAX_WORDS: usize = 40;

/// Corrects the words that differ in one letter, or in two exchanged ones, from just one word of a rule. Returns the indices
/// of the corrected words.
pub(super) fn correct(words: &mut [Word], dictionary: Option<&Dictionary>) -> Vec<usize> {
    if words.len() > MAX_WORDS {
        return Vec::new();
    }
    let known: Vec<(&str, &str)> = match dictionary {
        Some(dictionary) => dictionary.single_words().filter(|it| it.0.chars().count() >= MIN_LENGTH).collect(),
        None => ENGLISH.split(' ').map(|it| (it, it)).collect(),
    };
    let mut corrected = Vec::new();
    for (index, word) in words.iter_mut().enumerate() {
        let is_candidate = word.plain.len() >= 4 && !is_in_list(REAL_WORDS, &word.plain);
        let is_known =
            known.iter().any(|it| it.0 == word.plain) || dictionary.is_some_and(|it| it.has_word(&word.plain));
        if !is_candidate || is_known {
            continue;
        }
        if let Some(right) = only_similar(&translate::fold(&word.plain), &known) {
            word.plain = right.to_string();
            word.normalized = right.to_string();
            corrected.push(index);
        }
    }
    corrected
}

/// Returns a word that differs in one letter; `None` if there is none, or if several have different meanings. `known` are
/// words with their meanings.
fn only_similar<'a>(word: &str, known: &[(&'a str, &str)]) -> Option<&'a str> {
    // The first letter is seldom wrong, and comparing it first keeps the cost small.
    let near = |it: &&(&str, &str)| {
        it.0.chars().next() == word.chars().next()
            && it.0.len().abs_diff(word.len()) <= 2
            && strsim::osa_distance(it.0, word) == 1
    };
    let similar: Vec<_> = known.iter().filter(near).collect();
    let (_, meaning) = similar.first()?;
    let word = similar.iter().map(|it| it.0).min()?;
    similar.iter().all(|it| it.1 == *meaning).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::{syntax, typed_words};

    fn check(question: &str) -> String {
        let mut words = typed_words::typed_words(&syntax::split_operators(question).1);
        let dictionary = translate::detect_dictionary(&words);
        correct(&mut words, dictionary);
        words.iter().map(|it| it.plain.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_wrong_letter_is_corrected() {
        for (question, expected) in [
            ("modifed sicne yesteday", "modified since yesterday"),
            ("modificdo desde ayer", "modificado desde ayer"),
            ("geändret seit gestern", "geandert seit gestern"),
            ("bearbeitt seit gestren", "bearbeitet seit gestern"),
        ] {
            assert_eq!(check(question), expected, "{question}");
        }
    }

    #[test]
    fn real_and_short_words_are_left_alone() {
        for question in ["charged yesterday", "fires since monday", "the scanner", "tod", "a b", "mince since"] {
            assert_eq!(check(question), question, "{question}");
        }
    }
}
