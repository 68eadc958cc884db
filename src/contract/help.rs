//! Help for models: when to use a verb, what it does not do, what is refused, one request and one response.

use std::fmt::Write;

use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::registry::{self, NAMES, VERBS, Verb};

/// Words that help answers beside the verbs.
const OVERVIEW: &str = "Eleven verbs over views of documents. Every answer is an envelope: data, confidence, coverage, unknowns, method, evidence, error.";

/// The help on a verb, or on all of them.
pub fn text(verb: Option<&str>) -> Result<String, String> {
    about(verb).map_err(|it| it.message)
}

/// As [`text`], with a refusal for an unknown verb.
pub(crate) fn about(verb: Option<&str>) -> Outcome<String> {
    let Some(name) = verb else { return Ok(overview()) };
    let verb = registry::verb(name).ok_or_else(|| Refusal::unknown(Cause::UnknownVerb, "verb", name, NAMES))?;
    Ok(one(verb))
}

fn overview() -> String {
    let mut text = OVERVIEW.to_string();
    for verb in VERBS {
        let forms: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
        let _ = write!(text, "\n{}", verb.name);
        if !forms.is_empty() {
            let _ = write!(text, ": {}", forms.join(", "));
        }
    }
    text.push_str("\nhelp VERB says more.");
    text
}

fn one(verb: &Verb) -> String {
    let forms: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    let mut text =
        format!("{}: use it {}.\nIt does not: {}.\nRefused: {}.", verb.name, verb.when, verb.never, verb.refuses);
    if !forms.is_empty() {
        let _ = write!(text, "\nForms: {}.", forms.join(", "));
    }
    let _ = write!(text, "\nRequest: {}\nData: {}", verb.request, verb.response);
    text
}
