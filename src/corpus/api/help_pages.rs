//! The pages of the help, from the tables in `crate::verbs`. Each has at most 200 tokens; a test counts them.

use std::fmt::Write;

use crate::verbs::{self, ANY_FILTERS, COMMON_FIELDS, Field, FieldKind, Form, ObjectSchema, VERB_NAMES, VERBS, Verb};

/// First line of the help on all verbs.
const OVERVIEW: &str = "vic corpus VERB FORM '{\"field\":value}'; (needed fields):";

/// Last lines of the help on all verbs.
const MORE: &str = "VIEW create, list, show, delete
JOB (id), RESULT (id)
All take view or session, limit, offset, format, async, wait_ms.
help VERB FORM, EXTRACT Table, fields or common tells more.";

/// Last line of the fields of a form, and of those of a verb without forms, whose page is longer.
const COMMON: &str = "Also: view or session, limit, offset, format, async, wait_ms (help common).";
const COMMON_SHORT: &str = "Also those of help common.";

/// Sample requests of the management calls, as (call, form, request).
pub(in crate::corpus) const MANAGEMENT_SAMPLES: &[(&str, &str, &str)] = &[
    ("VIEW", "create", r#"{"action":"create","name":"papers","filter":"content_type=academic","since":"7 days"}"#),
    ("VIEW", "list", r#"{"action":"list"}"#),
    ("VIEW", "show", r#"{"action":"show","name":"papers"}"#),
    ("VIEW", "delete", r#"{"action":"delete","name":"papers"}"#),
    ("JOB", "", r#"{"id":"j-41c0ffee0badcafe","wait_ms":10000}"#),
    ("RESULT", "", r#"{"id":"r-41c0ffee0badcafe"}"#),
    ("HELP", "", r#"{"verb":"COMPARE","form":"consensus"}"#),
    ("SCHEMA", "", r#"{"verb":"COMPARE"}"#),
];

/// Verbs that need one of two fields, each with these two fields. The tables in `crate::verbs` cannot express that.
const ONE_OF: [(&str, &str); 3] =
    [("INGEST", "paths or urls"), ("DELTA", "since or baseline"), ("EXPLAIN_FAILURE", "id or file")];

/// Highest upper bound of a number that a help page shows. A number with a higher bound is shown as `number`, because its
/// bound only rejects mistakes.
const MAX_SHOWN_BOUND: i64 = 50_000;

/// Returns the page on all verbs: each with its forms, each form with the fields that it needs.
pub(super) fn overview() -> String {
    let mut text = OVERVIEW.to_string();
    for verb in VERBS {
        let forms: Vec<String> = verb.forms.iter().map(|it| form_with_needed_fields(verb, it)).collect();
        let _ = write!(text, "\n{} {}", verb.name, forms.join(", "));
    }
    format!("{text}\n{MORE}")
}

/// Returns the name of a form with the fields that it needs, as in `coverage (topic)`.
fn form_with_needed_fields(verb: &Verb, form: &Form) -> String {
    let needed: Vec<&str> = form.fields.iter().filter(|it| it.required).map(|it| it.name).collect();
    let needed = match ONE_OF.iter().find(|it| it.0 == verb.name) {
        Some((_, fields)) => fields.to_string(),
        None => needed.join(", "),
    };
    match (form.name, needed.as_str()) {
        (name, "") => name.to_string(),
        ("", needed) => format!("({needed})"),
        (name, needed) => format!("{name} ({needed})"),
    }
}

/// Returns the names of the forms of a verb, separated by commas; `None` for a verb without forms.
pub(super) fn form_names(verb: &Verb) -> Option<String> {
    let forms: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    (!forms.is_empty()).then(|| forms.join(", "))
}

/// Returns the page on a verb. A verb without forms has its fields here.
pub(super) fn verb_page(verb: &'static Verb) -> String {
    let mut text =
        format!("{}: use it {}.\nIt does not {}.\nRefused: {}.", verb.name, verb.when, verb.never, verb.refuses);
    match form_names(verb) {
        Some(forms) => {
            let _ = write!(text, "\nForms: {forms}. help {} FORM lists the fields.", verb.name);
        }
        None => push_own_and_common_fields(&mut text, verb, &verb.forms[0]),
    }
    push_example(&mut text, verb, &verb.forms[0]);
    text
}

/// Returns the page on a form of a verb, with its fields.
pub(super) fn form_page(verb: &Verb, form: &'static Form) -> String {
    let mut text = format!("{} {}: {}. It does not {}.", verb.name, form.name, form.about, verb.never);
    push_own_and_common_fields(&mut text, verb, form);
    push_example(&mut text, verb, form);
    text
}

fn push_own_and_common_fields(text: &mut String, verb: &Verb, form: &Form) {
    push_fields(text, form.fields);
    if verbs::verb(verb.name).is_some() {
        let _ = write!(text, "\n{}", if form.name.is_empty() { COMMON_SHORT } else { COMMON });
    }
}

/// Returns the page on a schema of EXTRACT, with its filters and the fields of its objects.
pub(super) fn schema_page(schema: &ObjectSchema) -> String {
    let fields: Vec<&str> = schema.fields.iter().map(|it| it.0).collect();
    let mut text = format!(
        "EXTRACT {}: {}.\nObjects have {}, file, page or lines, bytes, confidence.\nFilters, all optional:",
        schema.name,
        schema.about,
        fields.join(", ")
    );
    push_fields(&mut text, schema.filters);
    push_fields(&mut text, ANY_FILTERS);
    let _ = write!(text, "\nRequest: {{\"schema\":\"{}\",\"filters\":{}}}", schema.name, schema.sample);
    text
}

/// Returns the page on the fields that every verb takes.
pub(super) fn common_page() -> String {
    let mut text = "Fields of every verb, all optional:".to_string();
    push_fields(&mut text, COMMON_FIELDS);
    text.push_str("\nAnswers have data, confidence, coverage, unknowns, method, evidence, error; or a job_id.");
    text
}

/// Adds a line for each field: its names, its type, and what it is.
fn push_fields(text: &mut String, fields: &[Field]) {
    for field in fields {
        let need = if field.required { ", needed" } else { "" };
        let _ = write!(text, "\n{} ({}{need}): {}", names_of(field), type_name(field), field.about);
        if let FieldKind::Object(inner) = field.kind {
            for it in inner {
                let _ = write!(text, "\n  {} ({}): {}", names_of(it), type_name(it), it.about);
            }
        }
    }
}

/// Returns the names of a field, its own first.
fn names_of(field: &Field) -> String {
    let names: Vec<&str> = std::iter::once(field.name).chain(field.aliases.iter().copied()).collect();
    names.join("|")
}

/// Returns the type of a field in a word or two.
fn type_name(field: &Field) -> String {
    match field.kind {
        FieldKind::Text(_) => "text".into(),
        FieldKind::Flag => "true or false".into(),
        FieldKind::Whole(low, high) if high <= MAX_SHOWN_BOUND => format!("{low} to {high}"),
        FieldKind::Whole(..) => "number".into(),
        FieldKind::Number(low, high) => format!("{low} to {high}"),
        FieldKind::Choice(names) if names == VERB_NAMES => "name".into(),
        FieldKind::Choice(names) => names.join(", "),
        FieldKind::Moment => "date, or 7 days".into(),
        FieldKind::Filter => "filter".into(),
        FieldKind::File => "number or path".into(),
        FieldKind::Baseline => "number or id".into(),
        FieldKind::Texts(_) => "list".into(),
        FieldKind::Files(_) => "list of numbers or paths".into(),
        FieldKind::Object(_) => "object".into(),
        FieldKind::SchemaFilters => "object".into(),
    }
}

fn push_example(text: &mut String, verb: &Verb, form: &Form) {
    if let Some(example) = verbs::example(verb, form) {
        let _ = write!(text, "\nRequest: {}\nData: {}", verbs::full_request(example), example.response);
    }
    if let Some(sample) = MANAGEMENT_SAMPLES.iter().find(|it| (it.0, it.1) == (verb.name, form.name)) {
        let _ = write!(text, "\nRequest: {}", sample.2);
    }
}
