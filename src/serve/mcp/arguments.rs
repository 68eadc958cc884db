//! The arguments of a tool call. Models and clients send names of other servers: a wrong name is answered with the right
//! one, and extras that mean nothing are ignored.

use std::ops::RangeInclusive;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::compact_output::MAX_CHARS;
use crate::error::{Error, Result};
use crate::graph::suggest;
use crate::serve::mcp::cursor;

/// Arguments that every tool with an answer of any length takes.
pub(super) const PAGE_FIELDS: [&str; 3] = ["max_chars", "cursor", "structured"];

/// Returns the schemas of the [`PAGE_FIELDS`], by name.
pub(super) fn page_fields() -> JsonObject {
    let schemas = [
        json!({"type": "integer", "description": "longest answer, to 20000; default 1500"}),
        json!({"type": "string", "description": "from the answer, for more"}),
        json!({"type": "boolean", "description": "JSON, not text"}),
    ];
    PAGE_FIELDS.into_iter().map(String::from).zip(schemas).collect()
}

/// Bounds of `max_chars`: the shorter limit leaves room for one passage, the longer one is some 5,000 tokens.
pub(super) const CHARS: RangeInclusive<u64> = 200..=20_000;

/// Names that models use for an argument of vic: the argument, and its other names.
const OTHER_NAMES: [(&str, &[&str]); 11] = [
    (
        "query",
        &[
            "q", "question", "text", "prompt", "input", "search", "keywords", "term", "terms", "words", "pattern",
            "name",
        ],
    ),
    ("path", &["file", "filename", "file_name", "filepath", "file_path", "uri", "url", "document", "doc"]),
    ("root", &["folder", "dir", "directory", "path", "scope", "warehouse_root", "cwd"]),
    (
        "limit",
        &["top_k", "topk", "k", "n", "count", "max_results", "num_results", "results", "page_size", "size", "first"],
    ),
    ("max_chars", &["max_tokens", "max_length", "max_characters", "max_bytes", "length"]),
    ("cursor", &["offset", "page", "next", "next_cursor", "next_offset", "start", "skip"]),
    ("structured", &["format", "output_format", "response_format", "json", "as_json"]),
    ("job_id", &["id", "job", "task_id"]),
    ("filter", &["where", "filters", "condition"]),
    ("aggregates", &["aggregate", "aggregations", "sum", "function"]),
    ("add", &["toolset", "toolsets", "enable", "name"]),
];

/// Extras of clients and models that change nothing. Names that begin with `_` are ignored too, e.g. `_meta`.
const IGNORED: [&str; 10] = [
    "explanation",
    "reason",
    "reasoning",
    "rationale",
    "thought",
    "thoughts",
    "intent",
    "tool_call_id",
    "toolCallId",
    "session_id",
];

/// Which part of an answer to return, and how.
#[derive(Debug)]
pub(super) struct Page {
    /// Where the list of the answer continues; 0 is its beginning.
    pub(super) start: u64,
    /// Whether this is the first part, with what stands before the list.
    pub(super) is_first: bool,
    /// Maximum number of characters of the answer.
    pub(super) max_chars: usize,
    /// Whether the answer is data instead of text.
    pub(super) structured: bool,
    /// Fingerprint of the call, for the cursor of the next part.
    pub(super) call: [u8; 6],
}

/// The arguments of one call, with known names only.
#[derive(Debug)]
pub(super) struct Arguments(JsonObject);

impl Arguments {
    /// Checks the names of the arguments of a tool that takes `fields`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name that has a value, with the right name if there is one.
    pub(super) fn new(tool: &str, fields: &[&str], mut given: JsonObject) -> Result<Arguments> {
        given.retain(|name, value| fields.contains(&name.as_str()) || !is_harmless(name, value));
        let unknown = given.keys().find(|it| !fields.contains(&it.as_str()));
        unknown.map_or(Ok(()), |name| Err(unknown_argument(tool, fields, name)))?;
        // Models fill in arguments that they do not need with empty text.
        given.retain(|_, value| !value.is_null() && *value != "");
        Ok(Arguments(given))
    }

    /// Takes the arguments of a tool that checks their names itself, without extras of the client.
    pub(super) fn unchecked(mut given: JsonObject) -> Arguments {
        given.retain(|name, _| !name.starts_with('_'));
        Arguments(given)
    }

    /// Takes the arguments that select a part of the answer.
    ///
    /// # Errors
    /// `InvalidArgument` for a value out of bounds, and for a cursor that is not one of this call.
    pub(super) fn take_page(&mut self, tool: &str) -> Result<Page> {
        let call = cursor::fingerprint(tool, &self.0);
        let start = self.text("cursor")?.map(|it| cursor::decode(&call, &it)).transpose()?;
        let max_chars = self.number("max_chars", CHARS)?.unwrap_or(MAX_CHARS as u64);
        let structured = self.flag("structured")?;
        PAGE_FIELDS.iter().for_each(|it| drop(self.0.remove(*it)));
        Ok(Page {
            start: start.unwrap_or(0),
            is_first: start.is_none(),
            max_chars: max_chars as usize,
            structured,
            call,
        })
    }

    /// Returns a text argument.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Error::invalid(format!("`{name}` is not a text")).field(name)),
        }
    }

    /// Returns a text argument that the tool cannot do without.
    pub(super) fn required(&self, name: &'static str) -> Result<String> {
        self.text(name)?.ok_or_else(|| Error::invalid(format!("`{name}` is missing")).field(name))
    }

    /// Returns a number, also from text such as `"5"`. A value out of range is refused instead of changed, so that the
    /// model notices.
    pub(super) fn number(&self, name: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value
                .as_u64()
                .or_else(|| value.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0).map(|it| it as u64)),
        };
        number.filter(|it| range.contains(it)).map(Some).ok_or_else(|| {
            Error::invalid(format!("`{name}` is not between {} and {}", range.start(), range.end())).field(name)
        })
    }

    /// Returns whether a flag is set.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool> {
        match self.0.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(_) => Err(Error::invalid(format!("`{name}` is not true or false")).field(name)),
        }
    }

    /// Removes an argument.
    pub(super) fn without(mut self, name: &str) -> Arguments {
        self.0.remove(name);
        self
    }

    /// Returns the arguments that are left as JSON.
    pub(super) fn into_json(self) -> JsonObject {
        self.0
    }
}

fn is_harmless(name: &str, value: &Value) -> bool {
    let is_empty = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    is_empty || name.starts_with('_') || IGNORED.contains(&name)
}

fn unknown_argument(tool: &str, fields: &[&str], name: &str) -> Error {
    let lower = name.to_lowercase();
    let mut known = OTHER_NAMES.iter().filter(|it| fields.contains(&it.0));
    let renamed = known.find(|it| it.1.contains(&lower.as_str())).map(|it| it.0);
    let near = || suggest::nearest(name, fields.iter().copied());
    let hint = match renamed.or_else(near) {
        Some(right) => format!("use `{right}`"),
        None if is_filter(&lower) && fields.contains(&"query") => {
            format!("write filters into `query`, e.g. `{}`", filter_example(&lower))
        }
        None => format!("it takes {}", fields.join(", ")),
    };
    Error::invalid(format!("`{tool}` has no argument `{name}`")).field(name.to_string()).hint(hint)
}

/// Filters that other servers take as arguments, with the operator of the question that vic has for them.
const FILTERS: [(&str, &[&str]); 5] = [
    ("ext:pdf path:Contracts after:2024-03", &["filter", "filters"]),
    ("ext:pdf", &["ext", "extension", "extensions", "file_type", "filetype", "type", "types"]),
    ("after:2024-03", &["date", "since", "modified_after", "modified_before", "after", "before", "from", "to"]),
    ("size:>5MB", &["min_size", "max_size"]),
    ("path:Contracts", &["glob", "path_glob", "include"]),
];

fn is_filter(name: &str) -> bool {
    FILTERS.iter().any(|it| it.1.contains(&name))
}

fn filter_example(name: &str) -> &'static str {
    FILTERS.iter().find(|it| it.1.contains(&name)).map_or("ext:pdf", |it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 6] = ["query", "root", "limit", "max_chars", "cursor", "structured"];

    fn parse(arguments: Value) -> Result<Arguments> {
        Arguments::new("search", &FIELDS, arguments.as_object().unwrap().clone())
    }

    #[test]
    fn names_of_other_servers_get_the_right_name() {
        for (name, right) in [
            ("q", "use `query`"),
            ("Question", "use `query`"),
            ("path", "use `root`"),
            ("top_k", "use `limit`"),
            ("offset", "use `cursor`"),
            ("max_tokens", "use `max_chars`"),
            ("format", "use `structured`"),
            ("qeury", "use `query`"),
            ("filters", "ext:pdf path:Contracts after:2024-03"),
            ("extensions", "`ext:pdf`"),
            ("colour", "it takes query, root, limit"),
        ] {
            let error = parse(json!({"query": "x", name: "y"})).unwrap_err();
            assert!(error.message.contains(&format!("`{name}`")), "{error}");
            assert_eq!(error.field.as_deref(), Some(name));
            assert!(error.hint.as_deref().unwrap().contains(right), "{name}: {:?}", error.hint);
        }
    }

    #[test]
    fn extras_without_meaning_are_ignored() {
        let extras = json!({
            "query": "x", "_meta": {"progressToken": 1}, "explanation": "because", "filters": {}, "path": null,
            "top_k": null, "extensions": [], "root": null,
        });
        let arguments = parse(extras).unwrap();
        assert_eq!(arguments.into_json(), json!({"query": "x"}).as_object().unwrap().clone());
    }

    #[test]
    fn values_are_read_leniently_and_kept_in_bounds() {
        let arguments = parse(json!({"query": 7, "limit": "5", "structured": "true"})).unwrap();
        assert_eq!(arguments.text("query").unwrap().as_deref(), Some("7"));
        assert_eq!(arguments.number("limit", 1..=50).unwrap(), Some(5));
        assert!(arguments.flag("structured").unwrap());
        for wrong in [json!(0), json!(51), json!(-1), json!(1.5), json!("many"), json!([1])] {
            let error = parse(json!({"limit": wrong})).unwrap().number("limit", 1..=50).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("limit"), "{wrong}");
        }
        assert_eq!(parse(json!({})).unwrap().required("query").unwrap_err().field.as_deref(), Some("query"));
    }

    #[test]
    fn page_is_taken_out_of_the_arguments() {
        let mut arguments = parse(json!({"query": "x", "max_chars": 300, "structured": true})).unwrap();
        let page = arguments.take_page("search").unwrap();
        assert_eq!((page.start, page.is_first, page.max_chars, page.structured), (0, true, 300, true));
        assert_eq!(arguments.into_json().len(), 1);
        for (field, value) in [("max_chars", json!(199)), ("max_chars", json!(20_001)), ("cursor", json!("x"))] {
            let mut arguments = parse(json!({"query": "x", field: value})).unwrap();
            assert_eq!(arguments.take_page("search").unwrap_err().field.as_deref(), Some(field));
        }
    }
}
