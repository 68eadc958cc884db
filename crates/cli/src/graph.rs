//! `vic graph`: the graph of the files and of imports, asked, drawn, taken in and handed out.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::output::{Format, FormatArgs, Printer, note};
use crate::text::{plural, visible, visible_lines};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::{
    GraphChange, GraphExtent, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape,
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
    Query(QueryArgs),
    /// Says what the graph holds
    Stats(FormatArgs),
    /// Shows an entity with its attributes and edges
    Show {
        /// Its name, its key, its number, or Type#number
        entity: String,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Draws the graph, or what lies around some entities
    Viz(VizArgs),
    /// Takes a graph in; one of the same name is replaced
    Import(ImportArgs),
    /// Forgets an import
    Forget {
        /// What it is called
        name: String,
    },
    /// Hands the graph out
    Export(ExportArgs),
    /// Calls a tool, as a language model does
    Tool {
        /// Its name; without one every tool is listed
        name: Option<String>,
        /// Its arguments, a JSON object
        #[arg(long, default_value = "{}")]
        args: String,
    },
    /// Checks a change, and makes it with --write when nothing speaks against it
    Apply(ApplyArgs),
}

#[derive(Debug, clap::Args)]
struct QueryArgs {
    /// The query
    #[arg(required_unless_present = "ir", conflicts_with = "ir")]
    axql: Option<String>,
    /// A file that holds the query as query_ir_v1
    #[arg(long, value_name = "FILE")]
    ir: Option<PathBuf>,
    /// Say what the query means, with all that the schema adds, instead of running it
    #[arg(long)]
    elaborate: bool,
    /// Show the plan too
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Args)]
struct ExtentArgs {
    /// Begin at this entity; again for more
    #[arg(long, value_name = "ENTITY")]
    around: Vec<String>,
    /// Edges to walk away from them
    #[arg(long, default_value_t = 2)]
    hops: u32,
    /// Only entities of this type; again for more
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only edges of this relation; again for more
    #[arg(long = "relation", value_name = "RELATION")]
    relations: Vec<String>,
    /// Most entities
    #[arg(long)]
    limit: Option<u32>,
    /// Write into this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Picture {
    /// Graphviz
    Dot,
    /// A page that needs nothing else
    Html,
}

#[derive(Debug, clap::Args)]
struct VizArgs {
    /// The kind of picture
    #[arg(long = "as", value_enum, default_value_t = Picture::Dot)]
    picture: Picture,
    #[command(flatten)]
    extent: ExtentArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileFormat {
    /// Nodes, edges, facts, schemas
    Json,
    /// Lines of the form `A -io-> B`, and nodes as `Name.TYPE.001` or in quotes
    Text,
    /// proposals.json
    Proposals,
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// The file
    file: PathBuf,
    /// What it is called; the file's name when absent
    #[arg(long)]
    name: Option<String>,
    /// Its form; as it looks when absent
    #[arg(long, value_enum)]
    form: Option<FileFormat>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Handed {
    /// Nodes, edges, schemas
    Json,
    /// Lines of the form `A -io-> B`, and nodes as `Name.TYPE.001` or in quotes
    Text,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The form
    #[arg(long = "as", value_enum, default_value_t = Handed::Json)]
    form: Handed,
    #[command(flatten)]
    extent: ExtentArgs,
}

#[derive(Debug, clap::Args)]
struct ApplyArgs {
    /// A file with the nodes and edges to add
    file: PathBuf,
    /// Its form; as it looks when absent
    #[arg(long, value_enum)]
    form: Option<FileFormat>,
    /// Make the change
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks, and prints.
pub async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Query(args) => query(args, config, printer).await,
        Command::Stats(output) => {
            let answer = tool(config, "db_summary", json!({})).await?;
            shown(&answer, output.format, printer, summary)
        }
        Command::Show { entity, output } => {
            let answer = tool(config, "describe_entity", json!({"entity": entity})).await?;
            shown(&answer, output.format, printer, described)
        }
        Command::Viz(args) => {
            let shape = match args.picture {
                Picture::Dot => GraphShape::Dot,
                Picture::Html => GraphShape::Html,
            };
            hand_out(shape, args.extent, config, printer).await
        }
        Command::Export(args) => {
            let shape = match args.form {
                Handed::Json => GraphShape::Json,
                Handed::Text => GraphShape::Text,
            };
            hand_out(shape, args.extent, config, printer).await
        }
        Command::Import(args) => import(args, config, printer).await,
        Command::Forget { name } => printer.json(&ask(config, GraphRequest::Forget { name }).await?),
        Command::Tool { name: None, .. } => printer.json(&Client::connect_or_start(config).await?.graph_tools().await?),
        Command::Tool { name: Some(name), args } => {
            let args = serde_json::from_str(&args)
                .map_err(|error| Error::invalid(format!("--args is no JSON: {error}")).field("args"))?;
            printer.json(&tool(config, &name, args).await?)
        }
        Command::Apply(args) => apply(args, config, printer).await,
    }
}

async fn ask(config: &Config, request: GraphRequest) -> Result<Value> {
    Client::connect_or_start(config).await?.graph(request).await
}

async fn tool(config: &Config, name: &str, args: Value) -> Result<Value> {
    ask(config, GraphRequest::Tool { name: name.into(), args }).await
}

fn shown(answer: &Value, format: Format, printer: &mut Printer, words: fn(&Value) -> String) -> Result<()> {
    match format {
        Format::Json => printer.json(answer),
        Format::Human => {
            printer.line(&visible_lines(words(answer).trim_end()))?;
            printer.flush()?;
            notes(answer);
            Ok(())
        }
    }
}

fn notes(answer: &Value) {
    let notes = answer["notes"].as_array().into_iter().flatten();
    notes.filter_map(Value::as_str).for_each(|it| note(&format!("warning: {it}")));
}

async fn query(args: QueryArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let ir = match &args.ir {
        Some(path) => {
            let text = std::fs::read_to_string(path).at("read", path)?;
            let wrong = |error| Error::invalid(format!("`{}` is no JSON: {error}", path.display()));
            Some(serde_json::from_str(&text).map_err(wrong)?)
        }
        None => None,
    };
    let question = GraphQuestion { axql: args.axql, ir, elaborate: args.elaborate, explain: args.explain };
    let answer = ask(config, GraphRequest::Query(question)).await?;
    shown(&answer, args.output.format, printer, if args.elaborate { elaborated } else { rows })
}

fn elaborated(answer: &Value) -> String {
    let form = answer.get("query_ir_v1").and_then(|it| serde_json::to_string_pretty(it).ok()).unwrap_or_default();
    format!("{}\n{form}", answer["axql"].as_str().unwrap_or_default())
}

/// One row a line: `?x = name (Type#7)`.
fn rows(answer: &Value) -> String {
    let mut text = String::new();
    for plan in answer["plan"].as_array().into_iter().flatten() {
        let steps = plan.as_array().into_iter().flatten().filter_map(Value::as_str);
        steps.for_each(|it| text.push_str(&format!("  {it}\n")));
    }
    let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    for row in rows {
        let cells = row.as_object().into_iter().flatten();
        let cells: Vec<String> = cells.map(|(name, it)| format!("{name} = {}", entity(it))).collect();
        text.push_str(&format!("{}\n", cells.join("  ")));
    }
    let more = if answer["truncated"] == true { ", and there are more" } else { "" };
    format!("{text}{}{more}", plural(rows.len() as u64, "row"))
}

fn entity(it: &Value) -> String {
    format!(
        "{} ({}#{})",
        it["name"].as_str().unwrap_or_default(),
        it["entity_type"].as_str().unwrap_or_default(),
        it["id"]
    )
}

fn summary(answer: &Value) -> String {
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

fn described(answer: &Value) -> String {
    let mut text = format!("{}\nkey: {}\n", entity(answer), answer["key"].as_str().unwrap_or_default());
    for (key, value) in answer["attributes"].as_object().into_iter().flatten() {
        text.push_str(&format!("{key}: {}\n", value.as_str().unwrap_or_default()));
    }
    for (side, before, behind) in [("out", "-", "->"), ("in", "<-", "-")] {
        for edge in answer[side].as_array().into_iter().flatten() {
            let relation = edge["relation"].as_str().unwrap_or_default();
            let place = edge["evidence"]["citation"].as_str().map(|it| format!("  ({it})")).unwrap_or_default();
            let (end, sure) = (entity(&edge["entity"]), &edge["confidence"]);
            text.push_str(&format!("{before}{relation}{behind} {end}  {sure}{place}\n"));
        }
    }
    if answer["truncated"] == true {
        text.push_str(&format!("({} edges leave it, {} reach it)\n", answer["out_count"], answer["in_count"]));
    }
    text
}

async fn hand_out(shape: GraphShape, args: ExtentArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let ExtentArgs { around, hops, types, relations, limit, out } = args;
    let extent = GraphExtent { around, hops: Some(hops), types, relations, limit };
    let answer = ask(config, GraphRequest::Draw(shape, extent)).await?;
    let text = answer["text"].as_str().unwrap_or_default();
    let (nodes, edges) = (answer["nodes"].as_u64().unwrap_or(0), answer["edges"].as_u64().unwrap_or(0));
    match &out {
        Some(path) => std::fs::write(path, text).at("write", path)?,
        None if printer.terminal => printer.raw(&visible_lines(text))?,
        None => printer.raw(text)?,
    }
    printer.flush()?;
    let more = if answer["truncated"] == true { ", and there are more" } else { "" };
    note(&format!("{nodes} entities, {edges} edges{more}"));
    Ok(())
}

fn read(path: &Path, form: Option<FileFormat>) -> Result<(GraphFormat, String)> {
    // Before it is read: it may be larger than memory.
    let bytes = std::fs::metadata(path).at("read", path)?.len();
    check_size(bytes, &format!("`{}`", path.display()))?;
    let text = std::fs::read_to_string(path).at("read", path)?;
    let format = match form {
        Some(FileFormat::Json) => GraphFormat::Json,
        Some(FileFormat::Text) => GraphFormat::Text,
        Some(FileFormat::Proposals) => GraphFormat::Proposals,
        None => guess(&text),
    };
    Ok((format, text))
}

/// JSON begins with a brace, and proposals say so.
fn guess(text: &str) -> GraphFormat {
    if !text.trim_start().starts_with('{') {
        return GraphFormat::Text;
    }
    // All else is skipped, and never held.
    #[derive(Default, Deserialize)]
    struct Lists {
        proposals: Option<IgnoredAny>,
    }
    // What is wrong with it the daemon says, with the place.
    let lists: Lists = serde_json::from_str(text).unwrap_or_default();
    if lists.proposals.is_some() { GraphFormat::Proposals } else { GraphFormat::Json }
}

async fn import(args: ImportArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let (format, text) = read(&args.file, args.form)?;
    take_in(args.name.unwrap_or_else(|| name_of(&args.file)), format, text, config, printer).await
}

/// What a graph out of this file is called when nobody says so.
pub fn name_of(file: &Path) -> String {
    file.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Takes a graph into that of the daemon, and says what came in.
pub async fn take_in(
    name: String,
    format: GraphFormat,
    text: String,
    config: &Config,
    printer: &mut Printer,
) -> Result<()> {
    let answer = ask(config, GraphRequest::Import(GraphImport { name, format, text })).await?;
    let replaced = if answer["replaced"] == true { ", in place of the former one" } else { "" };
    let name = visible(answer["name"].as_str().unwrap_or_default()).into_owned();
    printer.line(&format!("{name}: {} entities, {} edges{replaced}", answer["nodes"], answer["edges"]))
}

async fn apply(args: ApplyArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let (format, text) = read(&args.file, args.form)?;
    let answer = ask(config, GraphRequest::Apply(GraphChange { format, text, write: args.write })).await?;
    let refused = answer["refused"].as_array().map_or(0, Vec::len);
    shown(&answer, args.output.format, printer, applied)?;
    if refused > 0 {
        printer.flush()?;
        let message = format!("{refused} of {} edges are refused, and nothing is changed", answer["edges"]);
        return Err(Error::new(ErrorCode::FailedPrecondition, message).hint("take them out of the change"));
    }
    Ok(())
}

fn applied(answer: &Value) -> String {
    let mut text = String::new();
    for edge in answer["refused"].as_array().into_iter().flatten() {
        let part = |key: &str| edge[key].as_str().unwrap_or_default();
        let (source, relation, target) = (part("source"), part("type"), part("target"));
        text.push_str(&format!("refused: {source} -{relation}-> {target}: {} ({})\n", part("reason"), part("issue")));
    }
    if text.is_empty() {
        let done = if answer["applied"] == true { "added" } else { "can be added with --write" };
        text = format!("{} edges {done}", answer["edges"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_file_is_seen() {
        assert_eq!(guess("A -io-> B"), GraphFormat::Text);
        assert_eq!(guess(" {\"nodes\": []}"), GraphFormat::Json);
        assert_eq!(guess("{\"version\": 1, \"proposals\": []}"), GraphFormat::Proposals);
    }

    #[test]
    fn a_file_that_no_message_holds_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.json");
        // Nothing is in it, and it takes no room on the disk.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, None).unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(error.message.contains("large.json` has 1099511627776 bytes"), "{error}");
        assert!(error.hint.unwrap().starts_with("split it"));
    }

    #[test]
    fn a_row_is_a_line_with_names_types_and_numbers() {
        let cell = json!({"id": 7, "entity_type": "File", "name": "plan.md"});
        let answer = json!({"vars": ["?x"], "rows": [{"?x": cell}], "truncated": true});
        assert_eq!(rows(&answer), "?x = plan.md (File#7)\n1 row, and there are more");
    }
}
