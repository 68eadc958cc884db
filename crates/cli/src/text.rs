//! Functions that prepare text for output: escape control characters, wrap lines, format numbers.

use std::borrow::Cow;
use std::fmt::Write;

/// Number of columns of wrapped text, including the indent. Fixed, so that the output does not depend on the terminal.
pub const WIDTH: usize = 100;

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

/// Escapes a text and wraps it at white space into at most `max_lines` lines, all indented. A word that is longer than a
/// line exceeds the width.
pub fn wrap(text: &str, indent: usize, max_lines: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let word = escape_controls(word);
        let length = word.chars().count();
        let full = lines.len() == max_lines;
        match lines.last_mut() {
            Some(line) if width + 1 + length <= WIDTH => {
                line.push(' ');
                line.push_str(&word);
                width += 1 + length;
            }
            Some(line) if full => {
                line.push_str(" …");
                break;
            }
            _ => {
                lines.push(" ".repeat(indent) + &word);
                width = indent + length;
            }
        }
    }
    lines.join("\n")
}

/// Formats a number with separators: `1234567` becomes `1,234,567`.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 file`, `2 files`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// Formats a number of bytes in the largest unit of 1024 that fits: `1.5 MiB`.
pub fn format_bytes(number: u64) -> String {
    let mut value = number as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") }
}

/// Formats a duration in seconds for people: `2.5 s`, `1m 05s`, `3h 20m`, `2d 4h`.
pub fn format_duration(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3_600 => format!("{}m {:02}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h {:02}m", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{}d {}h", whole / 86_400, whole % 86_400 / 3_600),
    }
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

    #[test]
    fn wrap_breaks_between_words_and_marks_the_cut() {
        let words = "word ".repeat(60);
        let wrapped = wrap(&words, 3, 2);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("   word") && lines[0].chars().count() <= WIDTH);
        assert!(lines[1].ends_with("word …"), "{wrapped}");
        assert_eq!(wrap("one\n two\t\u{1b}", 2, 5), "  one two \\u{1b}");
        assert_eq!(wrap("", 2, 5), "");
    }

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!(
            [group_digits(0), group_digits(999), group_digits(1_000), group_digits(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([format_bytes(1_023), format_bytes(1_536), format_bytes(5 << 30)], ["1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!([format_duration(2.54), format_duration(42.0), format_duration(65.0)], ["2.5 s", "42 s", "1m 05s"]);
        assert_eq!(
            [format_duration(12_000.0), format_duration(187_200.0), format_duration(f64::NAN)],
            ["3h 20m", "2d 4h", "0.0 s"]
        );
        assert_eq!([plural(1, "file"), plural(2_000, "file")], ["1 file", "2,000 files"]);
    }
}
