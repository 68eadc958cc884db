//! The closed vocabulary: every verb with its forms, every form with its fields. The validator, the JSON Schemas, the help
//! and the command line are generated from these tables, so they always agree.
//!
//! `verbs` holds the verbs, `beside` the management calls, `objects` the schemas of EXTRACT, and `examples` one request
//! with its answer for each form.

mod beside;
mod examples;
mod objects;
mod table;

pub use crate::verbs::beside::MANAGEMENT_CALLS;
pub use crate::verbs::examples::EXAMPLES;
pub use crate::verbs::objects::{SCHEMA_NAMES, SCHEMAS};
use crate::verbs::table::{
    COMPARE, DELTA, DETECT, EXPLAIN_FAILURE, EXTRACT, INGEST, NORMALIZE, QUERY, SCORE, SUMMARIZE, TRACE,
};

/// The version of the API. Names, request fields and response fields change only with it.
pub const CONTRACT_VERSION: &str = "1.0";

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A non-empty text with at most this many characters.
    Text(usize),
    /// True or false.
    Flag,
    /// A whole number between bounds, both included.
    Whole(i64, i64),
    /// A number between bounds, both included.
    Number(f64, f64),
    /// One of these names, in any case.
    Choice(&'static [&'static str]),
    /// An ISO 8601 date or date-time.
    Moment,
    /// A boolean filter over metadata.
    Filter,
    /// A file of the view: its number, its path or the end of its path.
    File,
    /// A state to compare with: a session number or a result id.
    Baseline,
    /// At most this many texts.
    Texts(usize),
    /// At most this many files.
    Files(usize),
    /// An object with these fields and no others.
    Object(&'static [Field]),
    /// An object with fields that depend on the requested schema.
    SchemaFilters,
}

/// One field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// The name in snake_case; the command line writes it with `-`.
    pub name: &'static str,
    /// The type of its value.
    pub kind: FieldKind,
    /// Whether every request needs it.
    pub required: bool,
    /// A description for help and schemas.
    pub about: &'static str,
}

/// One form of a verb. A verb without forms has one form without a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// The name; empty for an only form.
    pub name: &'static str,
    /// A description of its answer.
    pub about: &'static str,
    /// Its own fields, in addition to [`COMMON_FIELDS`].
    pub fields: &'static [Field],
}

/// One verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verb {
    /// The name in upper case.
    pub name: &'static str,
    /// When to use it.
    pub when: &'static str,
    /// What it does not do.
    pub never: &'static str,
    /// Mistakes that are rejected.
    pub refuses: &'static str,
    /// The forms; never empty.
    pub forms: &'static [Form],
}

/// A sample request of a form and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// The verb.
    pub verb: &'static str,
    /// The form; empty for an only form.
    pub form: &'static str,
    /// The fields of the request without `form`.
    pub request: &'static str,
    /// The shortened `data` of the answer; everything in it is also in the full answer.
    pub response: &'static str,
}

/// One schema of EXTRACT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectSchema {
    /// The name.
    pub name: &'static str,
    /// The fields of its objects with their JSON types, besides the place and the confidence; a type that ends with `?`
    /// marks a field that an object may lack.
    pub fields: &'static [(&'static str, &'static str)],
    /// The filters of its objects, in addition to [`ANY_FILTERS`].
    pub filters: &'static [Field],
}

const fn optional_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

const fn required_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

const fn form(name: &'static str, about: &'static str, fields: &'static [Field]) -> Form {
    Form { name, about, fields }
}

const LONG_TEXT: FieldKind = FieldKind::Text(500);
const SHORT_TEXT: FieldKind = FieldKind::Text(100);
const FORMATS: &[&str] = &["json", "yaml", "csv"];
/// Ranking criteria for authority.
pub const RANK_CRITERIA: &[&str] = &["citations", "pagerank"];

/// Fields of every verb.
pub const COMMON_FIELDS: &[Field] = &[
    optional_field("view", SHORT_TEXT, "a saved view; without view and session it is the whole warehouse"),
    optional_field("session", FieldKind::Whole(1, i64::MAX), "the files of one ingest run, as they were"),
    optional_field("format", FieldKind::Choice(FORMATS), "json (default), yaml, or csv for tables"),
    optional_field("verbose", FieldKind::Flag, "lifts the limit on prose"),
    optional_field("async", FieldKind::Flag, "returns a job id at once"),
    optional_field("limit", FieldKind::Whole(1, 10_000), "most objects of a list; 100 when absent"),
    optional_field("offset", FieldKind::Whole(0, 10_000_000), "objects to pass over"),
];

/// Filters of the objects of every schema.
pub const ANY_FILTERS: &[Field] = &[
    optional_field("file", FieldKind::File, "only of this file"),
    optional_field("content_type", SHORT_TEXT, "only of documents of this type"),
    optional_field("min_confidence", FieldKind::Number(0.0, 1.0), "at least this sure"),
    optional_field("contains", LONG_TEXT, "only objects that hold this text, in any case"),
];

/// Every verb. The list is closed.
pub const VERBS: &[Verb] =
    &[INGEST, EXTRACT, NORMALIZE, COMPARE, DETECT, TRACE, SCORE, QUERY, DELTA, SUMMARIZE, EXPLAIN_FAILURE];

/// The names of [`VERBS`], in their order.
pub const VERB_NAMES: &[&str] = &[
    "INGEST",
    "EXTRACT",
    "NORMALIZE",
    "COMPARE",
    "DETECT",
    "TRACE",
    "SCORE",
    "QUERY",
    "DELTA",
    "SUMMARIZE",
    "EXPLAIN_FAILURE",
];

impl Verb {
    /// Returns the fields of a form: its own first, then the common ones that it does not redefine.
    pub fn fields(form: &'static Form) -> impl Iterator<Item = &'static Field> {
        let common = COMMON_FIELDS.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }
}

/// Returns the example of a form.
pub fn example(verb: &Verb, form: &Form) -> Option<&'static Example> {
    EXAMPLES.iter().find(|it| it.verb == verb.name && it.form == form.name)
}

/// Returns the request of an example, with its form.
pub fn full_request(example: &Example) -> String {
    match (example.form, example.request.strip_prefix('{').unwrap_or_default()) {
        ("", _) => example.request.to_string(),
        (form, "}") => format!(r#"{{"form":"{form}"}}"#),
        (form, rest) => format!(r#"{{"form":"{form}",{rest}"#),
    }
}

/// Returns the form of a verb by name, in any case, with `-` and `_` equal.
pub fn form_of(verb: &'static Verb, name: &str) -> Option<&'static Form> {
    let folded = name.trim().replace('_', "-");
    verb.forms.iter().find(|it| !it.name.is_empty() && it.name.eq_ignore_ascii_case(&folded))
}

/// Returns a management call by name, in any case.
pub fn management_call(name: &str) -> Option<&'static Verb> {
    MANAGEMENT_CALLS.iter().find(|it| it.name.eq_ignore_ascii_case(name.trim()))
}

/// Returns a verb by name, in any case, with `-` and `_` equal.
pub fn verb(name: &str) -> Option<&'static Verb> {
    let name = name.trim().replace('-', "_");
    VERBS.iter().find(|it| it.name.eq_ignore_ascii_case(&name))
}

/// Returns a schema by name, in any case.
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
