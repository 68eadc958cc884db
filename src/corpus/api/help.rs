//! Help for language models: when to use a verb, what it does not do, which requests are rejected, its fields, a sample
//! request and answer. Topics: all verbs, each verb, each form, each schema of EXTRACT, each management call, the fields of
//! every verb, and the filter fields of QUERY.

use serde_json::Value;

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::{envelope, help_pages};
use crate::corpus::filter::{FILTER_FIELDS, FieldType};
use crate::error::ErrorCode;
use crate::verbs::{self, MANAGEMENT_CALLS, SCHEMA_NAMES, VERB_NAMES, VERBS, Verb};

/// Name of the help topic on filter fields.
const FIELDS_TOPIC: &str = "fields";

/// Name of the help topic on the fields that every verb takes.
const COMMON_TOPIC: &str = "common";

/// Names of calls that other tools have, with what to use instead.
const OTHER_CALLS: &[(&[&str], &str)] = &[
    (
        &["search", "find", "ask", "grep"],
        "QUERY filters by metadata, EXTRACT finds objects; `vic ask` searches by meaning",
    ),
    (&["list", "files", "documents", "ls"], "QUERY {\"filter\":\"size>=0\"} lists the documents"),
    (&["diff"], "use COMPARE versions, or DELTA for what changed"),
    (&["add", "import", "load"], "use INGEST"),
];

/// Returns the help on a verb, on one of its forms or schemas, on the topics `fields` and `common`, or on all verbs.
///
/// # Errors
/// The error code and the envelope of the error, if there is no such verb or form.
pub fn text(verb: Option<&str>, form: Option<&str>) -> Result<String, (ErrorCode, Value)> {
    help_text(verb, form).map_err(|it| (it.code, envelope::wrap_error(None, "HELP", &Value::Null, it.value())))
}

/// Returns the same help as [`text`], but the [`ApiError`] itself if there is none.
pub(crate) fn help_text(verb: Option<&str>, form: Option<&str>) -> ApiResult<String> {
    let Some(name) = verb else { return Ok(help_pages::overview()) };
    match name.trim() {
        topic if topic.eq_ignore_ascii_case(FIELDS_TOPIC) => return Ok(fields_help()),
        topic if topic.eq_ignore_ascii_case(COMMON_TOPIC) => return Ok(help_pages::common_page()),
        _ => {}
    }
    let verb = find_verb(name).map_err(|error| suggest_verbs_of_form(error, name))?;
    let Some(form) = form else { return Ok(help_pages::verb_page(verb)) };
    match (verbs::form_of(verb, form), verbs::schema(form.trim())) {
        (Some(form), _) => Ok(help_pages::form_page(verb, form)),
        (None, Some(schema)) if verb.name == "EXTRACT" => Ok(help_pages::schema_page(schema)),
        _ => Err(unknown_form(verb, form)),
    }
}

/// Returns the verb or management call with this name. The error suggests the nearest name.
pub(crate) fn find_verb(name: &str) -> ApiResult<&'static Verb> {
    verbs::any_call(name).ok_or_else(|| unknown_verb(name).field("verb"))
}

/// Returns the error for an unknown verb, which suggests the nearest verb or management call.
pub(crate) fn unknown_verb(name: &str) -> ApiError {
    let names: Vec<&str> = VERB_NAMES.iter().copied().chain(MANAGEMENT_CALLS.iter().map(|it| it.name)).collect();
    let mut error = ApiError::unknown_name(ApiErrorKind::UnknownVerb, "verb", name, &names);
    let other = OTHER_CALLS.iter().find(|it| it.0.iter().any(|it| it.eq_ignore_ascii_case(name.trim())));
    if let Some((_, action)) = other {
        error.actions = vec![action.to_string()];
    }
    error
}

/// Replaces the suggestion for an unknown verb by the help on the forms or the schema with this name, if there are any.
fn suggest_verbs_of_form(mut error: ApiError, name: &str) -> ApiError {
    let forms =
        VERBS.iter().filter_map(|verb| Some(format!("help {} {}", verb.name, verbs::form_of(verb, name)?.name)));
    let schema = verbs::schema(name.trim()).map(|it| format!("help EXTRACT {}", it.name));
    let found: Vec<String> = forms.chain(schema).collect();
    if !found.is_empty() {
        error.actions = vec![format!("use {}", found.join(" or "))];
    }
    error
}

fn unknown_form(verb: &Verb, form: &str) -> ApiError {
    if verb.name == "EXTRACT" {
        return ApiError::unknown_part(ApiErrorKind::UnknownForm, (verb.name, "schema"), form, SCHEMA_NAMES)
            .field("form");
    }
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    let error = ApiError::unknown_part(ApiErrorKind::UnknownForm, (verb.name, "form"), form, &names);
    match names.as_slice() {
        [] => error.field("form").action(format!("{0} has no forms: use help {0}", verb.name)),
        _ => error.field("form"),
    }
}

/// Returns the help on the filter fields, grouped by type.
fn fields_help() -> String {
    let of = |kind: FieldType| {
        let names: Vec<&str> = FILTER_FIELDS.iter().filter(|it| it.kind == kind).map(|it| it.name).collect();
        names.join(", ")
    };
    format!(
        "Fields of QUERY, joined by AND, OR, NOT.\nTexts (=, !=, * for any): {}.\nNumbers (=, !=, <, >, <=, >=): {}.\nDates (same operators; ISO 8601 or \"7 days\"): {}.\nTrue or false (alone, or =): {}.",
        of(FieldType::Text),
        of(FieldType::Number),
        of(FieldType::Moment),
        of(FieldType::Flag),
    )
}
