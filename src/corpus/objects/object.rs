//! An object of a document, and all of them by schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::corpus::document::location::SourceLocation;

/// One object of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Object {
    pub(crate) place: SourceLocation,
    pub(crate) confidence: f64,
    pub(crate) fields: Map<String, Value>,
}

impl Object {
    /// Creates an object from the fields of its schema, in schema order.
    pub(crate) fn new(place: SourceLocation, confidence: f64, fields: Value) -> Object {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Object { place, confidence, fields }
    }

    /// A text field; empty if the field is missing or no text.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// The object as shown in an answer.
    pub(crate) fn value(&self, file: i64) -> Value {
        let mut shown = Map::from_iter([("file".to_string(), Value::from(file))]);
        self.place.write(&mut shown);
        shown.extend(self.fields.clone());
        shown.insert("confidence".into(), json!(self.confidence));
        Value::Object(shown)
    }
}

/// The objects of a document by schema.
pub(crate) type Objects = BTreeMap<String, Vec<Object>>;
