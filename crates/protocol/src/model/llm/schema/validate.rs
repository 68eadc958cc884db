//! Validates a value against the nodes of a schema.

use std::cell::Cell;
use std::fmt;

use serde_json::{Map, Value};

use crate::model::llm::schema::compile::{Node, Type};

/// Maximum nesting depth of validation; a deeper value is a violation. Otherwise, a recursive schema could recurse forever.
const MAX_DEPTH: usize = 64;
/// Maximum number of validation steps. [`MAX_DEPTH`] alone is not enough: a schema that refers twice to its root doubles
/// the number of steps at each level of nesting.
const MAX_STEPS: usize = 1_000_000;
/// Maximum number of violations to collect; further ones are not reported.
const MAX_VIOLATIONS: usize = 20;
/// Maximum number of characters of a value that a violation quotes.
const MAX_QUOTED_CHARS: usize = 60;

/// Message of the violation that is reported when [`MAX_STEPS`] is reached.
const TOO_MANY_STEPS: &str = "takes too many steps to check";

/// A part of a value that violates the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path in the value, e.g. `relations[0].confidence`, also of missing or unknown fields; empty for the whole value.
    pub place: String,
    /// What is wrong with the value at this path.
    message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => write!(f, "the value {}", self.message),
            place => write!(f, "`{place}` {}", self.message),
        }
    }
}

/// Returns the violations of a schema by a value; empty if the value is valid.
pub(super) fn validate(nodes: &[Node], root: usize, value: &Value) -> Vec<Violation> {
    let left = Cell::new(MAX_STEPS);
    let mut checker = Checker { nodes, violations: Vec::new(), depth: 0, steps_left: &left };
    checker.node(root, value, "");
    if left.get() == 0 && checker.violations.is_empty() {
        // Report the step limit as a violation of the whole value. When the limit is reached inside a `not`, the sub-schema
        // fails, and the failure satisfies the `not`. The value would then pass as valid although it was not fully checked.
        checker.report("", TOO_MANY_STEPS);
    }
    checker.violations
}

struct Checker<'a> {
    nodes: &'a [Node],
    violations: Vec<Violation>,
    depth: usize,
    /// Remaining steps, also counted down by checks that report no violations.
    steps_left: &'a Cell<usize>,
}

impl Checker<'_> {
    fn report(&mut self, place: &str, what: impl Into<String>) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation { place: place.into(), message: what.into() });
        }
    }

    /// Returns whether a value satisfies a node, without reporting violations.
    fn is_valid(&self, at: usize, value: &Value) -> bool {
        let mut checker =
            Checker { nodes: self.nodes, violations: Vec::new(), depth: self.depth, steps_left: self.steps_left };
        checker.node(at, value, "");
        checker.violations.is_empty()
    }

    fn node(&mut self, at: usize, value: &Value, place: &str) {
        if self.depth >= MAX_DEPTH {
            return self.report(place, "is nested too deep");
        }
        match self.steps_left.get() {
            0 => return self.report(place, TOO_MANY_STEPS),
            left => self.steps_left.set(left - 1),
        }
        self.depth += 1;
        let node = &self.nodes[at];
        self.value(node, value, place);
        match value {
            Value::Number(number) => self.number(node, number.as_f64().unwrap_or(f64::NAN), place),
            Value::String(text) => self.text(node, text, place),
            Value::Object(map) => self.object(node, map, place),
            Value::Array(items) => self.array(node, items, place),
            Value::Null | Value::Bool(_) => (),
        }
        self.combined(node, value, place);
        self.depth -= 1;
    }

    fn value(&mut self, node: &Node, value: &Value, place: &str) {
        if node.never {
            return self.report(place, "is not allowed");
        }
        if !node.types.is_empty() && !node.types.iter().any(|it| has_type(value, *it)) {
            let names: Vec<&str> = node.types.iter().map(|it| it.name()).collect();
            return self.report(place, format!("is {}, and must be of type {}", quote(value), names.join(" or ")));
        }
        if let Some(allowed) = node.allowed.as_ref().filter(|it| !it.iter().any(|it| json_equal(it, value))) {
            let all: Vec<String> = allowed.iter().map(quote).collect();
            self.report(place, format!("is {}, and must be one of {}", quote(value), all.join(", ")));
        }
    }

    fn number(&mut self, node: &Node, number: f64, place: &str) {
        let limits = [
            (node.minimum, "at least", number >= node.minimum.unwrap_or(number)),
            (node.maximum, "at most", number <= node.maximum.unwrap_or(number)),
            (node.exclusive_minimum, "above", node.exclusive_minimum.is_none_or(|it| number > it)),
            (node.exclusive_maximum, "below", node.exclusive_maximum.is_none_or(|it| number < it)),
        ];
        for (limit, word, _) in limits.into_iter().filter(|(_, _, holds)| !holds) {
            self.report(place, format!("is {number}, and must be {word} {}", limit.unwrap_or_default()));
        }
        if let Some(step) = node.multiple_of.filter(|it| ((number / it) - (number / it).round()).abs() > 1e-9) {
            self.report(place, format!("is {number}, and must be a multiple of {step}"));
        }
    }

    fn text(&mut self, node: &Node, text: &str, place: &str) {
        let length = text.chars().count();
        self.size(length, node.min_length, node.max_length, "characters", place);
        if let Some(pattern) = node.pattern.as_ref().filter(|it| !it.is_match(text)) {
            self.report(place, format!("does not match `{pattern}`"));
        }
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>, place: &str) {
        self.size(map.len(), node.min_properties, node.max_properties, "fields", place);
        for missing in node.required.iter().filter(|it| !map.contains_key(*it)) {
            self.report(&append_path(place, missing), "is missing");
        }
        for (name, value) in map {
            let inner = append_path(place, name);
            if node.names.is_some_and(|it| !self.is_valid(it, &Value::from(name.as_str()))) {
                self.report(&inner, "has a name that is not allowed");
            }
            let mut known = false;
            if let Some(at) = node.properties.get(name) {
                known = true;
                self.node(*at, value, &inner);
            }
            for (_, at) in node.patterns.iter().filter(|(names, _)| names.is_match(name)) {
                known = true;
                self.node(*at, value, &inner);
            }
            if let Some(at) = node.other_properties.filter(|_| !known) {
                match self.nodes[at].never {
                    true => self.report(&inner, "is not a known field"),
                    false => self.node(at, value, &inner),
                }
            }
        }
    }

    fn array(&mut self, node: &Node, items: &[Value], place: &str) {
        self.size(items.len(), node.min_items, node.max_items, "items", place);
        for (number, value) in items.iter().enumerate() {
            if let Some(at) = node.first_items.get(number).copied().or(node.items) {
                self.node(at, value, &format!("{place}[{number}]"));
            }
        }
        if node.contains.is_some_and(|at| !items.iter().any(|it| self.is_valid(at, it))) {
            self.report(place, "has no item that matches `contains`");
        }
        let twice = |number: usize| items[..number].iter().any(|it| json_equal(it, &items[number]));
        if node.unique && (1..items.len()).any(twice) {
            self.report(place, "has an item twice");
        }
    }

    fn size(&mut self, size: usize, least: Option<usize>, most: Option<usize>, what: &str, place: &str) {
        if let Some(least) = least.filter(|it| size < *it) {
            self.report(place, format!("has {size} {what}, and must have at least {least}"));
        }
        if let Some(most) = most.filter(|it| size > *it) {
            self.report(place, format!("has {size} {what}, and must have at most {most}"));
        }
    }

    fn combined(&mut self, node: &Node, value: &Value, place: &str) {
        for at in &node.all_of {
            self.node(*at, value, place);
        }
        if !node.any_of.is_empty() && !node.any_of.iter().any(|it| self.is_valid(*it, value)) {
            self.report(place, format!("is {}, which matches none of the allowed schemas", quote(value)));
        }
        if !node.one_of.is_empty() {
            let met = node.one_of.iter().filter(|it| self.is_valid(**it, value)).count();
            if met != 1 {
                self.report(place, format!("is {}, which matches {met} of the schemas instead of one", quote(value)));
            }
        }
        if node.not.is_some_and(|it| self.is_valid(it, value)) {
            self.report(place, "must not match the schema in `not`");
        }
    }
}

fn append_path(place: &str, name: &str) -> String {
    if place.is_empty() { name.into() } else { format!("{place}.{name}") }
}

fn has_type(value: &Value, wanted: Type) -> bool {
    match wanted {
        Type::Null => value.is_null(),
        Type::Boolean => value.is_boolean(),
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Number => value.is_number(),
        // As in JSON Schema, a number without a fraction such as 1.0 is an integer.
        Type::Integer => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
    }
}

/// Compares JSON values: numbers by value, objects regardless of the order of their fields.
fn json_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, it)| b.get(name).is_some_and(|other| json_equal(it, other)))
        }
        _ => one == other,
    }
}

fn quote(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => format!("`{} …`", &text[..at]),
        None => format!("`{text}`"),
    }
}
