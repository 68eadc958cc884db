//! Splits texts into words, and reduces words to their stems.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Words that say nothing about the topic of an English text. Not the function words of `vic_words`: the stems of stored
/// documents and the results of verbs depend on this list, and words such as `use`, `must` or `two` have content in questions.
const STOP_WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did", "do", "does", "each",
    "for", "from", "had", "has", "have", "he", "her", "here", "his", "how", "i", "if", "in", "into", "is", "it", "its",
    "just", "may", "might", "more", "most", "must", "my", "no", "not", "of", "off", "on", "once", "one", "only", "or",
    "other", "our", "out", "over", "own", "per", "same", "she", "should", "so", "some", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "two", "under",
    "until", "up", "use", "used", "using", "very", "was", "we", "were", "what", "when", "where", "which", "while",
    "who", "why", "will", "with", "would", "you", "your",
];

/// Returns whether a word says nothing about the topic of a text.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Returns the stem of a word.
pub(crate) fn stem(word: &str) -> String {
    STEMMER.stem(&word.to_lowercase()).into_owned()
}

/// Returns the words of a text with their byte ranges.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.unicode_word_indices().map(|(at, word)| (at..at + word.len(), word))
}

/// Returns the stems of a text in order, without stop words.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let telling = words(text).map(|it| it.1.to_lowercase()).filter(|it| !is_stop_word(it));
    telling.map(|it| STEMMER.stem(&it).into_owned()).collect()
}

/// Counts the stems of a text, without stop words, single letters and bare numbers.
pub(crate) fn terms(text: &str) -> BTreeMap<String, u32> {
    let mut terms = BTreeMap::new();
    for stem in stems(text) {
        if stem.chars().count() > 1 && stem.chars().any(char::is_alphabetic) {
            *terms.entry(stem).or_default() += 1;
        }
    }
    terms
}

/// Returns a text on one line, truncated to `most` characters.
pub(crate) fn truncate_to_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line,
    }
}

/// Returns a key in the form used for lookups: lower case, words joined by `_`.
pub(crate) fn normalize_key(text: &str) -> String {
    let words: Vec<String> = words(&text.replace(['_', '-'], " ")).map(|it| it.1.to_lowercase()).collect();
    words.join("_")
}

/// Returns the Jaccard similarity of two lists of stems, 0 to 1.
pub(crate) fn jaccard(a: &[String], b: &[String]) -> f64 {
    let (a, b): (std::collections::BTreeSet<_>, std::collections::BTreeSet<_>) =
        (a.iter().collect(), b.iter().collect());
    let union = a.union(&b).count();
    if union == 0 { 0.0 } else { a.intersection(&b).count() as f64 / union as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("tide"));
    }

    #[test]
    fn word_forms_share_a_stem() {
        assert_eq!(stems("The networks are networking"), ["network", "network"]);
        assert!((jaccard(&stems("tide gauge drift"), &stems("drift of gauges")) - 2.0 / 3.0).abs() < 1e-9);
    }
}
