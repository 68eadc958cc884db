//! `vic keys`: keys for others, each for some folders. The daemon need not run: it sees a change with the next request.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::ValueEnum;
use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer, note};
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
    /// Makes a key for some folders, and shows it this once
    Add {
        /// Who it is for
        name: String,
        /// A folder that its holder may know of; may be given several times
        #[arg(long = "root", value_name = "FOLDER", required = true)]
        roots: Vec<PathBuf>,
        /// What its holder may do
        #[arg(long, value_enum, default_value_t = Allowed::Read)]
        allow: Allowed,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Lists the keys, without what opens
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Takes a key away; it opens nothing from then on
    Revoke {
        /// Who it was for
        name: String,
    },
}

/// Rights of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Allowed {
    /// Ask, list and read
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

/// A key that was just made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    name: &'a str,
    key: &'a str,
}

/// Does what was asked.
pub(crate) fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Add { name, roots, allow, output } => {
            directory::prepare(config)?;
            let key = keys::add(config, &name, &roots, allow.into())?;
            match output.format {
                Format::Json => printer.json(&Made { name: &name, key: &key }),
                Format::Human => {
                    note("shown this once; only its hash is kept");
                    printer.line(&key)
                }
            }
        }
        Command::List { output } => {
            let all = keys::list(config)?;
            match output.format {
                Format::Json => printer.json(&all),
                Format::Human if all.is_empty() => printer.line("no keys but the owner's; `vic keys add` makes one"),
                Format::Human => all.iter().try_for_each(|it| printer.line(&line(it))),
            }
        }
        Command::Revoke { name } => {
            directory::prepare(config)?;
            keys::revoke(config, &name)?;
            printer.line(&format!("revoked {}", text::visible(&name)))
        }
    }
}

fn line(key: &KeyEntry) -> String {
    let made = DateTime::<Utc>::from_timestamp_millis(key.created_ms);
    let made = made.map(|it| it.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default();
    let right = if key.right == Right::Read { "read" } else { "index" };
    let roots: Vec<_> = key.roots.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    text::visible(&format!("{}  {right}  {}  since {made}", key.name, roots.join(" "))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_like_this() {
        let key = KeyEntry {
            name: "ada".into(),
            hash: "00".into(),
            roots: vec!["/w/a".into(), "/w/b\u{1b}".into()],
            right: Right::Index,
            created_ms: 1_700_000_000_000,
        };
        let shown = line(&key);
        assert!(shown.starts_with("ada  index  /w/a /w/b") && shown.ends_with("since 2023-11-14T22:13:20Z"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }
}
