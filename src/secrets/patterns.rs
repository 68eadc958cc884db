//! Compiles the patterns of secrets.

use regex::Regex;

/// Compiles alternatives to one pattern.
pub(super) fn compile_alternatives(alternatives: &[&str]) -> Regex {
    Regex::new(&alternatives.join("|")).expect("the patterns are constants")
}
