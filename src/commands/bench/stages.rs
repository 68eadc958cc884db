//! `vic bench walk`, `extract`, `ocr` and `index`: measure the stages of indexing on files of the user.

use std::path::PathBuf;

use crate::bench::figures::Figure;
use crate::bench::index::IndexPlan;
use crate::bench::{self, Report};
use crate::commands::bench::output::{OutputArgs, print_report};
use crate::config::Config;
use crate::error::Result;
use crate::model::{IndexRequest, OcrMode};
use vic_cli::index::ocr_mode;
use vic_cli::output::Printer;

/// The figure that ranks the rows of a report: none, because they cover different files and the first row covers all.
const NO_RANKING: Option<Figure> = None;

/// Arguments of `vic bench walk`.
#[derive(Debug, clap::Args)]
pub(crate) struct WalkArgs {
    /// The folder to scan
    path: PathBuf,
    /// Number of runs after a warm-up run; the report has their medians
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `vic bench extract` and `vic bench ocr`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// The folder or file to read
    path: PathBuf,
    /// Number of times that each file is read
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `vic bench index`.
#[derive(Debug, clap::Args)]
pub(crate) struct IndexArgs {
    /// The folder to index; default: generated texts
    path: Option<PathBuf>,
    /// Record only names, sizes and dates, without reading content
    #[arg(long)]
    metadata_only: bool,
    /// Read at most this number of files
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// When to run OCR: auto, never or always
    #[arg(long, value_parser = ocr_mode, default_value = "auto", value_name = "MODE")]
    ocr: OcrMode,
    #[command(flatten)]
    output: OutputArgs,
}

/// Measures scanning a folder and prints the report.
pub(crate) fn walk(args: &WalkArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let earlier = args.output.earlier()?;
    let mut report = Report::new("walk", NO_RANKING);
    let (row, warnings) = bench::walk::measure(config, &args.path, args.runs)?;
    (report.rows, report.warnings) = (vec![row], warnings);
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}

/// Measures text extraction and prints the report.
pub(crate) async fn extract(args: &ReadArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let earlier = args.output.earlier()?;
    let mut report = Report::new("extract", NO_RANKING);
    (report.rows, report.warnings) = bench::extraction::measure_extraction(config, &args.path, args.runs).await?;
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}

/// Measures OCR and prints the report.
pub(crate) async fn ocr(args: &ReadArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let earlier = args.output.earlier()?;
    let mut report = Report::new("ocr", NO_RANKING);
    (report.rows, report.warnings) = bench::extraction::measure_ocr(config, &args.path, args.runs).await?;
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}

/// Measures indexing and prints the report.
pub(crate) async fn index(args: &IndexArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let earlier = args.output.earlier()?;
    let request = IndexRequest {
        metadata_only: args.metadata_only,
        max_files: args.max_files,
        ocr: args.ocr,
        ..IndexRequest::default()
    };
    let plan = IndexPlan { path: args.path.clone(), request };
    let mut report = Report::new("index", NO_RANKING);
    let (row, warnings) = bench::index::measure(config, &plan).await?;
    (report.rows, report.warnings) = (vec![row], warnings);
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}
