//! JSON Schemas, compiled: of the arguments of tools, and of answers.
//!
//! What is understood is what schemas of tools are made of: types, values, numbers, texts, objects, arrays, combinations,
//! and references within the schema. A keyword that is not understood is refused by name when the schema is compiled, so
//! that nothing is ever taken for checked that is not. References to other documents are refused too: nothing here reads a
//! file or reaches out.

mod check;
mod compile;

use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::schema::compile::Compiled;

pub use crate::model::llm::schema::check::Violation;

/// Patterns of a schema at most, and of all schemas of a request.
pub const MAX_PATTERNS: usize = 100;
/// Violations that are told at once.
const TOLD: usize = 3;

/// A schema that values can be held against. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    compiled: Arc<Compiled>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `InvalidArgument` with the place of what is no schema, or not understood.
    pub fn new(schema: &Value) -> Result<Schema> {
        let compiled = compile::compile(schema).map_err(|(place, what)| {
            Error::invalid(format!("it is no JSON Schema that can be checked: {place}: {what}"))
        })?;
        Ok(Schema { compiled: Arc::new(compiled) })
    }

    /// How many patterns it has.
    pub fn patterns(&self) -> usize {
        self.compiled.patterns
    }

    /// Says what of a value breaks it, the first of them; empty when the value meets it.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        check::check(&self.compiled.nodes, self.compiled.root, value)
    }

    /// Holds a value against it.
    ///
    /// # Errors
    /// `FailedPrecondition` with the first places that break it; the field is the first of them.
    pub fn check(&self, value: &Value) -> Result<()> {
        let violations = self.violations(value);
        let Some(first) = violations.first() else { return Ok(()) };
        let told: Vec<String> = violations.iter().take(TOLD).map(ToString::to_string).collect();
        let more = match violations.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Err(Error::new(ErrorCode::FailedPrecondition, told.join("; ") + &more).field(first.place.clone()))
    }
}

#[cfg(test)]
mod tests;
