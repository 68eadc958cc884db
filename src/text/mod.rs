//! Splits text in any language into sentences. Pure.
//!
//! `line_groups` groups lines: wrapped prose is joined, while list items, table rows and headings stand alone. `sentence`
//! splits each group by the mark, the word before it (`abbreviations` lists words that end in a full stop) and the text
//! after it. The language need not be known.

mod abbreviations;
mod full_stop;
mod line_groups;
mod sentence;
#[cfg(test)]
mod tests;

pub(crate) use sentence::{sentences, trimmed_sentences};
