//! Validates a value against the nodes of a schema.

use std::cell::Cell;
use std::fmt;

use serde_json::{Map, Value};

use crate::model::llm::schema::compile::{Node, Type};

/// Maximum nesting depth: a recursive schema must not recurse forever.
const DEPTH: usize = 64;
/// Maximum validation steps: a schema with two references to its root has as many steps as there are paths to the depth
/// limit.
const STEPS: usize = 1_000_000;
/// Maximum violations to collect.
const MOST: usize = 20;
/// Characters of a value quoted in a violation.
const SHOWN: usize = 60;

/// The violation reported when the steps are used up.
const ENDLESS: &str = "takes too many steps to check";

/// A violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path, e.g. `relations[0].confidence`, also of missing or unknown fields; empty for the whole value.
    pub place: String,
    /// The message.
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => write!(f, "the value {}", self.what),
            place => write!(f, "`{place}` {}", self.what),
        }
    }
}

/// Returns the violations of a schema; empty if there are none.
pub(super) fn check(nodes: &[Node], root: usize, value: &Value) -> Vec<Violation> {
    let left = Cell::new(STEPS);
    let mut checker = Checker { nodes, told: Vec::new(), depth: 0, left: &left };
    checker.node(root, value, "");
    if left.get() == 0 && checker.told.is_empty() {
        // A part that was not checked must not pass inside a `not`.
        checker.tell("", ENDLESS);
    }
    checker.told
}

struct Checker<'a> {
    nodes: &'a [Node],
    told: Vec<Violation>,
    depth: usize,
    /// Remaining steps, shared with silent checks.
    left: &'a Cell<usize>,
}

impl Checker<'_> {
    fn tell(&mut self, place: &str, what: impl Into<String>) {
        if self.told.len() < MOST {
            self.told.push(Violation { place: place.into(), what: what.into() });
        }
    }

    /// Returns whether a value satisfies a node, without reporting violations.
    fn meets(&self, at: usize, value: &Value) -> bool {
        let mut checker = Checker { nodes: self.nodes, told: Vec::new(), depth: self.depth, left: self.left };
        checker.node(at, value, "");
        checker.told.is_empty()
    }

    fn node(&mut self, at: usize, value: &Value, place: &str) {
        if self.depth >= DEPTH {
            return self.tell(place, "is nested too deep");
        }
        match self.left.get() {
            0 => return self.tell(place, ENDLESS),
            left => self.left.set(left - 1),
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
            return self.tell(place, "is not allowed");
        }
        if !node.types.is_empty() && !node.types.iter().any(|it| is(value, *it)) {
            let names: Vec<&str> = node.types.iter().map(|it| it.name()).collect();
            return self.tell(place, format!("is {}, and must be of type {}", shown(value), names.join(" or ")));
        }
        if let Some(allowed) = node.allowed.as_ref().filter(|it| !it.iter().any(|it| equal(it, value))) {
            let all: Vec<String> = allowed.iter().map(shown).collect();
            self.tell(place, format!("is {}, and must be one of {}", shown(value), all.join(", ")));
        }
    }

    fn number(&mut self, node: &Node, number: f64, place: &str) {
        let limits = [
            (node.minimum, "at least", number >= node.minimum.unwrap_or(number)),
            (node.maximum, "at most", number <= node.maximum.unwrap_or(number)),
            (node.above, "above", node.above.is_none_or(|it| number > it)),
            (node.below, "below", node.below.is_none_or(|it| number < it)),
        ];
        for (limit, word, _) in limits.into_iter().filter(|(_, _, holds)| !holds) {
            self.tell(place, format!("is {number}, and must be {word} {}", limit.unwrap_or_default()));
        }
        if let Some(step) = node.multiple_of.filter(|it| ((number / it) - (number / it).round()).abs() > 1e-9) {
            self.tell(place, format!("is {number}, and must be a multiple of {step}"));
        }
    }

    fn text(&mut self, node: &Node, text: &str, place: &str) {
        let length = text.chars().count();
        self.size(length, node.min_length, node.max_length, "characters", place);
        if let Some(pattern) = node.pattern.as_ref().filter(|it| !it.is_match(text)) {
            self.tell(place, format!("does not match `{pattern}`"));
        }
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>, place: &str) {
        self.size(map.len(), node.min_properties, node.max_properties, "fields", place);
        for missing in node.required.iter().filter(|it| !map.contains_key(*it)) {
            self.tell(&below(place, missing), "is missing");
        }
        for (name, value) in map {
            let inner = below(place, name);
            if node.names.is_some_and(|it| !self.meets(it, &Value::from(name.as_str()))) {
                self.tell(&inner, "has a name that is not allowed");
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
                    true => self.tell(&inner, "is not known"),
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
        if node.contains.is_some_and(|at| !items.iter().any(|it| self.meets(at, it))) {
            self.tell(place, "has no item that matches `contains`");
        }
        let twice = |number: usize| items[..number].iter().any(|it| equal(it, &items[number]));
        if node.unique && (1..items.len()).any(twice) {
            self.tell(place, "has an item twice");
        }
    }

    fn size(&mut self, size: usize, least: Option<usize>, most: Option<usize>, what: &str, place: &str) {
        if let Some(least) = least.filter(|it| size < *it) {
            self.tell(place, format!("has {size} {what}, and must have at least {least}"));
        }
        if let Some(most) = most.filter(|it| size > *it) {
            self.tell(place, format!("has {size} {what}, and must have at most {most}"));
        }
    }

    fn combined(&mut self, node: &Node, value: &Value, place: &str) {
        for at in &node.all_of {
            self.node(*at, value, place);
        }
        if !node.any_of.is_empty() && !node.any_of.iter().any(|it| self.meets(*it, value)) {
            self.tell(place, format!("is {}, which matches none of the allowed schemas", shown(value)));
        }
        if !node.one_of.is_empty() {
            let met = node.one_of.iter().filter(|it| self.meets(**it, value)).count();
            if met != 1 {
                self.tell(place, format!("is {}, which matches {met} of the schemas instead of one", shown(value)));
            }
        }
        if node.not.is_some_and(|it| self.meets(it, value)) {
            self.tell(place, "must not match the schema in `not`");
        }
    }
}

fn below(place: &str, name: &str) -> String {
    if place.is_empty() { name.into() } else { format!("{place}.{name}") }
}

fn is(value: &Value, wanted: Type) -> bool {
    match wanted {
        Type::Null => value.is_null(),
        Type::Boolean => value.is_boolean(),
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Number => value.is_number(),
        // 1.0 counts as an integer.
        Type::Integer => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
    }
}

/// Compares values; numbers by value, objects regardless of field order.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, it)| b.get(name).is_some_and(|other| equal(it, other)))
        }
        _ => one == other,
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("`{} …`", &text[..at]),
        None => format!("`{text}`"),
    }
}
