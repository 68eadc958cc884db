//! Parses the atoms of a query and their paths.

use crate::error::Result;
use crate::graph::query::axql::ast::{Atom, MAX_DISTANCE, Path, Term};
use crate::graph::query::axql::lexer::Kind;
use crate::graph::query::axql::parser::Parser;

/// Deepest nesting of parentheses in a path. Real queries stay far below, and every level costs stack.
const MOST_NESTING: usize = 32;

/// Words before `(` that are functions, not relations.
pub(super) const FUNCTIONS: [&str; 6] = ["attr", "contains", "fts", "fuzzy", "has", "attrs"];

/// Expected at the beginning of an atom.
const BEGIN: &str =
    "an atom: a term (`?x`, `_`, a number, a name), a function such as `attr(` or a relation such as `R(`";

impl Parser {
    /// Parses atoms separated by commas.
    pub(super) fn conjunction(&mut self) -> Result<Vec<Atom>> {
        let mut atoms = vec![self.atom()?];
        while self.takes_mark(",") {
            atoms.push(self.atom()?);
        }
        Ok(atoms)
    }

    fn atom(&mut self) -> Result<Atom> {
        let opens = *self.ahead(1) == Kind::Mark("(");
        match self.peek() {
            Kind::Word(word) if opens && FUNCTIONS.contains(&word.as_str()) => {
                let function = word.clone();
                self.function(&function)
            }
            Kind::Word(word) if opens && !matches!(word.as_str(), "name" | "entity") => self.fact(None),
            Kind::Text(_) if opens => self.fact(None),
            _ => {
                let term = self.term(BEGIN)?;
                self.about(term)
            }
        }
    }

    /// Parses the rest of an atom after its term.
    fn about(&mut self, term: Term) -> Result<Atom> {
        if self.takes_mark(":") || self.takes_word("is") {
            return Ok(Atom::Type { term, type_name: self.name("the name of a type")? });
        }
        if self.takes_word("has") {
            return Ok(Atom::HasOut { term, relations: vec![self.name("the name of a relation")?] });
        }
        if self.takes_mark("-") {
            let path = if self.takes_mark("[") {
                let path = self.path(0)?;
                self.mark("]")?;
                path
            } else {
                self.path(0)?
            };
            self.mark("->")?;
            return Ok(Atom::Edge { left: term, path, right: self.term("where the path ends")? });
        }
        if self.takes_mark(".") {
            let key = self.name("the name of an attribute")?;
            self.mark("=")?;
            return Ok(Atom::Equals { term, key, value: self.text("a value")? });
        }
        if self.takes_mark("=") {
            return self.fact(Some(term));
        }
        if self.takes_mark("{") {
            return self.shape(term);
        }
        Err(self.expected_one_of("`:`, `is`, `has`, `-PATH->`, `.key =`, `= R(...)` or `{`", &["is", "has"]))
    }

    /// Parses a term; `what` names it in the error.
    fn term(&mut self, what: &str) -> Result<Term> {
        match self.peek().clone() {
            Kind::Var(name) => {
                self.advance();
                Ok(Term::Var(name))
            }
            Kind::Number(_) => Ok(Term::Id(self.whole("the number of an entity", u32::MAX)?)),
            Kind::Word(word) if word == "_" => {
                self.advance();
                Ok(Term::Wildcard)
            }
            Kind::Word(word) if word == "name" && *self.ahead(1) == Kind::Mark("(") => {
                self.begin_call();
                let name = self.text("a name")?;
                self.mark(")")?;
                Ok(Term::Name(name))
            }
            Kind::Word(word) if word == "entity" && *self.ahead(1) == Kind::Mark("(") => {
                self.begin_call();
                let key = self.text("a key")?;
                self.mark(",")?;
                let value = self.text("a value")?;
                self.mark(")")?;
                Ok(Term::Entity { key, value })
            }
            Kind::Word(_) => Ok(Term::Name(self.name(what)?)),
            Kind::Text(_) | Kind::Mark(_) | Kind::End => Err(self.expected(what)),
        }
    }

    /// Skips a word and the parenthesis after it.
    fn begin_call(&mut self) {
        self.advance();
        self.advance();
    }

    fn function(&mut self, function: &str) -> Result<Atom> {
        self.begin_call();
        let term = self.term("a term")?;
        self.mark(",")?;
        let atom = match function {
            "has" => Atom::HasOut { term, relations: self.relations()? },
            "attrs" => Atom::Attributes { term, pairs: self.pairs()? },
            _ => self.comparison(function, term)?,
        };
        self.mark(")")?;
        Ok(atom)
    }

    fn comparison(&mut self, function: &str, term: Term) -> Result<Atom> {
        let key = self.text("the name of an attribute")?;
        self.mark(",")?;
        let text = self.text("a text")?;
        Ok(match function {
            "attr" => Atom::Equals { term, key, value: text },
            "contains" => Atom::Contains { term, key, needle: text },
            "fts" => Atom::Fts { term, key, query: text },
            _ => {
                self.mark(",")?;
                let max_distance = self.whole("a distance", MAX_DISTANCE)?;
                Atom::Fuzzy { term, key, needle: text, max_distance }
            }
        })
    }

    fn relations(&mut self) -> Result<Vec<String>> {
        let mut relations = vec![self.name("the name of a relation")?];
        while self.takes_mark(",") {
            relations.push(self.name("the name of a relation")?);
        }
        Ok(relations)
    }

    fn pair(&mut self) -> Result<(String, String)> {
        let key = self.name("the name of an attribute")?;
        self.mark("=")?;
        Ok((key, self.text("a value")?))
    }

    fn pairs(&mut self) -> Result<Vec<(String, String)>> {
        let mut pairs = vec![self.pair()?];
        while self.takes_mark(",") {
            pairs.push(self.pair()?);
        }
        Ok(pairs)
    }

    fn shape(&mut self, term: Term) -> Result<Atom> {
        let (mut type_name, mut relations, mut attributes) = (None, Vec::new(), Vec::new());
        loop {
            if self.is_word("is") || *self.peek() == Kind::Mark(":") {
                if type_name.is_some() {
                    return Err(self.expected("at most one type"));
                }
                self.advance();
                type_name = Some(self.name("the name of a type")?);
            } else if *self.ahead(1) == Kind::Mark("=") {
                attributes.push(self.pair()?);
            } else {
                relations.push(self.name("`is T`, a relation or `key=\"value\"`")?);
            }
            if !self.takes_mark(",") {
                break;
            }
        }
        self.mark("}")?;
        Ok(Atom::Shape { term, type_name, relations, attributes })
    }

    fn fact(&mut self, fact: Option<Term>) -> Result<Atom> {
        let relation = self.name("the name of a relation")?;
        self.mark("(")?;
        let mut fields: Vec<(String, Term)> = Vec::new();
        while !self.takes_mark(")") {
            if !fields.is_empty() {
                self.mark(",")?;
            }
            if matches!(self.peek(), Kind::Word(word) | Kind::Text(word) if fields.iter().any(|(it, _)| it == word)) {
                return Err(self.expected("each field only once"));
            }
            let field = self.name("the name of a field, or `)`")?;
            self.mark("=")?;
            fields.push((field, self.term("the value of the field")?));
        }
        Ok(Atom::Fact { fact, relation, fields })
    }

    /// Parses a path. `a|b` binds weakest, then `a/b`, then the suffixes `*`, `+` and `?`.
    pub(super) fn path(&mut self, depth: usize) -> Result<Path> {
        let mut parts = vec![self.path_sequence(depth)?];
        while self.takes_mark("|") {
            parts.push(self.path_sequence(depth)?);
        }
        Ok(one_or(parts, Path::Either))
    }

    fn path_sequence(&mut self, depth: usize) -> Result<Path> {
        let mut parts = vec![self.path_part(depth)?];
        while self.takes_mark("/") {
            parts.push(self.path_part(depth)?);
        }
        Ok(one_or(parts, Path::Sequence))
    }

    fn path_part(&mut self, depth: usize) -> Result<Path> {
        let mut path = if *self.peek() == Kind::Mark("(") {
            if depth == MOST_NESTING {
                return Err(self.expected(&format!("at most {MOST_NESTING} levels of parentheses")));
            }
            self.advance();
            let inner = self.path(depth + 1)?;
            self.mark(")")?;
            inner
        } else {
            Path::Label(self.name("a path: the name of a relation or `(`")?)
        };
        for _ in 0..MOST_NESTING {
            path = match self.peek() {
                Kind::Mark("*") => Path::Star(Box::new(path)),
                Kind::Mark("+") => Path::Plus(Box::new(path)),
                Kind::Mark("?") => Path::Optional(Box::new(path)),
                _ => return Ok(path),
            };
            self.advance();
        }
        Err(self.expected(&format!("at most {MOST_NESTING} of `*`, `+`, `?` in a row")))
    }
}

fn one_or(mut parts: Vec<Path>, make: fn(Vec<Path>) -> Path) -> Path {
    if parts.len() == 1 { parts.swap_remove(0) } else { make(parts) }
}
