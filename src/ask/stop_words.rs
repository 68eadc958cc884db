//! Words that say nothing about the answer to a question: function words of ten languages ([`crate::text::function_words`]),
//! and words by which users ask. Pure functions.

use crate::text::function_words::{self, Language};

/// Words by which users ask, and by which passages introduce a quote. The rules of agents have another list, because they
/// search names, which have no quotes.
const REQUEST_WORDS: &[&str] = &["please", "tell", "find", "show", "give", "know", "say", "says", "said"];

/// Pronouns of these languages: a sentence that begins with one refers to the sentence before it.
const PRONOUNS: &str = "it he she they this these that those its his her their there then er sie es dieser diese dieses das dort il elle ils \
elles ce cela cette ces él ella ellos ellas esto este esta eso ese esa lo esso essa questo questa quello quella lui lei ele ela eles elas isto isso \
hij zij ze het dit dat deze die on ona ono oni ten ta to те он она оно они это этот эта bu o onlar şu";

/// Returns whether a lower-case word is a stop word in any language.
pub(super) fn is_stop_word(word: &str) -> bool {
    is_stop_word_in(None, word)
}

/// Returns whether a lower-case word is a stop word beside a question in this language.
pub(super) fn is_stop_word_in(language: Option<Language>, word: &str) -> bool {
    function_words::is_function_word_in(language, word) || REQUEST_WORDS.contains(&word)
}

/// Returns the language of a question; `None` if it is unclear, or none of the ten.
pub(super) fn question_language(question: &str) -> Option<Language> {
    let lower = question.to_lowercase();
    function_words::detect_language(lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()))
}

/// Returns whether a lower-case word is a pronoun, which refers to the text before it.
pub(super) fn is_pronoun(word: &str) -> bool {
    PRONOUNS.split_whitespace().any(|it| vic_words::fold(it) == vic_words::fold(word))
}

/// Returns whether a question is German. In German every noun has a capital, so a capital does not mean a name.
pub(super) fn is_german(question: &str) -> bool {
    let first = question.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    question_language(question) == Some(Language::German)
        || matches!(first.as_str(), "wer" | "wann" | "wo" | "wie" | "warum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_those_of_the_language() {
        assert!(is_stop_word("the") && is_stop_word("find") && is_stop_word("combien") && !is_stop_word("rent"));
        assert!(is_stop_word_in(Some(Language::German), "die") && !is_stop_word_in(Some(Language::English), "die"));
        assert_eq!(question_language("Wie hoch ist die Miete?"), Some(Language::German));
        assert_eq!(question_language("rent 2024"), None);
    }

    #[test]
    fn is_pronoun_knows_pronouns_only() {
        assert!(is_pronoun("it") && is_pronoun("sie") && !is_pronoun("boat") && !is_pronoun(""));
    }

    #[test]
    fn is_german_distinguishes_english() {
        assert!(is_german("Wann wurde die Heizung gewartet?"));
        assert!(!is_german("When did the die roll?"));
    }
}
