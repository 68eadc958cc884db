//! Splits file names into words and folds them, so that `Übersicht`, `übersicht` and `ubersicht` are equal.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Characters of a word beyond this number are dropped; a file name has at most 255 bytes.
const MAX_CHARS: usize = 255;

/// A word of a file name: a sequence of letters and digits, lower case and without accents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameWord {
    /// The whole sequence: `winterledger2024` for `WinterLedger2024`.
    pub whole: String,
    /// The words in the sequence, if there are several: `winter`, `ledger`, `2024`. In scripts without blanks between
    /// words, every pair of adjacent characters.
    pub parts: Vec<String>,
}

/// Class of a character; a word boundary lies between two characters of different classes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Digit,
    Upper,
    Letter,
    /// A letter of a script without blanks between words.
    Unspaced,
}

/// Splits a file name, or a question about file names, into words.
pub fn name_words(text: &str) -> Vec<NameWord> {
    let plain: String = text.nfkc().collect();
    let plain = plain.replace("'s ", " ").replace("\u{2019}s ", " ");
    let separates = |it: char| !it.is_alphanumeric() && !is_combining_mark(it);
    plain.split(separates).filter(|it| it.contains(char::is_alphanumeric)).map(split_run).collect()
}

fn char_class(it: char) -> Class {
    let code = u32::from(it);
    // Unicode ranges of scripts without blanks between words: Thai to Khmer, kana, and ideographs, including those of
    // planes 2 and 3.
    let unspaced = matches!(code, 0xe00..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff);
    if it.is_numeric() {
        Class::Digit
    } else if unspaced {
        Class::Unspaced
    } else if it.is_uppercase() {
        Class::Upper
    } else {
        Class::Letter
    }
}

fn split_run(run: &str) -> NameWord {
    let chars: Vec<char> = run.chars().take(MAX_CHARS).collect();
    let whole = vic_words::fold(&chars.iter().collect::<String>()).into_owned();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..=chars.len() {
        if at < chars.len() && !is_boundary(&chars, at) {
            continue;
        }
        let part = &chars[start..at];
        start = at;
        if char_class(part[0]) == Class::Unspaced && part.len() > 1 {
            parts.extend(part.windows(2).map(|it| vic_words::fold(&it.iter().collect::<String>()).into_owned()));
        } else {
            parts.push(vic_words::fold(&part.iter().collect::<String>()).into_owned());
        }
    }
    if parts.len() == 1 {
        parts.clear();
    }
    NameWord { whole, parts }
}

/// Returns whether a word begins at this index, which is at least 1.
fn is_boundary(chars: &[char], at: usize) -> bool {
    let (before, here) = (char_class(chars[at - 1]), char_class(chars[at]));
    // `PDFReport` is split into `PDF` and `Report`.
    let begins = |next: &char| before == Class::Upper && here == Class::Upper && char_class(*next) == Class::Letter;
    match (before, here) {
        (Class::Letter, Class::Upper) => true,
        (Class::Upper, Class::Letter) => false,
        (before, here) => before != here || chars.get(at + 1).is_some_and(begins),
    }
}

/// Returns how similar `wanted` is to the best of these words (sorted): 1 for the same word, also with another ending;
/// less for a word that only begins with it; 0 for no match.
pub(super) fn similarity(wanted: &NameWord, words: &[&str]) -> f32 {
    let whole = word_similarity(&wanted.whole, words);
    if whole >= 1.0 || wanted.parts.len() < 2 {
        return whole;
    }
    let parts = wanted.parts.iter().map(|it| word_similarity(it, words)).fold(1.0, f32::min);
    whole.max(parts)
}

fn word_similarity(wanted: &str, words: &[&str]) -> f32 {
    /// Similarity of a word in a name that only begins with the wanted word.
    const BEGINNING: f32 = 0.7;
    /// Maximum length, in bytes, of an ending that does not lower the similarity.
    const ENDING: usize = 2;
    if words.binary_search(&wanted).is_ok() || without_ending(wanted).any(|it| words.binary_search(&it).is_ok()) {
        return 1.0;
    }
    let next = words.get(words.partition_point(|it| *it < wanted));
    match next.filter(|it| allows_prefix(wanted) && it.starts_with(wanted)) {
        Some(it) if it.len() - wanted.len() <= ENDING => 1.0,
        Some(_) => BEGINNING,
        None => 0.0,
    }
}

/// Returns whether a word is long enough, and not a number, so that it may match as a prefix.
pub(super) fn allows_prefix(word: &str) -> bool {
    word.len() >= 4 && !word.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the word with each of the most frequent German and English endings appended.
pub(super) fn with_endings(word: &str) -> impl Iterator<Item = String> {
    let is_plain = word.len() >= 3 && word.bytes().all(|it| it.is_ascii_lowercase());
    ["s", "es", "n", "en", "e", "er"].into_iter().filter(move |_| is_plain).map(move |it| format!("{word}{it}"))
}

/// Returns the word without its last letter and without its last two letters, which may be endings: `ledger` for
/// `ledgers`.
pub(super) fn without_ending(word: &str) -> impl Iterator<Item = &str> {
    let is_plain = word.bytes().all(|it| it.is_ascii_lowercase());
    (1..=2).filter(move |it| is_plain && word.len() >= 4 + it).map(|it| &word[..word.len() - it])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let words = name_words(text);
        let all: Vec<&str> =
            words.iter().flat_map(|it| std::iter::once(&it.whole).chain(&it.parts)).map(|it| &**it).collect();
        assert_eq!(all, expected, "{text}");
    }

    #[test]
    fn name_is_split_at_case_digits_and_separators() {
        check("tariff-register_omega.txt", &["tariff", "register", "omega", "txt"]);
        check("WinterLedger2024", &["winterledger2024", "winter", "ledger", "2024"]);
        check("PDFReport", &["pdfreport", "pdf", "report"]);
        check("IMG_20240315", &["img", "20240315"]);
        check("契約書2024", &["契約書2024", "契約", "約書", "2024"]);
        check("Ada's notes", &["ada", "notes"]);
        check("…", &[]);
    }

    #[test]
    fn accents_case_and_composition_are_folded() {
        for (name, word) in [
            ("Übersicht", "ubersicht"),
            ("U\u{308}bersicht", "ubersicht"),
            ("résumé", "resume"),
            ("Özgeçmiş", "ozgecmis"),
            ("Straße", "strasse"),
            ("STRASSE", "strasse"),
            ("İzmir", "izmir"),
            ("αποθήκη", "αποθηκη"),
            ("й", "й"),
            ("हिन्दी", "हिन्दी"),
            ("한글", "한글"),
        ] {
            assert_eq!(name_words(name)[0].whole, word, "{name}");
        }
    }

    #[test]
    fn endings_match_fully_and_prefixes_less() {
        let like = |wanted: &str, words: &[&str]| similarity(&name_words(wanted)[0], words);
        assert_eq!(like("ledgers", &["ledger", "winter"]), 1.0);
        assert_eq!(like("ledger", &["ledgers"]), 1.0);
        assert_eq!(like("note", &["notebook"]), 0.7);
        assert_eq!(like("not", &["notebook"]), 0.0);
        assert_eq!(like("2024", &["20240315"]), 0.0);
        assert_eq!(like("WinterLedger", &["ledger", "winter"]), 1.0);
        assert_eq!(like("omega", &["alpha", "omicron"]), 0.0);
    }
}
