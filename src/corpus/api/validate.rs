//! Validates a whole request before any work starts: names against the registry, values against their kinds, and fields
//! against each other.

use serde_json::{Map, Value};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::render;
use crate::corpus::filter::Filter;
use crate::corpus::text::dates;
use crate::corpus::text::words::short;
use crate::corpus::verbs::{detect, summarize};
use crate::verbs::{self, ANY_FILTERS, Field, Form, Kind, NAMES, SCHEMA_NAMES, Verb};

/// A valid request: every field is known and of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: &'static Verb,
    pub(crate) form: &'static Form,
    /// Sorted by name; choices in the registry's spelling.
    pub(crate) fields: Map<String, Value>,
}

/// Validates a request.
pub(crate) fn request(verb: &str, mut given: Map<String, Value>) -> Outcome<Request> {
    let verb = verbs::verb(verb).ok_or_else(|| Refusal::unknown(Cause::UnknownVerb, "verb", verb, NAMES))?;
    let form = form_of(verb, given.remove("form"))?;
    let mut checked = Map::new();
    let known: Vec<&Field> = Verb::fields(form).collect();
    let names: Vec<&str> = known.iter().map(|it| it.name).collect();
    let mut entries: Vec<(String, Value)> = given.into_iter().map(|(name, it)| (name.replace('-', "_"), it)).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, value) in entries {
        let field = known.iter().find(|it| it.name == name);
        let field = field.ok_or_else(|| unknown_field(verb, form, &name, &names))?;
        if value.is_null() {
            continue;
        }
        if checked.contains_key(field.name) {
            return Err(Refusal::new(Cause::Ambiguous, format!("`{name}` is given twice")).field(field.name));
        }
        checked.insert(field.name.to_string(), checked_value(field, field.name, value)?);
    }
    if let Some(missing) = form.fields.iter().find(|it| it.required && !checked.contains_key(it.name)) {
        let refusal = Refusal::new(Cause::MissingField, format!("{} needs `{}`", called(verb, form), missing.name));
        return Err(refusal.field(missing.name).action(format!("add `{}`: {}", missing.name, missing.about)));
    }
    let mut request = Request { verb, form, fields: checked };
    related(&request)?;
    if let Some(filters) = filters(&request)? {
        request.fields.insert("filters".into(), filters);
    }
    Ok(request)
}

/// Checks the wording of an answer: a summary with forbidden phrases is never returned.
pub(crate) fn wording(verb: &Verb, answer: &Answer) -> Outcome<()> {
    if verb.name != "SUMMARIZE" {
        return Ok(());
    }
    let around = answer.unknowns.iter().map(|it| it.value()).chain([Value::Object(answer.parameters.clone())]);
    if summarize::advice_in(&answer.data).is_none() && around.into_iter().all(|it| summarize::advice_in(&it).is_none())
    {
        return Ok(());
    }
    Err(Refusal::new(Cause::Internal, "the summary contains advice, and is withheld")
        .action("EXTRACT and COMPARE give the sources word by word"))
}

fn called(verb: &Verb, form: &Form) -> String {
    if form.name.is_empty() { verb.name.to_string() } else { format!("{} {}", verb.name, form.name) }
}

fn form_of(verb: &'static Verb, given: Option<Value>) -> Outcome<&'static Form> {
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).filter(|it| !it.is_empty()).collect();
    match given {
        None | Some(Value::Null) => match verb.forms {
            [only] => Ok(only),
            _ => Err(Refusal::new(Cause::Ambiguous, format!("{} has several forms: which?", verb.name))
                .field("form")
                .action(format!("set `form` to one of: {}", names.join(", ")))),
        },
        Some(Value::String(name)) if names.is_empty() => {
            let refusal = Refusal::new(
                Cause::UnknownForm,
                format!("{} has no forms: what is `{}`?", verb.name, short(&name, 40)),
            );
            let example = verbs::example(verb, &verb.forms[0]).map(|it| it.request).unwrap_or_default();
            Err(refusal.field("form").action(format!("give it as a field, as in {example}")))
        }
        Some(Value::String(name)) => verbs::form_of(verb, &name).ok_or_else(|| {
            let what = format!("form of {}", verb.name);
            Refusal::unknown(Cause::UnknownForm, &what, &name, &names).field("form")
        }),
        Some(_) => Err(Refusal::new(Cause::TypeError, "`form` is no text").field("form")),
    }
}

/// The error for an unknown field. It names the form that has the field, or the nearest field name.
fn unknown_field(verb: &Verb, form: &Form, name: &str, known: &[&str]) -> Refusal {
    let elsewhere = verb.forms.iter().find(|it| it.fields.iter().any(|field| field.name == name));
    let refusal = Refusal::unknown(Cause::UnknownField, &format!("field of {}", called(verb, form)), name, known);
    match elsewhere {
        Some(other) => refusal.field(name).action(format!("`{name}` belongs to `{}`", other.name)),
        None => refusal.field(name),
    }
}

fn mistyped(path: &str, wanted: &str) -> Refusal {
    Refusal::new(Cause::TypeError, format!("`{path}` is not {wanted}")).field(path).action(format!("give {wanted}"))
}

fn checked_value(field: &Field, path: &str, value: Value) -> Outcome<Value> {
    match field.kind {
        Kind::Text(most) => text(path, value, most),
        Kind::Flag => value.as_bool().map(Value::from).ok_or_else(|| mistyped(path, "true or false")),
        Kind::Whole(low, high) => whole(path, &value, low, high),
        Kind::Number(low, high) => {
            let number = value.as_f64().ok_or_else(|| mistyped(path, "a number"))?;
            in_range(path, (low..=high).contains(&number), &format!("{low} to {high}")).map(|()| value)
        }
        Kind::Choice(known) => choice(path, &value, known),
        Kind::Moment => {
            let text = value.as_str().ok_or_else(|| mistyped(path, "a date such as 2024-01-31"))?;
            dates::moment(text).map(|_| value.clone()).ok_or_else(|| mistyped(path, "a date such as 2024-01-31"))
        }
        Kind::Filter => text(path, value, 2_000),
        Kind::File => file(path, value),
        Kind::Baseline => baseline(path, value),
        Kind::Texts(most) => list(path, value, most, |path, it| text(path, it, 4_096)),
        Kind::Files(most) => list(path, value, most, file),
        Kind::Object(fields) => object(path, value, fields),
        Kind::SchemaFilters => match value {
            Value::Object(_) => Ok(value),
            _ => Err(mistyped(path, "an object")),
        },
    }
}

fn text(path: &str, value: Value, most: usize) -> Outcome<Value> {
    let Value::String(text) = &value else { return Err(mistyped(path, "a text")) };
    if text.trim().is_empty() {
        return Err(Refusal::new(Cause::MissingField, format!("`{path}` is empty")).field(path));
    }
    in_range(path, text.chars().count() <= most, &format!("at most {most} characters")).map(|()| value)
}

fn whole(path: &str, value: &Value, low: i64, high: i64) -> Outcome<Value> {
    let number = value.as_i64().ok_or_else(|| mistyped(path, "a whole number"))?;
    let bound = if high > 1_000_000_000 { format!("{low} or more") } else { format!("{low} to {high}") };
    in_range(path, (low..=high).contains(&number), &bound).map(|()| number.into())
}

fn in_range(path: &str, holds: bool, bounds: &str) -> Outcome<()> {
    if holds {
        return Ok(());
    }
    let refusal = Refusal::new(Cause::OutOfRange, format!("`{path}` is out of range"));
    Err(refusal.field(path).action(format!("give {bounds}")))
}

fn choice(path: &str, value: &Value, known: &'static [&'static str]) -> Outcome<Value> {
    let text = value.as_str().ok_or_else(|| mistyped(path, "a text"))?;
    let folded = text.replace('_', "-");
    let same = |it: &&&str| it.eq_ignore_ascii_case(text) || it.replace('_', "-").eq_ignore_ascii_case(&folded);
    let found = known.iter().find(same).copied();
    let cause = if known == SCHEMA_NAMES { Cause::UnknownSchema } else { Cause::OutOfRange };
    found.map(Value::from).ok_or_else(|| Refusal::unknown(cause, path, text, known).field(path))
}

fn file(path: &str, value: Value) -> Outcome<Value> {
    match &value {
        Value::Number(number) if number.as_i64().is_some_and(|it| it >= 0) => Ok(value),
        // Numbers are accepted as text, because a command line has only texts.
        Value::String(text) => match text.trim().parse::<u32>() {
            Ok(number) => Ok(number.into()),
            Err(_) if !text.trim().is_empty() => Ok(value),
            Err(_) => Err(mistyped(path, "the number or the path of a file")),
        },
        _ => Err(mistyped(path, "the number or the path of a file")),
    }
}

fn baseline(path: &str, value: Value) -> Outcome<Value> {
    match &value {
        Value::Number(number) if number.as_i64().is_some() => whole(path, &value, 1, i64::MAX),
        Value::String(text) if text.starts_with("r-") => crate::corpus::api::validate::text(path, value, 100),
        _ => Err(mistyped(path, "the number of a session or the id of a result")),
    }
}

fn list(path: &str, value: Value, most: usize, each: impl Fn(&str, Value) -> Outcome<Value>) -> Outcome<Value> {
    let Value::Array(items) = value else { return Err(mistyped(path, "a list")) };
    if items.is_empty() {
        return Err(Refusal::new(Cause::MissingField, format!("`{path}` is empty")).field(path));
    }
    in_range(path, items.len() <= most, &format!("at most {most} items"))?;
    let item = |(at, it): (usize, Value)| each(&format!("{path}[{at}]"), it);
    items.into_iter().enumerate().map(item).collect::<Outcome<Vec<Value>>>().map(Value::Array)
}

fn object(path: &str, value: Value, fields: &[Field]) -> Outcome<Value> {
    let Value::Object(given) = value else { return Err(mistyped(path, "an object")) };
    let names: Vec<&str> = fields.iter().map(|it| it.name).collect();
    let mut entries: Vec<(String, Value)> = given.into_iter().collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut checked = Map::new();
    for (name, value) in entries {
        let folded = name.replace('-', "_");
        let full = format!("{path}.{name}");
        let field = fields.iter().find(|it| it.name == folded);
        let field = field.ok_or_else(|| {
            Refusal::unknown(Cause::UnknownField, &format!("field in `{path}`"), &name, &names).field(full.as_str())
        })?;
        let value = checked_value(field, &full, value)?;
        if checked.insert(field.name.to_string(), value).is_some() {
            return Err(Refusal::new(Cause::Ambiguous, format!("`{full}` is given twice")).field(full));
        }
    }
    Ok(Value::Object(checked))
}

/// Checks fields that require or exclude each other.
fn related(request: &Request) -> Outcome<()> {
    if request.has("view") && request.has("session") {
        return Err(either("view", "session"));
    }
    if request.text("format") == Some("csv") && !render::has_table(request.verb.name, request.form.name) {
        return Err(render::no_table(&called(request.verb, request.form)));
    }
    match request.verb.name {
        "INGEST" => ingest(request),
        "DELTA" => delta(request),
        "EXPLAIN_FAILURE" => explain(request),
        "COMPARE" if request.form.name == "versions" && request.fields["doc_a"] == request.fields["doc_b"] => {
            let refusal = Refusal::new(Cause::OutOfRange, "`doc_a` and `doc_b` are the same document");
            Err(refusal.field("doc_b").action("name two documents"))
        }
        "DETECT" => detect::fits(request),
        "NORMALIZE" if request.text("concept").is_some_and(|it| !it.chars().any(char::is_alphanumeric)) => {
            Err(Refusal::new(Cause::OutOfRange, "`concept` holds no word").field("concept").action("name a concept"))
        }
        _ => Ok(()),
    }
}

fn either(one: &str, other: &str) -> Refusal {
    let refusal = Refusal::new(Cause::Ambiguous, format!("both `{one}` and `{other}` are given"));
    refusal.field(other).action(format!("leave out `{one}` or `{other}`"))
}

fn ingest(request: &Request) -> Outcome<()> {
    let is_address = |it: &str| ["http://", "https://"].iter().any(|scheme| it.to_lowercase().starts_with(scheme));
    if let Some(at) = request.texts("urls").iter().position(|it| !is_address(it)) {
        return Err(mistyped(&format!("urls[{at}]"), "an address with http:// or https://"));
    }
    let sources: Vec<&str> = ["paths", "urls", "session"].into_iter().filter(|it| request.has(it)).collect();
    match sources.as_slice() {
        [] => Err(Refusal::new(Cause::MissingField, "INGEST needs `paths`, `urls` or `session`")
            .field("paths")
            .action("name the files, folders or pages to index")),
        ["session"] if !request.flag("refetch_failed") => {
            Err(Refusal::new(Cause::Ambiguous, "`session` needs `refetch_failed`")
                .field("refetch_failed")
                .action("set `refetch_failed`, or name `paths`"))
        }
        [_] if request.flag("refetch_failed") && !request.has("session") => {
            Err(Refusal::new(Cause::MissingField, "`refetch_failed` needs `session`").field("session"))
        }
        [_] if request.has("view") => Err(Refusal::new(Cause::UnknownField, "INGEST has no `view`")
            .field("view")
            .action("leave it out: INGEST makes a session")),
        [_] => Ok(()),
        [one, other, ..] => Err(either(one, other)),
    }
}

fn delta(request: &Request) -> Outcome<()> {
    let given: Vec<&str> = ["since", "baseline", "watch"].into_iter().filter(|it| request.has(it)).collect();
    match given.as_slice() {
        [] => Err(Refusal::new(Cause::Ambiguous, "DELTA needs `since`, `baseline` or `watch`")
            .field("since")
            .action("set one of `since`, `baseline` and `watch`")),
        ["since", "watch"] | ["baseline", "watch"] | [_] => Ok(()),
        [one, other, ..] => Err(either(one, other)),
    }?;
    for (field, with) in [("only", "baseline"), ("field", "watch")] {
        if request.has(field) && !request.has(with) {
            let refusal = Refusal::new(Cause::MissingField, format!("`{field}` needs `{with}`"));
            return Err(refusal.field(with).action(format!("set `{with}` or leave out `{field}`")));
        }
    }
    Ok(())
}

fn explain(request: &Request) -> Outcome<()> {
    const IDS: [&str; 4] = ["id", "extraction_id", "detection_id", "url_id"];
    let given: Vec<&str> = IDS.into_iter().filter(|it| request.has(it)).collect();
    match given.as_slice() {
        [] => Err(Refusal::new(Cause::MissingField, "EXPLAIN_FAILURE needs the id of a result or a document")
            .field("id")
            .action("give the `id` of the envelope, or `url_id`")),
        ["url_id"] if request.has("verb") => Err(either("verb", "url_id")),
        [one] => {
            let wanted = [("extraction_id", "EXTRACT"), ("detection_id", "DETECT")];
            let other = wanted.iter().find(|it| it.0 == *one && request.text("verb").is_some_and(|verb| verb != it.1));
            match other {
                Some((name, verb)) => Err(Refusal::new(Cause::Ambiguous, format!("`{name}` is the id of a {verb}"))
                    .field("verb")
                    .action(format!("set `verb` to {verb}, or give `id`"))),
                None => Ok(()),
            }
        }
        [one, other, ..] => Err(either(one, other)),
    }
}

/// Parses the filter of QUERY, and checks the filters of EXTRACT against its schema; returns the latter in the registry's
/// spelling.
fn filters(request: &Request) -> Outcome<Option<Value>> {
    if request.verb.name == "QUERY" {
        Filter::parse(request.text("filter").unwrap_or_default())?;
    }
    let (Some(schema), Some(given)) = (request.text("schema").and_then(verbs::schema), request.fields.get("filters"))
    else {
        return Ok(None);
    };
    let fields: Vec<Field> = schema.filters.iter().chain(ANY_FILTERS).copied().collect();
    object("filters", given.clone(), &fields).map(Some)
}

impl Request {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.fields.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        self.fields.get(name).and_then(Value::as_i64)
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.fields.get(name).and_then(Value::as_f64)
    }

    /// A field inside `filters` or `constraints`.
    pub(crate) fn inner(&self, object: &str, name: &str) -> Option<&Value> {
        self.fields.get(object)?.get(name)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        self.fields.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The requested page of a list: limit and offset.
    pub(crate) fn page(&self) -> (usize, usize) {
        let most = self.whole("limit").map_or(100, |it| it as usize);
        (most, self.whole("offset").map_or(0, |it| it as usize))
    }

    /// The request in the form that is stored and hashed, equal for equal questions. The output format and `async` are not
    /// part of the question; `verbose` is.
    pub(crate) fn canonical(&self) -> Value {
        let asks =
            |it: &(&String, &Value)| !["format", "async"].contains(&it.0.as_str()) && *it.1 != Value::Bool(false);
        let fields: Map<String, Value> =
            self.fields.iter().filter(asks).map(|it| (it.0.clone(), it.1.clone())).collect();
        serde_json::json!({"verb": self.verb.name, "form": self.form.name, "fields": fields})
    }
}
