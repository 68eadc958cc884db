//! `vic ask`: asks a question and prints the answer, as text for people or as JSON for programs.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Deserialize;

use crate::filter_args::FilterArgs;
use crate::output::{Format, Printer};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::compact_output;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};
use vic_protocol::model::{Anchor, AskRequest, AskResponse, PrivacyMode, ResponseStats, SearchHit};

/// Maximum number of lines of a printed excerpt; the JSON output has the whole excerpt.
const MAX_EXCERPT_LINES: usize = 6;

/// Arguments of `vic ask`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The question in plain words
    #[arg(required = true)]
    question: Vec<String>,
    /// Search only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Maximum number of files in the answer
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Output format [default: human on a terminal, else json]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print the quotes, then path, location and passage of each hit, in as few characters as possible
    #[arg(long, conflicts_with_all = ["format", "explain"])]
    compact: bool,
    /// Maximum number of characters of the compact output
    #[arg(long, value_name = "N", requires = "compact", default_value_t = compact_output::MAX_CHARS)]
    max_chars: usize,
    /// Which data may leave the machine: local_only, cloud_reasoning_ok or cloud_embedding_ok
    #[arg(long, value_parser = privacy_mode, value_name = "MODE")]
    privacy_mode: Option<PrivacyMode>,
    /// Print for each hit its rank and score in the keyword and the vector search
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

fn privacy_mode(name: &str) -> Result<PrivacyMode, String> {
    PrivacyMode::from_name(name)
        .ok_or_else(|| "use `local_only`, `cloud_reasoning_ok` or `cloud_embedding_ok`".to_string())
}

/// Sends the question to the daemon and prints the answer.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let query = args.question.join(" ");
    if query.trim().is_empty() {
        return Err(Error::invalid("the question is empty").hint("for example: vic ask \"who signed the contract?\""));
    }
    let client = Client::connect_or_start(config).await?;
    let request = AskRequest {
        query,
        privacy_mode: args.privacy_mode,
        warehouse_root: value_parsers::resolve_root(&client, args.root.as_deref()).await?,
        limit: Some(args.limit),
        offset: None,
        filters: args.filter.l0(),
        explain: args.explain,
        words_only: false,
        plain_words: false,
        plan: None,
    };
    let response = client.ask(request).await?;
    if args.compact {
        return printer.raw(&compact_output::compact_answer(&response, args.max_chars));
    }
    let format = args.format.unwrap_or(if printer.terminal { Format::Human } else { Format::Json });
    print_answer(&response, format, printer)
}

/// Prints an answer in the given format.
pub(crate) fn print_answer(response: &AskResponse, format: Format, printer: &mut Printer) -> Result<()> {
    match format {
        Format::Json => printer.json(response),
        Format::Human => printer.raw(&human_answer(response, printer.styled)),
    }
}

/// Formats an answer as text for people, with control characters escaped for a terminal.
fn human_answer(response: &AskResponse, styled: bool) -> String {
    let mut out = String::new();
    if let Some(summary) = response.answer_summary.as_deref().filter(|it| !it.trim().is_empty()) {
        for line in summary.lines() {
            out.push_str(&text::wrap(line, 0, usize::MAX));
            out.push('\n');
        }
        out.push('\n');
    }
    for (place, hit) in response.hits.iter().enumerate() {
        write_hit(&mut out, place + 1, hit, styled);
        out.push('\n');
    }
    for warning in &response.warnings {
        let _ = writeln!(out, "warning: {}", text::escape_controls(warning));
    }
    out.push_str(&answer_footer(response));
    out.push('\n');
    out
}

fn write_hit(out: &mut String, number: usize, hit: &SearchHit, styled: bool) {
    let (bold, plain) = if styled { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    let _ = write!(out, "{number}. {bold}{}{plain}", text::escape_controls(&hit.path));
    let place = hit_place(hit);
    if !place.is_empty() {
        let _ = write!(out, "  {place}");
    }
    let weak = if hit.metadata.contains_key("weak") { "  weak" } else { "" };
    let _ = writeln!(out, "  {:.3} {}{weak}", hit.score, text::escape_controls(&hit.tier));
    let explained = hit.metadata.get("explain").map(explain_score).unwrap_or_default();
    for part in [
        text::wrap(&hit.excerpt, 3, MAX_EXCERPT_LINES),
        text::wrap(&hit.reasoning, 3, 2),
        text::wrap(&explained, 3, usize::MAX),
    ] {
        if !part.is_empty() {
            let _ = writeln!(out, "{part}");
        }
    }
    for window in hit.metadata.get("windows").and_then(|it| it.as_array()).into_iter().flatten() {
        let text = |name: &str| window[name].as_str().unwrap_or_default();
        let _ = writeln!(out, "   -- {}", text::escape_controls(text("place")));
        let _ = writeln!(out, "{}", text::wrap(text("excerpt"), 3, MAX_EXCERPT_LINES));
    }
}

/// Formats all values that make up a hit's score in one paragraph.
fn explain_score(explain: &serde_json::Value) -> String {
    let number = |it: &serde_json::Value| it.as_f64().map_or("none".to_string(), |it| format!("{it:.3}"));
    let leg = |name: &str, value: &str| match &explain[name] {
        serde_json::Value::Null => format!("{name} search: not in its results"),
        leg => format!("{name} search: rank {}, {value} {}", leg["rank"], number(&leg[value])),
    };
    let date_order = &explain["date_order"];
    let dated = match date_order["date"].as_str() {
        Some(date) => format!(
            "; {} first: {date} ({})",
            date_order["order"].as_str().unwrap_or_default(),
            date_order["from"].as_str().unwrap_or_default()
        ),
        None => String::new(),
    };
    format!(
        "{}; {}; cosine {}, with feedback {}; {} more passages; score {} = {}{dated}",
        leg("keyword", "bm25"),
        leg("vector", "cosine"),
        number(&explain["similarity"]),
        number(&explain["moved"]),
        explain["other_chunks"],
        number(&explain["score"]),
        explain["formula"].as_str().unwrap_or_default(),
    )
}

/// Returns the location of a hit's passage in its file as text; empty if the format of the file has no locations.
fn hit_place(hit: &SearchHit) -> String {
    let anchor = hit.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    text::escape_controls(&anchor.place()).into_owned()
}

fn answer_footer(response: &AskResponse) -> String {
    let mut line = match response.hits.len() {
        0 => "nothing found".to_string(),
        number => text::plural(number as u64, "file"),
    };
    let ResponseStats { latency_ms, chunk_rows_indexed, embed_model, .. } = response.stats.clone().unwrap_or_default();
    if let Some(latency) = latency_ms {
        let _ = write!(line, " in {latency:.0} ms");
    }
    if let Some(chunks) = chunk_rows_indexed {
        let _ = write!(line, ", {} searched", text::plural(chunks, "chunk"));
    }
    if let Some(model) = embed_model {
        let _ = write!(line, ", {}", text::escape_controls(&model));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn answer_is_formatted_for_people() {
        let expected = "\
Ada signed it.

1. notes/plan.md  lines 3-5  0.812 L1
   The budget of the harbour project was signed by Ada on Monday.
   keyword rank 1, vector rank 2

warning: 2 files are still to be read
1 file in 12 ms, 1,234 chunks searched, all-MiniLM-L6-v2
";
        assert_eq!(human_answer(&samples::answer("x"), false), expected);
    }

    #[test]
    fn explained_hit_shows_values_of_both_legs() {
        let mut answer = samples::answer("x");
        let explain = serde_json::json!({
            "formula": "f", "keyword": { "rank": 1, "bm25": 7.5 }, "vector": null, "similarity": 0.25, "moved": null,
            "other_chunks": 2, "score": 0.5,
            "date_order": { "order": "newest", "date": "2025-01-01", "from": "stated in the text" },
        });
        answer.hits[0].metadata.insert("explain".into(), explain);
        let shown = human_answer(&answer, false);
        let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains("keyword search: rank 1, bm25 7.500; vector search: not in its results"), "{shown}");
        assert!(
            one_line.contains("cosine 0.250, with feedback none; 2 more passages; score 0.500 = f; newest first"),
            "{shown}"
        );
    }

    #[test]
    fn answer_without_hits_prints_nothing_found() {
        let empty = AskResponse {
            hits: vec![],
            answer_summary: None,
            answer: None,
            warnings: vec![],
            stats: None,
            ..samples::answer("x")
        };
        assert_eq!(human_answer(&empty, true), "nothing found\n");
    }

    #[test]
    fn control_characters_in_hits_are_escaped() {
        let mut answer = samples::answer("x");
        let hit = &mut answer.hits[0];
        for field in [&mut hit.path, &mut hit.excerpt, &mut hit.reasoning, &mut hit.tier] {
            *field = "\u{1b}]0;owned\u{7}\u{9b}2J".into();
        }
        answer.answer_summary = Some("\u{1b}[2J".into());
        answer.warnings = vec!["\u{1b}[2J\nerror: fake".into()];
        let anchor = Anchor { sheet: Some("\u{1b}c".into()), ..Anchor::default() };
        answer.hits[0].metadata.insert("anchor".into(), serde_json::json!(anchor));
        let shown = human_answer(&answer, false);
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{shown}");
        assert!(shown.contains("sheet \\u{1b}c"), "{shown}");
        assert!(!shown.contains("\nerror"), "{shown}");
    }
}
