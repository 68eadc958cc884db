//! `vic config`: prints the settings with their values and origins. Needs no daemon.

use crate::output::{Format, FormatArgs, Printer, print_note};
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
    /// Prints each setting with its value and origin; of keys, only whether they are set
    Show {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Prints a config.toml that contains all settings, commented out
    Template,
}

/// Prints the settings or the template.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Show { output } => {
            let settings = config::settings()?;
            for stranger in config::unknown_variables() {
                print_note(&format!("note: {stranger} is not a setting of vic and is ignored"));
            }
            match output.format {
                Format::Json => printer.json(&settings),
                Format::Human => settings.iter().try_for_each(|it| printer.line(&format_setting(it))),
            }
        }
        Command::Template => printer.raw(&config::config_template()),
    }
}

/// Formats a setting with its value and origin in one line.
fn format_setting(setting: &Setting) -> String {
    let origin = match setting.origin {
        Origin::Environment => "environment",
        Origin::File => "config.toml",
        Origin::Tuned => "tuned.toml",
        Origin::Default => "default",
    };
    let value = setting.value.as_deref().map_or("not set".into(), text::escape_controls);
    format!("{:<30} {origin:<12} {value}", setting.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_formatted_in_one_line() {
        let setting = Setting {
            name: "VIC_WORKERS",
            key: "workers".into(),
            value: Some("3".into()),
            origin: Origin::File,
            description: "",
        };
        assert_eq!(format_setting(&setting), "VIC_WORKERS                    config.toml  3");
        let unset = Setting { value: None, origin: Origin::Default, ..setting };
        assert_eq!(format_setting(&unset), "VIC_WORKERS                    default      not set");
    }
}
