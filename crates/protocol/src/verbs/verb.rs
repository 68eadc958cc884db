//! Verbs, their forms and their fields.

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

pub(super) const fn optional_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

pub(super) const fn required_field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

pub(super) const fn form(name: &'static str, about: &'static str, fields: &'static [Field]) -> Form {
    Form { name, about, fields }
}

pub(super) const LONG_TEXT: FieldKind = FieldKind::Text(500);
pub(super) const SHORT_TEXT: FieldKind = FieldKind::Text(100);
pub(super) const FORMATS: &[&str] = &["json", "yaml", "csv"];

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

impl Verb {
    /// Returns the fields of a form: its own first, then the common ones that it does not redefine.
    pub fn fields(form: &'static Form) -> impl Iterator<Item = &'static Field> {
        let common = COMMON_FIELDS.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }
}
