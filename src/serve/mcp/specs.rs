//! The list of MCP tools: always the tools for files, and the tools of the toolsets `graph` and `corpus` on request. This
//! list takes tokens of the model before its first question, so schemas are short, and results have no schemas.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::config::Toolsets;
use crate::graph;
use crate::serve::mcp::arguments::page_fields;
use crate::serve::mcp::corpus;

/// Name of the tool that adds a toolset to a session.
pub(super) const ADD_TOOLSET: &str = "toolset";

/// Returns the listed tools. `can_add` says whether the client can add a toolset; over HTTP it cannot, because the server
/// keeps no state between two requests.
pub(super) fn listed(sets: Toolsets, can_add: bool) -> Vec<Tool> {
    let mut tools = file_tools();
    tools.extend((can_add && sets != Toolsets::ALL).then(|| toolset_tool(sets.missing())));
    if sets.graph {
        tools.extend(graph::tools::specs().into_iter().map(graph_tool));
    }
    if sets.corpus {
        tools.extend(corpus::tools());
    }
    tools
}

/// Returns the toolset that has a tool; `None` for the tools for files, which are always listed.
pub(super) fn toolset_of(tool: &str) -> Option<Toolsets> {
    let is_graph = graph::tools::has_tool(tool);
    let is_corpus = corpus::verb_of_tool(tool).is_some();
    (is_graph || is_corpus).then_some(Toolsets { graph: is_graph, corpus: is_corpus })
}

/// Returns the names of the tools in these toolsets.
pub(super) fn names_of(sets: Toolsets) -> Vec<String> {
    let graph = graph::tools::specs().into_iter().filter(|_| sets.graph).map(|it| it.name);
    let corpus = corpus::tools().into_iter().filter(|_| sets.corpus).map(|it| it.name.into_owned());
    graph.chain(corpus).collect()
}

fn file_tools() -> Vec<Tool> {
    vec![
        reader(
            "ask",
            "Answers a question from the user's files with quotes and their places. Operators in the query filter: \
             ext:pdf,md path:Contracts name:budget lang:rust after:2024-03 before:7d size:>5MB owner:anna \
             \"exact phrase\" +must -mustnot",
            question_fields(),
            &["query"],
        ),
        reader(
            "search",
            "Finds passages in the user's files, without an answer; operators as in `ask`",
            question_fields(),
            &["query"],
        ),
        reader(
            "files",
            "Lists files by name and metadata, newest first",
            json!({
                "query": text("words of the file name, and the operators of `ask`"),
                "root": text("only below this folder"),
                "state": {"type": "string", "enum": ["pending", "indexed", "skipped", "failed"]},
                "limit": {"type": "integer", "description": "files, 1 to 200"},
            }),
            &[],
        ),
        reader(
            "read",
            "Reads the text of a file, with the place of each part",
            json!({
                "path": text("as answers show it; a place may follow: `lease.pdf, page 3`"),
                "page": text("3 or 3-5"), "lines": text("12-20"), "sheet": text(""), "cell": text("B2:D9"),
                "part": text("of a mail or source file"), "member": text("of an archive"),
            }),
            &["path"],
        ),
        reader(
            "table",
            "Filters, groups and sums rows of a table in a file exactly",
            table_fields(),
            &["path"],
        ),
        tool(
            "index",
            "Indexes a folder, or updates every known one; returns a job at once",
            json!({"root": text("absolute path"), "full": {"type": "boolean", "description": "read unchanged files again"}}),
            &[],
        )
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false)),
        reader("status", "How much is indexed, and problems; or a job", json!({"job_id": text("")}), &[]),
    ]
}

fn question_fields() -> Value {
    json!({
        "query": text("question or words, with operators"), "root": text("only below this folder"),
        "limit": {"type": "integer", "description": "files, 1 to 50"},
    })
}

fn table_fields() -> Value {
    json!({
        "path": text(""), "sheet": text(""), "table": {"type": "integer"},
        "filter": text("amount>100 AND NOT category=Travel"), "group_by": text("column"),
        "per": {"type": "string", "enum": ["year", "quarter", "month", "day"]},
        "aggregates": {"type": "array", "items": {"type": "object", "properties": {
            "function": {"type": "string", "enum": ["sum", "avg", "min", "max", "count"]}, "column": {"type": "string"},
        }}},
        "top": {"type": "integer"}, "by": text("column of `top`"), "ascending": {"type": "boolean"},
        "limit": {"type": "integer", "description": "rows, 1 to 1000"},
    })
}

fn toolset_tool(missing: Toolsets) -> Tool {
    let about = "Adds tools to this session: `graph` queries the graph of references between files, `corpus` extracts, \
                 counts, compares and traces over sets of documents";
    tool(ADD_TOOLSET, about, json!({"add": {"type": "string", "enum": missing.names()}}), &["add"])
        .with_annotations(ToolAnnotations::new().read_only(true))
}

/// Returns the MCP tool for a tool of the graph: adds the arguments that select a page, which the graph does not know.
fn graph_tool(mut spec: crate::model::ToolSpec) -> Tool {
    if let Some(fields) = spec.parameters["properties"].as_object_mut() {
        fields.extend(page_fields());
    }
    let schema = spec.parameters.as_object().cloned().unwrap_or_default();
    Tool::new(spec.name, spec.description, Arc::new(schema)).with_annotations(ToolAnnotations::new().read_only(true))
}

/// Returns a read-only tool whose result is returned in pages.
fn reader(name: &'static str, description: &'static str, fields: Value, required: &[&str]) -> Tool {
    let mut fields = fields;
    if let Some(fields) = fields.as_object_mut() {
        fields.extend(page_fields());
    }
    tool(name, description, fields, required).with_annotations(ToolAnnotations::new().read_only(true))
}

fn tool(name: &'static str, description: &'static str, fields: Value, required: &[&str]) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), fields);
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    Tool::new(name, description, Arc::new(schema))
}

/// Returns the schema of a text field. An empty description is left out, for a field whose name is enough.
fn text(description: &str) -> Value {
    if description.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "description": description})
    }
}
