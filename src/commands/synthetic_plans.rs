//! `vic synthetic-plans`: writes questions with their query plans, to train a planner. Needs no daemon.

use std::io::Write;
use std::path::{Path, PathBuf};

use chrono::{Local, NaiveDate};

use crate::config::Config;
use crate::error::{Error, IoContext, Result};
use crate::planner;
use vic_cli::output::Printer;

/// Output file if neither an option nor the configuration names one; used only if its folder exists.
const DEFAULT_FILE: &str = "training/synthetic_plans.jsonl";

/// Arguments of `vic synthetic-plans`. Each line of the output is `{"question": "...", "plan": {...}}`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to write; default VIC_SYNTHETIC_JSONL, else training/synthetic_plans.jsonl if ./training exists
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of lines to write
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Random seed; the same seed and day give the same lines
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The day that `last week` and the like refer to; default: today
    #[arg(long, value_name = "YYYY-MM-DD")]
    today: Option<NaiveDate>,
}

/// Writes the questions and plans to the file.
pub(crate) fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let path = match args.out.or_else(|| config.synthetic_jsonl.clone()) {
        Some(path) => path,
        None if Path::new("training").is_dir() => PathBuf::from(DEFAULT_FILE),
        None => {
            return Err(Error::invalid("no output file given, and no folder `training` in the current directory")
                .hint("name one: `vic synthetic-plans --out plans.jsonl`"));
        }
    };
    let today = args.today.unwrap_or_else(|| Local::now().date_naive());
    let examples = planner::synthetic_plans(args.count as usize, args.seed, today)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Writes a temporary file and renames it, so that an existing file is replaced atomically.
    let mut file = tempfile::NamedTempFile::new_in(folder).io_context("write", &path)?;
    let mut writer = std::io::BufWriter::new(file.as_file_mut());
    for example in &examples {
        serde_json::to_writer(&mut writer, example).map_err(Error::internal)?;
        writer.write_all(b"\n").io_context("write", &path)?;
    }
    writer.flush().io_context("write", &path)?;
    drop(writer);
    file.persist(&path).map_err(|error| error.error).io_context("write", &path)?;
    printer.line(&format!("{} lines in {}", examples.len(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(out: Option<PathBuf>, variable: Option<&Path>) -> Result<()> {
        let config = Config::from_lookup(&|name| match name {
            "VIC_SYNTHETIC_JSONL" => variable.map(|it| it.as_os_str().to_os_string()),
            "VIC_DATA_DIR" => Some("/nowhere".into()),
            _ => None,
        })?;
        let today = NaiveDate::from_ymd_opt(2026, 3, 18);
        run(Args { out, count: 20, seed: 1, today }, &config, &mut Printer::stdout())
    }

    #[test]
    fn lines_hold_question_and_plan() {
        let dir = tempfile::tempdir().unwrap();
        let (named, configured) = (dir.path().join("a.jsonl"), dir.path().join("b.jsonl"));
        check(Some(named.clone()), Some(&configured)).unwrap();
        check(None, Some(&configured)).unwrap();
        let text = std::fs::read_to_string(&named).unwrap();
        assert_eq!(text, std::fs::read_to_string(&configured).unwrap());
        assert_eq!(text.lines().count(), 20);
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line.as_object().unwrap().keys().collect::<Vec<_>>(), ["question", "plan"]);
            let plan: crate::model::QueryPlan = serde_json::from_value(line["plan"].clone()).unwrap();
            assert_eq!(plan.raw_user_text, line["question"]);
        }
    }

    #[test]
    fn missing_output_file_fails_with_hint() {
        let error = check(None, None).unwrap_err();
        assert!(error.hint.is_some_and(|it| it.contains("--out")), "{}", error.message);
        let error = check(Some("/nowhere/at/all.jsonl".into()), None).unwrap_err();
        assert!(error.message.contains("/nowhere/at/all.jsonl"), "{error}");
    }
}
