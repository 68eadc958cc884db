//! Boolean filters over metadata: `content_type=academic AND (year>=2020 OR NOT has_abstract)`.
//!
//! A comparison with a missing value is neither true nor false, and neither is its negation (Kleene's logic). A document
//! for which the whole filter is undecided does not match, and is counted as undecided. Conditions about the meaning of
//! texts are rejected with an error of their own, distinct from misspellings.

mod evaluate;
mod fields;
mod parse;

pub(crate) use crate::corpus::filter::evaluate::{FieldValue, Filter};
pub(crate) use crate::corpus::filter::fields::{
    FILTER_FIELDS, FieldSource, FieldType, FilterField, field_by_name, numeric_field,
};
