//! Boolean filters: `content_type=academic AND (year>=2020 OR NOT has_abstract)`; pure.
//!
//! The grammar, and how a filter is decided. What a comparison means is up to who compiles it: the contract compares
//! metadata of documents, [`crate::table`] compares cells. A comparison with what is missing is neither true nor false, and
//! neither is its negation (Kleene's logic).

mod parse;

use std::cmp::Ordering;

pub(crate) use parse::{Mistake, parse, words};

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Operator {
    /// Says whether it holds of a value that compares with the wanted one so.
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::Unequal => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::More => order.is_gt(),
            Operator::MoreOrEqual => order.is_ge(),
        }
    }

    /// Says whether it needs no order: `=` or `!=`.
    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Operator::Equal | Operator::Unequal)
    }
}

/// A comparison as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The name before the operator.
    pub(crate) field: String,
    /// Whether that stood in quotes.
    pub(crate) is_quoted: bool,
    /// The operator and the value; none for a name alone, which is a flag.
    pub(crate) wanted: Option<(Operator, String)>,
}

/// A filter whose comparisons are compiled to `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node<T> {
    All(Vec<Node<T>>),
    Any(Vec<Node<T>>),
    Not(Box<Node<T>>),
    Leaf(T),
}

impl<T> Node<T> {
    /// Decides a filter from what its comparisons give; none when a missing value leaves that open.
    pub(crate) fn evaluate(&self, holds: &dyn Fn(&T) -> Option<bool>) -> Option<bool> {
        match self {
            Node::All(nodes) => decided(nodes, holds, false),
            Node::Any(nodes) => decided(nodes, holds, true),
            Node::Not(inner) => inner.evaluate(holds).map(|it| !it),
            Node::Leaf(leaf) => holds(leaf),
        }
    }
}

/// One node that is `decisive` decides; else all of them have to be known.
fn decided<T>(nodes: &[Node<T>], holds: &dyn Fn(&T) -> Option<bool>, decisive: bool) -> Option<bool> {
    let mut is_open = false;
    for node in nodes {
        match node.evaluate(holds) {
            Some(it) if it == decisive => return Some(decisive),
            Some(_) => {}
            None => is_open = true,
        }
    }
    (!is_open).then_some(!decisive)
}

/// Texts are the same in any case. Nothing is copied for what is ASCII: there may be many rows.
pub(crate) fn same_text(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
}
