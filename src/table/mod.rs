//! Tables of a document (`vic table`): filters, groups, exact aggregates, and the rows that prove them. Pure functions.
//!
//! [`tables_of_document`] returns the tables, [`run_request`] executes a request on them, and [`answer::answer_question`]
//! answers a question in words if its meaning is certain. One file per step: `from_document` joins the blocks into which
//! file parsers split tables, `header` detects the header rows, `column` the type of a column, `number` and `date` parse
//! cells, `row_filter` filters rows, `aggregate` computes exact values, and `query` combines the steps.
//!
//! A cell that is not a number is excluded and reported, never taken as 0. An ambiguous number such as `1,234` is decided
//! by the other cells of its column, or excluded and reported. Sums are exact decimal numbers.

mod aggregate;
pub mod answer;
mod cell_range;
mod column;
mod column_names;
mod date;
mod from_document;
mod grid;
mod header;
mod number;
mod query;
mod question;
mod question_words;
mod row_filter;
#[cfg(test)]
mod tests;

pub use from_document::tables_of_document;
pub use grid::Table;
pub use query::run_request;
pub use question::{may_ask_table, parse_request};
