//! The closed vocabulary: every verb with its forms, every form with its fields. The validator, the JSON Schemas, the help
//! and the command line are all made of these tables, so that they cannot disagree.
//!
//! The verbs are in `verbs`, what there is beside them in `beside`, the schemas of EXTRACT in `objects`, and one request
//! with its answer for each form in `examples`.

mod beside;
mod examples;
mod objects;
mod verbs;

pub use crate::verbs::beside::BESIDE;
pub use crate::verbs::examples::EXAMPLES;
pub use crate::verbs::objects::{SCHEMA_NAMES, SCHEMAS};
use crate::verbs::verbs::{
    COMPARE, DELTA, DETECT, EXPLAIN_FAILURE, EXTRACT, INGEST, NORMALIZE, QUERY, SCORE, SUMMARIZE, TRACE,
};

/// The version of the contract. Names, request fields and response fields change only with it.
pub const CONTRACT_VERSION: &str = "1.0";

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A text that is not empty, of at most so many characters.
    Text(usize),
    /// True or false.
    Flag,
    /// A whole number between bounds, both included.
    Whole(i64, i64),
    /// A number between bounds, both included.
    Number(f64, f64),
    /// One of these, in any case.
    Choice(&'static [&'static str]),
    /// An ISO 8601 date or date-time.
    Moment,
    /// A boolean filter over metadata.
    Filter,
    /// A file of the view: its number, or its path or the end of it.
    File,
    /// A state to compare with: the number of a session, or the id of a result.
    Baseline,
    /// At most so many texts.
    Texts(usize),
    /// At most so many files.
    Files(usize),
    /// An object with these fields and no others.
    Object(&'static [Field]),
    /// An object whose fields depend on the schema that is asked for.
    SchemaFilters,
}

/// One field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name, in snake_case; on the command line with `-`.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether there is no request without it.
    pub required: bool,
    /// What it is for.
    pub about: &'static str,
}

/// One form of a verb; a verb without forms has one without a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Its name; empty for the only one.
    pub name: &'static str,
    /// What it gives.
    pub about: &'static str,
    /// Its fields, beside [`COMMON`].
    pub fields: &'static [Field],
}

/// One verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// When to use it.
    pub when: &'static str,
    /// What it does not do.
    pub never: &'static str,
    /// Which mistakes are refused.
    pub refuses: &'static str,
    /// Its forms.
    pub forms: &'static [Form],
}

/// One request of a form, and what its answer holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// The verb.
    pub verb: &'static str,
    /// The form; empty for the only one.
    pub form: &'static str,
    /// The fields of the request, `form` left out.
    pub request: &'static str,
    /// The `data` of the answer, cut short: everything in it stands in the whole one too.
    pub response: &'static str,
}

/// One schema of EXTRACT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectSchema {
    /// Its name.
    pub name: &'static str,
    /// The fields of its objects with their JSON types, beside the place and the confidence; a type with `?` behind it is
    /// of a field that an object may lack.
    pub fields: &'static [(&'static str, &'static str)],
    /// What its objects can be filtered by, beside [`ANY_FILTERS`].
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
/// Criteria by which an authority is measured.
pub const RANKS: &[&str] = &["citations", "pagerank"];

/// Fields of every request.
pub const COMMON: &[Field] = &[
    field("view", WORD, "a saved view; without view and session it is the whole warehouse"),
    field("session", Kind::Whole(1, i64::MAX), "the files of one ingest run, as they were"),
    field("format", Kind::Choice(FORMATS), "json (default), yaml, or csv for tables"),
    field("verbose", Kind::Flag, "lifts the limit on prose"),
    field("async", Kind::Flag, "returns a job id at once"),
    field("limit", Kind::Whole(1, 10_000), "most objects of a list; 100 when absent"),
    field("offset", Kind::Whole(0, 10_000_000), "objects to pass over"),
];

/// What the objects of every schema can be filtered by.
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
    /// Returns the fields that one of its forms takes: its own first, then the common ones it does not have itself.
    pub fn fields(form: &'static Form) -> impl Iterator<Item = &'static Field> {
        let common = COMMON.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }
}

/// The example of a form.
pub fn example(verb: &Verb, form: &Form) -> Option<&'static Example> {
    EXAMPLES.iter().find(|it| it.verb == verb.name && it.form == form.name)
}

/// The request of an example with its form, as one writes it.
pub fn request_of(example: &Example) -> String {
    match (example.form, example.request.strip_prefix('{').unwrap_or_default()) {
        ("", _) => example.request.to_string(),
        (form, "}") => format!(r#"{{"form":"{form}"}}"#),
        (form, rest) => format!(r#"{{"form":"{form}",{rest}"#),
    }
}

/// Returns the form of a verb by its name in any case, `-` and `_` alike.
pub fn form_of(verb: &'static Verb, name: &str) -> Option<&'static Form> {
    let folded = name.trim().replace('_', "-");
    verb.forms.iter().find(|it| !it.name.is_empty() && it.name.eq_ignore_ascii_case(&folded))
}

/// Returns what is beside the verbs by its name in any case.
pub fn beside(name: &str) -> Option<&'static Verb> {
    BESIDE.iter().find(|it| it.name.eq_ignore_ascii_case(name.trim()))
}

/// Returns the verb of a name in any case, `-` and `_` alike.
pub fn verb(name: &str) -> Option<&'static Verb> {
    let name = name.trim().replace('-', "_");
    VERBS.iter().find(|it| it.name.eq_ignore_ascii_case(&name))
}

/// Returns the schema of a name in any case.
pub fn schema(name: &str) -> Option<&'static ObjectSchema> {
    SCHEMAS.iter().find(|it| it.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_closed_and_its_lists_agree() {
        let names: Vec<&str> = VERBS.iter().map(|it| it.name).collect();
        assert_eq!((names.as_slice(), names.len()), (NAMES, 11));
        let schemas: Vec<&str> = SCHEMAS.iter().map(|it| it.name).collect();
        assert_eq!(schemas, SCHEMA_NAMES);
        assert_eq!(verb("explain-failure").unwrap().name, "EXPLAIN_FAILURE");
        assert!(verb("search").is_none());
    }

    #[test]
    fn no_form_has_a_field_twice_and_every_verb_has_a_form() {
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
