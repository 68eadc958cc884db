//! Tells what a plugin printed when that is no response of the protocol, and what was expected instead.

use serde_json::{Map, Value};

use crate::llm::plugin::protocol::PluginTask;

/// Maximum number of characters of an output that an error message quotes.
const MAX_QUOTED_CHARS: usize = 120;
/// Maximum number of field names that an error message lists.
const MAX_FIELDS: usize = 6;
/// Maximum number of characters of a field name in an error message.
const MAX_FIELD_CHARS: usize = 40;

/// Fields of messages of other protocols, with the name of the message. The first row whose fields are all present counts.
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

/// Fields of a response that belong to other tasks than the one that was asked.
const RESPONSE_FIELDS: [&str; 7] =
    ["query_ir_v1", "axql", "answer", "added_proposals", "schema_hint_updates", "tool_call", "final_answer"];

/// Returns what the task expects, as the end of a sentence.
pub(super) fn expected(task: &PluginTask) -> String {
    let fields = match task {
        PluginTask::ToQuery { .. } => "`query_ir_v1` or `axql`",
        PluginTask::Answer { .. } => "`answer`",
        PluginTask::AugmentProposals { .. } => "`added_proposals` or `schema_hint_updates`",
        PluginTask::ToolLoopStep { .. } => "`tool_call` or `final_answer`",
    };
    format!("the task `{}` expects one JSON object with {fields}", task.kind())
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
    // Quotes one line, because the error is one sentence.
    let on_one_line = |it: char| if it.is_whitespace() || it.is_control() { ' ' } else { it };
    let shown: String = text.chars().take(MAX_QUOTED_CHARS).map(on_one_line).collect();
    Err(match describe_text(text) {
        Some(what) => format!("printed {what}: `{shown}`"),
        None if problem.is_eof() => format!("printed incomplete JSON: `{shown}`"),
        None => format!("printed text that is not JSON: `{shown}`"),
    })
}

/// Returns what a text that is not one JSON document is, if that can be told.
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
    // Counts no bare numbers and words, because a sentence may begin with one.
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

/// Returns what a JSON value is that is no response to the task; `None` if it may be one.
pub(super) fn describe_other(value: &Value, task: &PluginTask) -> Option<String> {
    let map = match value {
        Value::Object(map) => map,
        Value::Array(items) => return Some(format!("a JSON list of {} items", items.len())),
        Value::String(_) => return Some("a JSON string".into()),
        Value::Number(_) | Value::Bool(_) | Value::Null => return Some(format!("`{value}`")),
    };
    let has = |field: &str| map.get(field).is_some_and(|it| !it.is_null());
    if answers(map, task) {
        return None;
    }
    let other = OTHER_PROTOCOLS.iter().find(|(fields, _)| fields.iter().all(|it| has(it)));
    if let Some((_, what)) = other {
        return Some((*what).into());
    }
    if has("error") || matches!(task, PluginTask::AugmentProposals { .. }) && is_empty_response(map) {
        return None;
    }
    Some(match RESPONSE_FIELDS.iter().find(|it| has(it)) {
        Some(field) => format!("the response to another task (`{field}`)"),
        None if map.is_empty() => "an empty JSON object".into(),
        None => format!("a JSON object with {}", field_list(map)),
    })
}

/// Returns whether an object has a field that answers the task.
fn answers(map: &Map<String, Value>, task: &PluginTask) -> bool {
    let fields: &[&str] = match task {
        PluginTask::ToQuery { .. } => &["query_ir_v1", "axql"],
        // Accepts the fields of a later version, with which a plugin may call a tool first.
        PluginTask::Answer { .. } => &["answer", "tool_call", "final_answer"],
        PluginTask::AugmentProposals { .. } => &["added_proposals", "schema_hint_updates"],
        PluginTask::ToolLoopStep { .. } => &["tool_call", "final_answer"],
    };
    fields.iter().any(|it| map.get(*it).is_some_and(|it| !it.is_null()))
}

/// Returns whether an object has at most remarks, which is a response that proposes nothing.
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
    use crate::llm::plugin::{PluginResponse, SchemaHints};

    fn step() -> PluginTask {
        PluginTask::ToolLoopStep {
            question: "q".into(),
            schema: SchemaHints::default(),
            tools: Vec::new(),
            transcript: Vec::new(),
            refused: None,
        }
    }

    fn query() -> PluginTask {
        PluginTask::ToQuery { question: "q".into(), schema: SchemaHints::default() }
    }

    fn augment() -> PluginTask {
        PluginTask::AugmentProposals { proposals: json!({}), evidence_chunks: None, max_new_proposals: 1 }
    }

    #[test]
    fn shapes_of_other_protocols_are_named() {
        let text = || json!([{ "type": "text", "text": "31 kg" }]);
        let said = || json!({ "role": "assistant", "content": "31 kg" });
        for (response, what) in [
            (json!({ "object": "chat.completion", "choices": [{ "message": said() }] }), "OpenAI chat completion"),
            (json!({ "object": "response", "output": text(), "error": null }), "OpenAI response"),
            (json!({ "tool_calls": [{ "function": { "name": "axql_run", "arguments": "{}" } }] }), "OpenAI tool calls"),
            (json!({ "jsonrpc": "2.0", "id": 1, "result": {} }), "MCP"),
            (json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }), "MCP"),
            (json!({ "content": text(), "isError": false }), "MCP tool"),
            (json!({ "type": "message", "role": "assistant", "content": text(), "stop_reason": "x" }), "Anthropic"),
            (json!({ "model": "m", "message": said(), "done": true }), "Ollama"),
            (json!({ "model": "m", "response": "31 kg", "done": true }), "Ollama"),
            (json!({ "candidates": [] }), "Gemini"),
            (said(), "chat message"),
            (json!({ "protocol": "axiograph_llm_plugin_v3", "task": { "kind": "tool_loop_step" } }), "request itself"),
            (json!({ "tool": "axql_run", "args": {} }), "step of the transcript"),
            (json!({ "axql": "select ?x where ?x is Node" }), "the response to another task (`axql`)"),
            (json!({ "answer": "31 kg" }), "the response to another task (`answer`)"),
            (json!({}), "an empty JSON object"),
            (json!([1, 2]), "a JSON list of 2 items"),
            (json!("31 kg"), "a JSON string"),
            (json!(null), "`null`"),
            (json!({ "reply": "31 kg", "ok": true }), "a JSON object with `reply`, `ok`"),
        ] {
            let error = PluginResponse::parse(response.clone(), &step(), "the plugin").unwrap_err();
            let (begin, end) = ("the plugin sent ", "expects one JSON object with `tool_call` or `final_answer`");
            assert!(error.message.starts_with(begin) && error.message.ends_with(end), "{response}: {error}");
            assert!(error.message.contains(what), "{response}: {error}");
        }
        let error = PluginResponse::parse(json!({ "final_answer": { "answer": "x" } }), &query(), "it").unwrap_err();
        assert!(error.message.contains("`final_answer`") && error.message.contains("`axql`"), "{error}");
    }

    #[test]
    fn responses_with_further_fields_are_not_other_shapes() {
        for (task, response) in [
            (step(), json!({ "tool_call": { "name": "db_summary" }, "choices": [], "role": "x", "content": "y" })),
            (query(), json!({ "axql": "x", "jsonrpc": "2.0" })),
            (augment(), json!({})),
            (augment(), json!({ "notes": ["nothing to add"], "error": null })),
            (augment(), json!({ "added_proposals": [] })),
        ] {
            assert_eq!(describe_other(&response, &task), None, "{response}");
            PluginResponse::parse(response.clone(), &task, "it").unwrap_or_else(|it| panic!("{response}: {it}"));
        }
        assert!(describe_other(&json!({ "proposals": [] }), &augment()).is_some());
    }

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
        let said = describe_other(&Value::Object(wide), &step()).unwrap();
        assert!(said.len() < 400 && said.ends_with("and more"), "{said}");
    }
}
