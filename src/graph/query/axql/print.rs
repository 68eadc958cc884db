//! Prints a [`Query`] as AxQL in a canonical form, which [`crate::graph::query::axql::parse`] parses to the same query.

use std::fmt::{self, Display, Formatter, Write};

use crate::graph::query::axql::ast::{Atom, Path, Query, Term};
use crate::graph::query::axql::atoms::FUNCTIONS;
use crate::graph::query::axql::lexer::{is_word_char, is_word_start};
use crate::graph::query::axql::parser::KEYWORDS;

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("select")?;
        self.select.iter().try_for_each(|name| write!(f, " ?{name}"))?;
        f.write_str(" where ")?;
        for (number, atoms) in self.disjuncts.iter().enumerate() {
            if number > 0 {
                f.write_str(" or ")?;
            }
            write_list(f, atoms, |f, atom| atom.fmt(f))?;
        }
        match self.contexts.as_slice() {
            [] => (),
            [one] => write!(f, " in {}", Name(one))?,
            several => {
                f.write_str(" in {")?;
                write_list(f, several, |f, it| Name(it).fmt(f))?;
                f.write_str("}")?;
            }
        }
        if let Some(hops) = self.max_hops {
            write!(f, " max_hops {hops}")?;
        }
        if let Some(confidence) = self.min_confidence {
            write!(f, " min_conf {confidence}")?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Var(name) => write!(f, "?{name}"),
            Term::Wildcard => f.write_str("_"),
            Term::Id(id) => write!(f, "{id}"),
            Term::Name(name) => write!(f, "name({})", Quoted(name)),
            Term::Entity { key, value } => write!(f, "entity({}, {})", Quoted(key), Quoted(value)),
        }
    }
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Type { term, type_name } => write!(f, "{term} is {}", Name(type_name)),
            Atom::Edge { left, path, right } => write!(f, "{left} -{path}-> {right}"),
            Atom::Equals { term, key, value } => write!(f, "attr({term}, {}, {})", Quoted(key), Quoted(value)),
            Atom::Contains { term, key, needle } => write!(f, "contains({term}, {}, {})", Quoted(key), Quoted(needle)),
            Atom::FullText { term, key, query } => write!(f, "fts({term}, {}, {})", Quoted(key), Quoted(query)),
            Atom::Fuzzy { term, key, needle, max_distance } => {
                write!(f, "fuzzy({term}, {}, {}, {max_distance})", Quoted(key), Quoted(needle))
            }
            Atom::HasOutgoing { term, relations } => {
                write!(f, "has({term}, ")?;
                write_list(f, relations, |f, it| Name(it).fmt(f))?;
                f.write_char(')')
            }
            Atom::Attributes { term, pairs } => {
                write!(f, "attrs({term}, ")?;
                write_list(f, pairs, write_pair)?;
                f.write_char(')')
            }
            Atom::Shape { term, type_name, relations, attributes } => {
                let mut parts: Vec<String> = type_name.iter().map(|it| format!("is {}", Name(it))).collect();
                parts.extend(relations.iter().map(|it| Name(it).to_string()));
                parts.extend(attributes.iter().map(|(key, value)| format!("{}={}", Name(key), Quoted(value))));
                write!(f, "{term} {{ {} }}", parts.join(", "))
            }
            Atom::Fact { fact, relation, fields } => {
                if let Some(fact) = fact {
                    write!(f, "{fact} = ")?;
                }
                // Quotes a relation with the name of a function, which would otherwise be parsed as that function.
                match fact.is_none() && (FUNCTIONS.contains(&relation.as_str()) || is_term_function(relation)) {
                    true => write!(f, "{}(", Quoted(relation))?,
                    false => write!(f, "{}(", Name(relation))?,
                }
                write_list(f, fields, |f, (field, term)| write!(f, "{}={term}", Name(field)))?;
                f.write_char(')')
            }
        }
    }
}

fn is_term_function(word: &str) -> bool {
    matches!(word, "name" | "entity")
}

fn write_pair(f: &mut Formatter<'_>, (key, value): &(String, String)) -> fmt::Result {
    write!(f, "{}={}", Name(key), Quoted(value))
}

fn write_list<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    mut each: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            f.write_str(", ")?;
        }
        each(f, item)?;
    }
    Ok(())
}

impl Display for Path {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Path::Label(label) => Name(label).fmt(f),
            Path::Sequence(parts) => {
                write_joined(f, parts, "/", |it| matches!(it, Path::Sequence(_) | Path::Either(_)))
            }
            Path::Either(parts) => write_joined(f, parts, "|", |it| matches!(it, Path::Either(_))),
            Path::Star(inner) => write_repeated(f, inner, '*'),
            Path::Plus(inner) => write_repeated(f, inner, '+'),
            Path::Optional(inner) => write_repeated(f, inner, '?'),
        }
    }
}

fn write_joined(f: &mut Formatter<'_>, parts: &[Path], mark: &str, bracket: fn(&Path) -> bool) -> fmt::Result {
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            f.write_str(mark)?;
        }
        if bracket(part) {
            write!(f, "({part})")?;
        } else {
            part.fmt(f)?;
        }
    }
    Ok(())
}

fn write_repeated(f: &mut Formatter<'_>, inner: &Path, mark: char) -> fmt::Result {
    match inner {
        Path::Sequence(_) | Path::Either(_) => write!(f, "({inner}){mark}"),
        // Needs no parentheses: the suffix `?` is not parsed as the start of a variable, because no name follows it.
        Path::Label(_) | Path::Star(_) | Path::Plus(_) | Path::Optional(_) => write!(f, "{inner}{mark}"),
    }
}

/// Prints a name: without quotes if it is a word, otherwise in quotes.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let begins = self.0.chars().next().is_some_and(is_word_start);
        let is_word = begins && self.0.split('.').all(|part| !part.is_empty() && part.chars().all(is_word_char));
        match is_word && self.0 != "_" && !KEYWORDS.contains(&self.0) {
            true => f.write_str(self.0),
            false => Quoted(self.0).fmt(f),
        }
    }
}

/// Prints a text in quotes, with escapes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
