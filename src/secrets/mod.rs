//! Detects secrets: files by name ([`judge_path`]), and keys, tokens and numbers by form ([`Redactor`]).
//!
//! Pure: reads no files. `files` never opens a file that [`judge_path`] calls secret. `extract` redacts the findings of
//! a [`Redactor`] before a text leaves the worker, in tables also by column heads ([`SecretColumns`]). `llm` redacts again
//! before it sends text to a server. A password that looks like a word is not detected. Code that splits a text before
//! redaction asks [`unsplittable_range`] whether the split cuts a secret.

mod patterns;
mod redact;
mod split_points;
mod json;
mod file_names;
mod card_numbers;
mod table;
mod tokens;
mod named_values;

pub use crate::secrets::file_names::{PathVerdict, judge_path};
pub use crate::secrets::json::redact_json;
pub use crate::secrets::redact::{REDACTED, RULES_VERSION, Redactor};
pub use crate::secrets::split_points::{MAX_SECRET_BYTES, unsplittable_range};
pub use table::{MAX_GAP_BARS, SecretColumns, redact_json_rows};
