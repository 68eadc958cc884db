//! `vic files`: files by metadata and state.

use std::path::PathBuf;

use chrono::{DateTime, Local, Utc};
use clap::ValueEnum;

use crate::filter::FilterArgs;
use crate::output::{Format, FormatArgs, Printer, note};
use crate::{text, values};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{FileEntry, FileFilter, FilePage, FileRecord, FileState, path_of, printed};

/// Files asked for at once: small enough to show the first at once, large enough that a million takes a thousand calls.
const PAGE: u64 = 1_000;

/// Arguments of `vic files`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Words that the name must contain, in any case
    words: Vec<String>,
    /// Only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Only files in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Most files
    #[arg(long, default_value_t = 100)]
    limit: u64,
    #[command(flatten)]
    output: FormatArgs,
}

/// [`FileState`] as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// Known, not yet read
    Pending,
    /// In the index
    Indexed,
    /// Left out on purpose
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

/// Lists.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let under = values::named_root(&client, args.root.as_deref()).await?.map(|it| path_of(&it));
    let filter =
        FileFilter { under, name_words: args.words, state: args.state.map(Into::into), ..args.filter.file_filter()? };
    let mut rows = FilePage::default();
    let mut shown = 0;
    while shown < args.limit && !printer.closed() {
        let page = PAGE.min(args.limit - shown);
        let (files, total) = client.files(filter.clone(), page as u32, shown).await?;
        shown += files.len() as u64;
        rows.total = total;
        if files.is_empty() {
            break;
        }
        match args.output.format {
            Format::Json => rows.files.extend(files.iter().map(FileEntry::from)),
            Format::Human => files.iter().try_for_each(|file| printer.line(&human(file)))?,
        }
        if shown >= total {
            break;
        }
    }
    match args.output.format {
        Format::Json => printer.json(&rows),
        Format::Human if shown < rows.total => {
            printer.flush()?;
            note(&format!("{} of {}; --limit shows more", text::count(shown), text::plural(rows.total, "file")));
            Ok(())
        }
        Format::Human => Ok(()),
    }
}

/// One file in one line, its path last.
fn human(file: &FileRecord) -> String {
    let modified = modified(file).with_timezone(&Local).format("%Y-%m-%d %H:%M").to_string();
    let mut line = format!(
        "{:<8} {:>10}  {:<16}  {}",
        file.state.name(),
        text::bytes(file.found.size),
        modified,
        text::visible(&printed(&file.absolute())),
    );
    if let Some(reason) = file.reason {
        line.push_str(&format!("  ({}", reason.name()));
        if !file.detail.is_empty() {
            line.push_str(&format!(": {}", text::visible(&file.detail)));
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
    fn a_failed_file_says_why_and_cannot_colour_the_terminal() {
        let line = human(&samples::file());
        assert!(line.starts_with("failed      2.0 KiB  2023-11-1"), "{line}");
        assert!(line.ends_with("  /w/a\\u{1b}[31m.pdf  (damaged: no end)"), "{line}");
    }

    #[test]
    fn json_has_every_fact() {
        let json = serde_json::to_value(FileEntry::from(&samples::file())).unwrap();
        assert_eq!(json["path"], "/w/a\u{1b}[31m.pdf");
        assert_eq!(json["modified"], "2023-11-14T22:13:20Z");
        assert_eq!((&json["state"], &json["reason"]), (&"failed".into(), &"damaged".into()));
        assert_eq!(json["hash"].as_str().unwrap().len(), 64);
    }
}
