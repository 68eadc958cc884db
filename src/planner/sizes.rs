//! Parses file sizes in the English text of a question, such as `5 MB`. Pure functions.

use crate::units::{parse_size, unit_bytes};

/// Parses a size at the start of `words`: `5 MB`, `5MB`, or `5` with a given `unit`. Returns its bytes and its length in
/// words. A unit of one letter is not accepted, because `over 5 m` is a length.
pub(super) fn parse_size_words(words: &[&str], unit: Option<&str>) -> Option<(u64, usize)> {
    let first = &normalize_decimal(words.first()?);
    let end = first.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(first.len());
    let (number, glued) = first.split_at(end);
    if number.is_empty() {
        return None;
    }
    let (unit, length) = match (glued, words.get(1)) {
        ("", Some(next)) if next.len() > 1 && unit_bytes(next).is_some() => (*next, 2),
        ("", _) => (unit?, 1),
        (glued, _) => (glued, 1),
    };
    if unit.len() < 2 {
        return None;
    }
    parse_size(&format!("{number}{unit}")).map(|it| (it, length))
}

/// Turns a comma into a decimal point, or removes it as thousands separator: `1,5` -> `1.5`, `1,500` -> `1500`.
fn normalize_decimal(text: &str) -> String {
    let Some((before, after)) = text.split_once(',') else { return text.to_string() };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let is_number = !before.is_empty() && before.bytes().all(|it| it.is_ascii_digit());
    match (is_number, digits) {
        (true, 3) => format!("{before}{after}"),
        (true, 1..) => format!("{before}.{after}"),
        _ => text.to_string(),
    }
}

/// Returns the unit of the size at the start of `words`: `GiB` of `2 GiB`.
pub(super) fn unit_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    let first = words.first()?;
    let end = first.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(first.len());
    let unit = if end < first.len() { &first[end..] } else { words.get(1)? };
    unit_bytes(unit).map(|_| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_in_text_needs_unit() {
        assert_eq!(parse_size_words(&["5", "mb", "of"], None), Some((5 << 20, 2)));
        assert_eq!(parse_size_words(&["5mb"], None), Some((5 << 20, 1)));
        assert_eq!(parse_size_words(&["1,5", "mb"], None), Some((3 << 19, 2)));
        assert_eq!(parse_size_words(&["1,500kb"], None), Some((1500 << 10, 1)));
        assert_eq!(parse_size_words(&["1", "and", "2", "gib"], Some("gib")), Some((1 << 30, 1)));
        for words in [&["5"][..], &["5", "m"], &["5m"], &["5", "people"], &["mb"], &[]] {
            assert_eq!(parse_size_words(words, None), None, "{words:?}");
        }
    }
}
