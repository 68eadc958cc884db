//! Finds the quoted parts of a question. Pure functions.
//!
//! The positions of closing quotes are indexed once per question. A search from each opening quote would take quadratic time
//! for a question with ten thousand quotes that are never closed.

/// Positions of closing quotes, each as the number of bytes from the quote to the end of the question, so that a position
/// is the same in every suffix of the question.
pub(super) struct QuoteIndex {
    straight: Vec<usize>,
    curly: Vec<usize>,
    /// Positions of letters and digits, because a quotation must contain at least one.
    letters: Vec<usize>,
}

impl QuoteIndex {
    pub(super) fn new(text: &str) -> QuoteIndex {
        let mut quotes = QuoteIndex { straight: Vec::new(), curly: Vec::new(), letters: Vec::new() };
        let mut escaped = false;
        for (at, character) in text.char_indices() {
            let rest = text.len() - at;
            match character {
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                '"' if !escaped => quotes.straight.push(rest),
                '\u{201d}' if !escaped => quotes.curly.push(rest),
                _ if character.is_alphanumeric() => quotes.letters.push(rest),
                _ => (),
            }
            escaped = false;
        }
        quotes
    }

    /// Parses a quotation at the start of `text`, a suffix of the question. The closing quote must be at the end of a word.
    /// Returns the quoted text, and the length of the quotation in bytes with quotes and trailing punctuation.
    pub(super) fn parse_quotation(&self, text: &str) -> Option<(String, usize)> {
        let mark = text.chars().next()?;
        let (close, all) = match mark {
            '"' => ('"', &self.straight),
            '\u{201c}' => ('\u{201d}', &self.curly),
            _ => return None,
        };
        let open = mark.len_utf8();
        let at = next_position(all, text, open)?;
        if next_position(&self.letters, text, open).is_none_or(|letter| letter > at) {
            return None;
        }
        let behind = &text[at + close.len_utf8()..];
        let rest = behind.trim_start_matches([',', ';', ':', '.', '?', '!', ')']);
        let ends = rest.chars().next().is_none_or(char::is_whitespace);
        ends.then(|| (unescape(&text[open..at]), text.len() - rest.len()))
    }
}

/// Returns the first position in `places` at or after byte `from` of `text`, which is a suffix of the question.
fn next_position(places: &[usize], text: &str, from: usize) -> Option<usize> {
    let left = text.len() - from;
    places.get(places.partition_point(|it| *it > left)).map(|it| text.len() - it)
}

/// Returns the quoted text with escaped quotes unescaped and whitespace collapsed.
fn unescape(quoted: &str) -> String {
    let (mut value, mut escaped) = (String::new(), false);
    for character in quoted.chars() {
        if character == '\\' && !escaped {
            escaped = true;
            continue;
        }
        if escaped && character != '"' && character != '\\' {
            value.push('\\');
        }
        value.push(character);
        escaped = false;
    }
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, usize)>) {
        assert_eq!(
            QuoteIndex::new(text).parse_quotation(text),
            expected.map(|(value, length)| (value.to_string(), length)),
            "{text}"
        );
    }

    #[test]
    fn quotation_ends_at_matching_mark_at_word_end() {
        check("\"a  b\", c", Some(("a b", 7)));
        check(r#""a \"b\" \c" d"#, Some((r#"a "b" \c"#, 12)));
        check("\u{201c}a \"b\u{201d}?", Some(("a \"b", 11)));
        for text in ["", "a", "\"a", "\"a\"b", "\" , \"", "\u{201c}a\"", "\"a\\\""] {
            check(text, None);
        }
    }

    #[test]
    fn many_unclosed_quotes_parse_in_linear_time() {
        let many = "\u{201c}a ".repeat(100_000);
        let begun = std::time::Instant::now();
        for text in [many.clone(), format!("{many}\u{201d}x")] {
            assert!(crate::planner::syntax::parse(&text).phrases.is_empty());
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
