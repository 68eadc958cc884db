//! Normalizes words for comparison, and finds the longest run of consecutive words that a question and a passage share. Pure
//! functions; `rerank` uses the run to score passages.

use crate::ask::numbers;

/// Minimum number of words in a shared run; shorter runs are often accidental. Two suffice for a question of two words.
const MIN_RUN_WORDS: usize = 3;

/// Returns the normalized words of a text: folded, numbers in one notation, without apostrophes.
pub(crate) fn words(text: &str) -> Vec<String> {
    split_words(&normalize(text)).map(str::to_owned).collect()
}

/// Returns the normalized words of a phrase, or of a text that may contain one. As [`words`], but of scripts without blanks
/// between words the single characters.
pub(crate) fn phrase_words(text: &str) -> Vec<String> {
    vic_words::exact_words(&normalize(text)).into_iter().map(str::to_owned).collect()
}

/// Normalizes a text for [`split_words`]. Allocates one string for the whole text rather than one for each word.
pub(super) fn normalize(text: &str) -> String {
    /// First byte of the curly apostrophe.
    const CURLY: u8 = 0xe2;
    let text = numbers::canonical_numbers(text);
    // Searches bytes, which is much faster than a search for characters.
    match memchr::memchr2(b'\'', CURLY, text.as_bytes()) {
        None => vic_words::fold(&text).into_owned(),
        Some(_) => vic_words::fold(&text.replace(['\'', '\u{2019}'], "")).into_owned(),
    }
}

/// Returns the words of a text that was [normalized](normalize).
pub(super) fn split_words(plain: &str) -> impl Iterator<Item = &str> {
    vic_words::matching_words(plain).into_iter()
}

/// Returns the comparison key of a word: its first six letters, so that most endings do not matter. A word that contains a
/// digit is its own key.
pub(super) fn word_key(word: &str) -> &str {
    const LETTERS: usize = 6;
    if word.bytes().any(|it| it.is_ascii_digit()) {
        return word;
    }
    word.char_indices().nth(LETTERS).map_or(word, |(end, _)| &word[..end])
}

/// Returns a comparison key that lacks the endings of the word: `stand` for `stands` and `standing`. Better than `word_key`
/// for selecting sentences, but slightly worse for ranking files (measured).
pub(super) fn word_stem(word: &str) -> &str {
    const LEAST: usize = 3;
    /// Endings of English, German, French and Spanish. They are stripped until none is left, so that a word with several
    /// endings has the same stem.
    const ENDINGS: [&str; 6] = ["ing", "ed", "es", "en", "e", "s"];
    if word.bytes().any(|it| it.is_ascii_digit()) {
        return word;
    }
    let is_long = |it: &&str| it.chars().nth(LEAST - 1).is_some();
    let mut stem = word;
    while let Some(shorter) = ENDINGS.iter().filter_map(|it| stem.strip_suffix(it)).find(is_long) {
        stem = shorter;
    }
    word_key(stem)
}

/// The set of first bytes of some words. A cheap check against this set rejects most words of a passage, because few of
/// them are in the question.
pub(super) struct FirstBytes([bool; 256]);

impl FirstBytes {
    /// Builds the set of the first bytes of `words`.
    pub(super) fn from_words(words: &[String]) -> FirstBytes {
        let mut starts = [false; 256];
        words.iter().filter_map(|it| it.bytes().next()).for_each(|it| starts[usize::from(it)] = true);
        FirstBytes(starts)
    }

    /// Returns whether a word begins like one of the words that the set was built from.
    pub(super) fn may_contain(&self, word: &str) -> bool {
        word.bytes().next().is_some_and(|it| self.0[usize::from(it)])
    }
}

/// Returns the length of the longest shared run as a fraction of the question, 0 to 1; 0 if the run is too short to count.
pub(super) fn shared_run_share(question: &[String], passage: &[&str]) -> f32 {
    let run = longest_run(question, passage);
    let counts = question.len() >= 2 && run >= MIN_RUN_WORDS.min(question.len());
    if counts { run as f32 / question.len() as f32 } else { 0.0 }
}

/// Returns the number of words in the longest run that question and passage share. Time grows with the product of both
/// lengths, memory with the length of the question, so words of the question beyond the 64th are ignored.
fn longest_run(question: &[String], passage: &[&str]) -> usize {
    const MOST_WORDS: usize = 64;
    let question = &question[..question.len().min(MOST_WORDS)];
    // runs[i + 1] is the length of the run that ends at question word i and at the last compared passage word.
    let mut runs = vec![0; question.len() + 1];
    let mut longest = 0;
    let starts = FirstBytes::from_words(question);
    for word in passage {
        if !starts.may_contain(word) {
            runs.fill(0);
            continue;
        }
        for at in (0..question.len()).rev() {
            runs[at + 1] = if question[at] == *word { runs[at] + 1 } else { 0 };
            longest = longest.max(runs[at + 1]);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, passage: &str) -> f32 {
        let passage = normalize(passage);
        shared_run_share(&words(question), &split_words(&passage).collect::<Vec<_>>())
    }

    #[test]
    fn share_is_one_for_whole_question_and_less_for_a_part() {
        assert_eq!(check("they're the ones who see", "Here's to the crazy ones. Theyre the ones who see things."), 1.0);
        assert_eq!(check("they're the ones who see", "The ones who came late."), 0.6);
    }

    #[test]
    fn plain_removes_apostrophes_only() {
        assert_eq!(normalize("Ada\u{2019}s \u{2013} it's"), "adas \u{2013} its");
        assert_eq!(normalize("Nothing TO do"), "nothing to do");
    }

    #[test]
    fn words_unify_number_notations() {
        assert_eq!(words("5kg for 1.234,56 EUR"), words("5 kg for 1,234.56 EUR"));
        assert_eq!(check("1234.56 EUR", "The offer is 1,234.56 EUR."), 1.0);
    }

    #[test]
    fn word_with_same_prefix_ends_a_run() {
        assert_eq!(check("one two three four", "one two thirteen three four"), 0.0);
        assert_eq!(check("one two three four", "zero one two three, and four"), 0.75);
    }

    #[test]
    fn inflected_words_share_a_stem() {
        for (a, b) in
            [("stand", "stands"), ("mend", "mending"), ("gauge", "gauges"), ("order", "ordered"), ("woche", "wochen")]
        {
            assert_eq!(word_stem(a), word_stem(b));
        }
        assert_ne!(word_stem("pay"), word_stem("paper"));
        assert_eq!((word_stem("sing"), word_stem("as"), word_stem("mp3s"), word_stem("")), ("sing", "as", "mp3s", ""));
    }

    #[test]
    fn short_run_scores_zero() {
        assert_eq!(check("where is the harbour office now", "the harbour is closed; the office moved"), 0.0);
        assert_eq!(check("harbour", "harbour"), 0.0);
    }

    #[test]
    fn two_word_phrase_counts_only_as_a_whole() {
        assert_eq!(check("quince jelly", "A recipe for Quince-Jelly."), 1.0);
        assert_eq!(check("quince jelly", "jelly of quince"), 0.0);
    }
}
