//! The verb INGEST: indexes folders, files and web pages, and records them in a session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::document::loader;
use crate::corpus::limits::MAX_SYNC_DOCUMENTS;
use crate::corpus::outcome::VerbOutcome;
use crate::corpus::results::hash_result_id;
use crate::corpus::verbs::ingest_run::{IngestRun, RunningIngest, failures};
use crate::corpus::views::sessions::remove_if_there;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::error::{Error, ErrorCode, IoContext};
use crate::index::blocking;
use crate::model::{FileFilter, FileId, FileRecord, FileState, JobSnapshot, JobState};

/// Maximum failures listed in an answer; the failures file lists all of them.
const MAX_NAMED_FAILURES: usize = 20;

impl CorpusApi {
    /// Runs INGEST, or continues it as a job if it takes longer than the caller may wait.
    pub(crate) async fn ingest(&self, request: &ValidRequest, patient: bool) -> ApiResult<VerbOutcome> {
        self.check_may_fetch(request)?;
        if patient {
            self.check_sources(request).await?;
            return Ok(VerbOutcome::NeedsJob(0));
        }
        let going = self.start_run(request).await?;
        for job in &going.jobs {
            if self.wait_for_index_job(job, Some(MAX_SYNC_DOCUMENTS as u64)).await?.is_none() {
                return Ok(VerbOutcome::IngestStarted(Box::new(going)));
            }
        }
        self.finish_run(request, going.run).await
    }

    /// Runs INGEST in a job. Continues a run that was started while the caller waited, so that no page is fetched twice.
    pub(crate) async fn ingest_in_job(
        &self,
        request: &ValidRequest,
        going: Option<RunningIngest>,
    ) -> ApiResult<VerbOutcome> {
        let going = match going {
            Some(going) => going,
            None => self.start_run(request).await?,
        };
        for job in &going.jobs {
            self.wait_for_index_job(job, None).await?;
        }
        self.finish_run(request, going.run).await
    }

    /// Waits for an index job; returns `None` as soon as the job finds more than `most` files.
    async fn wait_for_index_job(&self, job: &JobSnapshot, most: Option<u64>) -> ApiResult<Option<()>> {
        let mut watched = self.reader.parts.index.watch_job(&job.job_id)?;
        loop {
            let now = watched.borrow_and_update().clone();
            if now.state.is_final() {
                return self.index_job_outcome(now).map(Some);
            }
            if most.is_some_and(|it| now.files_found > it) {
                return Ok(None);
            }
            if watched.changed().await.is_err() {
                return Ok(Some(()));
            }
        }
    }

    fn index_job_outcome(&self, job: JobSnapshot) -> ApiResult<()> {
        // Show the reason only to callers who may see all files: it may name files of other callers.
        let why = job.error.filter(|_| self.scope.is_all());
        let told = why.unwrap_or_else(|| "the index job ended before all files were indexed".into());
        let refusal = ApiError::new(ApiErrorKind::Unavailable, told).action("try again");
        match job.state {
            JobState::Completed => Ok(()),
            JobState::Cancelled => Err(ApiError { code: ErrorCode::Cancelled, ..refusal }),
            JobState::Queued | JobState::Running | JobState::Failed => Err(refusal),
        }
    }

    async fn finish_run(&self, request: &ValidRequest, run: IngestRun) -> ApiResult<VerbOutcome> {
        let records = self.records_below(&run.session_paths).await?;
        let mut files: Vec<SessionFile> = records.iter().map(SessionFile::new).collect();
        if run.minimal {
            // Do not report pending files as failures: mode `minimal` does not read their text.
            files.iter_mut().filter(|it| it.state == FileState::Pending).for_each(|it| it.problem.clear());
        } else {
            self.store_texts(&mut files).await?;
        }
        let pages = run.unfetched.iter().map(|(url, problem)| (url.clone(), problem.clone()));
        let (session, files) = match &run.retried {
            None => {
                files.extend((1..).zip(pages).map(|(at, (url, problem))| SessionFile::failed_page(-at, url, problem)));
                (self.add_session(&run, files.clone()).await?, files)
            }
            Some(past) => self.amend_session(past, files, pages.collect()).await?,
        };
        self.build_answer(request, session, &run, &files).await
    }

    /// Parses the files of a session, so that their documents stay stored as long as the session.
    async fn store_texts(&self, files: &mut [SessionFile]) -> ApiResult<()> {
        for some in files.chunks_mut(MAX_SYNC_DOCUMENTS) {
            let ids: Vec<FileId> = some.iter().filter(|it| it.problem.is_empty()).map(|it| it.file).collect();
            self.parse_all(&ids).await?;
            let reader = self.reader.clone();
            let keys = some.iter().map(|it| Some(loader::document_key(it.hash?, &it.extension))).collect::<Vec<_>>();
            let found = blocking(move || {
                let held: Vec<String> = keys.iter().flatten().cloned().collect();
                reader.parts.book.hold_documents(&held)?;
                let kept = |key: String| reader.cached(&key).map(|it| (key, it));
                Ok(keys.into_iter().map(|it| it.and_then(kept)).collect::<Vec<_>>())
            });
            for (file, kept) in some.iter_mut().zip(found.await?) {
                let Some((key, reading)) = kept.filter(|_| file.problem.is_empty()) else { continue };
                file.facts = serde_json::to_string(&reading.facts).ok();
                file.document_key = Some(key);
            }
        }
        Ok(())
    }

    async fn add_session(&self, run: &IngestRun, files: Vec<SessionFile>) -> ApiResult<i64> {
        let mode = if run.minimal { "minimal" } else { "full" };
        let body = json!({"paths": run.session_paths, "mode": mode}).to_string();
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        Ok(blocking(move || reader.parts.book.add_session(&owner, &body, &files)).await?)
    }

    /// Replaces the failed files of a session by the result of the retry; all other rows stay.
    async fn amend_session(
        &self,
        past: &SessionSnapshot,
        read: Vec<SessionFile>,
        unfetched: Vec<(String, String)>,
    ) -> ApiResult<(i64, Vec<SessionFile>)> {
        let failed: Vec<&SessionFile> = failures(past).collect();
        let tried = |it: &&SessionFile| failed.iter().any(|old| old.file == it.file || is_same_path(old, it));
        let read: Vec<SessionFile> =
            read.iter().filter(|it| tried(it) || is_page(it, &self.pages_folder())).cloned().collect();
        let fetched = |it: &SessionFile| it.file < 0 && !unfetched.iter().any(|page| page.0 == it.path);
        let replaced = |it: &SessionFile| read.iter().any(|new| new.file == it.file || is_same_path(it, new));
        let gone: Vec<FileId> = failed.iter().filter(|it| fetched(it) || replaced(it)).map(|it| it.file).collect();
        let (reader, owner, session) = (self.reader.clone(), self.storage_owner(), past.session);
        let amended = blocking(move || {
            reader.parts.book.amend_session(&owner, session, &gone, &read)?;
            reader.forget_snapshot(&owner, session);
            Ok(())
        });
        amended.await?;
        // Report a session that was deleted in the meantime as an error of this call.
        Ok((session, self.session_snapshot(session).await?.files.clone()))
    }

    async fn records_below(&self, places: &[String]) -> ApiResult<Vec<FileRecord>> {
        let (reader, scope, places) = (self.reader.clone(), self.scope.clone(), places.to_vec());
        let found = blocking(move || {
            let mut records: Vec<FileRecord> = Vec::new();
            for place in places {
                let filter =
                    FileFilter { under: Some(PathBuf::from(place)), scope: scope.clone(), ..FileFilter::default() };
                records.extend(reader.parts.catalog.all_records(&filter)?);
            }
            records.sort_by_key(|it| it.id);
            records.dedup_by_key(|it| it.id);
            Ok(records)
        });
        Ok(found.await?)
    }

    async fn build_answer(
        &self,
        request: &ValidRequest,
        session: i64,
        run: &IngestRun,
        files: &[SessionFile],
    ) -> ApiResult<VerbOutcome> {
        let failures: Vec<&SessionFile> = files.iter().filter(|it| !it.problem.is_empty()).collect();
        let written = self.write_failures(session, &failures).await?;
        let mut answer = Answer::new("indexed in place, deduplicated by content");
        answer.parameter("mode", if run.minimal { "minimal" } else { "full" });
        if !failures.is_empty() {
            let files: Vec<FileId> = failures.iter().map(|it| it.file).filter(|it| *it >= 0).collect();
            let detail =
                if written.is_some() { "listed in the failures file" } else { "only the first of them are listed" };
            answer.push_unknown(Unknown::new("unreadable_document", failures.len()).files(&files).detail(detail));
        }
        let unread = files.iter().filter(|it| it.problem.is_empty() && it.state == FileState::Pending).count();
        if unread > 0 {
            let detail = "mode minimal reads no texts; INGEST with mode full reads them";
            answer.push_unknown(Unknown::new("metadata_only", unread).detail(detail));
        }
        let hashed = files.iter().filter(|it| it.hash.is_some()).count();
        let contents: BTreeSet<_> = files.iter().filter_map(|it| it.hash).collect();
        let indexed = files.len() - failures.len() - unread;
        let bytes: u64 = files.iter().map(|it| it.size).sum();
        let folder = self.pages_folder();
        let (unfetched, fetched): (Vec<_>, Vec<_>) =
            files.iter().filter(|it| it.file < 0 || is_page(it, &folder)).partition(|it| it.file < 0);
        let named: Vec<Value> =
            failures.iter().take(MAX_NAMED_FAILURES).map(|it| json!({"path": it.path, "reason": it.problem})).collect();
        answer.data = json!({
            "session": session, "files": files.len(), "indexed": indexed, "unread": unread, "failed": failures.len(),
            "pages": {"fetched": fetched.len(), "failed": unfetched.len()},
            "distinct_contents": contents.len(), "duplicates": hashed - contents.len(), "bytes": bytes, "failures": named,
            "failures_file": written.map(|it| it.to_string_lossy().into_owned()),
        });
        // Count a file as covered if the mode's work is done: in mode `minimal`, no text has to be read.
        let known = indexed + unread;
        let coverage = if files.is_empty() { 0.0 } else { known as f64 / files.len() as f64 };
        let id = hash_result_id(&request.canonical(), &answer.data.to_string());
        let view = json!({"type": "session", "session": session});
        Ok(VerbOutcome::Answer { id, view, coverage, documents: String::new(), answer: Box::new(answer) })
    }

    /// Writes the list of failures of a session to its file, or removes the file if there are none.
    async fn write_failures(&self, session: i64, failures: &[&SessionFile]) -> ApiResult<Option<PathBuf>> {
        let Some(path) = self.failures_file(session) else { return Ok(None) };
        let list: Vec<Value> = failures.iter().map(|it| json!({"path": it.path, "reason": it.problem})).collect();
        let text = serde_yaml_ng::to_string(&json!({"session": session, "failed": list}))
            .map_err(|error| ApiError::from(Error::internal(error)))?;
        let (own, is_needed) = (path.clone(), !failures.is_empty());
        let written = blocking(move || {
            if !is_needed {
                return remove_if_there(&own);
            }
            let folder = own.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder).io_context("create", folder)?;
            std::fs::write(&own, text).io_context("write", &own)
        });
        written.await?;
        Ok(is_needed.then_some(path))
    }

    /// Returns the path of a session's failures file, if the caller may read the data directory.
    pub(crate) fn failures_file(&self, session: i64) -> Option<PathBuf> {
        let file = || self.reader.parts.folder.join("sessions").join(format!("failed-{session}.yaml"));
        self.scope.is_all().then(file)
    }
}

fn is_same_path(one: &SessionFile, other: &SessionFile) -> bool {
    !one.root.is_empty() && (&one.root, &one.path) == (&other.root, &other.path)
}

/// Returns whether a file lies in the folder of fetched pages.
fn is_page(file: &SessionFile, pages: &str) -> bool {
    Path::new(&file.root).join(&file.path).starts_with(pages)
}
