//! The work of one INGEST: which paths it indexes, which pages it fetches, and which index jobs it starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::SessionFile;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::limits::check_limit;
use crate::corpus::text::words::truncate_to_line;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::egress::{self, Purpose};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::files::unresponsive;
use crate::index::{blocking, resolve};
use crate::model::{FileRecord, FileState, IndexRequest, JobSnapshot, PrivacyMode, Scope};

/// Maximum sessions per owner; each session has a row for every file.
const MAX_SESSIONS: usize = 1_000;

/// Maximum size of a web page in bytes.
const MAX_PAGE_BYTES: usize = 20 << 20;

/// Time limit for fetching one web page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// An INGEST that has started: the pages that it fetched and the index jobs that it started.
pub(crate) struct RunningIngest {
    pub(super) run: IngestRun,
    pub(super) jobs: Vec<JobSnapshot>,
}

/// The input of one INGEST.
pub(super) struct IngestRun {
    /// Files and folders to index.
    pub(super) paths: Vec<String>,
    /// Whether to index the folder of fetched pages too.
    pub(super) pages: bool,
    /// Paths that the session records as ingested.
    pub(super) session_paths: Vec<String>,
    /// Whether texts are not read (mode `minimal`).
    pub(super) minimal: bool,
    /// The session whose failures this INGEST retries.
    pub(super) retried: Option<Arc<SessionSnapshot>>,
    /// Addresses of pages that could not be fetched, each with the reason.
    pub(super) unfetched: Vec<(String, String)>,
}

impl CorpusApi {
    pub(super) async fn start_run(&self, request: &ValidRequest) -> ApiResult<RunningIngest> {
        let run = self.prepare_run(request).await?;
        let jobs = self.start_index_jobs(&run).await?;
        Ok(RunningIngest { run, jobs })
    }

    pub(super) fn check_may_fetch(&self, request: &ValidRequest) -> ApiResult<()> {
        if !request.has("urls") {
            return Ok(());
        }
        if !self.scope.is_all() {
            return Err(ApiError::new(ApiErrorKind::Forbidden, "only the owner may fetch pages").field("urls"));
        }
        let privacy = self.reader.parts.privacy;
        if privacy == PrivacyMode::LocalOnly {
            for url in request.texts("urls") {
                // Check the privacy mode; a denied request is recorded in the log of outbound requests.
                egress::check_allowed(url, privacy, Purpose::Page)?;
            }
            return Err(ApiError::new(ApiErrorKind::Forbidden, "no pages are fetched in privacy mode `local_only`")
                .field("urls")
                .action("save the pages and INGEST the files")
                .action("or the owner sets VIC_PRIVACY_MODE=cloud_reasoning_ok"));
        }
        Ok(())
    }

    /// Checks the paths or the session of an INGEST before a job starts. Fetches no page.
    pub(super) async fn check_sources(&self, request: &ValidRequest) -> ApiResult<()> {
        match request.whole("session") {
            Some(session) => self.session_snapshot(session).await.map(drop),
            None => self.resolve_paths(request).await.map(drop),
        }
    }

    /// Resolves the paths of an INGEST. A path outside the caller's scope does not exist for the caller.
    async fn resolve_paths(&self, request: &ValidRequest) -> ApiResult<Vec<String>> {
        let mut paths = Vec::new();
        for path in request.texts("paths") {
            // Reject a relative path, because it would be resolved in the daemon's working directory.
            let found = match Path::new(path) {
                given if given.is_absolute() => resolve(given).await.ok(),
                _ => None,
            };
            let found = found.filter(|it| self.scope.covers(it));
            let found = found.and_then(|it| it.into_os_string().into_string().ok());
            let found = found.ok_or_else(|| {
                ApiError::new(
                    ApiErrorKind::UnknownFile,
                    format!("there is no file or folder `{}`", truncate_to_line(path, 80)),
                )
                .field("paths")
                .action("give the absolute path of an existing file or folder")
            })?;
            if !paths.contains(&found) {
                paths.push(found);
            }
        }
        Ok(paths)
    }

    async fn prepare_run(&self, request: &ValidRequest) -> ApiResult<IngestRun> {
        let minimal = request.text("mode") == Some("minimal");
        if let Some(session) = request.whole("session") {
            return self.prepare_retry(self.session_snapshot(session).await?).await;
        }
        let kept = self.sessions().await?.len();
        check_limit("sessions", kept, MAX_SESSIONS, "delete one with `view delete` and its `session`")?;
        if request.has("urls") {
            let mut urls = request.texts("urls");
            let mut seen = BTreeSet::new();
            urls.retain(|it| seen.insert(*it));
            let (places, unfetched) = self.fetch_all(&urls).await?;
            return Ok(IngestRun {
                paths: Vec::new(),
                pages: !places.is_empty(),
                session_paths: places,
                minimal,
                retried: None,
                unfetched,
            });
        }
        let paths = self.resolve_paths(request).await?;
        Ok(IngestRun {
            session_paths: paths.clone(),
            paths,
            pages: false,
            minimal,
            retried: None,
            unfetched: Vec::new(),
        })
    }

    /// Prepares a retry of the failures of a session: files that exist now, and pages that were not fetched.
    async fn prepare_retry(&self, past: Arc<SessionSnapshot>) -> ApiResult<IngestRun> {
        let (pages, failed): (Vec<&SessionFile>, Vec<_>) = failures(&past).partition(|it| it.file < 0);
        let (reader, numbers) = (self.reader.clone(), failed.iter().map(|it| it.file).collect::<Vec<_>>());
        let records = blocking(move || reader.parts.catalog.records(&numbers)).await?;
        let now = records.iter().map(FileRecord::absolute);
        let then = failed.iter().filter(|it| !it.root.is_empty()).map(|it| Path::new(&it.root).join(&it.path));
        let candidates: Vec<PathBuf> = now.chain(then).collect();
        let scope = self.scope.clone();
        let there = blocking(move || {
            Ok(candidates.into_iter().filter(|it| exists_in_scope(it, &scope)).collect::<BTreeSet<PathBuf>>())
        })
        .await?;
        let paths = there.into_iter().filter_map(|it| it.into_os_string().into_string().ok()).collect::<Vec<_>>();
        let pages: Vec<&str> = pages.into_iter().map(|it| it.path.as_str()).collect();
        let (fetched, unfetched) = self.fetch_all(&pages).await?;
        let (minimal, places) = (past.metadata_only, [paths.clone(), fetched.clone()].concat());
        Ok(IngestRun {
            paths,
            pages: !fetched.is_empty(),
            session_paths: places,
            minimal,
            retried: Some(past),
            unfetched,
        })
    }

    /// Starts the index jobs. All fetched pages share one folder; its job does not set `full` (read unchanged files again),
    /// so that old pages are not read again.
    async fn start_index_jobs(&self, run: &IngestRun) -> ApiResult<Vec<JobSnapshot>> {
        let request = |paths: Vec<String>, full: bool| IndexRequest {
            paths,
            full: full && !run.minimal,
            metadata_only: run.minimal,
            ..IndexRequest::default()
        };
        let mut jobs = Vec::new();
        if !run.paths.is_empty() {
            let request = request(run.paths.clone(), run.retried.is_some());
            jobs.push(self.reader.parts.index.start_job(request, &self.scope, &self.holder).await?);
        }
        if run.pages {
            let request = request(vec![self.pages_folder()], false);
            jobs.push(self.reader.parts.index.start_job(request, &self.scope, &self.holder).await?);
        }
        Ok(jobs)
    }

    /// The folder of fetched pages, the only folder of the data directory that may be indexed.
    pub(super) fn pages_folder(&self) -> String {
        self.reader.parts.pages.to_string_lossy().into_owned()
    }

    /// Fetches pages; returns the paths of their files, and the addresses that failed with the reason.
    async fn fetch_all(&self, urls: &[&str]) -> ApiResult<(Vec<String>, Vec<(String, String)>)> {
        let folder = &self.reader.parts.pages;
        std::fs::create_dir_all(folder).io_context("create", folder)?;
        let (mut fetched, mut failed) = (Vec::new(), Vec::new());
        for url in urls {
            match fetch_page(url, self.reader.parts.privacy, folder).await {
                Ok(path) => fetched.push(path.to_string_lossy().into_owned()),
                Err(error) => failed.push((url.to_string(), error.message)),
            }
        }
        Ok((fetched, failed))
    }
}

/// Returns whether a failed file exists at its path. Returns false for a path that is now a symbolic link, which may lead
/// elsewhere, or that is outside the caller's scope.
fn exists_in_scope(path: &Path, scope: &Scope) -> bool {
    let is_plain = || path.symlink_metadata().is_ok_and(|it| !it.is_symlink());
    !unresponsive::is_unresponsive(path) && is_plain() && path.canonicalize().is_ok_and(|it| scope.covers(&it))
}

/// Returns the failures of a session, without files that were skipped on purpose.
pub(super) fn failures(past: &SessionSnapshot) -> impl Iterator<Item = &SessionFile> {
    past.files.iter().filter(|it| !it.problem.is_empty() && it.state != FileState::Skipped)
}

/// Fetches one web page into a file; the same address always gives the same file name.
async fn fetch_page(url: &str, privacy: PrivacyMode, folder: &Path) -> Result<PathBuf> {
    let outbound = egress::open_client(url, privacy, Purpose::Page, None).await?;
    let response =
        outbound.send(outbound.get(url).timeout(PAGE_TIMEOUT)).await.map_err(|error| error.into_error(url))?;
    if !response.status().is_success() {
        return Err(Error::new(ErrorCode::Unavailable, format!("the server answered {}", response.status())));
    }
    let kind =
        response.headers().get("content-type").and_then(|it| it.to_str().ok()).unwrap_or_default().to_lowercase();
    let extension = match kind.split(';').next().unwrap_or_default().trim() {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "application/json" => "json",
        _ => "html",
    };
    let mut bytes = Vec::new();
    let mut response = response;
    while let Some(chunk) =
        response.chunk().await.map_err(|error| Error::new(ErrorCode::Unavailable, egress::innermost_cause(&error)))?
    {
        if bytes.len() + chunk.len() > MAX_PAGE_BYTES {
            return Err(Error::new(ErrorCode::ResourceExhausted, "the page is larger than 20 MiB"));
        }
        bytes.extend_from_slice(&chunk);
    }
    let path = folder.join(format!("{}.{extension}", &blake3::hash(url.as_bytes()).to_hex()[..24]));
    blocking(move || std::fs::write(&path, bytes).io_context("write", &path).map(|()| path)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_of_failed_file_does_not_follow_links() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().canonicalize().unwrap();
        for folder in ["own", "theirs"] {
            std::fs::create_dir(here.join(folder)).unwrap();
            std::fs::write(here.join(folder).join("a.pdf"), "x").unwrap();
        }
        std::os::unix::fs::symlink(here.join("theirs"), here.join("own/link")).unwrap();
        let own = Scope::Folders([here.join("own")].into());
        for (path, of_own, of_all) in [
            ("own/a.pdf", true, true),
            ("own/gone.pdf", false, false),
            ("own/link", false, false),
            ("own/link/a.pdf", false, true),
            ("theirs/a.pdf", false, true),
        ] {
            let path = here.join(path);
            assert_eq!(
                (exists_in_scope(&path, &own), exists_in_scope(&path, &Scope::All)),
                (of_own, of_all),
                "{}",
                path.display()
            );
        }
    }
}
