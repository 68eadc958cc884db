//! `vic files`: lists files by metadata and indexing state.

use std::path::PathBuf;

use chrono::{DateTime, Local, Utc};
use clap::ValueEnum;

use crate::filter_args::FilterArgs;
use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{FileEntry, FileFilter, FileList, FilePage, FileRecord, FileState, display_path, parse_path};

/// Number of files per request: small enough to show the first files at once, and large enough that a million files take
/// only a thousand requests.
const PAGE_SIZE: u64 = 1_000;

/// Arguments of `vic files`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Words in the file name; case is ignored. `name:budget` is the same as `budget`, `name:*.xlsx` is a glob
    words: Vec<String>,
    /// List only files below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// List only files in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of files to list
    #[arg(long, default_value_t = 100)]
    limit: u64,
    #[command(flatten)]
    output: FormatArgs,
}

/// A [`FileState`] as a command line argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// Known, but not read yet
    Pending,
    /// Searchable in the index
    Indexed,
    /// Deliberately not read
    Skipped,
    /// Could not be read
    Failed,
}

impl From<State> for FileState {
    fn from(state: State) -> FileState {
        match state {
            State::Pending => FileState::Pending,
            State::Indexed => FileState::Indexed,
            State::Skipped => FileState::Skipped,
            State::Failed => FileState::Failed,
        }
    }
}

/// Adds the typed words to a filter. Words may be typed like the operator `name:` of questions.
fn with_words(mut filter: FileFilter, words: Vec<String>) -> FileFilter {
    let mut globs = Vec::from_iter(filter.path_glob.take());
    for word in words {
        match word.strip_prefix("name:") {
            Some(glob) if glob.contains(['*', '?', '[', '{']) => globs.push(format!("**/{glob}")),
            Some(word) => filter.name_words.push(word.to_string()),
            None => filter.name_words.push(word),
        }
    }
    filter.path_glob = match globs.len() {
        0 | 1 => globs.pop(),
        _ => Some(format!("{{{}}}", globs.join(","))),
    };
    filter
}

/// Lists the files page by page, until the limit or the end.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let under = value_parsers::resolve_root(&client, args.root.as_deref()).await?.map(|it| parse_path(&it));
    let state = args.state.map(Into::into);
    let filter = with_words(FileFilter { under, state, ..args.filter.file_filter()? }, args.words);
    let mut rows = FilePage::default();
    let mut shown = 0;
    while shown < args.limit && !printer.closed() {
        let page = PAGE_SIZE.min(args.limit - shown);
        let FileList { files, total, warnings } = client.files(filter.clone(), page as u32, shown).await?;
        shown += files.len() as u64;
        rows.total = total;
        rows.warnings = warnings;
        if files.is_empty() {
            break;
        }
        match args.output.format {
            Format::Json => rows.files.extend(files.iter().map(FileEntry::from)),
            Format::Human => files.iter().try_for_each(|file| printer.line(&format_file(file)))?,
        }
        if shown >= total {
            break;
        }
    }
    match args.output.format {
        Format::Json => printer.json(&rows),
        Format::Human => print_notes(&rows, shown, printer),
    }
}

/// Prints notes below the list: warnings, and how many files it leaves out.
fn print_notes(rows: &FilePage, shown: u64, printer: &mut Printer) -> Result<()> {
    printer.flush()?;
    rows.warnings.iter().for_each(|it| print_note(&text::escape_controls(it)));
    if shown < rows.total {
        let all = text::plural(rows.total, "file");
        print_note(&format!("{} of {all}; --limit shows more", text::group_digits(shown)));
    }
    Ok(())
}

/// Formats a file in one line, with its path at the end.
fn format_file(file: &FileRecord) -> String {
    let modified = modified(file).with_timezone(&Local).format("%Y-%m-%d %H:%M").to_string();
    let mut line = format!(
        "{:<8} {:>10}  {:<16}  {}",
        file.state.name(),
        text::format_bytes(file.found.size),
        modified,
        text::escape_controls(&display_path(&file.absolute())),
    );
    if let Some(reason) = file.reason {
        line.push_str(&format!("  ({}", reason.name()));
        if !file.detail.is_empty() {
            line.push_str(&format!(": {}", text::escape_controls(&file.detail)));
        }
        line.push(')');
    }
    line
}

fn modified(file: &FileRecord) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(file.found.modified_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn failed_file_shows_reason_and_is_escaped() {
        let line = format_file(&samples::file());
        assert!(line.starts_with("failed      2.0 KiB  2023-11-1"), "{line}");
        assert!(line.ends_with("  /w/a\\u{1b}[31m.pdf  (damaged: no end)"), "{line}");
    }

    #[test]
    fn name_operator_is_word_or_glob() {
        let filter = |words: &[&str]| with_words(FileFilter::default(), words.iter().map(|it| (*it).into()).collect());
        assert_eq!(filter(&["lease", "name:budget"]).name_words, ["lease", "budget"]);
        assert_eq!(filter(&["name:*.a", "name:*.b"]).path_glob.as_deref(), Some("{**/*.a,**/*.b}"));
        assert_eq!(filter(&["name:*.xlsx"]).path_glob.as_deref(), Some("**/*.xlsx"));
    }

    #[test]
    fn json_entry_has_all_fields() {
        let json = serde_json::to_value(FileEntry::from(&samples::file())).unwrap();
        assert_eq!(json["path"], "/w/a\u{1b}[31m.pdf");
        assert_eq!(json["modified"], "2023-11-14T22:13:20Z");
        assert_eq!((&json["state"], &json["reason"]), (&"failed".into(), &"damaged".into()));
        assert_eq!(json["hash"].as_str().unwrap().len(), 64);
    }
}
