//! The corpus API for language models: an MCP tool for each verb, and its help and schemas as MCP resources.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ReadResourceResult, Resource, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use crate::corpus::api::{help, schema};
use crate::error::{Error, Result};
use crate::model::CorpusRequest;
use crate::serve::mcp::arguments::{Arguments, PAGE_FIELDS, page_fields};
use crate::serve::mcp::backend::Backend;
use crate::serve::mcp::page::cut_long_text;
use crate::verbs::{MANAGEMENT_CALLS, VERBS, Verb};

const HELP: &str = "vic://corpus/help";

fn tool_name(verb: &str) -> String {
    format!("corpus_{}", verb.to_lowercase())
}

/// Returns an MCP tool for each verb and each management call.
pub(crate) fn tools() -> Vec<Tool> {
    let verbs = VERBS.iter().map(|verb| {
        let about = format!("Use it {}. It does not {}.", verb.when, verb.never);
        let reads = verb.name != "INGEST";
        verb_tool(verb.name, about, input_schema(verb)).with_annotations(
            ToolAnnotations::new().read_only(reads).destructive(false).idempotent(true).open_world(!reads),
        )
    });
    let beside = MANAGEMENT_CALLS.iter().map(|verb| {
        let about = format!("Use it {}. It does not {}.", verb.when, verb.never);
        verb_tool(verb.name, about, input_schema(verb))
            .with_annotations(ToolAnnotations::new().read_only(!["VIEW", "JOB"].contains(&verb.name)).open_world(false))
    });
    verbs.chain(beside).collect()
}

fn verb_tool(verb: &str, about: String, input: Value) -> Tool {
    let mut schema = match input {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(page_fields().into_iter().filter(|it| it.0 != "structured"));
    }
    Tool::new(tool_name(verb), about, Arc::new(schema))
}

/// Returns the schema of a verb's fields. MCP clients expect one object, so the forms of a verb are merged into one; the
/// validator of the corpus API checks the fields of each form.
fn input_schema(verb: &'static Verb) -> Value {
    let mut request = schema::schemas_of_verb(verb)["request"].take();
    if let Some(request) = request.as_object_mut() {
        request.retain(|name, _| !name.starts_with('$'));
    }
    let Some(forms) = request["oneOf"].as_array() else { return request };
    let mut properties = serde_json::Map::new();
    let chosen = if verb.name == "VIEW" { "action" } else { "form" };
    for form in forms {
        for (name, field) in form["properties"].as_object().into_iter().flatten() {
            if name != chosen {
                properties.entry(name.clone()).or_insert_with(|| field.clone());
            }
        }
    }
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).collect();
    properties.insert(chosen.into(), json!({"enum": names}));
    json!({"type": "object", "properties": properties, "required": [chosen], "additionalProperties": false})
}

/// Returns the verb that a tool of the corpus API runs.
pub(crate) fn verb_of_tool(tool: &str) -> Option<&'static str> {
    VERBS.iter().chain(MANAGEMENT_CALLS).map(|it| it.name).find(|it| tool_name(it) == tool)
}

/// Calls one of the [`tools`] of the corpus API. Its answer is the envelope that the other APIs return, and is cut only for
/// a call that sets `max_chars`.
pub(crate) async fn call(backend: &dyn Backend, tool: &str, arguments: JsonObject) -> Result<CallToolResult> {
    let verb = verb_of_tool(tool).ok_or_else(|| Error::not_found(format!("there is no tool `{tool}`")))?;
    let is_cut = PAGE_FIELDS.iter().any(|it| arguments.contains_key(*it));
    let mut arguments = Arguments::unchecked(arguments);
    let page = arguments.take_page(tool)?;
    let call = CorpusRequest { verb: verb.into(), request: arguments.into_json() };
    let reply = backend.corpus(call).await?;
    let content = || vec![ContentBlock::text(reply.text.clone())];
    // Returns a refused call as a result with the error flag, so that the model can read the reason and what to do next.
    Ok(match reply.error_code {
        Some(_) => CallToolResult::error(content()),
        None if is_cut => cut_long_text(&reply.text, &page),
        None => CallToolResult::success(content()),
    })
}

/// Returns help and schemas as MCP resources: help for all verbs, for each verb and form, and for the fields of QUERY.
pub(crate) fn resources() -> Vec<Resource> {
    let text = |path: &str, about: &str| Resource::new(format!("{HELP}{path}"), about).with_mime_type("text/plain");
    let mut all = vec![text("", "Corpus API: its verbs"), text("/fields", "Corpus API: fields of QUERY")];
    for verb in VERBS.iter().chain(MANAGEMENT_CALLS) {
        let path = format!("/{}", verb.name.to_lowercase());
        all.push(text(&path, &format!("Corpus API: {}", verb.name)));
        for form in verb.forms.iter().filter(|it| !it.name.is_empty()) {
            all.push(text(&format!("{path}/{}", form.name), &format!("Corpus API: {} {}", verb.name, form.name)));
        }
        for which in ["request", "response"] {
            let name = format!("Corpus API: schema of the {which} of {}", verb.name);
            let schema = Resource::new(format!("{}{path}/{which}", schema::ADDRESS), name);
            all.push(schema.with_mime_type("application/schema+json"));
        }
    }
    all
}

/// Reads one of the [`resources`] of the corpus API; returns `None` for any other URI.
pub(crate) fn read(uri: &str) -> Option<Result<ReadResourceResult>> {
    let (rest, is_help) = match (uri.strip_prefix(HELP), uri.strip_prefix(schema::ADDRESS)) {
        (Some(rest), _) => (rest, true),
        (None, Some(rest)) => (rest, false),
        (None, None) => return None,
    };
    let mut parts = rest.split('/');
    if parts.next() != Some("") {
        return None;
    }
    let (verb, part) = (parts.next(), parts.next());
    let text = if is_help {
        help::text(verb, part).map_err(|it| it.1["error"]["message"].as_str().unwrap_or_default().to_string())
    } else {
        schema_text(verb, part)
    };
    let text = text.map_err(|message| Error::not_found(message).field("uri"));
    Some(text.map(|it| ReadResourceResult::new(vec![ResourceContents::text(it, uri)])))
}

fn schema_text(verb: Option<&str>, which: Option<&str>) -> std::result::Result<String, String> {
    let found = verb.and_then(schema::schemas_by_name).map(|it| it[which.unwrap_or_default()].clone());
    let found = found.filter(Value::is_object);
    found.map(|it| it.to_string()).ok_or_else(|| "no such schema; `resources/list` lists all schemas".into())
}
