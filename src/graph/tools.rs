//! The tools by which a language model reads the graph and the index: one registry for MCP, gRPC, the command line and the
//! tool loop of the assistant. All tools are read-only.
//!
//! The arguments of a call are checked against the schema of the tool first. Results have a limited size, and say if they
//! were truncated.

pub(in crate::graph) mod describe;
pub(in crate::graph) mod graph_query;
pub(in crate::graph) mod io_chain;
pub(in crate::graph) mod passages;
pub(in crate::graph) mod propose;
pub(in crate::graph) mod quality;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::export::drawing::render;
use crate::graph::query::{answer, axql, ir};
use crate::graph::service::GraphService;
use crate::graph::snapshot::view::View;
use crate::graph::suggest;
use crate::index::blocking;
use crate::llm::Schema;
use crate::model::{AXQL_HELP, GraphExtent, GraphQuestion, GraphShape, Scope, ToolSpec};

/// Maximum size of a result as JSON, some ten thousand tokens. A larger result is truncated.
const MAX_RESULT_BYTES: usize = 48 << 10;
/// Maximum number of entities in a drawing when the call sets none.
const DEFAULT_DRAWN: u32 = 100;

/// The compiled schema of the arguments of each tool, by name of the tool.
static SCHEMAS: LazyLock<BTreeMap<String, Result<Schema>>> =
    LazyLock::new(|| specs().into_iter().map(|it| (it.name, Schema::new(&it.parameters))).collect());

/// Returns the specification of every tool.
pub fn specs() -> Vec<ToolSpec> {
    let mut specs = lookup_specs();
    specs.extend(query_specs());
    specs
}

fn lookup_specs() -> Vec<ToolSpec> {
    let name = |what: &str| string_schema(&format!("{what}: its name, its key, or its id such as File#7"));
    vec![
        tool_spec("db_summary", "Summary of the graph: types, relations, schemas and contexts, with counts", &[], &[]),
        tool_spec(
            "semantic_search",
            "Finds passages of the user's files by meaning and by word",
            &[("query", string_schema("The search query in plain language")), ("limit", limit_schema(50, 8))],
            &["query"],
        ),
        tool_spec(
            "lookup_entity",
            "Finds entities by name: exact, substring, or with typos",
            &[
                ("name", string_schema("The name")),
                ("type", string_schema("Only of this type")),
                ("limit", limit_schema(100, 20)),
            ],
            &["name"],
        ),
        tool_spec(
            "describe_entity",
            "Returns an entity's attributes and edges, with evidence",
            &[("entity", name("The entity"))],
            &["entity"],
        ),
        tool_spec(
            "lookup_type",
            "Returns the number of entities of a type, their relations and attributes",
            &[("name", string_schema("The type"))],
            &["name"],
        ),
        tool_spec(
            "lookup_relation",
            "Returns the types that a relation connects, its count, and its schema",
            &[("name", string_schema("The relation"))],
            &["name"],
        ),
        tool_spec(
            "fts_chunks",
            "Finds chunks of the user's files that contain all of some words",
            &[("query", string_schema("The words")), ("limit", limit_schema(50, 10))],
            &["query"],
        ),
        tool_spec(
            "docchunk_get",
            "Returns the text of one chunk",
            &[
                ("chunk", string_schema("Chunk#128, the number, or the chunk_id")),
                ("max_chars", integer_schema(16_000, "Maximum characters; default 4000")),
            ],
            &["chunk"],
        ),
    ]
}

fn query_specs() -> Vec<ToolSpec> {
    let axql = || string_schema("A query such as: select ?x where ?x is File, ?x -links_to-> ?y limit 20");
    let form = || json!({"type": "object", "description": "The query as query_ir_v1"});
    let relation = json!({
        "type": "object",
        "properties": {
            "rel_type": string_schema("The relation"), "source": string_schema("Its source entity"), "target": string_schema("Its target entity"),
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "rationale": string_schema("Why, in one sentence"),
            "evidence": {"type": "array", "maxItems": 20, "items": {
                "type": "object",
                "properties": {"chunk_id": string_schema("The chunk"), "locator": string_schema("Its file"), "span_id": string_schema("A part of it")},
                "required": ["chunk_id"], "additionalProperties": false
            }}
        },
        "required": ["rel_type", "source", "target"], "additionalProperties": false
    });
    let texts = |what: &str| json!({"type": "array", "items": {"type": "string"}, "maxItems": 50, "description": what});
    vec![
        tool_spec(
            "axql_elaborate",
            "Elaborates a query with the types that the schema implies, without running it",
            &[("axql", axql()), ("query_ir_v1", form())],
            &[],
        ),
        tool_spec(
            "axql_run",
            "Runs a query over the graph: AxQL (axql_help has its grammar), or query_ir_v1",
            &[("axql", axql()), ("query_ir_v1", form()), ("limit", limit_schema(200, 100))],
            &[],
        ),
        tool_spec(
            "viz_render",
            "Draws the neighborhood of some entities, as Graphviz or as nodes and edges",
            &[
                ("around", texts("Names, keys or ids of entities, such as File#7")),
                ("hops", integer_schema(5, "Maximum distance in edges; default 2")),
                ("types", texts("Only entities of these types")),
                ("relations", texts("Only edges of these relations")),
                ("limit", limit_schema(500, DEFAULT_DRAWN)),
                ("format", json!({"type": "string", "enum": ["dot", "json"], "description": "default: dot"})),
            ],
            &[],
        ),
        tool_spec("axql_help", "Returns the grammar of AxQL, with examples", &[], &[]),
        tool_spec("quality_report", "Reports problems of the graph by kind, with examples", &[], &[]),
        tool_spec(
            "propose_relation_proposals",
            "Makes proposals of relations in the form of proposals.json; nothing is written",
            &[(
                "relations",
                json!({"type": "array", "minItems": 1, "maxItems": propose::MAX_RELATIONS, "items": relation}),
            )],
            &["relations"],
        ),
        ToolSpec {
            name: "graph_query".into(),
            description:
                "Query the current graph structure to understand existing nodes and edges before making changes".into(),
            parameters: graph_query::schema(),
        },
    ]
}

fn tool_spec(name: &str, description: &str, properties: &[(&str, Value)], required: &[&str]) -> ToolSpec {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, it)| ((*name).to_string(), it.clone())).collect();
    let parameters =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    ToolSpec { name: name.into(), description: description.into(), parameters }
}

fn string_schema(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 65_536, "description": description})
}

fn integer_schema(most: u32, description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": most, "description": description})
}

fn limit_schema(most: u32, default: u32) -> Value {
    integer_schema(most, &format!("Maximum results; default {default}"))
}

/// Returns whether a tool with this name exists.
pub fn has_tool(name: &str) -> bool {
    SCHEMAS.contains_key(name)
}

/// Checks the arguments of a tool against its schema.
///
/// # Errors
/// `NotFound` for an unknown tool, with the most similar name; `InvalidArgument` that names every wrong argument.
pub fn check_arguments(name: &str, args: &Value) -> Result<()> {
    let Some(schema) = SCHEMAS.get(name) else {
        let tools: Vec<&str> = SCHEMAS.keys().map(String::as_str).collect();
        let error = Error::not_found(format!("there is no tool `{name}`")).hint(format!("tools: {}", tools.join(", ")));
        return Err(suggest::with_suggestion(error, name, tools));
    };
    let schema = schema
        .as_ref()
        .map_err(|error| Error::internal(format!("the argument schema of the tool `{name}` is invalid: {error}")))?;
    schema.check(args).map_err(|error| {
        let place = error.field.unwrap_or_default();
        let wrong = Error::invalid(format!("wrong arguments of `{name}`: {}", error.message));
        let known = argument_paths(name);
        let given = place.rsplit('.').next().unwrap_or_default();
        // Suggests a similar name only for an unknown argument. A known argument and an item of a list have a wrong value.
        let wrong = match known.contains(&place) || place.contains('[') {
            true => wrong,
            false => suggest::with_suggestion(wrong, given, known.iter().map(String::as_str)),
        };
        wrong.field(place)
    })
}

/// Returns the arguments of a tool as paths, such as `filters.nodeType`.
fn argument_paths(name: &str) -> Vec<String> {
    let spec = specs().into_iter().find(|it| it.name == name);
    let mut paths = Vec::new();
    for (name, schema) in spec.iter().filter_map(|it| it.parameters["properties"].as_object()).flatten() {
        paths.push(name.clone());
        let inner = schema["properties"].as_object().into_iter().flatten();
        paths.extend(inner.map(|(part, _)| format!("{name}.{part}")));
    }
    paths
}

/// Calls a tool; it sees only the files of a scope.
///
/// # Errors
/// As `check_arguments`, and the errors of the tool.
pub async fn call_tool(service: &GraphService, name: &str, args: Value, scope: Scope) -> Result<Value> {
    let args = if args.is_null() { json!({}) } else { args };
    check_arguments(name, &args)?;
    let result = run_tool(&service.with_scope(scope), name, args).await?;
    Ok(truncate(result, MAX_RESULT_BYTES))
}

async fn run_tool(service: &GraphService, name: &str, args: Value) -> Result<Value> {
    let text = |key: &str| args[key].as_str().unwrap_or_default().to_string();
    let number = |key: &str, default: u32| args[key].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(default);
    match name {
        "semantic_search" => return passages::semantic_search(service, &text("query"), number("limit", 8)).await,
        "axql_help" => return Ok(json!({"grammar": AXQL_HELP})),
        "axql_run" => return run_query(service, &args).await,
        "axql_elaborate" => return service.query(&query_request(name, &args)?).await,
        _ => (),
    }
    let view = service.view().await?;
    match name {
        "fts_chunks" => {
            return passages::list_chunks(service, &view, &text("query"), number("limit", 10) as usize).await;
        }
        "docchunk_get" => {
            return passages::chunk_text(service, &view, &text("chunk"), number("max_chars", 4_000) as usize).await;
        }
        _ => (),
    }
    if name == "describe_entity" {
        let (seen, named) = (view.clone(), text("entity"));
        let mut entity = blocking(move || describe::describe_entity(&seen, &named)).await?;
        passages::add_evidence(service, &view, &mut entity).await?;
        return Ok(entity);
    }
    let (tool, note) = (name.to_string(), service.state_note());
    blocking(move || {
        let text = |key: &str| args[key].as_str().unwrap_or_default();
        match tool.as_str() {
            "db_summary" => {
                let mut summary = describe::summary(&view);
                if let Some(note) = note {
                    summary["notes"] = json!([note]);
                }
                Ok(summary)
            }
            "lookup_entity" => {
                let limit = args["limit"].as_u64().unwrap_or(20) as usize;
                Ok(describe::find_by_name(&view, text("name"), args["type"].as_str(), limit))
            }
            "lookup_type" => describe::describe_type(&view, text("name")),
            "lookup_relation" => describe::describe_relation(&view, text("name")),
            "viz_render" => render_subgraph(&view, &args),
            "quality_report" => Ok(quality::quality_report(&view)),
            "propose_relation_proposals" => propose::propose_relations(&view, &args["relations"]),
            "graph_query" => graph_query::run(&view, args),
            other => Err(Error::internal(format!("the tool `{other}` has a schema but no implementation"))),
        }
    })
    .await
}

/// Runs the query of `axql_run`. The result also has the query as AxQL (`query`), and its rows in the form of the answer task
/// of the plugin protocol (`results`), because plugins read only these two.
async fn run_query(service: &GraphService, args: &Value) -> Result<Value> {
    let question = query_request("axql_run", args)?;
    let query = answer::parse_question(&question)?.to_string();
    // Halves the size limit, because the rows stand in the result twice.
    let mut result = truncate(service.query(&question).await?, MAX_RESULT_BYTES / 2);
    let results = json!({"vars": result["vars"], "rows": result["rows"], "truncated": result["truncated"]});
    result["query"] = json!(query);
    result["results"] = results;
    Ok(result)
}

/// Makes the query of `axql_run`. The lower of the `limit` argument and the query's own limit applies.
fn query_request(name: &str, args: &Value) -> Result<GraphQuestion> {
    let mut question = GraphQuestion { elaborate: name == "axql_elaborate", ..GraphQuestion::default() };
    let limit = args["limit"].as_u64().and_then(|it| u32::try_from(it).ok());
    match (args["axql"].as_str(), args.get("query_ir_v1")) {
        (Some(text), None) => {
            let mut query = axql::parse(text)?;
            query.limit = query.limit.into_iter().chain(limit).min();
            question.axql = Some(query.to_string());
        }
        (None, Some(form)) => {
            let mut form = ir::unwrap(form)?.clone();
            if let Some(limit) = limit.filter(|_| form.is_object()) {
                let own = form["limit"].as_u64().map_or(limit.into(), |it| it.min(limit.into()));
                form["limit"] = json!(own);
            }
            question.ir = Some(form);
        }
        (text, form) => {
            question.axql = text.map(String::from);
            question.ir = form.cloned();
        }
    }
    Ok(question)
}

fn render_subgraph(view: &View, args: &Value) -> Result<Value> {
    let texts = |key: &str| -> Vec<String> {
        let items = args[key].as_array().into_iter().flatten();
        items.filter_map(|it| it.as_str().map(String::from)).collect()
    };
    let number = |key: &str| args[key].as_u64().and_then(|it| u32::try_from(it).ok());
    let extent = GraphExtent {
        around: texts("around"),
        hops: number("hops"),
        types: texts("types"),
        relations: texts("relations"),
        limit: number("limit").or(Some(DEFAULT_DRAWN)),
    };
    let shape = if args["format"].as_str() == Some("json") { GraphShape::Json } else { GraphShape::Dot };
    render(view, shape, &extent)
}

/// Shortens a result of more than `most` bytes: halves its largest entry until the result fits.
fn truncate(mut result: Value, most: usize) -> Value {
    let mut was_cut = false;
    // 64 rounds suffice, because every round halves an entry.
    for _ in 0..64 {
        if json_size(&result) <= most {
            break;
        }
        let Some(map) = result.as_object_mut() else { break };
        let Some((_, largest)) = map.iter_mut().max_by_key(|(_, value)| json_size(value)) else { break };
        was_cut |= halve_largest(largest);
    }
    if was_cut {
        result["truncated"] = json!(true);
        result["cut"] = json!(format!("the result had more than {most} bytes; narrow the request"));
    }
    result
}

fn halve_largest(value: &mut Value) -> bool {
    match value {
        Value::Array(items) if items.len() > 1 => items.truncate(items.len() / 2),
        Value::Array(items) => return items.first_mut().is_some_and(halve_largest),
        Value::String(text) => text.truncate(text.floor_char_boundary(text.len() / 2)),
        Value::Object(map) => {
            let largest = map.iter_mut().max_by_key(|(_, value)| json_size(value));
            return largest.is_some_and(|(_, value)| halve_largest(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return false,
    }
    true
}

fn json_size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |it| it.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_unique_name_and_valid_schema() {
        assert_eq!(SCHEMAS.len(), specs().len());
        for spec in specs() {
            assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
            assert!(!spec.description.is_empty() && has_tool(&spec.name));
            assert!(SCHEMAS[&spec.name].is_ok(), "{}: {:?}", spec.name, SCHEMAS[&spec.name]);
        }
    }

    #[test]
    fn invalid_arguments_are_named_before_run() {
        for (tool, args, place) in [
            ("semantic_search", json!({}), "query"),
            ("lookup_entity", json!({"name": 3}), "name"),
            ("axql_run", json!({"axql": "x", "limit": 100_000}), "limit"),
            ("graph_query", json!({"queryType": "all"}), "queryType"),
            ("graph_query", json!({"queryType": "edges", "filter": {}}), "filter"),
        ] {
            let error = check_arguments(tool, &args).unwrap_err();
            assert!(error.message.contains(place), "{tool}: {error}");
        }
        for args in [
            json!({"queryType": "nodes", "namePattern": "x"}),
            json!({"queryType": "nodes", "filters": {"namePatern": "x"}}),
        ] {
            let error = check_arguments("graph_query", &args).unwrap_err();
            assert_eq!(error.hint.as_deref(), Some("did you mean `filters.namePattern`?"), "{args}");
        }
        let error = check_arguments("axql_rum", &json!({})).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `axql_run`?"));
    }

    #[test]
    fn large_result_is_truncated_and_marked() {
        let rows: Vec<Value> = (0..10_000).map(|it| json!({"id": it, "name": "something"})).collect();
        let result = truncate(json!({"rows": rows, "truncated": false}), MAX_RESULT_BYTES);
        assert!(json_size(&result) <= MAX_RESULT_BYTES + 200 && result["rows"].as_array().unwrap().len() > 500);
        assert_eq!(result["truncated"], true);
        let result = truncate(json!({"text": "x".repeat(1 << 20)}), MAX_RESULT_BYTES);
        assert!(json_size(&result) <= MAX_RESULT_BYTES + 200 && result["truncated"] == true);
        assert_eq!(truncate(json!({"rows": [1]}), MAX_RESULT_BYTES), json!({"rows": [1]}));
    }
}
