//! `vic roots`: lists, adds and removes roots, the folders that are indexed and watched.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer};
use crate::{status, text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Root, display_path, parse_path};

/// Arguments of `vic roots`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists the roots (the default)
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Adds a folder, and watches it from then on
    Add {
        /// Path of the folder
        path: PathBuf,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Removes a folder and its index entries, except those in another root; the files stay on disk
    Remove {
        /// Path of the folder
        path: PathBuf,
    },
}

/// Describes what a removal did. Says so if another root keeps files of the removed one in the index.
fn removal_message(path: &str, left: &[Root]) -> String {
    let removed = parse_path(path);
    let above = left.iter().find(|it| removed.starts_with(&it.path));
    let below = left.iter().filter(|it| it.path.starts_with(&removed)).count() as u64;
    let kept = match (above, below) {
        (Some(above), _) => format!("; its files stay in the index, as part of {}", display_path(&above.path)),
        (None, 0) => String::new(),
        (None, some) => format!("; {} in it stays indexed", text::plural(some, "root")),
    };
    text::escape_controls(&format!("removed {path}{kept}")).into_owned()
}

/// Runs the selected subcommand.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    match args.command.unwrap_or(Command::List { output: args.output }) {
        Command::List { output } => {
            let roots = client.roots().await?;
            match output.format {
                Format::Json => printer.json(&roots.into_iter().map(Root::with_printable_path).collect::<Vec<_>>()),
                Format::Human if roots.is_empty() => printer.line("no roots yet; `vic index FOLDER` adds one"),
                Format::Human => roots.iter().try_for_each(|root| printer.line(&status::root_line(root))),
            }
        }
        Command::Add { path, output } => {
            let root = client.add_root(&value_parsers::absolute_path(&path)?).await?;
            match output.format {
                Format::Json => printer.json(&root.with_printable_path()),
                Format::Human => printer.line(&format!("added {}", status::root_line(&root))),
            }
        }
        Command::Remove { path } => {
            let path = value_parsers::absolute_path(&path)?;
            client.remove_root(&path).await?;
            printer.line(&removal_message(&path, &client.roots().await?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_names_root_that_keeps_the_files() {
        let left = |path: &str| [Root { id: 1, path: path.into(), available: true, problem: String::new() }];
        assert_eq!(removal_message("/a", &left("/b")), "removed /a");
        assert_eq!(removal_message("/a/b", &left("/a")), "removed /a/b; its files stay in the index, as part of /a");
        assert_eq!(removal_message("/a", &left("/a/b")), "removed /a; 1 root in it stays indexed");
    }
}
