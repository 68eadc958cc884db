//! The text of a filter: words, signs and parentheses, and what they say.

use globset::GlobBuilder;

use crate::contract::dates;
use crate::contract::filter::{Datum, FIELDS, Filter, Known, Node, Operator, Type, Wanted, known};
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::model::MAX_GLOB;

/// Words that ask for meaning.
const SEMANTIC: &[&str] = &[
    "about",
    "argues",
    "believes",
    "claims",
    "conceptually",
    "contains",
    "contradicts",
    "criticises",
    "criticizes",
    "describes",
    "discusses",
    "explains",
    "introduces",
    "like",
    "means",
    "mentions",
    "opposes",
    "recommends",
    "related",
    "resembles",
    "similar",
    "suggests",
    "supports",
];

/// Understands a filter.
pub(super) fn filter(text: &str) -> Outcome<Filter> {
    let tokens = tokens(text)?;
    let semantic = tokens.iter().any(|it| matches!(it, Token::Word(word, false) if is_semantic(word)));
    let mut parser = Parser { tokens, at: 0, depth: 0, fields: Vec::new() };
    let parsed = parser.any().and_then(|root| match parser.peek() {
        None => Ok(root),
        Some(token) => Err(wrong(format!("`{}` is not expected there", token.shown()))),
    });
    match parsed {
        Ok(root) => Ok(Filter { root, fields: parser.fields }),
        Err(_) if semantic || text.contains('~') => Err(meaning()),
        Err(refusal) => Err(refusal),
    }
}

/// Also of names such as `argues_against`.
fn is_semantic(word: &str) -> bool {
    word.to_lowercase().split('_').any(|it| SEMANTIC.contains(&it))
}

fn meaning() -> Refusal {
    Refusal::new(Cause::SemanticFilter, "a filter knows metadata only; conditions about meaning are reserved for 2.0")
        .field("filter")
        .action("filter by metadata, e.g. title=*tides*, then use EXTRACT or COMPARE on the view")
        .action("for meaning use `vic ask`")
}

fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(Cause::InvalidFilter, message)
        .field("filter")
        .action("write e.g. content_type=academic AND (year>=2020 OR NOT has_abstract)")
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Operator(Operator),
    /// A word, and whether it was in quotes.
    Word(String, bool),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Open => "(".into(),
            Token::Close => ")".into(),
            Token::Operator(_) => "an operator".into(),
            Token::Word(word, _) => word.chars().take(40).collect(),
        }
    }
}

fn tokens(text: &str) -> Outcome<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let operators = [
            ("!=", Operator::Unequal),
            (">=", Operator::MoreOrEqual),
            ("<=", Operator::LessOrEqual),
            ("==", Operator::Equal),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        let (token, length) = match (first, operators.iter().find(|it| rest.starts_with(it.0))) {
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            (_, Some((sign, operator))) => (Token::Operator(*operator), sign.len()),
            ('"' | '\'', _) => {
                let inner = &rest[1..];
                let end = inner.find(first).ok_or_else(|| wrong("a quotation mark is not closed"))?;
                (Token::Word(inner[..end].to_string(), true), end + 2)
            }
            _ => {
                let ends = |it: char| it.is_whitespace() || matches!(it, '(' | ')' | '=' | '!' | '<' | '>' | '"');
                let end = rest.find(ends).unwrap_or(rest.len());
                if end == 0 {
                    return Err(wrong(format!("`{first}` is no operator")));
                }
                (Token::Word(rest[..end].to_string(), false), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    fields: Vec<&'static Known>,
}

/// Parentheses and NOTs inside each other; more are no filter that anybody meant.
const MOST_DEPTH: usize = 50;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes a word such as `AND`.
    fn keyword(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word, false)) if word.eq_ignore_ascii_case(name));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Outcome<Node> {
        let mut nodes = vec![self.all()?];
        while self.keyword("OR") {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Outcome<Node> {
        let mut nodes = vec![self.one()?];
        while self.keyword("AND") {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Outcome<Node> {
        if self.depth > MOST_DEPTH {
            return Err(wrong("the filter is nested too deep"));
        }
        self.depth += 1;
        let node = if self.keyword("NOT") {
            Node::Not(Box::new(self.one()?))
        } else if self.peek() == Some(&Token::Open) {
            self.at += 1;
            let inner = self.any()?;
            if self.peek() != Some(&Token::Close) {
                return Err(wrong("a parenthesis is not closed"));
            }
            self.at += 1;
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Outcome<Node> {
        let name = match self.peek() {
            Some(Token::Word(name, false)) => name.clone(),
            Some(other) => return Err(wrong(format!("a field is missing before `{}`", other.shown()))),
            None => return Err(wrong("a condition is missing at the end")),
        };
        let field = known(&name).ok_or_else(|| {
            let names: Vec<&str> = FIELDS.iter().map(|it| it.name).collect();
            Refusal::unknown(Cause::UnknownField, "metadata field", &name, &names).field("filter")
        })?;
        self.at += 1;
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
        let Some(Token::Operator(operator)) = self.peek().cloned() else {
            return match field.kind {
                Type::Flag => {
                    Ok(Node::Compare { field, operator: Operator::Equal, wanted: Wanted::Is(Datum::Flag(true)) })
                }
                _ => Err(wrong(format!("`{name}` needs an operator and a value"))),
            };
        };
        self.at += 1;
        let Some(Token::Word(value, _)) = self.peek().cloned() else {
            return Err(wrong(format!("a value is missing after `{name}`")));
        };
        self.at += 1;
        Ok(Node::Compare { field, operator, wanted: wanted(field, operator, &value)? })
    }
}

fn wanted(field: &Known, operator: Operator, value: &str) -> Outcome<Wanted> {
    let mistyped = |what: &str| {
        Refusal::new(Cause::TypeError, format!("`{}` is compared with {what}, not `{value}`", field.name))
            .field("filter")
            .action(format!("compare `{}` with {what}", field.name))
    };
    let equality = matches!(operator, Operator::Equal | Operator::Unequal);
    let datum = match field.kind {
        Type::Text | Type::Flag if !equality => {
            let refusal = Refusal::new(Cause::TypeError, format!("`{}` has no order", field.name));
            return Err(refusal.field("filter").action("use = or !="));
        }
        // The matcher panics where it becomes too large.
        Type::Text if value.contains('*') && value.len() > MAX_GLOB => {
            return Err(wrong(format!("a value with `*` has {} bytes, and may have {MAX_GLOB}", value.len())));
        }
        Type::Text if value.contains('*') => {
            let glob = GlobBuilder::new(value).case_insensitive(true).build();
            return glob.map(|it| Wanted::Glob(it.compile_matcher())).map_err(|error| wrong(error.to_string()));
        }
        Type::Text => Datum::Text(value.to_string()),
        Type::Number => {
            let number = value.parse().ok().filter(|it: &f64| it.is_finite());
            Datum::Number(number.ok_or_else(|| mistyped("a number"))?)
        }
        Type::Moment => Datum::Moment(dates::moment(value).ok_or_else(|| mistyped("a date such as 2024-01-31"))?),
        Type::Flag => match value.to_lowercase().as_str() {
            "true" | "yes" | "1" => Datum::Flag(true),
            "false" | "no" | "0" => Datum::Flag(false),
            _ => return Err(mistyped("true or false")),
        },
    };
    Ok(Wanted::Is(datum))
}
