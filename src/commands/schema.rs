//! `vic schema`: prints published types as JSON Schema. Needs no daemon.

use clap::builder::PossibleValuesParser;

use crate::corpus;
use crate::error::{Error, Result};
use crate::serve::schema;
use vic_cli::output::Printer;

/// Name under which all schemas of the corpus API are printed: requests and responses of its verbs.
const CONTRACT: &str = "corpus";

/// Arguments of `vic schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the type; `corpus` prints the requests and responses of all corpus verbs
    #[arg(value_parser = PossibleValuesParser::new(schema::names().chain([CONTRACT]).collect::<Vec<_>>()))]
    name: String,
}

/// Prints the JSON Schema of the type.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    if args.name == CONTRACT {
        return printer.json(&corpus::api::schema::all_schemas());
    }
    let schema = schema::schema(&args.name).ok_or_else(|| Error::not_found(format!("no schema `{}`", args.name)))?;
    printer.json(&schema)
}
