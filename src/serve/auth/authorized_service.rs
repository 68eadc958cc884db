//! The authenticated caller of a request, with the services that it may use.
//!
//! Request handlers reach a [`Service`] only through the [`AuthorizedService`] of the request, so that no route can omit
//! the authorization check. A new method of [`Service`] does not compile until it is implemented, and so authorized,
//! here.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::Assistant;
use crate::data_dir::keys::{Grant, Right};
use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusReply, CorpusRequest, Document, FileFilter, FileList,
    GraphRequest, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Principal,
    Root, Scope, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::serve::admission::Admission;
use crate::serve::auth::authenticator::Authenticator;
use crate::serve::auth::key_owned_work::{self, KeyOwnedWork};
use crate::serve::transport::certificate::Certificate;
use crate::serve::{Service, metrics_page, validate};

/// The authenticated caller of a request. Cheap to clone; stored in the extensions of the request.
#[derive(Clone)]
pub(crate) struct AuthorizedService {
    /// The services of the daemon, restricted to the scope of the caller.
    service: Arc<dyn Service>,
    desk: Arc<Admission>,
    grant: Grant,
}

impl AuthorizedService {
    /// Creates the caller with the scope and rights of a grant.
    pub(crate) fn new(service: &Arc<dyn Service>, desk: &Arc<Admission>, grant: Grant) -> AuthorizedService {
        let service = match grant.scope.is_all() {
            true => service.clone(),
            false => service.scoped(grant.scope.clone(), grant.holder.clone()),
        };
        AuthorizedService { service, desk: desk.clone(), grant }
    }

    /// Returns the scope of the caller.
    pub(crate) fn scope(&self) -> &Scope {
        &self.grant.scope
    }

    /// Returns the caller: the owner, or the holder of a key.
    pub(crate) fn holder(&self) -> Principal {
        self.grant.holder.clone()
    }

    /// Returns whether the caller has the owner's rights.
    pub(crate) fn is_owner(&self) -> bool {
        self.grant.right >= Right::Own
    }

    /// Returns a future that completes when the caller's key no longer grants this access; `None` for a caller without a
    /// revocable key.
    pub(crate) fn revoked(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (ring, grant) = (self.authenticator()?, self.grant.clone());
        Some(async move { ring.revoked(&grant).await })
    }

    /// Returns the authenticator of the caller's key; `None` if the key cannot be revoked.
    fn authenticator(&self) -> Option<Arc<Authenticator>> {
        self.desk.keys.clone().filter(|_| self.grant.holder != Principal::Owner)
    }

    /// Starts a task that cancels this background work when the caller's key is revoked.
    fn cancel_on_revoke(&self, begun: KeyOwnedWork) {
        if let Some(ring) = self.authenticator() {
            tokio::spawn(begun.cancel_on_revoke(ring, self.grant.clone(), self.service.clone()));
        }
    }

    /// Runs the verb INGEST. Its index job continues if the client disconnects.
    async fn ingest(&self, call: CorpusRequest) -> Result<CorpusReply> {
        let over = CancellationToken::new();
        let _when_nobody_waits = over.clone().drop_guard();
        self.cancel_on_revoke(KeyOwnedWork::Ingest(over));
        self.service.corpus(call).await
    }

    /// Returns the services; each method checks the caller's rights and waits for admission.
    pub(crate) fn service(&self) -> Arc<dyn Service> {
        Arc::new(self.clone())
    }

    /// Returns the metrics of the daemon in the text format of Prometheus.
    pub(crate) async fn metrics(&self) -> Result<String> {
        self.require(Right::Own)?;
        Ok(metrics_page::format_metrics(&self.unqueued_status().await?, self.service.tokens_embedded(), &self.desk))
    }

    /// Returns the status of the daemon without admission control, so that health checks work under load.
    pub(crate) async fn unqueued_status(&self) -> Result<Status> {
        self.status_with_certificate_check(Certificate::problem).await
    }

    /// Returns the status for callers without a key, who only see whether there is a problem. An expiry warning of the
    /// certificate does not count, because it concerns only the owner; a certificate that clients reject does.
    pub(crate) async fn public_status(&self) -> Result<Status> {
        self.status_with_certificate_check(Certificate::failure).await
    }

    async fn status_with_certificate_check(
        &self,
        of_certificate: fn(&Certificate) -> Option<String>,
    ) -> Result<Status> {
        self.require(Right::Read)?;
        let mut status = self.service.status().await?;
        // Adds the problems of keys and certificate, which only this module knows, and which concern the owner.
        if self.grant.scope.is_all() {
            status.degraded.extend(self.desk.keys.as_ref().and_then(|it| it.problem()));
            status.degraded.extend(self.desk.certificate.as_ref().and_then(|it| of_certificate(it)));
        }
        Ok(status)
    }

    /// Returns the services without checks, for the operations of this module's siblings.
    pub(super) fn inner(&self) -> &Arc<dyn Service> {
        &self.service
    }

    /// Returns the state shared by all callers.
    pub(super) fn desk(&self) -> &Arc<Admission> {
        &self.desk
    }

    /// Fails if the caller has not this right.
    pub(crate) fn require(&self, needed: Right) -> Result<()> {
        if self.grant.right >= needed {
            return Ok(());
        }
        let wanted = match needed {
            Right::Read | Right::Index => "this key may only read, not index",
            Right::Own => "only the owner's key may do this",
            Right::Local => "only programs of this user on this machine may do this",
        };
        Err(Error::new(ErrorCode::PermissionDenied, wanted).hint("`vic keys` lists the rights of each key"))
    }
}

#[async_trait::async_trait]
impl Service for AuthorizedService {
    fn scoped(&self, scope: Scope, holder: Principal) -> Arc<dyn Service> {
        let service = self.service.scoped(scope.clone(), holder.clone());
        let grant = Grant { scope, right: self.grant.right, holder };
        Arc::new(AuthorizedService { service, grant, desk: self.desk.clone() })
    }

    async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.require(Right::Read)?;
        self.desk.run_question(&self.grant.holder, self.service.ask(request)).await
    }

    async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        self.require(Right::Read)?;
        self.desk.run_question(&self.grant.holder, self.service.search(request)).await
    }

    async fn ask_stream(&self, request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        self.require(Right::Read)?;
        self.desk.run_streamed_question(&self.grant.holder, self.service.ask_stream(request)).await
    }

    async fn similar(&self, request: SimilarRequest) -> Result<AskResponse> {
        self.require(Right::Read)?;
        self.desk.run_question(&self.grant.holder, self.service.similar(request)).await
    }

    async fn grep(&self, request: GrepRequest) -> Result<GrepResponse> {
        self.require(Right::Read)?;
        self.desk.run_question(&self.grant.holder, self.service.grep(request)).await
    }

    async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        self.require(Right::Read)?;
        self.desk.run_read(&self.grant.holder, self.service.table(request)).await
    }

    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        // Requires the right to index for INGEST, because it reads folders into the index; all other verbs only read.
        let ingests = call.verb.trim().eq_ignore_ascii_case("ingest");
        self.require(if ingests { Right::Index } else { Right::Read })?;
        let reply = match ingests {
            true => self.ingest(call).await?,
            false => self.desk.run_read(&self.grant.holder, self.service.corpus(call)).await?,
        };
        // No `await` may come between starting the work and this call: work of a key revoked in between would continue.
        if let Some(id) = key_owned_work::accepted_job_id(&reply) {
            self.cancel_on_revoke(KeyOwnedWork::Verb(id));
        }
        Ok(reply)
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        self.require(Right::Own)?;
        self.desk.run_list(&self.grant.holder, self.service.audit(limit)).await
    }

    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot> {
        self.require(Right::Index)?;
        validate::index(&request)?;
        let job = self.service.start_index(request).await?;
        // No `await` may come between starting the job and this call: a job of a key revoked in between would continue.
        self.cancel_on_revoke(KeyOwnedWork::Index(job.job_id.clone()));
        Ok(job)
    }

    fn watch_job(&self, job_id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        self.require(Right::Read)?;
        self.service.watch_job(job_id)
    }

    async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        self.require(Right::Read)?;
        self.service.job(job_id).await
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        self.require(Right::Read)?;
        self.desk.run_list(&self.grant.holder, self.service.jobs(limit)).await
    }

    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot> {
        self.require(Right::Index)?;
        self.service.cancel_job(job_id).await
    }

    fn own_jobs(&self) -> Result<Vec<String>> {
        self.require(Right::Read)?;
        self.service.own_jobs()
    }

    async fn sync(&self, request: SyncRequest) -> Result<SyncReport> {
        // For a key with folders, requires the owner's right, because a sync waits for files of all roots and counts
        // them.
        self.require(if self.grant.scope.is_all() { Right::Read } else { Right::Own })?;
        self.service.sync(request).await
    }

    async fn pause(&self, request: PauseRequest) -> Result<PauseState> {
        self.require(Right::Own)?;
        self.service.pause(request).await
    }

    async fn resume(&self) -> Result<PauseState> {
        self.require(Right::Own)?;
        self.service.resume().await
    }

    async fn status(&self) -> Result<Status> {
        self.require(Right::Read)?;
        self.desk.run_list(&self.grant.holder, self.unqueued_status()).await
    }

    fn tokens_embedded(&self) -> u64 {
        self.service.tokens_embedded()
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        self.require(Right::Read)?;
        self.desk.run_list(&self.grant.holder, self.service.files(filter, limit, offset)).await
    }

    async fn read(&self, path: &str, place: &Place) -> Result<Document> {
        self.require(Right::Read)?;
        self.desk.run_read(&self.grant.holder, self.service.read(path, place)).await
    }

    async fn roots(&self) -> Result<Vec<Root>> {
        self.require(Right::Read)?;
        self.desk.run_list(&self.grant.holder, self.service.roots()).await
    }

    async fn add_root(&self, path: &str) -> Result<Root> {
        self.require(Right::Own)?;
        self.service.add_root(path).await
    }

    async fn remove_root(&self, path: &str) -> Result<()> {
        self.require(Right::Own)?;
        self.service.remove_root(path).await
    }

    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>> {
        self.require(Right::Read)?;
        self.desk.run_read(&self.grant.holder, self.service.embed(texts, query)).await
    }

    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value> {
        // Any key may call reading tools, e.g. in a tool loop of a model; only the owner may write.
        self.require(if request.writes() { Right::Own } else { Right::Read })?;
        self.desk.run_question(&self.grant.holder, self.service.graph(request)).await
    }

    fn assistant(&self) -> Result<Assistant> {
        self.require(Right::Read)?;
        Ok(self
            .service
            .assistant()?
            .with_holder(self.grant.holder.clone())
            .with_rights(self.is_owner(), self.grant.right >= Right::Local))
    }

    async fn shutdown(&self) -> Result<()> {
        self.require(Right::Own)?;
        self.service.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::serve::fake::FakeService;

    /// Returns the grant of a key for the folder `/w`.
    fn folder_grant(right: Right) -> Grant {
        Grant { scope: Scope::Folders(["/w".into()].into()), right, holder: Principal::Key("ada".into()) }
    }

    fn caller(right: Right) -> AuthorizedService {
        let service: Arc<dyn Service> = Arc::new(FakeService::new());
        let grant = if right == Right::Own { Grant::owner() } else { folder_grant(right) };
        AuthorizedService::new(&service, &Arc::new(Admission::new(2)), grant)
    }

    /// Returns which calls succeed with this right, in three lists: calls that read, calls that index, and calls that
    /// require the owner's right.
    async fn check(right: Right) -> [Vec<bool>; 3] {
        let it = caller(right);
        let denied = |error: Error| error.code == ErrorCode::PermissionDenied;
        let asking = vec![
            it.ask(AskRequest::default()).await.is_ok(),
            it.grep(GrepRequest::default()).await.is_ok(),
            it.table(TableRequest::default()).await.is_ok(),
            it.status().await.is_ok(),
            it.jobs(1).await.is_ok(),
            it.corpus(CorpusRequest { verb: "extract".into(), ..CorpusRequest::default() }).await.is_ok(),
        ];
        let ingest = CorpusRequest { verb: " Ingest".into(), ..CorpusRequest::default() };
        let indexing = vec![
            it.start_index(IndexRequest::default()).await.is_ok(),
            it.cancel_job("job-1").await.is_ok(),
            it.corpus(ingest).await.is_ok(),
        ];
        let owning = vec![
            it.audit(1).await.is_ok(),
            it.add_root("/x").await.is_ok(),
            it.remove_root("/w").await.is_ok(),
            it.metrics().await.is_ok(),
            !it.shutdown().await.is_err_and(denied),
        ];
        [asking, indexing, owning]
    }

    #[tokio::test]
    async fn each_right_allows_only_its_calls() {
        let told = |opens: [bool; 3]| [vec![opens[0]; 6], vec![opens[1]; 3], vec![opens[2]; 5]];
        assert_eq!(check(Right::Read).await, told([true, false, false]));
        assert_eq!(check(Right::Index).await, told([true, true, false]));
        assert_eq!(check(Right::Own).await, told([true, true, true]));
    }

    #[tokio::test]
    async fn excess_lists_are_rejected_and_state_is_not() {
        let service = FakeService { latency: Duration::from_secs(3_600), ..FakeService::new() };
        let service: Arc<dyn Service> = Arc::new(service);
        let it = AuthorizedService::new(&service, &Arc::new(Admission::new(1)), Grant::owner());
        let tasks: Vec<_> = (0..300)
            .map(|_| {
                let it = it.clone();
                tokio::spawn(async move { it.status().await })
            })
            .collect();
        // Yields often enough for all tasks to run, because the scheduler runs only a limited number of them at a time.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let refused = tasks.iter().filter(|it| it.is_finished()).count();
        assert_eq!((it.desk.lists.in_use(), it.desk.lists.waiting(), refused), (4, 256, 40));
        let busy = |error: Error| error.code == ErrorCode::ResourceExhausted;
        assert!(it.files(FileFilter::default(), 1, 0).await.is_err_and(busy));
        assert!(it.jobs(1).await.is_err_and(busy));
        assert!(it.roots().await.is_err_and(busy));
        assert!(it.audit(1).await.is_err_and(busy));
        // The unqueued status takes longer than 20 ms here, but is not rejected although all slots for lists are in use.
        assert!(tokio::time::timeout(Duration::from_millis(20), it.unqueued_status()).await.is_err());
        // Questions have a separate limit, so that lists do not use their slots.
        assert_eq!(it.desk.questions.in_use(), 0);
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn broken_key_table_is_reported_to_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("keys.json");
        let keys = Some(Arc::new(Authenticator::new("own", table.clone())));
        let service: Arc<dyn Service> = Arc::new(FakeService::new());
        let desk = Arc::new(Admission { keys, ..Admission::new(2) });
        let told = async |grant: Grant| {
            let status = AuthorizedService::new(&service, &desk, grant).service().status().await.unwrap();
            status.degraded.iter().filter(|it| it.contains("keys.json") && it.contains("fix it")).count()
        };
        assert_eq!(told(Grant::local()).await, 0, "a missing file is no problem");
        std::fs::write(&table, "[{").unwrap();
        assert_eq!(
            (told(Grant::local()).await, told(Grant::owner()).await, told(folder_grant(Right::Index)).await),
            (1, 1, 0)
        );
        std::fs::write(&table, "[]\n").unwrap();
        assert_eq!(told(Grant::local()).await, 0);
    }

    #[test]
    fn scoped_caller_uses_scoped_services() {
        let service = Arc::new(FakeService::new());
        let shared: Arc<dyn Service> = service.clone();
        let desk = Arc::new(Admission::new(1));
        let grant = folder_grant(Right::Read);
        AuthorizedService::new(&shared, &desk, Grant::owner());
        assert_eq!(*service.last_scope.lock().unwrap(), None);
        AuthorizedService::new(&shared, &desk, grant.clone());
        assert_eq!(*service.last_scope.lock().unwrap(), Some(grant.scope));
    }
}
