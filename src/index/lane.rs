//! The lane in which pictures of text are read, one file at a time, beside the pipeline.
//!
//! Files wait in [`Pictures`], each with those who want it read: what a job asked for goes when the job is cancelled, and what
//! the watcher saw stays, also where a job read the file first. Nothing leaves before it is done: what could not be read or
//! brought in, and what a job that failed did not come to, waits on. What comes of it is in [`crate::index::pictures`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, RequeueScope};
use crate::error::Result;
use crate::extract::Tools;
use crate::index::draining::longer;
use crate::index::pace::Pace;
use crate::index::pipeline::Run;
use crate::index::progress::Progress;
use crate::index::{Inner, blocking, looking, networks};
use crate::machine;
use crate::model::{FileId, OcrMode, Phase};

/// Files that may wait for the lane; what is beyond is found again by the next job.
const MOST_WAITING: usize = 100_000;
/// Files taken from the catalog at a time.
const LISTED_AT_ONCE: usize = 1_000;
/// Files that are read before they are brought into the index together, if that does not take long.
const FILES_TOGETHER: usize = 32;
/// The longest that a file which has been read waits for its neighbours.
const PATIENCE: Duration = Duration::from_secs(5);
/// The part whose problem is that pictures were not read, or what they say not brought in.
const PICTURES: &str = "pictures";
/// How often workers at rest are looked for.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };
/// What is to be read, by who wants that (the id of a job, which is empty for the watcher) and number: whether every page, or
/// only what has no text.
type Asked = BTreeMap<String, BTreeMap<FileId, bool>>;

#[derive(Default)]
struct Waiting {
    now: Asked,
    /// Their turn comes when no other file waits: they had one.
    later: Asked,
    /// Files that the watcher saw change and that nobody has read since.
    seen: BTreeSet<FileId>,
    /// Files whose turn has begun, until what they say is in the index.
    at_hand: BTreeSet<FileId>,
}

fn count(asked: &Asked) -> usize {
    asked.values().map(BTreeMap::len).sum()
}

/// Files whose pictures are to be read.
#[derive(Default)]
pub(crate) struct Pictures {
    /// How much of what the watcher sees is read.
    mode: OcrMode,
    waiting: Mutex<Waiting>,
    /// Told when there is something to read.
    pub(crate) arrived: Notify,
    /// What reading is still to rest for.
    pub(super) pace: Pace,
    /// Whoever holds it reads.
    pub(super) lane: tokio::sync::Mutex<()>,
}

/// A file whose turn it is, with those who want it read and whether all of it.
#[derive(Debug, PartialEq)]
struct Wanted {
    id: FileId,
    by: Vec<(String, bool)>,
}

impl Wanted {
    fn every_page(&self) -> bool {
        self.by.iter().any(|it| it.1)
    }
}

impl Pictures {
    /// None yet; so much of what the watcher sees is read.
    pub(crate) fn new(mode: OcrMode) -> Pictures {
        Pictures { mode, ..Pictures::default() }
    }

    /// Notes files that the watcher saw change. A job may read them first, and be cancelled before it comes to their pictures.
    pub(crate) fn saw(&self, files: impl IntoIterator<Item = FileId>) {
        if self.mode == OcrMode::Never {
            return;
        }
        let seen = &mut self.waiting().seen;
        if seen.len() >= MOST_WAITING {
            // Of files that went before anybody read them.
            seen.clear();
        }
        let room = MOST_WAITING - seen.len();
        seen.extend(files.into_iter().take(room));
    }

    /// Says whether the watcher saw a file that is being read now.
    pub(crate) fn take_seen(&self, id: FileId) -> bool {
        self.waiting().seen.remove(&id)
    }

    /// Who `wants` the pictures of a file read that a job in this mode has just read, and whether all of them: the job, and the
    /// watcher where it saw the file.
    pub(crate) fn askers(
        &self,
        (job, mode): (&str, OcrMode),
        is_seen: bool,
        wants: impl Fn(OcrMode) -> bool,
    ) -> Vec<(String, bool)> {
        let watcher = is_seen.then(|| (String::new(), self.mode));
        let both = std::iter::once((job.to_string(), mode)).chain(watcher);
        both.filter(|it| wants(it.1)).map(|(by, mode)| (by, mode == OcrMode::Always)).collect()
    }

    /// Adds a file that this job wants read.
    pub(crate) fn push(&self, job: &str, id: FileId, every_page: bool) {
        let waiting = &mut *self.waiting();
        if count(&waiting.now) < MOST_WAITING {
            let begun = waiting.later.get_mut(job).and_then(|it| it.remove(&id)).unwrap_or_default();
            *waiting.now.entry(job.to_string()).or_default().entry(id).or_default() |= every_page || begun;
        }
    }

    /// Adds a file that goes on when no other waits, so that a long book does not hold the others up.
    pub(crate) fn push_later(&self, job: &str, id: FileId, every_page: bool) {
        let waiting = &mut *self.waiting();
        if let Some(every) = waiting.now.get_mut(job).and_then(|it| it.get_mut(&id)) {
            *every |= every_page;
        } else if count(&waiting.later) < MOST_WAITING {
            *waiting.later.entry(job.to_string()).or_default().entry(id).or_default() |= every_page;
        }
    }

    /// Files whose text in pictures is still to be read, or to be brought in.
    pub(crate) fn unread(&self) -> u64 {
        let waiting = self.waiting();
        let asked = waiting.now.values().chain(waiting.later.values()).flat_map(BTreeMap::keys);
        asked.chain(&waiting.at_hand).collect::<BTreeSet<_>>().len() as u64
    }

    /// Says that no more is to be done about these files in the turn that they had.
    fn settle(&self, files: impl IntoIterator<Item = FileId>) {
        let at_hand = &mut self.waiting().at_hand;
        for it in files {
            at_hand.remove(&it);
        }
    }

    /// Says whether a file waits already.
    pub(crate) fn has(&self, id: FileId) -> bool {
        let waiting = self.waiting();
        waiting.now.values().chain(waiting.later.values()).any(|it| it.contains_key(&id))
    }

    fn pop(&self) -> Option<Wanted> {
        let waiting = &mut *self.waiting();
        if count(&waiting.now) == 0 {
            waiting.now = std::mem::take(&mut waiting.later);
        }
        let id = *waiting.now.values().filter_map(|it| it.keys().next()).min()?;
        let by = waiting.now.iter_mut().filter_map(|(job, files)| Some((job.clone(), files.remove(&id)?))).collect();
        waiting.now.retain(|_, files| !files.is_empty());
        waiting.at_hand.insert(id);
        Some(Wanted { id, by })
    }

    /// Adds a file again that was not read after all.
    fn put_back(&self, wanted: Wanted) {
        wanted.by.iter().for_each(|(job, every_page)| self.push(job, wanted.id, *every_page));
    }

    /// Adds a file again over which its reader stumbled: the others do not wait behind it.
    fn put_off(&self, wanted: Wanted) {
        wanted.by.iter().for_each(|(job, every_page)| self.push_later(job, wanted.id, *every_page));
    }

    /// A job has ended. When it was cancelled, what it asked for goes with it; what it did not come to otherwise is the
    /// watcher's from now on. Nobody may be told again of what is left.
    pub(crate) fn end(&self, job: &str, is_cancelled: bool) {
        let (now, later) = {
            let waiting = &mut *self.waiting();
            (waiting.now.remove(job).unwrap_or_default(), waiting.later.remove(job).unwrap_or_default())
        };
        if !is_cancelled && self.mode != OcrMode::Never {
            now.into_iter().for_each(|(id, every_page)| self.push("", id, every_page));
            later.into_iter().for_each(|(id, every_page)| self.push_later("", id, every_page));
        }
        if !self.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Drops what this job wants, and nobody else.
    fn forget(&self, job: &str) {
        let waiting = &mut *self.waiting();
        waiting.now.remove(job);
        waiting.later.remove(job);
    }

    fn is_empty(&self) -> bool {
        let waiting = self.waiting();
        count(&waiting.now) + count(&waiting.later) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the files of a job: those below these folders that hold unread pictures.
pub(crate) async fn collect(inner: &Inner, job: &str, folders: &[PathBuf], mode: OcrMode) -> Result<()> {
    let every = mode == OcrMode::Always;
    for folder in folders {
        let mut after = 0;
        loop {
            let (catalog, folder): (Catalog, PathBuf) = (inner.catalog.clone(), folder.clone());
            let page = blocking(move || catalog.pictures(Some(&folder), every, after, LISTED_AT_ONCE)).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            page.iter().for_each(|it| inner.pictures.push(job, it.id, every));
        }
    }
    Ok(())
}

/// Reads what the watcher brings in and what jobs left, for as long as the daemon lives. What failed is tried again.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let mut again = None;
    while inner.is_told(&inner.pictures.arrived, again).await {
        let progress = Arc::new(Progress::new(crate::index::jobs::unnamed()));
        let outcome = read(&inner, inner.config.ocr, &progress, &inner.shutdown.clone()).await;
        let is_done = inner.note_outcome(PICTURES, "cannot index what pictures say", outcome);
        again = (!is_done).then(|| longer(again));
    }
}

/// Ends workers that have been at rest for long, for as long as the daemon lives. On its own: whoever reads may wait for the
/// end of a pause, with hundreds of MiB of models in memory.
pub(crate) async fn dismiss_rested(inner: Arc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        inner.skills.dismiss_rested();
    }
}

/// Reads everything that waits, and brings it into the index as it comes. When that is cancelled, what was read for this job
/// alone is dropped.
pub(crate) async fn read(
    inner: &Arc<Inner>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    if inner.pictures.is_empty() {
        return Ok(());
    }
    let outcome = read_in_turn(inner, mode, progress, cancel).await;
    if cancel.is_cancelled() {
        inner.pictures.forget(&progress.job_id());
        // Nobody may be told again of what others want, nor of what was to be brought in.
        inner.pictures.arrived.notify_one();
        inner.changed.notify_one();
    }
    outcome
}

async fn read_in_turn(
    inner: &Arc<Inner>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let Some(_lane) = cancel.run_until_cancelled(inner.pictures.lane.lock()).await else { return Ok(()) };
    if networks::are_unloaded(inner) && !progress.job_id().is_empty() {
        // Somebody waits, who may have mended that just now.
        networks::look_again(inner).await;
    }
    let Some(tools) = networks::tools(inner).filter(|_| !networks::are_unloaded(inner)) else { return Ok(()) };
    let mut early = Vec::new();
    let outcome = read_waiting(inner, mode, &tools, (progress, cancel), &mut early).await;
    let outcome = put_back_early(inner, early).await.and(outcome);
    // Whatever ended it, what is left waits.
    inner.pictures.waiting().at_hand.clear();
    outcome
}

/// Has files wait again that the index did not have yet. Whoever brings them in tells of it, unless that was meanwhile.
async fn put_back_early(inner: &Inner, early: Vec<Wanted>) -> Result<()> {
    let (catalog, ids): (Catalog, Vec<FileId>) = (inner.catalog.clone(), early.iter().map(|it| it.id).collect());
    let count = ids.len();
    for Wanted { id, by } in early {
        // What a job that has ended left is the watcher's.
        let heir = |(job, every): (String, bool)| match lives(inner, &job) {
            true => Some((job, every)),
            false => (inner.config.ocr != OcrMode::Never).then(|| (String::new(), every)),
        };
        let by = by.into_iter().filter_map(heir).collect();
        inner.pictures.put_back(Wanted { id, by });
    }
    if count > 0 && blocking(move || catalog.still_pending(ids)).await?.len() < count {
        inner.pictures.arrived.notify_one();
    }
    Ok(())
}

/// Reads what waits, but for what is `early`: that the index does not have yet.
async fn read_waiting(
    inner: &Arc<Inner>,
    mode: OcrMode,
    tools: &Tools,
    (progress, cancel): (&Arc<Progress>, &CancellationToken),
    early: &mut Vec<Wanted>,
) -> Result<()> {
    progress.enter(Phase::Indexing);
    let run = Run { ocr: mode, progress: progress.clone(), ..Run::quiet(cancel.clone()) };
    let mut ready: Vec<Wanted> = Vec::new();
    let mut since = Instant::now();
    while let Some(wanted) = inner.pictures.pop() {
        let read = cancel.run_until_cancelled(async {
            inner.pictures.pace.rest(machine::budget()).await;
            inner.gate.passed().await;
            looking::look(inner, tools, wanted.id, wanted.every_page()).await
        });
        let looked = match read.await {
            Some(Ok(looked)) if looked.unloaded.is_none() => looked,
            Some(Err(error)) => {
                // Neither it nor what was read before it waits for the next walk.
                inner.pictures.put_off(wanted);
                bring_in(inner, &run, ready).await?;
                return Err(error);
            }
            not_read => {
                inner.pictures.put_back(wanted);
                // So it would be with every other: all of them wait until that is mended.
                if let Some(why) = not_read.and_then(Result::ok).and_then(|it| it.unloaded) {
                    networks::note_unloaded(inner, tools, &why);
                }
                break;
            }
        };
        if looked.is_early {
            early.push(wanted);
            continue;
        }
        if looked.goes_on {
            let living = wanted.by.iter().filter(|(job, _)| lives(inner, job));
            living.for_each(|(job, every)| inner.pictures.push_later(job, wanted.id, *every));
        }
        if !looked.has_text {
            inner.pictures.settle([wanted.id]);
        } else {
            if ready.is_empty() {
                since = Instant::now();
            }
            ready.push(wanted);
        }
        if ready.len() >= FILES_TOGETHER || (!ready.is_empty() && since.elapsed() > PATIENCE) {
            bring_in(inner, &run, std::mem::take(&mut ready)).await?;
        }
    }
    bring_in(inner, &run, ready).await
}

/// Says whether anybody still waits for a job's pictures: it may have been cancelled while one of them was being read. The
/// watcher is there for good.
fn lives(inner: &Inner, job: &str) -> bool {
    job.is_empty() || inner.running().get(job).is_some_and(|it| !it.cancel.is_cancelled())
}

/// Makes these files pending and runs the pipeline, which finds their text in the cache. Once that is cancelled, they wait
/// for whoever else wants them.
async fn bring_in(inner: &Arc<Inner>, run: &Run, ready: Vec<Wanted>) -> Result<()> {
    let files: Vec<FileId> = ready.iter().map(|it| it.id).collect();
    let outcome = bring_in_text(inner, run, ready).await;
    inner.pictures.settle(files);
    outcome
}

async fn bring_in_text(inner: &Arc<Inner>, run: &Run, ready: Vec<Wanted>) -> Result<()> {
    if run.cancel.is_cancelled() {
        ready.into_iter().for_each(|it| inner.pictures.put_back(it));
        return Ok(());
    }
    if ready.is_empty() {
        return Ok(());
    }
    let _engine = inner.engine.lock().await;
    let (catalog, files) = (inner.catalog.clone(), ready.iter().map(|it| it.id).collect());
    if let Err(error) = blocking(move || catalog.requeue(&RequeueScope::Ids(files))).await {
        // Their text is in the cache alone, of which no index knows.
        ready.into_iter().for_each(|it| inner.pictures.put_back(it));
        return Err(error);
    }
    // What is to be read again is known to nobody else.
    inner.drain(run).await.inspect_err(|_| inner.changed.notify_one())?;
    inner.upkeep_if_due().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_cancelled_takes_nothing_along_that_somebody_else_wants() {
        let pictures = Pictures::default();
        for (job, id, every_page) in [("", 1, false), ("", 3, false), ("a", 1, true), ("a", 2, true), ("b", 2, false)] {
            pictures.push(job, id, every_page);
        }
        assert_eq!(pictures.unread(), 3);
        let first = pictures.pop().unwrap();
        assert_eq!((first.id, first.every_page()), (1, true));
        assert_eq!(pictures.unread(), 3, "what is at hand is not in the index yet");
        // It is under way when the job is cancelled.
        pictures.put_back(first);
        pictures.forget("a");
        let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.id, it.every_page())).collect();
        assert_eq!(left, [(1, false), (2, false), (3, false)]);
        assert!(pictures.is_empty());
        pictures.settle([1, 2]);
        assert_eq!(pictures.unread(), 1);
    }

    #[test]
    fn what_has_had_a_turn_waits_for_the_others() {
        let pictures = Pictures::default();
        let later = |id, every_page| pictures.push_later("a", id, every_page);
        later(1, false);
        pictures.push("a", 2, false);
        pictures.push("a", 3, false);
        later(3, true);
        let next = || pictures.pop().map(|it| (it.id, it.every_page()));
        assert!(pictures.has(1) && pictures.has(2) && !pictures.has(4));
        assert_eq!([next(), next(), next()], [Some((2, false)), Some((3, true)), Some((1, false))]);
        later(1, true);
        assert!(!pictures.is_empty());
        pictures.push("a", 1, false);
        assert_eq!((next(), next()), (Some((1, true)), None));
        assert!(pictures.is_empty());
    }

    #[test]
    fn what_the_watcher_saw_stays_when_the_job_that_read_it_first_is_cancelled() {
        let pictures = Pictures::new(OcrMode::Auto);
        pictures.saw([1, 2]);
        let read = |job: &str, mode, id| {
            let is_seen = pictures.take_seen(id);
            let askers = pictures.askers((job, mode), is_seen, |it| it != OcrMode::Never);
            askers.iter().for_each(|(by, every_page)| pictures.push(by, id, *every_page));
        };
        read("a", OcrMode::Always, 1);
        // A job that wants no picture at all.
        read("b", OcrMode::Never, 2);
        read("a", OcrMode::Always, 3);
        pictures.end("a", true);
        pictures.end("b", true);
        let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.id, it.every_page())).collect();
        assert_eq!(left, [(1, false), (2, false)], "and what the job alone asked for goes");
        assert!(!pictures.take_seen(1), "it was read");
    }

    #[test]
    fn what_a_job_that_failed_did_not_come_to_waits_on_unless_nobody_wants_pictures() {
        for (mode, expected) in [(OcrMode::Auto, vec![(2, true), (1, false)]), (OcrMode::Never, vec![])] {
            let pictures = Pictures::new(mode);
            pictures.push_later("a", 1, false);
            pictures.push("a", 2, true);
            pictures.end("a", false);
            let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.by, it.id)).collect();
            let expected: Vec<_> =
                expected.into_iter().map(|(id, every_page)| (vec![(String::new(), every_page)], id)).collect();
            assert_eq!(left, expected, "{mode:?}");
        }
    }
}
