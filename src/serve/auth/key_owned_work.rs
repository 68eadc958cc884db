//! Background work that was started with an API key and continues without a waiting client: index jobs (also those of
//! corpus verbs) and corpus jobs. It is cancelled when the key is revoked; `serve::http::revocation` does the same for
//! responses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{CorpusReply, CorpusRequest};
use crate::serve::Service;
use crate::serve::auth::authenticator::Authenticator;

/// Interval between two checks of whether a corpus job and its index jobs have ended.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Delay between the revocation of a key and the cancellation of its jobs, so that a client that follows a job sees the
/// revocation and not a cancelled job. Both are detected by polling, within half a second or later on a busy machine.
const CANCEL_DELAY: Duration = Duration::from_secs(3);

/// Background work that belongs to a key.
#[derive(Debug)]
pub(in crate::serve) enum KeyOwnedWork {
    /// An index job, with its id.
    Index(String),
    /// A corpus job, with its id; the index jobs that it waits for belong to it.
    Verb(String),
    /// A call of the verb INGEST. The token is cancelled when the client no longer waits; the call's index jobs then
    /// continue.
    Ingest(CancellationToken),
}

/// Returns the id of the corpus job in which the accepted work continues, if any.
pub(in crate::serve) fn accepted_job_id(reply: &CorpusReply) -> Option<String> {
    if !reply.accepted {
        return None;
    }
    let text = &reply.text;
    // Parses the reply as JSON, or else as YAML, which the client may have requested.
    let told: Option<Value> = serde_json::from_str(text).ok().or_else(|| serde_yaml_ng::from_str(text).ok());
    Some(told?["data"]["job_id"].as_str()?.into())
}

impl KeyOwnedWork {
    /// Cancels the work when its key no longer grants it; returns when the work has ended.
    pub(in crate::serve) async fn cancel_on_revoke(
        self,
        ring: Arc<Authenticator>,
        grant: Grant,
        service: Arc<dyn Service>,
    ) {
        loop {
            tokio::select! {
                () = self.finished(&*service) => return,
                () = ring.revoked(&grant) => (),
            }
            tokio::time::sleep(CANCEL_DELAY).await;
            // Checks again after the delay, because a user may remove a key from the file and put it back. A streamed
            // response, which ends at once, can be requested again, but a job may have run for hours.
            if !ring.still_grants(&grant) {
                break;
            }
        }
        match self.cancel(&*service).await {
            Ok(()) => tracing::info!(job = ?self, "job cancelled because its key was revoked"),
            Err(error) => tracing::warn!(job = ?self, %error, "cannot cancel the job of a revoked key"),
        }
    }

    async fn finished(&self, service: &dyn Service) {
        match self {
            KeyOwnedWork::Index(id) => {
                // If the job cannot be watched, it has already ended.
                if let Ok(mut job) = service.watch_job(id) {
                    job.wait_for(|it| it.state.is_final()).await.ok();
                }
            }
            KeyOwnedWork::Verb(id) => {
                while may_be_running(&service.corpus(job_request(id, false)).await) {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                index_jobs_finished(service).await;
            }
            KeyOwnedWork::Ingest(left) => {
                left.cancelled().await;
                index_jobs_finished(service).await;
            }
        }
    }

    async fn cancel(&self, service: &dyn Service) -> Result<()> {
        let mut told = match self {
            KeyOwnedWork::Index(id) => return service.cancel_job(id).await.map(drop),
            // Cancels the corpus job first, so that it starts no more index jobs.
            KeyOwnedWork::Verb(id) => cancel_verb(id, service).await,
            KeyOwnedWork::Ingest(_) => Ok(()),
        };
        // Cancels all index jobs of the key, even if the cancellation of one fails; returns the first error at the end.
        for id in service.own_jobs()? {
            told = told.and(service.cancel_job(&id).await.map(drop));
        }
        told
    }
}

async fn cancel_verb(id: &str, service: &dyn Service) -> Result<()> {
    match service.corpus(job_request(id, true)).await?.error_code {
        Some(code) => Err(Error::new(code, format!("cannot cancel corpus job `{id}`: {}", code.name()))),
        None => Ok(()),
    }
}

/// Waits until the key has no running index jobs at all, because it is not recorded which of them belong to a verb.
async fn index_jobs_finished(service: &dyn Service) {
    while service.own_jobs().is_ok_and(|it| !it.is_empty()) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Builds a request for the state of a corpus job, or with `cancel` for its cancellation.
fn job_request(id: &str, cancel: bool) -> CorpusRequest {
    let request = [("id".to_string(), Value::from(id)), ("cancel".to_string(), Value::from(cancel))];
    CorpusRequest { verb: "JOB".into(), request: Map::from_iter(request) }
}

/// Returns whether a job may still be running; true if its state could not be queried.
fn may_be_running(told: &Result<CorpusReply>) -> bool {
    let Ok(CorpusReply { text, error_code: refused, .. }) = told else { return true };
    match refused {
        None => serde_json::from_str(text).is_ok_and(|it: Value| it["data"]["state"] == "running"),
        Some(code) => *code != ErrorCode::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::data_dir::keys;
    use crate::data_dir::keys::Right;
    use crate::model::{IndexRequest, JobState};
    use crate::serve::admission::Admission;
    use crate::serve::auth::authorized_service::AuthorizedService;
    use crate::serve::fake::FakeService;

    /// Timeout for each condition; long, because the machine may be busy with other tests.
    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waits = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, waits).await.unwrap_or_else(|_| panic!("not within {TIMEOUT:?}: {what}"));
    }

    fn reply(text: &str, accepted: bool) -> CorpusReply {
        CorpusReply { media_type: String::new(), text: text.into(), error_code: None, accepted }
    }

    #[tokio::test]
    async fn revoked_key_cancels_its_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = Some(Arc::new(Authenticator::new("own", config.keys_path())));
        let desk = Arc::new(Admission { keys: ring, ..Admission::new(2) });
        let fake = Arc::new(FakeService::new());
        let service: Arc<dyn Service> = fake.clone();
        let [ada, bo] = ["ada", "bo"].map(|name| {
            keys::add(&config, name, &[dir.path().into()], Right::Index).unwrap();
            let grant = keys::list(&config).unwrap().iter().find(|it| it.name == name).unwrap().grant();
            AuthorizedService::new(&service, &desk, grant).service()
        });
        let ingest = |id: &str| json!({"job_id": id}).as_object().unwrap().clone();
        for (caller, id) in [(&ada, "j-ada"), (&bo, "j-bo")] {
            caller.start_index(IndexRequest::default()).await.unwrap();
            caller.corpus(CorpusRequest { verb: "INGEST".into(), request: ingest(id) }).await.unwrap();
        }
        keys::revoke(&config, "ada").unwrap();
        let state = async |caller: &Arc<dyn Service>| caller.job("job-1").await.unwrap().state;
        until("the index job is cancelled", async || state(&ada).await == JobState::Cancelled).await;
        let is_cancelled = |id: &str| fake.corpus_calls.lock().unwrap().contains(&job_request(id, true));
        until("the verb is cancelled", async || is_cancelled("j-ada")).await;
        assert!(state(&bo).await == JobState::Queued && !is_cancelled("j-bo"), "jobs of another key continue");
    }

    /// A fake service, and a key for one folder.
    struct TestKey {
        config: Config,
        _dir: tempfile::TempDir,
        fake: Arc<FakeService>,
        ring: Arc<Authenticator>,
        grant: Grant,
    }

    fn test_key() -> TestKey {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        keys::add(&config, "ada", &[dir.path().into()], Right::Index).unwrap();
        let grant = keys::list(&config).unwrap()[0].grant();
        let ring = Arc::new(Authenticator::new("own", config.keys_path()));
        TestKey { config, _dir: dir, fake: Arc::new(FakeService::new()), ring, grant }
    }

    #[tokio::test]
    async fn job_survives_key_restored_within_delay() {
        let TestKey { config, _dir, fake, ring, grant } = test_key();
        let table = std::fs::read(config.keys_path()).unwrap();
        let waits = tokio::spawn(KeyOwnedWork::Index("job-1".into()).cancel_on_revoke(
            ring.clone(),
            grant.clone(),
            fake.clone(),
        ));
        std::fs::write(config.keys_path(), "[]").unwrap();
        ring.revoked(&grant).await;
        tokio::time::sleep(CANCEL_DELAY / 3).await;
        std::fs::write(config.keys_path(), table).unwrap();
        tokio::time::sleep(2 * CANCEL_DELAY).await;
        assert!(!waits.is_finished() && fake.job.borrow().state == JobState::Queued);
        keys::revoke(&config, "ada").unwrap();
        tokio::time::timeout(TIMEOUT, waits).await.unwrap().unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Cancelled);
    }

    #[tokio::test]
    async fn revoked_key_cancels_index_jobs_of_ingest() {
        let TestKey { config, _dir, fake, ring, grant } = test_key();
        fake.start_index(IndexRequest::default()).await.unwrap();
        let waits =
            tokio::spawn(KeyOwnedWork::Ingest(CancellationToken::new()).cancel_on_revoke(ring, grant, fake.clone()));
        keys::revoke(&config, "ada").unwrap();
        tokio::time::timeout(TIMEOUT, waits).await.unwrap().unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Cancelled);
    }

    #[tokio::test]
    async fn finished_job_ends_its_watch() {
        let fake = Arc::new(FakeService::new());
        let with_owners = |begun: KeyOwnedWork| {
            let ring = Arc::new(Authenticator::new("own", "/no/such/table".into()));
            begun.cancel_on_revoke(ring, Grant::owner(), fake.clone())
        };
        let waits = tokio::spawn(with_owners(KeyOwnedWork::Index("job-1".into())));
        until("it is followed", async || fake.job.receiver_count() == 1).await;
        fake.job.send_modify(|it| it.state = JobState::Completed);
        tokio::time::timeout(TIMEOUT, waits).await.unwrap().unwrap();
        tokio::time::timeout(TIMEOUT, with_owners(KeyOwnedWork::Index("job-9".into()))).await.unwrap();
        let left = CancellationToken::new();
        left.cancel();
        tokio::time::timeout(TIMEOUT, with_owners(KeyOwnedWork::Ingest(left))).await.unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Completed);
    }

    #[test]
    fn job_id_is_read_from_accepted_reply() {
        let check = |text, accepted| accepted_job_id(&reply(text, accepted));
        assert_eq!(check(r#"{"data": {"job_id": "j-1"}}"#, true).as_deref(), Some("j-1"));
        assert_eq!(check("data:\n  job_id: j-1\n", true).as_deref(), Some("j-1"));
        assert_eq!(check(r#"{"data": {"job_id": "j-1"}}"#, false), None);
    }

    #[test]
    fn corpus_job_counts_as_running_on_query_error() {
        let state = |it: &str| Ok(reply(&json!({"data": {"state": it}}).to_string(), false));
        let refused = |code| Ok(CorpusReply { error_code: Some(code), ..reply("{}", false) });
        assert!(may_be_running(&state("running")) && !may_be_running(&state("completed")));
        assert!(may_be_running(&refused(ErrorCode::Internal)) && !may_be_running(&refused(ErrorCode::NotFound)));
        assert!(may_be_running(&Err(Error::new(ErrorCode::Unavailable, "the database is locked"))));
    }
}
