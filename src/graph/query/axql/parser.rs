//! Parser of AxQL for everything except atoms. Each error has the position, the token found there, and what was expected.

use crate::error::{Error, Result};
use crate::graph::query::axql::ast::{MAX_HOPS, MAX_LIMIT, Path, Query};
use crate::graph::query::axql::check;
use crate::graph::query::axql::lexer::{Kind, Token, tokens};
use crate::graph::suggest;

/// Reserved words; used as names, they must be in quotes.
pub(super) const KEYWORDS: [&str; 9] = ["select", "where", "or", "in", "max_hops", "min_conf", "limit", "is", "has"];

/// Words that begin a clause, which follows the atoms.
const CLAUSES: [&str; 4] = ["in", "max_hops", "min_conf", "limit"];

/// Parses a query in AxQL.
///
/// # Errors
/// `InvalidArgument` with the position, what was found and what was expected, and a hint if a known word is similar.
pub fn parse(text: &str) -> Result<Query> {
    parse_query(text).map_err(|error| error.field("query"))
}

fn parse_query(text: &str) -> Result<Query> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    parser.expect_keyword("select")?;
    let mut query = Query { select: parser.select_list()?, ..Query::default() };
    parser.expect_keyword("where")?;
    query.disjuncts.push(parser.conjunction()?);
    while parser.eat_word("or") {
        query.disjuncts.push(parser.conjunction()?);
    }
    parser.clauses(&mut query)?;
    check::check_query(&query)?;
    Ok(query)
}

/// Parses a text that is only a path, for `query_ir_v1`.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_path(text: &str) -> Result<Path> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let path = parser.path(0)?;
    if *parser.peek() == Kind::End {
        Ok(path)
    } else {
        Err(parser.expected("`/`, `|`, `*`, `+`, `?` or the end of the path"))
    }
}

/// The tokens of a query and the position of the parser in them.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> &Kind {
        self.peek_at(0)
    }

    /// Returns the token `distance` positions ahead, without consuming it.
    pub(super) fn peek_at(&self, distance: usize) -> &Kind {
        &self.tokens[(self.at + distance).min(self.tokens.len() - 1)].kind
    }

    pub(super) fn advance(&mut self) -> Kind {
        let kind = self.peek().clone();
        if self.at < self.tokens.len() - 1 {
            self.at += 1;
        }
        kind
    }

    /// Returns the error for an unexpected token at the current position; `what` is what was expected.
    pub(super) fn expected(&self, what: &str) -> Error {
        let token = &self.tokens[self.at];
        let error =
            Error::invalid(format!("position {}: found {}, expected {what}", token.position, token.kind.describe()));
        match token.kind {
            Kind::PrintedId(_) => error.hint("write an entity as `File#7` alone, or as its name in quotes"),
            Kind::Punctuation("{") if self.at == 0 => {
                error.hint("a query as JSON is `query_ir_v1`: give it with `--ir`")
            }
            _ => error,
        }
    }

    /// As [`Parser::expected`], with a hint if the found word is similar to one of `words`.
    pub(super) fn expected_one_of(&self, what: &str, words: &[&str]) -> Error {
        let error = self.expected(what);
        match self.peek() {
            Kind::Word(found) => suggest::with_suggestion(error, found, words.iter().copied()),
            _ => error,
        }
    }

    pub(super) fn eat_punctuation(&mut self, mark: &'static str) -> bool {
        let is_it = *self.peek() == Kind::Punctuation(mark);
        if is_it {
            self.advance();
        }
        is_it
    }

    pub(super) fn expect_punctuation(&mut self, mark: &'static str) -> Result<()> {
        if self.eat_punctuation(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(found) if found == word)
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        if is_it {
            self.advance();
        }
        is_it
    }

    fn expect_keyword(&mut self, word: &'static str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected_one_of(&format!("`{word}`"), &[word])) }
    }

    /// Parses a name, with or without quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) && word != "_" => (),
            Kind::QuotedString(text) if !text.is_empty() => (),
            _ => return Err(self.expected(what)),
        }
        match self.advance() {
            Kind::Word(name) | Kind::QuotedString(name) => Ok(name),
            _ => Err(self.expected(what)),
        }
    }

    /// Parses a quoted text.
    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Kind::QuotedString(_) => match self.advance() {
                Kind::QuotedString(text) => Ok(text),
                _ => Err(self.expected(what)),
            },
            _ => Err(self.expected(&format!("{what} in quotes"))),
        }
    }

    /// Parses a whole number that is at most `most`.
    pub(super) fn whole_number(&mut self, what: &str, most: u32) -> Result<u32> {
        let bounded = format!("{what}, a whole number up to {most}");
        let Kind::Number(digits) = self.peek() else { return Err(self.expected(&bounded)) };
        let value = digits.parse().ok().filter(|it| *it <= most).ok_or_else(|| self.expected(&bounded))?;
        self.advance();
        Ok(value)
    }

    fn select_list(&mut self) -> Result<Vec<String>> {
        let mut select = Vec::new();
        while let Kind::Var(name) = self.peek() {
            let name = name.clone();
            if select.contains(&name) {
                return Err(self.expected("each variable only once"));
            }
            select.push(name);
            self.advance();
            self.eat_punctuation(",");
        }
        if select.is_empty() {
            return Err(self.expected("a variable such as `?x`"));
        }
        Ok(select)
    }

    fn clauses(&mut self, query: &mut Query) -> Result<()> {
        let mut seen: Vec<&str> = Vec::new();
        while let Some(clause) = CLAUSES.into_iter().find(|it| self.is_word(it)) {
            if seen.contains(&clause) {
                return Err(self.expected(&format!("`{clause}` at most once")));
            }
            seen.push(clause);
            self.advance();
            match clause {
                "in" => query.contexts = self.contexts()?,
                "max_hops" => query.max_hops = Some(self.positive("a number of hops", MAX_HOPS)?),
                "min_conf" => query.min_confidence = Some(self.confidence()?),
                _ => query.limit = Some(self.positive("a number of rows", MAX_LIMIT)?),
            }
        }
        self.eat_punctuation(";");
        if *self.peek() == Kind::End {
            return Ok(());
        }
        let words = [&CLAUSES[..], &["or"]].concat();
        Err(self.expected_one_of("`,`, `or`, `in`, `max_hops`, `min_conf`, `limit` or the end", &words))
    }

    fn positive(&mut self, what: &str, most: u32) -> Result<u32> {
        if *self.peek() == Kind::Number("0".into()) {
            return Err(self.expected(&format!("{what} of at least 1")));
        }
        self.whole_number(what, most)
    }

    fn confidence(&mut self) -> Result<f32> {
        let what = "a confidence between 0 and 1";
        let Kind::Number(digits) = self.peek() else { return Err(self.expected(what)) };
        let value: f32 = digits.parse().map_err(|_| self.expected(what))?;
        if !(0.0..=1.0).contains(&value) {
            return Err(self.expected(what));
        }
        self.advance();
        Ok(value)
    }

    fn contexts(&mut self) -> Result<Vec<String>> {
        if !self.eat_punctuation("{") {
            return Ok(vec![self.name("the name of a context")?]);
        }
        let mut contexts = vec![self.name("the name of a context")?];
        while self.eat_punctuation(",") {
            contexts.push(self.name("the name of a context")?);
        }
        self.expect_punctuation("}")?;
        Ok(contexts)
    }
}
