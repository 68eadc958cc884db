//! Whether text in pictures can be read: the library and the networks that do so may be missing or damaged while all else is
//! well. The status tells of it with the cure, the pictures wait, and somebody looks again until they can be read.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::MissedTickBehavior;

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{Purpose, SkillJob, Tools};
use crate::index::Inner;
use crate::index::looking::SKILL;
use crate::index::pictures::ocr_tools;

/// The part whose problem is that they are not there.
const MISSING: &str = "ocr";
/// The part whose problem is that they are there and cannot be loaded.
const UNLOADED: &str = "ocr networks";
/// What follows from either.
const CANNOT_READ: &str = "pictures of text are not read";
/// How often it is looked whether they can be loaded by now.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };
/// Seconds for loading them.
const SECONDS: u32 = 60;
/// Holds nothing, and is called a picture: whoever is asked for its text loads the networks before it finds that out.
const NOTHING: (&str, &str) = ("/dev/null", "nothing.png");

/// The library and the networks, or a sentence for `vic status` that says how to get them.
pub(super) fn tools(inner: &Inner) -> Option<Tools> {
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

/// Says whether they could not be loaded when that was last tried.
pub(super) fn are_unloaded(inner: &Inner) -> bool {
    inner.degraded().contains_key(UNLOADED)
}

/// Notes that a worker could not load them, and why.
pub(super) fn note_unloaded(inner: &Inner, tools: &Tools, why: &str) {
    let cure = "run `vic models pull`, which fetches anew what is damaged; the pictures are read by themselves then";
    let problem = Error::new(ErrorCode::FailedPrecondition, why).hint(cure);
    inner.note_outcome(UNLOADED, CANNOT_READ, Err(problem));
    // Whoever tried once never can: its jail is shut. A worker whose answer nobody waits for is killed.
    if let Ok(nothing) = nothing() {
        drop(inner.skills.run_skill(nothing, NOTHING.1, job(tools)).now_or_never());
    }
}

/// Looks from time to time whether what was missing or could not be loaded can be by now, for as long as the daemon lives.
pub(super) async fn follow(inner: Arc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    // A worker may be waited for much longer.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let is_wanting = [MISSING, UNLOADED].iter().any(|it| inner.degraded().contains_key(*it));
        if is_wanting && inner.gate.pause().is_none() {
            look_again(&inner).await;
        }
    }
}

/// Has a worker load them. Unless it cannot, the pictures that waited are read.
pub(super) async fn look_again(inner: &Inner) {
    let (Some(tools), Ok(nothing)) = (tools(inner), nothing()) else { return };
    let failure = inner.skills.run_skill(nothing, NOTHING.1, job(&tools)).await.err();
    match failure.as_ref().and_then(|it| it.unloaded()) {
        Some(why) => note_unloaded(inner, &tools, why),
        // Another failure says nothing of them: it is for whoever reads to meet it, and to tell.
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
