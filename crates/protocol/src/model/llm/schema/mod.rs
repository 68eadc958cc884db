//! Compiled JSON Schemas for tool arguments and answers.
//!
//! Supports the keywords that tool schemas use: types, values, numbers, strings, objects, arrays, combinations, and
//! references within the schema. Compilation fails for an unsupported keyword and names it, so that no value passes
//! unchecked, and for references to other documents: this module reads no files and makes no requests.

mod validate;
mod compile;

use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::schema::compile::Compiled;

pub use crate::model::llm::schema::compile::MAX_PATTERNS;
pub use crate::model::llm::schema::validate::Violation;

/// Maximum number of violations in one error message.
const MAX_REPORTED: usize = 3;

/// A compiled schema against which values are validated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    compiled: Arc<Compiled>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `InvalidArgument` with the path of the invalid or unsupported part of the schema.
    pub fn new(schema: &Value) -> Result<Schema> {
        let compiled = compile::compile(schema)
            .map_err(|(place, what)| Error::invalid(format!("not a supported JSON Schema: {place}: {what}")))?;
        Ok(Schema { compiled: Arc::new(compiled) })
    }

    /// Returns the number of patterns (regular expressions) in the schema.
    pub fn patterns(&self) -> usize {
        self.compiled.patterns
    }

    /// Returns the first violations of a value; empty if the value is valid.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        validate::validate(&self.compiled.nodes, self.compiled.root, value)
    }

    /// Validates a value.
    ///
    /// # Errors
    /// `FailedPrecondition` with the first violations; the field of the error is the path of the first one.
    pub fn check(&self, value: &Value) -> Result<()> {
        let violations = self.violations(value);
        let Some(first) = violations.first() else { return Ok(()) };
        let told: Vec<String> = violations.iter().take(MAX_REPORTED).map(ToString::to_string).collect();
        let more = match violations.len().saturating_sub(MAX_REPORTED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Err(Error::new(ErrorCode::FailedPrecondition, told.join("; ") + &more).field(first.place.clone()))
    }
}

#[cfg(test)]
mod tests;
