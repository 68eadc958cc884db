//! Sentences of a text in any language. Pure.
//!
//! `lines` groups the lines of a text: lines of wrapped prose belong together, an item of a list, a row of a table and a
//! heading stand alone. `sentence` cuts each group where a sentence ends, by the mark, the word before it (`abbreviation`
//! knows what is no word) and what follows. The language of the text need not be known.

mod abbreviation;
mod context;
mod lines;
mod sentence;
#[cfg(test)]
mod tests;

pub(crate) use sentence::{sentences, trimmed_sentences};
