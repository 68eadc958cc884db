//! Filters: the only way to make an expression, so that no value changes its meaning.
//!
//! The expressions keep to what both Milvus 2.3 and Milvus Lite 3 evaluate: no chained comparison, no template, `like`
//! with a prefix only.

use std::fmt::{self, Write};
use std::ops::Range;

/// Which rows to read, delete or search in. `Display` gives the expression of Milvus.
///
/// The names of fields are `'static`: they are those of a schema in the program, never data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(Node);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Compare(&'static str, &'static str, Literal),
    In(&'static str, Vec<Literal>),
    StartsWith(&'static str, String),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Number(i64),
    Text(String),
}

impl Filter {
    /// The field has this number.
    pub fn eq_int(field: &'static str, value: i64) -> Self {
        // A server reads -9223372036854775808 as the negative of a number that does not fit.
        match value.checked_sub(1) {
            Some(_) => Self(Node::Compare(field, "==", Literal::Number(value))),
            None => Self(Node::Compare(field, "<", Literal::Number(i64::MIN + 1))),
        }
    }

    /// The field has one of these numbers. Of none, no row matches.
    pub fn in_ints(field: &'static str, values: impl IntoIterator<Item = i64>) -> Self {
        let (least, rest): (Vec<_>, Vec<_>) = values.into_iter().partition(|&value| value == i64::MIN);
        if rest.is_empty() {
            return if least.is_empty() { Self::no_number(field) } else { Self::eq_int(field, i64::MIN) };
        }
        let among = Self(Node::In(field, rest.into_iter().map(Literal::Number).collect()));
        if least.is_empty() { among } else { among.or(Self::eq_int(field, i64::MIN)) }
    }

    /// The field has one of these texts. Of none, no row matches.
    pub fn in_texts<T: Into<String>>(field: &'static str, values: impl IntoIterator<Item = T>) -> Self {
        let values: Vec<_> = values.into_iter().map(|value| Literal::Text(value.into())).collect();
        if values.is_empty() {
            // Servers differ on an empty list.
            let compare = |operator| Self(Node::Compare(field, operator, Literal::Text(String::new())));
            return compare("==").and(compare("!="));
        }
        Self(Node::In(field, values))
    }

    /// The number of the field is in the range. In an empty range, no row matches.
    pub fn range(field: &'static str, range: Range<i64>) -> Self {
        if range.is_empty() {
            return Self::no_number(field);
        }
        let below = Self(Node::Compare(field, "<", Literal::Number(range.end)));
        if range.start == i64::MIN {
            return below;
        }
        Self(Node::Compare(field, ">=", Literal::Number(range.start))).and(below)
    }

    /// The text of the field begins with the prefix.
    ///
    /// A prefix with `%` or `_` becomes a range of texts: beside a condition on a list, Milvus Lite finds nothing with an
    /// escape in `like`.
    pub fn starts_with(field: &'static str, prefix: impl Into<String>) -> Self {
        Self(Node::StartsWith(field, prefix.into()))
    }

    /// Both match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Node::All(vec![self.0, other.0]))
    }

    /// At least one matches.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(Node::Any(vec![self.0, other.0]))
    }

    /// All match. `None` of none, which means that every row matches.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Option<Self> {
        join(filters, Node::All)
    }

    /// At least one matches. `None` of none.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Option<Self> {
        join(filters, Node::Any)
    }

    /// Does not match.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "one word as `and` and `or`; an operator would hide it")]
    pub fn not(self) -> Self {
        Self(Node::Not(Box::new(self.0)))
    }

    fn no_number(field: &'static str) -> Self {
        let compare = |operator| Self(Node::Compare(field, operator, Literal::Number(0)));
        compare("<").and(compare(">"))
    }
}

/// One list, not a tree: a server that reads expressions recursively would run out of stack.
fn join(filters: impl IntoIterator<Item = Filter>, combine: fn(Vec<Node>) -> Node) -> Option<Filter> {
    let mut nodes: Vec<_> = filters.into_iter().map(|filter| filter.0).collect();
    match nodes.len() {
        0 => None,
        1 => nodes.pop().map(Filter),
        _ => Some(Filter(combine(nodes))),
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(field, operator, value) => write!(f, "{field} {operator} {value}"),
            Self::In(field, values) => write!(f, "{field} in [{}]", list(values)),
            Self::StartsWith(field, prefix) => write_prefix(f, field, prefix),
            Self::Not(node) => write!(f, "not ({node})"),
            Self::All(nodes) => write_joined(f, nodes, " and "),
            Self::Any(nodes) => write_joined(f, nodes, " or "),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, nodes: &[Node], word: &str) -> fmt::Result {
    for (position, node) in nodes.iter().enumerate() {
        write!(f, "{}({node})", if position == 0 { "" } else { word })?;
    }
    Ok(())
}

fn list<T: fmt::Display>(values: &[T]) -> String {
    let mut text = String::new();
    for (position, value) in values.iter().enumerate() {
        let _ = write!(text, "{}{value}", if position == 0 { "" } else { ", " });
    }
    text
}

fn write_prefix(f: &mut fmt::Formatter<'_>, field: &str, prefix: &str) -> fmt::Result {
    if !prefix.contains(['%', '_', '\\']) {
        return write!(f, "{field} like {}", Literal::Text(format!("{prefix}%")));
    }
    write!(f, "({field} >= {})", Literal::Text(prefix.to_string()))?;
    match after_prefix(prefix) {
        Some(end) => write!(f, " and ({field} < {})", Literal::Text(end)),
        None => Ok(()),
    }
}

/// The least text that is above every text with the prefix. Servers compare the bytes of UTF-8, whose order is that of
/// the characters.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Number(number) => return write!(f, "{number}"),
            Self::Text(text) => text,
        };
        // The escapes that both Milvus (those of Go) and Milvus Lite know. Both take any other character as it is.
        f.write_char('"')?;
        for c in text.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filters_are_written_in_the_syntax_of_milvus() {
        let cases = [
            (Filter::eq_int("id", -7), "id == -7"),
            (Filter::eq_int("id", i64::MIN), "id < -9223372036854775807"),
            (Filter::in_texts("path", ["a\"b\\c\n"]), r#"path in ["a\"b\\c\n"]"#),
            (Filter::in_ints("id", [1, 2]), "id in [1, 2]"),
            (Filter::in_ints("id", [i64::MIN, 2]), "(id in [2]) or (id < -9223372036854775807)"),
            (Filter::in_ints("id", []), "(id < 0) and (id > 0)"),
            (Filter::in_texts("path", ["a", "b"]), r#"path in ["a", "b"]"#),
            (Filter::range("t", 5..9), "(t >= 5) and (t < 9)"),
            (Filter::range("t", i64::MIN..9), "t < 9"),
            (Filter::range("t", 5..5), "(t < 0) and (t > 0)"),
            (Filter::starts_with("path", "/home/"), r#"path like "/home/%""#),
            (Filter::starts_with("path", "a_b"), r#"(path >= "a_b") and (path < "a_c")"#),
            (Filter::eq_int("a", 1).and(Filter::eq_int("b", 2)).not(), "not ((a == 1) and (b == 2))"),
        ];
        for (filter, text) in cases {
            assert_eq!(filter.to_string(), text);
        }
        assert_eq!(Filter::all([]), None);
        assert_eq!(Filter::any([Filter::eq_int("a", 1)]), Some(Filter::eq_int("a", 1)));
    }

    /// Reads a literal by the rules of Go, without any code of this module: the characters, and what follows.
    fn read_literal(text: &str) -> Option<(String, &str)> {
        let mut rest = text.strip_prefix('"')?;
        let mut value = String::new();
        loop {
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => return Some((value, rest)),
                '\n' | '\r' => return None,
                '\\' => {
                    let escape = rest.chars().next()?;
                    rest = &rest[escape.len_utf8()..];
                    value.push(match escape {
                        '"' | '\\' => escape,
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        _ => return None,
                    });
                }
                c => value.push(c),
            }
        }
    }

    proptest! {
        #[test]
        fn text_comes_back_exactly(value in "(\\PC|[\"'\\\\%_\n\r\t\u{0}]| or | and |==|[\\[\\](),]){0,40}") {
            let text = Filter::in_texts("f", [value.clone()]).to_string();
            let (read, rest) = read_literal(text.strip_prefix("f in [").unwrap()).unwrap();
            prop_assert_eq!((read.as_str(), rest), (value.as_str(), "]"));
        }

        #[test]
        fn prefix_range_holds_exactly_the_texts_with_the_prefix(
            prefix in "[a-c\u{ff}\u{d7ff}\u{10ffff}]{1,4}",
            text in "[a-d\u{ff}\u{d7ff}\u{e000}\u{10ffff}]{0,6}",
        ) {
            let inside = text >= prefix && after_prefix(&prefix).is_none_or(|end| text < end);
            prop_assert_eq!(inside, text.starts_with(&prefix));
        }
    }
}
