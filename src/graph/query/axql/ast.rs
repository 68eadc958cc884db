//! The syntax tree of a graph query, shared by AxQL and `query_ir_v1`.

use std::collections::BTreeMap;

/// Maximum number of rows in a result when the query sets no limit.
pub const DEFAULT_LIMIT: u32 = 100;
/// Highest limit of rows that a query may set.
pub const MAX_LIMIT: u32 = 10_000;
/// Highest edit distance that `fuzzy` may have.
pub const MAX_DISTANCE: u32 = 16;
/// Highest `max_hops` that a query may set.
pub const MAX_HOPS: u32 = 1_000;

/// A query. Its result is the union of the rows of its disjuncts, without duplicates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Names of the selected variables, without `?`; each is a column of the result.
    pub select: Vec<String>,
    /// Alternatives, each a conjunction of atoms; there is at least one, and each has at least one atom.
    pub disjuncts: Vec<Vec<Atom>>,
    /// Names of contexts; facts must hold in one of them. Empty means that all facts count.
    pub contexts: Vec<String>,
    /// Maximum number of edges of a path with repetition.
    pub max_hops: Option<u32>,
    /// Edges below this confidence are not followed.
    pub min_confidence: Option<f32>,
    /// Maximum number of rows in the result.
    pub limit: Option<u32>,
}

/// An expression in a query that denotes an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// A variable `?x`, without the `?`.
    Var(String),
    /// The wildcard `_`: any entity; two wildcards may denote different entities.
    Wildcard,
    /// The entity with this number.
    Id(u32),
    /// Entities with this name.
    Name(String),
    /// Entities with this value of an attribute.
    Entity {
        /// Key of the attribute.
        key: String,
        /// Value of the attribute.
        value: String,
    },
}

/// A regular expression over relations. A path matches if the relations of its edges, in order, match the expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// One edge of this relation.
    Label(String),
    /// A sequence of at least two paths.
    Sequence(Vec<Path>),
    /// One of at least two alternatives.
    Either(Vec<Path>),
    /// The inner path any number of times, including zero.
    Star(Box<Path>),
    /// The inner path at least once.
    Plus(Box<Path>),
    /// The inner path at most once.
    Optional(Box<Path>),
}

impl Path {
    /// Returns whether the path contains a repetition (`*` or `+`).
    pub fn repeats(&self) -> bool {
        match self {
            Path::Label(_) => false,
            Path::Star(_) | Path::Plus(_) => true,
            Path::Optional(inner) => inner.repeats(),
            Path::Sequence(parts) | Path::Either(parts) => parts.iter().any(Path::repeats),
        }
    }

    /// Returns the names of all relations in the path, in order.
    pub fn labels(&self) -> Vec<&str> {
        match self {
            Path::Label(label) => vec![label],
            Path::Star(inner) | Path::Plus(inner) | Path::Optional(inner) => inner.labels(),
            Path::Sequence(parts) | Path::Either(parts) => parts.iter().flat_map(Path::labels).collect(),
        }
    }
}

/// One condition of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// The entity has this type or a subtype.
    Type {
        /// The entity to test.
        term: Term,
        /// Name of the type: `T`, or `S.T` for the type of schema `S`.
        type_name: String,
    },
    /// A path leads from one entity to another.
    Edge {
        /// The entity at the start of the path.
        left: Term,
        /// The relations of the edges along the path.
        path: Path,
        /// The entity at the end of the path.
        right: Term,
    },
    /// The entity has this value of an attribute.
    Equals {
        /// The entity to test.
        term: Term,
        /// Key of the attribute.
        key: String,
        /// Value of the attribute.
        value: String,
    },
    /// The entity has an attribute that contains this text, ignoring case.
    Contains {
        /// The entity to test.
        term: Term,
        /// Key of the attribute.
        key: String,
        /// The text to find.
        needle: String,
    },
    /// The entity has an attribute that contains all of these words.
    FullText {
        /// The entity to test.
        term: Term,
        /// Key of the attribute.
        key: String,
        /// The words to find, separated by spaces.
        query: String,
    },
    /// The entity has an attribute within this edit distance of a text, ignoring case.
    Fuzzy {
        /// The entity to test.
        term: Term,
        /// Key of the attribute.
        key: String,
        /// The text to compare with.
        needle: String,
        /// Maximum number of inserted, deleted and replaced characters.
        max_distance: u32,
    },
    /// The entity has an outgoing edge of each of these relations.
    HasOutgoing {
        /// The entity to test.
        term: Term,
        /// Names of the relations.
        relations: Vec<String>,
    },
    /// The entity has all of these attributes.
    Attributes {
        /// The entity to test.
        term: Term,
        /// Keys and values of the attributes.
        pairs: Vec<(String, String)>,
    },
    /// The entity has this type, outgoing edges of these relations, and these attributes.
    Shape {
        /// The entity to test.
        term: Term,
        /// Name of the type; `None` for any type.
        type_name: Option<String>,
        /// Names of the relations.
        relations: Vec<String>,
        /// Keys and values of the attributes.
        attributes: Vec<(String, String)>,
    },
    /// There is a fact of this relation with these values of fields.
    Fact {
        /// The entity of the fact itself; `None` if the query does not use it.
        fact: Option<Term>,
        /// Name of the relation: `R`, or `S.R` for the relation of schema `S`.
        relation: String,
        /// Names of fields, each with the entity that is its value.
        fields: Vec<(String, Term)>,
    },
}

impl Atom {
    /// Returns the terms of the atom, in the order in which the text of the query has them.
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
    /// Returns all variables of the atoms in order of first appearance, each with the number of disjuncts that contain it.
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
