//! Detects secrets: files by name ([`judge_path`]), and keys, tokens and numbers by form ([`Redactor`]).
//!
//! Pure: reads no files. `warehouse` never opens a file that [`judge_path`] calls secret. `extract` redacts the findings of
//! a [`Redactor`] before a text leaves the worker, in tables also by column heads ([`SecretColumns`]). `llm` redacts again
//! before it sends text to a server. A password that looks like a word is not detected. Code that splits a text before
//! redaction asks [`unsplittable_range`] whether the split cuts a secret.

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
