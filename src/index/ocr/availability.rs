//! Availability of OCR: its library and models may be missing or damaged while everything else works. The status then
//! reports the problem with a hint, files stay queued, and a retry loop checks until OCR works.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::MissedTickBehavior;

use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{OcrTools, Purpose, SkillJob, Tools};
use crate::index::ocr::time_slice::OCR_SKILL;
use crate::index::state::IndexState;

/// Name of the OCR models in the model catalog.
const OCR_MODEL: &str = "ppocr";
/// Maximum OCR threads: each loads its own model, and with more threads a single page would exceed a worker's memory.
const MAX_OCR_THREADS: usize = 4;
/// Key under which the status reports that the OCR models are not installed.
const NOT_INSTALLED_KEY: &str = "ocr";
/// Key under which the status reports that the OCR models cannot be loaded.
const NOT_LOADED_KEY: &str = "ocr networks";
/// Prefix of the message when the OCR models are not installed or cannot be loaded.
const NO_OCR: &str = "OCR is not available";
/// Interval between checks whether OCR works again.
const RETRY_INTERVAL: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };
/// Time limit, in seconds, for loading the OCR models.
const LOAD_TIMEOUT_SECONDS: u32 = 60;
/// Path and name of an empty image: a worker loads the models before it finds the file empty.
const EMPTY_IMAGE: (&str, &str) = ("/dev/null", "nothing.png");

/// Returns the paths of the installed OCR library and models.
///
/// # Errors
/// The OCR library or models are missing (the hint has the command to download them), or the model catalog cannot be
/// read.
pub fn ocr_tools(models: &ModelStore) -> Result<Tools> {
    let runtime = models.library("onnxruntime")?;
    let entry = models.list()?.into_iter().find(|it| it.name == OCR_MODEL);
    let folder = entry.filter(|it| it.present).map(|it| it.path).ok_or_else(|| {
        Error::not_found("the OCR models are not installed").hint(format!("run `vic models pull {OCR_MODEL}`"))
    })?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_OCR_THREADS);
    let ocr = Some(OcrTools { runtime, models: folder, threads });
    Ok(Tools { pdfium: models.library("pdfium").ok(), ocr })
}

/// Returns the OCR library and models. If they are not installed, records the problem with a hint for `vic status`.
pub(in crate::index) fn installed_tools(inner: &IndexState) -> Option<Tools> {
    match ocr_tools(&inner.workers.models) {
        Ok(tools) => {
            inner.problems.set(NOT_INSTALLED_KEY, None);
            Some(tools)
        }
        Err(error) => {
            inner.problems.set(NOT_LOADED_KEY, None);
            let hint = error.hint.clone().unwrap_or_else(|| "see `vic models list`".into());
            inner.note_outcome(NOT_INSTALLED_KEY, NO_OCR, Err(error.hint(hint)));
            None
        }
    }
}

/// Returns whether the last attempt to load the OCR models failed.
pub(in crate::index) fn failed_to_load(inner: &IndexState) -> bool {
    inner.problems.contains(NOT_LOADED_KEY)
}

/// Records, for the status, that a worker could not load the OCR models, and why.
pub(in crate::index) fn note_load_failure(inner: &IndexState, tools: &Tools, why: &str) {
    let cure = "run `vic models pull` to download damaged models again; OCR then resumes automatically";
    let problem = Error::new(ErrorCode::FailedPrecondition, why).hint(cure);
    inner.note_outcome(NOT_LOADED_KEY, NO_OCR, Err(problem));
    // Ends the worker by starting a call and dropping it: a worker that failed to load the models can never load them,
    // because its sandbox by now forbids the system calls that loading needs.
    if let Ok(nothing) = open_empty_image() {
        drop(inner.workers.skills.run_skill(nothing, EMPTY_IMAGE.1, load_job(tools)).now_or_never());
    }
}

/// Checks periodically, until the daemon ends, whether OCR models that were missing or could not be loaded work now.
pub(in crate::index) async fn retry_loop(inner: Arc<IndexState>) {
    let mut ticks = tokio::time::interval(RETRY_INTERVAL);
    // Delays the next check if a check takes longer than the interval.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let is_wanting = [NOT_INSTALLED_KEY, NOT_LOADED_KEY].iter().any(|it| inner.problems.contains(it));
        if is_wanting && inner.pause.pause().is_none() {
            try_load(&inner).await;
        }
    }
}

/// Loads the OCR models in a worker. If that works, OCR of the queued files resumes.
pub(in crate::index) async fn try_load(inner: &IndexState) {
    let (Some(tools), Ok(nothing)) = (installed_tools(inner), open_empty_image()) else { return };
    let failure = inner.workers.skills.run_skill(nothing, EMPTY_IMAGE.1, load_job(&tools)).await.err();
    match failure.as_ref().and_then(|it| it.ocr_unavailable_detail()) {
        Some(why) => note_load_failure(inner, &tools, why),
        // Any other failure says nothing about the models. OCR of the queued files resumes, and reports such a failure.
        None => {
            inner.problems.set(NOT_LOADED_KEY, None);
            inner.ocr_queue.arrived.notify_one();
        }
    }
}

fn open_empty_image() -> Result<File> {
    File::open(EMPTY_IMAGE.0).io_context("open", EMPTY_IMAGE.0.as_ref())
}

fn load_job(tools: &Tools) -> SkillJob {
    let (skill, tools) = (OCR_SKILL.to_string(), tools.clone());
    SkillJob {
        skill,
        pages: None,
        seconds: LOAD_TIMEOUT_SECONDS,
        rest_after: None,
        purpose: Purpose::EveryText,
        width: None,
        member: None,
        tools,
    }
}
