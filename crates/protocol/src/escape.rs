//! Escapes control characters in text of unknown origin: file names and contents of files. Pure.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes control characters, including line breaks, e.g. as `\u{1b}`, so that the text cannot move the cursor, change
/// colours, or reverse the writing direction.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Escapes control characters like [`escape_controls`], but keeps line breaks and tabs.
pub fn escape_controls_in_lines(text: &str) -> Cow<'_, str> {
    escape(text, |it| matches!(it, '\n' | '\t'))
}

/// Escapes the control characters that JSON allows unescaped in strings. The JSON value stays the same.
pub fn escape_controls_in_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(|it| is_unsafe(it) && it != '\n') {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for it in json.chars() {
        if is_unsafe(it) && it != '\n' {
            for unit in it.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(it);
        }
    }
    Cow::Owned(safe)
}

fn escape(text: &str, keep: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|it| is_unsafe(it) && !keep(it)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for it in text.chars() {
        match it {
            it if !is_unsafe(it) || keep(it) => safe.push(it),
            '\n' | '\r' | '\t' => safe.extend(it.escape_default()),
            it => safe.extend(it.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a character can change how a terminal shows text: C0, DEL and C1 controls, line and paragraph
/// separators, direction marks, and tag characters, which can hide whole sentences.
fn is_unsafe(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(it, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    // Cases C15, E8
    #[test]
    fn visible_escapes_control_characters() {
        for (text, expected) in [
            ("plain ä 漢 🙂", "plain ä 漢 🙂"),
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("two\nlines\r\t", "two\\nlines\\r\\t"),
            ("exe.\u{202e}fdp", "exe.\\u{202e}fdp"),
            ("\u{7}\u{0}\u{7f}", "\\u{7}\\u{0}\\u{7f}"),
        ] {
            assert_eq!(escape_controls(text), expected);
        }
        assert_eq!(escape_controls_in_lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn visible_json_keeps_the_value() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}\u{202e}\u{7f}ä"});
        let json = serde_json::to_string_pretty(&value).unwrap();
        let safe = escape_controls_in_json(&json);
        assert!(!safe.chars().any(|it| is_unsafe(it) && it != '\n'), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
