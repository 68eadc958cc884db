//! Compiles the regular expressions that detect secrets.

use regex::Regex;

/// Compiles one regular expression that matches any of the alternatives.
pub(super) fn compile_alternatives(alternatives: &[&str]) -> Regex {
    Regex::new(&alternatives.join("|")).expect("the patterns are constants")
}
