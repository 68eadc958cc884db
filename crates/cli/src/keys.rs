//! `vic keys`: manages API keys for other people, each limited to some folders. Needs no daemon: a running one reads the
//! changed key table before the next request.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::ValueEnum;
use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::text;
use vic_protocol::config::Config;
use vic_protocol::data_dir::keys::{KeyEntry, Right};
use vic_protocol::data_dir::{directory, keys};
use vic_protocol::error::Result;

/// Arguments of `vic keys`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Creates a key for some folders; it is shown only once
    Add {
        /// Name of the holder of the key
        name: String,
        /// Folder that the holder may see; may be given several times
        #[arg(long = "root", value_name = "FOLDER", required = true)]
        roots: Vec<PathBuf>,
        /// What the holder may do
        #[arg(long, value_enum, default_value_t = Allowed::Read)]
        allow: Allowed,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Lists the keys, without their secret part
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Revokes a key; it is invalid from then on
    Revoke {
        /// Name of the holder of the key
        name: String,
    },
}

/// Rights that a key gives its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Allowed {
    /// Ask questions, list and read files
    Read,
    /// Also start and cancel index jobs
    Index,
}

impl From<Allowed> for Right {
    fn from(it: Allowed) -> Right {
        match it {
            Allowed::Read => Right::Read,
            Allowed::Index => Right::Index,
        }
    }
}

/// JSON output for a new key.
#[derive(Debug, Serialize)]
struct NewKey<'a> {
    name: &'a str,
    key: &'a str,
}

/// Runs the selected subcommand.
pub(crate) fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Add { name, roots, allow, output } => {
            directory::create_checked(config)?;
            let key = keys::add(config, &name, &roots, allow.into())?;
            match output.format {
                Format::Json => printer.json(&NewKey { name: &name, key: &key }),
                Format::Human => {
                    print_note("copy the key now: it is not shown again, as vic stores only its hash");
                    printer.line(&key)
                }
            }
        }
        Command::List { output } => {
            let all = keys::list(config)?;
            match output.format {
                Format::Json => printer.json(&all),
                Format::Human if all.is_empty() => printer.line("only the owner has a key; `vic keys add` adds keys"),
                Format::Human => all.iter().try_for_each(|it| printer.line(&format_key(it))),
            }
        }
        Command::Revoke { name } => {
            directory::create_checked(config)?;
            keys::revoke(config, &name)?;
            printer.line(&format!("revoked {}", text::escape_controls(&name)))
        }
    }
}

fn format_key(key: &KeyEntry) -> String {
    let made = DateTime::<Utc>::from_timestamp_millis(key.created_ms);
    let made = made.map(|it| it.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default();
    let right = if key.right == Right::Read { "read" } else { "index" };
    let roots: Vec<_> = key.roots.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    text::escape_controls(&format!("{}  {right}  {}  since {made}", key.name, roots.join(" "))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_formatted_in_one_line() {
        let key = KeyEntry {
            name: "ada".into(),
            hash: "00".into(),
            roots: vec!["/w/a".into(), "/w/b\u{1b}".into()],
            right: Right::Index,
            created_ms: 1_700_000_000_000,
        };
        let shown = format_key(&key);
        assert!(shown.starts_with("ada  index  /w/a /w/b") && shown.ends_with("since 2023-11-14T22:13:20Z"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }
}
