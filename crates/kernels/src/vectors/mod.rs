//! Vector search in memory: binary codes that select candidates, 8-bit rows that rank them.
//!
//! Each function has one plain implementation that the compiler also builds for wider registers. The tests compare them.

mod binary_codes;
mod huge_pages;
mod i8_rows;
mod int8_dot;
mod prefetch;

pub use crate::vectors::binary_codes::{BinaryCodes, QueryCodes};
pub use crate::vectors::i8_rows::I8Rows;
pub use crate::vectors::int8_dot::{dot_products, round, step_size};
