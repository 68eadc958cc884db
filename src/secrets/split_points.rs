//! Finds where a text must not be split: inside a secret, because its halves would not be recognised and redacted.

use std::ops::Range;

use crate::model::Redaction;
use crate::secrets::named_values::MAX_VALUE_BYTES;
use crate::secrets::redact::{KEY_BEGIN, MAX_KEY_BYTES, merge_ranges, private_key_at, secrets_with_context};

/// Bytes examined on each side of a split point: more than a token takes, or a name with its value.
const CONTEXT_BYTES: usize = 8 << 10;
/// Bytes examined before and after a split point at whitespace. Fewer are enough there, because no token contains
/// whitespace: only groups of digits or a name can be before the point, and a value after it.
const SPACE_CONTEXT_BEFORE: usize = 1 << 10;
const SPACE_CONTEXT_AFTER: usize = MAX_VALUE_BYTES + SPACE_CONTEXT_BEFORE;
/// Maximum bytes of a secret: a private key with its markers and kind.
pub const MAX_SECRET_BYTES: usize = MAX_KEY_BYTES + 256;

/// Returns the range around `at` that must not be split: a secret with the name before it. `None` if a split at `at` is
/// safe.
///
/// Does not depend on the redaction setting: without redaction, some pieces are only a few bytes longer or shorter.
pub fn unsplittable_range(text: &str, at: usize) -> Option<Range<usize>> {
    let spaced = text[..at].ends_with(char::is_whitespace) || text[at..].starts_with(char::is_whitespace);
    let (before, behind) =
        if spaced { (SPACE_CONTEXT_BEFORE, SPACE_CONTEXT_AFTER) } else { (CONTEXT_BYTES, CONTEXT_BYTES) };
    let start = text.floor_char_boundary(at.saturating_sub(before));
    let near = &text[start..text.ceil_char_boundary((at + behind).min(text.len()))];
    let mut wholes: Vec<_> =
        secrets_with_context(near, Redaction::All).map(|(it, _)| start + it.start..start + it.end).collect();
    wholes.extend(private_key_before(text, at));
    merge_ranges(wholes).into_iter().find(|it| it.start < at && at < it.end)
}

/// Returns the range of the private key that begins with the last start marker before `at`.
fn private_key_before(text: &str, at: usize) -> Option<Range<usize>> {
    let from = text.floor_char_boundary(at.saturating_sub(MAX_SECRET_BYTES));
    let to = text.ceil_char_boundary((at + KEY_BEGIN.len()).min(text.len()));
    let start = from + text[from..to].rfind(KEY_BEGIN)?;
    let end = text.floor_char_boundary((start + MAX_SECRET_BYTES).min(text.len()));
    let key = private_key_at(&text[start..end], 0)?;
    Some(start + key.start..start + key.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `text` must not be split within `whole`, and may be split elsewhere.
    fn check(text: &str, whole: &str) {
        let start = text.find(whole).unwrap();
        let whole = start..start + whole.len();
        for at in (0..=text.len()).filter(|it| text.is_char_boundary(*it)) {
            let inside = at > whole.start && at < whole.end;
            assert_eq!(unsplittable_range(text, at), inside.then(|| whole.clone()), "{text} at {at}");
        }
    }

    #[test]
    fn secret_is_not_split_from_its_name() {
        check("é ghp_16C7e42F292c6912E7710c838347Ae178B4a é", "ghp_16C7e42F292c6912E7710c838347Ae178B4a");
        check("{\"api_key\": \"Zk3vQ9mX2pLr8TnB5wYs\"}", "api_key\": \"Zk3vQ9mX2pLr8TnB5wYs");
        check("Authorization: Bearer q8Rt2LmZx7Vb4NcK9wPd,", "Bearer q8Rt2LmZx7Vb4NcK9wPd");
        check("at postgres://anna:hunter2@db/x", "://anna:hunter2@");
        check("Authorization: Basic dXNlcjpwYXNzd29yZA==.", "Basic dXNlcjpwYXNzd29yZA==");
        check("card 4111 1111 1111 1111, thanks", "4111 1111 1111 1111");
        check("IBAN BE68 5390 0754 7034 BIC GEBABEBB", "BE68 5390 0754 7034");
    }

    #[test]
    fn private_key_is_not_split() {
        let key = format!("-----BEGIN PRIVATE KEY-----{}\\n-----END PRIVATE KEY-----", "\\nMIIEvQ+/".repeat(50));
        check(&format!("{{\"key\": \"{key}\\n\"}}"), &key);
    }

    #[test]
    fn long_key_is_not_split_in_any_context() {
        let key = format!("-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----", "MIIEvQ+/".repeat(3_000));
        let text = format!("{}{key}{}", "x".repeat(100_000), "x".repeat(100_000));
        for at in [100_001, 100_020, 112_000, 100_000 + key.len() - 1] {
            assert_eq!(unsplittable_range(&text, at), Some(100_000..100_000 + key.len()), "{at}");
        }
        assert_eq!(unsplittable_range(&text, 100_000), None);
    }

    #[test]
    fn longest_value_is_not_split_from_its_name() {
        let value: String = "Zk3vQ9mX2pLr8TnB5wYs".chars().cycle().take(MAX_VALUE_BYTES).collect();
        let whole = format!("token: {value}");
        let text = format!("{} {whole} {}", "x".repeat(100_000), "x".repeat(100_000));
        for at in [100_002, 100_007, 100_008, 100_009, 102_000, 100_000 + whole.len()] {
            assert_eq!(unsplittable_range(&text, at), Some(100_001..100_001 + whole.len()), "{at}");
        }
        assert_eq!(unsplittable_range(&text, 100_001), None);
        assert_eq!(unsplittable_range(&text, 100_001 + whole.len()), None);
    }

    #[test]
    fn plain_text_may_be_split_anywhere() {
        for text in ["token = parser.next_token()", "-----BEGIN CERTIFICATE-----\nMIIE", "The password is long."] {
            assert!((0..=text.len()).all(|at| unsplittable_range(text, at).is_none()), "{text}");
        }
    }
}
