//! Formats JSON as an indented outline: the same content in fewer characters than JSON, one fact a line.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::escape::escape_controls_in_lines;

/// Maximum nesting that is indented; deeper values are written as JSON in one line.
const MAX_DEPTH: usize = 8;

/// Returns the outline of a value. Empty values are left out.
pub(super) fn outline(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    let text = out.trim_end();
    escape_controls_in_lines(if text.is_empty() { "nothing" } else { text }).into_owned()
}

fn write_value(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, it)| write_field(out, name, it, depth)),
        Value::Array(items) => items.iter().for_each(|it| write_item(out, it, depth)),
        scalar => {
            let _ = writeln!(out, "{}{}", indent(depth), scalar_text(scalar));
        }
    }
}

fn write_field(out: &mut String, name: &str, value: &Value, depth: usize) {
    if is_empty(value) {
        return;
    }
    let _ = match flat_text(value) {
        Some(text) => writeln!(out, "{}{name}: {text}", indent(depth)),
        None if depth >= MAX_DEPTH => writeln!(out, "{}{name}: {value}", indent(depth)),
        None => {
            let _ = writeln!(out, "{}{name}:", indent(depth));
            write_value(out, value, depth + 1);
            Ok(())
        }
    };
}

fn write_item(out: &mut String, item: &Value, depth: usize) {
    let Value::Object(fields) = item else {
        let text = flat_text(item).unwrap_or_else(|| item.to_string());
        let _ = writeln!(out, "{}- {text}", indent(depth));
        return;
    };
    let (flat, nested): (Vec<_>, Vec<_>) = fields.iter().filter(|it| !is_empty(it.1)).partition(|it| is_short(it.1));
    let flat: Vec<String> = flat.iter().map(|(name, it)| format!("{name}: {}", scalar_text(it))).collect();
    let _ = writeln!(out, "{}- {}", indent(depth), flat.join(", "));
    let nested: Map<String, Value> = nested.into_iter().map(|(name, it)| (name.clone(), it.clone())).collect();
    if depth >= MAX_DEPTH && !nested.is_empty() {
        let _ = writeln!(out, "{}{}", indent(depth + 1), Value::Object(nested));
    } else {
        write_value(out, &Value::Object(nested), depth + 1);
    }
}

/// Returns the text of a value that is written on the same line as its key: a scalar, or a list of scalars of one line.
fn flat_text(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) if items.iter().all(is_short) => {
            Some(items.iter().map(scalar_text).collect::<Vec<_>>().join(", "))
        }
        Value::Array(_) | Value::Object(_) => None,
        scalar => Some(scalar_text(scalar)),
    }
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains('\n'),
        Value::Array(_) | Value::Object(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn scalar_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

fn indent(depth: usize) -> String {
    " ".repeat(depth)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outline_has_one_fact_a_line_and_nothing_empty() {
        let value = json!({
            "name": "a.md", "type": "File", "note": null, "tags": ["x", "y"], "none": [],
            "edges": [
                {"relation": "links_to", "target": "b.md", "evidence": [{"place": "line 3"}], "weight": 1},
                {"relation": "contains", "target": "c\u{1b}"},
            ],
            "counts": {"files": 2},
        });
        let expected = "name: a.md\ntype: File\ntags: x, y\nedges:\n - relation: links_to, target: b.md, weight: 1\n  \
                        evidence:\n   - place: line 3\n - relation: contains, target: c\\u{1b}\ncounts:\n files: 2";
        assert_eq!(outline(&value), expected);
        assert_eq!((outline(&json!({})), outline(&json!("x\ny"))), ("nothing".into(), "x\ny".into()));
        assert!(outline(&value).len() < value.to_string().len());
    }

    #[test]
    fn deep_nesting_is_bounded() {
        let mut deep = json!({"x": 1, "y": [2, {"z": 3}]});
        for _ in 0..100 {
            deep = json!({"in": deep});
        }
        let text = outline(&deep);
        assert!(text.lines().count() < 20 && text.contains("\"z\":3"), "{text}");
        let mut lists = json!([1]);
        for _ in 0..100 {
            lists = json!([lists, 2]);
        }
        assert!(outline(&lists).lines().count() < 5);
    }
}
