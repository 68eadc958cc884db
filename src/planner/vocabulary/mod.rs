//! Words of German, French and Spanish questions, with the English words that the rules know. Data only.
//!
//! Each row is `(english, phrases)`; `|` separates phrases. In a phrase, `#` stands for a number, `@` for a month or a
//! weekday, and a leading `,` means that a comma precedes the word: `Dateien, die`. The English words of a row may stand in
//! another order, because the rules read English: `la semaine dernière` is `last week`.

mod french;
mod german;
mod spanish;
mod table;

pub(super) use table::Vocabulary;

/// The vocabularies that questions are read with, besides English.
pub(super) const VOCABULARIES: [&Vocabulary; 3] = [&german::GERMAN, &french::FRENCH, &spanish::SPANISH];

/// Words that are the same in English and in the languages of the vocabularies: types of files.
pub(super) const SHARED_WORDS: &str = "pdf pdfs excel word powerpoint email emails e-mail e-mails mail mails video videos zip markdown screenshot \
     screenshots scan scans jupyter notebook";
