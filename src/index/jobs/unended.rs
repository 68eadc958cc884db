//! The job database, and in memory the jobs that have not ended: queued or running.

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

/// Maximum jobs that have not ended: one that indexes, some in OCR, the others queued. Further jobs are refused,
/// because each job walks its folders again and adds a line to every status. A program that starts this many jobs does
/// not wait for their results. One API key may have half of them.
const MAX_UNENDED_JOBS: usize = 128;

/// Jobs that have not ended, by id.
type Unended = BTreeMap<String, UnendedJob>;

struct UnendedJob {
    progress: Arc<Progress>,
    cancel: CancellationToken,
    /// The owner or the API key that started the job.
    holder: Principal,
}

/// All jobs of the index: the database of jobs, and in memory those that have not ended.
pub(in crate::index) struct Jobs {
    log: JobLog,
    unended: Mutex<Unended>,
    /// Limits how many jobs each holder may have queued or running.
    shares: Arc<FairSlots>,
    /// Files and chunks indexed by runs without a job.
    pub(in crate::index) unattended: Arc<UnattendedTotals>,
}

impl Jobs {
    /// Creates the list with no job queued or running.
    pub(in crate::index) fn new(log: JobLog) -> Jobs {
        let shares = FairSlots::per_holder(MAX_UNENDED_JOBS / 2);
        Jobs { log, unended: Mutex::default(), shares, unattended: Arc::default() }
    }

    /// Reserves one of the holder's slots for a job. The slot is released when it is dropped.
    pub(in crate::index) fn admit(&self, request: &IndexRequest, holder: &Principal) -> Result<Slot> {
        check_job_limit(&self.unended(), request)?;
        self.shares.acquire(holder, "jobs have not ended")
    }

    /// Adds a job that has a slot, and saves it in the database.
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

    /// Saves the last snapshot of a job in the database, and removes the job from memory.
    pub(in crate::index) fn end(&self, last: &JobSnapshot) {
        if let Err(error) = self.log.save(last) {
            warn!(%error, "cannot save the final state of a job; the next start reports it as cancelled");
        }
        self.unended().remove(&last.job_id);
    }

    /// Returns a receiver of the snapshots of a job. If the job has ended, the receiver holds its last snapshot.
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

    /// Returns the latest `limit` jobs, newest first.
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

    /// Returns the snapshots of the jobs that have not ended.
    pub(in crate::index) fn running(&self) -> Vec<JobSnapshot> {
        self.unended().values().map(|it| it.progress.snapshot()).collect()
    }

    /// Cancels a job. Does nothing if the job has ended.
    pub(in crate::index) fn cancel(&self, id: &str) {
        if let Some(job) = self.unended().get(id) {
            job.cancel.cancel();
        }
    }

    /// Returns the ids of the jobs that this holder started and that have not ended.
    pub(in crate::index) fn ids_of(&self, holder: &Principal) -> Vec<String> {
        let unended = self.unended();
        unended.iter().filter(|(_, job)| job.holder == *holder).map(|(id, _)| id.clone()).collect()
    }

    /// Returns whether a job has not ended and was not cancelled.
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

/// Refuses a job if too many have not ended. A job over every root is exempt, unless another one is queued: the
/// daemon's own walks are such jobs, and none may be lost.
fn check_job_limit(unended: &Unended, request: &IndexRequest) -> Result<()> {
    let is_needed = || request.paths.is_empty() && !has_queued_full_walk(unended);
    if unended.len() < MAX_UNENDED_JOBS || is_needed() {
        return Ok(());
    }
    let text = format!("busy: {} jobs have not ended", unended.len());
    Err(Error::new(ErrorCode::ResourceExhausted, text)
        .hint("try again when one of them has ended, or cancel one; `vic jobs` lists them"))
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
        // Accepts a second job over every root, because the running one may have finished its walk already.
        unended.insert("at work".into(), job(JobState::Running, &[]));
        check_job_limit(&unended, &all).unwrap();
        unended.insert("waits".into(), job(JobState::Queued, &[]));
        assert_eq!(check_job_limit(&unended, &all).unwrap_err().code, ErrorCode::ResourceExhausted);
        unended.clear();
        check_job_limit(&unended, &folder).unwrap();
    }
}
