//! The job list, and the jobs that have not ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::catalog::JobLog;
use crate::error::{Error, ErrorCode, Result};
use crate::index::progress::{Progress, UnattendedTotals};
use crate::machine::{FairSlots, Slot};
use crate::model::{IndexRequest, JobSnapshot, JobState, Principal};

/// Maximum jobs that have not ended: one running, some in OCR, all others waiting for the engine. Each walks its
/// folders again and adds a line to every status. A program that starts more never waits for their results. One key may
/// have half of them.
const MAX_UNENDED_JOBS: usize = 128;

/// Jobs that have not ended, by id.
type Unended = BTreeMap<String, UnendedJob>;

/// A job that has not ended.
struct UnendedJob {
    progress: Arc<Progress>,
    cancel: CancellationToken,
    /// The holder that started it.
    holder: Principal,
}

/// The jobs of the index.
pub(in crate::index) struct Jobs {
    log: JobLog,
    unended: Mutex<Unended>,
    /// Limit of unended jobs per key.
    shares: Arc<FairSlots>,
    /// Totals of runs without a job.
    pub(in crate::index) unattended: Arc<UnattendedTotals>,
}

impl Jobs {
    /// Starts without unended jobs.
    pub(in crate::index) fn new(log: JobLog) -> Jobs {
        let shares = FairSlots::per_holder(MAX_UNENDED_JOBS / 2);
        Jobs { log, unended: Mutex::default(), shares, unattended: Arc::default() }
    }

    /// Takes the holder's share for a job.
    pub(in crate::index) fn admit(&self, request: &IndexRequest, holder: &Principal) -> Result<Slot> {
        check_job_limit(&self.unended(), request)?;
        self.shares.acquire(holder, "jobs have not ended")
    }

    /// Adds and saves an admitted job.
    pub(in crate::index) fn add(
        &self,
        snapshot: &JobSnapshot,
        holder: &Principal,
        cancel: CancellationToken,
    ) -> Result<Arc<Progress>> {
        let progress = Arc::new(Progress::new(snapshot.clone()));
        {
            let mut unended = self.unended();
            check_job_limit(&unended, &snapshot.request)?;
            let job = UnendedJob { progress: progress.clone(), cancel, holder: holder.clone() };
            unended.insert(snapshot.job_id.clone(), job);
        }
        if let Err(error) = self.log.save(snapshot) {
            self.unended().remove(&snapshot.job_id);
            return Err(error);
        }
        Ok(progress)
    }

    /// Saves the last snapshot of a job, and removes the job from the unended ones.
    pub(in crate::index) fn end(&self, last: &JobSnapshot) {
        if let Err(error) = self.log.save(last) {
            warn!(%error, "cannot save the end of a job");
        }
        self.unended().remove(&last.job_id);
    }

    /// Returns a receiver of snapshots of a job; of an ended job, its last one.
    pub(in crate::index) fn watch(&self, id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        if let Some(job) = self.unended().get(id) {
            return Ok(job.progress.watch());
        }
        Ok(watch::channel(self.snapshot(id)?).1)
    }

    /// Returns the current snapshot of a job.
    pub(in crate::index) fn snapshot(&self, id: &str) -> Result<JobSnapshot> {
        if let Some(job) = self.unended().get(id) {
            return Ok(job.progress.snapshot());
        }
        let unknown = || Error::not_found(format!("there is no job `{id}`")).hint("`vic jobs` lists them");
        self.log.get(id)?.ok_or_else(unknown)
    }

    /// Returns the latest jobs, newest first.
    pub(in crate::index) fn list(&self, limit: usize) -> Result<Vec<JobSnapshot>> {
        let mut jobs = self.log.list(limit)?;
        let unended = self.unended();
        for job in &mut jobs {
            if let Some(UnendedJob { progress, .. }) = unended.get(&job.job_id) {
                *job = progress.snapshot();
            }
        }
        Ok(jobs)
    }

    /// Returns the jobs that have not ended.
    pub(in crate::index) fn running(&self) -> Vec<JobSnapshot> {
        self.unended().values().map(|it| it.progress.snapshot()).collect()
    }

    /// Cancels a job that has not ended.
    pub(in crate::index) fn cancel(&self, id: &str) {
        if let Some(job) = self.unended().get(id) {
            job.cancel.cancel();
        }
    }

    /// Returns the ids of the unended jobs that a holder started.
    pub(in crate::index) fn ids_of(&self, holder: &Principal) -> Vec<String> {
        let unended = self.unended();
        unended.iter().filter(|(_, job)| job.holder == *holder).map(|(id, _)| id.clone()).collect()
    }

    /// Returns whether a job has neither ended nor been cancelled.
    pub(in crate::index) fn is_wanted(&self, id: &str) -> bool {
        self.unended().get(id).is_some_and(|it| !it.cancel.is_cancelled())
    }

    /// Returns whether a queued job will walk every root.
    pub(in crate::index) fn has_queued_full_walk(&self) -> bool {
        has_queued_full_walk(&self.unended())
    }

    fn unended(&self) -> MutexGuard<'_, Unended> {
        self.unended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a job if too many have not ended. A job over every root is exempt unless a queued job will walk every root:
/// the daemon's own walks are such jobs, and none may be lost.
fn check_job_limit(unended: &Unended, request: &IndexRequest) -> Result<()> {
    let is_needed = || request.paths.is_empty() && !has_queued_full_walk(unended);
    if unended.len() < MAX_UNENDED_JOBS || is_needed() {
        return Ok(());
    }
    let text = format!("busy: {} jobs have not ended", unended.len());
    Err(Error::new(ErrorCode::ResourceExhausted, text)
        .hint("try again when one of them has ended; `vic jobs` lists them"))
}

/// Returns whether a queued job will walk every root.
fn has_queued_full_walk(unended: &Unended) -> bool {
    let will = |job: JobSnapshot| job.state == JobState::Queued && job.request.paths.is_empty();
    unended.values().any(|it| will(it.progress.snapshot()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::progress::snapshot_without_job;

    /// Creates a job over these folders in this state; no path means every root.
    fn job(state: JobState, paths: &[&str]) -> UnendedJob {
        let request =
            IndexRequest { paths: paths.iter().map(|it| it.to_string()).collect(), ..IndexRequest::default() };
        let progress = Progress::new(JobSnapshot { state, request, ..snapshot_without_job() });
        UnendedJob { progress: Arc::new(progress), cancel: CancellationToken::new(), holder: Principal::Owner }
    }

    #[test]
    fn job_over_limit_is_refused_except_walk_of_all_roots() {
        let folder = IndexRequest { paths: vec!["/w".into()], ..IndexRequest::default() };
        let (mut unended, all) = (Unended::new(), IndexRequest::default());
        for number in 0..MAX_UNENDED_JOBS {
            check_job_limit(&unended, &folder).unwrap();
            unended.insert(number.to_string(), job(JobState::Queued, &["/w"]));
        }
        let refused = check_job_limit(&unended, &folder).unwrap_err();
        assert!(refused.code == ErrorCode::ResourceExhausted && refused.hint.is_some(), "{refused}");
        // A running job may have finished its walk already.
        unended.insert("at work".into(), job(JobState::Running, &[]));
        check_job_limit(&unended, &all).unwrap();
        unended.insert("waits".into(), job(JobState::Queued, &[]));
        assert_eq!(check_job_limit(&unended, &all).unwrap_err().code, ErrorCode::ResourceExhausted);
        unended.clear();
        check_job_limit(&unended, &folder).unwrap();
    }
}
