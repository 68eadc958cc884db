//! Boolean filters over named fields: `content_type=academic AND (year>=2020 OR NOT has_abstract)`. Does no I/O.
//!
//! Defines the grammar and the evaluation. The caller compiles each comparison: `crate::corpus` compares document metadata,
//! [`crate::table`] compares cells. A comparison with a missing value is neither true nor false, and neither is its
//! negation (Kleene logic).

mod parse;

use std::cmp::Ordering;

pub(crate) use parse::{FilterError, parse_filter, unquoted_words};

/// Comparison operator between a field and a value.
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
    /// Whether the operator is true for a field; `order` is the order of the field's value relative to the value in the
    /// filter.
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

    /// Whether the operator is `=` or `!=`. Only these two can also compare values that have no order.
    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Operator::Equal | Operator::Unequal)
    }
}

/// One comparison of a filter, as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Name of the field before the operator.
    pub(crate) field: String,
    /// Whether the name of the field was quoted.
    pub(crate) is_quoted: bool,
    /// Operator and value; `None` for a field name alone, which tests a yes-or-no field such as `has_abstract`.
    pub(crate) condition: Option<(Operator, String)>,
}

/// A parsed filter; each comparison is compiled to a `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node<T> {
    All(Vec<Node<T>>),
    Any(Vec<Node<T>>),
    Not(Box<Node<T>>),
    Leaf(T),
}

impl<T> Node<T> {
    /// Evaluates a filter; `holds` returns the result of each comparison, `None` for a missing value. Returns `None` if the
    /// result depends on missing values.
    pub(crate) fn evaluate(&self, holds: &dyn Fn(&T) -> Option<bool>) -> Option<bool> {
        match self {
            Node::All(nodes) => evaluate_all(nodes, holds, false),
            Node::Any(nodes) => evaluate_all(nodes, holds, true),
            Node::Not(inner) => inner.evaluate(holds).map(|it| !it),
            Node::Leaf(leaf) => holds(leaf),
        }
    }
}

/// Combines nodes with AND (`decisive` is false) or OR (`decisive` is true). A node with the result `decisive` decides.
/// Without such a node, the result is unknown if a node is unknown, or else the opposite of `decisive`.
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

/// Compares two texts and ignores case. Does not copy ASCII texts, because a table may have many rows.
pub(crate) fn equals_ignoring_case(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && one.to_lowercase() == other.to_lowercase()
}
