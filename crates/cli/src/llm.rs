//! `vic llm`: asks language models that use vic's tools. The chosen backend is stored in the data directory, where the
//! daemon reads it for the next request.

use std::fmt::Write;
use std::io::Read;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::Value;

use crate::output::{Format, FormatArgs, Printer};
use crate::{text, vicd_command};
use vic_protocol::client::{AssistWork, Client};
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::agent::{BackendKind, Bounds, CommandLine, Override};

/// The exit codes of `vic llm agent`, printed at the end of its `--help`.
const AGENT_EXIT_CODES: &str = "\
Exit codes:
  0  answered, or nothing was found
  4  the backend is unavailable (its other errors have their own exit codes)
  6  the answer has no valid citation, or the model got stuck
  8  the limit of steps or tokens was reached
  9  the time limit was reached
The findings are printed in any case.";

/// Maximum size of a request that `vic llm plugin` reads, in bytes.
const MAX_PLUGIN_REQUEST: u64 = 32 << 20;

/// Arguments of `vic llm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Shows the backend in use, and whether it can be reached
    Status {
        #[command(flatten)]
        over: OverArgs,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Chooses a backend for all later requests
    Use {
        #[command(subcommand)]
        backend: BackendArgs,
    },
    /// Chooses a model of the backend for all later requests
    Model {
        /// Name of the model
        name: String,
    },
    /// Translates a question into a query over the graph and runs it
    Ask(Question),
    /// Translates a question into a query, runs it, and describes the rows in words
    Answer(Question),
    /// Lets the model search and query step by step until it answers
    #[command(after_help = AGENT_EXIT_CODES)]
    Agent(AgentArgs),
    /// Lists the runs of agents, newest first
    Transcripts {
        /// Maximum number of runs to list
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Acts as a plugin: reads one request from standard input and writes one response to standard output
    Plugin {
        #[command(flatten)]
        over: OverArgs,
    },
}

/// The choice of a backend for language models.
#[derive(Debug, clap::Subcommand)]
pub enum BackendArgs {
    /// No model: deterministic rules
    Mock,
    /// An Ollama server
    Ollama {
        /// Name of the model
        model: Option<String>,
    },
    /// An OpenAI-compatible server
    Openai {
        /// Name of the model
        model: Option<String>,
    },
    /// A command that speaks the plugin protocol
    Command {
        /// Name or path of the program
        program: String,
        /// Arguments of the program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

impl BackendArgs {
    /// Returns the choice as arguments for the command that `vicd` runs.
    fn passed_on(self) -> vicd_command::Args {
        let arguments = match self {
            BackendArgs::Mock => vec!["mock".to_string()],
            BackendArgs::Ollama { model } => std::iter::once("ollama".to_string()).chain(model).collect(),
            BackendArgs::Openai { model } => std::iter::once("openai".to_string()).chain(model).collect(),
            BackendArgs::Command { program, args } => {
                ["command".to_string(), program].into_iter().chain(args).collect()
            }
        };
        vicd_command::Args { arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// Options that override the chosen backend for one request.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OverArgs {
    /// Use this backend, for this request only
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Use this model, for this request only
    #[arg(long)]
    model: Option<String>,
    /// Use this command with the plugin protocol, for this request only
    #[arg(long, visible_alias = "llm-plugin", value_name = "PROGRAM")]
    command: Option<String>,
    /// An argument of the --command program; may be given several times
    #[arg(
        long = "arg",
        visible_alias = "llm-plugin-arg",
        value_name = "ARG",
        requires = "command",
        allow_hyphen_values = true
    )]
    args: Vec<String>,
}

/// Option for the timeout of a request.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct TimeArgs {
    /// Timeout of the whole request in seconds [default: 180, for proposals 600]; at most VIC_LLM_MAX_SECONDS
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
}

impl TimeArgs {
    fn time(self) -> Option<Duration> {
        self.seconds.map(Duration::from_secs)
    }
}

/// A [`BackendKind`] as a command line argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    /// No model: deterministic rules
    Mock,
    /// An Ollama server
    Ollama,
    /// An OpenAI-compatible server
    Openai,
    /// A command that speaks the plugin protocol
    Command,
}

#[derive(Debug, clap::Args)]
struct Question {
    /// The question in plain words
    #[arg(required = true)]
    question: Vec<String>,
    #[command(flatten)]
    over: OverArgs,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    #[command(flatten)]
    question: Question,
    /// Print every tool call with its result
    #[arg(long)]
    trace: bool,
    /// Give a plugin the results of a search at its start, as models always get; VIC_LLM_PREFETCH=1 does so in every run
    #[arg(long)]
    prefetch: bool,
    /// Maximum number of steps of the model
    #[arg(long, default_value_t = Bounds::default().steps, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_steps: u32,
    /// Maximum number of tokens sent and received
    #[arg(long, default_value_t = Bounds::default().tokens, value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: u64,
}

impl OverArgs {
    /// Returns the options as an override in a request to the daemon.
    pub fn over(self, time: TimeArgs) -> Result<Override> {
        let backend = self.backend.map(|it| match it {
            Backend::Mock => BackendKind::Mock,
            Backend::Ollama => BackendKind::Ollama,
            Backend::Openai => BackendKind::OpenAi,
            Backend::Command => BackendKind::Command,
        });
        let command = self.command.map(|program| command_line(program, self.args)).transpose()?;
        Ok(Override { backend, model: self.model, command, time: time.time() })
    }
}

/// Returns a command as typed, with the working directory that its relative paths refer to.
fn command_line(program: String, args: Vec<String>) -> Result<CommandLine> {
    let folder = std::env::current_dir().io_context("find", std::path::Path::new("."))?;
    Ok(CommandLine { program, args, folder })
}

/// Runs the selected subcommand.
pub async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Status { over, output } => {
            let status = send_work(config, AssistWork::Status, over, TimeArgs::default()).await?;
            print_result(printer, output, &status, format_status)
        }
        Command::Use { backend } => vicd_command::run_in_vicd("llm-use", &backend.passed_on(), printer),
        Command::Model { name } => {
            vicd_command::run_in_vicd("llm-model", &vicd_command::Args { arguments: vec![name.into()] }, printer)
        }
        Command::Ask(it) => {
            let found = send_work(config, AssistWork::Ask(it.question.join(" ")), it.over, it.time).await?;
            print_result(printer, it.output, &found, format_rows)
        }
        Command::Answer(it) => {
            let found = send_work(config, AssistWork::Answer(it.question.join(" ")), it.over, it.time).await?;
            print_result(printer, it.output, &found, format_answer)
        }
        Command::Agent(it) => run_agent(it, config, printer).await,
        Command::Transcripts { limit, output } => {
            let all =
                send_work(config, AssistWork::Transcripts(limit), OverArgs::default(), TimeArgs::default()).await?;
            print_result(printer, output, &all, format_transcripts)
        }
        Command::Plugin { over } => run_plugin(over, config, printer).await,
    }
}

async fn send_work(config: &Config, work: AssistWork, over: OverArgs, time: TimeArgs) -> Result<Value> {
    let over = over.over(time)?;
    Client::connect_or_start(config).await?.assist(work, over).await
}

fn print_result(printer: &mut Printer, output: FormatArgs, it: &Value, told: fn(&Value) -> String) -> Result<()> {
    match output.format {
        Format::Json => printer.json(it),
        Format::Human => printer.raw(&told(it)),
    }
}

async fn run_agent(it: AgentArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let Question { question, over, time, output } = it.question;
    let usual = Bounds::default();
    let bounds = Bounds { steps: it.max_steps, time: time.time().unwrap_or(usual.time), tokens: it.max_tokens };
    let work = AssistWork::Agent { question: question.join(" "), bounds, prefetch: it.prefetch };
    let mut report = send_work(config, work, over, time).await?;
    match output.format {
        Format::Human => {
            let trace = if it.trace { format_trace(&report) } else { String::new() };
            printer.raw(&(trace + &format_report(&report)))?;
        }
        Format::Json => {
            if !it.trace
                && let Some(map) = report.as_object_mut()
            {
                map.shift_remove("transcript");
            }
            printer.json(&report)?;
        }
    }
    // The report is printed in any case; the exit code tells how the run ended.
    printer.flush()?;
    ending_error(&report).map_or(Ok(()), Err)
}

/// Returns the error for a report of an agent that ended without an answer, see [`AGENT_EXIT_CODES`].
fn ending_error(report: &Value) -> Option<Error> {
    let ended = text_field(report, "ended");
    let (code, hint) = match ended {
        "answered" | "nothing_found" => return None,
        "uncited" | "stuck" => (ErrorCode::FailedPrecondition, "try another model: --model"),
        "steps" => (ErrorCode::ResourceExhausted, "raise the limit: --max-steps"),
        "tokens" => (ErrorCode::ResourceExhausted, "raise the limit: --max-tokens"),
        "time" => (ErrorCode::DeadlineExceeded, "raise the limit: --seconds"),
        _ => {
            let problem = &report["error"];
            let code = ErrorCode::from_name(text_field(problem, "code")).unwrap_or(ErrorCode::Internal);
            let error = Error::new(code, text_field(problem, "message"));
            return Some(problem["hint"].as_str().map_or(error.clone(), |it| error.hint(it)));
        }
    };
    Some(Error::new(code, format!("the agent ended without an answer: {ended}")).hint(hint))
}

/// Handles one plugin request. A failure is also returned as a response, so that the program that runs the plugin can report
/// it.
async fn run_plugin(over: OverArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let mut request = String::new();
    let read = std::io::stdin().lock().take(MAX_PLUGIN_REQUEST).read_to_string(&mut request);
    read.map_err(|error| Error::invalid(format!("cannot read the request: {error}")))?;
    let response = send_work(config, AssistWork::Plugin(request), over, TimeArgs::default()).await;
    let response = response.unwrap_or_else(|error| serde_json::json!({ "error": error.message }));
    printer.line(&text::escape_controls_in_json(&response.to_string()))
}

fn text_field<'a>(it: &'a Value, name: &str) -> &'a str {
    it[name].as_str().unwrap_or_default()
}

fn list_field<'a>(it: &'a Value, name: &str) -> &'a [Value] {
    it[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn format_status(it: &Value) -> String {
    let mut out = String::new();
    let what = if it["command"].is_string() { text_field(it, "command") } else { text_field(it, "model") };
    let ready = if it["ready"] == true { "ready" } else { "not ready" };
    let _ = writeln!(
        out,
        "{}: {}, {ready}, {}",
        text_field(it, "backend"),
        text::escape_controls(what),
        text_field(it, "privacy_mode")
    );
    if let Some(problem) = it["problem"].as_str() {
        let _ = writeln!(out, "{}", text::escape_controls(problem));
    }
    let models: Vec<&str> =
        list_field(&it["capabilities"], "models").iter().filter_map(|it| it["id"].as_str()).collect();
    if !models.is_empty() {
        let _ = writeln!(out, "models: {}", text::escape_controls(&models.join(", ")));
    }
    if let Some(tokens) = it["limits"]["context_tokens"].as_u64() {
        let _ = writeln!(out, "context: {tokens} tokens");
    }
    let tools: Vec<&str> = list_field(it, "tools").iter().filter_map(Value::as_str).collect();
    let _ = writeln!(out, "tools: {}", text::escape_controls(&tools.join(", ")));
    write_notes(&mut out, it);
    out
}

fn format_rows(it: &Value) -> String {
    let mut out = String::new();
    let query = &it["query"];
    let shown = query["axql"].as_str().map_or_else(|| query["query_ir_v1"].to_string(), String::from);
    let _ = writeln!(out, "{}", text::escape_controls(&shown));
    for row in list_field(&it["results"], "rows") {
        let cells = row.as_object().into_iter().flatten().map(|(name, it)| format!("{name} = {}", format_cell(it)));
        let _ = writeln!(out, "{}", text::escape_controls(&cells.collect::<Vec<_>>().join("  ")));
    }
    let rows = list_field(&it["results"], "rows").len() as u64;
    let more = if it["results"]["truncated"] == true { " and more" } else { "" };
    let _ = writeln!(out, "{}{more}", text::plural(rows, "row"));
    write_notes(&mut out, it);
    out
}

fn format_cell(it: &Value) -> String {
    match (it["name"].as_str(), it["entity_type"].as_str()) {
        (Some(name), Some(kind)) => format!("{name} ({kind} #{})", it["id"]),
        (Some(name), None) => name.to_string(),
        _ => it.to_string(),
    }
}

fn format_answer(it: &Value) -> String {
    format!("{}\n\n{}", text::escape_controls_in_lines(text_field(it, "answer")), format_rows(it))
}

fn format_report(it: &Value) -> String {
    let mut out = format!("{}\n", text::escape_controls_in_lines(text_field(it, "answer")));
    for cited in list_field(it, "citations") {
        let place = match cited["path"].as_str() {
            Some(path) => format!("{}: {path}", text_field(cited, "citation")),
            None => text_field(cited, "citation").to_string(),
        };
        let _ = writeln!(out, "  {}", text::escape_controls(&place));
    }
    for query in list_field(it, "queries").iter().filter_map(Value::as_str) {
        let _ = writeln!(out, "query: {}", text::escape_controls(query));
    }
    if text_field(it, "ended") != "answered" {
        write_refused(&mut out, it);
    }
    write_notes(&mut out, it);
    let steps = text::plural(it["steps"].as_u64().unwrap_or(0), "step");
    let seconds = it["elapsed_ms"].as_f64().unwrap_or(0.0) / 1e3;
    let _ = writeln!(
        out,
        "{}, {steps}, {} ({})",
        text_field(it, "ended"),
        text::format_duration(seconds),
        text::escape_controls(text_field(it, "model"))
    );
    out
}

/// Writes each refused answer once, in a line of its own with the reason.
fn write_refused(out: &mut String, it: &Value) {
    let mut written: Vec<&Value> = Vec::new();
    for refused in list_field(it, "refused") {
        if !written.contains(&refused) {
            let (answer, reason) = (text_field(refused, "answer"), text_field(refused, "reason"));
            let _ = writeln!(out, "refused, because it {reason}: {}", text::escape_controls(answer));
            written.push(refused);
        }
    }
}

fn format_trace(it: &Value) -> String {
    let mut out = String::new();
    for step in list_field(it, "transcript") {
        let _ = writeln!(
            out,
            "> {} {}",
            text::escape_controls(text_field(step, "tool")),
            text::escape_controls(&step["args"].to_string())
        );
        let _ = writeln!(out, "{}", text::wrap(&step["result"].to_string(), 2, 20));
    }
    out
}

fn format_transcripts(it: &Value) -> String {
    let all = it.as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return "no agent runs yet\n".into();
    }
    let mut out = String::new();
    for record in all {
        let time = record["time_ms"].as_i64().and_then(chrono::DateTime::<chrono::Utc>::from_timestamp_millis);
        let time = time.map(|it| it.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)).unwrap_or_default();
        let ended = text_field(&record["report"], "ended");
        let line =
            format!("{time}  {ended:<13}  {}  ({})", text_field(record, "question"), text_field(record, "model"));
        let _ = writeln!(out, "{}", text::escape_controls(&line));
    }
    out
}

fn write_notes(out: &mut String, it: &Value) {
    for note in list_field(it, "notes").iter().filter_map(Value::as_str) {
        let _ = writeln!(out, "note: {}", text::escape_controls(note));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn report_is_formatted_and_escaped() {
        let report = json!({
            "answer": "The hive weighed 31 kg.\u{1b}[2J", "ended": "answered", "model": "m (ollama)", "steps": 2,
            "elapsed_ms": 1500, "queries": [], "notes": ["fine"],
            "citations": [{ "citation": "bees.md, line 1", "path": "/w/bees.md", "place": "line 1", "checked": "file" }],
            "transcript": [{ "tool": "semantic_search", "args": { "query": "hive" }, "result": { "hits": [] } }],
        });
        let expected = "\
The hive weighed 31 kg.\\u{1b}[2J
  bees.md, line 1: /w/bees.md
note: fine
answered, 2 steps, 1.5 s (m (ollama))
";
        assert_eq!(format_report(&report), expected);
        let refused = json!({ "answer": "It was blue.\n\u{1b}", "citations": [], "reason": "cites no result" });
        let mut report = report;
        (report["ended"], report["refused"]) = ("uncited".into(), json!([refused, refused]));
        let told = format_report(&report);
        assert_eq!(told.matches("refused, because it cites no result: It was blue.\\n\\u{1b}\n").count(), 1, "{told}");
        assert_eq!(format_trace(&report), "> semantic_search {\"query\":\"hive\"}\n  {\"hits\":[]}\n");
    }

    #[test]
    fn every_ending_has_its_exit_code() {
        for (ended, code) in [
            ("answered", None),
            ("nothing_found", None),
            ("uncited", Some(6)),
            ("stuck", Some(6)),
            ("steps", Some(8)),
            ("tokens", Some(8)),
            ("time", Some(9)),
            ("failed", Some(4)),
        ] {
            let report = json!({ "ended": ended, "error": { "code": "unavailable", "message": "x", "hint": "run x" } });
            let error = ending_error(&report);
            assert_eq!(error.as_ref().map(|it| it.code.exit_code()), code, "{ended}");
            assert!(error.is_none_or(|it| it.hint.is_some()), "{ended}");
        }
    }

    #[test]
    fn rows_are_formatted_with_their_query() {
        let found = json!({
            "query": { "kind": "axql", "axql": "select ?x where ?x is Node" }, "notes": [],
            "results": { "vars": ["?x"], "truncated": false,
                         "rows": [{ "?x": { "id": 1, "entity_type": "Node", "name": "b" } }] },
        });
        assert_eq!(format_rows(&found), "select ?x where ?x is Node\n?x = b (Node #1)\n1 row\n");
    }
}
