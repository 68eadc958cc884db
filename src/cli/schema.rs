//! `vic schema`: the published contract as JSON Schema. Needs no daemon.

use clap::builder::PossibleValuesParser;

use crate::cli::output::Printer;
use crate::error::{Error, Result};
use crate::serve::schema;

/// Arguments of `vic schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The type
    #[arg(value_parser = PossibleValuesParser::new(schema::names().collect::<Vec<_>>()))]
    name: String,
}

/// Prints.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<()> {
    let schema = schema::schema(&args.name).ok_or_else(|| Error::not_found(format!("no schema `{}`", args.name)))?;
    printer.json(&schema)
}
