//! The part of the filter language of Milvus that `Filter` writes: a reader of its own, and the evaluation for one row.

use super::row::{Literal, Row, Value, key_of};

/// The deepest nesting; the reader is recursive.
const MAX_DEPTH: u32 = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Compare(String, Operator, Literal),
    In(String, Vec<Literal>),
    Like(String, String),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// Reads an expression. `None` if it is not one of those above.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text, depth: 0 };
        let expression = reader.any()?;
        reader.rest.trim_start().is_empty().then_some(expression)
    }

    /// Whether a row matches. `None` if it lacks a field, or has it with another type.
    pub(super) fn matches(&self, row: &Row) -> Option<bool> {
        Some(match self {
            Self::Compare(field, operator, literal) => operator.holds(&key_of(row.get(field)?)?, literal)?,
            Self::In(field, literals) => literals.contains(&key_of(row.get(field)?)?),
            Self::Like(field, prefix) => match row.get(field)? {
                Value::Text(text) => text.starts_with(prefix.as_str()),
                _ => return None,
            },
            Self::Not(expression) => !expression.matches(row)?,
            Self::All(expressions) => {
                expressions.iter().map(|each| each.matches(row)).collect::<Option<Vec<_>>>()?.into_iter().all(|x| x)
            }
            Self::Any(expressions) => {
                expressions.iter().map(|each| each.matches(row)).collect::<Option<Vec<_>>>()?.into_iter().any(|x| x)
            }
        })
    }
}

impl Operator {
    fn holds(self, left: &Literal, right: &Literal) -> Option<bool> {
        if std::mem::discriminant(left) != std::mem::discriminant(right) {
            return None;
        }
        Some(match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        })
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> Option<Expression> {
        self.joined("or", Self::all, Expression::Any)
    }

    fn all(&mut self) -> Option<Expression> {
        self.joined("and", Self::term, Expression::All)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Option<Expression>,
        combine: fn(Vec<Expression>) -> Expression,
    ) -> Option<Expression> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.word(word) {
            parts.push(part(self)?);
        }
        if parts.len() == 1 { parts.pop() } else { Some(combine(parts)) }
    }

    fn term(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let term = if self.word("not") {
            Expression::Not(Box::new(self.term()?))
        } else if self.symbol("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Some(term)
    }

    fn condition(&mut self) -> Option<Expression> {
        let field = self.name()?;
        if self.word("in") {
            return Some(Expression::In(field, self.list()?));
        }
        if self.word("like") {
            let Literal::Text(pattern) = self.literal()? else { return None };
            let prefix = pattern.strip_suffix('%')?;
            return (!prefix.contains(['%', '_', '\\'])).then(|| Expression::Like(field, prefix.to_string()));
        }
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let (_, operator) = operators.into_iter().find(|(symbol, _)| self.symbol(symbol))?;
        Some(Expression::Compare(field, operator, self.literal()?))
    }

    fn list(&mut self) -> Option<Vec<Literal>> {
        self.expect("[")?;
        // As Milvus 2.3.5, which refuses an empty list.
        let mut literals = vec![self.literal()?];
        while !self.symbol("]") {
            self.expect(",")?;
            literals.push(self.literal()?);
        }
        Some(literals)
    }

    fn literal(&mut self) -> Option<Literal> {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('"') {
            let (text, rest) = read_text(rest)?;
            self.rest = rest;
            return Some(Literal::Text(text));
        }
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let end = self.rest.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        // As the full server, which reads the digits before it negates them.
        number.strip_prefix('-').unwrap_or(number).parse::<i64>().ok()?;
        number.parse().ok().map(Literal::Number)
    }

    fn name(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let name = self.peek_name();
        self.rest = &self.rest[name.len()..];
        (!name.is_empty()).then(|| name.to_string())
    }

    fn peek_name(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    }

    fn word(&mut self, word: &str) -> bool {
        self.peek_name() == word && self.symbol(word)
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        match self.rest.trim_start().strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        self.symbol(symbol).then_some(())
    }
}

/// The text up to the closing quote, and what follows.
fn read_text(mut rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => return Some((text, rest)),
            '\n' | '\r' => return None,
            '\\' => {
                let escape = rest.chars().next()?;
                rest = &rest[escape.len_utf8()..];
                text.push(match escape {
                    '"' | '\\' => escape,
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    _ => return None,
                });
            }
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Filter;

    fn row() -> Row {
        Row::from([
            ("id".to_string(), Value::Int(7)),
            ("text".to_string(), Value::Text("a_b\"c".to_string())),
            ("dirs".to_string(), Value::List(vec![1, 2])),
        ])
    }

    fn matches(filter: &Filter) -> Option<bool> {
        Expression::read(&filter.to_string())?.matches(&row())
    }

    #[test]
    fn filters_match_their_row() {
        let yes = [
            Filter::eq_int("id", 7),
            Filter::eq_int("id", i64::MIN).not(),
            Filter::in_ints("id", [i64::MIN, 7]),
            Filter::range("id", 7..8).and(Filter::range("id", i64::MIN..9)),
            Filter::starts_with("text", "a_b\""),
            Filter::starts_with("text", ""),
            Filter::in_texts("text", ["a_b\"c"]).or(Filter::eq_int("id", 0)),
        ];
        let no = [Filter::in_ints("id", []), Filter::in_texts("text", [""; 0]), Filter::starts_with("text", "axb")];
        assert!(yes.iter().all(|filter| matches(filter) == Some(true)));
        assert!(no.iter().all(|filter| matches(filter) == Some(false)));
    }

    #[test]
    fn other_expressions_are_refused() {
        let wrong = [
            "",
            "id =",
            "1 < id < 3",
            "id == 1 id == 2",
            "id == \"a\nb\"",
            "text like \"%a\"",
            "id in []",
            "id == -9223372036854775808",
        ];
        assert!(wrong.iter().all(|text| Expression::read(text).is_none()));
        assert_eq!(Expression::read("id == \"7\"").unwrap().matches(&row()), None);
        assert_eq!(Expression::read(&"(".repeat(100_000)), None);
    }

    proptest! {
        #[test]
        fn any_text_is_found_by_its_filter(text in "(\\PC|[\"'\\\\%_\n\r\t\u{0}]| or | and ){0,30}", other in "\\PC{0,8}") {
            let row = Row::from([("text".to_string(), Value::Text(text.clone()))]);
            let holds = |filter: Filter| Expression::read(&filter.to_string()).unwrap().matches(&row).unwrap();
            prop_assert!(holds(Filter::in_texts("text", [text.clone()])));
            prop_assert!(holds(Filter::in_texts("text", [other.clone(), text.clone()])));
            prop_assert_eq!(holds(Filter::starts_with("text", other.clone())), text.starts_with(&other));
        }
    }
}
