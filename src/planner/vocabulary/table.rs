//! The form of a vocabulary.

use crate::text::function_words::Language;

/// The words of one language.
pub(in crate::planner) struct Vocabulary {
    pub(in crate::planner) language: Language,
    pub(in crate::planner) rows: &'static [(&'static str, &'static str)],
    /// Last parts of compound words, with the word of this vocabulary for them: `PDF-Dateien`, `Verträge-Ordner`.
    pub(in crate::planner) compounds: &'static [(&'static str, &'static str)],
    /// Names of the weekdays from Monday on.
    pub(in crate::planner) weekdays: [&'static str; 7],
    /// Names of the months; `|` separates names of the same month.
    pub(in crate::planner) months: [&'static str; 12],
    /// Names of the numbers from two on.
    pub(in crate::planner) numbers: [&'static str; 11],
    /// Whether the type of a file stands after the noun: `fichiers csv`.
    pub(in crate::planner) type_follows_noun: bool,
}
