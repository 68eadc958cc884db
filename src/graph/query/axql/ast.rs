//! The syntax tree of a query, common to AxQL and `query_ir_v1`.

use std::collections::BTreeMap;

/// Rows of an answer when the query sets no limit.
pub const DEFAULT_LIMIT: u32 = 100;
/// Most rows of an answer.
pub const MAX_LIMIT: u32 = 10_000;
/// Largest distance of `fuzzy`.
pub const MAX_DISTANCE: u32 = 16;
/// Largest `max_hops`.
pub const MAX_HOPS: u32 = 1_000;

/// A query: the union of its disjuncts, without duplicate rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Variables of a row, without their `?`.
    pub select: Vec<String>,
    /// Conjunctions of atoms; at least one, each with at least one atom.
    pub disjuncts: Vec<Vec<Atom>>,
    /// Contexts in which facts must hold; empty means all.
    pub contexts: Vec<String>,
    /// Most edges of a path with repetition.
    pub max_hops: Option<u32>,
    /// Minimum confidence of edges that are followed.
    pub min_confidence: Option<f32>,
    /// Most rows.
    pub limit: Option<u32>,
}

/// An expression that denotes an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// `?x`, without the `?`.
    Var(String),
    /// `_`: any entity, a different one at each occurrence.
    Wildcard,
    /// An entity by its number.
    Id(u32),
    /// Entities with this name.
    Name(String),
    /// Entities with this attribute.
    Entity {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
}

/// A regular path over relations.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// One edge of this relation.
    Label(String),
    /// A sequence of at least two paths.
    Sequence(Vec<Path>),
    /// One of at least two alternatives.
    Either(Vec<Path>),
    /// Any number of times, including zero.
    Star(Box<Path>),
    /// At least once.
    Plus(Box<Path>),
    /// At most once.
    Optional(Box<Path>),
}

impl Path {
    /// Returns whether the path contains a repetition.
    pub fn repeats(&self) -> bool {
        match self {
            Path::Label(_) => false,
            Path::Star(_) | Path::Plus(_) => true,
            Path::Optional(inner) => inner.repeats(),
            Path::Sequence(parts) | Path::Either(parts) => parts.iter().any(Path::repeats),
        }
    }

    /// Returns every relation of the path, in order.
    pub fn labels(&self) -> Vec<&str> {
        match self {
            Path::Label(label) => vec![label],
            Path::Star(inner) | Path::Plus(inner) | Path::Optional(inner) => inner.labels(),
            Path::Sequence(parts) | Path::Either(parts) => parts.iter().flat_map(Path::labels).collect(),
        }
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// An entity has this type or a subtype.
    Type {
        /// The entity.
        term: Term,
        /// `T` or `S.T`.
        type_name: String,
    },
    /// A path connects two entities.
    Edge {
        /// The start of the path.
        left: Term,
        /// The path.
        path: Path,
        /// The end of the path.
        right: Term,
    },
    /// An attribute has this value.
    Equals {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// An attribute contains this text, ignoring case.
    Contains {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The text.
        needle: String,
    },
    /// An attribute contains all of these words.
    FullText {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The words.
        query: String,
    },
    /// An attribute is within this edit distance of the text, ignoring case.
    Fuzzy {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The text.
        needle: String,
        /// Largest number of inserted, deleted and replaced characters.
        max_distance: u32,
    },
    /// An entity has an outgoing edge of each relation.
    HasOutgoing {
        /// The entity.
        term: Term,
        /// The relations.
        relations: Vec<String>,
    },
    /// An entity has all of these attributes.
    Attributes {
        /// The entity.
        term: Term,
        /// Keys and values.
        pairs: Vec<(String, String)>,
    },
    /// An entity has this type, outgoing edges of these relations, and these attributes.
    Shape {
        /// The entity.
        term: Term,
        /// The type.
        type_name: Option<String>,
        /// The relations.
        relations: Vec<String>,
        /// Keys and values.
        attributes: Vec<(String, String)>,
    },
    /// A fact of a relation has these fields.
    Fact {
        /// The fact entity itself.
        fact: Option<Term>,
        /// `R` or `S.R`.
        relation: String,
        /// Names and values of the fields.
        fields: Vec<(String, Term)>,
    },
}

impl Atom {
    /// Returns the terms of the atom, in order.
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Atom::Edge { left, right, .. } => vec![left, right],
            Atom::Fact { fact, fields, .. } => fact.iter().chain(fields.iter().map(|(_, term)| term)).collect(),
            Atom::Type { term, .. }
            | Atom::Equals { term, .. }
            | Atom::Contains { term, .. }
            | Atom::FullText { term, .. }
            | Atom::Fuzzy { term, .. }
            | Atom::HasOutgoing { term, .. }
            | Atom::Attributes { term, .. }
            | Atom::Shape { term, .. } => vec![term],
        }
    }
}

impl Query {
    /// Returns every variable of the atoms in order of first appearance, with the number of disjuncts that contain it.
    pub fn variables(&self) -> Vec<(String, usize)> {
        let mut order: Vec<String> = Vec::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for disjunct in &self.disjuncts {
            let mut seen: Vec<&str> = Vec::new();
            for term in disjunct.iter().flat_map(Atom::terms) {
                let Term::Var(name) = term else { continue };
                if !order.contains(name) {
                    order.push(name.clone());
                }
                if !seen.contains(&name.as_str()) {
                    seen.push(name);
                    *counts.entry(name.clone()).or_default() += 1;
                }
            }
        }
        order.into_iter().map(|name| (name.clone(), counts[&name])).collect()
    }
}
