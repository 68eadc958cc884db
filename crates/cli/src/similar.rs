//! `vic similar`: finds files similar to a file.

use std::path::PathBuf;

use crate::filter_args::FilterArgs;
use crate::output::{FormatArgs, Printer};
use crate::{ask, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::SimilarRequest;

/// Arguments of `vic similar`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of the file, which must be in the index
    path: PathBuf,
    /// Search only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Maximum number of files in the answer
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks the daemon for similar files and prints them.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let (path, _) = value_parsers::resolve_place(&client, &args.path).await?;
    let request = SimilarRequest {
        path,
        warehouse_root: value_parsers::resolve_root(&client, args.root.as_deref()).await?,
        limit: Some(args.limit),
        offset: None,
        filters: args.filter.l0(),
    };
    let response = client.similar(request).await?;
    ask::print_answer(&response, args.output.format, printer)
}
