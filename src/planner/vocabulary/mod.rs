//! Words of German, French and Spanish questions, with the English words that the rules know. Data only.
//!
//! Each row is `(english, phrases)`; `|` separates phrases. In a phrase, `#` stands for a number, `@` for a month or a
//! weekday, and a leading `,` means that a comma precedes the word: `Dateien, die`. The English words of a row may stand in
//! another order, because the rules read English: `la semaine dernière` is `last week`.

mod french;
mod german;
mod spanish;

use crate::text::function_words::Language;

/// The words of one language.
pub(super) struct Vocabulary {
    pub(super) language: Language,
    pub(super) rows: &'static [(&'static str, &'static str)],
    /// Last parts of compound words, with the word of this vocabulary for them: `PDF-Dateien`, `Verträge-Ordner`.
    pub(super) compounds: &'static [(&'static str, &'static str)],
    /// Names of the weekdays from Monday on.
    pub(super) weekdays: [&'static str; 7],
    /// Names of the months; `|` separates names of the same month.
    pub(super) months: [&'static str; 12],
    /// Names of the numbers from two on.
    pub(super) numbers: [&'static str; 11],
    /// Whether the type of a file stands after the noun: `fichiers csv`.
    pub(super) type_follows_noun: bool,
}

/// The vocabularies that questions are read with, besides English.
pub(super) const VOCABULARIES: [&Vocabulary; 3] = [&german::GERMAN, &french::FRENCH, &spanish::SPANISH];

/// Words that are the same in English and in the languages of the vocabularies: types of files.
pub(super) const SHARED_WORDS: &str = "pdf pdfs excel word powerpoint email emails e-mail e-mails mail mails video videos zip markdown screenshot \
     screenshots scan scans jupyter notebook";
