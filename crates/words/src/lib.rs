//! Words of every script, for the keyword index, questions, phrases, highlights and file names.
//!
//! One analysis serves all of them, so that a word that is found by one is found by the others:
//!
//! 1. [`segment`] splits a text into words. Scripts without blanks between words are split by pairs of characters
//!    (Chinese, Japanese, Korean) or by a dictionary (Thai, Lao, Khmer, Burmese).
//! 2. [`fold`] removes what a reader of the script overlooks: case, accents, width, vowel marks.
//! 3. [`Language::detect`] tells the language of a passage by its function words, and [`passage_terms`] leaves these out and
//!    reduces the other words to the stems of that language.
//!
//! One list has the function words of all languages, those of passages and those of questions ([`question_function_words`]).
//!
//! A question is too short to tell its language surely, so [`question_terms`] returns the stems of all languages.
//!
//! All functions are pure and take time linear in the length of the text.

mod folding;
mod function_words;
mod language;
mod matching;
mod segment;
mod stem;
mod terms;

pub use folding::fold;
pub use function_words::question_function_words;
pub use language::Language;
pub use matching::{exact_words, matching_words};
pub use segment::{Segment, SegmentKind, Segments, segments};
pub use terms::{passage_terms, passages_language, question_terms, required_words};
