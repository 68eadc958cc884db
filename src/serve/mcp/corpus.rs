//! The contract for models: a tool for each verb, and the help as resources.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ReadResourceResult, Resource, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use crate::contract::registry::{VERBS, Verb};
use crate::contract::{help, schema};
use crate::error::{Error, Result};
use crate::model::CorpusCall;
use crate::serve::mcp::Backend;

const PREFIX: &str = "vic://corpus/help";

/// What is beside the verbs, with what it is for.
const BESIDE: [(&str, &str); 3] = [
    (
        "VIEW",
        "Creates, lists, shows and deletes views of documents: `action`, `name`, and one of filter, files, session; \
         `delete` with session forgets a session",
    ),
    ("JOB", "Says where a job of the contract stands, by `id`"),
    ("RESULT", "Returns an earlier answer of the contract exactly as it was, by `id`"),
];

fn tool_name(verb: &str) -> String {
    format!("corpus_{}", verb.to_lowercase())
}

/// A tool for each verb, and for what is beside them.
pub(crate) fn tools() -> Vec<Tool> {
    let verbs = VERBS.iter().map(|verb| {
        let about = format!("Use it {}. It does not: {}", verb.when, verb.never);
        let reads = verb.name != "INGEST";
        made(verb.name, about, input(verb)).with_annotations(
            ToolAnnotations::new().read_only(reads).destructive(false).idempotent(true).open_world(!reads),
        )
    });
    let beside = BESIDE.iter().map(|(name, about)| {
        let any = json!({"type": "object"});
        made(name, about.to_string(), any)
            .with_annotations(ToolAnnotations::new().read_only(*name != "VIEW").open_world(false))
    });
    verbs.chain(beside).collect()
}

fn made(verb: &str, about: String, input: Value) -> Tool {
    let schema = match input {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(tool_name(verb), about, Arc::new(schema))
}

/// The fields of a verb. Of one with several forms, those of all: clients want one object, and the validator says the rest.
fn input(verb: &'static Verb) -> Value {
    let request = schema::of(verb)["request"].take();
    let Some(forms) = request["oneOf"].as_array() else { return request };
    let mut properties = serde_json::Map::new();
    for form in forms {
        for (name, field) in form["properties"].as_object().into_iter().flatten() {
            if name != "form" {
                properties.entry(name.clone()).or_insert_with(|| field.clone());
            }
        }
    }
    let names: Vec<&str> = verb.forms.iter().map(|it| it.name).collect();
    properties.insert("form".into(), json!({"enum": names}));
    json!({"type": "object", "properties": properties, "required": ["form"], "additionalProperties": false})
}

/// Calls one of [`tools`]; none when the name is no name of them.
pub(crate) async fn call(backend: &dyn Backend, name: &str, arguments: &JsonObject) -> Option<Result<CallToolResult>> {
    let known = VERBS.iter().map(|it| it.name).chain(BESIDE.iter().map(|it| it.0));
    let verb = known.into_iter().find(|it| tool_name(it) == name)?;
    let call = CorpusCall { verb: verb.into(), request: arguments.clone() };
    let reply = match backend.corpus(call).await {
        Ok(reply) => reply,
        Err(error) => return Some(Err(error)),
    };
    let content = vec![ContentBlock::text(reply.text)];
    // A refusal tells the model what to do next: it is a result that it can read.
    Some(Ok(if reply.refused.is_some() { CallToolResult::error(content) } else { CallToolResult::success(content) }))
}

/// The help as resources: on all verbs, and on each.
pub(crate) fn resources() -> Vec<Resource> {
    let all = Resource::new(PREFIX, "The contract: its verbs").with_mime_type("text/plain");
    let each = VERBS.iter().map(|it| {
        Resource::new(format!("{PREFIX}/{}", it.name.to_lowercase()), format!("The contract: {}", it.name))
            .with_mime_type("text/plain")
    });
    std::iter::once(all).chain(each).collect()
}

/// Reads one of [`resources`]; none when the address is none of them.
pub(crate) fn read(uri: &str) -> Option<Result<ReadResourceResult>> {
    let rest = uri.strip_prefix(PREFIX)?;
    let verb = rest.strip_prefix('/');
    if verb.is_none() && !rest.is_empty() {
        return None;
    }
    let text = help::text(verb).map_err(|message| Error::not_found(message).field("uri"));
    Some(text.map(|it| ReadResourceResult::new(vec![ResourceContents::text(it, uri)])))
}
