//! Arithmetic of the vector search in memory: binary codes select candidate rows, 8-bit rows rank them.
//!
//! Each function has one plain implementation, which the compiler also builds for wider registers. Tests compare both.

mod binary_codes;
mod huge_pages;
mod i8_rows;
mod int8_dot;
mod prefetch;

pub use crate::vectors::binary_codes::{BinaryCodes, QueryCodes};
pub use crate::vectors::i8_rows::I8Rows;
pub use crate::vectors::int8_dot::{dot_products, round, step_size};
