//! Parses the text of a boolean filter, e.g. `year>=2020 AND NOT has_abstract`, into a tree.

use crate::filter::{Comparison, Node, Operator};

/// Maximum nesting of parentheses and NOTs. A deeper filter is an error, because users do not write such filters.
const MAX_DEPTH: usize = 50;

/// An error in the text of a filter, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterError(pub(crate) String);

/// Parses a filter and compiles each comparison with `compile`.
///
/// # Errors
///
/// Fails if the text is not a filter, or if `compile` fails for a comparison.
pub(crate) fn parse_filter<T, E: From<FilterError>>(
    text: &str,
    compile: &mut dyn FnMut(Comparison) -> Result<T, E>,
) -> Result<Node<T>, E> {
    let mut parser = Parser { tokens: tokenize(text)?, at: 0, depth: 0, compile };
    let root = parser.parse_or()?;
    match parser.peek() {
        None => Ok(root),
        Some(token) => Err(filter_error(format!("unexpected `{}`", token.display_text())).into()),
    }
}

/// Returns the unquoted words of a filter, such as fields, values and keywords; empty if the text cannot be parsed.
pub(crate) fn unquoted_words(text: &str) -> Vec<String> {
    let word = |token| match token {
        Token::Word(word, false) => Some(word),
        _ => None,
    };
    tokenize(text).into_iter().flatten().filter_map(word).collect()
}

fn filter_error(message: impl Into<String>) -> FilterError {
    FilterError(message.into())
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Operator(Operator),
    /// A word, and whether the user wrote it in quotes.
    Word(String, bool),
}

impl Token {
    fn display_text(&self) -> String {
        match self {
            Token::Open => "(".into(),
            Token::Close => ")".into(),
            Token::Operator(_) => "an operator".into(),
            Token::Word(word, _) if word.chars().count() > 40 => word.chars().take(40).chain(['…']).collect(),
            Token::Word(word, _) => word.clone(),
        }
    }
}

fn tokenize(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let operators = [
            ("!=", Operator::Unequal),
            (">=", Operator::GreaterOrEqual),
            ("<=", Operator::LessOrEqual),
            ("==", Operator::Equal),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let (token, length) = match (first, operators.iter().find(|it| rest.starts_with(it.0))) {
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            (_, Some((sign, operator))) => (Token::Operator(*operator), sign.len()),
            ('"' | '\'', _) => {
                let inner = &rest[1..];
                let end = inner.find(first).ok_or_else(|| filter_error("a closing quotation mark is missing"))?;
                (Token::Word(inner[..end].to_string(), true), end + 2)
            }
            _ => {
                let ends = |it: char| it.is_whitespace() || matches!(it, '(' | ')' | '=' | '!' | '<' | '>' | '"');
                let end = rest.find(ends).unwrap_or(rest.len());
                if end == 0 {
                    return Err(filter_error(format!("`{first}` is not an operator: use =, !=, <, <=, > or >=")));
                }
                (Token::Word(rest[..end].to_string(), false), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'c, T, E> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    compile: &'c mut dyn FnMut(Comparison) -> Result<T, E>,
}

impl<T, E: From<FilterError>> Parser<'_, T, E> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Consumes the next token if it is the keyword `name` (e.g. `AND`), and returns whether it did.
    fn take_keyword(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word, false)) if word.eq_ignore_ascii_case(name));
        self.at += usize::from(found);
        found
    }

    fn parse_or(&mut self) -> Result<Node<T>, E> {
        let mut nodes = vec![self.parse_and()?];
        while self.take_keyword("OR") || self.take_keyword("||") {
            nodes.push(self.parse_and()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn parse_and(&mut self) -> Result<Node<T>, E> {
        let mut nodes = vec![self.parse_operand()?];
        while self.take_keyword("AND") || self.take_keyword("&&") {
            nodes.push(self.parse_operand()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn parse_operand(&mut self) -> Result<Node<T>, E> {
        if self.depth > MAX_DEPTH {
            return Err(filter_error("parentheses and NOTs of the filter are nested too deeply").into());
        }
        self.depth += 1;
        let node = if self.take_keyword("NOT") {
            Node::Not(Box::new(self.parse_operand()?))
        } else if self.peek() == Some(&Token::Open) {
            self.at += 1;
            let inner = self.parse_or()?;
            if self.peek() != Some(&Token::Close) {
                return Err(filter_error("a `(` has no closing `)`").into());
            }
            self.at += 1;
            inner
        } else {
            self.parse_comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn parse_comparison(&mut self) -> Result<Node<T>, E> {
        let (field, is_quoted) = match self.peek() {
            Some(Token::Word(name, is_quoted)) => (name.clone(), *is_quoted),
            Some(other) => {
                return Err(filter_error(format!("a field is missing before `{}`", other.display_text())).into());
            }
            None => return Err(filter_error("a condition such as `year>=2020` is missing at the end").into()),
        };
        self.at += 1;
        let wanted = match self.peek() {
            Some(Token::Operator(operator)) => {
                let operator = *operator;
                self.at += 1;
                let Some(Token::Word(value, _)) = self.peek().cloned() else {
                    return Err(filter_error(format!("a value is missing after the operator of `{field}`")).into());
                };
                self.at += 1;
                Some((operator, value))
            }
            _ => None,
        };
        Ok(Node::Leaf((self.compile)(Comparison { field, is_quoted, condition: wanted })?))
    }
}
