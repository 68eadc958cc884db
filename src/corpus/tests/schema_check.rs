//! A JSON Schema checker for the keywords in the published schemas, and a comparison of examples with answers. An unknown
//! keyword fails the test, so that no part of a schema goes unchecked.

use serde_json::Value;

/// A function that returns the published schema with a given address.
pub(crate) type Known<'k> = &'k dyn Fn(&str) -> Value;

const SAYS_NOTHING: [&str; 4] = ["$schema", "$id", "title", "description"];

/// Returns why a value does not match a schema, or `None`.
pub(crate) fn schema_violation(value: &Value, schema: &Value, known: Known<'_>) -> Option<String> {
    let rules = schema.as_object().unwrap_or_else(|| panic!("no schema: {schema}"));
    let failed = rules.iter().find_map(|(name, rule)| keyword_violation(value, schema, (name, rule), known));
    failed.map(|it| it.chars().take(2_000).collect())
}

fn keyword_violation(
    value: &Value,
    schema: &Value,
    (name, rule): (&String, &Value),
    known: Known<'_>,
) -> Option<String> {
    let number = || value.as_f64().zip(rule.as_f64());
    let length = |count: usize, fits: fn(u64, u64) -> bool| fits(count as u64, rule.as_u64().unwrap());
    let fits = match name.as_str() {
        name if SAYS_NOTHING.contains(&name) => true,
        "type" => types(rule).any(|it| has_type(value, it)),
        "const" => value == rule,
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => number().is_none_or(|it| it.0 >= it.1),
        "maximum" => number().is_none_or(|it| it.0 <= it.1),
        "pattern" => value.as_str().is_none_or(|it| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(it)),
        "minLength" => value.as_str().is_none_or(|it| length(it.chars().count(), |a, b| a >= b)),
        "maxLength" => value.as_str().is_none_or(|it| length(it.chars().count(), |a, b| a <= b)),
        "minItems" => value.as_array().is_none_or(|it| length(it.len(), |a, b| a >= b)),
        "maxItems" => value.as_array().is_none_or(|it| length(it.len(), |a, b| a <= b)),
        "required" => {
            let has = |it: &Value| value.get(it.as_str().unwrap()).is_some();
            !value.is_object() || rule.as_array().unwrap().iter().all(has)
        }
        "items" => return value.as_array()?.iter().find_map(|it| schema_violation(it, rule, known)),
        "properties" => {
            let inner = rule.as_object().unwrap().iter();
            let found = inner.filter_map(|(name, rule)| Some((name, value.get(name)?, rule)));
            return found
                .filter_map(|(name, it, rule)| Some(format!(".{name}{}", schema_violation(it, rule, known)?)))
                .next();
        }
        "additionalProperties" => return additional(value, schema, rule, known),
        "$ref" => return schema_violation(value, &known(rule.as_str().unwrap()), known),
        "anyOf" | "oneOf" => return alternatives_violation(value, name, rule, known),
        other => panic!("the schema keyword `{other}` is not known to the test"),
    };
    (!fits).then(|| format!(" is not {name} {rule}: {value}"))
}

fn alternatives_violation(value: &Value, name: &str, rule: &Value, known: Known<'_>) -> Option<String> {
    let misfits: Vec<Option<String>> =
        rule.as_array().unwrap().iter().map(|it| schema_violation(value, it, known)).collect();
    let fitting = misfits.iter().filter(|it| it.is_none()).count();
    let fits = if name == "oneOf" { fitting == 1 } else { fitting > 0 };
    let why: Vec<String> = misfits.into_iter().flatten().collect();
    (!fits).then(|| format!(" fits {fitting} of {name}: {}", why.join(" / ")))
}

fn additional(value: &Value, schema: &Value, rule: &Value, known: Known<'_>) -> Option<String> {
    let more = value.as_object()?.iter().filter(|it| schema["properties"].get(it.0).is_none());
    more.filter_map(|(name, it)| match rule {
        Value::Bool(true) => None,
        Value::Bool(false) => Some(format!(" may not have `{name}`")),
        rule => Some(format!(".{name}{}", schema_violation(it, rule, known)?)),
    })
    .next()
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let many = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
    rule.as_str().into_iter().chain(many)
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type `{other}` is not known to the test"),
    }
}

/// Returns the part of an example that the answer does not contain, or `None`.
pub(crate) fn missing_part(example: &Value, answer: &Value) -> Option<String> {
    match (example, answer) {
        (Value::Object(part), Value::Object(whole)) => part.iter().find_map(|(name, it)| match whole.get(name) {
            Some(found) => Some(format!(".{name}{}", missing_part(it, found)?)),
            None => Some(format!(".{name} is not there")),
        }),
        (Value::Array(part), Value::Array(whole)) if part.iter().all(Value::is_object) => part
            .iter()
            .find(|it| whole.iter().all(|found| missing_part(it, found).is_some()))
            .map(|it| format!(": no {it}")),
        (one, other) => (one != other).then(|| format!(" is {other}, not {one}")),
    }
}
