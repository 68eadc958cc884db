//! Edits JSON files of settings, so that everything but one entry stays as the user wrote it. The JSON may have comments, and
//! commas at the end of lists.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

/// The mark at the beginning of some UTF-8 files, which is not part of the JSON.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the text with `entry` as the member `name` of the object `outer`; `None` if it is there already. Fields of an
/// older entry that `entry` does not have stay.
///
/// # Errors
/// The text is not a JSON object, its field `outer` is not an object, or it has a field twice.
pub(super) fn set(text: &str, outer: &str, name: &str, entry: &Map<String, Value>) -> Result<Option<String>, String> {
    let (mark, json) = split_mark(text);
    let (document, root) = parse(if json.trim().is_empty() { "{}\n" } else { json })?;
    let servers = match member(&root, outer)? {
        None => root.object_value_or_set(outer),
        Some(member) => object_of(&member, outer)?,
    };
    let present = member(&servers, name)?;
    let old = present.as_ref().and_then(|it| it.value()?.to_serde_value());
    let mut merged = old.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    merged.extend(entry.clone());
    let merged = Value::Object(merged);
    if old.as_ref() == Some(&merged) {
        return Ok(None);
    }
    match present {
        Some(member) => member.set_value(input(&merged)),
        None => drop(servers.append(name, input(&merged))),
    }
    Ok(Some(format!("{mark}{document}")))
}

/// Returns the text without the member `name` of the object `outer`; `None` if there is none.
///
/// # Errors
/// The text is not a JSON object, its field `outer` is not an object, or it has a field twice.
pub(super) fn remove(text: &str, outer: &str, name: &str) -> Result<Option<String>, String> {
    let (mark, json) = split_mark(text);
    if json.trim().is_empty() {
        return Ok(None);
    }
    let (document, root) = parse(json)?;
    let Some(servers) = member(&root, outer)? else { return Ok(None) };
    let Some(present) = member(&object_of(&servers, outer)?, name)? else { return Ok(None) };
    present.remove();
    Ok(Some(format!("{mark}{document}")))
}

fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 })
}

/// Parses JSON with comments and last commas, but without the other liberties of JSON5.
fn parse(json: &str) -> Result<(CstRootNode, CstObject), String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    // Does not use the parser's message, because the message quotes the text, which may contain an API key.
    let document = CstRootNode::parse(json, &options)
        .map_err(|error| format!("is not JSON (line {}, column {})", error.line_display(), error.column_display()))?;
    let root = document.object_value().ok_or("is not a JSON object")?;
    Ok((document, root))
}

/// Returns the member of an object with this name. Refuses an object that has the name twice, because clients differ in which
/// of the two they read.
fn member(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, String> {
    let mut found = object.properties().into_iter().filter(|it| it.decoded_name().as_deref() == Some(name));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("has the field `{name}` twice")),
        (first, None) => Ok(first),
    }
}

fn object_of(member: &CstObjectProp, name: &str) -> Result<CstObject, String> {
    member.object_value().ok_or_else(|| format!("has a field `{name}` that is not an object"))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(map.iter().map(|(key, it)| (key.clone(), input(it))).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Map<String, Value> {
        json!({"command": "vic", "args": ["mcp"]}).as_object().unwrap().clone()
    }

    fn set_in(text: &str) -> String {
        set(text, "servers", "vic", &entry()).unwrap().unwrap()
    }

    #[test]
    fn entry_is_added_and_removed_without_other_changes() {
        for text in [
            "{\n  \"servers\": {\n    \"other\": {\"command\": \"x\"}\n  },\n  \"theme\": \"dark\"\n}\n",
            "{\n\t\"zoom\": 1,\n\t\"servers\": {\n\t\t\"b\": {},\n\t\t\"a\": {}\n\t}\n}",
            "{\r\n  \"servers\": {\r\n    \"other\": {}\r\n  }\r\n}\r\n",
            "// settings\n{\n  // servers\n  \"servers\": {\n    \"other\": {}, // mine, \"vic\": {}\n  },\n}\n",
            "{\n  \"servers\": {\n    \"other\": {} /* a */\n    // b\n  }\n}\n",
            "\u{feff}{\n  \"a\\\"}\": [1, {\"b\": \"}\"}],\n  \"servers\": {\n    \"other\": null\n  }\n}\n",
        ] {
            let with = set_in(text);
            assert!(with.contains("\"vic\": {"), "{with}");
            let old: Vec<&str> = text.lines().collect();
            let kept =
                old.iter().filter(|it| with.lines().any(|line| line.trim_end_matches(',') == it.trim_end_matches(',')));
            assert!(kept.count() + 1 >= old.len(), "{with}");
            assert_eq!(set(&with, "servers", "vic", &entry()).unwrap(), None);
            assert_eq!(remove(&with, "servers", "vic").unwrap().as_deref(), Some(text), "{with}");
            assert_eq!(remove(text, "servers", "vic").unwrap(), None);
        }
    }

    #[test]
    fn new_entry_is_indented_like_the_file() {
        assert_eq!(
            set_in("{\n    \"servers\": {}\n}\n"),
            "{\n    \"servers\": {\n        \"vic\": {\n            \"command\": \"vic\",\n            \"args\": [\"mcp\"]\n        }\n    \
             }\n}\n"
        );
        assert_eq!(
            set_in("{\"a\": 1}"),
            "{\n  \"a\": 1,\n  \"servers\": {\n    \"vic\": {\n      \"command\": \"vic\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}"
        );
        for empty in ["", " \n", "{}", "{ }", "{\n}", "{ // nothing yet\n}", "{\"servers\": { /* none */ }}"] {
            let value = parse(&set_in(empty)).unwrap().1.to_serde_value().unwrap();
            assert_eq!(value, json!({"servers": {"vic": entry()}}), "{empty}");
        }
    }

    #[test]
    fn old_entry_keeps_its_own_fields_and_its_place() {
        let text = "{\"servers\": {\"vic\": {\"command\": \"/old\", \"disabled\": true}, \"other\": {}}}";
        let with = set_in(text);
        let value: Value = serde_json::from_str(&with).unwrap();
        assert_eq!(value["servers"]["vic"], json!({"command": "vic", "disabled": true, "args": ["mcp"]}));
        assert!(with.find("\"vic\"") < with.find("\"other\""), "{with}");
        let without = remove(&with, "servers", "vic").unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&without).unwrap(), json!({"servers": {"other": {}}}));
    }

    #[test]
    fn text_that_is_no_configuration_is_refused_with_reason() {
        for (text, reason) in [
            ("{\"a\": }", "is not JSON (line 1"),
            ("servers:\n  vic: 1\n", "is not JSON (line 1"),
            ("{\n\"a\": 1\n\"b\": 2}", "is not JSON (line 2"),
            ("{a: 's3cret'}", "is not JSON"),
            ("[]", "is not a JSON object"),
            ("{\"servers\": []}", "`servers` that is not an object"),
            ("{\"servers\": null}", "`servers` that is not an object"),
            ("{\"servers\": {\"vic\": 1, \"a\": 2, \"vic\": 3}}", "`vic` twice"),
            ("{ /* open", "is not JSON"),
            ("{\"a\": 1,,}", "is not JSON"),
            ("{\"a\": \"open", "is not JSON"),
        ] {
            for outcome in [set(text, "servers", "vic", &entry()), remove(text, "servers", "vic")] {
                let error = outcome.unwrap_err();
                assert!(error.contains(reason) && !error.contains("s3cret"), "{text}: {error}");
            }
        }
    }
}
