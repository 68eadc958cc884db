//! List of the index jobs of this and earlier runs of the daemon. It is a separate database, whose loss costs only the
//! history. Every save is synced, so that a job that was reported to a client survives a power loss.

use std::path::Path;

use rusqlite::{OptionalExtension, Transaction, params};
use tracing::warn;

use crate::catalog::database::{APPEND_CACHE_KIB, Database, DbError, Durability, Format};
use crate::catalog::files::row::{now_ns, signed};
use crate::catalog::quarantine;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{JobSnapshot, JobState, Phase};

/// Maximum number of jobs kept; beyond it, the oldest ended jobs are deleted.
const MAX_JOBS: u32 = 1_000;

const FORMAT: Format = Format {
    name: "job list",
    version: 1,
    upgrades: &[],
    durability: Durability::Full,
    cache_kib: APPEND_CACHE_KIB,
    hint: "move the file aside; only the history of jobs is lost",
    schema: "
        CREATE TABLE jobs (
            job_id TEXT PRIMARY KEY,
            created_ms INTEGER NOT NULL,
            ended INTEGER NOT NULL,
            snapshot TEXT NOT NULL
        );
        CREATE INDEX jobs_created ON jobs (created_ms);
    ",
};

/// The list of index jobs.
pub struct JobLog {
    database: Database,
}

impl JobLog {
    /// Opens or creates the list at `path`. A corrupt file is renamed to `<path>.damaged` and replaced by an empty list.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<JobLog> {
        // Checks the whole file for corruption: it is small, and no job can start without the list.
        let (mut database, set_aside) = quarantine::replace_if_corrupt(path, || {
            let database = Database::open(path, &FORMAT)?;
            match database.check() {
                Err(error) if error.code == ErrorCode::DataLoss => return Err(error),
                // If the disk cannot be read, uses the list unchecked, because this must not prevent the start of the
                // daemon.
                Err(error) => warn!("cannot check the list of jobs: {error}"),
                Ok(()) => (),
            }
            Ok(database)
        })?;
        database.quarantined = set_aside;
        Ok(JobLog { database })
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Inserts or updates a job; deletes the oldest ended jobs beyond the limit.
    pub fn save(&self, job: &JobSnapshot) -> Result<()> {
        self.database.write(|db| {
            save_job(db, job)?;
            let old = "DELETE FROM jobs WHERE ended AND job_id NOT IN \
                       (SELECT job_id FROM jobs ORDER BY created_ms DESC LIMIT ?1)";
            if job.state.is_final() {
                db.prepare_cached(old)?.execute([MAX_JOBS])?;
            }
            Ok(())
        })
    }

    /// Returns the job with this id.
    pub fn get(&self, job_id: &str) -> Result<Option<JobSnapshot>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT snapshot FROM jobs WHERE job_id = ?1")?;
            let text: Option<String> = statement.query_row([job_id], |row| row.get(0)).optional()?;
            Ok(text.as_deref().map(parse_job).transpose()?)
        })
    }

    /// Returns up to `limit` jobs, newest first.
    pub fn list(&self, limit: usize) -> Result<Vec<JobSnapshot>> {
        self.database.read(|db| {
            let sql = "SELECT snapshot FROM jobs ORDER BY created_ms DESC, rowid DESC LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([signed(limit as u64)])?;
            let mut jobs = Vec::new();
            while let Some(row) = rows.next()? {
                jobs.push(parse_job(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?);
            }
            Ok(jobs)
        })
    }

    /// Marks the jobs that the previous run of the daemon left unfinished as cancelled, and returns them. Call it once, at
    /// startup.
    pub fn cancel_interrupted(&self) -> Result<Vec<JobSnapshot>> {
        self.database.write(|db| {
            let mut statement = db.prepare("SELECT snapshot FROM jobs WHERE NOT ended ORDER BY created_ms")?;
            let texts: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let mut jobs = Vec::new();
            for text in texts {
                let mut job = parse_job(&text)?;
                job.state = JobState::Cancelled;
                job.phase = Phase::Done;
                job.eta_seconds = None;
                job.finished_ms = Some(now_ns() / 1_000_000);
                job.error = Some("the daemon ended before the job did".into());
                save_job(db, &job)?;
                jobs.push(job);
            }
            Ok(jobs)
        })
    }
}

fn save_job(db: &Transaction<'_>, job: &JobSnapshot) -> Result<(), DbError> {
    let text = serde_json::to_string(job).map_err(Error::internal)?;
    db.prepare_cached(
        "INSERT INTO jobs (job_id, created_ms, ended, snapshot) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (job_id) DO UPDATE SET ended = excluded.ended, snapshot = excluded.snapshot",
    )?
    .execute(params![job.job_id, job.created_ms, job.state.is_final(), text])?;
    Ok(())
}

fn parse_job(text: &str) -> Result<JobSnapshot> {
    serde_json::from_str(text).map_err(|error| Error::internal(format!("cannot parse a stored job: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::IndexRequest;

    fn job(id: &str, created_ms: i64, state: JobState) -> JobSnapshot {
        JobSnapshot {
            job_id: id.into(),
            state,
            phase: Phase::Indexing,
            request: IndexRequest { paths: vec!["/w".into()], ..IndexRequest::default() },
            created_ms,
            started_ms: Some(created_ms + 1),
            finished_ms: None,
            files_found: 1,
            files_total: 2,
            files_done: 3,
            files_failed: 4,
            files_removed: 5,
            chunks_written: 6,
            chunks_embedded: 7,
            chunks_awaiting: 9,
            tokens_embedded: 8,
            tokens_per_second: 9.5,
            eta_seconds: Some(1.5),
            last_error: None,
            error: None,
            error_exit_code: None,
        }
    }

    // Case B6
    #[test]
    fn corrupt_list_is_renamed_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.sqlite");
        let jobs = JobLog::open(&path).unwrap();
        (0..100).for_each(|it| jobs.save(&job(&it.to_string(), it, JobState::Completed)).unwrap());
        drop(jobs);
        crate::catalog::flush_database(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() > 10 * 4096);
        bytes[5 * 4096..].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let jobs = JobLog::open(&path).unwrap();
        assert!(std::fs::read(jobs.quarantined().unwrap()).unwrap() == bytes, "nothing of it is lost");
        jobs.save(&job("new", 1, JobState::Queued)).unwrap();
        assert_eq!(jobs.list(9).unwrap().len(), 1);
    }

    #[test]
    fn jobs_survive_reopening_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.sqlite");
        let jobs = JobLog::open(&path).unwrap();
        jobs.save(&job("a", 1, JobState::Queued)).unwrap();
        jobs.save(&job("b", 2, JobState::Completed)).unwrap();
        jobs.save(&job("a", 1, JobState::Completed)).unwrap();
        drop(jobs);
        let jobs = JobLog::open(&path).unwrap();
        assert_eq!(jobs.get("a").unwrap(), Some(job("a", 1, JobState::Completed)));
        assert_eq!(jobs.get("c").unwrap(), None);
        let ids: Vec<String> = jobs.list(10).unwrap().into_iter().map(|it| it.job_id).collect();
        assert_eq!(ids, ["b", "a"]);
        assert_eq!(jobs.list(1).unwrap().len(), 1);
    }

    #[test]
    fn open_jobs_of_earlier_run_are_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = JobLog::open(&dir.path().join("jobs.sqlite")).unwrap();
        for (id, state) in [("a", JobState::Running), ("b", JobState::Queued), ("c", JobState::Failed)] {
            jobs.save(&job(id, 1, state)).unwrap();
        }
        assert_eq!(jobs.cancel_interrupted().unwrap().len(), 2);
        assert_eq!(jobs.cancel_interrupted().unwrap(), []);
        let a = jobs.get("a").unwrap().unwrap();
        assert_eq!((a.state, a.error.as_deref()), (JobState::Cancelled, Some("the daemon ended before the job did")));
        assert_eq!(jobs.get("c").unwrap().unwrap().state, JobState::Failed);
    }

    #[test]
    fn old_jobs_are_dropped_beyond_limit() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = JobLog::open(&dir.path().join("jobs.sqlite")).unwrap();
        for number in 0..i64::from(MAX_JOBS) + 5 {
            jobs.save(&job(&number.to_string(), number, JobState::Completed)).unwrap();
        }
        assert_eq!(jobs.list(usize::MAX).unwrap().len(), MAX_JOBS as usize);
        assert_eq!(jobs.get("0").unwrap(), None);
    }
}
