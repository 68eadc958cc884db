//! Generates the OpenAPI document from the list of HTTP operations and from the types of their requests and responses.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::Response;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::corpus::api::schema;
use crate::model::{
    AskRequest, AskResponse, CompleteRequest, Completion, Counts, CountsRequest, FilePage, FilesRequest, FolderList,
    FoldersRequest, ForgetSearches, GrepRequest, GrepResponse, IndexStart, JobList, JobReport, JobRequest, JobSnapshot,
    KeyNameRequest, Marks, MarksRequest, ModelList, NewKeyRequest, PagePreview, PageRequest, PastSearches, PathRequest,
    PauseRequest, PauseState, ReadRequest, Reading, RootCheck, RootCheckRequest, RootList, SearchNote, SettingChange,
    SettingList, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::serve::http::auth::is_public;
use crate::serve::http::health::Health;
use crate::serve::http::state::{Reply, json_response as reply};
use crate::serve::http::ui::session::{Login, SessionInfo};
use crate::verbs::{MANAGEMENT_CALLS, VERBS, Verb};

/// One HTTP operation in the OpenAPI document.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    request: Option<SchemaFn>,
    /// Status code of a successful response, with the schema of its body.
    response: (u16, Option<SchemaFn>),
    /// Whether the operation can respond with server-sent events.
    events: bool,
    /// Whether the operation has the query parameter `job_id`.
    job: bool,
    /// Whether the path of the operation has the parameter `verb`, the name of a corpus verb.
    verb: bool,
    /// Whether the operation responds with plain text.
    text: bool,
    /// Names of the query parameters.
    query: &'static [&'static str],
    /// Whether the operation responds with a JPEG picture.
    picture: bool,
}

type SchemaFn = fn(&mut SchemaGenerator) -> Value;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Returns a schema of the graph requests that only read.
fn graph_request(_: &mut SchemaGenerator) -> Value {
    let tool = json!({"type": "object", "properties": {"name": {"type": "string"}, "args": {"type": "object"}}});
    let query = json!({"type": "object", "properties": {
        "axql": {"type": ["string", "null"]}, "ir": {}, "elaborate": {"type": "boolean"}, "explain": {"type": "boolean"},
    }});
    json!({"oneOf": [
        {"type": "object", "properties": {"tool": tool}, "required": ["tool"]},
        {"type": "object", "properties": {"query": query}, "required": ["query"]},
    ]})
}

/// Returns a schema that accepts the request of any corpus verb, for the path with the verb as a parameter.
fn corpus_request(_: &mut SchemaGenerator) -> Value {
    json!({"anyOf": all_verbs().map(|it| component_reference(it.name, "request")).collect::<Vec<_>>()})
}

/// Returns a schema that accepts the response of any corpus verb, for the path with the verb as a parameter.
fn corpus_response(_: &mut SchemaGenerator) -> Value {
    json!({"anyOf": all_verbs().map(|it| component_reference(it.name, "response")).collect::<Vec<_>>()})
}

fn all_verbs() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter().chain(MANAGEMENT_CALLS)
}

/// Returns the name of a verb as written in a URL path.
fn verb_in_path(verb: &str) -> String {
    verb.to_lowercase().replace('_', "-")
}

/// Returns the name of the component that holds the request or response schema of a verb.
fn component_name(verb: &str, which: &str) -> String {
    format!("Corpus.{}.{which}", verb_in_path(verb))
}

fn component_reference(verb: &str, which: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", component_name(verb, which))})
}

/// Returns the published schemas of the corpus API as components, with their references rewritten to these components.
fn corpus_schemas() -> Map<String, Value> {
    let mut parts = Map::new();
    for verb in all_verbs() {
        let mut published = schema::schemas_of_verb(verb);
        for which in ["request", "response"] {
            let mut part = published[which].take();
            rewrite_references(&mut part);
            parts.insert(component_name(verb.name, which), part);
        }
    }
    parts
}

fn rewrite_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("$id");
            map.remove("$schema");
            let elsewhere = map.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix(schema::ADDRESS));
            if let Some((verb, which)) = elsewhere.and_then(|it| it.strip_prefix('/')?.split_once('/')) {
                let reference = component_reference(verb, which)["$ref"].take();
                map.insert("$ref".into(), reference);
            }
            map.values_mut().for_each(rewrite_references);
        }
        Value::Array(list) => list.iter_mut().for_each(rewrite_references),
        _ => (),
    }
}

/// Returns the OpenAPI operation for the path of one corpus verb.
fn verb_operation_json(verb: &Verb) -> Value {
    let answer = json_content(component_reference(verb.name, "response"));
    let told = |text: &str| json!({"description": text, "content": answer});
    json!({"post": {
        "operationId": format!("v1_corpus_{}", verb.name.to_lowercase()),
        "summary": format!("{}: use it {}", verb.name, verb.when),
        "requestBody": {"required": true, "content": json_content(component_reference(verb.name, "request"))},
        "responses": {
            "200": told("Done"), "202": told("The work continues in a job"), "default": told("Why the call was refused"),
        },
        "security": [{"key": []}],
    }})
}

const fn operation(method: &'static str, path: &'static str, summary: &'static str) -> Operation {
    Operation {
        method,
        path,
        summary,
        request: None,
        response: (200, None),
        events: false,
        job: false,
        verb: false,
        text: false,
        query: &[],
        picture: false,
    }
}

const OPERATIONS: &[Operation] = &[
    operation("get", "/", "Lists the paths"),
    Operation {
        response: (200, Some(schema_of::<Health>)),
        ..operation("get", "/health", "Checks the health of the daemon")
    },
    operation("get", "/openapi.json", "This document"),
    Operation { text: true, ..operation("get", "/metrics", "Metrics for Prometheus; requires the owner's key") },
    Operation {
        request: Some(schema_of::<AskRequest>),
        response: (200, Some(schema_of::<AskResponse>)),
        events: true,
        ..operation("post", "/v1/ask", "Answers a question; as events (plan, hits, text, done, error) on request")
    },
    Operation {
        request: Some(schema_of::<AskRequest>),
        response: (200, Some(schema_of::<AskResponse>)),
        ..operation("post", "/v1/search", "Answers a question without a summary")
    },
    Operation {
        request: Some(schema_of::<SimilarRequest>),
        response: (200, Some(schema_of::<AskResponse>)),
        ..operation("post", "/v1/similar", "Finds files similar to a file")
    },
    Operation {
        request: Some(schema_of::<GrepRequest>),
        response: (200, Some(schema_of::<GrepResponse>)),
        ..operation("post", "/v1/grep", "Finds matching lines of the indexed text")
    },
    Operation {
        request: Some(schema_of::<TableRequest>),
        response: (200, Some(schema_of::<TableResponse>)),
        ..operation("post", "/v1/table", "Queries a table of a file: rows, groups, exact values")
    },
    Operation {
        request: Some(schema_of::<FilesRequest>),
        response: (200, Some(schema_of::<FilePage>)),
        ..operation("post", "/v1/files", "Lists files by metadata")
    },
    Operation {
        request: Some(schema_of::<ReadRequest>),
        response: (200, Some(schema_of::<Reading>)),
        ..operation("post", "/v1/read", "Reads a part of the text of a file")
    },
    Operation {
        request: Some(corpus_request),
        response: (200, Some(corpus_response)),
        verb: true,
        ..operation("post", "/v1/corpus/{verb}", "Runs a verb of the corpus API; `schema` returns its JSON Schemas")
    },
    Operation {
        response: (200, Some(schema_of::<Status>)),
        ..operation("get", "/v1/status", "Returns the state of daemon and index")
    },
    Operation {
        request: Some(schema_of::<SyncRequest>),
        response: (200, Some(schema_of::<SyncReport>)),
        ..operation("post", "/v1/sync", "Waits until every earlier change is searchable")
    },
    Operation {
        request: Some(schema_of::<PauseRequest>),
        response: (200, Some(schema_of::<PauseState>)),
        ..operation("post", "/v1/pause", "Pauses reading files")
    },
    Operation {
        response: (200, Some(schema_of::<PauseState>)),
        ..operation("post", "/v1/resume", "Ends a requested pause")
    },
    Operation {
        request: Some(schema_of::<IndexStart>),
        response: (202, None),
        ..operation("post", "/v1/index/start", "Starts an index job")
    },
    Operation {
        response: (200, Some(schema_of::<JobReport>)),
        job: true,
        ..operation("get", "/v1/index/status", "Returns the state of a job")
    },
    Operation {
        events: true,
        job: true,
        ..operation("get", "/v1/index/events", "Streams the state of a job as events: progress, done or error")
    },
    Operation {
        request: Some(schema_of::<MarksRequest>),
        response: (200, Some(schema_of::<Marks>)),
        ..operation("post", "/v1/marks", "Returns which words of some texts match a question")
    },
    Operation {
        request: Some(schema_of::<CompleteRequest>),
        response: (200, Some(schema_of::<Completion>)),
        ..operation("post", "/v1/complete", "Completes a question that is being typed")
    },
    Operation {
        request: Some(schema_of::<CountsRequest>),
        response: (200, Some(schema_of::<Counts>)),
        ..operation("post", "/v1/counts", "Counts the matching files by type, folder, date, size, language and owner")
    },
    Operation {
        request: Some(schema_of::<PageRequest>),
        response: (200, Some(schema_of::<PagePreview>)),
        ..operation(
            "post",
            "/v1/page",
            "Returns the size of a page of a PDF, image or slide, and the places of words and of a quote on it",
        )
    },
    Operation {
        query: &["path", "page", "width"],
        picture: true,
        ..operation("get", "/v1/page/picture", "Returns the picture of a page of a PDF, image or slide as JPEG")
    },
    Operation {
        response: (200, Some(schema_of::<PastSearches>)),
        ..operation("get", "/v1/searches", "Returns the caller's remembered and saved searches")
    },
    Operation {
        request: Some(schema_of::<SearchNote>),
        response: (200, Some(schema_of::<PastSearches>)),
        ..operation("post", "/v1/searches", "Remembers a search, or saves it under a name")
    },
    Operation {
        request: Some(schema_of::<ForgetSearches>),
        response: (200, Some(schema_of::<PastSearches>)),
        ..operation("post", "/v1/searches/remove", "Deletes remembered or saved searches")
    },
    Operation {
        events: true,
        ..operation("get", "/v1/status/events", "Streams the status as events: at once, and whenever it changes")
    },
    Operation {
        response: (200, Some(schema_of::<JobList>)),
        query: &["limit"],
        ..operation("get", "/v1/jobs", "Lists index jobs, newest first")
    },
    Operation {
        request: Some(schema_of::<JobRequest>),
        response: (200, Some(schema_of::<JobSnapshot>)),
        ..operation("post", "/v1/jobs/cancel", "Cancels an index job")
    },
    Operation {
        response: (200, Some(schema_of::<RootList>)),
        ..operation("get", "/v1/roots", "Lists the indexed folders")
    },
    Operation {
        request: Some(schema_of::<RootCheckRequest>),
        response: (200, Some(schema_of::<RootCheck>)),
        ..operation("post", "/v1/roots/check", "Looks what indexing a folder would read and leave out")
    },
    Operation {
        request: Some(schema_of::<PathRequest>),
        ..operation("post", "/v1/roots/remove", "Removes a folder from the index; its files stay")
    },
    Operation {
        request: Some(schema_of::<FoldersRequest>),
        response: (200, Some(schema_of::<FolderList>)),
        ..operation("post", "/v1/folders", "Lists the folders in a folder")
    },
    Operation {
        response: (200, Some(schema_of::<SettingList>)),
        ..operation("get", "/v1/settings", "Returns all settings")
    },
    Operation {
        request: Some(schema_of::<SettingChange>),
        response: (200, Some(schema_of::<SettingList>)),
        ..operation("post", "/v1/settings", "Changes a setting in `config.toml`")
    },
    Operation {
        response: (200, Some(schema_of::<ModelList>)),
        ..operation("get", "/v1/models", "Lists the embedding models that vic knows")
    },
    Operation { query: &["limit"], ..operation("get", "/v1/audit", "Lists requests to other machines, newest first") },
    operation("get", "/v1/keys", "Lists the API keys without their secret parts"),
    Operation {
        request: Some(schema_of::<NewKeyRequest>),
        ..operation("post", "/v1/keys", "Creates an API key for some folders")
    },
    Operation {
        request: Some(schema_of::<KeyNameRequest>),
        ..operation("post", "/v1/keys/revoke", "Revokes an API key")
    },
    Operation {
        request: Some(graph_request),
        ..operation("post", "/v1/graph", "Calls a tool of the graph, or runs a query in AxQL")
    },
    operation("get", "/ui/", "The web page"),
    Operation {
        response: (200, Some(schema_of::<SessionInfo>)),
        ..operation("get", "/ui/session", "Describes the session of the web page")
    },
    Operation {
        request: Some(schema_of::<Login>),
        response: (200, Some(schema_of::<SessionInfo>)),
        ..operation("post", "/ui/session", "Opens a session with a code of `vic ui`, or with a key")
    },
    operation("post", "/ui/session/end", "Ends the session of the web page"),
    operation("post", "/ui/session/end_all", "Ends every session of the web page"),
    Operation {
        request: Some(schema_of::<PathRequest>),
        ..operation("post", "/ui/open", "Opens a document in its program; only for a session of `vic ui`")
    },
    operation("post", "/mcp", "Model Context Protocol, streamable HTTP"),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(build_document);

/// `GET /openapi.json`: returns the OpenAPI document.
pub(crate) async fn document() -> Reply {
    let response: Response = reply(StatusCode::OK, &*DOCUMENT)?;
    Ok(response)
}

/// `GET /`: returns the version of the daemon, and a list of the paths.
pub(crate) async fn root() -> Reply {
    reply(
        StatusCode::OK,
        &json!({
            "name": "vic",
            "version": env!("CARGO_PKG_VERSION"),
            "paths": path_summaries(),
            "grpc": "vic.v1.Vic, with reflection, on this port",
            "mcp": "/mcp",
        }),
    )
}

/// Returns the method, path and summary of each operation.
fn path_summaries() -> Value {
    let line = |it: &Operation| (format!("{} {}", it.method.to_uppercase(), it.path), json!(it.summary));
    Value::Object(OPERATIONS.iter().map(line).collect())
}

fn build_document() -> Value {
    let mut generator =
        SchemaSettings::draft2020_12().with(|it| it.definitions_path = "/components/schemas".into()).into_generator();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let told = operation_json(operation, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = told;
    }
    for verb in all_verbs() {
        paths.insert(format!("/v1/corpus/{}", verb_in_path(verb.name)), verb_operation_json(verb));
    }
    let mut schemas = generator.take_definitions(true);
    schemas.extend(corpus_schemas());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "vic",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Local-first indexing and search of files",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8765"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Refused": {"description": "The request was refused or failed", "content": json_content(error_schema())},
                "Full": {"description": "Too little free space on disk", "content": json_content(error_schema())},
            },
        },
    })
}

fn operation_json(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let (status, made) = operation.response;
    let mut content = match (made, status) {
        (Some(make), _) => json_content(make(generator)),
        (None, 202) => json_content(accepted_schema()),
        (None, _) if operation.text => json!({"text/plain": {"schema": {"type": "string"}}}),
        (None, _) if operation.picture => json!({"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}),
        (None, _) if operation.events => json!({}),
        (None, _) => json_content(json!({"type": "object"})),
    };
    if operation.events {
        content["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
    let mut responses = Map::from_iter([(status.to_string(), json!({"description": "Done", "content": content}))]);
    responses.insert("default".into(), json!({"$ref": "#/components/responses/Refused"}));
    if operation.path == "/v1/index/start" {
        responses.insert("507".into(), json!({"$ref": "#/components/responses/Full"}));
    }
    let name: String = operation.path.split('/').filter(|it| !it.is_empty()).collect::<Vec<_>>().join("_");
    let is_shared = OPERATIONS.iter().filter(|it| it.path == operation.path).count() > 1;
    let name = if is_shared { format!("{name}_{}", operation.method) } else { name };
    let name = if name.is_empty() { "root".to_string() } else { name.replace('.', "_").replace(['{', '}'], "") };
    let mut told = json!({"operationId": name, "summary": operation.summary, "responses": responses});
    if let Some(make) = operation.request {
        told["requestBody"] = json!({"required": true, "content": self::json_content(make(generator))});
    }
    if !operation.query.is_empty() {
        let parameter = |it: &&str| json!({"name": it, "in": "query", "schema": {"type": "string"}});
        told["parameters"] = operation.query.iter().map(parameter).collect();
    }
    if operation.job {
        told["parameters"] = json!([{"name": "job_id", "in": "query", "required": true, "schema": {"type": "string"}}]);
    }
    if operation.verb {
        let all: Vec<String> = all_verbs().map(|it| verb_in_path(it.name)).collect();
        told["parameters"] = json!([{"name": "verb", "in": "path", "required": true, "schema": {"enum": all}}]);
    }
    if !is_public(operation.path) {
        told["security"] = json!([{"key": []}]);
    }
    told
}

fn json_content(schema: Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn accepted_schema() -> Value {
    json!({
        "type": "object",
        "required": ["status", "job_id"],
        "properties": {"status": {"const": "accepted"}, "job_id": {"type": "string"}},
    })
}

fn error_schema() -> Value {
    let text = json!({"type": ["string", "null"]});
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message", "field", "hint"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "field": text, "hint": text},
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::VERB_NAMES;

    /// Collects all `$ref` values in a JSON value.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(String::from));
                map.values().for_each(|it| references(it, found));
            }
            Value::Array(list) => list.iter().for_each(|it| references(it, found)),
            _ => (),
        }
    }

    #[test]
    fn every_reference_resolves() {
        let mut found = Vec::new();
        references(&DOCUMENT, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            assert!(DOCUMENT.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }

    #[test]
    fn operation_ids_are_unique() {
        let mut names: Vec<&str> = DOCUMENT["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| path.as_object().unwrap().values())
            .map(|it| it["operationId"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATIONS.len() + all_verbs().count());
    }

    #[test]
    fn every_verb_has_own_path_and_schemas() {
        for name in VERB_NAMES {
            let post = &DOCUMENT["paths"][format!("/v1/corpus/{}", verb_in_path(name))]["post"];
            for content in [&post["requestBody"], &post["responses"]["200"]] {
                let reference = content["content"]["application/json"]["schema"]["$ref"].as_str().unwrap();
                assert!(DOCUMENT.pointer(&reference[1..]).is_some(), "{name}: {reference}");
            }
        }
        let extract = &DOCUMENT["components"]["schemas"]["Corpus.extract.request"];
        assert!(extract["properties"]["schema"]["enum"].to_string().contains("Methodology"), "{extract}");
    }

    #[test]
    fn ask_request_schema_has_all_fields() {
        let question = &DOCUMENT["components"]["schemas"]["AskRequest"]["properties"];
        for field in ["query", "privacy_mode", "warehouse_root", "limit", "filters", "explain", "plan"] {
            assert!(question[field].is_object(), "{field}");
        }
    }
}
