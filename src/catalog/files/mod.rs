//! Table `files` of the catalog: rows, queries, state transitions, scans, file names and owners.

pub(in crate::catalog) mod authors;
pub(in crate::catalog) mod filter;
mod counts;
mod languages;
pub(in crate::catalog) mod name_index;
pub(in crate::catalog) mod owners;
pub(in crate::catalog) mod pending_vectors;
pub(in crate::catalog) mod query;
pub(in crate::catalog) mod reconcile;
pub(in crate::catalog) mod roots;
pub(in crate::catalog) mod row;
pub(in crate::catalog) mod row_predicate;
pub(in crate::catalog) mod scan;
pub(in crate::catalog) mod transitions;
