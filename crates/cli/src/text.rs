//! Functions that prepare text for output: wrap lines, format numbers; the protocol crate escapes control characters.

pub use vic_protocol::escape::{escape_controls, escape_controls_in_json, escape_controls_in_lines};

/// Number of columns of wrapped text, including the indent. Fixed, so that the output does not depend on the terminal.
pub const WIDTH: usize = 100;

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
