//! Redacts secrets in all strings and keys of a JSON document.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::model::Redaction;
use crate::secrets::Redactor;

/// Redacts secrets in the strings and JSON keys of a document. A value is a secret also if the JSON key before it says so
/// (`"api_key": ...`), and in a list if the previous string does, because table rows are lists of cells.
pub fn redact_json(document: &mut Value, redaction: Redaction) {
    if redaction != Redaction::None {
        redact_value(document, &mut Redactor::new(redaction), redaction);
    }
}

fn redact_value(document: &mut Value, censor: &mut Redactor, redaction: Redaction) {
    match document {
        Value::String(text) => {
            if let Cow::Owned(clean) = censor.redact(text) {
                *text = clean;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| redact_value(it, censor, redaction)),
        Value::Object(map) => {
            for (name, mut value) in std::mem::take(map) {
                let mut own = Redactor::new(redaction);
                let clean = own.redact(&name).into_owned();
                redact_value(&mut value, &mut own, redaction);
                map.insert(unique_name(map, clean), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Returns the JSON key `name`, with a number if the object already has this key, because two keys may be redacted to the
/// same text, and no value may overwrite another.
fn unique_name(map: &Map<String, Value>, name: String) -> String {
    if !map.contains_key(&name) {
        return name;
    }
    let mut numbered = (map.len() + 1..).map(|it| format!("{name} {it}"));
    numbered.find(|it| !map.contains_key(it)).expect("there are more numbers than names")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: Value, expected: &Value) {
        let mut cleaned = document.clone();
        redact_json(&mut cleaned, Redaction::Keys);
        assert_eq!(&cleaned, expected, "{document}");
        let mut kept = document.clone();
        redact_json(&mut kept, Redaction::None);
        assert_eq!(kept, document);
    }

    #[test]
    fn strings_are_redacted_at_any_depth() {
        check(
            json!({ "a": [[{ "b": "AKIAIOSFODNN7EXAMPLE" }], 7, null] }),
            &json!({ "a": [[{ "b": "[redacted]" }], 7, null] }),
        );
    }

    // Case E13
    #[test]
    fn redacted_names_keep_order_and_stay_unique() {
        let (first, second) = ("AKIAIOSFODNN7EXAMPLE", "ghp_16C7e42F292c6912E7710c838347Ae178B4a");
        let cleaned =
            json!({ "b": 1, "[redacted]": [2], "[redacted] 3": 3, "by [redacted]": { "[redacted]": 4 }, "a": 5 });
        let document = json!({ "b": 1, first: [2], second: 3, format!("by {first}"): { first: 4 }, "a": 5 });
        let order = |it: &Value| it.as_object().unwrap().values().cloned().collect::<Vec<_>>();
        let mut now = document.clone();
        redact_json(&mut now, Redaction::Keys);
        assert_eq!(order(&now)[..3], order(&document)[..3]);
        check(document, &cleaned);
    }

    #[test]
    fn value_context_is_its_name_or_previous_cell() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        check(json!({ "api_key": value, "build": value }), &json!({ "api_key": "[redacted]", "build": value }));
        check(
            json!([["build", value], ["API token", value], ["", value]]),
            &json!([["build", value], ["API token", "[redacted]"], ["", value]]),
        );
    }
}
