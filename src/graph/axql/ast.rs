//! The core of a query: what AxQL and `query_ir_v1` both become.

use std::collections::BTreeMap;

/// Rows of an answer when the query does not say how many.
pub const DEFAULT_LIMIT: u32 = 100;
/// Most rows of an answer.
pub const MAX_LIMIT: u32 = 10_000;
/// Largest distance of `fuzzy`.
pub const MAX_DISTANCE: u32 = 16;
/// Most `max_hops`.
pub const MAX_HOPS: u32 = 1_000;

/// A query: the union of its disjuncts, each row once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Variables of a row, without their `?`.
    pub select: Vec<String>,
    /// Conjunctions of atoms; at least one, each with at least one atom.
    pub disjuncts: Vec<Vec<Atom>>,
    /// Names of contexts that facts must hold in; none means all.
    pub contexts: Vec<String>,
    /// Most edges of a path that has a repetition.
    pub max_hops: Option<u32>,
    /// Edges of less confidence are not followed.
    pub min_confidence: Option<f32>,
    /// Most rows.
    pub limit: Option<u32>,
}

/// What stands for an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// `?x`, without the `?`.
    Var(String),
    /// `_`: any entity, another one each time.
    Wildcard,
    /// An entity by its number.
    Id(u32),
    /// Entities of this name.
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
    /// One after the other; at least two.
    Sequence(Vec<Path>),
    /// One of them; at least two.
    Either(Vec<Path>),
    /// Any number of times, also none.
    Star(Box<Path>),
    /// At least once.
    Plus(Box<Path>),
    /// Once or not at all.
    Optional(Box<Path>),
}

impl Path {
    /// Says whether it repeats something.
    pub fn repeats(&self) -> bool {
        match self {
            Path::Label(_) => false,
            Path::Star(_) | Path::Plus(_) => true,
            Path::Optional(inner) => inner.repeats(),
            Path::Sequence(parts) | Path::Either(parts) => parts.iter().any(Path::repeats),
        }
    }

    /// Returns every relation in it, in order.
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
    /// An entity of a type or a subtype.
    Type {
        /// The entity.
        term: Term,
        /// `T` or `S.T`.
        type_name: String,
    },
    /// Two entities with a path from one to the other.
    Edge {
        /// Where it begins.
        left: Term,
        /// The path.
        path: Path,
        /// Where it ends.
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
    /// An attribute holds this text, in any case.
    Contains {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The text.
        needle: String,
    },
    /// An attribute holds every one of these words.
    Fts {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The words.
        query: String,
    },
    /// An attribute is at most so many edits away from this text, in any case.
    Fuzzy {
        /// The entity.
        term: Term,
        /// Key.
        key: String,
        /// The text.
        needle: String,
        /// Insertions, deletions and replacements of a character.
        max_distance: u32,
    },
    /// An entity with an edge of each of these relations.
    HasOut {
        /// The entity.
        term: Term,
        /// The relations.
        relations: Vec<String>,
    },
    /// An entity with all of these attributes.
    Attributes {
        /// The entity.
        term: Term,
        /// Keys and values.
        pairs: Vec<(String, String)>,
    },
    /// An entity of a type, with edges of these relations and these attributes.
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
    /// A fact of a relation with these fields.
    Fact {
        /// The fact itself.
        fact: Option<Term>,
        /// `R` or `S.R`.
        relation: String,
        /// What its fields hold.
        fields: Vec<(String, Term)>,
    },
}

impl Atom {
    /// Returns the terms in it, in order.
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Atom::Edge { left, right, .. } => vec![left, right],
            Atom::Fact { fact, fields, .. } => fact.iter().chain(fields.iter().map(|(_, term)| term)).collect(),
            Atom::Type { term, .. }
            | Atom::Equals { term, .. }
            | Atom::Contains { term, .. }
            | Atom::Fts { term, .. }
            | Atom::Fuzzy { term, .. }
            | Atom::HasOut { term, .. }
            | Atom::Attributes { term, .. }
            | Atom::Shape { term, .. } => vec![term],
        }
    }
}

impl Query {
    /// Returns every variable of the atoms in the order of their first appearance, with the number of disjuncts that it
    /// appears in.
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
