//! Detects secrets: files by name ([`judge_path`]), and keys, tokens and card numbers in texts by form ([`Redactor`]).
//!
//! Pure: reads no files. `files` never opens a file that [`judge_path`] calls secret. `extract` redacts text with a
//! [`Redactor`] before the text leaves the worker process, in tables also by column headers ([`SecretColumns`]). `llm`
//! redacts again before it sends text to a server. A password that looks like a word is not detected. Code that splits a
//! text before redaction calls [`unsplittable_range`] to avoid a split inside a secret.

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
