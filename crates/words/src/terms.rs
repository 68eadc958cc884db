//! The terms of the keyword index: which terms a passage has, and which terms a question looks for.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crate::folding::fold;
use crate::function_words::languages_of;
use crate::language::Language;
use crate::segment::{SegmentKind, dictionary_words, segments};
use crate::stem::{stem, stems};

/// Maximum length of a term in bytes. A longer word, such as a hash or an encoded picture, becomes its beginning and a hash of
/// the whole, so that it is found as a whole.
const MAX_TERM_BYTES: usize = 64;
/// Number of bytes of a longer word that its term begins with.
const LONG_TERM_PREFIX: usize = 32;
/// Maximum number of words that one identifier is split into.
const MAX_PARTS: usize = 16;

/// One word of a text with the other forms under which it is found.
struct TextWord<'t> {
    /// The folded word.
    folded: Cow<'t, str>,
    /// The folded word as it is typed without umlauts: `buero`.
    spelled_out: Option<String>,
    /// Whether it is a word of a language, which has a stem: not a pair of characters, and not a whole identifier.
    has_stem: bool,
    /// Whether questions look for it only if they have nothing more specific: a single character of Chinese.
    is_character: bool,
    /// Whether another text may split the same characters into other words: Thai.
    is_guess: bool,
}

impl<'t> TextWord<'t> {
    /// Makes a word that is looked for as it is.
    fn whole(folded: Cow<'t, str>) -> TextWord<'t> {
        TextWord { folded, spelled_out: None, has_stem: false, is_character: false, is_guess: false }
    }

    /// Makes a word that has a stem.
    fn with_stem(folded: Cow<'t, str>) -> TextWord<'t> {
        TextWord { has_stem: true, ..TextWord::whole(folded) }
    }
}

/// Returns for each passage of a file its terms for the keyword index, in the order of the text, with repetitions.
///
/// A passage whose own words do not tell its language is taken to be in the language of most other passages. If none tells
/// it, words in Latin letters get the stems of English.
pub fn passage_terms<'t>(passages: impl IntoIterator<Item = &'t str>) -> Vec<Vec<String>> {
    let passages: Vec<_> = passages.into_iter().map(text_words).collect();
    let languages: Vec<Option<Language>> = passages.iter().map(|it| language_of(it)).collect();
    let usual = most_frequent(languages.iter().flatten().copied());
    passages.iter().zip(languages).map(|(words, own)| index_terms(words, own.or(usual))).collect()
}

/// Returns the language of most of these passages, if their words tell it.
pub fn passages_language<'t>(passages: impl IntoIterator<Item = &'t str>) -> Option<Language> {
    most_frequent(passages.into_iter().filter_map(|it| language_of(&text_words(it))))
}

fn most_frequent(languages: impl Iterator<Item = Language>) -> Option<Language> {
    let mut counts = BTreeMap::<Language, usize>::new();
    languages.for_each(|it| *counts.entry(it).or_default() += 1);
    counts.into_iter().max_by_key(|it| it.1).map(|it| it.0)
}

fn language_of(words: &[TextWord<'_>]) -> Option<Language> {
    Language::detect(words.iter().filter(|it| it.has_stem).map(|it| it.folded.as_ref()))
}

/// Returns the terms of the words of a passage in a language.
fn index_terms(words: &[TextWord<'_>], language: Option<Language>) -> Vec<String> {
    let stems = language.unwrap_or(Language::English);
    let is_left_out =
        |word: &TextWord<'_>| word.has_stem && language.is_some_and(|it| languages_of(&word.folded) & it.bit() != 0);
    let mut terms = Vec::with_capacity(words.len());
    for word in words.iter().filter(|it| !is_left_out(it)) {
        match word.has_stem {
            true => terms.push(bounded(stem(&word.folded, stems))),
            false => terms.push(bounded(Cow::Borrowed(&word.folded))),
        }
        terms.extend(word.spelled_out.as_ref().map(|it| bounded(stem(it, stems))));
    }
    terms
}

/// Returns the terms that a question looks for in the keyword index, without repetitions: for each word its stems in all
/// `languages`. Function words of the question's language are left out.
pub fn question_terms(question: &str, languages: &[Language]) -> Vec<String> {
    let mut seen = HashSet::new();
    let terms = question_words(question, languages).into_iter().flatten();
    terms.filter(|it| seen.insert(it.clone())).collect()
}

/// Returns for each word of a question its terms; a passage with the word has at least one of them. See [`question_terms`].
fn question_words(question: &str, languages: &[Language]) -> Vec<Vec<String>> {
    let words = text_words(question);
    let folded = words.iter().filter(|it| it.has_stem).map(|it| it.folded.as_ref());
    let language = Language::detect_question(folded, languages);
    let is_left_out =
        |word: &TextWord<'_>| word.has_stem && language.is_some_and(|it| languages_of(&word.folded) & it.bit() != 0);
    let has_pairs = words.iter().any(|it| !it.has_stem && !it.is_character);
    let is_covered = |it: &TextWord<'_>| it.is_character && has_pairs;
    let wanted = words.iter().filter(|it| !is_left_out(it) && !is_covered(it));
    wanted.map(|it| terms_of(it, languages)).collect()
}

/// Returns for each word of a text its terms; every passage that has all the words has at least one term of each. Leaves out
/// words that the index of a passage may lack: function words of any language, and words of Thai and its like, which another
/// text may split differently.
pub fn required_words(text: &str) -> Vec<Vec<String>> {
    let words = text_words(text);
    let may_lack = |it: &TextWord<'_>| it.is_guess || (it.has_stem && languages_of(&it.folded) != 0);
    words.iter().filter(|it| !may_lack(it)).map(|it| terms_of(it, &Language::ALL)).collect()
}

/// Returns the terms of a word in these languages.
fn terms_of(word: &TextWord<'_>, languages: &[Language]) -> Vec<String> {
    let mut all = if word.has_stem { stems(&word.folded, languages) } else { vec![word.folded.clone().into_owned()] };
    all.extend(word.spelled_out.iter().flat_map(|it| stems(it, languages)));
    all.into_iter().map(|it| bounded(Cow::Owned(it))).collect()
}

/// Returns the words of a text, with the parts of identifiers and with the pairs of characters of scripts without blanks.
fn text_words(text: &str) -> Vec<TextWord<'_>> {
    let mut words = Vec::with_capacity(text.len() / 6);
    // The words of the identifier that is being read, `user-by_id`, and where it ends.
    let mut compound = Compound::default();
    for segment in segments(text) {
        let raw = &text[segment.range.clone()];
        match segment.kind {
            SegmentKind::Word => {
                if !compound.joins(text, segment.range.start) {
                    compound.finish(&mut words);
                }
                compound.end = segment.range.end;
                push_word(raw, &mut words, &mut compound);
            }
            SegmentKind::EastAsian => push_pairs(raw, &mut words),
            SegmentKind::SouthEastAsian => {
                let parts = dictionary_words(raw).map(|it| fold(&raw[it]));
                words.extend(parts.map(|it| TextWord { is_guess: true, ..TextWord::whole(it) }));
            }
        }
    }
    compound.finish(&mut words);
    // A letter that stands for vowel marks alone leaves nothing.
    words.retain(|it| !it.folded.is_empty());
    words
}

/// The words of an identifier or number whose parts are joined by a hyphen or an underscore.
#[derive(Default)]
struct Compound {
    joined: String,
    parts: usize,
    /// Where its last part ends in the text.
    end: usize,
}

impl Compound {
    /// Returns whether the word at `start` belongs to this compound: one hyphen or underscore stands between.
    fn joins(&self, text: &str, start: usize) -> bool {
        self.parts > 0
            && self.parts < MAX_PARTS
            && matches!(&text[self.end..start], "-" | "_" | "\u{2010}" | "\u{2011}")
    }

    /// Adds the whole compound to the words, if it has several parts.
    fn finish(&mut self, words: &mut Vec<TextWord<'_>>) {
        if self.parts > 1 {
            words.push(TextWord::whole(Cow::Owned(std::mem::take(&mut self.joined))));
        }
        self.joined.clear();
        self.parts = 0;
    }
}

/// Adds a word, and the words in it if it is written `likeThis`.
fn push_word<'t>(raw: &'t str, words: &mut Vec<TextWord<'t>>, compound: &mut Compound) {
    let folded = fold(raw);
    // A ligature may stand for several words.
    if !raw.is_ascii() && folded.contains(char::is_whitespace) {
        words.extend(folded.split_whitespace().map(|it| TextWord::with_stem(Cow::Owned(it.to_owned()))));
        return;
    }
    compound.joined.push_str(&folded);
    compound.parts += 1;
    let parts = camel_parts(raw);
    let has_parts = parts.len() > 1;
    words.push(TextWord { spelled_out: umlauts_spelled_out(raw), has_stem: !has_parts, ..TextWord::whole(folded) });
    if has_parts {
        let parts = parts.into_iter().filter(|it| it.len() > 1).map(fold);
        words.extend(parts.map(TextWord::with_stem));
    }
}

/// Splits a word before each capital that follows a small letter, and before the last capital of several: `XMLParser` has the
/// parts `XML` and `Parser`.
fn camel_parts(word: &str) -> Vec<&str> {
    if word.len() > MAX_TERM_BYTES || !word.bytes().any(|it| it.is_ascii_lowercase()) {
        return vec![word];
    }
    let bytes = word.as_bytes();
    let is_upper = |at: usize| bytes[at].is_ascii_uppercase();
    let is_start = |at: &usize| {
        let at = *at;
        let after_small = is_upper(at) && (bytes[at - 1].is_ascii_lowercase() || bytes[at - 1].is_ascii_digit());
        let before_small = is_upper(at) && is_upper(at - 1) && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        after_small || before_small
    };
    let (mut parts, mut start) = (Vec::new(), 0);
    for at in (1..bytes.len()).filter(is_start).take(MAX_PARTS) {
        parts.push(&word[start..at]);
        start = at;
    }
    parts.push(&word[start..]);
    parts
}

/// Returns a folded word with `ae`, `oe`, `ue` for its umlauts, as it is typed without such keys; `None` if it has none.
fn umlauts_spelled_out(raw: &str) -> Option<String> {
    if raw.is_ascii() || !raw.contains(['ä', 'ö', 'ü', 'Ä', 'Ö', 'Ü']) {
        return None;
    }
    let mut spelled = String::with_capacity(raw.len() + 4);
    for character in raw.chars() {
        match character {
            'ä' | 'Ä' => spelled.push_str("ae"),
            'ö' | 'Ö' => spelled.push_str("oe"),
            'ü' | 'Ü' => spelled.push_str("ue"),
            other => spelled.push(other),
        }
    }
    Some(fold(&spelled).into_owned())
}

/// Adds every pair of adjacent characters of a run, and every character.
fn push_pairs(raw: &str, words: &mut Vec<TextWord<'_>>) {
    let folded = fold(raw);
    let chars: Vec<char> = folded.chars().collect();
    for (at, character) in chars.iter().enumerate() {
        let single = TextWord::whole(Cow::Owned(character.to_string()));
        words.push(TextWord { is_character: true, ..single });
        if let Some(next) = chars.get(at + 1) {
            words.push(TextWord::whole(Cow::Owned(String::from_iter([*character, *next]))));
        }
    }
}

/// Returns a term of at most [`MAX_TERM_BYTES`] bytes.
fn bounded(term: Cow<'_, str>) -> String {
    if term.len() <= MAX_TERM_BYTES {
        return term.into_owned();
    }
    let prefix = &term[..term.floor_char_boundary(LONG_TERM_PREFIX)];
    format!("{prefix}~{:016x}", fnv1a(term.as_bytes()))
}

/// The 64-bit hash FNV-1a, which is the same in every version and on every machine, because terms are stored.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(text: &str) -> Vec<String> {
        passage_terms([text]).remove(0)
    }

    /// Returns whether a passage has at least one term of each word of a question.
    fn finds(question: &str, text: &str) -> bool {
        let terms: HashSet<String> = passage(text).into_iter().collect();
        let words = question_words(question, &Language::ALL);
        !words.is_empty() && words.iter().all(|word| word.iter().any(|it| terms.contains(it)))
    }

    #[test]
    fn english_words_are_stems_without_function_words() {
        assert_eq!(passage("The pumps of the cafés were pumping again: 1,234"), ["pump", "cafe", "pump", "1", "234"]);
    }

    #[test]
    fn words_are_found_across_case_accents_and_endings() {
        for (question, text) in [
            ("resume", "The résumé of Tamsin is in the folder of the office."),
            ("Beyonce", "Beyoncé sang"),
            ("zlutoucky", "žluťoučký kůň"),
            ("αποθηκη", "Η αποθήκη στο λιμάνι"),
            ("елка", "Ёлка стоит"),
            ("الفاتورة", "أرسلنا الفاتُورَة في مارس"),
            ("Izmir", "İzmir limanı"),
            ("Buero", "Das Büro ist im ersten Stock, und der Schlüssel ist dort."),
            ("Büro", "Buero im ersten Stock"),
            ("strasse", "Die Straße zum Hafen ist gesperrt, bis das Wasser fällt."),
            ("Verträge", "Der Vertrag mit dem Hafen, den wir für die Lagerhalle haben."),
            ("contract", "All contracts are signed."),
        ] {
            assert!(finds(question, text), "{question} | {text}");
        }
        assert!(!finds("й", "и"));
    }

    #[test]
    fn chinese_japanese_korean_and_thai_words_are_found_inside_runs() {
        for (question, text) in [
            ("发票", "请把发票寄到办公室"),
            ("把发票寄到哪里？", "我们把发票寄到哪里都可以"),
            ("票", "发票"),
            ("蕎麦屋", "駅前の蕎麦屋で会う"),
            ("계약서", "임대차계약서를 보낸다"),
            ("ใบแจ้งหนี้", "ส่งใบแจ้งหนี้ไปที่สำนักงาน"),
            ("ＡＢＣ", "abc"),
        ] {
            assert!(finds(question, text), "{question} | {text}");
        }
        assert!(!finds("发票", "票发"));
    }

    #[test]
    fn identifiers_are_found_whole_and_in_parts() {
        for question in ["invoice total", "getInvoiceTotal", "get invoice", "getinvoicetotal", "get_invoice_total"] {
            assert!(finds(question, "fun getInvoiceTotal(): Int"), "{question}");
        }
        assert!(finds("xml parser", "class XMLParser") && finds("user by id", "fn user_by_id()"));
        assert!(finds("userById", "user_by_id"));
        assert!(finds("2024-03-15", "on 2024-03-15") && finds("20240315", "on 2024-03-15"));
    }

    #[test]
    fn long_words_are_found_as_a_whole_only() {
        let hash = "0123456789abcdef".repeat(8);
        assert!(finds(&hash, &format!("commit {hash} built")));
        assert!(!finds(&hash[..100], &hash) && !finds(&format!("{}0", &hash[..127]), &hash));
        let sha1 = &hash[..40];
        assert!(finds(sha1, &format!("commit {sha1}")));
        assert!(passage(&"x".repeat(1 << 20)).iter().all(|it| it.len() <= MAX_TERM_BYTES));
    }

    #[test]
    fn function_words_of_one_language_are_content_in_another() {
        assert!(finds("die", "A die was cast into the sea, and it sank to the ground."));
        assert_eq!(question_terms("Wann wurde die Heizung gewartet?", &[Language::German]), ["heizung", "gewartet"]);
        assert_eq!(question_terms("who is it", &[Language::English]), Vec::<String>::new());
        assert_eq!(question_terms("dog", &Language::ALL)[0], "dog", "a function word of Danish");
    }

    #[test]
    fn required_words_leave_out_what_an_index_may_lack() {
        assert_eq!(required_words("to be"), Vec::<Vec<String>>::new());
        assert_eq!(required_words("die"), Vec::<Vec<String>>::new());
        assert_eq!(required_words("发 票"), [["发"], ["票"]]);
        assert!(required_words("ใบแจ้งหนี้").is_empty());
        assert!(required_words("leases")[0].contains(&"leas".to_owned()));
    }

    #[test]
    fn passage_without_function_words_has_the_language_of_its_file() {
        let texts = [
            "Verträge",
            "Der Vertrag für die Halle, den wir mit dem Hafen haben.",
            "Was nicht im Vertrag ist, gilt nicht.",
        ];
        assert_eq!(passage_terms(texts)[0], ["vertrag", "vertraeg"]);
        assert_eq!(passages_language(texts), Some(Language::German));
        assert_eq!(passages_language(["12", ""]), None);
    }

    #[test]
    fn ligature_of_several_words_is_split() {
        assert_eq!(passage("\u{fdfa}"), passage("صلى الله عليه وسلم"));
        assert!(passage("\u{fcf2}").is_empty());
    }

    #[test]
    fn text_of_many_scripts_is_analysed() {
        let text = "Pumpe насос αντλία مضخة पंप ปั๊ม 泵 ポンプ 펌프 பம்பு \u{1f6a3} \u{202e}abc";
        for word in text.split(' ').filter(|it| it.chars().any(char::is_alphanumeric)) {
            assert!(finds(word, text), "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_analysed_within_bounds(text in ".{0,300}") {
            let terms = passage(&text);
            proptest::prop_assert!(terms.iter().all(|it| !it.is_empty() && it.len() <= MAX_TERM_BYTES));
            proptest::prop_assert!(terms.iter().all(|it| !it.contains(char::is_whitespace)), "{:?}", terms);
        }
    }
}
