//! Corrects requests as language models write them: replaces aliases of fields by the names of the fields, sets `form` if
//! another field or the set of fields implies it, and moves filters from the top level into the object that must contain
//! them. Changes only what has a single meaning; everything else is left for the validator to reject.

use serde_json::{Map, Value};

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::verbs::{self, Field, FieldKind, Form, Verb};

/// Names of fields that may hold the name of the form, in place of `form`. No verb has a field with one of these names.
const FORM_NAMES: [&str; 3] = ["action", "type", "kind"];

/// Returns the request with the names of its fields in snake_case.
///
/// # Errors
/// A field is given twice.
pub(crate) fn fold_names(given: Map<String, Value>) -> ApiResult<Map<String, Value>> {
    let mut folded = Map::new();
    for (name, value) in given {
        insert_once(&mut folded, name.trim().replace('-', "_"), value)?;
    }
    Ok(folded)
}

/// Adds a field to a request; a null never replaces a value.
fn insert_once(fields: &mut Map<String, Value>, name: String, value: Value) -> ApiResult<()> {
    match fields.get(&name) {
        Some(other) if !other.is_null() && !value.is_null() => {
            Err(ApiError::new(ApiErrorKind::Ambiguous, format!("`{name}` is given twice")).field(name))
        }
        Some(other) if !other.is_null() => Ok(()),
        _ => {
            fields.insert(name, value);
            Ok(())
        }
    }
}

/// Sets the field `form`, if another field such as `type` contains the name of the form, or if only one form has the given
/// fields. Also moves the schema of EXTRACT from `form` to `schema`, and removes a field `verb` that repeats the verb.
pub(crate) fn name_form(verb: &'static Verb, given: &mut Map<String, Value>) {
    let is_own_verb = |it: &Value| it.as_str().and_then(verbs::verb) == Some(verb);
    if !verb.forms.iter().any(|it| it.fields.iter().any(|field| field.name == "verb"))
        && given.get("verb").is_some_and(is_own_verb)
    {
        given.shift_remove("verb");
    }
    if verb.name == "EXTRACT" && given.get("schema").is_none_or(Value::is_null) {
        let names_schema =
            |it: &&str| given.get(*it).and_then(Value::as_str).is_some_and(|it| verbs::schema(it).is_some());
        let name = ["form"].into_iter().chain(FORM_NAMES).find(names_schema);
        if let Some(schema) = name.and_then(|it| given.shift_remove(it)) {
            given.insert("schema".into(), schema);
        }
    }
    if verb.forms.len() < 2 || given.get("form").is_some_and(|it| !it.is_null()) {
        return;
    }
    let names_form =
        |it: &&str| given.get(*it).and_then(Value::as_str).is_some_and(|it| verbs::form_of(verb, it).is_some());
    let form = match FORM_NAMES.iter().copied().find(names_form) {
        Some(name) => given.shift_remove(name),
        None => implied_form(verb, given).map(|it| it.name.into()),
    };
    if let Some(form) = form {
        given.insert("form".into(), form);
    }
}

/// Returns the form that has all the given fields and requires no others, if only one form fits, and if at least one given
/// field is not common to all verbs.
fn implied_form(verb: &'static Verb, given: &Map<String, Value>) -> Option<&'static Form> {
    let mut names: Vec<&str> = given.iter().filter(|it| !it.1.is_null()).map(|it| it.0.as_str()).collect();
    names.extend(given.get("constraints").and_then(Value::as_object).into_iter().flatten().map(|it| it.0.as_str()));
    let fits = |form: &&'static Form| {
        let nested: Vec<Field> = form.fields.iter().flat_map(|it| verbs::nested_fields(it, None)).collect();
        let is_common = |name: &str| verbs::COMMON_FIELDS.iter().any(|it| it.is_named(name));
        let is_own = |name: &&str| form.fields.iter().chain(&nested).any(|it| it.is_named(name));
        let is_known = |name: &&str| is_own(name) || is_common(name);
        let is_given = |field: &Field| names.iter().any(|it| field.is_named(it));
        names.iter().any(|it| is_own(it) && !is_common(it))
            && names.iter().all(is_known)
            && form.fields.iter().filter(|it| it.required).all(is_given)
    };
    let mut fitting = verb.forms.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Replaces aliases by the names of the fields. A name that is neither a field nor an alias stays unchanged.
///
/// # Errors
/// A field is given under two names.
pub(crate) fn rename_fields(fields: &[Field], given: Map<String, Value>) -> ApiResult<Map<String, Value>> {
    let mut named = Map::new();
    for (name, value) in given {
        match fields.iter().find(|it| it.aliases.contains(&name.as_str())) {
            Some(field) => insert_once(&mut named, field.name.into(), value)
                .map_err(|error| error.action(format!("leave out `{name}`, another name for `{}`", field.name)))?,
            None => insert_once(&mut named, name, value)?,
        }
    }
    Ok(named)
}

/// Moves filters of EXTRACT from the top level of the request into `filters`, and constraints of DETECT into `constraints`.
///
/// # Errors
/// A filter is given both at the top level and in the object.
pub(crate) fn nest_fields(form: &'static Form, given: &mut Map<String, Value>) -> ApiResult<()> {
    let holds_fields = |it: &&Field| matches!(it.kind, FieldKind::Object(_) | FieldKind::SchemaFilters);
    let Some(holder) = form.fields.iter().find(holds_fields) else { return Ok(()) };
    let inner = verbs::nested_fields(holder, given.get("schema").and_then(Value::as_str));
    let beside =
        |name: &str| Verb::fields(form).all(|it| !it.is_named(name)) && inner.iter().any(|it| it.is_named(name));
    let names: Vec<String> = given.keys().filter(|it| beside(it)).cloned().collect();
    let mut held = match given.get(holder.name).map(|it| parse_object(it.clone())) {
        _ if names.is_empty() => return Ok(()),
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(held)) => held,
        Some(_) => return Ok(()),
    };
    for name in names {
        let value = given.shift_remove(&name).unwrap_or_default();
        insert_once(&mut held, name, value)?;
    }
    given.insert(holder.name.into(), Value::Object(held));
    Ok(())
}

/// Parses a text that contains a JSON object, because models write nested objects as text; returns any other value
/// unchanged.
pub(crate) fn parse_object(value: Value) -> Value {
    let object = value.as_str().filter(|it| it.trim_start().starts_with('{'));
    object.and_then(|it| serde_json::from_str(it).ok()).filter(Value::is_object).unwrap_or(value)
}

/// Replaces aliases in a management call by the names of the fields; in a VIEW call, also renames `form` to `action`.
///
/// # Errors
/// A field is given twice.
pub(crate) fn name_management_fields(name: &str, given: &Map<String, Value>) -> ApiResult<Map<String, Value>> {
    let mut given = fold_names(given.clone())?;
    let Some(call) = verbs::management_call(name) else { return Ok(given) };
    let selector = call.form_field();
    if call.name == "VIEW" && given.get(selector).is_none_or(Value::is_null) {
        let form = given.shift_remove("form").or_else(|| given.shift_remove("type"));
        given.extend(form.map(|it| (selector.to_string(), it)));
    }
    let action = given.get(selector).and_then(Value::as_str).and_then(|it| verbs::form_of(call, it));
    match (call.forms, action) {
        (_, Some(form)) | ([form], None) => rename_fields(form.fields, given),
        _ => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::api::validate::validate_request;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// Checks that two requests mean the same.
    fn check(verb: &str, given: Value, plain: Value) {
        let canonical = |it: &Value| validate_request(verb, map(it.clone())).map(|it| it.canonical());
        let expected = canonical(&plain).unwrap_or_else(|it| panic!("{verb} {plain}: {it:?}"));
        assert_eq!(canonical(&given), Ok(expected), "{verb} {given}");
    }

    fn check_rejected(verb: &str, given: Value, kind: ApiErrorKind) {
        assert_eq!(validate_request(verb, map(given.clone())).unwrap_err().kind, kind, "{verb} {given}");
    }

    #[test]
    fn other_names_of_a_field_mean_the_field() {
        check("EXPLAIN_FAILURE", json!({"file": "a.md"}), json!({"url_id": "a.md"}));
        check("EXPLAIN_FAILURE", json!({"result-id": "r-1"}), json!({"id": "r-1"}));
        check("QUERY", json!({"query": "size>3", "top_k": 5}), json!({"filter": "size>3", "limit": 5}));
        check("INGEST", json!({"path": "/w"}), json!({"paths": ["/w"]}));
        check("SCORE", json!({"form": "confidence", "id": "r-1"}), json!({"form": "confidence", "extraction": "r-1"}));
        check("DELTA", json!({"file": 3, "verb": "delta"}), json!({"watch": 3}));
        check(
            "EXTRACT",
            json!({"schema": "Code", "filter": {"lang": "rust", "path": "a.md"}}),
            json!({"schema": "Code", "filters": {"language": "rust", "file": "a.md"}}),
        );
    }

    #[test]
    fn every_other_name_is_accepted() {
        for verb in verbs::VERBS {
            for form in verb.forms {
                for field in Verb::fields(form).filter(|it| !it.aliases.is_empty()) {
                    let given = field.aliases.iter().map(|it| Map::from_iter([(it.to_string(), json!(1))]));
                    let fields: Vec<Field> = Verb::fields(form).copied().collect();
                    for given in given {
                        let named = rename_fields(&fields, given.clone()).unwrap();
                        assert_eq!(
                            named,
                            Map::from_iter([(field.name.to_string(), json!(1))]),
                            "{} {given:?}",
                            verb.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn field_under_two_names_is_rejected() {
        check_rejected("EXPLAIN_FAILURE", json!({"url_id": 1, "file": 2}), ApiErrorKind::Ambiguous);
        check_rejected("EXPLAIN_FAILURE", json!({"path": "a.md", "file": 2}), ApiErrorKind::Ambiguous);
        check_rejected("DELTA", json!({"file": 3, "since": "2024", "after": "2023"}), ApiErrorKind::Ambiguous);
        check_rejected(
            "EXTRACT",
            json!({"schema": "Code", "lang": "c", "filters": {"lang": "c"}}),
            ApiErrorKind::Ambiguous,
        );
        check_rejected("EXTRACT", json!({"schema": "Code", "lang": "c", "language": "c"}), ApiErrorKind::Ambiguous);
        check("EXPLAIN_FAILURE", json!({"url_id": null, "file": 2}), json!({"url_id": 2}));
    }

    #[test]
    fn form_is_found_in_other_fields() {
        check("EXTRACT", json!({"form": "table"}), json!({"schema": "Table"}));
        check("EXTRACT", json!({"type": "code", "file": 3}), json!({"schema": "Code", "filters": {"file": 3}}));
        check("COMPARE", json!({"type": "consensus", "field": "x"}), json!({"form": "consensus", "field": "x"}));
        check("COMPARE", json!({"old": 1, "new": 2}), json!({"form": "versions", "doc_a": 1, "doc_b": 2}));
        check(
            "SCORE",
            json!({"topic": "tides", "limit": 3}),
            json!({"form": "coverage", "topic": "tides", "limit": 3}),
        );
        check("SUMMARIZE", json!({"question": "Which?"}), json!({"form": "decision-inputs", "question": "Which?"}));
        check("DETECT", json!({"max_clusters": 3}), json!({"form": "clusters", "constraints": {"max_clusters": 3}}));
        for (verb, given) in [
            ("COMPARE", json!({"field": "x"})),
            ("DETECT", json!({"objective": "group"})),
            ("NORMALIZE", json!({"format": "csv"})),
            ("TRACE", json!({"limit": 3})),
            ("SCORE", json!({})),
        ] {
            check_rejected(verb, given, ApiErrorKind::Ambiguous);
        }
    }

    #[test]
    fn filters_beside_their_field_are_moved_into_it() {
        check(
            "EXTRACT",
            json!({"schema": "Quote", "min_words": "10", "author": "Ada"}),
            json!({"schema": "Quote", "filters": {"min_words": 10, "author": "Ada"}}),
        );
        check(
            "EXTRACT",
            json!({"schema": "Code", "filters": "{\"language\":\"rust\"}", "file": 3}),
            json!({"schema": "Code", "filters": {"language": "rust", "file": 3}}),
        );
        check_rejected("EXTRACT", json!({"schema": "Code", "min_words": 3}), ApiErrorKind::UnknownField);
        check_rejected(
            "EXTRACT",
            json!({"schema": "Code", "filters": "rust", "language": "c"}),
            ApiErrorKind::TypeError,
        );
    }

    #[test]
    fn management_calls_take_other_names() {
        let named = |name: &str, given: Value| name_management_fields(name, &map(given));
        let expected = |it: Value| Ok(map(it));
        assert_eq!(named("JOB", json!({"job-id": "j-1"})), expected(json!({"id": "j-1"})));
        assert_eq!(
            named("VIEW", json!({"form": "create", "name": "v", "paths": [1]})),
            expected(json!({"action": "create", "name": "v", "files": [1]}))
        );
        assert_eq!(
            named("HELP", json!({"topic": "extract", "schema": "Table"})),
            expected(json!({"verb": "extract", "form": "Table"}))
        );
        assert_eq!(named("JOB", json!({"id": "j-1", "job": "j-2"})).unwrap_err().kind, ApiErrorKind::Ambiguous);
    }
}
