//! The fixed vocabulary of the corpus API: every verb with its forms, every form with its fields. The validator, the JSON
//! Schemas, the help and the command line are generated from these tables, so they always agree.
//!
//! `table` holds the verbs, `beside` the management calls, `objects` the schemas of EXTRACT, and `examples` a sample
//! request and answer for each form.

mod beside;
mod examples;
mod objects;
mod table;
mod verb;

pub use crate::verbs::beside::MANAGEMENT_CALLS;
pub use crate::verbs::examples::{EXAMPLES, Example};
pub use crate::verbs::objects::{ANY_FILTERS, ObjectSchema, SCHEMA_NAMES, SCHEMAS};
pub use crate::verbs::table::{RANK_CRITERIA, VERB_NAMES, VERBS};
pub use crate::verbs::verb::{COMMON_FIELDS, Field, FieldKind, Form, Verb};

/// The version of the corpus API. Names, request fields and response fields change only with a new version.
pub const CONTRACT_VERSION: &str = "1.0";

/// Returns the sample request and answer of a form.
pub fn example(verb: &Verb, form: &Form) -> Option<&'static Example> {
    EXAMPLES.iter().find(|it| it.verb == verb.name && it.form == form.name)
}

/// Returns the request of an example as JSON, including its form.
pub fn full_request(example: &Example) -> String {
    match (example.form, example.request.strip_prefix('{').unwrap_or_default()) {
        ("", _) => example.request.to_string(),
        (form, "}") => format!(r#"{{"form":"{form}"}}"#),
        (form, rest) => format!(r#"{{"form":"{form}",{rest}"#),
    }
}

/// Returns the form of a verb by name; case is ignored, and `-` equals `_`.
pub fn form_of(verb: &'static Verb, name: &str) -> Option<&'static Form> {
    let folded = name.trim().replace('_', "-");
    verb.forms.iter().find(|it| !it.name.is_empty() && it.name.eq_ignore_ascii_case(&folded))
}

/// Returns a management call by name; case is ignored.
pub fn management_call(name: &str) -> Option<&'static Verb> {
    MANAGEMENT_CALLS.iter().find(|it| it.name.eq_ignore_ascii_case(name.trim()))
}

/// Returns a verb by name; case is ignored, and `-` equals `_`.
pub fn verb(name: &str) -> Option<&'static Verb> {
    let name = name.trim().replace('-', "_");
    VERBS.iter().find(|it| it.name.eq_ignore_ascii_case(&name))
}

/// Returns a schema of EXTRACT by name; case is ignored.
pub fn schema(name: &str) -> Option<&'static ObjectSchema> {
    SCHEMAS.iter().find(|it| it.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_and_schema_name_lists_agree() {
        let names: Vec<&str> = VERBS.iter().map(|it| it.name).collect();
        assert_eq!((names.as_slice(), names.len()), (VERB_NAMES, 11));
        let schemas: Vec<&str> = SCHEMAS.iter().map(|it| it.name).collect();
        assert_eq!(schemas, SCHEMA_NAMES);
        assert_eq!(verb("explain-failure").unwrap().name, "EXPLAIN_FAILURE");
        assert!(verb("search").is_none());
    }

    #[test]
    fn forms_have_unique_fields_and_an_example() {
        for verb in VERBS {
            assert!(!verb.forms.is_empty());
            for form in verb.forms {
                assert!(example(verb, form).is_some(), "{} {} has no example", verb.name, form.name);
                let mut names: Vec<&str> = Verb::fields(form).map(|it| it.name).collect();
                names.sort_unstable();
                let all = names.len();
                names.dedup();
                assert_eq!(names.len(), all, "{} {}", verb.name, form.name);
            }
        }
    }
}
