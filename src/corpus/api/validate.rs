//! Validates a whole request before any work starts: names against the tables in `crate::verbs`, values against the types
//! of their fields, and fields against each other.

use serde_json::{Map, Value};

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult, nearest_name};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::{aliases, help, render};
use crate::corpus::filter::{self, Filter};
use crate::corpus::text::dates;
use crate::corpus::text::words::{self, truncate_to_line};
use crate::verbs::{self, ANY_FILTERS, Field, FieldKind, Form, SCHEMA_NAMES, Verb};

/// Word stems in an objective that show which form of DETECT is meant.
const INTENT_CUES: &[(&str, &[&str])] = &[
    ("clusters", &["group", "cluster", "topic", "similar", "categor", "partit"]),
    ("warnings", &["warn", "caution", "cautionari", "flag", "risk", "danger", "hazard"]),
    ("gaps", &["miss", "gap", "absent", "lack", "incomplet", "expect"]),
    ("anomalies", &["outlier", "anomali", "anomal", "unusu", "deviat", "odd", "differ"]),
    ("trends", &["trend", "tempor", "time", "chang", "evolut", "year", "month", "develop"]),
];

/// Validates a request and fills in its verb and form.
pub(crate) fn validate_request(verb: &str, given: Map<String, Value>) -> ApiResult<ValidRequest> {
    let verb = verbs::verb(verb).ok_or_else(|| help::unknown_verb(verb))?;
    let mut given = aliases::fold_names(given)?;
    aliases::name_form(verb, &mut given);
    let form = resolve_form(verb, given.shift_remove("form"))?;
    let known: Vec<Field> = Verb::fields(form).copied().collect();
    let mut given = aliases::rename_fields(&known, given)?;
    aliases::nest_fields(form, &mut given)?;
    let schema = given.get("schema").and_then(Value::as_str).map(str::to_string);
    let mut entries: Vec<(String, Value)> = given.into_iter().collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut checked = Map::new();
    for (name, value) in entries {
        let field = known.iter().find(|it| it.name == name);
        let field = field.ok_or_else(|| unknown_field(verb, form, &name, &known, schema.as_deref()))?;
        if !value.is_null() {
            checked.insert(name, check_value(field, field.name, value)?);
        }
    }
    if let Some(missing) = form.fields.iter().find(|it| it.required && !checked.contains_key(it.name)) {
        return Err(missing_field(verb, form, missing));
    }
    let mut request = ValidRequest { verb, form, fields: checked };
    check_combinations(&request)?;
    if let Some(filters) = check_filters(&request)? {
        request.fields.insert("filters".into(), filters);
    }
    Ok(request)
}

/// Returns the error for a missing field, with a request that has it.
fn missing_field(verb: &Verb, form: &Form, missing: &Field) -> ApiError {
    let message = format!("{} needs `{}`", display_name(verb, form), missing.name);
    let error = ApiError::new(ApiErrorKind::MissingField, message).field(missing.name);
    let error = error.action(format!("add `{}`: {}", missing.name, missing.about));
    match verbs::example(verb, form) {
        Some(example) => error.action(format!("write e.g. {}", verbs::full_request(example))),
        None => error,
    }
}

fn display_name(verb: &Verb, form: &Form) -> String {
    if form.name.is_empty() { verb.name.to_string() } else { format!("{} {}", verb.name, form.name) }
}

fn resolve_form(verb: &'static Verb, given: Option<Value>) -> ApiResult<&'static Form> {
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    match given {
        None | Some(Value::Null) => match verb.forms {
            [only] => Ok(only),
            _ => Err(ApiError::new(
                ApiErrorKind::Ambiguous,
                format!("{} has several forms: `form` must name one", verb.name),
            )
            .field("form")
            .action(format!("set `form` to one of: {}", names.join(", ")))),
        },
        Some(Value::String(name)) if names.is_empty() => {
            let refusal = ApiError::new(
                ApiErrorKind::UnknownForm,
                format!("{} has no forms, so it cannot have a form `{}`", verb.name, truncate_to_line(&name, 40)),
            );
            let example = verbs::example(verb, &verb.forms[0]).map(|it| it.request).unwrap_or_default();
            Err(refusal.field("form").action(format!("give it as a field, as in {example}")))
        }
        Some(Value::String(name)) => verbs::form_of(verb, &name).ok_or_else(|| {
            let error = ApiError::unknown_part(ApiErrorKind::UnknownForm, (verb.name, "form"), &name, &names);
            match forms_meant(&words::stems(&name)).as_slice() {
                [meant] if verb.name == "DETECT" => {
                    ApiError { actions: vec![format!("did you mean `{meant}`?")], ..error }.field("form")
                }
                _ => error.field("form"),
            }
        }),
        Some(_) => Err(ApiError::new(ApiErrorKind::TypeError, "`form` must be a text").field("form")),
    }
}

/// Returns the error for an unknown field. It names the form that has this field, the nearest known field, or the fields
/// of the form itself.
fn unknown_field(verb: &Verb, form: &Form, name: &str, known: &[Field], schema: Option<&str>) -> ApiError {
    let nested = form.fields.iter().flat_map(|it| verbs::nested_fields(it, schema));
    let mut names: Vec<&str> = known.iter().chain(nested.collect::<Vec<_>>().iter()).map(|it| it.name).collect();
    names.dedup();
    let whole = display_name(verb, form);
    let mut error = ApiError::unknown_part(ApiErrorKind::UnknownField, (&whole, "field"), name, &names).field(name);
    let has_field = |it: &&Form| it.fields.iter().any(|field| field.is_named(name));
    let elsewhere =
        verb.forms.iter().find(has_field).map(|it| format!("`{name}` is a field of the form `{}`", it.name));
    let is_like_known = nearest_name(name, &names).is_some();
    if !is_like_known {
        error.actions.clear();
    }
    let own: Vec<&str> = form.fields.iter().map(|it| it.name).collect();
    match elsewhere {
        Some(elsewhere) => error.action(elsewhere),
        None if is_like_known => error,
        None if own.is_empty() => error.action(format!("see help {whole}")),
        None => error.action(format!("use {}: see help {whole}", own.join(", "))),
    }
}

fn type_error(path: &str, wanted: &str) -> ApiError {
    ApiError::new(ApiErrorKind::TypeError, format!("`{path}` must be {wanted}"))
        .field(path)
        .action(format!("give {wanted}"))
}

fn check_value(field: &Field, path: &str, value: Value) -> ApiResult<Value> {
    match field.kind {
        FieldKind::Text(most) => check_text(path, value, most),
        FieldKind::Flag => check_flag(path, &value),
        FieldKind::Whole(low, high) => check_whole(path, &value, low, high),
        FieldKind::Number(low, high) => {
            let value = unquoted_number(value);
            let number = value.as_f64().ok_or_else(|| type_error(path, "a number"))?;
            check_range(path, (low..=high).contains(&number), &format!("{low} to {high}")).map(|()| value)
        }
        FieldKind::Choice(known) => check_choice(path, &value, known),
        FieldKind::Moment => check_moment(path, &value),
        FieldKind::Filter => match value {
            Value::Object(_) | Value::Array(_) => Err(type_error(path, "a text such as `year>=2020 AND extension=md`")),
            value => check_text(path, value, 2_000),
        },
        FieldKind::File => check_file(path, value),
        FieldKind::Baseline => check_baseline(path, value),
        FieldKind::Texts(most) => check_list(path, value, most, |path, it| check_text(path, it, 4_096)),
        FieldKind::Files(most) => check_list(path, value, most, check_file),
        FieldKind::Object(fields) => check_object(path, aliases::parse_object(value), fields),
        FieldKind::SchemaFilters => match aliases::parse_object(value) {
            value @ Value::Object(_) => Ok(value),
            _ => Err(type_error(path, "an object such as {\"contains\":\"tide\"}")),
        },
    }
}

/// Returns the number in a text of digits, as command lines and some models write numbers; returns every other value
/// unchanged.
fn unquoted_number(value: Value) -> Value {
    let number = value.as_str().and_then(|it| serde_json::from_str::<Value>(it.trim()).ok());
    number.filter(Value::is_number).unwrap_or(value)
}

fn check_flag(path: &str, value: &Value) -> ApiResult<Value> {
    match (value, value.as_str().map(str::trim)) {
        (Value::Bool(_), _) => Ok(value.clone()),
        (_, Some("true")) => Ok(Value::Bool(true)),
        (_, Some("false")) => Ok(Value::Bool(false)),
        _ => Err(type_error(path, "true or false")),
    }
}

/// Checks a time. Replaces a relative time such as `7 days` by the date and time that it denotes now, so that the stored
/// request keeps its meaning.
fn check_moment(path: &str, value: &Value) -> ApiResult<Value> {
    const WANTED: &str = "a date such as 2024-01-31, or a time ago such as `7 days`";
    let text = value.as_str().ok_or_else(|| type_error(path, WANTED))?;
    if dates::parse_moment(text).is_some() {
        return Ok(value.clone());
    }
    let moment = dates::parse_since(text, dates::now_ns()).ok_or_else(|| type_error(path, WANTED))?;
    Ok(dates::format_moment(moment).into())
}

fn check_text(path: &str, value: Value, most: usize) -> ApiResult<Value> {
    let Value::String(text) = &value else { return Err(type_error(path, "a text")) };
    if text.trim().is_empty() {
        return Err(ApiError::new(ApiErrorKind::MissingField, format!("`{path}` is empty")).field(path));
    }
    check_range(path, text.chars().count() <= most, &format!("at most {most} characters")).map(|()| value)
}

fn check_whole(path: &str, value: &Value, low: i64, high: i64) -> ApiResult<Value> {
    let value = unquoted_number(value.clone());
    let number = value.as_i64().ok_or_else(|| type_error(path, "a whole number"))?;
    let bound = if high > 1_000_000_000 { format!("{low} or more") } else { format!("{low} to {high}") };
    check_range(path, (low..=high).contains(&number), &bound).map(|()| number.into())
}

fn check_range(path: &str, holds: bool, bounds: &str) -> ApiResult<()> {
    if holds {
        return Ok(());
    }
    let refusal = ApiError::new(ApiErrorKind::OutOfRange, format!("`{path}` is out of range"));
    Err(refusal.field(path).action(format!("give {bounds}")))
}

fn check_choice(path: &str, value: &Value, known: &'static [&'static str]) -> ApiResult<Value> {
    let text = value.as_str().ok_or_else(|| type_error(path, "a text"))?;
    let folded = text.replace('_', "-");
    let same = |it: &&&str| it.eq_ignore_ascii_case(text) || it.replace('_', "-").eq_ignore_ascii_case(&folded);
    let found = known.iter().find(same).copied();
    let cause = if known == SCHEMA_NAMES { ApiErrorKind::UnknownSchema } else { ApiErrorKind::OutOfRange };
    found.map(Value::from).ok_or_else(|| ApiError::unknown_name(cause, path, text, known).field(path))
}

fn check_file(path: &str, value: Value) -> ApiResult<Value> {
    match &value {
        Value::Number(number) if number.as_i64().is_some_and(|it| it >= 0) => Ok(value),
        // Accept a number written as text, because command line arguments are always texts.
        Value::String(text) => match text.trim().parse::<u32>() {
            Ok(number) => Ok(number.into()),
            Err(_) if !text.trim().is_empty() => Ok(value),
            Err(_) => Err(type_error(path, "the number or the path of a file")),
        },
        _ => Err(type_error(path, "the number or the path of a file")),
    }
}

fn check_baseline(path: &str, value: Value) -> ApiResult<Value> {
    let value = unquoted_number(value);
    match &value {
        Value::Number(number) if number.as_i64().is_some() => check_whole(path, &value, 1, i64::MAX),
        Value::String(text) if text.starts_with("r-") => check_text(path, value, 100),
        _ => Err(type_error(path, "the number of a session or the id of a result")),
    }
}

fn check_list(
    path: &str,
    value: Value,
    most: usize,
    each: impl Fn(&str, Value) -> ApiResult<Value>,
) -> ApiResult<Value> {
    let items = match value {
        Value::Array(items) => items,
        // A single item stands for a list of one; a text may also hold the list as JSON.
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Array(items)) => items,
            _ => vec![Value::String(text)],
        },
        one @ Value::Number(_) => vec![one],
        _ => return Err(type_error(path, "a list")),
    };
    if items.is_empty() {
        return Err(ApiError::new(ApiErrorKind::MissingField, format!("`{path}` is empty")).field(path));
    }
    check_range(path, items.len() <= most, &format!("at most {most} items"))?;
    let item = |(at, it): (usize, Value)| each(&format!("{path}[{at}]"), it);
    items.into_iter().enumerate().map(item).collect::<ApiResult<Vec<Value>>>().map(Value::Array)
}

fn check_object(path: &str, value: Value, fields: &[Field]) -> ApiResult<Value> {
    let Value::Object(given) = value else { return Err(type_error(path, "an object")) };
    let within = |error: ApiError| {
        let field = format!("{path}.{}", error.field.as_deref().unwrap_or_default());
        error.field(field)
    };
    let given = aliases::fold_names(given).and_then(|it| aliases::rename_fields(fields, it)).map_err(within)?;
    let names: Vec<&str> = fields.iter().map(|it| it.name).collect();
    let mut entries: Vec<(String, Value)> = given.into_iter().filter(|it| !it.1.is_null()).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut checked = Map::new();
    for (name, value) in entries {
        let full = format!("{path}.{name}");
        let field = fields.iter().find(|it| it.name == name).ok_or_else(|| {
            let whole = format!("`{path}`");
            ApiError::unknown_part(ApiErrorKind::UnknownField, (&whole, "field"), &name, &names).field(full.as_str())
        })?;
        checked.insert(name, check_value(field, &full, value)?);
    }
    Ok(Value::Object(checked))
}

/// Checks fields that require each other or cannot be combined.
fn check_combinations(request: &ValidRequest) -> ApiResult<()> {
    if request.has("view") && request.has("session") {
        return Err(mutually_exclusive("view", "session"));
    }
    if request.text("format") == Some("csv") && !render::has_table(request.verb.name, request.form.name) {
        return Err(render::no_table_error(&display_name(request.verb, request.form)));
    }
    match request.verb.name {
        "INGEST" => check_ingest(request),
        "DELTA" => check_delta(request),
        "EXPLAIN_FAILURE" => check_explain(request),
        "COMPARE" if request.form.name == "versions" && request.fields["doc_a"] == request.fields["doc_b"] => {
            let refusal = ApiError::new(ApiErrorKind::OutOfRange, "`doc_a` and `doc_b` are the same document");
            Err(refusal.field("doc_b").action("name two different documents"))
        }
        "DETECT" => check_detect(request),
        "NORMALIZE" if request.text("concept").is_some_and(|it| !it.chars().any(char::is_alphanumeric)) => {
            Err(ApiError::new(ApiErrorKind::OutOfRange, "`concept` contains no letter or digit")
                .field("concept")
                .action("name a concept"))
        }
        _ => Ok(()),
    }
}

fn mutually_exclusive(one: &str, other: &str) -> ApiError {
    let refusal = ApiError::new(ApiErrorKind::Ambiguous, format!("both `{one}` and `{other}` are given"));
    refusal.field(other).action(format!("leave out `{one}` or `{other}`"))
}

fn check_ingest(request: &ValidRequest) -> ApiResult<()> {
    let is_address = |it: &str| ["http://", "https://"].iter().any(|scheme| it.to_lowercase().starts_with(scheme));
    if let Some(at) = request.texts("urls").iter().position(|it| !is_address(it)) {
        return Err(type_error(&format!("urls[{at}]"), "an address with http:// or https://"));
    }
    let sources: Vec<&str> = ["paths", "urls", "session"].into_iter().filter(|it| request.has(it)).collect();
    match sources.as_slice() {
        [] => Err(ApiError::new(ApiErrorKind::MissingField, "INGEST needs `paths`, `urls` or `session`")
            .field("paths")
            .action("name the files, folders or pages to index")),
        ["session"] if !request.flag("refetch_failed") => {
            Err(ApiError::new(ApiErrorKind::Ambiguous, "`session` needs `refetch_failed`")
                .field("refetch_failed")
                .action("set `refetch_failed`, or name `paths`"))
        }
        [_] if request.flag("refetch_failed") && !request.has("session") => {
            Err(ApiError::new(ApiErrorKind::MissingField, "`refetch_failed` needs `session`").field("session"))
        }
        [_] if request.has("view") => Err(ApiError::new(ApiErrorKind::UnknownField, "INGEST has no `view`")
            .field("view")
            .action("leave it out: INGEST makes a session")),
        [_] => Ok(()),
        [one, other, ..] => Err(mutually_exclusive(one, other)),
    }
}

fn check_delta(request: &ValidRequest) -> ApiResult<()> {
    let given: Vec<&str> = ["since", "baseline", "watch"].into_iter().filter(|it| request.has(it)).collect();
    match given.as_slice() {
        [] => Err(ApiError::new(ApiErrorKind::Ambiguous, "DELTA needs `since`, `baseline` or `watch`")
            .field("since")
            .action("set one of `since`, `baseline` and `watch`")),
        ["since", "watch"] | ["baseline", "watch"] | [_] => Ok(()),
        [one, other, ..] => Err(mutually_exclusive(one, other)),
    }?;
    for (field, with) in [("only", "baseline"), ("field", "watch")] {
        if request.has(field) && !request.has(with) {
            let refusal = ApiError::new(ApiErrorKind::MissingField, format!("`{field}` needs `{with}`"));
            return Err(refusal.field(with).action(format!("set `{with}` or leave out `{field}`")));
        }
    }
    Ok(())
}

/// Returns the forms of DETECT that these stems ask for.
fn forms_meant(stems: &[String]) -> Vec<&'static str> {
    let is_meant = |cues: &[&str]| cues.iter().any(|cue| stems.iter().any(|it| it == cue));
    INTENT_CUES.iter().filter(|it| is_meant(it.1)).map(|it| it.0).collect()
}

/// Checks that the objective and the constraints of DETECT fit its form.
fn check_detect(request: &ValidRequest) -> ApiResult<()> {
    if let Some(objective) = request.text("objective") {
        let stems = words::stems(objective);
        let others = forms_meant(&stems);
        if !others.contains(&request.form.name) && !others.is_empty() {
            return Err(ApiError::new(
                ApiErrorKind::Ambiguous,
                format!("the objective asks for {}, but the form is {}", others.join(" or "), request.form.name),
            )
            .field("objective")
            .action(format!("set `form` to {}, or change the objective", others[0])));
        }
        if stems.is_empty() {
            return Err(ApiError::new(ApiErrorKind::MissingField, "the objective has no meaningful word")
                .field("objective")
                .action("state in `objective` what the answer is for"));
        }
    }
    let field = request.nested_field("constraints", "field").and_then(Value::as_str);
    match (request.form.name, field) {
        ("anomalies", Some(field)) => drop(filter::numeric_field(field)?),
        // Accepts any other name: the trend then counts the statements of this kind, e.g. `conclusion`.
        ("trends", Some(field)) if filter::field_by_name(field).is_some() => drop(filter::numeric_field(field)?),
        _ => {}
    }
    Ok(())
}

fn check_explain(request: &ValidRequest) -> ApiResult<()> {
    const IDS: [&str; 4] = ["id", "extraction_id", "detection_id", "url_id"];
    let given: Vec<&str> = IDS.into_iter().filter(|it| request.has(it)).collect();
    match given.as_slice() {
        [] => Err(ApiError::new(ApiErrorKind::MissingField, "EXPLAIN_FAILURE needs the id of a result or a document")
            .field("id")
            .action("give the `id` of the envelope, or `url_id`")),
        ["url_id"] if request.has("verb") => Err(mutually_exclusive("verb", "url_id")),
        [one] => {
            let wanted = [("extraction_id", "EXTRACT"), ("detection_id", "DETECT")];
            let other = wanted.iter().find(|it| it.0 == *one && request.text("verb").is_some_and(|verb| verb != it.1));
            match other {
                Some((name, verb)) => Err(ApiError::new(
                    ApiErrorKind::Ambiguous,
                    format!("`{name}` takes the id of a result of {verb}, not of another verb"),
                )
                .field("verb")
                .action(format!("set `verb` to {verb}, or give `id`"))),
                None => Ok(()),
            }
        }
        [one, other, ..] => Err(mutually_exclusive(one, other)),
    }
}

/// Parses the filter of QUERY, or checks the filters of EXTRACT against its schema; returns the filters of EXTRACT with
/// names spelled as in the tables.
fn check_filters(request: &ValidRequest) -> ApiResult<Option<Value>> {
    if request.verb.name == "QUERY" {
        Filter::parse(request.text("filter").unwrap_or_default())?;
    }
    let (Some(schema), Some(given)) = (request.text("schema").and_then(verbs::schema), request.fields.get("filters"))
    else {
        return Ok(None);
    };
    let fields: Vec<Field> = schema.filters.iter().chain(ANY_FILTERS).copied().collect();
    check_object("filters", given.clone(), &fields).map(Some)
}
