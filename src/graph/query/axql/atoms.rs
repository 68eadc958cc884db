//! Parser of AxQL for the atoms of a query and the paths in them.

use crate::error::Result;
use crate::graph::query::axql::ast::{Atom, MAX_DISTANCE, Path, Term};
use crate::graph::query::axql::lexer::Kind;
use crate::graph::query::axql::parser::Parser;

/// Maximum nesting of parentheses in a path. Real queries have much less, and every level takes stack memory.
const MAX_NESTING: usize = 32;

/// Words that are functions if `(` follows; any other word before `(` is a relation.
pub(super) const FUNCTIONS: [&str; 6] = ["attr", "contains", "fts", "fuzzy", "has", "attrs"];

/// What errors say is expected at the beginning of an atom.
const EXPECTED_ATOM: &str =
    "an atom: a term (`?x`, `_`, `File#7`, a name), a function such as `attr(` or a relation such as `R(`";

impl Parser {
    /// Parses atoms separated by commas.
    pub(super) fn conjunction(&mut self) -> Result<Vec<Atom>> {
        let mut atoms = vec![self.atom()?];
        while self.eat_punctuation(",") {
            atoms.push(self.atom()?);
        }
        Ok(atoms)
    }

    fn atom(&mut self) -> Result<Atom> {
        let opens = *self.peek_at(1) == Kind::Punctuation("(");
        match self.peek() {
            Kind::Word(word) if opens && FUNCTIONS.contains(&word.as_str()) => {
                let function = word.clone();
                self.function(&function)
            }
            Kind::Word(word) if opens && !matches!(word.as_str(), "name" | "entity") => self.fact(None),
            Kind::QuotedString(_) if opens => self.fact(None),
            _ => {
                let term = self.term(EXPECTED_ATOM)?;
                self.atom_with_term(term)
            }
        }
    }

    /// Parses the part of an atom that follows its first term.
    fn atom_with_term(&mut self, term: Term) -> Result<Atom> {
        if self.eat_punctuation(":") || self.eat_word("is") {
            return Ok(Atom::Type { term, type_name: self.name("the name of a type")? });
        }
        if self.eat_word("has") {
            return Ok(Atom::HasOutgoing { term, relations: vec![self.name("the name of a relation")?] });
        }
        if self.eat_punctuation("-") {
            let path = if self.eat_punctuation("[") {
                let path = self.path(0)?;
                self.expect_punctuation("]")?;
                path
            } else {
                self.path(0)?
            };
            self.expect_punctuation("->")?;
            return Ok(Atom::Edge { left: term, path, right: self.term("where the path ends")? });
        }
        if self.eat_punctuation(".") {
            let key = self.name("the name of an attribute")?;
            self.expect_punctuation("=")?;
            return Ok(Atom::Equals { term, key, value: self.text("a value")? });
        }
        if self.eat_punctuation("=") {
            return self.fact(Some(term));
        }
        if self.eat_punctuation("{") {
            return self.shape(term);
        }
        Err(self.expected_one_of("`:`, `is`, `has`, `-PATH->`, `.key =`, `= R(...)` or `{`", &["is", "has"]))
    }

    /// Parses a term; `what` describes the term in the error.
    fn term(&mut self, what: &str) -> Result<Term> {
        match self.peek().clone() {
            Kind::Var(name) => {
                self.advance();
                Ok(Term::Var(name))
            }
            Kind::Number(_) => Ok(Term::Id(self.whole_number("the number of an entity", u32::MAX)?)),
            Kind::Word(word) if word == "_" => {
                self.advance();
                Ok(Term::Wildcard)
            }
            Kind::Word(word) if word == "name" && *self.peek_at(1) == Kind::Punctuation("(") => {
                self.skip_call_start();
                let name = self.text("a name")?;
                self.expect_punctuation(")")?;
                Ok(Term::Name(name))
            }
            Kind::Word(word) if word == "entity" && *self.peek_at(1) == Kind::Punctuation("(") => {
                self.skip_call_start();
                let key = self.text("a key")?;
                self.expect_punctuation(",")?;
                let value = self.text("a value")?;
                self.expect_punctuation(")")?;
                Ok(Term::Entity { key, value })
            }
            Kind::Word(_) | Kind::QuotedString(_) => Ok(Term::Name(self.name(what)?)),
            Kind::PrintedId(id) => {
                self.advance();
                Ok(Term::Name(id))
            }
            Kind::Punctuation(_) | Kind::End => Err(self.expected(what)),
        }
    }

    /// Skips a function name and the parenthesis after it.
    fn skip_call_start(&mut self) {
        self.advance();
        self.advance();
    }

    fn function(&mut self, function: &str) -> Result<Atom> {
        self.skip_call_start();
        let term = self.term("a term")?;
        self.expect_punctuation(",")?;
        let atom = match function {
            "has" => Atom::HasOutgoing { term, relations: self.relations()? },
            "attrs" => Atom::Attributes { term, pairs: self.pairs()? },
            _ => self.comparison(function, term)?,
        };
        self.expect_punctuation(")")?;
        Ok(atom)
    }

    fn comparison(&mut self, function: &str, term: Term) -> Result<Atom> {
        let key = self.text("the name of an attribute")?;
        self.expect_punctuation(",")?;
        let text = self.text("a text")?;
        Ok(match function {
            "attr" => Atom::Equals { term, key, value: text },
            "contains" => Atom::Contains { term, key, needle: text },
            "fts" => Atom::FullText { term, key, query: text },
            _ => {
                self.expect_punctuation(",")?;
                let max_distance = self.whole_number("a distance", MAX_DISTANCE)?;
                Atom::Fuzzy { term, key, needle: text, max_distance }
            }
        })
    }

    fn relations(&mut self) -> Result<Vec<String>> {
        let mut relations = vec![self.name("the name of a relation")?];
        while self.eat_punctuation(",") {
            relations.push(self.name("the name of a relation")?);
        }
        Ok(relations)
    }

    fn pair(&mut self) -> Result<(String, String)> {
        let key = self.name("the name of an attribute")?;
        self.expect_punctuation("=")?;
        Ok((key, self.text("a value")?))
    }

    fn pairs(&mut self) -> Result<Vec<(String, String)>> {
        let mut pairs = vec![self.pair()?];
        while self.eat_punctuation(",") {
            pairs.push(self.pair()?);
        }
        Ok(pairs)
    }

    fn shape(&mut self, term: Term) -> Result<Atom> {
        let (mut type_name, mut relations, mut attributes) = (None, Vec::new(), Vec::new());
        loop {
            if self.is_word("is") || *self.peek() == Kind::Punctuation(":") {
                if type_name.is_some() {
                    return Err(self.expected("at most one type"));
                }
                self.advance();
                type_name = Some(self.name("the name of a type")?);
            } else if *self.peek_at(1) == Kind::Punctuation("=") {
                attributes.push(self.pair()?);
            } else {
                relations.push(self.name("`is T`, a relation or `key=\"value\"`")?);
            }
            if !self.eat_punctuation(",") {
                break;
            }
        }
        self.expect_punctuation("}")?;
        Ok(Atom::Shape { term, type_name, relations, attributes })
    }

    fn fact(&mut self, fact: Option<Term>) -> Result<Atom> {
        let relation = self.name("the name of a relation")?;
        self.expect_punctuation("(")?;
        let mut fields: Vec<(String, Term)> = Vec::new();
        while !self.eat_punctuation(")") {
            if !fields.is_empty() {
                self.expect_punctuation(",")?;
            }
            if matches!(self.peek(), Kind::Word(word) | Kind::QuotedString(word) if fields.iter().any(|(it, _)| it == word))
            {
                return Err(self.expected("each field only once"));
            }
            let field = self.name("the name of a field, or `)`")?;
            self.expect_punctuation("=")?;
            fields.push((field, self.term("the value of the field")?));
        }
        Ok(Atom::Fact { fact, relation, fields })
    }

    /// Parses a path. `a|b` has the lowest precedence, then `a/b`, then the suffixes `*`, `+` and `?`.
    pub(super) fn path(&mut self, depth: usize) -> Result<Path> {
        let mut parts = vec![self.path_sequence(depth)?];
        while self.eat_punctuation("|") {
            parts.push(self.path_sequence(depth)?);
        }
        Ok(single_or(parts, Path::Either))
    }

    fn path_sequence(&mut self, depth: usize) -> Result<Path> {
        let mut parts = vec![self.path_part(depth)?];
        while self.eat_punctuation("/") {
            parts.push(self.path_part(depth)?);
        }
        Ok(single_or(parts, Path::Sequence))
    }

    fn path_part(&mut self, depth: usize) -> Result<Path> {
        let mut path = if *self.peek() == Kind::Punctuation("(") {
            if depth == MAX_NESTING {
                return Err(self.expected(&format!("at most {MAX_NESTING} levels of parentheses")));
            }
            self.advance();
            let inner = self.path(depth + 1)?;
            self.expect_punctuation(")")?;
            inner
        } else {
            Path::Label(self.name("a path: the name of a relation or `(`")?)
        };
        for _ in 0..MAX_NESTING {
            path = match self.peek() {
                Kind::Punctuation("*") => Path::Star(Box::new(path)),
                Kind::Punctuation("+") => Path::Plus(Box::new(path)),
                Kind::Punctuation("?") => Path::Optional(Box::new(path)),
                _ => return Ok(path),
            };
            self.advance();
        }
        Err(self.expected(&format!("at most {MAX_NESTING} of `*`, `+`, `?` in a row")))
    }
}

fn single_or(mut parts: Vec<Path>, make: fn(Vec<Path>) -> Path) -> Path {
    if parts.len() == 1 { parts.swap_remove(0) } else { make(parts) }
}
