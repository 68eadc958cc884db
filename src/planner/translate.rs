//! Translates the words of a German, French or Spanish question into the English words that the rules know. Pure functions.
//!
//! The typed text of every word is kept, because the search text is made of it. Words that the vocabulary of the language
//! does not have become [`UNKNOWN`], so that `also` or `note` in another language does not trigger an English rule.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use crate::planner::file_types;
use crate::planner::typed_words::{Word, is_in_list};
use crate::planner::vocabulary::{SHARED_WORDS, VOCABULARIES, Vocabulary};
use crate::text::function_words::{self, Language};
use crate::units;

/// What the rules see in place of a word that is not in the vocabulary of the question's language.
pub(super) const UNKNOWN: &str = "_";
/// Maximum number of words by which the language is detected. A longer text is no question.
const DETECTED_WORDS: usize = 64;
/// Weight of a word of a vocabulary, such as `geändert`, when the language is detected.
const VOCABULARY_WEIGHT: f32 = 0.8;
/// Weight of all words of a vocabulary that are also English, such as `actual`. It only decides between languages.
const SHARED_WEIGHT: f32 = 0.3;

/// English words of rules, by which a question is recognized as English.
const ENGLISH_WORDS: &str = "modified changed edited saved created written updated uploaded downloaded scanned taken today yesterday files \
     file folder spreadsheets presentations pictures spreadsheet presentation picture older newer larger smaller oldest latest newest current \
     week month year weeks months years days monday tuesday wednesday thursday friday saturday sunday january february march may june july \
     october december find show";

const ENGLISH_WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const ENGLISH_MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const ENGLISH_NUMBERS: [&str; 11] =
    ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// A phrase of a vocabulary with its English words.
struct Phrase {
    /// The phrase with its accents, to prefer `à` to `a`.
    typed: &'static str,
    words: Vec<String>,
    english: Vec<&'static str>,
    /// Whether a comma must precede the phrase.
    after_comma: bool,
}

/// A vocabulary, prepared for look-ups.
pub(super) struct Dictionary {
    vocabulary: &'static Vocabulary,
    /// Phrases by their first word without accents; those that begin with a number or a name of a day by `#` or `@`.
    phrases: HashMap<String, Vec<Phrase>>,
    /// English names of weekdays, months and numbers by their names without accents.
    names: HashMap<String, (&'static str, Name)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Date,
    Number,
}

static DICTIONARIES: LazyLock<Vec<Dictionary>> =
    LazyLock::new(|| VOCABULARIES.iter().map(|it| Dictionary::new(it)).collect());

/// Returns the dictionary of the language that the words are in; `None` for English, other languages, and unclear ones.
pub(super) fn detect_dictionary(words: &[Word]) -> Option<&'static Dictionary> {
    let plain = || words.iter().take(DETECTED_WORDS).map(|it| it.plain.as_str()).filter(|it| !it.is_empty());
    let mut weights = function_words::count_function_words(plain());
    for dictionary in DICTIONARIES.iter() {
        let own = plain().filter(|it| !function_words::is_known(it) && dictionary.has_single_word(it));
        let (shared, own): (Vec<&str>, Vec<&str>) =
            own.partition(|it| is_in_list(SHARED_WORDS, it) || is_english_word(it));
        let shared = if shared.is_empty() { 0.0 } else { SHARED_WEIGHT };
        weights[dictionary.vocabulary.language as usize] += VOCABULARY_WEIGHT * own.len() as f32 + shared;
    }
    let english = plain().filter(|it| is_in_list(ENGLISH_WORDS, it)).count();
    weights[Language::English as usize] += VOCABULARY_WEIGHT * english as f32;
    let language = function_words::best_language(&weights)?;
    DICTIONARIES.iter().find(|it| it.vocabulary.language == language)
}

/// Replaces what the rules see of each word by its English translation.
pub(super) fn translate(words: Vec<Word>, dictionary: &Dictionary) -> Vec<Word> {
    let words = dictionary.split_compounds(words);
    let mut translated: Vec<Word> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let before = at.checked_sub(1).map(|it| words[it].text.as_str());
        match dictionary.longest_phrase(&words[at..], before) {
            Some((length, english)) => {
                push_translation(&mut translated, &words[at..at + length], &english);
                at += length;
            }
            None => {
                let normalized = dictionary.translate_word(&words[at]);
                translated.push(Word { normalized, is_foreign: true, ..words[at].clone() });
                at += 1;
            }
        }
    }
    if dictionary.vocabulary.type_follows_noun { put_types_first(translated) } else { translated }
}

/// Adds the English words of a phrase. They share the typed text: the last one gets what is left over.
fn push_translation(translated: &mut Vec<Word>, typed: &[Word], english: &[String]) {
    for (index, normalized) in english.iter().enumerate() {
        let is_last = index + 1 == english.len();
        let part = if is_last { typed.get(index..) } else { typed.get(index..=index) }.unwrap_or_default();
        let join =
            |text: fn(&Word) -> &str| part.iter().map(text).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
        translated.push(Word {
            text: join(|it| it.text.as_str()),
            plain: join(|it| it.plain.as_str()),
            normalized: normalized.clone(),
            is_used: false,
            is_foreign: true,
        });
    }
}

/// Exchanges a noun for files and the type after it: `fichiers csv` becomes `csv files`.
fn put_types_first(mut words: Vec<Word>) -> Vec<Word> {
    for at in 1..words.len() {
        let noun = words[at - 1].normalized.clone();
        let is_type = file_types::is_type_name(&words[at].plain);
        if matches!(noun.as_str(), "file" | "files" | "document" | "documents") && is_type {
            let plain = words[at].plain.clone();
            words[at - 1].normalized = plain;
            words[at].normalized = if noun.ends_with('s') { "files" } else { "file" }.to_string();
        }
    }
    words
}

impl Dictionary {
    fn new(vocabulary: &'static Vocabulary) -> Dictionary {
        let mut dictionary = Dictionary { vocabulary, phrases: HashMap::new(), names: HashMap::new() };
        let names = |english: &[&'static str], foreign: &[&'static str], name: Name| {
            let pairs: Vec<_> = english.iter().zip(foreign).map(|(one, other)| (*one, *other, name)).collect();
            pairs
        };
        let all = [
            names(&ENGLISH_WEEKDAYS, &vocabulary.weekdays, Name::Date),
            names(&ENGLISH_MONTHS, &vocabulary.months, Name::Date),
            names(&ENGLISH_NUMBERS, &vocabulary.numbers, Name::Number),
        ];
        for (english, foreign, name) in all.concat() {
            for one in foreign.split('|') {
                dictionary.names.insert(fold(one), (english, name));
            }
        }
        for (english, phrases) in vocabulary.rows {
            for phrase in phrases.split('|') {
                dictionary.add_phrase(english, phrase);
            }
        }
        dictionary
    }

    fn add_phrase(&mut self, english: &'static str, phrase: &'static str) {
        let typed = phrase.trim_start_matches(',');
        let words: Vec<String> = typed.split(' ').map(fold).collect();
        let english = english.split(' ').collect();
        let added = Phrase { typed, after_comma: typed.len() < phrase.len(), english, words };
        self.phrases.entry(added.words[0].clone()).or_default().push(added);
    }

    /// Whether a word, with or without its accents, is a phrase of this vocabulary, or a name of a day or number.
    fn has_single_word(&self, word: &str) -> bool {
        let key = fold(word);
        let is_single = || self.phrases.get(&key).is_some_and(|it| it.iter().any(|it| it.words.len() == 1));
        is_single() || self.names.contains_key(&key) || self.split_compound(word).is_some()
    }

    /// Returns the length and the translation of the longest phrase at the start of `words`. `before` is the text of the
    /// word before them.
    fn longest_phrase(&self, words: &[Word], before: Option<&str>) -> Option<(usize, Vec<String>)> {
        let comma = before.is_some_and(|it| it.ends_with(','));
        let first = words.first().filter(|it| !it.plain.is_empty())?;
        let (mut keys, mut best) = (vec![fold(&first.plain)], None::<(&Phrase, Vec<String>)>);
        keys.extend(self.wildcard(first).map(|(it, _)| it.to_string()));
        for phrase in keys.iter().filter_map(|it| self.phrases.get(it)).flatten() {
            let rank = |it: &Phrase| (it.words.len(), it.after_comma, it.typed == first.plain);
            if (comma || !phrase.after_comma)
                && best.as_ref().is_none_or(|(it, _)| rank(phrase) > rank(it))
                && let Some(filled) = self.match_phrase(phrase, words)
            {
                best = Some((phrase, filled));
            }
        }
        best.map(|(phrase, filled)| (phrase.words.len(), fill_in(&phrase.english, &filled)))
    }

    /// Matches a phrase at the start of `words`; returns the translations of the words that its wildcards stand for.
    fn match_phrase(&self, phrase: &Phrase, words: &[Word]) -> Option<Vec<String>> {
        let mut filled = Vec::new();
        for (index, expected) in phrase.words.iter().enumerate() {
            let word = words.get(index)?;
            // A phrase does not continue behind a comma or the end of a sentence.
            if index > 0
                && words[index - 1].text.ends_with([',', '.', '?', '!', ';'])
                && !is_ordinal(&words[index - 1].text)
            {
                return None;
            }
            match expected.as_str() {
                "#" | "@" => filled.push(self.wildcard(word).filter(|(it, _)| it == expected)?.1),
                _ if fold(&word.plain) == *expected => (),
                _ => return None,
            }
        }
        Some(filled)
    }

    /// Returns the wildcard that stands for a word, and the English word: `#` for a number, `@` for a month or a weekday.
    fn wildcard(&self, word: &Word) -> Option<(&'static str, String)> {
        if let Some((english, name)) = self.names.get(&fold(&word.plain)) {
            return Some((if *name == Name::Date { "@" } else { "#" }, (*english).to_string()));
        }
        let digits = word.plain.trim_end_matches("er").trim_end_matches(['º', 'ª', '°', '.']);
        if !digits.is_empty() && digits.chars().all(|it| it.is_ascii_digit()) {
            return Some(("#", digits.to_string()));
        }
        let one = self.phrases.get(&fold(&word.plain))?.iter().any(|it| it.words.len() == 1 && it.english == ["a"]);
        one.then(|| ("#", "a".to_string()))
    }

    /// Returns what the rules see of a word that begins no phrase.
    fn translate_word(&self, word: &Word) -> String {
        if let Some((_, english)) = self.wildcard(word) {
            return english;
        }
        let is_kept = word.plain.is_empty()
            || !word.plain.chars().all(char::is_alphabetic)
            || is_in_list(SHARED_WORDS, &word.plain)
            || units::unit_bytes(&word.plain).is_some()
            || file_types::is_type_name(&word.plain);
        if is_kept { word.normalized.clone() } else { UNKNOWN.to_string() }
    }

    /// Splits `Verträge-Ordner` into `Verträge` and a word `folder` without text.
    fn split_compounds(&self, words: Vec<Word>) -> Vec<Word> {
        let mut split = Vec::with_capacity(words.len());
        for word in words {
            match self.split_compound(&word.plain).filter(|_| !word.plain.is_empty()) {
                Some((first, head)) => {
                    let first = first.to_string();
                    split.push(Word { normalized: first.clone(), plain: first, ..word });
                    split.push(Word { plain: head.to_string(), ..Word::without_text() });
                }
                None => split.push(word),
            }
        }
        split
    }

    /// Splits the last part off a compound; returns the first part and the last part as a word of this vocabulary.
    fn split_compound<'a>(&self, word: &'a str) -> Option<(&'a str, &'static str)> {
        let (ending, head) = self.vocabulary.compounds.iter().find(|(ending, _)| word.ends_with(ending))?;
        let first = &word[..word.len() - ending.len()];
        (!first.is_empty()).then_some((first, *head))
    }
}

/// Replaces the wildcards of the English words by the translations, in order.
fn fill_in(english: &[&'static str], filled: &[String]) -> Vec<String> {
    let mut filled = filled.iter();
    let word = |it: &&str| match *it {
        "#" | "@" => filled.next().cloned().unwrap_or_default(),
        word => word.to_string(),
    };
    english.iter().map(word).collect()
}

/// Whether a text is a number with a full stop, as in `15. März`.
fn is_ordinal(text: &str) -> bool {
    text.strip_suffix('.').is_some_and(|it| !it.is_empty() && it.chars().all(|it| it.is_ascii_digit()))
}

/// Whether a word is also an English one, and so does not tell the language: `notes`, `images`, `august`.
fn is_english_word(word: &str) -> bool {
    const ALSO_ENGLISH: &str = "note notes photo photos image images document documents archives archive version actual final liste mars list \
         tableau dossier cartas carta resume change changes august april september november fax facture an a e o u on list tag are mes son \
         reports report minutes draft pas are no me";
    is_in_list(ALSO_ENGLISH, word) || ENGLISH_MONTHS.contains(&word)
}

/// Removes case and accents, so that `geandert` and `aout` are found.
pub(super) fn fold(word: &str) -> String {
    let plain: String = word.to_lowercase().nfd().filter(|it| !matches!(it, '\u{300}'..='\u{36f}')).collect();
    plain.replace('ß', "ss").replace('\u{2019}', "'")
}

impl Dictionary {
    /// Whether this is a word of the vocabulary.
    pub(super) fn has_word(&self, word: &str) -> bool {
        let key = fold(word);
        self.phrases.contains_key(&key) || self.names.contains_key(&key)
    }

    /// Returns the single words of the vocabulary, without accents, with their first English words, for the correction of
    /// typing errors.
    pub(super) fn single_words(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let single = |phrases: &Vec<Phrase>| phrases.iter().find(|it| it.words.len() == 1).map(|it| it.english[0]);
        let words = self.phrases.iter().filter_map(move |(word, it)| Some((word.as_str(), single(it)?)));
        words.chain(self.names.iter().map(|(name, (english, _))| (name.as_str(), *english)))
    }
}
