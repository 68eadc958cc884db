//! Restricts jobs and status to the scope of a caller (the folders of its key), by removing facts about other files.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::index;
use crate::model::{IndexRequest, JobSnapshot, JobState, Scope, Status, Upkeep, WatchReport, display_path, parse_path};

/// A restricted caller can list only jobs that are among this many latest jobs of all callers.
pub(super) const MAX_JOBS: u32 = 1_000;

/// Restricts an index request to the scope and resolves the links in its paths. A request without paths gets the folders
/// of the scope. A path outside the scope fails with the same error as a missing folder.
pub(super) async fn restrict_request(scope: &Scope, mut request: IndexRequest) -> Result<IndexRequest> {
    for path in &mut request.paths {
        let found = index::resolve(&parse_path(path)).await.ok().filter(|it| scope.covers(it));
        match found.map(|it| display_path(&it).into_owned()) {
            // Stores the resolved path, so that the checked folder is indexed even if a link is changed in the meantime.
            Some(found) => *path = found,
            // Keeps an invalid path of the owner, because the job reports what is wrong with it.
            None if scope.is_all() => (),
            None => {
                let sentence = format!("there is no folder `{path}`");
                return Err(Error::not_found(sentence).hint("`vic status` lists the folders"));
            }
        }
    }
    if let (Scope::Folders(folders), true) = (scope, request.paths.is_empty()) {
        if folders.is_empty() {
            // An empty list of folders must be an error here, because a request without paths would index all roots.
            return Err(Error::not_found("there is no folder to index").hint("`vic status` lists the folders"));
        }
        request.paths = folders.iter().map(|it| display_path(it).into_owned()).collect();
    }
    Ok(request)
}

/// Returns the job if all its folders are in the scope, otherwise the same error as for an unknown job.
pub(super) fn visible_job(scope: &Scope, job: Result<JobSnapshot>, job_id: &str) -> Result<JobSnapshot> {
    match job {
        Ok(job) if is_visible(scope, &job) => Ok(mask_job(scope, job)),
        Err(error) if scope.is_all() => Err(error),
        Ok(_) | Err(_) => Err(Error::not_found(format!("there is no job `{job_id}`"))),
    }
}

/// Returns the jobs whose folders are all in the scope.
pub(super) fn visible_jobs(scope: &Scope, jobs: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
    jobs.into_iter().filter(|it| is_visible(scope, it)).map(|it| mask_job(scope, it)).collect()
}

/// Returns whether all folders of a job are in the scope. Compares the paths that [`restrict_request`] resolved, so that
/// listing a thousand jobs needs no disk access.
fn is_visible(scope: &Scope, job: &JobSnapshot) -> bool {
    let paths = &job.request.paths;
    scope.is_all() || (!paths.is_empty() && paths.iter().all(|it| scope.covers(&parse_path(it))))
}

/// Removes counts and errors from a job for a restricted caller, because they include files outside the scope: a job indexes
/// all pending files of all roots.
pub(super) fn mask_job(scope: &Scope, job: JobSnapshot) -> JobSnapshot {
    if scope.is_all() {
        return job;
    }
    JobSnapshot {
        files_total: 0,
        files_done: 0,
        files_failed: 0,
        chunks_written: 0,
        chunks_embedded: 0,
        chunks_awaiting: 0,
        tokens_embedded: 0,
        tokens_per_second: 0.0,
        eta_seconds: None,
        last_error: None,
        error: job.error.map(|_| masked_error(job.state)),
        ..job
    }
}

/// Returns a general error in place of the job's own, which may name any file or the folder of the index.
fn masked_error(state: JobState) -> String {
    match state {
        JobState::Failed => "the job failed; the daemon's owner sees why with `vic jobs`".into(),
        JobState::Queued | JobState::Running | JobState::Completed | JobState::Cancelled => {
            "the job ended before it was complete".into()
        }
    }
}

/// Returns a watch channel with the snapshots of a job, each restricted to the scope by `mask_job`.
pub(super) fn masked_watch(scope: &Scope, mut job: watch::Receiver<JobSnapshot>) -> watch::Receiver<JobSnapshot> {
    if scope.is_all() {
        return job;
    }
    let scope = scope.clone();
    let (sender, receiver) = watch::channel(mask_job(&scope, job.borrow_and_update().clone()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                // Ends this task when the client stops watching, because a paused job may not change for days.
                () = sender.closed() => return,
                changed = job.changed() => if changed.is_err() { return },
            }
            sender.send_replace(mask_job(&scope, job.borrow_and_update().clone()));
        }
    });
    receiver
}

/// Removes from the status what only the owner may see: data directory, size of the store, maintenance, and watcher
/// state. The polled roots in the scope are kept, because they tell how soon a change is found.
pub(super) fn restrict_status(scope: &Scope, status: Status) -> Status {
    if scope.is_all() {
        return status;
    }
    let WatchReport { watching, polled, .. } = status.watch;
    let watch = WatchReport { watching, polled, ..WatchReport::default() };
    Status {
        data_dir: String::new(),
        store_bytes: 0,
        upkeep: Upkeep::default(),
        watch,
        languages: BTreeMap::new(),
        advice: Vec::new(),
        ..status
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::ErrorCode;
    use crate::model::samples;

    fn scope() -> Scope {
        Scope::Folders(["/w".into()].into())
    }

    fn job(paths: &[&str]) -> JobSnapshot {
        let mut job = samples::job(JobState::Running, 4);
        job.request.paths = paths.iter().map(|it| it.to_string()).collect();
        job
    }

    #[test]
    fn job_outside_scope_is_not_found() {
        let unknown = visible_job(&scope(), Err(Error::not_found("no such row")), "x").unwrap_err();
        for paths in [&["/v"][..], &["/w", "/v"], &["/w/../v"], &["/"], &[]] {
            assert_eq!(visible_job(&scope(), Ok(job(paths)), "x").unwrap_err(), unknown, "{paths:?}");
            assert!(visible_jobs(&scope(), vec![job(paths)]).is_empty(), "{paths:?}");
            assert!(visible_job(&Scope::All, Ok(job(paths)), "x").is_ok());
        }
        assert!(visible_job(&scope(), Ok(job(&["/w", "/w/a"])), "x").is_ok());
    }

    #[test]
    fn counts_and_last_error_are_masked() {
        let shown = visible_job(&scope(), Ok(job(&["/w"])), "x").unwrap();
        assert_eq!((shown.files_done, shown.files_total, shown.chunks_written, shown.last_error), (0, 0, 0, None));
        assert_eq!(visible_job(&Scope::All, Ok(job(&["/w"])), "x").unwrap(), job(&["/w"]));
    }

    #[test]
    fn job_error_and_pending_chunks_are_owner_only() {
        let error = Some("the disk of `/v/private` has 3 MiB free".to_string());
        for state in [JobState::Failed, JobState::Cancelled] {
            let ended = JobSnapshot { state, error: error.clone(), chunks_awaiting: 40, ..job(&["/w"]) };
            let shown = mask_job(&scope(), ended.clone());
            assert!(shown.error.is_some_and(|it| !it.contains("/v")));
            assert_eq!((shown.chunks_awaiting, shown.state), (0, state));
            assert_eq!(mask_job(&Scope::All, ended.clone()), ended);
        }
        assert_eq!(mask_job(&scope(), job(&["/w"])).error, None);
    }

    #[tokio::test]
    async fn request_without_path_indexes_scope() {
        assert_eq!(restrict_request(&scope(), IndexRequest::default()).await.unwrap().paths, ["/w"]);
        let elsewhere = IndexRequest { paths: vec!["/etc".into()], ..IndexRequest::default() };
        assert_eq!(restrict_request(&scope(), elsewhere.clone()).await.unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(restrict_request(&Scope::All, elsewhere.clone()).await.unwrap(), elsewhere);
    }

    #[tokio::test]
    async fn request_in_empty_scope_is_refused() {
        let nothing = Scope::Folders([].into());
        assert_eq!(restrict_request(&nothing, IndexRequest::default()).await.unwrap_err().code, ErrorCode::NotFound);
    }

    #[tokio::test]
    async fn job_paths_are_resolved_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", here.join("link")).unwrap();
        let scope = Scope::Folders([here.clone()].into());
        let of = |path: &Path| IndexRequest { paths: vec![path.display().to_string()], ..IndexRequest::default() };
        let linked = restrict_request(&Scope::All, of(&here.join("link"))).await.unwrap();
        assert_eq!(linked.paths, ["/etc"], "outside the folder of the scope");
        for path in ["link", "missing"] {
            assert_eq!(
                restrict_request(&scope, of(&here.join(path))).await.unwrap_err().code,
                ErrorCode::NotFound,
                "{path}"
            );
        }
        let missing = of(&here.join("missing"));
        assert_eq!(restrict_request(&Scope::All, missing.clone()).await.unwrap(), missing);
    }

    #[test]
    fn status_hides_maintenance_from_scoped_caller() {
        let told = samples::status();
        assert_ne!(told.upkeep, Upkeep::default());
        let shown = restrict_status(&scope(), told.clone());
        assert_eq!((shown.data_dir.as_str(), shown.store_bytes, shown.upkeep), ("", 0, Upkeep::default()));
        let watch = WatchReport { watching: true, polled: vec!["/w".into()], ..WatchReport::default() };
        assert_eq!(shown.watch, watch, "counts of other folders are removed");
        assert_eq!(restrict_status(&Scope::All, told.clone()), told);
    }

    #[tokio::test]
    async fn watched_job_is_masked_until_final_snapshot() {
        let sender = watch::Sender::new(job(&["/w"]));
        let mut seen = masked_watch(&scope(), sender.subscribe());
        sender.send_replace(JobSnapshot { state: JobState::Completed, ..job(&["/w"]) });
        let last = seen.wait_for(|it| it.state.is_final()).await.unwrap().clone();
        assert_eq!((last.files_done, last.last_error), (0, None));
    }

    #[tokio::test]
    async fn dropped_watch_ends_its_task() {
        let (sender, job) = watch::channel(job(&["/w"]));
        let watched = masked_watch(&scope(), job);
        assert_eq!(sender.receiver_count(), 1);
        drop(watched);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(sender.receiver_count(), 0, "although the job has not changed");
    }
}
