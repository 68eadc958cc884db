//! Boolean filters: `content_type=academic AND (year>=2020 OR NOT has_abstract)`. Pure.
//!
//! Defines the grammar and the evaluation. The caller compiles comparisons: the contract compares document metadata,
//! [`crate::table`] compares cells. A comparison with a missing value is neither true nor false, nor is its negation
//! (Kleene logic).

mod parse;

use std::cmp::Ordering;

pub(crate) use parse::{FilterError, parse_filter, unquoted_words};

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// Whether a value that compares to the wanted value with `order` satisfies the operator.
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::Unequal => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Whether it needs no order: `=` or `!=`.
    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Operator::Equal | Operator::Unequal)
    }
}

/// A comparison as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The name before the operator.
    pub(crate) field: String,
    /// Whether the field was quoted.
    pub(crate) is_quoted: bool,
    /// Operator and value; `None` for a lone name, which is a flag.
    pub(crate) condition: Option<(Operator, String)>,
}

/// A filter with comparisons compiled to `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node<T> {
    All(Vec<Node<T>>),
    Any(Vec<Node<T>>),
    Not(Box<Node<T>>),
    Leaf(T),
}

impl<T> Node<T> {
    /// Evaluates a filter from its comparisons; `None` if missing values leave it undecided.
    pub(crate) fn evaluate(&self, holds: &dyn Fn(&T) -> Option<bool>) -> Option<bool> {
        match self {
            Node::All(nodes) => evaluate_all(nodes, holds, false),
            Node::Any(nodes) => evaluate_all(nodes, holds, true),
            Node::Not(inner) => inner.evaluate(holds).map(|it| !it),
            Node::Leaf(leaf) => holds(leaf),
        }
    }
}

/// One `decisive` node decides; otherwise all nodes must be known.
fn evaluate_all<T>(nodes: &[Node<T>], holds: &dyn Fn(&T) -> Option<bool>, decisive: bool) -> Option<bool> {
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

/// Compares texts without case. ASCII texts are not copied, because there may be many rows.
pub(crate) fn equals_ignoring_case(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
}
