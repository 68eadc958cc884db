//! `vic mcp`: serves the Model Context Protocol, and enters vic into the configuration of the programs that use it.

mod clients;
mod config_file;
mod json_text;
mod toml_text;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::output::{Printer, print_note};
use crate::{text, vicd_command};
use clients::Client;
use config_file::ConfigFile;
use vic_protocol::config::{Toolsets, UserFolders};
use vic_protocol::error::{Error, Result};

/// Arguments of `vic mcp`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Toolsets besides the tools for files: graph, corpus or all [default: VIC_MCP_TOOLS]
    #[arg(long, value_name = "TOOLSETS")]
    tools: Option<Toolsets>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Enters vic into the configuration of a client, and keeps a backup of the file
    Install {
        #[command(flatten)]
        target: Target,
        /// Toolsets besides the tools for files: graph, corpus or all
        #[arg(long, value_name = "TOOLSETS")]
        tools: Option<Toolsets>,
    },
    /// Removes vic from the configuration of a client, and keeps a backup of the file
    Uninstall {
        #[command(flatten)]
        target: Target,
    },
}

/// The configuration to change.
#[derive(Debug, clap::Args)]
struct Target {
    /// The client to configure
    #[arg(long = "for", value_enum, value_name = "CLIENT")]
    client: Client,
    /// Configuration file of the client [default: the client's own file for this user]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show the difference without writing the file
    #[arg(long)]
    dry_run: bool,
}

/// Serves the protocol, or changes the configuration of a client.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    match &args.command {
        None => vicd_command::run_in_vicd("mcp", &server_arguments(args.tools), printer),
        Some(Command::Install { target, tools }) => {
            let folders = UserFolders::load()?;
            let program = std::env::current_exe().map_err(Error::internal)?;
            let server = clients::Server {
                command: program.to_str().ok_or_else(|| not_utf8(&program))?.to_string(),
                arguments: server_words(*tools),
                data_dir: folders.data_dir.as_ref().map(|it| it.to_string_lossy().into_owned()),
            };
            change(target, &folders, printer, &|text| target.client.install(text, &server))
        }
        Some(Command::Uninstall { target }) => {
            let folders = UserFolders::load()?;
            change(target, &folders, printer, &|text| target.client.uninstall(text))
        }
    }
}

fn not_utf8(program: &std::path::Path) -> Error {
    Error::invalid(format!("the path of vic, `{}`, is not UTF-8", program.display()))
        .hint("move vic to a folder with a plain name")
}

fn server_words(tools: Option<Toolsets>) -> Vec<String> {
    let tools = tools.into_iter().flat_map(|it| ["--tools".to_string(), it.to_string()]);
    std::iter::once("mcp".to_string()).chain(tools).collect()
}

fn server_arguments(tools: Option<Toolsets>) -> vicd_command::Args {
    vicd_command::Args { arguments: server_words(tools).into_iter().skip(1).map(OsString::from).collect() }
}

/// Changes the text of a configuration; `None` means that nothing has to change.
type Edit<'a> = &'a dyn Fn(&str) -> std::result::Result<Option<String>, String>;

/// Applies an edit to the configuration of a client: shows the difference, and writes it after a backup.
fn change(target: &Target, folders: &UserFolders, printer: &mut Printer, edit: Edit<'_>) -> Result<()> {
    let path = match &target.file {
        Some(file) => file.clone(),
        None => target.client.location(folders, cfg!(target_os = "macos")),
    };
    let file = ConfigFile::open(&path)?;
    let shown = text::escape_controls(&file.path().display().to_string()).into_owned();
    let edited = edit(file.text()).map_err(|reason| {
        Error::invalid(format!("`{}` {reason}; it is unchanged", file.path().display()))
            .hint("correct the file, or enter vic by hand: the command of its server is `vic mcp`")
    })?;
    let Some(edited) = edited else {
        return printer.line(&format!("nothing to change in {shown}"));
    };
    printer.line(&shown)?;
    printer.raw(&config_file::difference(file.text(), &edited))?;
    if target.dry_run {
        print_note("nothing is written with --dry-run");
        return Ok(());
    }
    if let Some(backup) = file.write(&edited)? {
        printer.line(&format!("backup: {}", text::escape_controls(&backup.display().to_string())))?;
    }
    print_note(&format!("restart {} to apply the change", target.client.title()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> std::result::Result<Args, clap::Error> {
        Line::try_parse_from(std::iter::once(&"mcp").chain(words)).map(|it| it.args)
    }

    #[test]
    fn server_gets_its_toolsets() {
        let args = parse(&["--tools", "corpus,graph"]).unwrap();
        assert_eq!(server_arguments(args.tools).arguments, ["--tools", "graph,corpus"]);
        assert!(server_arguments(parse(&[]).unwrap().tools).arguments.is_empty());
        assert_eq!(server_words(Some(Toolsets::ALL)), ["mcp", "--tools", "graph,corpus"]);
    }

    #[test]
    fn wrong_usage_is_refused() {
        for words in [
            vec!["--tools", "files"],
            vec!["install"],
            vec!["install", "--for", "notepad"],
            vec!["--tools", "all", "install", "--for", "zed"],
        ] {
            assert_eq!(parse(&words).unwrap_err().exit_code(), 2, "{words:?}");
        }
        assert!(parse(&["install", "--for", "zed", "--dry-run", "--tools", "all"]).is_ok());
        assert!(parse(&["uninstall", "--for", "claude-desktop", "--file", "x.json"]).is_ok());
    }
}
