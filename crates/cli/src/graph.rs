//! `vic graph`: queries, draws, imports and exports the graph of the indexed files and imported graphs.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::text::{escape_controls, escape_controls_in_lines, plural};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::{
    AXQL_HELP, GraphChange, GraphExtent, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape,
};
use vic_protocol::proto::convert::graph::check_size;

/// Arguments of `vic graph`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers a query in AxQL: select ?x where ?x is File, ?x -links_to-> ?y limit 20
    #[command(after_long_help = AXQL_HELP)]
    Query(QueryArgs),
    /// Prints the numbers of entities and edges, by type and relation
    Stats(FormatArgs),
    /// Shows an entity with its attributes and edges
    Show {
        /// Name, key or path of the entity, or its id as vic prints it, such as File#7
        entity: String,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Draws the graph, or the part around some entities
    Viz(VizArgs),
    /// Imports a graph; an import with the same name is replaced
    Import(ImportArgs),
    /// Removes an imported graph
    Forget {
        /// Name of the import
        name: String,
    },
    /// Exports the graph
    Export(ExportArgs),
    /// Calls a graph tool as a language model does
    Tool {
        /// Name of the tool; without it, all tools are listed
        name: Option<String>,
        /// Arguments of the tool, a JSON object
        #[arg(long, default_value = "{}")]
        args: String,
    },
    /// Checks a change, and applies it with --write if it has no conflict
    Apply(ApplyArgs),
    /// Prints the grammar of AxQL, with examples
    Axql,
}

#[derive(Debug, clap::Args)]
struct QueryArgs {
    /// Query in AxQL; `vic graph axql` prints the grammar
    #[arg(required_unless_present = "ir", conflicts_with = "ir")]
    axql: Option<String>,
    /// File with a query as JSON: query_ir_v1, bare or as {"query_ir_v1": ...}
    #[arg(long, value_name = "FILE")]
    ir: Option<PathBuf>,
    /// Print the complete query, with everything that the schema adds, instead of running it
    #[arg(long)]
    elaborate: bool,
    /// Also print the query plan
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Args)]
struct ExtentArgs {
    /// Start from this entity (name, key, path or id); may be given several times
    #[arg(long, value_name = "ENTITY")]
    around: Vec<String>,
    /// Maximum distance from the start entities, in edges
    #[arg(long, default_value_t = 2)]
    hops: u32,
    /// Only entities of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only edges of this relation; may be given several times
    #[arg(long = "relation", value_name = "RELATION")]
    relations: Vec<String>,
    /// Maximum number of entities
    #[arg(long)]
    limit: Option<u32>,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DrawingFormat {
    /// Graphviz
    Dot,
    /// A self-contained HTML page with a drawing
    Html,
}

#[derive(Debug, clap::Args)]
struct VizArgs {
    /// Output format
    #[arg(long = "as", value_enum, default_value_t = DrawingFormat::Dot)]
    picture: DrawingFormat,
    #[command(flatten)]
    extent: ExtentArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileFormat {
    /// JSON with nodes, edges, facts and schemas
    Json,
    /// Lines of the form `A -io-> B`, and nodes as `Name.TYPE.001` or in quotes
    Text,
    /// The format of proposals.json
    Proposals,
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// File to import
    file: PathBuf,
    /// Name of the import [default: the file's name]
    #[arg(long)]
    name: Option<String>,
    /// File format [default: detected from the content]
    #[arg(long, value_enum)]
    form: Option<FileFormat>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormat {
    /// JSON with nodes, edges and schemas
    Json,
    /// Lines of the form `A -io-> B`, and nodes as `Name.TYPE.001` or in quotes
    Text,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Output format
    #[arg(long = "as", value_enum, default_value_t = ExportFormat::Json)]
    form: ExportFormat,
    #[command(flatten)]
    extent: ExtentArgs,
}

#[derive(Debug, clap::Args)]
struct ApplyArgs {
    /// File with the nodes and edges to add
    file: PathBuf,
    /// File format [default: detected from the content]
    #[arg(long, value_enum)]
    form: Option<FileFormat>,
    /// Apply the change; without this option it is only checked
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Runs the selected subcommand.
pub async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Query(args) => query(args, config, printer).await,
        Command::Stats(output) => {
            let answer = call_tool(config, "db_summary", json!({})).await?;
            print_answer(&answer, output.format, printer, format_summary)
        }
        Command::Show { entity, output } => {
            let answer = call_tool(config, "describe_entity", json!({"entity": entity})).await?;
            print_answer(&answer, output.format, printer, format_entity_details)
        }
        Command::Viz(args) => {
            let shape = match args.picture {
                DrawingFormat::Dot => GraphShape::Dot,
                DrawingFormat::Html => GraphShape::Html,
            };
            export(shape, args.extent, config, printer).await
        }
        Command::Export(args) => {
            let shape = match args.form {
                ExportFormat::Json => GraphShape::Json,
                ExportFormat::Text => GraphShape::Text,
            };
            export(shape, args.extent, config, printer).await
        }
        Command::Import(args) => import(args, config, printer).await,
        Command::Forget { name } => printer.json(&send_request(config, GraphRequest::Forget { name }).await?),
        Command::Tool { name: None, .. } => printer.json(&Client::connect_or_start(config).await?.graph_tools().await?),
        Command::Tool { name: Some(name), args } => {
            let args = serde_json::from_str(&args)
                .map_err(|error| Error::invalid(format!("--args is not JSON: {error}")).field("args"))?;
            printer.json(&call_tool(config, &name, args).await?)
        }
        Command::Apply(args) => apply(args, config, printer).await,
        Command::Axql => printer.line(AXQL_HELP.trim_end()),
    }
}

async fn send_request(config: &Config, request: GraphRequest) -> Result<Value> {
    Client::connect_or_start(config).await?.graph(request).await
}

async fn call_tool(config: &Config, name: &str, args: Value) -> Result<Value> {
    send_request(config, GraphRequest::Tool { name: name.into(), args }).await
}

fn print_answer(answer: &Value, format: Format, printer: &mut Printer, words: fn(&Value) -> String) -> Result<()> {
    match format {
        Format::Json => printer.json(answer),
        Format::Human => {
            printer.line(&escape_controls_in_lines(words(answer).trim_end()))?;
            printer.flush()?;
            print_warnings(answer);
            Ok(())
        }
    }
}

fn print_warnings(answer: &Value) {
    let notes = answer["notes"].as_array().into_iter().flatten();
    notes.filter_map(Value::as_str).for_each(|it| print_note(&format!("warning: {it}")));
}

async fn query(args: QueryArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let ir = match &args.ir {
        Some(path) => {
            let text = std::fs::read_to_string(path).io_context("read", path)?;
            let wrong = |error| Error::invalid(format!("`{}` is not JSON: {error}", path.display()));
            Some(serde_json::from_str(&text).map_err(wrong)?)
        }
        None => None,
    };
    let question = GraphQuestion { axql: args.axql, ir, elaborate: args.elaborate, explain: args.explain };
    let answer = send_request(config, GraphRequest::Query(question)).await?;
    print_answer(&answer, args.output.format, printer, if args.elaborate { format_elaborated } else { format_rows })
}

fn format_elaborated(answer: &Value) -> String {
    let form = answer.get("query_ir_v1").and_then(|it| serde_json::to_string_pretty(it).ok()).unwrap_or_default();
    format!("{}\n{form}", answer["axql"].as_str().unwrap_or_default())
}

/// Formats each result row in one line: `?x = name (Type#7)`.
fn format_rows(answer: &Value) -> String {
    let mut text = String::new();
    for plan in answer["plan"].as_array().into_iter().flatten() {
        let steps = plan.as_array().into_iter().flatten().filter_map(Value::as_str);
        steps.for_each(|it| text.push_str(&format!("  {it}\n")));
    }
    let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    for row in rows {
        let cells = row.as_object().into_iter().flatten();
        let cells: Vec<String> = cells.map(|(name, it)| format!("{name} = {}", format_entity(it))).collect();
        text.push_str(&format!("{}\n", cells.join("  ")));
    }
    let more = if answer["truncated"] == true { ", and there are more" } else { "" };
    format!("{text}{}{more}", plural(rows.len() as u64, "row"))
}

fn format_entity(it: &Value) -> String {
    format!(
        "{} ({}#{})",
        it["name"].as_str().unwrap_or_default(),
        it["entity_type"].as_str().unwrap_or_default(),
        it["id"]
    )
}

fn format_summary(answer: &Value) -> String {
    let mut text = format!("{} entities, {} edges\n", answer["nodes"], answer["edges"]);
    for what in ["types", "relations"] {
        text.push_str(&format!("{what}:\n"));
        for row in answer[what].as_array().into_iter().flatten() {
            text.push_str(&format!(
                "  {:>9}  {}\n",
                row["count"].to_string(),
                row["name"].as_str().unwrap_or_default()
            ));
        }
    }
    for what in ["relation_signatures", "relation_constraints", "contexts", "times", "imports"] {
        let lines: Vec<&str> = answer[what].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !lines.is_empty() {
            text.push_str(&format!("{what}:\n  {}\n", lines.join("\n  ")));
        }
    }
    text
}

fn format_entity_details(answer: &Value) -> String {
    let mut text = format!("{}\nkey: {}\n", format_entity(answer), answer["key"].as_str().unwrap_or_default());
    for (key, value) in answer["attributes"].as_object().into_iter().flatten() {
        text.push_str(&format!("{key}: {}\n", value.as_str().unwrap_or_default()));
    }
    for (side, before, behind) in [("out", "-", "->"), ("in", "<-", "-")] {
        for edge in answer[side].as_array().into_iter().flatten() {
            let relation = edge["relation"].as_str().unwrap_or_default();
            let place = edge["evidence"]["citation"].as_str().map(|it| format!("  ({it})")).unwrap_or_default();
            let (end, sure) = (format_entity(&edge["entity"]), &edge["confidence"]);
            text.push_str(&format!("{before}{relation}{behind} {end}  {sure}{place}\n"));
        }
    }
    if answer["truncated"] == true {
        text.push_str(&format!(
            "(in total {} outgoing and {} incoming edges)\n",
            answer["out_count"], answer["in_count"]
        ));
    }
    text
}

async fn export(shape: GraphShape, args: ExtentArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let ExtentArgs { around, hops, types, relations, limit, out } = args;
    let extent = GraphExtent { around, hops: Some(hops), types, relations, limit };
    let answer = send_request(config, GraphRequest::Draw(shape, extent)).await?;
    let text = answer["text"].as_str().unwrap_or_default();
    let (nodes, edges) = (answer["nodes"].as_u64().unwrap_or(0), answer["edges"].as_u64().unwrap_or(0));
    match &out {
        Some(path) => std::fs::write(path, text).io_context("write", path)?,
        None if printer.terminal => printer.raw(&escape_controls_in_lines(text))?,
        None => printer.raw(text)?,
    }
    printer.flush()?;
    let more = if answer["truncated"] == true { ", and there are more" } else { "" };
    print_note(&format!("{nodes} entities, {edges} edges{more}"));
    print_warnings(&answer);
    Ok(())
}

fn read_graph_file(path: &Path, form: Option<FileFormat>) -> Result<(GraphFormat, String)> {
    // Checks the size before reading the file, because it may be larger than memory.
    let bytes = std::fs::metadata(path).io_context("read", path)?.len();
    check_size(bytes, &format!("`{}`", path.display()))?;
    let text = std::fs::read_to_string(path).io_context("read", path)?;
    let format = match form {
        Some(FileFormat::Json) => GraphFormat::Json,
        Some(FileFormat::Text) => GraphFormat::Text,
        Some(FileFormat::Proposals) => GraphFormat::Proposals,
        None => detect_format(&text),
    };
    Ok((format, text))
}

/// Detects the format of a graph file: JSON starts with a brace, and JSON of proposals has the key `proposals`.
fn detect_format(text: &str) -> GraphFormat {
    if !text.trim_start().starts_with('{') {
        return GraphFormat::Text;
    }
    // Parses only this key; the parser skips other keys without storing their values.
    #[derive(Default, Deserialize)]
    struct Lists {
        proposals: Option<IgnoredAny>,
    }
    // Ignores invalid JSON, because the daemon reports it with its location.
    let lists: Lists = serde_json::from_str(text).unwrap_or_default();
    if lists.proposals.is_some() { GraphFormat::Proposals } else { GraphFormat::Json }
}

async fn import(args: ImportArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let (format, text) = read_graph_file(&args.file, args.form)?;
    import_graph(args.name.unwrap_or_else(|| default_import_name(&args.file)), format, text, config, printer).await
}

/// Returns the name that an import of this file gets by default.
pub fn default_import_name(file: &Path) -> String {
    file.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Imports a graph into the daemon's graph, and prints how many entities and edges it has.
pub async fn import_graph(
    name: String,
    format: GraphFormat,
    text: String,
    config: &Config,
    printer: &mut Printer,
) -> Result<()> {
    let answer = send_request(config, GraphRequest::Import(GraphImport { name, format, text })).await?;
    let replaced = if answer["replaced"] == true { ", replacing the earlier import" } else { "" };
    let name = escape_controls(answer["name"].as_str().unwrap_or_default()).into_owned();
    printer.line(&format!("{name}: {} entities, {} edges{replaced}", answer["nodes"], answer["edges"]))
}

async fn apply(args: ApplyArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let (format, text) = read_graph_file(&args.file, args.form)?;
    let answer = send_request(config, GraphRequest::Apply(GraphChange { format, text, write: args.write })).await?;
    let refused = answer["refused"].as_array().map_or(0, Vec::len);
    print_answer(&answer, args.output.format, printer, format_changes)?;
    if refused > 0 {
        printer.flush()?;
        let message = format!("{refused} of {} edges are refused; the graph is unchanged", answer["edges"]);
        return Err(Error::new(ErrorCode::FailedPrecondition, message).hint("remove the refused edges from the file"));
    }
    Ok(())
}

fn format_changes(answer: &Value) -> String {
    let mut text = String::new();
    for edge in answer["refused"].as_array().into_iter().flatten() {
        let part = |key: &str| edge[key].as_str().unwrap_or_default();
        let (source, relation, target) = (part("source"), part("type"), part("target"));
        text.push_str(&format!("refused: {source} -{relation}-> {target}: {} ({})\n", part("reason"), part("issue")));
    }
    let is_refused = !text.is_empty();
    for similar in answer["similar_nodes"].as_array().into_iter().flatten() {
        let near: Vec<&str> = similar["near"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let node = similar["node"].as_str().unwrap_or_default();
        text.push_str(&format!("new: {node} looks like {}\n", near.join(", ")));
    }
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str).for_each(|it| text.push_str(&format!("warning: {it}\n")));
    if !is_refused {
        let done = if answer["applied"] == true { "added" } else { "can be added with --write" };
        text.push_str(&format!("{} edges {done}", answer["edges"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guess_detects_the_file_format() {
        assert_eq!(detect_format("A -io-> B"), GraphFormat::Text);
        assert_eq!(detect_format(" {\"nodes\": []}"), GraphFormat::Json);
        assert_eq!(detect_format("{\"version\": 1, \"proposals\": []}"), GraphFormat::Proposals);
    }

    #[test]
    fn oversized_file_is_rejected_before_reading() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.json");
        // Creates a sparse file, which uses no disk space.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_graph_file(&path, None).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(error.message.contains("large.json` has 1099511627776 bytes"), "{error}");
        assert!(error.hint.unwrap().starts_with("split it"));
    }

    #[test]
    fn change_lists_similar_nodes_and_warnings() {
        let similar = json!([{"node": "Sumbit.FN.001", "near": ["Submit.FN.001 (FUNC#3)"]}]);
        let warnings = json!(["the edge type `oi` is new; near: `io`"]);
        let mut answer =
            json!({"applied": false, "edges": 1, "refused": [], "similar_nodes": similar, "warnings": warnings});
        let told =
            "new: Sumbit.FN.001 looks like Submit.FN.001 (FUNC#3)\nwarning: the edge type `oi` is new; near: `io`\n";
        assert_eq!(format_changes(&answer), format!("{told}1 edges can be added with --write"));
        answer["refused"] = json!([{"source": "A", "type": "io", "target": "A", "issue": "circular", "reason": "r"}]);
        assert_eq!(format_changes(&answer), format!("refused: A -io-> A: r (circular)\n{told}"));
    }

    #[test]
    fn row_is_formatted_with_name_type_and_number() {
        let cell = json!({"id": 7, "entity_type": "File", "name": "plan.md"});
        let answer = json!({"vars": ["?x"], "rows": [{"?x": cell}], "truncated": true});
        assert_eq!(format_rows(&answer), "?x = plan.md (File#7)\n1 row, and there are more");
    }
}
