//! The services of a running daemon as plain Rust methods, which gRPC, HTTP and MCP adapt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::Assistant;
use crate::ask::Asker;
use crate::catalog::{AuditLog, Catalog};
use crate::corpus::CorpusApi;
use crate::daemon::archive_member::FileAndMember;
use crate::daemon::process::Memory;
use crate::daemon::ui_parts::SharedUiParts;
use crate::daemon::{archive_member, scoped_view};
use crate::egress::redact_hosts;
use crate::embed::Embedder;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::WorkerPool;
use crate::files::{OpenProblem, open_beneath};
use crate::graph::GraphService;
use crate::index::{self, Index};
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, ContentHash, CorpusReply, CorpusRequest, Document, FileFilter,
    FileList, GraphRequest, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, MAX_FILE_BYTES, MemoryCap,
    PauseRequest, PauseState, Place, Principal, PrivacyMode, Reason, Root, Scope, SimilarRequest, Status, SyncReport,
    SyncRequest, TableRequest, TableResponse, Upkeep, display_path, parse_path, resolve_in_roots, split_path_and_place,
};
use crate::serve::Service;
use crate::table;

/// Facts about the daemon that do not change while it runs.
#[derive(Clone, Debug)]
pub(crate) struct DaemonFacts {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) privacy: PrivacyMode,
    pub(crate) auth_enabled: bool,
    pub(crate) memory_caps: Vec<MemoryCap>,
    /// Warnings about the settings; shown only to the owner.
    pub(crate) warnings: Vec<String>,
}

/// A running daemon, restricted to the scope of one caller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Daemon {
    pub(crate) facts: DaemonFacts,
    /// The files that the caller may see; `asker`, `contract` and `graph` are restricted to the same scope.
    pub(crate) scope: Scope,
    /// The caller: the owner, or the holder of a key.
    pub(crate) holder: Principal,
    pub(crate) catalog: Catalog,
    pub(crate) index: Index,
    pub(crate) asker: Asker,
    pub(crate) contract: CorpusApi,
    pub(crate) graph: GraphService,
    pub(crate) assistant: Assistant,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) pool: Arc<WorkerPool>,
    pub(crate) audit: Arc<AuditLog>,
    /// What only the web page uses.
    pub(crate) ui: SharedUiParts,
    pub(crate) shutdown: CancellationToken,
    pub(crate) started: Instant,
}

#[async_trait::async_trait]
impl Service for Daemon {
    fn scoped(&self, scope: Scope, holder: Principal) -> Arc<dyn Service> {
        let (asker, graph) = (self.asker.with_scope(scope.clone()), self.graph.with_scope(scope.clone()));
        let contract = self.contract.scoped_to(scope.clone(), holder.clone());
        Arc::new(Daemon { asker, contract, graph, scope, holder, ..self.clone() })
    }

    async fn ask(&self, mut request: AskRequest) -> Result<AskResponse> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut())).await?;
        self.asker.ask(request).await
    }

    async fn search(&self, mut request: AskRequest) -> Result<AskResponse> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut())).await?;
        self.asker.search(request).await
    }

    async fn ask_stream(&self, mut request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut())).await?;
        Ok(self.asker.ask_stream(request))
    }

    async fn similar(&self, mut request: SimilarRequest) -> Result<AskResponse> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut().into_iter().chain([&mut request.path])))
            .await?;
        self.asker.similar(request).await
    }

    async fn grep(&self, mut request: GrepRequest) -> Result<GrepResponse> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut())).await?;
        self.asker.grep(request).await
    }

    async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        let document = self.read(&request.path, &Place::default()).await?;
        index::blocking(move || table::run_request(&table::tables_of_document(&document), &request)).await
    }

    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        self.contract.call(call).await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        let log = self.audit.clone();
        index::blocking(move || log.list(limit as usize)).await
    }

    async fn start_index(&self, mut request: IndexRequest) -> Result<JobSnapshot> {
        self.make_absolute(request.paths.iter_mut().collect()).await?;
        let request = scoped_view::restrict_request(&self.scope, request).await?;
        Ok(scoped_view::mask_job(&self.scope, self.index.start_job(request, &self.scope, &self.holder).await?))
    }

    fn watch_job(&self, job_id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        scoped_view::visible_job(&self.scope, self.index.job(job_id), job_id)?;
        Ok(scoped_view::masked_watch(&self.scope, self.index.watch_job(job_id)?))
    }

    async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        scoped_view::visible_job(&self.scope, self.index.job(job_id), job_id)
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        // Reads more jobs than requested for a restricted caller, because jobs outside the scope are removed before the
        // list is truncated.
        let most = if self.scope.is_all() { limit } else { scoped_view::MAX_JOBS };
        let mut jobs = scoped_view::visible_jobs(&self.scope, self.index.jobs(most)?);
        jobs.truncate(limit as usize);
        Ok(jobs)
    }

    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot> {
        scoped_view::visible_job(&self.scope, self.index.job(job_id), job_id)?;
        Ok(scoped_view::mask_job(&self.scope, self.index.cancel_job(job_id)?))
    }

    fn own_jobs(&self) -> Result<Vec<String>> {
        Ok(self.index.jobs_of(&self.holder))
    }

    async fn sync(&self, mut request: SyncRequest) -> Result<SyncReport> {
        self.make_absolute(Vec::from_iter(request.path.as_mut())).await?;
        self.index.sync(request).await
    }

    async fn pause(&self, request: PauseRequest) -> Result<PauseState> {
        Ok(PauseState { paused: self.index.pause(request).await? })
    }

    async fn resume(&self) -> Result<PauseState> {
        Ok(PauseState { paused: self.index.resume().await? })
    }

    async fn status(&self) -> Result<Status> {
        let memory = Memory::of_this_process();
        let (store, known) = tokio::join!(self.index.store_stats(), async {
            tokio::try_join!(self.index.coverage(&self.scope), self.index.chunks(&self.scope), self.roots())
        });
        let (coverage, chunks, roots) = known?;
        // An unreadable store does not fail the status, which serves for diagnosis: `degraded` reports the error instead.
        let unseen = store.as_ref().err().map(|it| format!("cannot read the index: {}", it.message_with_hint()));
        let store = store.unwrap_or_default();
        let mut degraded = Vec::new();
        let (mut languages, mut advice) = (BTreeMap::new(), Vec::new());
        if self.scope.is_all() {
            languages = self.index.languages().await;
            advice.extend(self.index.model_advice(&languages));
            degraded.extend(self.facts.warnings.iter().cloned());
            degraded.extend(self.index.degraded());
            degraded.extend(unseen);
            degraded.extend(store.warning.map(String::from));
            let told = store.upkeep_error.map(|error| format!("maintenance of the index failed: {error}"));
            // Omits the store's problem if the index has already reported the same problem with a hint.
            let is_new = |it: &String| !degraded.iter().any(|known: &String| known.starts_with(it));
            degraded.extend(told.filter(is_new).into_iter().collect::<Vec<_>>());
        }
        degraded.extend(roots.iter().filter(|it| !it.problem.is_empty()).map(root_problem));
        let status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            rss_mib: memory.rss_mib,
            peak_rss_mib: memory.peak_mib,
            data_dir: self.facts.data_dir.display().to_string(),
            listen: self.facts.listen.to_string(),
            privacy_mode: self.facts.privacy,
            embed_model: self.embedder.name().into(),
            dimension: self.embedder.dimension() as u32,
            // `index_ready` refers to the files in the caller's scope. Indexed files also count, because a file being
            // replaced has no chunks for a moment.
            index_ready: chunks > 0 || coverage.indexed > 0,
            chunks,
            store_bytes: store.bytes,
            paused: self.index.paused(),
            watch: self.index.watch_report(&roots),
            memory_caps: self.facts.memory_caps.clone(),
            roots,
            coverage,
            running_jobs: scoped_view::visible_jobs(&self.scope, self.index.running_jobs()),
            degraded,
            languages,
            advice,
            auth_enabled: self.facts.auth_enabled,
            upkeep: Upkeep {
                store: store.backend,
                now: store.upkeep_now.unwrap_or_default().into(),
                versions: store.versions,
                fragments: store.fragments,
                unindexed_chunks: store.unindexed_rows,
                unread_pictures: self.index.unread_pictures(),
                disk_free_bytes: self.index.free_bytes(),
            },
        };
        Ok(scoped_view::restrict_status(&self.scope, status))
    }

    fn tokens_embedded(&self) -> u64 {
        self.index.tokens_embedded()
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        let mut filter = FileFilter { scope: self.scope.clone(), ..filter };
        if let Some(under) = filter.under.as_mut().filter(|it| !it.is_absolute()) {
            *under = self.find_below_root(under).await?;
        }
        let exact = self.search_catalog(filter.clone(), limit, offset).await?;
        if exact.total > 0 || filter.name_words.is_empty() {
            return Ok(exact);
        }
        let corrected = self.asker.correct_name_words(&filter).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for typing errors in the words of a file name");
            None
        });
        let Some((filter, warnings)) = corrected else { return Ok(exact) };
        let found = self.search_catalog(filter, limit, offset).await?;
        Ok(if found.total > 0 { FileList { warnings, ..found } } else { exact })
    }

    async fn read(&self, path: &str, place: &Place) -> Result<Document> {
        let (path, member, said) = self.resolve_name(path).await?;
        let path = path.as_path();
        let place = Place { member, ..Place::default() }.or(place.clone()).or(said);
        let (file, hash) = self.open_indexed(path).await?;
        let raw = if place.lines.is_some() { raw_text(&file).await } else { None };
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let document = self.pool.extract(file, &name).await.map_err(|failure| {
            let detail = if failure.detail.is_empty() { String::new() } else { format!(": {}", failure.detail) };
            unreadable_error(path, failure.reason, &detail)
        })?;
        let document = self.index.with_known_pictures(hash, document).await?;
        let (asker, name) = (self.asker.clone(), display_path(path).to_string());
        index::blocking(move || asker.cut_part(document, &place, raw.as_deref(), &name)).await
    }

    async fn roots(&self) -> Result<Vec<Root>> {
        Ok(self.scope.roots(self.index.roots().await?))
    }

    async fn add_root(&self, path: &str) -> Result<Root> {
        self.index.add_root(&parse_path(path)).await
    }

    async fn remove_root(&self, path: &str) -> Result<()> {
        self.index.remove_root(&parse_path(path)).await
    }

    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>> {
        let embedded = async {
            if !query {
                return self.embedder.embed_documents(&texts).await;
            }
            let mut vectors = Vec::with_capacity(texts.len());
            for text in &texts {
                vectors.push(self.embedder.embed_query(text).await?);
            }
            Ok(vectors)
        }
        .await;
        embedded.map_err(|error| if self.scope.is_all() { error } else { redact_hosts::hide_in_error(error) })
    }

    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value> {
        self.graph.request(request).await
    }

    fn assistant(&self) -> Result<Assistant> {
        Ok(self.assistant.with_scope(self.scope.clone()))
    }

    async fn shutdown(&self) -> Result<()> {
        self.shutdown.cancel();
        Ok(())
    }
}

impl Daemon {
    /// Resolves a path from a read request that may end with a location (`lease.pdf, page 3`). Returns the first
    /// interpretation that is a known file: its path, archive member, and location.
    pub(super) async fn resolve_name(&self, name: &str) -> Result<(PathBuf, Option<String>, Place)> {
        for (text, place) in split_path_and_place(name) {
            if let Some((path, member)) = self.find_known(&parse_path(text)).await? {
                return Ok((path, member, place));
            }
        }
        let path = parse_path(name);
        if !path.is_absolute() {
            return Err(not_below_root_error(name));
        }
        if let Some(error) = self.explain_left_out(&path).await? {
            return Err(error);
        }
        let (path, member) = archive_member::default_candidate(&path);
        Ok((path, member, Place::default()))
    }

    /// Returns the known file at a path, and the archive member in it; a relative path is looked up below each root.
    async fn find_known(&self, path: &Path) -> Result<Option<FileAndMember>> {
        if path.is_absolute() {
            return Ok(self.first_known_candidate(path).await);
        }
        let (roots, mut found) = (self.index.walked_roots().await?, HashMap::new());
        for root in &roots {
            let whole = root.path.join(path);
            if let Some(named) = self.first_known_candidate(&whole).await {
                found.insert(whole, named);
            }
        }
        let whole = resolve_in_roots(&roots, path, |it| found.contains_key(it))?;
        Ok(whole.and_then(|it| found.remove(&it)))
    }

    async fn first_known_candidate(&self, name: &Path) -> Option<FileAndMember> {
        for (path, member) in archive_member::candidates(name) {
            let (catalog, scope, named) = (self.catalog.clone(), self.scope.clone(), path.clone());
            let locate = move || index::find_record(&catalog, &scope, &named).map(drop);
            if index::blocking_at_path(&path, &self.scope, locate).await.is_ok() {
                return Some((path, member));
            }
        }
        None
    }

    /// Makes relative paths absolute. Search hits print paths relative to a root, so each path is looked up below the
    /// roots; it must lead to a known file or folder.
    pub(super) async fn make_absolute(&self, names: Vec<&mut String>) -> Result<()> {
        for name in names {
            let path = parse_path(name);
            if !path.is_absolute() {
                *name = display_path(&self.find_below_root(&path).await?).into_owned();
            }
        }
        Ok(())
    }

    /// Returns one page of the files that match a filter exactly.
    async fn search_catalog(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        let (catalog, offset) = (self.catalog.clone(), usize::try_from(offset).unwrap_or(usize::MAX));
        let (files, total) = index::blocking(move || catalog.search(&filter, limit as usize, offset)).await?;
        Ok(FileList { files, total, warnings: Vec::new() })
    }

    async fn find_below_root(&self, path: &Path) -> Result<PathBuf> {
        let (roots, mut found) = (self.index.walked_roots().await?, HashSet::new());
        for root in &roots {
            let whole = root.path.join(path);
            let resolved = index::resolve(&whole).await.ok().filter(|it| self.scope.covers(it));
            let is_there = resolved.is_some() || self.first_known_candidate(&whole).await.is_some();
            found.extend(is_there.then_some(whole));
        }
        resolve_in_roots(&roots, path, |it| found.contains(it))?
            .ok_or_else(|| not_below_root_error(&display_path(path)))
    }

    /// Opens a file for reading and returns its content hash. Fails if the file is not below a root, or is a secret file.
    pub(super) async fn open_indexed(&self, path: &Path) -> Result<(File, ContentHash)> {
        let (catalog, scope, named) = (self.catalog.clone(), self.scope.clone(), path);
        let path = named.to_path_buf();
        index::blocking_at_path(named, &self.scope, move || {
            let record = index::find_record(&catalog, &scope, &path)?;
            if record.reason == Some(Reason::Secret) {
                return Err(Error::new(
                    ErrorCode::PermissionDenied,
                    format!("`{}` is a known secret file and is never read", path.display()),
                ));
            }
            let file = open_beneath(&record.root, &record.found.path).map_err(|problem| match problem {
                OpenProblem::Gone => Error::not_found(format!("`{}` is gone", path.display())),
                OpenProblem::Bad(failure) => {
                    let why = if failure.detail.is_empty() { failure.reason.name() } else { &failure.detail };
                    Error::new(ErrorCode::PermissionDenied, format!("cannot open `{}`: {why}", path.display()))
                }
            })?;
            let hash = index::content_hash(&record, &file).map_err(|error| match error.kind() {
                ErrorKind::FileTooLarge => {
                    unreadable_error(&path, Reason::TooLarge, &format!(": more than {} MiB", MAX_FILE_BYTES >> 20))
                }
                _ => Error::io("read", &path, &error),
            })?;
            Ok((file, hash))
        })
        .await
    }
}

/// A text file larger than this is not read whole; a request for lines then gets the lines of the extracted text.
const MAX_RAW_BYTES: u64 = 16 << 20;

/// Returns the content of a file of at most [`MAX_RAW_BYTES`] if it is UTF-8 text.
async fn raw_text(file: &File) -> Option<String> {
    let file = file.try_clone().ok()?;
    let read = move || {
        let length = file.metadata().ok().map(|it| it.len()).filter(|it| *it <= MAX_RAW_BYTES)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, 0).ok()?;
        String::from_utf8(bytes).ok()
    };
    index::blocking(move || Ok(read())).await.ok()?
}

fn not_below_root_error(name: &str) -> Error {
    Error::not_found(format!("no root contains `{name}`"))
        .hint("`vic files` lists the files; use an absolute path for other files")
}

/// Returns the problem of a root, prefixed with its path if the problem does not contain it.
fn root_problem(root: &Root) -> String {
    let path = display_path(&root.path);
    if root.problem.contains(&*path) { root.problem.clone() } else { format!("`{path}`: {}", root.problem) }
}

fn unreadable_error(path: &Path, reason: Reason, detail: &str) -> Error {
    let text = format!("cannot read `{}`: {}{detail}", path.display(), reason.name());
    Error::new(ErrorCode::FailedPrecondition, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_problem_names_path_once() {
        let root = |problem: &str| Root { id: 1, path: "/w".into(), available: false, problem: problem.into() };
        assert_eq!(root_problem(&root("the folder is empty now")), "`/w`: the folder is empty now");
        assert_eq!(root_problem(&root("`/w` does not answer")), "`/w` does not answer");
    }
}
