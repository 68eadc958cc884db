//! `vic bench extract` and `vic bench ocr`: measure text extraction and OCR, in jailed worker processes as in indexing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::StreamExt;

use crate::bench::durations::Durations;
use crate::bench::figures::{FILES, FILES_PER_SECOND, MIB_PER_SECOND, PAGES, PAGES_PER_SECOND, PEAK_RSS_MIB, UNREAD};
use crate::bench::input_files::InputFolder;
use crate::bench::report::Row;
use crate::bench::resource_usage::ResourceUsage;
use crate::config::Config;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::{self, PoolSettings, Purpose, SkillJob, Tools, WorkerPool};
use crate::files::{OpenProblem, open_beneath};
use crate::index::ocr_tools;
use crate::model::{Document, ExtractFailure, ExtractLimits, FileKind, Reason};
use crate::{client, skills};

/// Time limit in seconds of one OCR call on a file; the next call continues with the remaining pages.
const OCR_CALL_SECONDS: u32 = 120;

/// Maximum number of OCR calls per file; pages that are still unread after that stay unread.
const MAX_OCR_CALLS: usize = 50;

/// Duration and page count of the extraction or OCR of one file.
struct FileResult {
    milliseconds: f64,
    /// Number of pages; `None` if the file could not be read.
    pages: Option<u32>,
}

/// Measures the extraction of the text of every file, in total and per file type, with `VIC_WORKERS` files at a time.
///
/// # Errors
/// The path does not exist or holds no file; no worker can be started, or a required jail is not available.
pub async fn measure_extraction(config: &Config, path: &Path, runs: usize) -> Result<(Vec<Row>, Vec<String>)> {
    let folder = InputFolder::list(config, path, "files that vic reads", has_reader)?;
    let pdfium = ModelStore::new(config.model_dirs.clone()).library("pdfium").ok();
    let mut warnings = Vec::new();
    if pdfium.is_none() {
        warnings.push("pdfium is missing, so PDFs are parsed by a weaker parser: `vic models pull pdfium`".to_string());
    }
    let pool = start_pool(config, config.workers, config.limits.clone(), Tools { pdfium, ocr: None }).await?;
    let mut by_kind: BTreeMap<String, Vec<(PathBuf, u64)>> = BTreeMap::new();
    for file in &folder.files {
        let extension = file.0.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        by_kind
            .entry(if extension.is_empty() { "no extension".into() } else { format!(".{extension}") })
            .or_default()
            .push(file.clone());
    }
    let mut rows = vec![measure_reads(&pool, &folder, "all files", config.workers, runs, None).await?];
    if by_kind.len() > 1 {
        for (kind, files) in by_kind {
            let part = InputFolder { root: folder.root.clone(), files, problems: Vec::new() };
            rows.push(measure_reads(&pool, &part, &kind, config.workers, runs, None).await?);
        }
    }
    Ok((rows, warnings.into_iter().chain(pool.problems()).chain(folder.problems).collect()))
}

/// Measures OCR of every image and PDF page, one file after the other, because one page uses all cores.
///
/// # Errors
/// As `measure_extraction`; or the OCR models are missing ([`ErrorCode::NotFound`], with the command to fetch them).
pub async fn measure_ocr(config: &Config, path: &Path, runs: usize) -> Result<(Vec<Row>, Vec<String>)> {
    let has_pictures = |path: &Path| {
        let kind = path.extension().and_then(OsStr::to_str).map(|it| FileKind::from_extension(&it.to_lowercase()));
        matches!(kind, Some(FileKind::Image | FileKind::Pdf))
    };
    let folder = InputFolder::list(config, path, "images or PDFs", has_pictures)?;
    let models = ModelStore::new(config.model_dirs.clone());
    let tools = ocr_tools(&models)?;
    let limits = skills::pool_settings(&models, &config.limits).limits;
    let pool = start_pool(config, 1, limits, tools.clone()).await?;
    let row = measure_reads(&pool, &folder, "pictures", 1, runs, Some(&tools)).await?;
    Ok((vec![row], pool.problems().into_iter().chain(folder.problems).collect()))
}

fn has_reader(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(extract::is_readable_name)
}

async fn start_pool(config: &Config, workers: usize, limits: ExtractLimits, tools: Tools) -> Result<WorkerPool> {
    let program = Path::new(client::vicd_command(config).get_program()).with_file_name("vic-worker");
    // Sets `skills`, because workers for questions have a higher scheduling priority than workers of background work.
    let pool = WorkerPool::new(program, PoolSettings { workers, limits, tools, skills: true });
    pool.probe().await;
    match pool.is_jailed() {
        Some(_) => Ok(pool),
        None => Err(Error::new(ErrorCode::FailedPrecondition, "no worker process can be started")
            .hint("install `vic-worker` beside `vicd`; files are read in its processes only")),
    }
}

/// Warms up on the first files, then reads all files `runs` times. Returns the row of figures.
async fn measure_reads(
    pool: &WorkerPool,
    folder: &InputFolder,
    label: &str,
    workers: usize,
    runs: usize,
    pictures: Option<&Tools>,
) -> Result<Row> {
    let pass = async |files: &[(PathBuf, u64)]| -> Result<Vec<FileResult>> {
        let one = |file: &(PathBuf, u64)| {
            let path = file.0.clone();
            async move { read_file(pool, &folder.root, &path, pictures).await }
        };
        let all: Vec<Result<FileResult>> =
            futures::stream::iter(files).map(one).buffer_unordered(workers.max(1)).collect().await;
        all.into_iter().collect()
    };
    pass(&folder.files[..folder.files.len().min(workers.max(1))]).await?;
    let (runs, mut done) = (runs.max(1), Vec::new());
    let usage = ResourceUsage::start();
    for _ in 0..runs {
        done.extend(pass(&folder.files).await?);
    }
    let seconds = usage.seconds() / runs as f64;
    let mut row = Row::new(label);
    row.set(crate::bench::figures::SECONDS, usage.seconds());
    let pages = done.iter().filter_map(|it| it.pages).sum::<u32>() as f64 / runs as f64;
    row.set(FILES, folder.files.len() as f64);
    row.set(UNREAD, done.iter().filter(|it| it.pages.is_none()).count() as f64 / runs as f64);
    row.rate(FILES_PER_SECOND, folder.files.len() as f64, seconds);
    row.rate(MIB_PER_SECOND, folder.mib(), seconds);
    if pages > 0.0 {
        row.set(PAGES, pages);
        row.rate(PAGES_PER_SECOND, pages, seconds);
    }
    // Reports the memory of the worker processes, because they read the files.
    row.set(PEAK_RSS_MIB, pool.peak_mib() as f64);
    Durations::new(done.iter().map(|it| it.milliseconds).collect()).write_to(&mut row);
    row.setting("path", folder.root.to_string_lossy());
    row.setting("workers", workers);
    row.setting("runs", runs);
    row.setting("jailed", pool.is_jailed());
    Ok(row)
}

async fn read_file(pool: &WorkerPool, root: &Path, path: &Path, pictures: Option<&Tools>) -> Result<FileResult> {
    let begun = Instant::now();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let document = match open_beneath(root, path) {
        Ok(file) => match pictures {
            None => pool.extract(file, &name).await.map(|document| document.pages.unwrap_or(0)),
            Some(tools) => ocr_file(pool, &file, &name, tools).await,
        },
        Err(OpenProblem::Bad(failure)) => Err(failure),
        Err(OpenProblem::Gone) => Err(ExtractFailure { reason: Reason::Empty, detail: "gone".into() }),
    };
    let pages = match document {
        Ok(pages) => Some(pages),
        Err(failure) if failure.reason == Reason::Io => {
            return Err(Error::internal(format!("`{}`: {}", root.join(path).display(), failure.detail)));
        }
        Err(_) => None,
    };
    Ok(FileResult { milliseconds: begun.elapsed().as_secs_f64() * 1_000.0, pages })
}

/// Recognizes the text of all pages of a file, in as many calls as needed. Returns the number of pages.
async fn ocr_file(pool: &WorkerPool, file: &std::fs::File, name: &str, tools: &Tools) -> Result<u32, ExtractFailure> {
    let (mut pages, mut left) = (None, usize::MAX);
    let mut document = Document::default();
    for _ in 0..MAX_OCR_CALLS {
        let job = SkillJob {
            skill: skills::OCR_IMAGE.into(),
            pages: pages.take(),
            seconds: OCR_CALL_SECONDS,
            purpose: Purpose::EveryText,
            tools: tools.clone(),
            ..SkillJob::default()
        };
        let file =
            file.try_clone().map_err(|error| ExtractFailure { reason: Reason::Io, detail: error.to_string() })?;
        document = pool.run_skill(file, name, job).await?;
        let unread = document.pages_without_text.len();
        if unread == 0 || unread >= left {
            break;
        }
        left = unread;
        pages = Some(document.pages_without_text.clone());
    }
    Ok(document.pages.unwrap_or(1))
}
