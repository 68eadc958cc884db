//! The MCP tools of the daemon: their parameters and results, and the calls of the [`Backend`].

use std::fmt::Write;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph;
use crate::model::{
    Anchor, Answer, AskRequest, AskResponse, Coverage, FileEntry, FilePage, FilesRequest, GraphRequest, IndexRequest,
    JobReport, L0Filters, ReadRequest, Reading, SearchHit, Status, TableRequest, TableResponse, ToolSpec, display_path,
    parse_path,
};
use crate::proto::json;
use crate::serve::mcp::backend::Backend;
use crate::serve::mcp::corpus;
use crate::serve::validate;

/// Number of hits if a request sets no limit.
const DEFAULT_HITS: u32 = 8;
/// Maximum number of hits; a larger limit is rejected.
const MAX_HITS: u32 = 50;
/// Maximum number of characters of an excerpt: about a paragraph. A longer one is truncated.
const MAX_EXCERPT_CHARS: usize = 600;
/// Number of listed files if a request sets no limit.
const DEFAULT_FILES: u32 = 20;
/// Maximum number of listed files; a larger limit is rejected.
const MAX_FILES: u32 = 200;
/// Number of characters that one read returns if the request does not set it: about 1000 tokens.
const DEFAULT_CHARS: u64 = 4_000;
/// Number of table rows if a request sets no limit.
const DEFAULT_TABLE_ROWS: u32 = 20;
/// Maximum number of table rows; a larger limit is rejected.
const MAX_TABLE_ROWS: u32 = 200;
/// Maximum number of characters that one read returns; a larger limit is rejected.
const MAX_CHARS: u64 = 20_000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct AskArgs {
    /// The question in plain words; "exact phrases" and filters such as ext:, path:, after: work too.
    query: String,
    /// Maximum number of files in the answer, 1 to 50; 8 when absent.
    #[schemars(range(min = 1, max = 50))]
    limit: Option<u32>,
    /// Absolute path of a folder; only files below it are searched.
    root: Option<String>,
    /// Metadata filters that each file must match.
    filters: L0Filters,
}

/// Answer of `ask` and `search`.
#[derive(Debug, Serialize, JsonSchema)]
struct SearchReply {
    /// The answer in words; null when there is none, and always for `search`.
    answer_summary: Option<String>,
    /// The answer in parts: outcome, confidence and quotes; null like `answer_summary`.
    answer: Option<Answer>,
    /// Matching files, best first.
    hits: Vec<Hit>,
    /// Warnings for the user about the answer.
    warnings: Vec<String>,
}

/// One matching file.
#[derive(Debug, Serialize, JsonSchema)]
struct Hit {
    /// Path with which `read` reads the file.
    path: String,
    /// Location of the passage in the file, as text.
    place: String,
    /// The matching passage.
    excerpt: String,
    /// Score of the match, 0 to 1.
    score: f64,
    /// Why the file matches.
    reasoning: String,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct IndexArgs {
    /// Absolute path of a folder to index; when absent, every known folder is updated.
    root: Option<String>,
    /// Whether to read every file again, changed or not.
    full: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct StatusArgs {
    /// Id of a job, as returned by `index`, to get its state.
    job_id: Option<String>,
}

/// State of the daemon and its index.
#[derive(Debug, Serialize, JsonSchema)]
struct Overview {
    /// Whether the index can answer questions.
    index_ready: bool,
    /// Number of chunks in the index.
    chunks: u64,
    /// The indexed folders.
    roots: Vec<String>,
    /// Number of files by index state.
    coverage: Coverage,
    /// Name of the embedding model.
    embed_model: String,
    /// Which data may leave the machine.
    privacy_mode: crate::model::PrivacyMode,
    /// Number of jobs that are queued or running.
    running_jobs: u64,
    /// Current problems, each with its fix.
    degraded: Vec<String>,
    /// State of the requested job.
    job: Option<JobReport>,
}

/// Returns all tools: for files, for the graph, and for the corpus API.
pub(crate) fn all_tools() -> Vec<Tool> {
    let mut tools = file_tools();
    tools.extend(corpus::tools());
    tools.extend(graph::tools::specs().into_iter().map(graph_tool));
    tools
}

/// Returns a tool for the graph. It has no output schema, because its protocol prescribes the format of results.
fn graph_tool(spec: ToolSpec) -> Tool {
    let schema = spec.parameters.as_object().cloned().unwrap_or_default();
    Tool::new(spec.name, spec.description, Arc::new(schema))
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

fn file_tools() -> Vec<Tool> {
    vec![
        tool::<AskArgs, SearchReply>(
            "ask",
            "Answers a question from the user's files, with the passages that prove it",
        ),
        tool::<AskArgs, SearchReply>("search", "Finds passages in the user's files, without an answer in words"),
        with_limit(
            tool::<FilesRequest, FilePage>("files", "Lists files by name, date, size, owner and state, newest first"),
            ("limit", "Maximum number of files", DEFAULT_FILES.into(), MAX_FILES.into()),
        ),
        with_limit(
            tool::<ReadRequest, Reading>(
                "read",
                "Reads the text of a file in parts, with the location of each; continue at `next_offset`",
            ),
            ("max_chars", "Maximum number of characters", DEFAULT_CHARS, MAX_CHARS),
        ),
        with_limit(
            tool::<TableRequest, TableResponse>(
                "table",
                "Filters, groups, sums and counts the rows of a table in a file, exactly, with the rows as evidence",
            ),
            ("limit", "Maximum number of rows", DEFAULT_TABLE_ROWS.into(), MAX_TABLE_ROWS.into()),
        ),
        tool::<IndexArgs, JobReport>("index", "Indexes a folder, or updates every known folder; returns at once")
            .with_annotations(
                ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false),
            ),
        tool::<StatusArgs, Overview>(
            "status",
            "Returns how many files are indexed and the current problems, or the state of a job",
        ),
    ]
}

fn tool<I: JsonSchema + 'static, O: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    Tool::new(name, description, Arc::new(JsonObject::new()))
        .with_input_schema::<I>()
        .with_output_schema::<O>()
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// Sets the maximum and default of a field in a tool's schema, because they are lower than in the HTTP API, which shares
/// the type.
fn with_limit(mut tool: Tool, (field, what, default, max): (&str, &str, u64, u64)) -> Tool {
    let mut schema = (*tool.input_schema).clone();
    if let Some(property) = schema.get_mut("properties").and_then(|it| it.get_mut(field)) {
        property["maximum"] = max.into();
        property["description"] = format!("{what}, 1 to {max}; {default} when absent").into();
    }
    tool.input_schema = Arc::new(schema);
    tool
}

/// Calls the tool with this name. Errors of a tool are returned as results, so that the model can read and correct them.
pub(crate) async fn call(
    backend: &dyn Backend,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    if let Some(outcome) = corpus::call(backend, name, &arguments).await {
        return Ok(outcome.unwrap_or_else(|error| CallToolResult::error(vec![ContentBlock::text(error_text(&error))])));
    }
    let outcome = match name {
        "ask" => ask(backend, arguments).await,
        "search" => search(backend, arguments).await,
        "files" => files(backend, arguments).await,
        "read" => read(backend, arguments).await,
        "table" => table(backend, arguments).await,
        "index" => index(backend, arguments).await,
        "status" => status(backend, arguments).await,
        name if graph::tools::has_tool(name) => call_graph_tool(backend, name, arguments).await,
        _ => return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None)),
    };
    Ok(outcome.unwrap_or_else(|error| CallToolResult::error(vec![ContentBlock::text(error_text(&error))])))
}

async fn call_graph_tool(backend: &dyn Backend, name: &str, arguments: JsonObject) -> Result<CallToolResult> {
    let request = GraphRequest::Tool { name: name.into(), args: Value::Object(arguments) };
    let answer = backend.graph(request).await?;
    let words = serde_json::to_string(&answer).map_err(Error::internal)?;
    structured_result(&answer, words)
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

fn parse_arguments<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    json::parse_object(&serde_json::to_vec(&Value::Object(arguments)).map_err(Error::internal)?)
}

/// Builds a result that contains the value as structured content and `words` as text.
fn structured_result(value: &impl Serialize, words: String) -> Result<CallToolResult> {
    let mut result = CallToolResult::structured(serde_json::to_value(value).map_err(Error::internal)?);
    result.content = vec![ContentBlock::text(words)];
    Ok(result)
}

/// Checks a limit. Too large a value is rejected instead of reduced, so that the model notices.
fn checked_limit(field: &'static str, value: Option<u32>, default: u32, max: u32) -> Result<u32> {
    match value.unwrap_or(default) {
        value if (1..=max).contains(&value) => Ok(value),
        _ => Err(Error::invalid(format!("`{field}` is not between 1 and {max}")).field(field)),
    }
}

async fn ask(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    answer(backend.ask(question(given)?).await?)
}

async fn search(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    answer(backend.search(question(given)?).await?)
}

fn question(given: JsonObject) -> Result<AskRequest> {
    let question: AskArgs = parse_arguments(given)?;
    let request = AskRequest {
        query: question.query,
        limit: Some(checked_limit("limit", question.limit, DEFAULT_HITS, MAX_HITS)?),
        warehouse_root: question.root,
        filters: question.filters,
        ..AskRequest::default()
    };
    validate::ask(&request)?;
    Ok(request)
}

fn answer(given: AskResponse) -> Result<CallToolResult> {
    let AskResponse { answer_summary, answer, hits, warnings, .. } = given;
    let reply = SearchReply { answer_summary, answer, hits: hits.into_iter().map(hit).collect(), warnings };
    let words = reply.to_text();
    structured_result(&reply, words)
}

fn hit(hit: SearchHit) -> Hit {
    let anchor = hit.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    let path = hit.metadata.get("absolute_path").and_then(Value::as_str).map_or(hit.path.clone(), String::from);
    Hit {
        path,
        place: anchor.place(),
        excerpt: truncate(hit.excerpt, MAX_EXCERPT_CHARS),
        score: hit.score,
        reasoning: hit.reasoning,
    }
}

/// Truncates a text to a number of characters, and appends an ellipsis if anything was cut.
fn truncate(text: String, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl SearchReply {
    fn to_text(&self) -> String {
        let mut text = self.answer_summary.clone().unwrap_or_default();
        for (number, hit) in self.hits.iter().enumerate() {
            let place = if hit.place.is_empty() { String::new() } else { format!(" ({})", hit.place) };
            let _ = write!(text, "\n\n[{}] {}{place}\n{}", number + 1, hit.path, hit.excerpt);
        }
        if self.hits.is_empty() {
            text.push_str("\nnothing found");
        }
        self.warnings.iter().for_each(|it| text.push_str(&format!("\nwarning: {it}")));
        text.trim_start().to_string()
    }
}

async fn files(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let mut request: FilesRequest = parse_arguments(given)?;
    request.limit = Some(checked_limit("limit", request.limit, DEFAULT_FILES, MAX_FILES)?);
    let (filter, limit) = validate::files(&request).await?;
    let (files, total) = backend.files(filter, limit, request.offset).await?;
    let page = FilePage { total, files: files.iter().map(FileEntry::from).collect() };
    let mut words = format!("{} of {total} files", page.files.len());
    for file in &page.files {
        let reason = file.reason.map_or("", |it| it.name());
        let _ = write!(words, "\n{}  {} bytes, {} {reason}", file.path, file.size, file.modified);
    }
    structured_result(&page, words)
}

async fn read(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let mut request: ReadRequest = parse_arguments(given)?;
    request.max_chars = Some(request.max_chars.unwrap_or(DEFAULT_CHARS));
    let chars = validate::read(&request)?;
    if chars > MAX_CHARS {
        return Err(Error::invalid(format!("`max_chars` is larger than {MAX_CHARS}")).field("max_chars"));
    }
    let reading = Reading::from_document(
        &request.path,
        backend.read(&request.path, &request.place()).await?,
        request.offset,
        chars,
    );
    let words = format_reading(&reading);
    structured_result(&reading, words)
}

async fn table(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let mut request: TableRequest = parse_arguments(given)?;
    request.limit = Some(checked_limit("limit", request.limit, DEFAULT_TABLE_ROWS, MAX_TABLE_ROWS)?);
    validate::table(&request)?;
    let answer = backend.table(request).await?;
    let words = serde_json::to_string(&answer).map_err(Error::internal)?;
    structured_result(&answer, words)
}

/// Formats the blocks of a file as text, with the location before each block where it changes.
pub(crate) fn format_reading(reading: &Reading) -> String {
    let mut words = String::new();
    let mut last = String::new();
    for block in &reading.blocks {
        let place = block.anchor.place();
        if place != last && !place.is_empty() {
            let _ = writeln!(words, "[{place}]");
        }
        words.push_str(&block.text);
        words.push_str("\n\n");
        last = place;
    }
    if let Some(next) = reading.next_offset {
        let _ = write!(words, "({} of {} characters; continue at offset {next})", next, reading.total_chars);
    }
    words.trim_end().to_string()
}

async fn index(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let start: IndexArgs = parse_arguments(given)?;
    if let Some(root) = &start.root {
        validate::path("root", root)?;
        if !parse_path(root).is_absolute() {
            return Err(Error::invalid(format!("`{root}` is not an absolute path")).field("root"));
        }
    }
    let request = IndexRequest { paths: start.root.into_iter().collect(), full: start.full, ..IndexRequest::default() };
    let report = JobReport::from(backend.start_index(request).await?);
    let words = format!("started job {}; call `status` with this job_id for its progress", report.job.job_id);
    structured_result(&report, words)
}

async fn status(backend: &dyn Backend, given: JsonObject) -> Result<CallToolResult> {
    let StatusArgs { job_id } = parse_arguments(given)?;
    let job = match &job_id {
        Some(id) => Some(JobReport::from(backend.job(id).await?)),
        None => None,
    };
    let Status { index_ready, chunks, roots, coverage, embed_model, privacy_mode, running_jobs, degraded, .. } =
        backend.status().await?;
    let overview = Overview {
        index_ready,
        chunks,
        roots: roots.iter().map(|it| display_path(&it.path).into_owned()).collect(),
        coverage,
        embed_model,
        privacy_mode,
        running_jobs: running_jobs.len() as u64,
        degraded,
        job,
    };
    let words = serde_json::to_string_pretty(&overview).map_err(Error::internal)?;
    structured_result(&overview, words)
}
