//! One object of a document, and the objects of a document by schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::corpus::document::location::SourceLocation;

/// An object found in a document, e.g. a table or a quote.
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

    /// Returns a text field of the object; empty if the field is missing or is not a text.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the object as JSON for an answer.
    pub(crate) fn value(&self, file: i64) -> Value {
        let mut shown = Map::from_iter([("file".to_string(), Value::from(file))]);
        self.place.write(&mut shown);
        shown.extend(self.fields.clone());
        shown.insert("confidence".into(), json!(self.confidence));
        Value::Object(shown)
    }
}

/// The objects of a document (tables, quotes, citations etc.), by name of their schema.
pub(crate) type Objects = BTreeMap<String, Vec<Object>>;
