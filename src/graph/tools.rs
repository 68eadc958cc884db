//! The tools that a language model may call over the graph and the index: one registry for MCP, gRPC, the command line and
//! the tool loop. All tools are read-only.
//!
//! Arguments are checked against the tool's schema before it runs. Results have a bounded size, and truncated ones say so.

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
use crate::graph::{GraphService, draw, suggest};
use crate::index::blocking;
use crate::llm::Schema;
use crate::model::{GraphExtent, GraphQuestion, GraphShape, Scope, ToolSpec};

/// Largest result as JSON: some ten thousand tokens.
const MOST_BYTES: usize = 48 << 10;
/// Default number of entities in a drawing.
const DRAWN: u32 = 100;

/// The schema of each tool's arguments.
static SCHEMAS: LazyLock<BTreeMap<String, Result<Schema>>> =
    LazyLock::new(|| specs().into_iter().map(|it| (it.name, Schema::new(&it.parameters))).collect());

/// Returns the specification of every tool.
pub fn specs() -> Vec<ToolSpec> {
    let mut specs = reading();
    specs.extend(querying());
    specs
}

fn reading() -> Vec<ToolSpec> {
    let name = |what: &str| text(&format!("{what}: its name, its key, its number, or Type#number"));
    vec![
        spec("db_summary", "Summary of the graph: types, relations, schemas and contexts, with counts", &[], &[]),
        spec(
            "semantic_search",
            "Finds passages of the user's files by meaning and by word",
            &[("query", text("The search query in plain language")), ("limit", limit(50, 8))],
            &["query"],
        ),
        spec(
            "lookup_entity",
            "Finds entities by name: exact, substring, or with typos",
            &[("name", text("The name")), ("type", text("Only of this type")), ("limit", limit(100, 20))],
            &["name"],
        ),
        spec(
            "describe_entity",
            "Returns an entity's attributes and edges, with evidence",
            &[("entity", name("The entity"))],
            &["entity"],
        ),
        spec(
            "lookup_type",
            "Returns the number of entities of a type, their relations and attributes",
            &[("name", text("The type"))],
            &["name"],
        ),
        spec(
            "lookup_relation",
            "Returns the types that a relation connects, its count, and its schema",
            &[("name", text("The relation"))],
            &["name"],
        ),
        spec(
            "fts_chunks",
            "Finds chunks of the user's files that contain all of some words",
            &[("query", text("The words")), ("limit", limit(50, 10))],
            &["query"],
        ),
        spec(
            "docchunk_get",
            "Returns the text of one chunk",
            &[
                ("chunk", text("Chunk#128, the number, or the chunk_id")),
                ("max_chars", bounded(16_000, "Maximum characters; default 4000")),
            ],
            &["chunk"],
        ),
    ]
}

fn querying() -> Vec<ToolSpec> {
    let axql = || text("A query such as: select ?x where ?x is File, ?x -links_to-> ?y limit 20");
    let form = || json!({"type": "object", "description": "The query as query_ir_v1"});
    let relation = json!({
        "type": "object",
        "properties": {
            "rel_type": text("The relation"), "source": text("Its source entity"), "target": text("Its target entity"),
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "rationale": text("Why, in one sentence"),
            "evidence": {"type": "array", "maxItems": 20, "items": {
                "type": "object",
                "properties": {"chunk_id": text("The chunk"), "locator": text("Its file"), "span_id": text("A part of it")},
                "required": ["chunk_id"], "additionalProperties": false
            }}
        },
        "required": ["rel_type", "source", "target"], "additionalProperties": false
    });
    let texts = |what: &str| json!({"type": "array", "items": {"type": "string"}, "maxItems": 50, "description": what});
    vec![
        spec(
            "axql_elaborate",
            "Elaborates a query with the types that the schema implies, without running it",
            &[("axql", axql()), ("query_ir_v1", form())],
            &[],
        ),
        spec(
            "axql_run",
            "Runs a query over the graph: AxQL, or query_ir_v1",
            &[("axql", axql()), ("query_ir_v1", form()), ("limit", limit(200, 100))],
            &[],
        ),
        spec(
            "viz_render",
            "Draws the neighborhood of some entities, as Graphviz or as nodes and edges",
            &[
                ("around", texts("Names or numbers of entities")),
                ("hops", bounded(5, "Maximum distance in edges; default 2")),
                ("types", texts("Only entities of these types")),
                ("relations", texts("Only edges of these relations")),
                ("limit", limit(500, DRAWN)),
                ("format", json!({"type": "string", "enum": ["dot", "json"], "description": "default: dot"})),
            ],
            &[],
        ),
        spec("quality_report", "Reports problems of the graph by kind, with examples", &[], &[]),
        spec(
            "propose_relation_proposals",
            "Makes proposals of relations in the form of proposals.json; nothing is written",
            &[("relations", json!({"type": "array", "minItems": 1, "maxItems": propose::MOST, "items": relation}))],
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

fn spec(name: &str, description: &str, properties: &[(&str, Value)], required: &[&str]) -> ToolSpec {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, it)| ((*name).to_string(), it.clone())).collect();
    let parameters =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    ToolSpec { name: name.into(), description: description.into(), parameters }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 65_536, "description": description})
}

fn bounded(most: u32, description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": most, "description": description})
}

fn limit(most: u32, default: u32) -> Value {
    bounded(most, &format!("Maximum results; default {default}"))
}

/// Returns whether a tool with this name exists.
pub fn knows(name: &str) -> bool {
    SCHEMAS.contains_key(name)
}

/// Checks the arguments of a tool.
///
/// # Errors
/// `NotFound` for an unknown tool, with the nearest name; `InvalidArgument` naming every wrong argument.
pub fn check(name: &str, args: &Value) -> Result<()> {
    let Some(schema) = SCHEMAS.get(name) else {
        let tools: Vec<&str> = SCHEMAS.keys().map(String::as_str).collect();
        let error = Error::not_found(format!("there is no tool `{name}`")).hint(format!("tools: {}", tools.join(", ")));
        return Err(suggest::suggest(error, name, tools));
    };
    let schema = schema.as_ref().map_err(|error| Error::internal(format!("the schema of `{name}`: {error}")))?;
    schema.check(args).map_err(|error| {
        let place = error.field.unwrap_or_default();
        Error::invalid(format!("wrong arguments of `{name}`: {}", error.message)).field(place)
    })
}

/// Calls a tool within a scope.
///
/// # Errors
/// As [`check`], and errors of the tool.
pub async fn call(service: &GraphService, name: &str, args: Value, scope: Scope) -> Result<Value> {
    let args = if args.is_null() { json!({}) } else { args };
    check(name, &args)?;
    let result = run(&service.within(scope), name, args).await?;
    Ok(cut(result))
}

async fn run(service: &GraphService, name: &str, args: Value) -> Result<Value> {
    let text = |key: &str| args[key].as_str().unwrap_or_default().to_string();
    let number = |key: &str, default: u32| args[key].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(default);
    match name {
        "semantic_search" => return passages::semantic(service, &text("query"), number("limit", 8)).await,
        "axql_run" | "axql_elaborate" => return service.query(&question(name, &args)?).await,
        _ => (),
    }
    let view = service.view().await?;
    match name {
        "fts_chunks" => return passages::listed(service, &view, &text("query"), number("limit", 10) as usize).await,
        "docchunk_get" => {
            return passages::text(service, &view, &text("chunk"), number("max_chars", 4_000) as usize).await;
        }
        _ => (),
    }
    if name == "describe_entity" {
        let (seen, named) = (view.clone(), text("entity"));
        let mut entity = blocking(move || describe::entity(&seen, &named)).await?;
        passages::bear_out(service, &view, &mut entity).await?;
        return Ok(entity);
    }
    let (tool, note) = (name.to_string(), service.note());
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
                Ok(describe::lookup(&view, text("name"), args["type"].as_str(), limit))
            }
            "lookup_type" => describe::type_of(&view, text("name")),
            "lookup_relation" => describe::relation(&view, text("name")),
            "viz_render" => rendered(&view, &args),
            "quality_report" => Ok(quality::report(&view)),
            "propose_relation_proposals" => propose::relations(&view, &args["relations"]),
            "graph_query" => graph_query::run(&view, args),
            other => Err(Error::internal(format!("the tool `{other}` has a schema but no implementation"))),
        }
    })
    .await
}

/// Makes the query of `axql_run`. The smaller of its `limit` argument and the query's own limit applies.
fn question(name: &str, args: &Value) -> Result<GraphQuestion> {
    let mut question = GraphQuestion { elaborate: name == "axql_elaborate", ..GraphQuestion::default() };
    let limit = args["limit"].as_u64().and_then(|it| u32::try_from(it).ok());
    match (args["axql"].as_str(), args.get("query_ir_v1")) {
        (Some(text), None) => {
            let mut query = crate::graph::query::axql::parse(text)?;
            query.limit = query.limit.into_iter().chain(limit).min();
            question.axql = Some(query.to_string());
        }
        (None, Some(form)) => {
            let mut form = form.clone();
            if let Some(limit) = limit {
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

fn rendered(view: &crate::graph::snapshot::view::View, args: &Value) -> Result<Value> {
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
        limit: number("limit").or(Some(DRAWN)),
    };
    let shape = if args["format"].as_str() == Some("json") { GraphShape::Json } else { GraphShape::Dot };
    draw(view, shape, &extent)
}

/// Cuts a result that is too large: halves its largest entry until it fits.
fn cut(mut result: Value) -> Value {
    let mut was_cut = false;
    // Every round halves something, so 64 rounds suffice.
    for _ in 0..64 {
        if size(&result) <= MOST_BYTES {
            break;
        }
        let Some(map) = result.as_object_mut() else { break };
        let Some((_, largest)) = map.iter_mut().max_by_key(|(_, value)| size(value)) else { break };
        was_cut |= halve(largest);
    }
    if was_cut {
        result["truncated"] = json!(true);
        result["cut"] = json!(format!("the result had more than {MOST_BYTES} bytes; narrow the request"));
    }
    result
}

fn halve(value: &mut Value) -> bool {
    match value {
        Value::Array(items) if items.len() > 1 => items.truncate(items.len() / 2),
        Value::Array(items) => return items.first_mut().is_some_and(halve),
        Value::String(text) => text.truncate(text.floor_char_boundary(text.len() / 2)),
        Value::Object(map) => {
            let largest = map.iter_mut().max_by_key(|(_, value)| size(value));
            return largest.is_some_and(|(_, value)| halve(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return false,
    }
    true
}

fn size(value: &Value) -> usize {
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
            assert!(!spec.description.is_empty() && knows(&spec.name));
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
            let error = check(tool, &args).unwrap_err();
            assert!(error.message.contains(place), "{tool}: {error}");
        }
        let error = check("axql_rum", &json!({})).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `axql_run`?"));
    }

    #[test]
    fn large_result_is_truncated_and_marked() {
        let rows: Vec<Value> = (0..10_000).map(|it| json!({"id": it, "name": "something"})).collect();
        let result = cut(json!({"rows": rows, "truncated": false}));
        assert!(size(&result) <= MOST_BYTES + 200 && result["rows"].as_array().unwrap().len() > 500);
        assert_eq!(result["truncated"], true);
        let result = cut(json!({"text": "x".repeat(1 << 20)}));
        assert!(size(&result) <= MOST_BYTES + 200 && result["truncated"] == true);
        assert_eq!(cut(json!({"rows": [1]})), json!({"rows": [1]}));
    }
}
