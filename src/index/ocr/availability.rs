//! Availability of OCR: its library and models may be missing or damaged while everything else works. The status
//! reports it with a hint, files stay queued, and a retry loop checks until OCR works.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::MissedTickBehavior;

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{Purpose, SkillJob, Tools};
use crate::index::Inner;
use crate::index::ocr::file::SKILL;
use crate::index::ocr::merge::ocr_tools;

/// Key of the problem that the models are not installed.
const MISSING: &str = "ocr";
/// Key of the problem that the models cannot be loaded.
const UNLOADED: &str = "ocr networks";
/// The effect of both problems.
const CANNOT_READ: &str = "OCR is not available";
/// Interval of the retry.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };
/// Time limit for loading the models.
const SECONDS: u32 = 60;
/// An empty file with the name of an image: a worker loads the models before it finds the file empty.
const NOTHING: (&str, &str) = ("/dev/null", "nothing.png");

/// Returns the library and the models, or notes a hint for `vic status`.
pub(in crate::index) fn tools(inner: &Inner) -> Option<Tools> {
    match ocr_tools(&inner.models) {
        Ok(tools) => {
            inner.note(MISSING, None);
            Some(tools)
        }
        Err(error) => {
            inner.note(UNLOADED, None);
            let hint = error.hint.clone().unwrap_or_else(|| "see `vic models list`".into());
            inner.note_outcome(MISSING, CANNOT_READ, Err(error.hint(hint)));
            None
        }
    }
}

/// Returns whether the last attempt to load the models failed.
pub(in crate::index) fn are_unloaded(inner: &Inner) -> bool {
    inner.degraded().contains_key(UNLOADED)
}

/// Notes that a worker could not load the models, and why.
pub(in crate::index) fn note_unloaded(inner: &Inner, tools: &Tools, why: &str) {
    let cure = "run `vic models pull` to download damaged models again; OCR then resumes automatically";
    let problem = Error::new(ErrorCode::FailedPrecondition, why).hint(cure);
    inner.note_outcome(UNLOADED, CANNOT_READ, Err(problem));
    // A worker that failed once never recovers, because its jail is closed. Dropping the call kills it.
    if let Ok(nothing) = nothing() {
        drop(inner.skills.run_skill(nothing, NOTHING.1, job(tools)).now_or_never());
    }
}

/// Checks periodically whether missing or unloadable models work by now, for the life of the daemon.
pub(in crate::index) async fn follow(inner: Arc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    // A worker may take longer than the interval.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let is_wanting = [MISSING, UNLOADED].iter().any(|it| inner.degraded().contains_key(*it));
        if is_wanting && inner.gate.pause().is_none() {
            look_again(&inner).await;
        }
    }
}

/// Loads the models in a worker. Unless that fails, OCR of the queue resumes.
pub(in crate::index) async fn look_again(inner: &Inner) {
    let (Some(tools), Ok(nothing)) = (tools(inner), nothing()) else { return };
    let failure = inner.skills.run_skill(nothing, NOTHING.1, job(&tools)).await.err();
    match failure.as_ref().and_then(|it| it.unloaded()) {
        Some(why) => note_unloaded(inner, &tools, why),
        // Another failure says nothing about the models; the OCR queue will meet and report it.
        None => {
            inner.note(UNLOADED, None);
            inner.pictures.arrived.notify_one();
        }
    }
}

fn nothing() -> Result<File> {
    File::open(NOTHING.0).at("open", NOTHING.0.as_ref())
}

fn job(tools: &Tools) -> SkillJob {
    let (skill, tools) = (SKILL.to_string(), tools.clone());
    SkillJob { skill, pages: None, seconds: SECONDS, rest_after: None, purpose: Purpose::EveryText, tools }
}
