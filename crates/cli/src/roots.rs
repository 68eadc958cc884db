//! `vic roots`: the folders that are indexed and watched.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer};
use crate::{status, text, values};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Root, path_of, printed};

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
    /// Lists them (the default)
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Adds a folder; it is watched from then on
    Add {
        /// The folder
        path: PathBuf,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Forgets a folder and what the index knows of it, save what lies in another root; the files stay
    Remove {
        /// The folder
        path: PathBuf,
    },
}

/// What became of a root. Another one may still have its files.
fn removed(path: &str, left: &[Root]) -> String {
    let removed = path_of(path);
    let above = left.iter().find(|it| removed.starts_with(&it.path));
    let below = left.iter().filter(|it| it.path.starts_with(&removed)).count() as u64;
    let kept = match (above, below) {
        (Some(above), _) => format!("; its files stay in the index, as part of {}", printed(&above.path)),
        (None, 0) => String::new(),
        (None, some) => format!("; {} in it stays indexed", text::plural(some, "root")),
    };
    text::visible(&format!("removed {path}{kept}")).into_owned()
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    match args.command.unwrap_or(Command::List { output: args.output }) {
        Command::List { output } => {
            let roots = client.roots().await?;
            match output.format {
                Format::Json => printer.json(&roots.into_iter().map(Root::printable).collect::<Vec<_>>()),
                Format::Human if roots.is_empty() => printer.line("no roots yet; `vic index FOLDER` adds one"),
                Format::Human => roots.iter().try_for_each(|root| printer.line(&status::root_line(root))),
            }
        }
        Command::Add { path, output } => {
            let root = client.add_root(&values::absolute(&path)?).await?;
            match output.format {
                Format::Json => printer.json(&root.printable()),
                Format::Human => printer.line(&format!("added {}", status::root_line(&root))),
            }
        }
        Command::Remove { path } => {
            let path = values::absolute(&path)?;
            client.remove_root(&path).await?;
            printer.line(&removed(&path, &client.roots().await?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_root_still_has_is_told() {
        let left = |path: &str| [Root { id: 1, path: path.into(), available: true, problem: String::new() }];
        assert_eq!(removed("/a", &left("/b")), "removed /a");
        assert_eq!(removed("/a/b", &left("/a")), "removed /a/b; its files stay in the index, as part of /a");
        assert_eq!(removed("/a", &left("/a/b")), "removed /a; 1 root in it stays indexed");
    }
}
