//! Help for language models: when to use a verb, what it does not do, which requests are rejected, a sample request and
//! answer. Topics: all verbs, each verb, each form, each management call, and the filter fields of QUERY.

use std::fmt::Write;

use serde_json::Value;

use crate::corpus::api::envelope;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::filter::{FILTER_FIELDS, FieldType};
use crate::error::ErrorCode;
use crate::verbs::{self, Field, FieldKind, Form, MANAGEMENT_CALLS, VERB_NAMES, VERBS, Verb};

/// First paragraph of the help on all verbs.
const OVERVIEW: &str = "Eleven verbs over views of documents. Every answer is an envelope: data, confidence, coverage, unknowns, method, evidence, error.";

/// Name of the help topic on filter fields.
const FIELDS_TOPIC: &str = "fields";

/// Returns the help on a verb, on one of its forms, on the topic `fields`, or on all verbs.
///
/// # Errors
/// The error code and the envelope of the error, if there is no such verb or form.
pub fn text(verb: Option<&str>, form: Option<&str>) -> Result<String, (ErrorCode, Value)> {
    help_text(verb, form).map_err(|it| (it.code, envelope::wrap_error(None, "HELP", &Value::Null, it.value())))
}

/// Returns the same help as [`text`], but the [`ApiError`] itself if there is none.
pub(crate) fn help_text(verb: Option<&str>, form: Option<&str>) -> ApiResult<String> {
    let Some(name) = verb else { return Ok(overview()) };
    if name.eq_ignore_ascii_case(FIELDS_TOPIC) {
        return Ok(fields_help());
    }
    let verb = find_verb(name)?;
    match form {
        None => Ok(verb_help(verb)),
        Some(form) => Ok(form_help(verb, verbs::form_of(verb, form).ok_or_else(|| unknown_form(verb, form))?)),
    }
}

/// Returns the verb or management call with this name. The error suggests the nearest name.
pub(crate) fn find_verb(name: &str) -> ApiResult<&'static Verb> {
    let names: Vec<&str> = VERB_NAMES.iter().copied().chain(MANAGEMENT_CALLS.iter().map(|it| it.name)).collect();
    let found = verbs::verb(name).or_else(|| verbs::management_call(name));
    found.ok_or_else(|| ApiError::unknown_name(ApiErrorKind::UnknownVerb, "verb", name, &names).field("verb"))
}

fn unknown_form(verb: &Verb, form: &str) -> ApiError {
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    ApiError::unknown_name(ApiErrorKind::UnknownForm, &format!("form of {}", verb.name), form, &names).field("form")
}

fn overview() -> String {
    let mut text = OVERVIEW.to_string();
    for verb in VERBS {
        let _ = write!(text, "\n{}", verb.name);
        if let Some(forms) = form_names(verb) {
            let _ = write!(text, ": {forms}");
        }
    }
    text.push_str("\nhelp VERB [FORM] says more; help fields lists the fields of QUERY.");
    text
}

fn form_names(verb: &Verb) -> Option<String> {
    let forms: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    (!forms.is_empty()).then(|| forms.join(", "))
}

fn verb_help(verb: &Verb) -> String {
    let mut text =
        format!("{}: use it {}.\nIt does not: {}.\nRefused: {}.", verb.name, verb.when, verb.never, verb.refuses);
    if let Some(forms) = form_names(verb) {
        let _ = write!(text, "\nForms: {forms}.");
    }
    push_example(&mut text, verb, &verb.forms[0]);
    text
}

fn form_help(verb: &Verb, form: &'static Form) -> String {
    let mut text = format!("{} {}: {}.\nIt does not: {}.", verb.name, form.name, form.about, verb.never);
    for field in form.fields {
        let need = if field.required { ", needed" } else { "" };
        let _ = write!(text, "\n{} ({}{need}): {}", field.name, type_name(field), field.about);
    }
    push_example(&mut text, verb, form);
    text
}

/// Returns the type of a field in a word or two.
fn type_name(field: &Field) -> String {
    match field.kind {
        FieldKind::Text(_) => "text".into(),
        FieldKind::Flag => "true or false".into(),
        FieldKind::Whole(..) => "whole number".into(),
        FieldKind::Number(low, high) => format!("{low} to {high}"),
        FieldKind::Choice(names) => names.join(" | "),
        FieldKind::Moment => "ISO 8601".into(),
        FieldKind::Filter => "filter".into(),
        FieldKind::File => "number or path".into(),
        FieldKind::Baseline => "number or id".into(),
        FieldKind::Texts(_) => "texts".into(),
        FieldKind::Files(_) => "numbers or paths".into(),
        FieldKind::Object(fields) => fields.iter().map(|it| it.name).collect::<Vec<_>>().join(", "),
        FieldKind::SchemaFilters => "by schema".into(),
    }
}

fn push_example(text: &mut String, verb: &Verb, form: &Form) {
    let Some(example) = verbs::example(verb, form) else { return };
    let _ = write!(text, "\nRequest: {}\nData: {}", verbs::full_request(example), example.response);
}

/// Returns the help on the filter fields, grouped by type.
fn fields_help() -> String {
    let of = |kind: FieldType| {
        let names: Vec<&str> = FILTER_FIELDS.iter().filter(|it| it.kind == kind).map(|it| it.name).collect();
        names.join(", ")
    };
    format!(
        "Fields of QUERY.\nTexts (=, !=): {}.\nNumbers (=, !=, <, >, <=, >=): {}.\nDates (as numbers, ISO 8601): {}.\nTrue or false (alone, or =): {}.",
        of(FieldType::Text),
        of(FieldType::Number),
        of(FieldType::Moment),
        of(FieldType::Flag),
    )
}
