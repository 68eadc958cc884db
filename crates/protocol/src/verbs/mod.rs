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
pub use crate::verbs::verb::{COMMON_FIELDS, Field, FieldKind, Form, MAX_WAIT_MS, Verb};

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

/// Returns a verb or a management call by name, as [`verb()`] and [`management_call`] do.
pub fn any_call(name: &str) -> Option<&'static Verb> {
    verb(name).or_else(|| management_call(name))
}

/// Returns the fields inside the field `filters` or `constraints` of a form. Those of `filters` depend on the schema; of an
/// unknown schema, only the filters that every schema has are returned.
pub fn nested_fields(field: &Field, schema_name: Option<&str>) -> Vec<Field> {
    let own = match field.kind {
        FieldKind::Object(fields) => return fields.to_vec(),
        FieldKind::SchemaFilters => schema_name.and_then(schema).map_or(&[][..], |it| it.filters),
        _ => return Vec::new(),
    };
    own.iter().chain(ANY_FILTERS).copied().collect()
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

    /// Checks that every name of these fields, aliases included, means one field.
    fn check_names(fields: &[Field], what: &str) {
        let mut names: Vec<&str> = fields.iter().flat_map(|it| it.aliases.iter().chain([&it.name])).copied().collect();
        names.sort_unstable();
        let twice: Vec<&[&str]> = names.windows(2).filter(|it| it[0] == it[1]).collect();
        assert!(twice.is_empty(), "{what}: {twice:?}");
    }

    #[test]
    fn every_name_of_a_field_means_one_field() {
        for verb in VERBS {
            for form in verb.forms {
                let own: Vec<Field> = Verb::fields(form).copied().collect();
                let names = if verb.name == "EXTRACT" { SCHEMA_NAMES } else { &[""] };
                for schema in names {
                    let nested = own.iter().flat_map(|it| nested_fields(it, Some(schema)));
                    let all: Vec<Field> = own.iter().copied().chain(nested).collect();
                    check_names(&all, &format!("{} {} {schema}", verb.name, form.name));
                }
            }
        }
        for call in MANAGEMENT_CALLS {
            call.forms.iter().for_each(|it| check_names(it.fields, &format!("{} {}", call.name, it.name)));
        }
    }
}
