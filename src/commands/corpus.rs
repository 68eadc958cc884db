//! `vic corpus help` and `vic corpus schema`: print help and JSON Schemas of the corpus verbs. Need no daemon.

use serde_json::{Map, Value};
use vic_cli::output::Printer;
use vic_cli::text::escape_controls_in_json;

use crate::corpus::api::{help, schema};
use crate::error::Result;

/// Arguments of `vic corpus`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `help [VERB [FORM]]`, `help fields`, `schema [VERB]`, or words with `--help`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Prints the help or the JSON Schema that the words ask for.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    let asks_for_help = args.words.iter().any(|it| matches!(it.as_str(), "--help" | "-h"));
    let (first, rest) = (args.words[0].as_str(), &args.words[1..]);
    let fields: Map<String, Value> = rest.first().and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let name = |at: usize| match fields.is_empty() {
        true => rest.get(at).map(String::as_str).filter(|it| !it.starts_with('-')),
        false => fields.get(["verb", "form"][at]).and_then(Value::as_str),
    };
    let told = match first.to_ascii_lowercase().as_str() {
        "help" => help::text(name(0), name(1)),
        "--help" | "-h" => help::text(None, None),
        "schema" if !asks_for_help => {
            let Some(wanted) = name(0) else { return printer.json(&schema::all_schemas_without_descriptions()) };
            match schema::schemas_by_name(wanted) {
                Some(schema) => return printer.json(&schema),
                None => help::text(Some(wanted), None),
            }
        }
        _ => help::text(Some(first), name(0)),
    };
    match told {
        Ok(text) => printer.line(&text),
        Err((code, envelope)) => {
            printer.exit_code = code.exit_code();
            printer.line(&escape_controls_in_json(&envelope.to_string()))
        }
    }
}
