//! Help for models: when to use a verb, what it does not do, which requests are rejected, a sample request and
//! response. Topics: all verbs, each verb, each form, each management call, and the fields of QUERY.

use std::fmt::Write;

use serde_json::Value;

use crate::corpus::api::envelope;
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::filter::{FIELDS, Type};
use crate::error::ErrorCode;
use crate::verbs::{self, BESIDE, Field, Form, Kind, NAMES, VERBS, Verb};

/// First paragraph of the overview.
const OVERVIEW: &str = "Eleven verbs over views of documents. Every answer is an envelope: data, confidence, coverage, unknowns, method, evidence, error.";

/// The help topic about filter fields.
const FIELDS_TOPIC: &str = "fields";

/// Returns the help on a verb and one of its forms, on `fields`, or on all verbs.
///
/// # Errors
/// The code and the envelope of the error, if there is no such verb or form.
pub fn text(verb: Option<&str>, form: Option<&str>) -> Result<String, (ErrorCode, Value)> {
    about(verb, form).map_err(|it| (it.code, envelope::refusal(None, "HELP", &Value::Null, it.value())))
}

/// Like [`text`], but returns the [`Refusal`] itself.
pub(crate) fn about(verb: Option<&str>, form: Option<&str>) -> Outcome<String> {
    let Some(name) = verb else { return Ok(overview()) };
    if name.eq_ignore_ascii_case(FIELDS_TOPIC) {
        return Ok(fields());
    }
    let verb = known(name)?;
    match form {
        None => Ok(of_verb(verb)),
        Some(form) => Ok(of_form(verb, verbs::form_of(verb, form).ok_or_else(|| no_form(verb, form))?)),
    }
}

/// Returns the verb or management call with this name. The error suggests the nearest name.
pub(crate) fn known(name: &str) -> Outcome<&'static Verb> {
    let names: Vec<&str> = NAMES.iter().copied().chain(BESIDE.iter().map(|it| it.name)).collect();
    let found = verbs::verb(name).or_else(|| verbs::beside(name));
    found.ok_or_else(|| Refusal::unknown(Cause::UnknownVerb, "verb", name, &names).field("verb"))
}

fn no_form(verb: &Verb, form: &str) -> Refusal {
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    Refusal::unknown(Cause::UnknownForm, &format!("form of {}", verb.name), form, &names).field("form")
}

fn overview() -> String {
    let mut text = OVERVIEW.to_string();
    for verb in VERBS {
        let _ = write!(text, "\n{}", verb.name);
        if let Some(forms) = forms(verb) {
            let _ = write!(text, ": {forms}");
        }
    }
    text.push_str("\nhelp VERB [FORM] says more; help fields lists the fields of QUERY.");
    text
}

fn forms(verb: &Verb) -> Option<String> {
    let forms: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    (!forms.is_empty()).then(|| forms.join(", "))
}

fn of_verb(verb: &Verb) -> String {
    let mut text =
        format!("{}: use it {}.\nIt does not: {}.\nRefused: {}.", verb.name, verb.when, verb.never, verb.refuses);
    if let Some(forms) = forms(verb) {
        let _ = write!(text, "\nForms: {forms}.");
    }
    push_example(&mut text, verb, &verb.forms[0]);
    text
}

fn of_form(verb: &Verb, form: &'static Form) -> String {
    let mut text = format!("{} {}: {}.\nIt does not: {}.", verb.name, form.name, form.about, verb.never);
    for field in form.fields {
        let need = if field.required { ", needed" } else { "" };
        let _ = write!(text, "\n{} ({}{need}): {}", field.name, kind(field), field.about);
    }
    push_example(&mut text, verb, form);
    text
}

/// The type of a field in a word or two.
fn kind(field: &Field) -> String {
    match field.kind {
        Kind::Text(_) => "text".into(),
        Kind::Flag => "true or false".into(),
        Kind::Whole(..) => "whole number".into(),
        Kind::Number(low, high) => format!("{low} to {high}"),
        Kind::Choice(names) => names.join(" | "),
        Kind::Moment => "ISO 8601".into(),
        Kind::Filter => "filter".into(),
        Kind::File => "number or path".into(),
        Kind::Baseline => "number or id".into(),
        Kind::Texts(_) => "texts".into(),
        Kind::Files(_) => "numbers or paths".into(),
        Kind::Object(fields) => fields.iter().map(|it| it.name).collect::<Vec<_>>().join(", "),
        Kind::SchemaFilters => "by schema".into(),
    }
}

fn push_example(text: &mut String, verb: &Verb, form: &Form) {
    let Some(example) = verbs::example(verb, form) else { return };
    let _ = write!(text, "\nRequest: {}\nData: {}", verbs::request_of(example), example.response);
}

/// The filter fields by type.
fn fields() -> String {
    let of = |kind: Type| {
        let names: Vec<&str> = FIELDS.iter().filter(|it| it.kind == kind).map(|it| it.name).collect();
        names.join(", ")
    };
    format!(
        "Fields of QUERY.\nTexts (=, !=): {}.\nNumbers (=, !=, <, >, <=, >=): {}.\nDates (as numbers, ISO 8601): {}.\nTrue or false (alone, or =): {}.",
        of(Type::Text),
        of(Type::Number),
        of(Type::Moment),
        of(Type::Flag),
    )
}
