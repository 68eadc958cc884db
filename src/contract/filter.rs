//! Boolean filters over metadata: `content_type=academic AND (year>=2020 OR NOT has_abstract)`.
//!
//! A comparison with what a document does not have is neither true nor false, and neither is its negation (Kleene's logic):
//! such a document does not match, and is counted as undecided. Conditions about meaning are refused, and told apart from
//! slips of the pen.

use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Value, json};

use crate::catalog::Column;
use crate::contract::dates;
use crate::contract::refusal::{Cause, Outcome, Refusal};

/// What a field of a filter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Number,
    Flag,
    Moment,
}

/// Where its value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The catalog has it of every file.
    Catalog(Column),
    /// It is counted when a document is read.
    Fact(&'static str),
}

/// A field that filters know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    pub(crate) origin: Origin,
}

const fn column(name: &'static str, kind: Type, column: Column) -> Known {
    Known { name, kind, origin: Origin::Catalog(column) }
}

const fn fact(name: &'static str, kind: Type) -> Known {
    Known { name, kind, origin: Origin::Fact(name) }
}

/// Every field.
pub(crate) const FIELDS: &[Known] = &[
    column("path", Type::Text, Column::Path),
    column("name", Type::Text, Column::Name),
    column("extension", Type::Text, Column::Extension),
    column("size", Type::Number, Column::Size),
    column("modified", Type::Moment, Column::Modified),
    column("kind", Type::Text, Column::Kind),
    column("media_type", Type::Text, Column::MediaType),
    column("state", Type::Text, Column::State),
    column("reason", Type::Text, Column::Reason),
    column("owner", Type::Text, Column::Owner),
    column("chunks", Type::Number, Column::Chunks),
    fact("content_type", Type::Text),
    fact("title", Type::Text),
    fact("author", Type::Text),
    fact("domain_type", Type::Text),
    fact("published_at", Type::Moment),
    fact("year", Type::Number),
    fact("word_count", Type::Number),
    fact("page_count", Type::Number),
    fact("heading_count", Type::Number),
    fact("citation_count", Type::Number),
    fact("reference_count", Type::Number),
    fact("code_count", Type::Number),
    fact("table_count", Type::Number),
    fact("quote_count", Type::Number),
    fact("definition_count", Type::Number),
    fact("link_count", Type::Number),
    fact("has_abstract", Type::Flag),
    fact("has_code_examples", Type::Flag),
    fact("has_methodology", Type::Flag),
];

/// Other names of fields.
const ALIASES: &[(&str, &str)] = &[
    ("citations", "citation_count"),
    ("references", "reference_count"),
    ("pages", "page_count"),
    ("words", "word_count"),
    ("type", "content_type"),
    ("ext", "extension"),
    ("date", "published_at"),
];

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

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    Text(String),
    Number(f64),
    Flag(bool),
    Moment(i64),
}

impl Datum {
    /// As an answer shows it: a moment as its day.
    pub(crate) fn value(&self) -> Value {
        match self {
            Datum::Text(text) => json!(text),
            Datum::Number(number) => json!(*number as i64),
            Datum::Flag(flag) => json!(flag),
            Datum::Moment(moment) => json!(dates::day_of(*moment)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Operator {
    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::Unequal => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::More => order.is_gt(),
            Operator::MoreOrEqual => order.is_ge(),
        }
    }
}

#[derive(Clone, Debug)]
enum Wanted {
    Is(Datum),
    /// A text with `*`.
    Glob(GlobMatcher),
}

#[derive(Clone, Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Compare { field: &'static Known, operator: Operator, wanted: Wanted },
}

/// A filter that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    root: Node,
    fields: Vec<&'static Known>,
}

/// Returns a field by its name or another name of it.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    let name = name.to_lowercase();
    let name = ALIASES.iter().find(|it| it.0 == name).map_or(name.as_str(), |it| it.1);
    FIELDS.iter().find(|it| it.name == name)
}

impl Filter {
    /// Understands a filter.
    pub(crate) fn parse(text: &str) -> Outcome<Filter> {
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

    /// The fields that it looks at.
    pub(crate) fn fields(&self) -> &[&'static Known] {
        &self.fields
    }

    /// Says whether a document matches; none when a missing value leaves that open.
    pub(crate) fn evaluate(&self, value: &dyn Fn(&'static Known) -> Option<Datum>) -> Option<bool> {
        evaluate(&self.root, value)
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

fn evaluate(node: &Node, value: &dyn Fn(&'static Known) -> Option<Datum>) -> Option<bool> {
    match node {
        Node::All(nodes) => decided(nodes, value, false),
        Node::Any(nodes) => decided(nodes, value, true),
        Node::Not(inner) => evaluate(inner, value).map(|it| !it),
        Node::Compare { field, operator, wanted } => value(field).map(|it| compare(&it, *operator, wanted)),
    }
}

/// One node that is `decisive` decides; else all of them have to be known.
fn decided(nodes: &[Node], value: &dyn Fn(&'static Known) -> Option<Datum>, decisive: bool) -> Option<bool> {
    let mut is_open = false;
    for node in nodes {
        match evaluate(node, value) {
            Some(it) if it == decisive => return Some(decisive),
            Some(_) => {}
            None => is_open = true,
        }
    }
    (!is_open).then_some(!decisive)
}

fn compare(value: &Datum, operator: Operator, wanted: &Wanted) -> bool {
    match (value, wanted) {
        (Datum::Text(text), Wanted::Glob(glob)) => glob.is_match(text) == (operator == Operator::Equal),
        (Datum::Text(a), Wanted::Is(Datum::Text(b))) => same_text(a, b) == (operator == Operator::Equal),
        (Datum::Number(a), Wanted::Is(Datum::Number(b))) => operator.holds(a.total_cmp(b)),
        (Datum::Moment(a), Wanted::Is(Datum::Moment(b))) => operator.holds(a.cmp(b)),
        (Datum::Flag(a), Wanted::Is(Datum::Flag(b))) => operator.holds(a.cmp(b)),
        _ => false,
    }
}

/// Texts are the same in any case. Nothing is copied for what is ASCII: there may be many rows.
fn same_text(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(filter: &str) -> Option<bool> {
        let value = |field: &'static Known| match field.name {
            "content_type" => Some(Datum::Text("academic".into())),
            "domain_type" => Some(Datum::Text(".edu".into())),
            "citation_count" => Some(Datum::Number(51.0)),
            "word_count" => Some(Datum::Number(5_000.0)),
            "has_abstract" => Some(Datum::Flag(true)),
            "has_code_examples" => Some(Datum::Flag(false)),
            "modified" => Some(Datum::Moment(dates::moment("2024-06-01").unwrap())),
            _ => None,
        };
        Filter::parse(filter).unwrap().evaluate(&value)
    }

    #[test]
    fn filters_are_evaluated_exactly() {
        for (filter, expected) in [
            ("has_abstract AND citations>50", true),
            ("content_type=academic AND has_code_examples", false),
            ("content_type=Academic AND NOT has_code_examples", true),
            ("domain_type=.edu AND word_count>5000", false),
            ("domain_type=.edu AND word_count>=5000", true),
            ("citations!=51 OR (citations<52 AND citations<=51)", true),
            ("NOT (content_type=academic OR has_abstract)", false),
            ("content_type=acad*", true),
            ("content_type!=acad*", false),
            ("has_abstract=false", false),
            ("modified>=2024-06-01 AND modified<2024-06-02", true),
            ("content_type=\"academic\" and citations == 51", true),
            ("NOT NOT has_abstract", true),
        ] {
            assert_eq!(holds(filter), Some(expected), "{filter}");
        }
    }

    #[test]
    fn what_is_missing_leaves_open_what_depends_on_it_and_nothing_else() {
        for (filter, expected) in [
            ("year>=2020", None),
            ("NOT year>=2020", None),
            ("year!=2020", None),
            ("has_abstract AND NOT year>=2020", None),
            ("has_code_examples AND year>=2020", Some(false)),
            ("has_abstract OR year>=2020", Some(true)),
            ("has_code_examples OR year>=2020", None),
            ("NOT (has_abstract OR year>=2020)", Some(false)),
            ("year=2020 OR citations!=51 OR (citations<52 AND citations<=51)", Some(true)),
        ] {
            assert_eq!(holds(filter), expected, "{filter}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_reason() {
        for (filter, cause) in [
            ("", Cause::InvalidFilter),
            ("citations >", Cause::InvalidFilter),
            ("citations", Cause::InvalidFilter),
            ("(citations>5", Cause::InvalidFilter),
            ("citations>5)", Cause::InvalidFilter),
            ("citations>5 year>3", Cause::InvalidFilter),
            ("AND citations>5", Cause::UnknownField),
            ("title=\"open", Cause::InvalidFilter),
            ("citation_cont>5", Cause::UnknownField),
            ("citations>many", Cause::TypeError),
            ("has_abstract=maybe", Cause::TypeError),
            ("content_type>academic", Cause::TypeError),
            ("modified>soon", Cause::TypeError),
            ("text argues against regulation", Cause::SemanticFilter),
            ("introduces transformers", Cause::SemanticFilter),
            ("content ~ transformers", Cause::SemanticFilter),
            ("argues_against=tax", Cause::SemanticFilter),
            ("similar_to(\"x\")", Cause::SemanticFilter),
            ("has_abstract>3", Cause::TypeError),
            ("year>=abc", Cause::TypeError),
            ("year>=NaN", Cause::TypeError),
            (&"(".repeat(200), Cause::InvalidFilter),
        ] {
            assert_eq!(Filter::parse(filter).unwrap_err().cause, cause, "{filter}");
        }
    }
}
