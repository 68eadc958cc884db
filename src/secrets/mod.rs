//! Detects secrets: files by name ([`judge`]), and keys, tokens and numbers by form ([`Censor`]).
//!
//! Pure: reads no files. `warehouse` never opens a file that [`judge`] calls secret. `extract` redacts the findings of
//! a [`Censor`] before a text leaves the worker, in tables also by column heads ([`Columns`]). `llm` redacts again
//! before it sends text to a server. A password that looks like a word is not detected. Code that splits a text before
//! redaction asks [`whole_at`] whether the split cuts a secret.

mod content;
mod cut;
mod document;
mod names;
mod numbers;
mod table;
mod tokens;
mod values;

pub use content::{REDACTED, RULES_VERSION, Redactor};
pub use cut::{MAX_SECRET_BYTES, unsplittable_range};
pub use document::redact_json;
pub use names::{PathVerdict, judge_path};
pub use table::{MAX_GAP_BARS, SecretColumns, redact_json_rows};
