//! The types that describe the verbs of the corpus API, their forms and their fields.

/// Type of a field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A non-empty text with at most this many characters.
    Text(usize),
    /// True or false.
    Flag,
    /// A whole number between these bounds, inclusive.
    Whole(i64, i64),
    /// A number between these bounds, inclusive.
    Number(f64, f64),
    /// One of these names; case is ignored.
    Choice(&'static [&'static str]),
    /// An ISO 8601 date or date-time, or a time ago such as `7 days`.
    Moment,
    /// A boolean filter over metadata, e.g. `year>=2020 AND has_abstract`.
    Filter,
    /// A file of the view, given by its id, its path or the end of its path.
    File,
    /// An earlier state to compare with, given by a session id or a result id.
    Baseline,
    /// A list of at most this many texts.
    Texts(usize),
    /// A list of at most this many files.
    Files(usize),
    /// An object with these fields and no others.
    Object(&'static [Field]),
    /// An object whose fields depend on the requested schema of EXTRACT.
    SchemaFilters,
}

/// One field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Name in snake_case; the command line writes it with `-`.
    pub name: &'static str,
    /// Other names that a request may use for the field. No other field of the same request, filters included,
    /// has one of these names.
    pub aliases: &'static [&'static str],
    /// Type of the field's value.
    pub kind: FieldKind,
    /// Whether every request must contain the field.
    pub required: bool,
    /// Description for help and schemas.
    pub about: &'static str,
}

/// One form of a verb. A verb without forms has a single form with an empty name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Name of the form; empty if the verb has only one.
    pub name: &'static str,
    /// Description of the answer.
    pub about: &'static str,
    /// Fields of the form, in addition to [`COMMON_FIELDS`].
    pub fields: &'static [Field],
}

/// One verb of the corpus API.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verb {
    /// Name of the verb in upper case.
    pub name: &'static str,
    /// When to use the verb. Completes the sentence `use it ...` of the help.
    pub when: &'static str,
    /// What the verb does not do. Completes the sentence `It does not ...` of the help.
    pub never: &'static str,
    /// Mistakes for which a request is rejected.
    pub refuses: &'static str,
    /// Forms of the verb; never empty.
    pub forms: &'static [Form],
}

pub(super) const fn optional_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, aliases: &[], kind, required: false, about }
}

pub(super) const fn required_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, aliases: &[], kind, required: true, about }
}

pub(super) const fn form(name: &'static str, about: &'static str, fields: &'static [Field]) -> Form {
    Form { name, about, fields }
}

pub(super) const LONG_TEXT: FieldKind = FieldKind::Text(500);
pub(super) const SHORT_TEXT: FieldKind = FieldKind::Text(100);
pub(super) const FORMATS: &[&str] = &["json", "yaml", "csv"];

/// Maximum of `wait_ms`: a waiting call keeps others of the same caller waiting, and clients give up after a minute.
pub const MAX_WAIT_MS: i64 = 30_000;

/// Fields that every verb takes.
pub const COMMON_FIELDS: &[Field] = &[
    optional_field("view", SHORT_TEXT, "a saved view; else all files"),
    optional_field("session", FieldKind::Whole(1, i64::MAX), "the files of one ingest run, as they were")
        .or_named(&["session_id"]),
    optional_field("format", FieldKind::Choice(FORMATS), "json (default), yaml, or csv for tables"),
    optional_field("verbose", FieldKind::Flag, "lifts the limit on prose"),
    optional_field("async", FieldKind::Flag, "returns a job id at once").or_named(&["background"]),
    WAIT_MS,
    optional_field("limit", FieldKind::Whole(1, 10_000), "most objects of a list; 100 when absent")
        .or_named(&["max_results", "top_k"]),
    optional_field("offset", FieldKind::Whole(0, 10_000_000), "objects to pass over").or_named(&["skip"]),
];

/// The time that a call waits for the end of its job.
pub(super) const WAIT_MS: Field =
    optional_field("wait_ms", FieldKind::Whole(0, MAX_WAIT_MS), "waits for its job's result");

impl Field {
    /// Returns the field with other names that a request may use for it.
    pub(super) const fn or_named(self, aliases: &'static [&'static str]) -> Field {
        Field { aliases, ..self }
    }

    /// Returns whether this is the name of the field, or one of its other names.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

impl Verb {
    /// Returns the fields of a form: first those of the form, then the common fields that the form does not redefine.
    pub fn fields(form: &'static Form) -> impl Iterator<Item = &'static Field> {
        let common = COMMON_FIELDS.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }

    /// Returns the name of the field that selects a form of the verb.
    pub fn form_field(&self) -> &'static str {
        if self.name == "VIEW" { "action" } else { "form" }
    }
}
