//! Words, stems and sentences of a text.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Words that say nothing of a topic.
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

/// Abbreviations after which no sentence ends.
const ABBREVIATIONS: &[&str] = &[
    "al", "approx", "cf", "ch", "co", "dr", "e.g", "ed", "eds", "eq", "fig", "i.e", "inc", "jr", "ltd", "mr", "mrs",
    "ms", "no", "p", "pp", "prof", "ref", "sec", "sect", "sr", "st", "tab", "vol", "vs",
];

/// Bytes of the numbers of the notes in one pair of brackets.
const LONGEST_NOTE: usize = 100;

/// Says whether a word says nothing of a topic.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Returns the stem of a word.
pub(crate) fn stem(word: &str) -> String {
    STEMMER.stem(&word.to_lowercase()).into_owned()
}

/// Returns the words of a text with their bytes.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.unicode_word_indices().map(|(at, word)| (at..at + word.len(), word))
}

/// Returns the stems of the words that say something, in order.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let telling = words(text).map(|it| it.1.to_lowercase()).filter(|it| !is_stop_word(it));
    telling.map(|it| STEMMER.stem(&it).into_owned()).collect()
}

/// Counts the stems of a text that say something; single letters and bare numbers do not.
pub(crate) fn terms(text: &str) -> BTreeMap<String, u32> {
    let mut terms = BTreeMap::new();
    for stem in stems(text) {
        if stem.chars().count() > 1 && stem.chars().any(char::is_alphabetic) {
            *terms.entry(stem).or_default() += 1;
        }
    }
    terms
}

/// Returns the sentences of a paragraph. A line break ends none; an empty line does.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices() {
        let after = at + mark.len_utf8();
        let ends = match mark {
            '.' | '!' | '?' => ends_sentence(text, at, after),
            '\n' => text[after..].trim_start_matches([' ', '\t', '\r']).starts_with('\n'),
            _ => false,
        };
        if ends {
            let end = after + closing(&text[after..]);
            push_trimmed(text, start..end, &mut found);
            start = end;
        }
    }
    push_trimmed(text, start.min(text.len())..text.len(), &mut found);
    found
}

/// Bytes of the quotation marks and brackets that close behind a sentence, and of the numbers of notes there.
fn closing(rest: &str) -> usize {
    let mut left = rest.trim_start_matches(['"', '”', '’', ')', ']', '*', '_']);
    let note = |left: &str| {
        let inner = left.strip_prefix('[')?;
        // A bracket that nothing closes would be looked through to the end of the text, again and again.
        inner[..inner.floor_char_boundary(LONGEST_NOTE)].find(']')
    };
    while let Some(length) = note(left) {
        let (number, after) = (&left[1..=length], &left[length + 2..]);
        if number.is_empty() || !number.chars().all(|it| it.is_ascii_digit() || matches!(it, ',' | ' ' | '-' | '–')) {
            break;
        }
        left = after;
    }
    rest.len() - left.len()
}

fn ends_sentence(text: &str, at: usize, after: usize) -> bool {
    let rest = &text[after + closing(&text[after..])..];
    let Some(next) = rest.chars().next() else { return true };
    if !next.is_whitespace() {
        return false;
    }
    let last = text[..at].rsplit(|it: char| it.is_whitespace() || it == '(').next().unwrap_or_default();
    let last = last.trim_end_matches('.').to_lowercase();
    if text[at..].starts_with('.') && (ABBREVIATIONS.contains(&last.as_str()) || is_initial(&text[..at])) {
        return false;
    }
    let first = rest.trim_start().chars().next();
    first.is_none_or(|it| !it.is_lowercase() && !matches!(it, ',' | ';'))
}

/// A single capital letter before the dot: `J. Smith`.
fn is_initial(before: &str) -> bool {
    let mut letters = before.chars().rev();
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_none_or(|it| it.is_whitespace() || it == '.')
}

fn push_trimmed(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    let start = range.start + piece.len() - piece.trim_start().len();
    let end = start + piece.trim().len();
    if end > start {
        found.push(start..end);
    }
}

/// Returns a text on one line, at most so many characters of it.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line,
    }
}

/// Share of the stems that two lists have in common, 0 to 1.
pub(crate) fn overlap(a: &[String], b: &[String]) -> f64 {
    let (a, b): (std::collections::BTreeSet<_>, std::collections::BTreeSet<_>) =
        (a.iter().collect(), b.iter().collect());
    let union = a.union(&b).count();
    if union == 0 { 0.0 } else { a.intersection(&b).count() as f64 / union as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted_so_that_they_are_found() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("tide"));
    }

    #[test]
    fn a_sentence_does_not_end_after_an_abbreviation_or_inside_a_number() {
        let text = "Smith et al. (2019) found 3.5 m, cf. Fig. 2. J. Moor agreed! \"Did he?\" He did.";
        let found: Vec<&str> = sentences(text).into_iter().map(|it| &text[it]).collect();
        assert_eq!(
            found,
            ["Smith et al. (2019) found 3.5 m, cf. Fig. 2.", "J. Moor agreed!", "\"Did he?\"", "He did."]
        );
    }

    #[test]
    fn the_number_of_a_note_stays_with_the_sentence_before_it() {
        let text = "Ice moves.[1] It melts.[2][3] It is gone.[sic] Then rain.";
        let found: Vec<&str> = sentences(text).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["Ice moves.[1]", "It melts.[2][3]", "It is gone.[sic] Then rain."]);
    }

    #[test]
    fn brackets_that_nothing_closes_cost_no_more_than_other_marks() {
        let text = ".[".repeat(1_000_000);
        let begun = std::time::Instant::now();
        assert_eq!(sentences(&text).len(), 1);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_line_break_ends_no_sentence_and_an_empty_line_does() {
        let text = "One line\nand another\n\nNext";
        let found: Vec<&str> = sentences(text).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["One line\nand another", "Next"]);
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        assert_eq!(stems("The networks are networking"), ["network", "network"]);
        assert!((overlap(&stems("tide gauge drift"), &stems("drift of gauges")) - 2.0 / 3.0).abs() < 1e-9);
    }
}
