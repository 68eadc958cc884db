//! `vic config`: every setting, what it is and where it came from. Needs no daemon.

use crate::output::{Format, FormatArgs, Printer, note};
use crate::text;
use vic_protocol::config::{self, Origin, Setting};
use vic_protocol::error::Result;

/// Arguments of `vic config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Prints every variable with its value and where that came from; keys only as set or not set
    Show {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Prints a config.toml in which every key stands, commented out
    Template,
}

/// Prints.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Show { output } => {
            let settings = config::settings()?;
            for stranger in config::strangers() {
                note(&format!("note: {stranger} is no setting of vic and is not read"));
            }
            match output.format {
                Format::Json => printer.json(&settings),
                Format::Human => settings.iter().try_for_each(|it| printer.line(&line(it))),
            }
        }
        Command::Template => printer.raw(&config::template()),
    }
}

/// One setting in one line.
fn line(setting: &Setting) -> String {
    let origin = match setting.origin {
        Origin::Environment => "environment",
        Origin::File => "config.toml",
        Origin::Tuned => "tuned.toml",
        Origin::Default => "default",
    };
    let value = setting.value.as_deref().map_or("not set".into(), text::visible);
    format!("{:<30} {origin:<12} {value}", setting.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_reads_like_this() {
        let setting = Setting {
            name: "VIC_WORKERS",
            key: "workers".into(),
            value: Some("3".into()),
            origin: Origin::File,
            description: "",
        };
        assert_eq!(line(&setting), "VIC_WORKERS                    config.toml  3");
        let unset = Setting { value: None, origin: Origin::Default, ..setting };
        assert_eq!(line(&unset), "VIC_WORKERS                    default      not set");
    }
}
