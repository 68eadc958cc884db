//! What a caller whose scope is not everything sees of jobs and of the daemon: nothing that tells of other files.

use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::index;
use crate::model::{IndexRequest, JobSnapshot, JobState, Scope, Status, Upkeep, WatchReport, path_of, printed};

/// Jobs that are looked at for those of the scope.
pub(super) const MAX_JOBS: u32 = 1_000;

/// The request as it may be carried out, with the paths that its links lead to: without a path it is about the folders of
/// the scope, and with one that lies elsewhere it is refused as if there were no such folder.
pub(super) async fn request(scope: &Scope, mut request: IndexRequest) -> Result<IndexRequest> {
    for path in &mut request.paths {
        let found = index::absolute(&path_of(path)).await.ok().filter(|it| scope.covers(it));
        match found.map(|it| printed(&it).into_owned()) {
            // What was looked at is what is indexed, even if a link is turned elsewhere in between.
            Some(found) => *path = found,
            // The job says what is wrong with it.
            None if scope.is_all() => (),
            None => {
                let sentence = format!("there is no folder `{path}`");
                return Err(Error::not_found(sentence).hint("the status lists the folders"));
            }
        }
    }
    if let (Scope::Folders(folders), true) = (scope, request.paths.is_empty()) {
        if folders.is_empty() {
            // To the index no path is every root.
            return Err(Error::not_found("there is no folder to index").hint("the status lists the folders"));
        }
        request.paths = folders.iter().map(|it| printed(it).into_owned()).collect();
    }
    Ok(request)
}

/// The job, if it is about folders of the scope alone.
pub(super) fn known(scope: &Scope, job: Result<JobSnapshot>, job_id: &str) -> Result<JobSnapshot> {
    match job {
        Ok(job) if is_visible(scope, &job) => Ok(masked(scope, job)),
        Err(error) if scope.is_all() => Err(error),
        Ok(_) | Err(_) => Err(Error::not_found(format!("there is no job `{job_id}`"))),
    }
}

/// The jobs that are about folders of the scope alone.
pub(super) fn jobs(scope: &Scope, jobs: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
    jobs.into_iter().filter(|it| is_visible(scope, it)).map(|it| masked(scope, it)).collect()
}

/// By the paths that [`request`] resolved: a list of a thousand jobs does not look at the disk.
fn is_visible(scope: &Scope, job: &JobSnapshot) -> bool {
    let paths = &job.request.paths;
    scope.is_all() || (!paths.is_empty() && paths.iter().all(|it| scope.covers(&path_of(it))))
}

/// Takes out what tells of other files: a run brings in whatever waits, of every root, and counts it.
pub(super) fn masked(scope: &Scope, job: JobSnapshot) -> JobSnapshot {
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
        error: job.error.map(|_| not_told(job.state)),
        ..job
    }
}

/// That a job ended before it was done. Why may be about any file, or about where the owner keeps the index.
fn not_told(state: JobState) -> String {
    match state {
        JobState::Failed => "the job failed; the daemon's owner sees why with `vic jobs`".into(),
        JobState::Queued | JobState::Running | JobState::Completed | JobState::Cancelled => {
            "the job ended before it was done".into()
        }
    }
}

/// The snapshots of a job, each masked.
pub(super) fn watched(scope: &Scope, mut job: watch::Receiver<JobSnapshot>) -> watch::Receiver<JobSnapshot> {
    if scope.is_all() {
        return job;
    }
    let scope = scope.clone();
    let (sender, receiver) = watch::channel(masked(&scope, job.borrow_and_update().clone()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                // A job that is paused may not change for days.
                () = sender.closed() => return,
                changed = job.changed() => if changed.is_err() { return },
            }
            sender.send_replace(masked(&scope, job.borrow_and_update().clone()));
        }
    });
    receiver
}

/// The status without what only the owner has to know: where the data lies, how much there is of it, and how it is kept
/// and watched. Which of the own roots are walked again and again remains, as it says how soon a change is found.
pub(super) fn status(scope: &Scope, status: Status) -> Status {
    if scope.is_all() {
        return status;
    }
    let WatchReport { watching, polled, .. } = status.watch;
    let watch = WatchReport { watching, polled, ..WatchReport::default() };
    Status { data_dir: String::new(), store_bytes: 0, upkeep: Upkeep::default(), watch, ..status }
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
    fn a_job_of_others_is_no_job() {
        let unknown = known(&scope(), Err(Error::not_found("no such row")), "x").unwrap_err();
        for paths in [&["/v"][..], &["/w", "/v"], &["/w/../v"], &["/"], &[]] {
            assert_eq!(known(&scope(), Ok(job(paths)), "x").unwrap_err(), unknown, "{paths:?}");
            assert!(jobs(&scope(), vec![job(paths)]).is_empty(), "{paths:?}");
            assert!(known(&Scope::All, Ok(job(paths)), "x").is_ok());
        }
        assert!(known(&scope(), Ok(job(&["/w", "/w/a"])), "x").is_ok());
    }

    #[test]
    fn the_counts_and_the_last_error_of_a_run_are_not_told() {
        let shown = known(&scope(), Ok(job(&["/w"])), "x").unwrap();
        assert_eq!((shown.files_done, shown.files_total, shown.chunks_written, shown.last_error), (0, 0, 0, None));
        assert_eq!(known(&Scope::All, Ok(job(&["/w"])), "x").unwrap(), job(&["/w"]));
    }

    #[test]
    fn why_a_job_failed_and_how_many_chunks_wait_is_told_to_the_owner_alone() {
        let error = Some("the disk of `/v/private` has 3 MiB free".to_string());
        for state in [JobState::Failed, JobState::Cancelled] {
            let ended = JobSnapshot { state, error: error.clone(), chunks_awaiting: 40, ..job(&["/w"]) };
            let shown = masked(&scope(), ended.clone());
            assert!(shown.error.is_some_and(|it| !it.contains("/v")));
            assert_eq!((shown.chunks_awaiting, shown.state), (0, state));
            assert_eq!(masked(&Scope::All, ended.clone()), ended);
        }
        assert_eq!(masked(&scope(), job(&["/w"])).error, None);
    }

    #[tokio::test]
    async fn to_index_nothing_in_particular_is_to_index_the_scope() {
        assert_eq!(request(&scope(), IndexRequest::default()).await.unwrap().paths, ["/w"]);
        let elsewhere = IndexRequest { paths: vec!["/etc".into()], ..IndexRequest::default() };
        assert_eq!(request(&scope(), elsewhere.clone()).await.unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(request(&Scope::All, elsewhere.clone()).await.unwrap(), elsewhere);
    }

    #[tokio::test]
    async fn to_index_a_scope_of_nothing_is_not_to_index_everything() {
        let nothing = Scope::Folders([].into());
        assert_eq!(request(&nothing, IndexRequest::default()).await.unwrap_err().code, ErrorCode::NotFound);
    }

    #[tokio::test]
    async fn a_job_is_known_by_where_its_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", here.join("link")).unwrap();
        let scope = Scope::Folders([here.clone()].into());
        let of = |path: &Path| IndexRequest { paths: vec![path.display().to_string()], ..IndexRequest::default() };
        let linked = request(&Scope::All, of(&here.join("link"))).await.unwrap();
        assert_eq!(linked.paths, ["/etc"], "which a list for this folder does not show");
        for path in ["link", "missing"] {
            assert_eq!(request(&scope, of(&here.join(path))).await.unwrap_err().code, ErrorCode::NotFound, "{path}");
        }
        let missing = of(&here.join("missing"));
        assert_eq!(request(&Scope::All, missing.clone()).await.unwrap(), missing);
    }

    #[test]
    fn how_the_store_is_kept_is_told_to_the_owner_alone() {
        let told = samples::status();
        assert_ne!(told.upkeep, Upkeep::default());
        let shown = status(&scope(), told.clone());
        assert_eq!((shown.data_dir.as_str(), shown.store_bytes, shown.upkeep), ("", 0, Upkeep::default()));
        let watch = WatchReport { watching: true, polled: vec!["/w".into()], ..WatchReport::default() };
        assert_eq!(shown.watch, watch, "and not how many folders of others are watched, and how well");
        assert_eq!(status(&Scope::All, told.clone()), told);
    }

    #[tokio::test]
    async fn a_watched_job_is_masked_to_its_end() {
        let sender = watch::Sender::new(job(&["/w"]));
        let mut seen = watched(&scope(), sender.subscribe());
        sender.send_replace(JobSnapshot { state: JobState::Completed, ..job(&["/w"]) });
        let last = seen.wait_for(|it| it.state.is_final()).await.unwrap().clone();
        assert_eq!((last.files_done, last.last_error), (0, None));
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_watch_that_nobody_follows_any_more() {
        let (sender, job) = watch::channel(job(&["/w"]));
        let watched = watched(&scope(), job);
        assert_eq!(sender.receiver_count(), 1);
        drop(watched);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(sender.receiver_count(), 0, "although the job has not changed");
    }
}
