//! What a key has begun and nobody waits for: jobs of the index, also those of verbs, and verbs in jobs. They end with their
//! key as answers do, which `serve::http::revoked` sees to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{CorpusCall, CorpusReply};
use crate::serve::Service;
use crate::serve::ring::KeyRing;

/// How often it is looked whether a verb in a job has ended by itself.
const LOOK: Duration = Duration::from_secs(30);

/// So much later than its key a job ends: whoever follows it hears first that the key opens this no more, and not that
/// somebody ended the job.
///
/// Both look at the key by themselves, each half a second and later where the machine is busy.
const AFTER: Duration = Duration::from_secs(3);

/// What goes on.
#[derive(Debug)]
pub(super) enum Begun {
    /// A job of the index, by its id.
    Index(String),
    /// A job of the contract, by its id, with those of the index that it waits for.
    Verb(String),
    /// An INGEST that somebody waits for, until this says that nobody does; what it began in the index goes on.
    Ingest(CancellationToken),
}

/// The job that the contract goes on in, if it does.
pub(super) fn verb(reply: &CorpusReply) -> Option<String> {
    if !reply.accepted {
        return None;
    }
    let text = &reply.text;
    // That a job was begun is told as JSON, unless YAML was asked for.
    let told: Option<Value> = serde_json::from_str(text).ok().or_else(|| serde_yaml_ng::from_str(text).ok());
    Some(told?["data"]["job_id"].as_str()?.into())
}

impl Begun {
    /// Ends it once its key opens no more what it opened, unless it has ended before.
    pub(super) async fn end_with(self, ring: Arc<KeyRing>, grant: Grant, service: Arc<dyn Service>) {
        loop {
            tokio::select! {
                () = self.ended(&*service) => return,
                () = ring.revoked(&grant) => (),
            }
            tokio::time::sleep(AFTER).await;
            // Whoever changes the table by hand may take a key out and put it back; an answer can be asked for again, and
            // what a job has done in hours cannot.
            if !ring.may_open(&grant) {
                break;
            }
        }
        match self.cancel(&*service).await {
            Ok(()) => tracing::info!(job = ?self, "ended with the key that began it"),
            Err(error) => tracing::warn!(job = ?self, %error, "cannot be ended with the key that began it"),
        }
    }

    async fn ended(&self, service: &dyn Service) {
        match self {
            Begun::Index(id) => {
                // What is not followed any more has ended.
                if let Ok(mut job) = service.watch_job(id) {
                    job.wait_for(|it| it.state.is_final()).await.ok();
                }
            }
            Begun::Verb(id) => {
                while is_running(&service.corpus(about(id, false)).await) {
                    tokio::time::sleep(LOOK).await;
                }
                indexed(service).await;
            }
            Begun::Ingest(left) => {
                left.cancelled().await;
                indexed(service).await;
            }
        }
    }

    async fn cancel(&self, service: &dyn Service) -> Result<()> {
        let mut told = match self {
            Begun::Index(id) => return service.cancel_job(id).await.map(drop),
            // First: it begins no job of the index from then on.
            Begun::Verb(id) => cancel_verb(id, service).await,
            Begun::Ingest(_) => Ok(()),
        };
        // One that cannot be ended keeps none of the others.
        for id in service.own_jobs()? {
            told = told.and(service.cancel_job(&id).await.map(drop));
        }
        told
    }
}

async fn cancel_verb(id: &str, service: &dyn Service) -> Result<()> {
    match service.corpus(about(id, true)).await?.refused {
        Some(code) => Err(Error::new(code, format!("the job `{id}` was not ended"))),
        None => Ok(()),
    }
}

/// Returns when none of the holder's jobs of the index is left: which of them a verb began is told nowhere.
async fn indexed(service: &dyn Service) {
    while service.own_jobs().is_ok_and(|it| !it.is_empty()) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Asks the contract where a job stands, or for its end.
fn about(id: &str, cancel: bool) -> CorpusCall {
    let request = [("id".to_string(), Value::from(id)), ("cancel".to_string(), Value::from(cancel))];
    CorpusCall { verb: "JOB".into(), request: Map::from_iter(request) }
}

/// Whether a job may be at work, of which this was told. Where the book cannot be read for the moment nobody knows.
fn is_running(told: &Result<CorpusReply>) -> bool {
    let Ok(CorpusReply { text, refused, .. }) = told else { return true };
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
    use crate::serve::caller::Caller;
    use crate::serve::desk::Desk;
    use crate::serve::fake::FakeService;

    /// Longer than it takes, where the machine is busy with other tests.
    const GONE: Duration = Duration::from_secs(10);

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waits = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(GONE, waits).await.unwrap_or_else(|_| panic!("not within {GONE:?}: {what}"));
    }

    fn reply(text: &str, accepted: bool) -> CorpusReply {
        CorpusReply { media_type: String::new(), text: text.into(), refused: None, accepted }
    }

    #[tokio::test]
    async fn what_a_key_has_begun_ends_when_it_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = Some(Arc::new(KeyRing::new("own", config.keys_path())));
        let desk = Arc::new(Desk { keys: ring, ..Desk::new(2) });
        let fake = Arc::new(FakeService::new());
        let service: Arc<dyn Service> = fake.clone();
        let [ada, bo] = ["ada", "bo"].map(|name| {
            keys::add(&config, name, &[dir.path().into()], Right::Index).unwrap();
            let grant = keys::list(&config).unwrap().iter().find(|it| it.name == name).unwrap().grant();
            Caller::new(&service, &desk, grant).service()
        });
        let ingest = |id: &str| json!({"job_id": id}).as_object().unwrap().clone();
        for (caller, id) in [(&ada, "j-ada"), (&bo, "j-bo")] {
            caller.start_index(IndexRequest::default()).await.unwrap();
            caller.corpus(CorpusCall { verb: "INGEST".into(), request: ingest(id) }).await.unwrap();
        }
        keys::revoke(&config, "ada").unwrap();
        let state = async |caller: &Arc<dyn Service>| caller.job("job-1").await.unwrap().state;
        until("the index job is cancelled", async || state(&ada).await == JobState::Cancelled).await;
        let is_cancelled = |id: &str| fake.verbs.lock().unwrap().contains(&about(id, true));
        until("the verb is cancelled", async || is_cancelled("j-ada")).await;
        assert!(state(&bo).await == JobState::Queued && !is_cancelled("j-bo"), "another key's go on");
    }

    /// The fake service, with a key of its user for a folder, as the table and as the caller has it.
    struct Shown {
        config: Config,
        _dir: tempfile::TempDir,
        fake: Arc<FakeService>,
        ring: Arc<KeyRing>,
        grant: Grant,
    }

    fn shown() -> Shown {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        keys::add(&config, "ada", &[dir.path().into()], Right::Index).unwrap();
        let grant = keys::list(&config).unwrap()[0].grant();
        let ring = Arc::new(KeyRing::new("own", config.keys_path()));
        Shown { config, _dir: dir, fake: Arc::new(FakeService::new()), ring, grant }
    }

    #[tokio::test]
    async fn a_job_whose_key_is_put_back_a_moment_later_goes_on() {
        let Shown { config, _dir, fake, ring, grant } = shown();
        let table = std::fs::read(config.keys_path()).unwrap();
        let waits = tokio::spawn(Begun::Index("job-1".into()).end_with(ring.clone(), grant.clone(), fake.clone()));
        std::fs::write(config.keys_path(), "[]").unwrap();
        ring.revoked(&grant).await;
        tokio::time::sleep(AFTER / 3).await;
        std::fs::write(config.keys_path(), table).unwrap();
        tokio::time::sleep(2 * AFTER).await;
        assert!(!waits.is_finished() && fake.job.borrow().state == JobState::Queued);
        keys::revoke(&config, "ada").unwrap();
        tokio::time::timeout(GONE, waits).await.unwrap().unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Cancelled);
    }

    #[tokio::test]
    async fn an_ingest_that_somebody_waits_for_leaves_no_job_of_the_index_behind() {
        let Shown { config, _dir, fake, ring, grant } = shown();
        fake.start_index(IndexRequest::default()).await.unwrap();
        let waits = tokio::spawn(Begun::Ingest(CancellationToken::new()).end_with(ring, grant, fake.clone()));
        keys::revoke(&config, "ada").unwrap();
        tokio::time::timeout(GONE, waits).await.unwrap().unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Cancelled);
    }

    #[tokio::test]
    async fn nothing_waits_for_the_key_of_a_job_that_has_ended() {
        let fake = Arc::new(FakeService::new());
        let with_owners = |begun: Begun| {
            let ring = Arc::new(KeyRing::new("own", "/no/such/table".into()));
            begun.end_with(ring, Grant::owner(), fake.clone())
        };
        let waits = tokio::spawn(with_owners(Begun::Index("job-1".into())));
        until("it is followed", async || fake.job.receiver_count() == 1).await;
        fake.job.send_modify(|it| it.state = JobState::Completed);
        tokio::time::timeout(GONE, waits).await.unwrap().unwrap();
        tokio::time::timeout(GONE, with_owners(Begun::Index("job-9".into()))).await.unwrap();
        let left = CancellationToken::new();
        left.cancel();
        tokio::time::timeout(GONE, with_owners(Begun::Ingest(left))).await.unwrap();
        assert_eq!(fake.job.borrow().state, JobState::Completed);
    }

    #[test]
    fn a_verb_in_a_job_is_known_by_what_the_contract_says_of_it() {
        let check = |text, accepted| verb(&reply(text, accepted));
        assert_eq!(check(r#"{"data": {"job_id": "j-1"}}"#, true).as_deref(), Some("j-1"));
        assert_eq!(check("data:\n  job_id: j-1\n", true).as_deref(), Some("j-1"));
        assert_eq!(check(r#"{"data": {"job_id": "j-1"}}"#, false), None);
    }

    #[test]
    fn a_job_of_the_contract_has_ended_when_that_is_told_and_not_when_nothing_is() {
        let state = |it: &str| Ok(reply(&json!({"data": {"state": it}}).to_string(), false));
        let refused = |code| Ok(CorpusReply { refused: Some(code), ..reply("{}", false) });
        assert!(is_running(&state("running")) && !is_running(&state("completed")));
        assert!(is_running(&refused(ErrorCode::Internal)) && !is_running(&refused(ErrorCode::NotFound)));
        assert!(is_running(&Err(Error::new(ErrorCode::Unavailable, "the book is locked"))));
    }
}
