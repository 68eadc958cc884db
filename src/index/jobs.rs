//! Index jobs, from request to end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::catalog::{ROOT_HINT, RequeueScope};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::maintenance::retry;
use crate::index::ocr::queue;
use crate::index::pipeline::{Pass, Run};
use crate::index::progress::Progress;
use crate::index::roots::scan;
use crate::index::{IndexState, blocking, resolve};
use crate::machine::FairSlots;
use crate::model::{
    IndexRequest, JobSnapshot, JobState, OcrMode, Phase, Principal, Root, RootId, Scope, display_path, parse_path,
};

/// The longest that a job waits for urgent files.
const URGENT_WAIT: Duration = Duration::from_secs(10);

/// Maximum jobs that have not ended: one running, some in OCR, all others waiting for the engine. Each walks its
/// folders again and adds a line to every status. A program that starts more never waits for their results. One key may
/// have half of them.
const MAX_UNENDED_JOBS: usize = 128;

/// Jobs that have not ended, by id.
pub(super) type Running = BTreeMap<String, RunningJob>;

/// A job that has not ended.
pub(super) struct RunningJob {
    pub(super) progress: Arc<Progress>,
    pub(super) cancel: CancellationToken,
    /// The holder that started it.
    pub(super) holder: Principal,
}

/// A root and the part of it that a job walks; `None` is the whole root.
type RootPart = (Root, Option<PathBuf>);

/// Returns the limit of unended jobs per key.
pub(crate) fn job_shares() -> Arc<FairSlots> {
    FairSlots::per_holder(MAX_UNENDED_JOBS / 2)
}

/// Checks the request against the caller's `scope`, records the job and runs it in the background.
pub(crate) async fn start(
    inner: &Arc<IndexState>,
    request: IndexRequest,
    scope: &Scope,
    holder: &Principal,
) -> Result<JobSnapshot> {
    // Before any path is read or added as a root.
    check_job_limit(&inner.running(), &request)?;
    let share = inner.job_shares.acquire(holder, "jobs have not ended")?;
    let parts = resolve_parts(inner, &request, scope).await?;
    let snapshot = JobSnapshot { job_id: new_id()?, request, ..snapshot_without_job() };
    let progress = Arc::new(Progress::new(snapshot.clone()));
    let cancel = inner.shutdown.child_token();
    {
        // Other jobs may have started meanwhile.
        let mut running = inner.running();
        check_job_limit(&running, &snapshot.request)?;
        let job = RunningJob { progress: progress.clone(), cancel: cancel.clone(), holder: holder.clone() };
        running.insert(snapshot.job_id.clone(), job);
    }
    if let Err(error) = inner.jobs.save(&snapshot) {
        inner.running().remove(&snapshot.job_id);
        return Err(error);
    }
    let run = run(inner.clone(), parts, progress, cancel);
    inner.background.spawn(async move {
        run.await;
        drop(share);
    });
    Ok(snapshot)
}

/// Refuses a job if too many have not ended. A job over every root is exempt unless a queued job will walk every root:
/// the daemon's own walks are such jobs, and none may be lost.
fn check_job_limit(running: &Running, request: &IndexRequest) -> Result<()> {
    let is_needed = || request.paths.is_empty() && !has_queued_full_walk(running);
    if running.len() < MAX_UNENDED_JOBS || is_needed() {
        return Ok(());
    }
    let text = format!("busy: {} jobs have not ended", running.len());
    Err(Error::new(ErrorCode::ResourceExhausted, text)
        .hint("try again when one of them has ended; `vic jobs` lists them"))
}

/// Returns whether a queued job will walk every root.
pub(super) fn has_queued_full_walk(running: &Running) -> bool {
    let will = |job: JobSnapshot| job.state == JobState::Queued && job.request.paths.is_empty();
    running.values().any(|it| will(it.progress.snapshot()))
}

/// Returns the snapshot of a run without a job, such as the watcher's.
pub(crate) fn snapshot_without_job() -> JobSnapshot {
    JobSnapshot {
        job_id: String::new(),
        state: JobState::Queued,
        phase: Phase::Waiting,
        request: IndexRequest::default(),
        created_ms: now_ms(),
        started_ms: None,
        finished_ms: None,
        files_found: 0,
        files_total: 0,
        files_done: 0,
        files_failed: 0,
        files_removed: 0,
        chunks_written: 0,
        chunks_embedded: 0,
        chunks_awaiting: 0,
        tokens_embedded: 0,
        tokens_per_second: 0.0,
        eta_seconds: None,
        last_error: None,
        error: None,
        error_exit_code: None,
    }
}

async fn run(inner: Arc<IndexState>, parts: Vec<RootPart>, progress: Arc<Progress>, cancel: CancellationToken) {
    let before = inner.unattended.totals();
    let outcome = {
        let engine = tokio::select! {
            engine = inner.engine.lock() => Some(engine),
            () = cancel.cancelled() => None,
        };
        match engine {
            Some(engine) => {
                progress.update(|job| {
                    job.state = JobState::Running;
                    job.started_ms = Some(now_ms());
                });
                let outcome = run_phases(&inner, &parts, &progress, &cancel).await;
                // Files that the watcher's runs indexed first are part of the request.
                let now = inner.unattended.totals();
                progress.add_from_other_runs(now.0 - before.0, now.1 - before.1);
                inner.note_full(&outcome);
                if outcome.as_ref().is_err_and(|it| should_continue(it, &progress.snapshot().request))
                    && !cancel.is_cancelled()
                {
                    // No other event reports the job's remaining files. The run that starts here retries itself with
                    // growing delays.
                    inner.changed.notify_one();
                }
                // OCR takes long: all other changes go first.
                drop(engine);
                match outcome {
                    Ok(()) => run_ocr(&inner, &parts, &progress, &cancel).await,
                    Err(error) => Err(error),
                }
            }
            None => Err(Error::new(ErrorCode::Cancelled, "cancelled while it was queued")),
        }
    };
    inner.ocr_queue.end_job(&progress.job_id(), cancel.is_cancelled());
    progress.update(|job| record_end(job, outcome, cancel.is_cancelled()));
    let last = progress.snapshot();
    info!(
        job = last.job_id,
        state = last.state.name(),
        files = last.files_done,
        chunks = last.chunks_written,
        "job ended"
    );
    if let Err(error) = inner.jobs.save(&last) {
        warn!(%error, "cannot save the end of a job");
    }
    inner.running().remove(&last.job_id);
}

/// Returns whether another run should continue after this failure. Free disk space resumes work by itself. After a
/// partial request, the rest waits for another job.
fn should_continue(error: &Error, request: &IndexRequest) -> bool {
    let is_told = matches!(error.code, ErrorCode::Cancelled | ErrorCode::StorageFull);
    !is_told && !request.metadata_only && request.max_files.is_none()
}

fn record_end(job: &mut JobSnapshot, outcome: Result<()>, cancelled: bool) {
    job.finished_ms = Some(now_ms());
    job.phase = Phase::Done;
    job.eta_seconds = None;
    job.state = match outcome {
        Ok(()) if !cancelled => JobState::Completed,
        Err(error) if error.code != ErrorCode::Cancelled && !cancelled => {
            job.error_exit_code = Some(u32::from(error.code.exit_code()));
            job.error = Some(match error.hint {
                Some(hint) => format!("{} ({hint})", error.message),
                None => error.message,
            });
            JobState::Failed
        }
        Ok(()) | Err(_) => JobState::Cancelled,
    };
}

/// Scans, requeues, runs the pipeline and the maintenance.
async fn run_phases(
    inner: &Arc<IndexState>,
    parts: &[RootPart],
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    progress.enter(Phase::Scanning);
    let request = progress.snapshot().request;
    for (root, within) in parts {
        match scan_part(inner, root, within.clone(), parts.len() == 1, progress, cancel).await {
            // An unavailable root keeps its entries, and other roots proceed. For a single root, the job fails.
            Err(error) if parts.len() > 1 && error.code != ErrorCode::Cancelled => {
                progress.update(|job| job.last_error = Some(error.message.clone()));
            }
            outcome => outcome?,
        }
        if request.full && !request.metadata_only {
            let (catalog, under) = (inner.catalog.clone(), folder_of(root, within.as_deref()));
            blocking(move || catalog.requeue(&RequeueScope::Under(under))).await?;
        }
    }
    scan::delete_tombstoned(&inner.catalog, &inner.tables.writing()).await?;
    let catalog = inner.catalog.clone();
    let (pending, awaiting) = blocking(move || {
        if !request.metadata_only {
            retry::retry_machine_errors(&catalog)?;
        }
        Ok((catalog.pending_count(None)?, catalog.awaiting_chunks()?))
    })
    .await?;
    if request.metadata_only || (pending + awaiting == 0 && !inner.tables.is_switching()) {
        return Ok(());
    }
    progress.update(|job| job.files_total = pending.min(job.request.max_files.unwrap_or(u64::MAX)));
    progress.enter(Phase::Indexing);
    let run = Run {
        pass: Pass::Whole,
        full: request.full,
        urgent: false,
        max_files: request.max_files,
        cancel: cancel.clone(),
        ocr: request.ocr,
        progress: progress.clone(),
        vanished: Arc::default(),
        deferral: Arc::default(),
    };
    inner.run_pending(&run).await?;
    if request.max_files.is_none() {
        // Files that the watcher's runs indexed first are part of the request, and so are those that they deferred.
        let settled = cancel.run_until_cancelled(inner.urgent.wait_idle(URGENT_WAIT)).await;
        let catalog = inner.catalog.clone();
        if settled == Some(true) && blocking(move || catalog.pending_count(None)).await? > 0 {
            inner.run_pending(&run).await?;
        }
    }
    progress.enter(Phase::Finishing);
    inner.maintain().await;
    Ok(())
}

/// Walks a root, or a part of it. A successful walk watches the root again, in case it was unavailable before. A failed
/// walk removes its watches, because they died with the root.
async fn scan_part(
    inner: &Arc<IndexState>,
    root: &Root,
    within: Option<PathBuf>,
    is_only: bool,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let accept_losses = progress.snapshot().request.accept_losses;
    let is_whole = within.is_none();
    match inner.scan_accepting_losses(root, within, accept_losses, cancel).await {
        Ok((outcome, problems)) => {
            inner.watch(root).await;
            let doubt = if is_whole { rejection_reason(inner, root.id).await? } else { None };
            progress.update(|job| {
                job.files_found += outcome.found;
                job.files_removed += outcome.removed;
                job.last_error = problems.into_iter().next().map(|it| it.sentence).or(job.last_error.take());
                if let Some(doubt) = doubt {
                    job.last_error = Some(doubt);
                    // Of many roots, an unavailable one does not fail the request.
                    let is_meant = is_only || !job.request.paths.is_empty();
                    job.error_exit_code = is_meant.then(|| ErrorCode::FailedPrecondition.exit_code().into());
                }
            });
            Ok(())
        }
        Err(error) => {
            if error.code != ErrorCode::Cancelled {
                inner.unwatch(root.id).await;
            }
            Err(error)
        }
    }
}

/// Returns why a completed walk was not accepted: the root is suddenly empty or lost most of its files.
async fn rejection_reason(inner: &Arc<IndexState>, id: RootId) -> Result<Option<String>> {
    let root = inner.roots().await?.into_iter().find(|it| it.id == id && !it.available);
    Ok(root.map(|it| format!("`{}`: {}", display_path(&it.path), it.problem)))
}

/// Returns the path of a root, or of the part of it.
fn folder_of(root: &Root, within: Option<&Path>) -> PathBuf {
    within.map_or(root.path.clone(), |it| root.path.join(it))
}

/// Runs OCR on the images in these parts.
async fn run_ocr(
    inner: &Arc<IndexState>,
    parts: &[RootPart],
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let request = progress.snapshot().request;
    if request.metadata_only || request.ocr == OcrMode::Never {
        return Ok(());
    }
    if request.max_files.is_none() {
        let folders: Vec<PathBuf> = parts.iter().map(|(root, within)| folder_of(root, within.as_deref())).collect();
        queue::enqueue_folders(inner, &progress.job_id(), &folders, request.ocr).await?;
    }
    queue::read_queue(inner, request.ocr, progress, cancel).await
}

/// Resolves the paths of a request to roots, and adds new roots for the owner. No path means every root. The scope is
/// checked here, after the last symbolic link is resolved. Walks follow no links, so a job that waits for long still
/// stays within its caller's scope.
async fn resolve_parts(inner: &Arc<IndexState>, request: &IndexRequest, scope: &Scope) -> Result<Vec<RootPart>> {
    if request.paths.is_empty() && scope.is_all() {
        let roots = inner.roots().await?;
        if roots.is_empty() {
            return Err(Error::new(ErrorCode::FailedPrecondition, "there is no folder to index")
                .hint("add one: `vic index ~/Documents`"));
        }
        if let [root] = &roots[..] {
            check_root_readable(inner, root).await?;
        }
        return Ok(roots.into_iter().map(|root| (root, None)).collect());
    }
    let mut parts = Vec::new();
    for path in &request.paths {
        let path = resolve(&parse_path(path)).await?;
        let known = known_parts(&inner.roots().await?, &path, scope)?;
        if !known.is_empty() {
            parts.extend(known);
            continue;
        }
        let folder = path.clone();
        blocking(move || check_is_folder(&folder)).await?;
        let root = inner.add_root(&path).await?;
        let within = path.strip_prefix(&root.path).map(PathBuf::from).unwrap_or_default();
        parts.push(part_of(root, within));
    }
    Ok(parts)
}

fn part_of(root: Root, within: PathBuf) -> RootPart {
    (root, (!within.as_os_str().is_empty()).then_some(within))
}

/// Returns the parts of roots at a path; empty if the path must become a root first, which only the owner may do. For
/// other callers, a folder in no root stands for the roots below it.
fn known_parts(roots: &[Root], path: &Path, scope: &Scope) -> Result<Vec<RootPart>> {
    if !scope.covers(path) {
        let sentence = format!("there is no folder `{}`", path.display());
        return Err(Error::not_found(sentence).hint("the status lists the folders"));
    }
    if let Some((root, within)) = scan::split_root(roots, path) {
        return Ok(vec![part_of(root.clone(), within)]);
    }
    if scope.is_all() {
        return Ok(Vec::new());
    }
    let below: Vec<RootPart> =
        roots.iter().filter(|it| it.path.starts_with(path)).map(|it| (it.clone(), None)).collect();
    if below.is_empty() {
        let sentence = format!("`{}` lies in no root, and only the owner can add one", path.display());
        return Err(
            Error::new(ErrorCode::FailedPrecondition, sentence).hint("the owner adds it: `vic roots add FOLDER`")
        );
    }
    Ok(below)
}

/// Checks that the only root can be read.
async fn check_root_readable(inner: &Arc<IndexState>, root: &Root) -> Result<()> {
    inner.check_responds(root)?;
    let (catalog, root) = (inner.catalog.clone(), root.clone());
    blocking(move || {
        let Err(error) = root.path.read_dir() else { return Ok(()) };
        let error = Error::io("read", &root.path, &error);
        catalog.mark_unavailable(root.id, &error.message)?;
        Err(error.hint(ROOT_HINT))
    })
    .await
}

/// Checks that a new root is a readable folder.
fn check_is_folder(path: &Path) -> Result<()> {
    if !path.is_dir() {
        let sentence = format!("`{}` lies in no root", path.display());
        return Err(Error::new(ErrorCode::FailedPrecondition, sentence)
            .hint("index its folder instead: vic does not add a folder as a root because of one file in it"));
    }
    path.read_dir().io_context("read", path).map(drop)
}

/// Returns a short id that sorts by time: milliseconds and a random number. A counter would reveal how many jobs others
/// started.
fn new_id() -> Result<String> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(format!("{:x}-{:08x}", now_ms(), u32::from_le_bytes(bytes)))
}

pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a job over these folders in this state; no path means every root.
    fn job(state: JobState, paths: &[&str]) -> RunningJob {
        let request =
            IndexRequest { paths: paths.iter().map(|it| it.to_string()).collect(), ..IndexRequest::default() };
        let progress = Progress::new(JobSnapshot { state, request, ..snapshot_without_job() });
        RunningJob { progress: Arc::new(progress), cancel: CancellationToken::new(), holder: Principal::Owner }
    }

    #[test]
    fn job_over_limit_is_refused_except_walk_of_all_roots() {
        let folder = IndexRequest { paths: vec!["/w".into()], ..IndexRequest::default() };
        let (mut running, all) = (Running::new(), IndexRequest::default());
        for number in 0..MAX_UNENDED_JOBS {
            check_job_limit(&running, &folder).unwrap();
            running.insert(number.to_string(), job(JobState::Queued, &["/w"]));
        }
        let refused = check_job_limit(&running, &folder).unwrap_err();
        assert!(refused.code == ErrorCode::ResourceExhausted && refused.hint.is_some(), "{refused}");
        // A running job may have finished its walk already.
        running.insert("at work".into(), job(JobState::Running, &[]));
        check_job_limit(&running, &all).unwrap();
        running.insert("waits".into(), job(JobState::Queued, &[]));
        assert_eq!(check_job_limit(&running, &all).unwrap_err().code, ErrorCode::ResourceExhausted);
        running.clear();
        check_job_limit(&running, &folder).unwrap();
    }

    #[test]
    fn failed_job_continues_without_job_unless_partial_or_resumed() {
        let all = IndexRequest::default();
        let check = |code, request: &IndexRequest| should_continue(&Error::new(code, "it failed"), request);
        let failures = [ErrorCode::Unavailable, ErrorCode::Internal, ErrorCode::Cancelled, ErrorCode::StorageFull];
        assert_eq!(failures.map(|it| check(it, &all)), [true, true, false, false]);
        assert!(!check(ErrorCode::Unavailable, &IndexRequest { max_files: Some(9), ..all.clone() }));
        assert!(!check(ErrorCode::Unavailable, &IndexRequest { metadata_only: true, ..all }));
    }

    #[test]
    fn job_id_does_not_reveal_job_count() {
        let number = |id: String| u32::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap();
        let numbers: Vec<u32> = (0..20).map(|_| number(new_id().unwrap())).collect();
        assert!(numbers.windows(2).all(|it| it[0].abs_diff(it[1]) > 1), "{numbers:?}");
    }

    #[test]
    fn scoped_caller_adds_no_root_and_stays_in_scope() {
        let roots = ["/w/a", "/w/b"].map(|path| Root { id: 1, path: path.into(), available: true, problem: "".into() });
        let own = Scope::Folders(["/w".into(), "/own".into()].into());
        let check = |path: &str, scope: &Scope| {
            let parts = known_parts(&roots, Path::new(path), scope).map_err(|it| it.code)?;
            Ok(parts.into_iter().map(|(root, within)| folder_of(&root, within.as_deref())).collect::<Vec<PathBuf>>())
        };
        assert_eq!(check("/w/a/x", &own), Ok(vec!["/w/a/x".into()]));
        assert_eq!(check("/w", &own), Ok(vec!["/w/a".into(), "/w/b".into()]));
        assert_eq!(check("/etc", &own), Err(ErrorCode::NotFound));
        assert_eq!(check("/w/../etc", &own), Err(ErrorCode::NotFound));
        assert_eq!(check("/own", &own), Err(ErrorCode::FailedPrecondition));
        // The owner's folders become roots.
        assert_eq!(check("/etc", &Scope::All), Ok(vec![]));
        assert_eq!(check("/w/b", &Scope::All), Ok(vec!["/w/b".into()]));
    }
}
