//! Sync barrier: waits until all changes made before the call are searchable.
//!
//! A sync sends a barrier through the watcher's queue, behind all events so far. A walk finds what events may have
//! missed; it runs once after a root is first watched, to find changes from before that. The files that are then pending are
//! those that changed. The changes are searchable once none of these files is pending.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, Result};
use crate::files::unresponsive;
use crate::index::api::Index;
use crate::index::blocking_tasks::blocking;
use crate::index::paths::{not_responding, resolve_or_keep};
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::{FileId, Root, RootId, SyncReport, SyncRequest, parse_path};

/// Default timeout of a sync, in seconds.
const DEFAULT_TIMEOUT_SECONDS: u32 = 60;

/// Maximum changed files that a sync sends to the urgent queue. More files are left to the background run, which
/// indexes them faster.
const MAX_URGENT_FILES: usize = 128;

/// Initial and maximum interval between checks whether the files are indexed.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Maximum concurrent syncs; further ones are refused. Each sync reads the catalog at least four times a second until
/// its files are indexed, even after its caller has left. The limit is high, because dozens of programs may write files
/// and sync at once; their syncs then end together.
const MAX_SYNCS: usize = 256;

/// One permit per running sync. Shared by the process, which has one index.
static SYNC_PERMITS: Semaphore = Semaphore::const_new(MAX_SYNCS);

impl Index {
    /// Waits until everything that changed before the call is searchable, and everything deleted is not.
    ///
    /// # Errors
    /// [`ErrorCode::DeadlineExceeded`] if it takes longer than the request allows, [`ErrorCode::FailedPrecondition`]
    /// while indexing is paused, [`ErrorCode::NotFound`] for a path in no root, and [`ErrorCode::ResourceExhausted`] at
    /// once if too many syncs wait.
    pub async fn sync(&self, request: SyncRequest) -> Result<SyncReport> {
        let begun = Instant::now();
        let seconds = request.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let patience = Duration::from_secs(seconds.into());
        let inner = self.inner.clone();
        let place = SYNC_PERMITS.try_acquire().map_err(|_| {
            Error::new(ErrorCode::ResourceExhausted, format!("busy: {MAX_SYNCS} syncs are waiting"))
                .hint("try again in a second; one sync covers everything written before it")
        })?;
        // Runs in the background runtime, so that the sync completes even if the caller leaves.
        let work = self.inner.background.spawn(async move {
            let _place = place;
            // Waits one interval longer than the caller, so that the caller's timeout below reports the error.
            index_changes(&inner, request.path.as_deref(), begun + patience + POLL_INTERVALS.1).await
        });
        let files = match tokio::time::timeout(patience, work).await {
            Ok(outcome) => outcome.map_err(Error::internal)??,
            Err(_late) => return Err(self.inner.timeout_error(seconds).await),
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

impl IndexState {
    /// Walks a root completely, unless a complete walk began after the root was watched. Another task, such as the one
    /// that walks every root at startup, may have made that walk.
    async fn walk_to_catch_up(&self, root: &Root) -> Result<()> {
        let _scanning = self.walks.lock().await;
        if self.walks.catch_up.is_caught_up(root.id) {
            return Ok(());
        }
        self.scan_locked(root, None, false, &self.shutdown).await.map(drop)
    }

    /// Finds changes in a root, or in a part of it, that events missed. `seen` tells whether all events so far were
    /// applied.
    async fn find_missed_changes(&self, root: &Root, within: Option<&PathBuf>, seen: bool) -> Result<()> {
        self.check_responds(root)?;
        let is_watched = seen && self.walks.watching.reports_all_changes(root.id);
        match within {
            _ if is_watched && self.walks.catch_up.is_caught_up(root.id) => Ok(()),
            None if is_watched => self.walk_to_catch_up(root).await,
            within => self.scan(root, within.cloned(), &self.shutdown).await.map(drop),
        }
    }

    async fn is_available(&self, id: RootId) -> Result<bool> {
        let roots = self.roots().await?;
        Ok(roots.iter().any(|it| it.id == id && it.available && self.check_responds(it).is_ok()))
    }

    async fn timeout_error(&self, seconds: u32) -> Error {
        let catalog = self.catalog.clone();
        let pending = blocking(move || catalog.pending_count(None)).await.unwrap_or(0);
        Error::new(
            ErrorCode::DeadlineExceeded,
            format!("not everything is searchable after {seconds} s: {pending} files are not indexed yet"),
        )
        .hint(match self.problems.first() {
            Some(problem) => format!("{problem}; `vic status` shows it while it lasts"),
            None => "wait longer with `vic sync --timeout`; `vic status` shows the progress".into(),
        })
    }
}

/// Makes all changes searchable and returns how many files had changed.
async fn index_changes(inner: &Arc<IndexState>, path: Option<&str>, until: Instant) -> Result<u64> {
    if inner.pause.pause().is_some() {
        return Err(Error::new(ErrorCode::FailedPrecondition, "indexing is paused, so nothing new becomes searchable")
            .hint("`vic resume` ends the pause; `vic status` shows how long it lasts"));
    }
    if inner.tables.is_switching() {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            "the index of another model is being built and does not answer queries yet",
        )
        .hint("`vic jobs` shows its progress"));
    }
    let mut scopes = resolve_scopes(&inner.roots().await?, path).await?;
    let mut away = Vec::new();
    let seen = inner.walks.watching.wait_for_events().await;
    for (root, within) in &scopes {
        match inner.find_missed_changes(root, within.as_ref(), seen).await {
            Ok(()) => (),
            // A sync of all roots skips an unavailable root, because its index entries stay and the status reports it.
            Err(_) if path.is_none() && !inner.is_available(root.id).await? => away.push(root.id),
            Err(error) => return Err(error),
        }
    }
    // Leaves out unavailable roots here, and unresponsive mounts in `pending_in`, because their pending files cannot be
    // indexed now.
    scopes.retain(|(root, _)| !away.contains(&root.id));
    scan::delete_tombstoned(&inner.catalog, &inner.tables.writing()).await?;
    let catalog = inner.catalog.clone();
    let changed = blocking(move || pending_in(&catalog, &scopes)).await?;
    let files = changed.len() as u64;
    if changed.len() <= MAX_URGENT_FILES {
        inner.runs.urgent.force(&changed);
    }
    inner.runs.changed.notify_one();
    wait_until_indexed(inner, changed, until).await?;
    Ok(files)
}

/// Returns the pending files in these scopes, except those on disks that do not respond.
fn pending_in(catalog: &Catalog, scopes: &[(Root, Option<PathBuf>)]) -> Result<Vec<FileId>> {
    let (mut pending, mut silent) = (Vec::new(), HashSet::new());
    for (root, within) in scopes {
        pending.extend(catalog.pending_below(root.id, within.as_deref().unwrap_or(Path::new("")))?);
        for place in
            unresponsive::unresponsive_below(&root.path).iter().filter_map(|it| it.strip_prefix(&root.path).ok())
        {
            silent.extend(catalog.pending_below(root.id, place)?);
        }
    }
    pending.retain(|it| !silent.contains(it));
    Ok(pending)
}

/// Waits until none of these files is pending, or until the time `until`.
async fn wait_until_indexed(inner: &IndexState, mut files: Vec<FileId>, until: Instant) -> Result<()> {
    let mut pause = POLL_INTERVALS.0;
    while Instant::now() < until {
        let (catalog, missing) = (inner.catalog.clone(), inner.runs.vanished.clone());
        // Does not wait for vanished files, which may never come back.
        files = blocking(move || missing.exclude_from(&catalog, catalog.still_pending(files)?)).await?;
        if files.is_empty() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            () = inner.shutdown.cancelled() => return Err(Error::new(ErrorCode::Cancelled, "the daemon shuts down")),
        }
        pause = (pause * 3 / 2).min(POLL_INTERVALS.1);
    }
    Err(Error::new(ErrorCode::DeadlineExceeded, "the files are not indexed yet"))
}

/// Returns the roots, or parts of roots, that the request covers.
async fn resolve_scopes(roots: &[Root], path: Option<&str>) -> Result<Vec<(Root, Option<PathBuf>)>> {
    let Some(path) = path else { return Ok(roots.iter().map(|root| (root.clone(), None)).collect()) };
    // A path that does not exist is used as given, because it may just have been deleted.
    let path = resolve_or_keep(&parse_path(path)).await;
    if unresponsive::is_unresponsive(&path) {
        return Err(not_responding(&path));
    }
    if let Some((root, within)) = scan::split_root(roots, &path) {
        return Ok(vec![(root.clone(), Some(within).filter(|it| !it.as_os_str().is_empty()))]);
    }
    let below: Vec<_> = roots.iter().filter(|it| it.path.starts_with(&path)).map(|it| (it.clone(), None)).collect();
    if below.is_empty() {
        return Err(Error::not_found(format!("`{}` lies in no root", path.display()))
            .hint("`vic roots` lists the roots, `vic index PATH` adds one"));
    }
    Ok(below)
}
