//! The closed vocabulary: every verb with its forms, every form with its fields. The validator, the JSON Schemas, the help
//! and the command line are generated from these tables, so they always agree.
//!
//! `verbs` holds the verbs, `beside` the management calls, `objects` the schemas of EXTRACT, and `examples` one request
//! with its answer for each form.

mod beside;
mod examples;
mod objects;
mod table;

pub use crate::verbs::beside::BESIDE;
pub use crate::verbs::examples::EXAMPLES;
pub use crate::verbs::objects::{SCHEMA_NAMES, SCHEMAS};
use crate::verbs::table::{
    COMPARE, DELTA, DETECT, EXPLAIN_FAILURE, EXTRACT, INGEST, NORMALIZE, QUERY, SCORE, SUMMARIZE, TRACE,
};

/// The version of the API. Names, request fields and response fields change only with it.
pub const CONTRACT_VERSION: &str = "1.0";

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
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
    pub kind: Kind,
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
    /// Its own fields, in addition to [`COMMON`].
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

const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

const fn form(name: &'static str, about: &'static str, fields: &'static [Field]) -> Form {
    Form { name, about, fields }
}

const TEXT: Kind = Kind::Text(500);
const WORD: Kind = Kind::Text(100);
const FORMATS: &[&str] = &["json", "yaml", "csv"];
/// Ranking criteria for authority.
pub const RANKS: &[&str] = &["citations", "pagerank"];

/// Fields of every verb.
pub const COMMON: &[Field] = &[
    field("view", WORD, "a saved view; without view and session it is the whole warehouse"),
    field("session", Kind::Whole(1, i64::MAX), "the files of one ingest run, as they were"),
    field("format", Kind::Choice(FORMATS), "json (default), yaml, or csv for tables"),
    field("verbose", Kind::Flag, "lifts the limit on prose"),
    field("async", Kind::Flag, "returns a job id at once"),
    field("limit", Kind::Whole(1, 10_000), "most objects of a list; 100 when absent"),
    field("offset", Kind::Whole(0, 10_000_000), "objects to pass over"),
];

/// Filters of the objects of every schema.
pub const ANY_FILTERS: &[Field] = &[
    field("file", Kind::File, "only of this file"),
    field("content_type", WORD, "only of documents of this type"),
    field("min_confidence", Kind::Number(0.0, 1.0), "at least this sure"),
    field("contains", TEXT, "only objects that hold this text, in any case"),
];

/// Every verb. The list is closed.
pub const VERBS: &[Verb] =
    &[INGEST, EXTRACT, NORMALIZE, COMPARE, DETECT, TRACE, SCORE, QUERY, DELTA, SUMMARIZE, EXPLAIN_FAILURE];

/// The names of [`VERBS`], in their order.
pub const NAMES: &[&str] = &[
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
        let common = COMMON.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }
}

/// Returns the example of a form.
pub fn example(verb: &Verb, form: &Form) -> Option<&'static Example> {
    EXAMPLES.iter().find(|it| it.verb == verb.name && it.form == form.name)
}

/// Returns the request of an example, with its form.
pub fn request_of(example: &Example) -> String {
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
pub fn beside(name: &str) -> Option<&'static Verb> {
    BESIDE.iter().find(|it| it.name.eq_ignore_ascii_case(name.trim()))
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
        assert_eq!((names.as_slice(), names.len()), (NAMES, 11));
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
