//! Secrets in JSON: every text of it, with the name or cell before it.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::Redaction;
use crate::secrets::Censor;

/// Blacks keys and tokens out in every text of a document. A value is told by the name that it has there, and what stands in
/// a list by the text before it: rows of tables are lists of cells.
pub fn black_out(document: &mut Value, redaction: Redaction) {
    if redaction != Redaction::None {
        within(document, &mut Censor::new(redaction), redaction);
    }
}

fn within(document: &mut Value, censor: &mut Censor, redaction: Redaction) {
    match document {
        Value::String(text) => {
            if let Cow::Owned(clean) = censor.clean(text) {
                *text = clean;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| within(it, censor, redaction)),
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                let mut own = Censor::new(redaction);
                own.clean(name);
                within(value, &mut own, redaction);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: Value, expected: &Value) {
        let mut cleaned = document.clone();
        black_out(&mut cleaned, Redaction::Keys);
        assert_eq!(&cleaned, expected, "{document}");
        let mut kept = document.clone();
        black_out(&mut kept, Redaction::None);
        assert_eq!(kept, document);
    }

    #[test]
    fn every_text_is_cleaned_however_deep_it_stands() {
        check(
            json!({ "a": [[{ "b": "AKIAIOSFODNN7EXAMPLE" }], 7, null] }),
            &json!({ "a": [[{ "b": "[redacted]" }], 7, null] }),
        );
    }

    #[test]
    fn a_value_is_told_by_its_name_and_by_the_cell_before_it() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        check(json!({ "api_key": value, "build": value }), &json!({ "api_key": "[redacted]", "build": value }));
        check(
            json!([["build", value], ["API token", value], ["", value]]),
            &json!([["build", value], ["API token", "[redacted]"], ["", value]]),
        );
    }
}
