//! Error messages for a plugin whose output is not a response of the plugin protocol: what it printed, and what was
//! expected.

use serde_json::{Map, Value};

/// Maximum number of characters of an output that an error message quotes.
const MAX_QUOTED_CHARS: usize = 120;
/// Maximum number of field names that an error message lists.
const MAX_FIELDS: usize = 6;
/// Maximum number of characters of a field name in an error message.
const MAX_FIELD_CHARS: usize = 40;

/// Descriptions of messages of other protocols, each with the fields that such a message has. The first row whose fields
/// are all in the output is used.
const OTHER_PROTOCOLS: [(&[&str], &str); 14] = [
    (&["jsonrpc"], "a JSON-RPC message, as MCP has it"),
    (&["choices"], "an OpenAI chat completion (`choices`)"),
    (&["tool_calls"], "OpenAI tool calls (`tool_calls`)"),
    (&["output", "object"], "an OpenAI response (`output`)"),
    (&["candidates"], "a Gemini response (`candidates`)"),
    (&["message", "done"], "an answer of the Ollama API (`message`)"),
    (&["response", "done"], "an answer of the Ollama API (`response`)"),
    (&["content", "stop_reason"], "an Anthropic message (`content`)"),
    (&["role", "content"], "a chat message (`role`, `content`)"),
    (&["protocol", "task"], "the request itself"),
    (&["structuredContent"], "the result of an MCP tool"),
    (&["content", "isError"], "the result of an MCP tool"),
    (&["tool", "args"], "a step of the transcript (`tool`, `args`)"),
    (&["name", "arguments"], "a bare tool call (`name`, `arguments`)"),
];

/// The fields of responses to all tasks, to recognize a response to another task than the one that was given.
const RESPONSE_FIELDS: [&str; 7] =
    ["query_ir_v1", "axql", "answer", "added_proposals", "schema_hint_updates", "tool_call", "final_answer"];

/// What the response to a task must have.
pub(super) struct Expected {
    /// Name of the task.
    pub(super) task: &'static str,
    /// The response must have one of these fields.
    pub(super) fields: &'static [&'static str],
    /// Whether a response without any of these fields is valid too.
    pub(super) may_be_empty: bool,
}

/// Parses the whole output of a plugin as one JSON document.
///
/// # Errors
/// What the plugin printed instead, as the rest of a sentence that begins with the plugin.
pub(super) fn parse_output(output: &[u8]) -> Result<Value, String> {
    let problem = match serde_json::from_slice(output) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    if text.is_empty() {
        return Err("printed nothing".into());
    }
    // Replaces line breaks in the quoted output by spaces, because the error message is one sentence.
    let on_one_line = |it: char| if it.is_whitespace() || it.is_control() { ' ' } else { it };
    let shown: String = text.chars().take(MAX_QUOTED_CHARS).map(on_one_line).collect();
    Err(match describe_text(text) {
        Some(what) => format!("printed {what}: `{shown}`"),
        None if problem.is_eof() => format!("printed incomplete JSON: `{shown}`"),
        None => format!("printed text that is not JSON: `{shown}`"),
    })
}

/// Describes an output that is not a single JSON document, e.g. `2 JSON documents`; `None` if its form is not recognized.
fn describe_text(text: &str) -> Option<String> {
    if ["data:", "event:"].iter().any(|it| text.starts_with(it)) {
        return Some("a stream of server-sent events".into());
    }
    if text.starts_with("Content-Length:") {
        return Some("a message with headers, as language servers do".into());
    }
    if text.starts_with("```") {
        return Some("a code fence around its answer".into());
    }
    // Counts only objects and arrays as JSON documents, because a sentence may begin with a number or `true`.
    let is_document = |it: &serde_json::Result<Value>| matches!(it, Ok(Value::Object(_) | Value::Array(_)));
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let whole = documents.by_ref().take_while(is_document).count();
    let all_read = text[documents.byte_offset()..].trim().is_empty();
    match (whole, all_read) {
        (0, _) => (!text.starts_with(['{', '[']) && text.contains("\n{")).then(|| "text before its JSON".into()),
        (2.., true) => Some(format!("{whole} JSON documents")),
        _ => Some("text after its JSON".into()),
    }
}

impl Expected {
    /// Describes the response that the task expects, as the end of a sentence.
    pub(super) fn sentence(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|it| format!("`{it}`")).collect();
        let fields = match fields.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => fields.concat(),
        };
        format!("the task `{}` expects one JSON object with {fields}", self.task)
    }

    /// Describes a JSON value that cannot be a response to the task, e.g. `a JSON list`; `None` if it may be a response.
    pub(super) fn describe_other(&self, value: &Value) -> Option<String> {
        let map = match value {
            Value::Object(map) => map,
            Value::Array(_) => return Some("a JSON list".into()),
            Value::String(_) => return Some("a JSON string".into()),
            Value::Number(_) | Value::Bool(_) | Value::Null => return Some(format!("`{value}`")),
        };
        let has = |field: &str| map.get(field).is_some_and(|it| !it.is_null());
        if self.fields.iter().any(|it| has(it)) {
            return None;
        }
        let other = OTHER_PROTOCOLS.iter().find(|(fields, _)| fields.iter().all(|it| has(it)));
        if let Some((_, what)) = other {
            return Some((*what).into());
        }
        if has("error") || self.may_be_empty && is_empty_response(map) {
            return None;
        }
        Some(match RESPONSE_FIELDS.iter().find(|it| has(it)) {
            Some(field) => format!("the response to another task (`{field}`)"),
            None if map.is_empty() => "an empty JSON object".into(),
            None => format!("a JSON object with {}", field_list(map)),
        })
    }
}

/// Returns whether an object has no field except `notes`: such a response proposes nothing.
fn is_empty_response(map: &Map<String, Value>) -> bool {
    map.iter().all(|(name, value)| name == "notes" || value.is_null())
}

fn field_list(map: &Map<String, Value>) -> String {
    let short = |name: &String| name.chars().take(MAX_FIELD_CHARS).collect::<String>();
    let names: Vec<String> = map.keys().take(MAX_FIELDS).map(|it| format!("`{}`", short(it))).collect();
    let more = if map.len() > MAX_FIELDS { " and more" } else { "" };
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_that_is_not_one_document_is_described() {
        for (output, what) in [
            ("", "printed nothing"),
            (" \n ", "printed nothing"),
            ("31 kg", "printed text that is not JSON: `31 kg`"),
            ("{\"axql\": \"sel", "incomplete JSON"),
            ("{} {}", "printed 2 JSON documents"),
            ("{\"a\": 1}\n{\"b\": 2}\n[3]\n", "printed 3 JSON documents"),
            ("{\"a\": 1}\ndone", "text after its JSON"),
            ("loading the model\n{\"axql\": \"x\"}", "text before its JSON"),
            ("data: {\"choices\": []}\n\ndata: [DONE]", "server-sent events"),
            ("Content-Length: 2\r\n\r\n{}", "headers"),
            ("```json\n{}\n```", "code fence"),
        ] {
            let said = parse_output(output.as_bytes()).unwrap_err();
            assert!(said.contains(what), "{output:?}: {said}");
        }
        assert!(parse_output(b"\xff\xfe{").unwrap_err().contains("not JSON"));
        let deep = "[".repeat(100_000);
        assert!(parse_output(deep.as_bytes()).unwrap_err().len() < 300);
        assert_eq!(parse_output(b" {\"a\": 1} \n").unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn long_field_names_are_cut() {
        let wide: Map<String, Value> = (0..50).map(|it| (format!("{it}{}", "x".repeat(9_000)), json!(1))).collect();
        let step = Expected { task: "step", fields: &["tool_call"], may_be_empty: false };
        let said = step.describe_other(&Value::Object(wide)).unwrap();
        assert!(said.len() < 400 && said.ends_with("and more"), "{said}");
    }
}
