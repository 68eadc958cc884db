//! Parses the arguments of a call of an MCP tool. Models often use argument names of other servers: the error for such a
//! name suggests vic's name. Additional arguments without an effect, such as `reasoning`, are ignored.

use std::ops::RangeInclusive;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::compact_output::MAX_CHARS;
use crate::error::{Error, Result};
use crate::graph::suggest;
use crate::serve::mcp::cursor;

/// Arguments of every tool that returns its result in pages: the size of a page, where it starts, and its format.
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

/// Allowed values of `max_chars`. The lowest leaves space for one passage; the highest is about 5,000 tokens.
pub(super) const CHARS: RangeInclusive<u64> = 200..=20_000;

/// For each argument of vic, the names that models use for it instead. A call with such a name fails with a hint that
/// gives vic's name.
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

/// Additional arguments that clients and models send, and that vic ignores. It also ignores names that begin with `_`,
/// e.g. `_meta`.
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

/// The page of a result that a call asks for: where it starts, its size and its format.
#[derive(Debug)]
pub(super) struct Page {
    /// Position in the result at which the page starts: the index of an entry, or of a character of a text.
    pub(super) start: u64,
    /// Whether this is the first page, which also has the lines before the list, e.g. the quotes of an answer.
    pub(super) is_first: bool,
    /// Maximum number of characters of the page.
    pub(super) max_chars: usize,
    /// Whether the result is returned as JSON instead of text.
    pub(super) structured: bool,
    /// Hash of the tool and its arguments, which the cursor of the next page repeats, so that it fits no other call.
    pub(super) call: [u8; 6],
}

/// The arguments of one call of a tool, after unknown names were rejected.
#[derive(Debug)]
pub(super) struct Arguments(JsonObject);

impl Arguments {
    /// Checks the argument names of a call; `fields` are the names that the tool has.
    ///
    /// # Errors
    /// `InvalidArgument` if an argument with an unknown name has a value; the hint gives the name that was probably meant.
    pub(super) fn new(tool: &str, fields: &[&str], mut given: JsonObject) -> Result<Arguments> {
        given.retain(|name, value| fields.contains(&name.as_str()) || !is_harmless(name, value));
        let unknown = given.keys().find(|it| !fields.contains(&it.as_str()));
        unknown.map_or(Ok(()), |name| Err(unknown_argument(tool, fields, name)))?;
        // Removes empty values, because models send arguments that they do not need as empty text.
        given.retain(|_, value| !value.is_null() && *value != "");
        Ok(Arguments(given))
    }

    /// Takes arguments whose names the tool itself will check; removes those that begin with `_`, which clients add.
    pub(super) fn unchecked(mut given: JsonObject) -> Arguments {
        given.retain(|name, _| !name.starts_with('_'));
        Arguments(given)
    }

    /// Removes the arguments that select a page of the result, and returns them.
    ///
    /// # Errors
    /// `InvalidArgument` if a value is out of bounds, or if the cursor does not belong to a call with these arguments.
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

    /// Returns a text argument; `None` if it is missing.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(Error::invalid(format!("`{name}` is not a text")).field(name)),
        }
    }

    /// Returns a required text argument; a missing one is an error.
    pub(super) fn required(&self, name: &'static str) -> Result<String> {
        self.text(name)?.ok_or_else(|| Error::invalid(format!("`{name}` is missing")).field(name))
    }

    /// Returns a number, which may be written as text such as `"5"`. A value out of range is an error and is not adjusted
    /// to the range, so that the model learns of its mistake.
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

    /// Returns a boolean argument; false if it is missing.
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

    /// Returns the remaining arguments as JSON.
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

/// Names of filter arguments of other servers, each list with an example of the operator that vic has instead. The hint of
/// the error says to write this operator into `query`.
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
