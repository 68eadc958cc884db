//! Splits text in any language into sentences, for quotes and chunks, and detects its language. Does no I/O.
//!
//! `line_groups` groups lines: lines of wrapped prose are joined, while list items, table rows and headings are groups of
//! their own. `sentence` looks for sentence ends in each group, by the punctuation mark, the word before it
//! (`abbreviations` lists words that end in a full stop) and the text after it. The language need not be known.
//! `function_words` lists words without content in ten languages, and `month_names` the months.

mod abbreviations;
mod full_stop;
mod language;
pub(crate) mod function_words;
mod line_groups;
pub(crate) mod month_names;
mod sentence;
#[cfg(test)]
mod tests;

pub(crate) use language::{detect_language, language_name};
pub(crate) use sentence::{sentences, trimmed_sentences};
