//! Calls of the MCP tools: checks the arguments, calls the [`Backend`], and returns one page of the result.

use std::fmt::Write;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph;
use crate::model::{
    AskRequest, FileState, FilesRequest, GraphRequest, IndexRequest, JobReport, ReadRequest, Reading, TableRequest,
    parse_path,
};
use crate::proto::json::parse_object;
use crate::serve::mcp::arguments::{Arguments, PAGE_FIELDS, Page};
use crate::serve::mcp::backend::Backend;
use crate::serve::mcp::outline::outline;
use crate::serve::mcp::page::{Entry, Listing, cut_long_text, whole_data};
use crate::serve::mcp::{answers, corpus};
use crate::{planner, serve::validate};

/// Number of hits if a request sets no limit.
const DEFAULT_HITS: u64 = 8;
/// Maximum number of hits; a larger limit is rejected.
const MAX_HITS: u64 = 50;
/// Maximum number of files that one call requests from the daemon; how many of them a page shows depends on `max_chars`.
const MAX_FILES: u64 = 200;
/// Default and maximum of `limit` of a table query. A cursor continues only within these rows.
const MAX_TABLE_ROWS: u64 = 1_000;

/// Fields that a table query accepts: those in the tool's schema, and also `decimal` and `head_rows`.
const TABLE_FIELDS: [&str; 13] = [
    "path",
    "sheet",
    "table",
    "filter",
    "group_by",
    "per",
    "aggregates",
    "top",
    "by",
    "ascending",
    "limit",
    "decimal",
    "head_rows",
];
const READ_FIELDS: [&str; 7] = ["path", "page", "lines", "sheet", "cell", "part", "member"];

/// Calls the tool with this name. Errors of a tool are returned as results, so that the model can read and correct them.
pub(crate) async fn call(
    backend: &dyn Backend,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    let outcome = match name {
        "ask" => question(backend, "ask", arguments).await,
        "search" => question(backend, "search", arguments).await,
        "files" => files(backend, arguments).await,
        "read" => read(backend, arguments).await,
        "table" => table(backend, arguments).await,
        "index" => index(backend, arguments).await,
        "status" => status(backend, arguments).await,
        name if graph::tools::has_tool(name) => call_graph_tool(backend, name, arguments).await,
        name if corpus::verb_of_tool(name).is_some() => corpus::call(backend, name, arguments).await,
        _ => return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None)),
    };
    Ok(outcome.unwrap_or_else(|error| error_result(&error)))
}

/// Returns an error as a result that a model can read.
pub(super) fn error_result(error: &Error) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error_text(error))])
}

/// Formats an error with code, field and hint in one line.
fn error_text(error: &Error) -> String {
    let mut text = format!("{}: {}", error.code.name(), error.message);
    for (name, part) in [("field", &error.field), ("hint", &error.hint)] {
        if let Some(part) = part {
            let _ = write!(text, " ({name}: {part})");
        }
    }
    text
}

/// Checks the argument names of a tool, and separates the arguments that select a page of the result from the others.
fn parse(tool: &str, fields: &[&str], given: JsonObject) -> Result<(Arguments, Page)> {
    let fields = [fields, &PAGE_FIELDS].concat();
    let mut arguments = Arguments::new(tool, &fields, given)?;
    let page = arguments.take_page(tool)?;
    Ok((arguments, page))
}

async fn question(backend: &dyn Backend, tool: &'static str, given: JsonObject) -> Result<CallToolResult> {
    let (arguments, page) = parse(tool, &["query", "root", "limit"], given)?;
    let request = AskRequest {
        query: arguments.required("query")?,
        limit: Some(arguments.number("limit", 1..=MAX_HITS)?.unwrap_or(DEFAULT_HITS) as u32),
        warehouse_root: arguments.text("root")?,
        ..AskRequest::default()
    };
    validate::ask(&request)?;
    // Later pages only search, because the quotes of the answer are on the first page, and later pages list hits.
    let response = match tool == "ask" && page.is_first {
        true => backend.ask(request).await?,
        false => backend.search(request).await?,
    };
    answers::answer(&response, &page)?.cut(&page)
}

async fn files(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let (arguments, page) = parse("files", &["query", "root", "state", "limit"], given)?;
    let state = arguments.text("state")?.map(|name| {
        let known = "use `pending`, `indexed`, `skipped` or `failed`";
        let unknown = || Error::invalid(format!("there is no state `{name}`")).field("state").hint(known);
        FileState::from_name(&name).ok_or_else(unknown)
    });
    let query = arguments.text("query")?.unwrap_or_default();
    if query.len() > validate::MAX_QUERY {
        return Err(Error::invalid(format!("`query` is longer than {} bytes", validate::MAX_QUERY)).field("query"));
    }
    let (words, filters) =
        planner::plan_file_list(&query, chrono::Local::now().date_naive()).map_err(|error| error.field("query"))?;
    let limit = arguments.number("limit", 1..=MAX_FILES)?.unwrap_or(MAX_FILES) as u32;
    let request = FilesRequest {
        words,
        filters,
        warehouse_root: arguments.text("root")?,
        state: state.transpose()?,
        reason: None,
        limit: Some(limit),
        offset: page.start,
    };
    let (filter, limit) = validate::files(&request).await?;
    let list = backend.files(filter, limit, request.offset).await?;
    answers::files(&list, &page)?.cut(&page)
}

async fn read(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let (arguments, page) = parse("read", &READ_FIELDS, given)?;
    arguments.required("path")?;
    let request: ReadRequest = parse_request(arguments)?;
    validate::read(&request)?;
    let document = backend.read(&request.path, &request.place()).await?;
    let reading = Reading::from_document(&request.path, document, page.start, page.max_chars as u64);
    answers::reading(reading, &page).cut(&page)
}

async fn table(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let (arguments, page) = parse("table", &TABLE_FIELDS, given)?;
    arguments.required("path")?;
    let limit = arguments.number("limit", 1..=MAX_TABLE_ROWS)?.unwrap_or(MAX_TABLE_ROWS) as u32;
    let request = TableRequest { limit: Some(limit), ..parse_request(arguments.without("limit"))? };
    validate::table(&request)?;
    answers::table(backend.table(request).await?, &page)?.cut(&page)
}

fn parse_request<T: serde::de::DeserializeOwned>(arguments: Arguments) -> Result<T> {
    parse_object(&serde_json::to_vec(&Value::Object(arguments.into_json())).map_err(Error::internal)?)
}

async fn index(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let arguments = Arguments::new("index", &["root", "full"], given)?;
    let root = arguments.text("root")?;
    if let Some(root) = &root {
        validate::path("root", root)?;
        if !parse_path(root).is_absolute() {
            return Err(Error::invalid(format!("`{root}` is not an absolute path")).field("root"));
        }
    }
    let paths = root.into_iter().collect();
    let request = IndexRequest { paths, full: arguments.flag("full")?, ..IndexRequest::default() };
    let job = backend.start_index(request).await?;
    let text = format!("started job {}; call `status` with this job_id for its progress", job.job_id);
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

async fn status(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let (arguments, page) = parse("status", &["job_id"], given)?;
    let listing = match arguments.text("job_id")? {
        Some(id) => answers::job(&JobReport::from(backend.job(&id).await?)),
        None => answers::status(&backend.status().await?).starting_at(page.start),
    };
    listing.cut(&page)
}

async fn call_graph_tool(backend: &dyn Backend, name: &str, given: JsonObject) -> Result<CallToolResult> {
    let spec = graph::tools::specs().into_iter().find(|it| it.name == name);
    let spec = spec.ok_or_else(|| Error::not_found(format!("there is no tool `{name}`")))?;
    let fields = spec.parameters["properties"].as_object().cloned().unwrap_or_default();
    let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
    let (arguments, page) = parse(name, &fields, given)?;
    let request = GraphRequest::Tool { name: name.into(), args: Value::Object(arguments.into_json()) };
    let answer = backend.graph(request).await?;
    if page.structured { cut_graph_data(answer, &page) } else { Ok(cut_long_text(&outline(&answer), &page)) }
}

/// Returns one page of the JSON result of a graph tool. Only its longest list is split into pages.
fn cut_graph_data(answer: Value, page: &Page) -> Result<CallToolResult> {
    let Value::Object(mut data) = answer else { return whole_data(json!({"result": answer}), page) };
    let lists = data.iter().filter(|(_, it)| it.is_array());
    let longest = lists.max_by_key(|(_, it)| it.to_string().len()).map(|(name, _)| name.clone());
    let Some(name) = longest else { return whole_data(Value::Object(data), page) };
    let items = data.remove(&name).and_then(|it| it.as_array().cloned()).unwrap_or_default();
    let items = items.into_iter().enumerate();
    let entries = items.map(|(number, it)| Entry::of_data(it, number + 1)).collect();
    Listing { data, name: name.into(), entries, ..Listing::default() }.starting_at(page.start).cut(page)
}
