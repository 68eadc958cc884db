//! AxQL, the text form of graph queries: `select ?x where ?x is Person, ?x -knows-> ?y in Census max_hops 3 limit 20`.
//!
//! [`parse`] parses a query, and `Display` of [`Query`] prints it. Neither resolves names; the planner does.
//!
//! ```text
//! query   = "select" ?var+ "where" atoms ("or" atoms)* clause*
//! clause  = "in" CTX | "in" "{" CTX, ... "}" | "max_hops" N | "min_conf" X | "limit" N
//! atom    = term (":" | "is") T | term "-" path "->" term | term "." key "=" "v" | term "has" r
//!         | term "{" ["is" T,] r, ..., k="v", ... "}" | [term "="] R "(" field "=" term, ... ")"
//!         | attr(t,"k","v") | contains(t,"k","s") | fts(t,"k","words") | fuzzy(t,"k","s",N) | has(t, r, ...) | attrs(t, k="v", ...)
//! term    = ?var | "_" | number | T#number | name("n") | entity("k","v") | word | "n"
//! path    = a/b | a|b | a* | a+ | a? | (a)
//! ```
//!
//! `max_hops` limits only paths with repetition (`*`, `+`); other paths are as long as they are written.

mod ast;
mod atoms;
pub(crate) mod check;
mod lexer;
mod parser;
mod print;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::graph::query::axql::ast::{Atom, DEFAULT_LIMIT, MAX_DISTANCE, MAX_HOPS, MAX_LIMIT, Path, Query, Term};
pub use crate::graph::query::axql::parser::parse;
pub(crate) use crate::graph::query::axql::parser::parse_path;
