//! Arguments of tools against their JSON Schemas.
//!
//! Knows the words that [`super::tools`] uses and no others. A test holds every schema against them, so that no word is
//! passed over in silence.

use serde_json::{Map, Value};

/// Something that is wrong: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// E.g. `relations[0].confidence`; empty for the whole.
    pub(crate) place: String,
    /// One sentence.
    pub(crate) what: String,
}

/// Returns everything that is wrong with a value.
pub(crate) fn problems(schema: &Value, value: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    look(schema, value, "", &mut problems);
    problems
}

fn look(schema: &Value, value: &Value, place: &str, problems: &mut Vec<Problem>) {
    let mut wrong = |what: String| problems.push(Problem { place: place.into(), what });
    if let Some(kind) = schema["type"].as_str().filter(|kind| !is_of(value, kind)) {
        return wrong(format!("found {}, expected {}", shown(value), with_article(kind)));
    }
    if let Some(values) = schema["enum"].as_array().filter(|it| !it.contains(value)) {
        let values: Vec<String> = values.iter().map(shown).collect();
        return wrong(format!("found {}, expected one of {}", shown(value), values.join(", ")));
    }
    let size = match value {
        Value::String(text) => text.chars().count() as f64,
        Value::Array(items) => items.len() as f64,
        other => other.as_f64().unwrap_or_default(),
    };
    let (least, most, unit) = match value {
        Value::String(_) => ("minLength", "maxLength", " characters"),
        Value::Array(_) => ("minItems", "maxItems", " items"),
        _ => ("minimum", "maximum", ""),
    };
    if let Some(bound) = schema[least].as_f64().filter(|it| size < *it) {
        wrong(format!("found {size}{unit}, expected at least {bound}"));
    }
    if let Some(bound) = schema[most].as_f64().filter(|it| size > *it) {
        wrong(format!("found {size}{unit}, expected at most {bound}"));
    }
    match value {
        Value::Object(map) => members(schema, map, place, problems),
        Value::Array(items) => {
            let item =
                |(number, it): (usize, &Value)| look(&schema["items"], it, &format!("{place}[{number}]"), problems);
            items.iter().enumerate().filter(|_| schema["items"].is_object()).for_each(item);
        }
        _ => (),
    }
}

fn members(schema: &Value, map: &Map<String, Value>, place: &str, problems: &mut Vec<Problem>) {
    let below = |name: &str| if place.is_empty() { name.to_string() } else { format!("{place}.{name}") };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            problems.push(Problem { place: below(name), what: "is missing".into() });
        }
    }
    let known = schema["properties"].as_object();
    for (name, value) in map {
        match known.and_then(|it| it.get(name)) {
            Some(schema) => look(schema, value, &below(name), problems),
            None if schema["additionalProperties"] == false => {
                let known: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                let what = format!("is not known, expected only {}", known.join(", "));
                problems.push(Problem { place: below(name), what });
            }
            None => (),
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|it| it.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => false,
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// Words that are looked at, and those for the reader.
    const KNOWN: [&str; 13] = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "items",
        "minItems",
        "maxItems",
        "description",
    ];

    /// Returns the word of a schema that is not known here, if there is one.
    pub(crate) fn unknown_word(schema: &Value) -> Option<String> {
        let map = schema.as_object()?;
        if let Some(word) = map.keys().find(|it| !KNOWN.contains(&it.as_str())) {
            return Some(word.clone());
        }
        let properties = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        properties.chain(map.get("items")).find_map(unknown_word)
    }

    #[test]
    fn every_wrong_argument_is_named_with_its_place() {
        let schema = json!({
            "type": "object", "required": ["query"], "additionalProperties": false,
            "properties": {
                "query": {"type": "string", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "items": {"type": "array", "maxItems": 1, "items": {"type": "object", "required": ["id"]}}
            }
        });
        let places =
            |value: Value| -> Vec<String> { problems(&schema, &value).into_iter().map(|it| it.place).collect() };
        assert!(places(json!({"query": "x", "limit": 50, "mode": "a", "items": [{"id": 1}]})).is_empty());
        assert_eq!(places(json!([])), [""]);
        assert_eq!(places(json!({})), ["query"]);
        assert_eq!(places(json!({"query": "", "limit": 51})), ["query", "limit"]);
        assert_eq!(places(json!({"query": 1, "limit": 1.5, "mode": "c"})), ["query", "limit", "mode"]);
        assert_eq!(
            places(json!({"query": "x", "items": [{"id": 1}, {}], "more": 1})),
            ["items", "items[1].id", "more"]
        );
    }

    #[test]
    fn a_word_that_is_not_looked_at_is_found() {
        assert_eq!(
            unknown_word(&json!({"type": "object", "properties": {"a": {"pattern": "x"}}})),
            Some("pattern".into())
        );
        assert_eq!(unknown_word(&json!({"type": "array", "items": {"type": "string"}})), None);
    }
}
