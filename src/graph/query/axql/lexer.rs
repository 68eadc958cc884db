//! Lexer of AxQL: splits the text of a query into tokens with their positions.

use crate::error::{Error, Result};

/// Maximum length of a query in bytes. Queries written by people or models have some thousand.
const MAX_BYTES: usize = 64 << 10;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name or keyword: `select`, `Person`, `Fam.Parent`, `Submit.FN.001`.
    Word(String),
    /// The id of an entity as vic prints it: `File#7`.
    PrintedId(String),
    /// A variable `?x`, without the `?`.
    Var(String),
    /// The content of a quoted string, with escapes resolved.
    QuotedString(String),
    /// A number as it is written in the query.
    Number(String),
    /// A punctuation mark; `->` is a single token.
    Punctuation(&'static str),
    /// The end of the query.
    End,
}

/// A token and its position in the query, in characters from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) position: usize,
}

impl Kind {
    /// Returns the token as errors show it.
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::Word(text) | Kind::PrintedId(text) | Kind::Number(text) => format!("`{text}`"),
            Kind::Var(name) => format!("`?{name}`"),
            Kind::QuotedString(text) => format!("the text \"{}\"", text.chars().take(40).collect::<String>()),
            Kind::Punctuation(mark) => format!("`{mark}`"),
            Kind::End => "the end".into(),
        }
    }
}

/// Punctuation marks, longest first, so that `->` is not read as `-`.
const PUNCTUATION: [&str; 20] =
    ["->", "(", ")", "[", "]", "{", "}", ",", ":", "=", "/", "|", "*", "+", "?", "-", ".", ";", "<", ">"];

/// Splits a query into tokens; the last token is always [`Kind::End`].
///
/// # Errors
/// The query is too long, or has an invalid character or a string without closing quote.
pub(super) fn tokens(query: &str) -> Result<Vec<Token>> {
    if query.len() > MAX_BYTES {
        return Err(Error::invalid(format!("a query has at most {MAX_BYTES} bytes, this one has {}", query.len())));
    }
    let mut lexer = Lexer { characters: query.chars().collect(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let position = lexer.at + 1;
        let kind = lexer.next()?;
        let done = kind == Kind::End;
        tokens.push(Token { kind, position });
        if done {
            return Ok(tokens);
        }
    }
}

/// Returns whether a word may begin with this character.
pub(super) fn is_word_start(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

/// Returns whether a word may contain this character.
pub(super) fn is_word_char(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Lexer {
    characters: Vec<char>,
    at: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn skip_space(&mut self) {
        while self.peek(0).is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<Kind> {
        let Some(first) = self.peek(0) else { return Ok(Kind::End) };
        if first == '?' && self.peek(1).is_some_and(is_word_start) {
            self.at += 1;
            return Ok(Kind::Var(self.take_while(is_word_char)));
        }
        if is_word_start(first) {
            let word = self.word();
            if self.peek(0) != Some('#') || !self.peek(1).is_some_and(|it| it.is_ascii_digit()) {
                return Ok(Kind::Word(word));
            }
            self.at += 1;
            return Ok(Kind::PrintedId(format!("{word}#{}", self.take_while(|it| it.is_ascii_digit()))));
        }
        if first.is_ascii_digit() {
            return Ok(Kind::Number(self.number()));
        }
        if matches!(first, '"' | '\'') {
            return self.text(first);
        }
        let found =
            PUNCTUATION.into_iter().find(|mark| mark.chars().enumerate().all(|(at, it)| self.peek(at) == Some(it)));
        let Some(mark) = found else {
            let message =
                format!("position {}: found `{}`, which is not part of a query", self.at + 1, first.escape_default());
            return Err(Error::invalid(message).hint("write strings in quotes: \"...\""));
        };
        self.at += mark.len();
        Ok(Kind::Punctuation(mark))
    }

    fn take_while(&mut self, belongs: fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(belongs) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    /// Reads a word with the parts after its dots, as in schema names and semantic ids.
    fn word(&mut self) -> String {
        let mut word = self.take_while(is_word_char);
        while self.peek(0) == Some('.') && self.peek(1).is_some_and(is_word_char) {
            self.at += 1;
            word.push('.');
            word.push_str(&self.take_while(is_word_char));
        }
        word
    }

    fn number(&mut self) -> String {
        let mut number = self.take_while(|it| it.is_ascii_digit());
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
            number.push('.');
            number.push_str(&self.take_while(|it| it.is_ascii_digit()));
        }
        number
    }

    fn text(&mut self, quote: char) -> Result<Kind> {
        let begin = self.at + 1;
        self.at += 1;
        let mut text = String::new();
        while let Some(character) = self.peek(0) {
            self.at += 1;
            match character {
                it if it == quote => return Ok(Kind::QuotedString(text)),
                '\\' => text.push(self.escape()?),
                other => text.push(other),
            }
        }
        let message = format!("position {begin}: found a string without an end, expected `{quote}` after it");
        Err(Error::invalid(message).hint("write a quote inside a string as \\\" or \\'"))
    }

    fn escape(&mut self) -> Result<char> {
        let found = self.peek(0);
        self.at += 1;
        match found {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some(it @ ('"' | '\'' | '\\')) => Ok(it),
            other => {
                let shown = other.map_or("the end".to_string(), |it| format!("`\\{}`", it.escape_default()));
                Err(Error::invalid(format!(
                    "position {}: found {shown}, expected one of \\n, \\t, \\r, \\\", \\', \\\\",
                    self.at - 1
                )))
            }
        }
    }
}
