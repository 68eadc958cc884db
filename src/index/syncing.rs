//! Waiting until what changed before is searchable.
//!
//! A mark goes through the watcher behind all events so far; where events do not tell everything, a walk looks: also once
//! after a root came to be watched, for what had changed before, as while no daemon ran. What is pending then is the
//! catalog's word for what has changed, and when none of it is pending any more, it can be found.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, Result};
use crate::index::paths::no_answer;
use crate::index::{Index, Inner, blocking, resolved, scan};
use crate::model::{FileId, Root, RootId, SyncReport, SyncRequest, path_of};
use crate::warehouse::silence;

/// Seconds to wait when the request does not say.
const PATIENCE_SECONDS: u32 = 60;

/// Files that overtake everything when somebody waits for them; more are brought in faster by one long run.
const MOST_URGENT: usize = 128;

/// How often it is looked whether the files are in, at first and at last.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Syncs at work at the same time. Each looks at the catalog four times a second or more until its files are in, also
/// when whoever asked has gone; programs that write and wait come in dozens, and their syncs end together.
const MOST_SYNCS: usize = 256;

/// Their places. A process has one index.
static PLACES: Semaphore = Semaphore::const_new(MOST_SYNCS);

impl Index {
    /// Waits until everything that changed before the call is searchable, and what is gone no longer is.
    ///
    /// # Errors
    /// [`ErrorCode::DeadlineExceeded`] when it takes longer than the request allows, [`ErrorCode::FailedPrecondition`] while
    /// indexing pauses, [`ErrorCode::NotFound`] for a path that lies in no root, [`ErrorCode::ResourceExhausted`] at once
    /// when too many wait.
    pub async fn sync(&self, request: SyncRequest) -> Result<SyncReport> {
        let begun = Instant::now();
        let seconds = request.timeout_seconds.unwrap_or(PATIENCE_SECONDS);
        let patience = Duration::from_secs(seconds.into());
        let inner = self.inner.clone();
        let place = PLACES.try_acquire().map_err(|_| {
            Error::new(ErrorCode::ResourceExhausted, format!("busy: {MOST_SYNCS} syncs wait already"))
                .hint("try again in a second; one sync is enough for all that was written before it")
        })?;
        // In the background's runtime, so that it does not end half way when the caller goes.
        let work = self.inner.background.spawn(async move {
            let _place = place;
            // Whoever waits hears first what stands in the way.
            bring_in(&inner, request.path.as_deref(), begun + patience + LOOKS.1).await
        });
        let files = match tokio::time::timeout(patience, work).await {
            Ok(outcome) => outcome.map_err(Error::internal)??,
            Err(_late) => return Err(self.inner.too_late(seconds).await),
        };
        let away = self.inner.roots().await?.iter().filter(|it| !it.available).count();
        Ok(SyncReport {
            files,
            waited_ms: begun.elapsed().as_millis() as u64,
            unread_pictures: self.unread_pictures(),
            roots_away: away as u64,
        })
    }
}

/// Since when each root is watched, and when it was last walked: of what changed before its watch, events tell nothing.
#[derive(Default)]
pub(crate) struct Walks(Mutex<HashMap<RootId, Stand>>);

#[derive(Clone, Copy, Default)]
struct Stand {
    watched: Option<Instant>,
    /// When the last walk of all of it began.
    walked: Option<Instant>,
}

impl Walks {
    /// A root is going to be watched anew: until it is, nothing is known.
    pub(crate) fn forget(&self, id: RootId) {
        self.stands().remove(&id);
    }

    /// A root is watched from now on.
    pub(crate) fn watched(&self, id: RootId) {
        self.stands().entry(id).or_default().watched = Some(Instant::now());
    }

    /// The catalog has what a walk of all of a root saw that began then.
    pub(crate) fn walked(&self, id: RootId, begun: Instant) {
        self.stands().entry(id).or_default().walked = Some(begun);
    }

    /// Says whether a root was walked since it is watched.
    fn is_caught_up(&self, id: RootId) -> bool {
        let stand = self.stands().get(&id).copied().unwrap_or_default();
        stand.watched.zip(stand.walked).is_some_and(|(watched, walked)| walked >= watched)
    }

    fn stands(&self) -> MutexGuard<'_, HashMap<RootId, Stand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Walks a root that was not walked since it is watched, unless somebody else does so first: the start walks them all.
    async fn catch_up(&self, root: &Root) -> Result<()> {
        let _scanning = self.scanning.lock().await;
        if self.walks.is_caught_up(root.id) {
            return Ok(());
        }
        self.scan_alone(root, None, false, &self.shutdown).await.map(drop)
    }

    /// Looks at what events do not tell of a root, or of this part of it. `seen` says whether all events so far were taken up.
    async fn look(&self, root: &Root, within: Option<&PathBuf>, seen: bool) -> Result<()> {
        self.check_answers(root)?;
        let is_watched = seen && self.watching.tells_all(root.id);
        match within {
            _ if is_watched && self.walks.is_caught_up(root.id) => Ok(()),
            None if is_watched => self.catch_up(root).await,
            within => self.scan(root, within.cloned(), &self.shutdown).await.map(drop),
        }
    }

    async fn is_there(&self, id: RootId) -> Result<bool> {
        let roots = self.roots().await?;
        Ok(roots.iter().any(|it| it.id == id && it.available && self.check_answers(it).is_ok()))
    }

    async fn too_late(&self, seconds: u32) -> Error {
        let catalog = self.catalog.clone();
        let pending = blocking(move || catalog.pending_count(None)).await.unwrap_or(0);
        Error::new(
            ErrorCode::DeadlineExceeded,
            format!("not everything is searchable after {seconds} s: {pending} files are still to be read"),
        )
        .hint(match self.degraded().values().next() {
            Some(problem) => format!("{problem}; `vic status` says it as long as it is so"),
            None => "wait longer with `vic sync --timeout`; `vic status` says what is going on".into(),
        })
    }
}

/// Returns how many files had changed.
async fn bring_in(inner: &Arc<Inner>, path: Option<&str>, until: Instant) -> Result<u64> {
    if inner.gate.pause().is_some() {
        return Err(Error::new(ErrorCode::FailedPrecondition, "indexing is paused, so nothing new becomes searchable")
            .hint("`vic resume` goes on; `vic status` says until when it waits"));
    }
    if inner.tables.is_switching() {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            "another model's index is being built, and answers later",
        )
        .hint("`vic jobs` shows how far it is"));
    }
    let mut scopes = scopes(&inner.roots().await?, path).await?;
    let mut away = Vec::new();
    let seen = inner.watching.reach().await;
    for (root, within) in &scopes {
        match inner.look(root, within.as_ref(), seen).await {
            Ok(()) => (),
            // A root that is away is searchable as it was; the status tells of it.
            Err(_) if path.is_none() && !inner.is_there(root.id).await? => away.push(root.id),
            Err(error) => return Err(error),
        }
    }
    // What is still to be read of it has to wait until it is back, as has what is mounted in another and does not answer.
    scopes.retain(|(root, _)| !away.contains(&root.id));
    scan::bury(&inner.catalog, &inner.tables.writing()).await?;
    let catalog = inner.catalog.clone();
    let changed = blocking(move || pending(&catalog, &scopes)).await?;
    let files = changed.len() as u64;
    if changed.len() <= MOST_URGENT {
        inner.urgent.insist(&changed);
    }
    inner.changed.notify_one();
    wait_for(inner, changed, until).await?;
    Ok(files)
}

/// What is still to be read of these, save where a disk does not answer.
fn pending(catalog: &Catalog, scopes: &[(Root, Option<PathBuf>)]) -> Result<Vec<FileId>> {
    let (mut pending, mut silent) = (Vec::new(), HashSet::new());
    for (root, within) in scopes {
        pending.extend(catalog.pending_below(root.id, within.as_deref().unwrap_or(Path::new("")))?);
        for place in silence::below(&root.path).iter().filter_map(|it| it.strip_prefix(&root.path).ok()) {
            silent.extend(catalog.pending_below(root.id, place)?);
        }
    }
    pending.retain(|it| !silent.contains(it));
    Ok(pending)
}

/// Waits until these are in, or nobody waits any more.
async fn wait_for(inner: &Inner, mut files: Vec<FileId>, until: Instant) -> Result<()> {
    let mut pause = LOOKS.0;
    while Instant::now() < until {
        let (catalog, missing) = (inner.catalog.clone(), inner.missing.clone());
        // What is known and not there cannot be searched, and nobody knows whether it comes back.
        files = blocking(move || missing.without(&catalog, catalog.still_pending(files)?)).await?;
        if files.is_empty() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            () = inner.shutdown.cancelled() => return Err(Error::new(ErrorCode::Cancelled, "the daemon is ending")),
        }
        pause = (pause * 3 / 2).min(LOOKS.1);
    }
    Err(Error::new(ErrorCode::DeadlineExceeded, "the files are still to be read"))
}

/// The part of each root that is asked for.
async fn scopes(roots: &[Root], path: Option<&str>) -> Result<Vec<(Root, Option<PathBuf>)>> {
    let Some(path) = path else { return Ok(roots.iter().map(|root| (root.clone(), None)).collect()) };
    // It may just have been deleted: then the caller's word for it has to do.
    let path = resolved(&path_of(path)).await;
    if silence::holds(&path) {
        return Err(no_answer(&path));
    }
    if let Some((root, within)) = scan::below(roots, &path) {
        return Ok(vec![(root.clone(), Some(within).filter(|it| !it.as_os_str().is_empty()))]);
    }
    let below: Vec<_> = roots.iter().filter(|it| it.path.starts_with(&path)).map(|it| (it.clone(), None)).collect();
    if below.is_empty() {
        return Err(Error::not_found(format!("`{}` lies in no root", path.display()))
            .hint("`vic roots` lists them, `vic index PATH` adds one"));
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_caught_up_by_a_walk_that_began_after_its_watch() {
        let walks = Walks::default();
        let early = Instant::now();
        assert!(!walks.is_caught_up(1));
        walks.watched(1);
        walks.walked(1, early);
        assert!(!walks.is_caught_up(1), "it may have passed by before");
        walks.walked(1, Instant::now());
        assert!(walks.is_caught_up(1) && !walks.is_caught_up(2));
        walks.forget(1);
        walks.walked(1, Instant::now());
        assert!(!walks.is_caught_up(1), "a walk alone tells nothing of later");
        walks.watched(1);
        assert!(!walks.is_caught_up(1));
    }
}
