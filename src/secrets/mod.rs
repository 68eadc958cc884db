//! What is a secret: files by their names ([`judge`]), and keys, tokens and numbers by how they look ([`Censor`]).
//!
//! Pure: nothing here reads a file. `warehouse` never opens what [`judge`] calls a secret, `extract` blacks out what a
//! [`Censor`] finds before a text leaves the worker, in tables also by their heads ([`Columns`]), and `llm` does so again
//! with what is sent to a server. A password that looks like a word is found by neither. Whoever cuts a text before that
//! asks [`whole_at`] whether the cut goes through a secret.

mod content;
mod cut;
mod document;
mod names;
mod numbers;
mod table;
mod tokens;
mod values;

pub use content::{Censor, MARK, RULES};
pub use cut::{LONGEST, whole_at};
pub use document::black_out;
pub use names::{Verdict, judge};
pub use table::{Columns, WIDEST_GAP, black_out_rows};
