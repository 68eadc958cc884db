//! A validated request of the corpus API, and access to the values of its fields.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::verbs::{Form, Verb};

/// A validated request: every field is known and has a value of its type.
#[derive(Clone, Debug)]
pub(crate) struct ValidRequest {
    pub(crate) verb: &'static Verb,
    pub(crate) form: &'static Form,
    /// Fields of the request, sorted by name; values from a list of names are spelled as in `crate::verbs`.
    pub(crate) fields: Map<String, Value>,
}

impl ValidRequest {
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

    /// Returns the time that the caller waits for the end of a job.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_millis(self.whole("wait_ms").and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.fields.get(name).and_then(Value::as_f64)
    }

    /// Returns a field inside the object `filters` or `constraints`.
    pub(crate) fn nested_field(&self, object: &str, name: &str) -> Option<&Value> {
        self.fields.get(object)?.get(name)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        self.fields.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the requested page of a list, as (limit, offset).
    pub(crate) fn page(&self) -> (usize, usize) {
        let most = self.whole("limit").map_or(100, |it| it as usize);
        (most, self.whole("offset").map_or(0, |it| it as usize))
    }

    /// Returns the form of the request that is stored and hashed; equal for equal questions. It leaves out the output
    /// format, `async` and `wait_ms`, which do not change the answer, but contains `verbose`, which does.
    pub(crate) fn canonical(&self) -> Value {
        let asks = |it: &(&String, &Value)| {
            !["format", "async", "wait_ms"].contains(&it.0.as_str()) && *it.1 != Value::Bool(false)
        };
        let fields: Map<String, Value> =
            self.fields.iter().filter(asks).map(|it| (it.0.clone(), it.1.clone())).collect();
        json!({"verb": self.verb.name, "form": self.form.name, "fields": fields})
    }
}
