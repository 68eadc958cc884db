//! Selects the excerpt of a passage: the sentences that show best why the passage matched. Pure functions.

use std::collections::HashSet;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::ask::numbers;
use crate::text::{self, function_words};

/// Maximum length of an excerpt in characters.
const EXCERPT_CHARS: usize = 420;

/// Minimum length in bytes of a word that also matches its inflected forms; a shorter word matches only itself.
const MIN_INFLECTED_BYTES: usize = 4;

/// Maximum length, in bytes, of the ending of an inflected form, such as `s`, `ed` or `ing`. With a longer ending, the form
/// counts as another word.
const MAX_ENDING_BYTES: usize = 3;

/// Returns whether a lower-case word is a function word, such as `the`; excerpts and content words ignore these words.
pub(super) fn is_function_word(word: &str) -> bool {
    function_words::is_function_word(word) || word == "show"
}

/// Returns the content words of a question in order: lower case, numbers in one notation, without duplicates.
pub(crate) fn content_words(question: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let plain = numbers::canonical_numbers(question);
    let mut words: Vec<String> =
        plain.unicode_words().map(|it| vic_words::fold(it).into_owned()).filter(|it| !it.is_empty()).collect();
    let language = function_words::detect_language(words.iter().map(String::as_str));
    let is_function = |it: &str| function_words::is_function_word_in(language, it) || it == "show";
    let meaningful = words.iter().any(|it| !is_function(it));
    words.retain(|it| !(meaningful && is_function(it)) && seen.insert(it.clone()));
    words
}

/// Returns those of `words` that occur in a text, in the order of `words`. A word also matches with a short ending added:
/// `contract` matches `contracts`.
pub(crate) fn words_present<'a>(words: &'a [String], text: &str) -> Vec<&'a str> {
    let text = numbers::canonical_numbers(text);
    let text = vic_words::fold(&text);
    // Rejects most words by a byte search first, because splitting the text into words takes much longer, and most passages
    // contain few of the words.
    let may_stand = |word: &&str| memchr::memmem::find(text.as_bytes(), stable_prefix(word).as_bytes()).is_some();
    let possible: Vec<&str> = words.iter().map(String::as_str).filter(may_stand).collect();
    let mut missing = possible.clone();
    if !missing.is_empty() {
        for present in text.unicode_words() {
            missing.retain(|word| !same_word(word, present));
            if missing.is_empty() {
                break;
            }
        }
    }
    possible.into_iter().filter(|it| !missing.contains(it)).collect()
}

fn same_word(wanted: &str, present: &str) -> bool {
    let (short, long) = if wanted.len() <= present.len() { (wanted, present) } else { (present, wanted) };
    let is_inflected = || short.len() >= MIN_INFLECTED_BYTES && long.len() - short.len() <= MAX_ENDING_BYTES;
    short == long || (is_inflected() && long.starts_with(short))
}

/// Returns the beginning of a word that all its inflected forms share.
fn stable_prefix(word: &str) -> &str {
    let least = word.len().saturating_sub(MAX_ENDING_BYTES).max(MIN_INFLECTED_BYTES);
    &word[..word.floor_char_boundary(least)]
}

/// Returns the byte ranges of the sentences of `text` that contain a letter or digit.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut ranges = text::sentences(text);
    ranges.retain(|range| text[range.clone()].contains(char::is_alphanumeric));
    ranges
}

/// Returns the byte range of the sentence that has most of the words, without surrounding spaces. If no sentence has any,
/// returns the first one; for a text without letters, an empty range.
pub(crate) fn best_sentence(words: &[String], text: &str) -> Range<usize> {
    let ranges = sentences(text);
    let Some(range) = ranges.get(best_sentence_index(words, text, &ranges)) else { return 0..0 };
    let sentence = &text[range.clone()];
    let start = range.start + sentence.len() - sentence.trim_start().len();
    start..start + sentence.trim().len()
}

fn best_sentence_index(words: &[String], text: &str, ranges: &[Range<usize>]) -> usize {
    let mut best = (0, 0);
    for (index, range) in ranges.iter().enumerate() {
        let count = words_present(words, &text[range.clone()]).len();
        if count > best.1 {
            best = (index, count);
        }
    }
    best.0
}

/// Returns the byte range of the excerpt of a passage: the sentence with most of the words, and as many neighbours as fit.
pub(crate) fn excerpt(words: &[String], text: &str) -> Range<usize> {
    let ranges = sentences(text);
    if ranges.is_empty() {
        return 0..0;
    }
    expand_to_window(text, &ranges, best_sentence_index(words, text, &ranges))
}

/// Returns the byte range of an excerpt around a byte: the sentence at this byte, and as many neighbours as fit.
pub(crate) fn excerpt_at(text: &str, byte: usize) -> Range<usize> {
    let ranges = sentences(text);
    let best = ranges.partition_point(|it| it.end <= byte);
    if best == ranges.len() { 0..0 } else { expand_to_window(text, &ranges, best) }
}

fn expand_to_window(text: &str, ranges: &[Range<usize>], best: usize) -> Range<usize> {
    let (mut first, mut last) = (best, best);
    let chars = |range: Range<usize>| text[range].chars().count();
    loop {
        let after = last + 1 < ranges.len() && chars(ranges[first].start..ranges[last + 1].end) <= EXCERPT_CHARS;
        last += usize::from(after);
        let before = first > 0 && chars(ranges[first - 1].start..ranges[last].end) <= EXCERPT_CHARS;
        first -= usize::from(before);
        if !after && !before {
            break;
        }
    }
    let range = ranges[first].start..ranges[last].end;
    let end = text[range.clone()].char_indices().nth(EXCERPT_CHARS).map_or(range.end, |(at, _)| range.start + at);
    range.start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str) -> String {
        let words = content_words(question);
        text[excerpt(&words, text)].trim().to_string()
    }

    #[test]
    fn excerpt_of_long_passage_surrounds_best_sentence() {
        let filler = "Nothing to see in this sentence at all, move along. ".repeat(20);
        let text = format!("{filler}The lease was signed by Ada Quill. {filler}");
        let excerpt = check("who signed the lease?", &text);
        assert!(excerpt.contains("signed by Ada Quill"));
        assert!(excerpt.chars().count() <= EXCERPT_CHARS);
    }

    #[test]
    fn overlong_sentence_is_cut_at_char_boundary() {
        let text = "ü".repeat(2_000);
        assert_eq!(check("x", &text).chars().count(), EXCERPT_CHARS);
    }

    #[test]
    fn million_blanks_after_full_stop_stay_linear() {
        let text = format!("The lease.{}Signed by Ada Quill.", " ".repeat(1_000_000));
        let begun = std::time::Instant::now();
        assert_eq!(check("who signed?", &text), "Signed by Ada Quill.");
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn content_words_fall_back_to_function_words() {
        assert_eq!(content_words("who signed the lease"), ["signed", "lease"]);
        assert_eq!(content_words("to be or not to be"), ["to", "be", "or", "not"]);
        assert_eq!(content_words("who is it"), ["who", "is", "it"]);
    }

    #[test]
    fn function_words_are_those_of_the_language_of_the_question() {
        assert_eq!(content_words("Wie hoch ist die Miete?"), ["hoch", "miete"]);
        assert_eq!(content_words("the die casting of the war"), ["die", "casting", "war"]);
        assert_eq!(content_words("Combien coûte le loyer du hangar ?"), ["coute", "loyer", "hangar"]);
        assert_eq!(content_words("¿Cuánto cuesta el alquiler de la casa?"), ["cuesta", "alquiler", "casa"]);
        assert_eq!(content_words("Quanto costa l\u{2019}affitto della casa?"), ["costa", "l\u{2019}affitto", "casa"]);
    }

    #[test]
    fn numbers_match_across_notations() {
        let words = content_words("5kg for 1 234,56 EUR");
        assert_eq!(words, ["5", "kg", "1234.56", "eur"]);
        assert_eq!(words_present(&words, "A bag of 5 kg costs 1,234.56 EUR."), words);
    }

    #[test]
    fn inflected_word_matches_its_base_form() {
        let words = content_words("contract signature");
        assert_eq!(words_present(&words, "Both contracts bear a sign."), ["contract"]);
    }

    #[test]
    fn words_present_agrees_with_word_by_word_search() {
        let text = "It's the Größen of contracted übers, i.e. sign; a designer. Weg";
        for word in [
            "contracts",
            "contract",
            "contracting",
            "grosse",
            "grossen",
            "uber",
            "ubersee",
            "sign",
            "its",
            "weg",
            "wegen",
        ] {
            let words = [word.to_string()];
            let stands = vic_words::fold(text).unicode_words().any(|present| same_word(word, present));
            assert_eq!(!words_present(&words, text).is_empty(), stands, "{word}");
        }
        assert!(words_present(&["sign".into(), "resign".into()], "a designer").is_empty());
    }
}
