//! Turns a question into a graph query, runs the query, and describes its rows in words.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::agent::plugin_tools::PluginTools;
use crate::agent::reasoner_handle::ReasonerHandle;
use crate::agent::reasoners::Reasoner;
use crate::agent::sanitize::sanitize;
use crate::agent::tools::{RUN_TOOL, SUMMARY_TOOL};
use crate::error::{Error, ErrorCode, Result};
use crate::graph;
use crate::llm::RegisteredTools;
use crate::llm::plugin::{PluginResponse, PluginTask, SchemaHints, TranscriptStep};

/// Maximum number of schema names of each kind, such as types or relations, that a reasoner is shown.
const MAX_NAMES: usize = 200;

/// A question with the graph query that was run for it, and the results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryResult {
    /// The question.
    pub question: String,
    /// The query that was run: `{"kind": "axql", "axql": ...}`, with `query_ir_v1` if the reasoner wrote it in that form.
    pub query: Value,
    /// The `vars`, `rows` and `truncated` of the results.
    pub results: Value,
    /// Notes for the caller.
    pub notes: Vec<String>,
    /// Name of the reasoner that wrote the query.
    pub model: String,
}

/// A question with its graph query, the results, and an answer in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnsweredQuery {
    /// Question, query and results; inlined in the JSON.
    #[serde(flatten)]
    pub asked: QueryResult,
    /// The answer, as plain text.
    pub answer: String,
}

/// Asks the reasoner for a graph query and runs the query. A query that fails is sent back once, with the reason.
pub(super) async fn query_question(
    reasoner: &dyn Reasoner,
    model: Option<String>,
    tools: &RegisteredTools,
    question: &str,
) -> Result<QueryResult> {
    Ok(run_question(reasoner, model, tools, question).await?.0)
}

/// Returns the question with the query that was run for it, and the call of the query tool.
async fn run_question(
    reasoner: &dyn Reasoner,
    model: Option<String>,
    tools: &RegisteredTools,
    question: &str,
) -> Result<(QueryResult, TranscriptStep)> {
    let schema = read_schema(tools).await;
    let mut notes = Vec::new();
    let thinker = ReasonerHandle { reasoner, model, notes: &mut notes };
    let (query, ran) = find_rows(thinker, tools, question, &schema).await?;
    let results = protocol_rows(&ran.result);
    Ok((QueryResult { question: question.into(), query, results, notes, model: reasoner.name() }, ran))
}

/// Returns a graph query for a question, and the call of the query tool that ran it.
async fn find_rows(
    mut thinker: ReasonerHandle<'_>,
    tools: &RegisteredTools,
    question: &str,
    schema: &SchemaHints,
) -> Result<(Value, TranscriptStep)> {
    if !tools.contains(RUN_TOOL) {
        return Err(Error::new(ErrorCode::FailedPrecondition, "there is no graph to query")
            .hint("`vic llm agent` searches the files instead"));
    }
    let mut asked_for = question.to_string();
    for attempt in 1.. {
        let task = PluginTask::ToQuery { question: asked_for.clone(), schema: schema.clone() };
        let (query, args) = chosen_query(thinker.think(task).await?);
        match tools.run(RUN_TOOL, args.clone()).await {
            Ok(result) => {
                let told = result["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                thinker.notes.extend(told.map(sanitize));
                return Ok((query, TranscriptStep { tool: RUN_TOOL.into(), args, result }));
            }
            Err(error) if attempt == 1 => {
                thinker.notes.push(sanitize(&format!("the first query failed: {error}")));
                asked_for = format!("{question}\n\n(This query was wrong: {query}: {error})");
            }
            Err(error) => {
                let text = format!("{} wrote no query that can be run: {error}", thinker.reasoner.name());
                return Err(Error::new(ErrorCode::FailedPrecondition, text).hint("rephrase the question"));
            }
        }
    }
    Err(Error::internal("the reasoner was not asked for a query"))
}

/// Runs [`query_question`], and describes the rows in words. The reasoner may call tools first, see [`PluginTools`].
pub(super) async fn answer_question(
    reasoner: &dyn Reasoner,
    model: Option<String>,
    tools: &RegisteredTools,
    question: &str,
) -> Result<AnsweredQuery> {
    let (mut asked, ran) = run_question(reasoner, model.clone(), tools, question).await?;
    let (query, results) = (asked.query.clone(), asked.results.clone());
    let task = PluginTask::Answer { question: question.into(), query, results };
    let mut thinker = ReasonerHandle { reasoner, model, notes: &mut asked.notes };
    let response = thinker.think(task).await?;
    let schema = if response.tool_call.is_some() { read_schema(tools).await } else { SchemaHints::default() };
    let guest = PluginTools { tools, question, schema: &schema };
    let answer = guest.answer_calls(&mut thinker, response, ran).await?;
    Ok(AnsweredQuery { asked, answer })
}

/// Returns the query of a response in two forms: for the plugin protocol, with its AxQL text, and as arguments of the
/// query tool. Prefers the typed query (`query_ir_v1`) to AxQL text.
fn chosen_query(response: PluginResponse) -> (Value, Value) {
    let Some(ir) = response.query_ir_v1 else {
        let axql = response.axql.unwrap_or_default();
        return (json!({ "kind": "axql", "axql": axql }), json!({ "axql": axql }));
    };
    // Ignores a parse error here: the query tool rejects an invalid query, and reports where the error is.
    let axql = graph::query::ir::parse(&ir).map_or_else(|_| response.axql.unwrap_or_default(), |it| it.to_string());
    (json!({ "kind": "axql", "axql": axql, "query_ir_v1": ir }), json!({ "query_ir_v1": ir }))
}

/// Returns only those fields of the query tool's result that the plugin protocol has.
fn protocol_rows(results: &Value) -> Value {
    let or = |name: &str, value: Value| results.get(name).cloned().unwrap_or(value);
    json!({ "vars": or("vars", json!([])), "rows": or("rows", json!([])), "truncated": or("truncated", false.into()) })
}

/// Returns the schema names that the summary tool reports; empty without that tool.
pub(super) async fn read_schema(tools: &RegisteredTools) -> SchemaHints {
    match tools.contains(SUMMARY_TOOL) {
        true => {
            tools.run(SUMMARY_TOOL, json!({})).await.map_or_else(|_| SchemaHints::default(), |it| schema_names(&it))
        }
        false => SchemaHints::default(),
    }
}

/// Returns the schema names in a result of the summary tool. Each kind of names is a list of names, a list of objects with
/// a name, or a map from names to numbers.
pub(super) fn schema_names(summary: &Value) -> SchemaHints {
    let inner = summary.get("schema").filter(|it| it.is_object()).unwrap_or(summary);
    let list = |field: &str| names(inner.get(field).or_else(|| summary.get(field)));
    SchemaHints {
        types: list("types"),
        relations: list("relations"),
        schemas: list("schemas"),
        relation_signatures: list("relation_signatures"),
        relation_constraints: list("relation_constraints"),
        contexts: list("contexts"),
        times: list("times"),
    }
    .truncate(MAX_NAMES)
}

fn names(value: Option<&Value>) -> Vec<String> {
    let name = |it: &Value| match it {
        Value::String(name) => Some(name.clone()),
        Value::Object(map) => name_of_object(map),
        _ => None,
    };
    match value {
        Some(Value::Array(all)) => all.iter().filter_map(name).collect(),
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn name_of_object(map: &Map<String, Value>) -> Option<String> {
    ["name", "type", "relation"].iter().find_map(|it| map.get(*it)?.as_str()).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_reads_names_in_every_shape() {
        let summary = json!({
            "types": { "Node": 5, "File": 2 }, "relations": [{ "name": "rel_0", "edges": 3 }, "rel_1"],
            "schema": { "schemas": ["S"] }, "times": 7,
        });
        let found = schema_names(&summary);
        assert_eq!(
            (found.types, found.relations, found.schemas),
            (vec!["Node".to_string(), "File".into()], vec!["rel_0".to_string(), "rel_1".into()], vec!["S".to_string()],)
        );
        assert!(found.times.is_empty());
        assert_eq!(schema_names(&json!([])), SchemaHints::default());
    }
}
