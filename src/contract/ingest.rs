//! INGEST: folders, files and pages come in through the index, and a session remembers what there was.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::contract::answer::{Answer, Unknown};
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::validate::Request;
use crate::contract::words::short;
use crate::contract::{Contract, Done, SYNCHRONOUS, result_id};
use crate::embed::egress::{self, Purpose};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::blocking;
use crate::model::{FileFilter, FileId, FileRecord, FileState, IndexRequest, JobSnapshot, JobState, PrivacyMode};

/// A page beyond is not kept.
const MOST_PAGE: usize = 20 << 20;

/// Failures that an answer names; the file has all of them.
const NAMED: usize = 20;

/// How long a page may take.
const PAGE_TIME: Duration = Duration::from_secs(60);

/// What one run brings in.
struct Run {
    /// What the index is to look at.
    paths: Vec<String>,
    /// What belongs to the session.
    places: Vec<String>,
    mode: String,
    /// The session of which this is a second try.
    again: Option<i64>,
    /// What could not be fetched.
    unfetched: Vec<(String, String)>,
}

impl Contract {
    /// The verb.
    pub(crate) async fn ingest(&self, request: &Request, patient: bool) -> Outcome<Done> {
        self.refuse_pages(request)?;
        if patient {
            return Ok(Done::Later(0));
        }
        let run = self.run(request).await?;
        let job = self.start(&run).await?;
        match self.wait(&job, Some(SYNCHRONOUS as u64)).await? {
            None => Ok(Done::Later(SYNCHRONOUS + 1)),
            Some(_) => self.finish_run(request, run).await,
        }
    }

    /// As [`Contract::ingest`], in a job. What the index has read already it does not read again.
    pub(crate) async fn ingest_at_leisure(&self, request: &Request) -> Outcome<Done> {
        let run = self.run(request).await?;
        let job = self.start(&run).await?;
        self.wait(&job, None).await?;
        self.finish_run(request, run).await
    }

    fn refuse_pages(&self, request: &Request) -> Outcome<()> {
        if !request.has("urls") {
            return Ok(());
        }
        if !self.scope.is_all() {
            return Err(Refusal::new(Cause::Forbidden, "only the owner may fetch pages").field("urls"));
        }
        let privacy = self.reader.parts.privacy;
        if privacy == PrivacyMode::LocalOnly {
            for url in request.texts("urls") {
                // The refusal is written down where requests are.
                egress::check(url, privacy, Purpose::Page)?;
            }
            return Err(Refusal::new(Cause::Forbidden, "the privacy mode `local_only` fetches no pages")
                .field("urls")
                .action("save the pages and INGEST the files")
                .action("or the owner sets VIC_PRIVACY_MODE=cloud_reasoning_ok"));
        }
        Ok(())
    }

    async fn run(&self, request: &Request) -> Outcome<Run> {
        let mode = request.text("mode").unwrap_or("full").to_string();
        if let Some(session) = request.whole("session") {
            let (body, files) = self.session_files(session).await?;
            let body: Value = serde_json::from_str(&body).unwrap_or_default();
            let strings = |name: &str| -> Vec<String> {
                body[name].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(String::from)).collect()
            };
            let (pages, failed): (Vec<&SessionFile>, Vec<_>) =
                files.iter().filter(|it| !it.problem.is_empty()).partition(|it| it.file < 0);
            let mut paths = self.absolute(failed.into_iter().map(|it| it.path.clone()).collect(), &files).await?;
            let pages: Vec<&str> = pages.into_iter().map(|it| it.path.as_str()).collect();
            let (fetched, unfetched) = self.fetch_all(&pages).await?;
            if !fetched.is_empty() {
                paths.push(self.pages());
            }
            let mode = body["mode"].as_str().unwrap_or("full").to_string();
            let places = [strings("paths"), fetched].concat();
            return Ok(Run { paths, places, mode, again: Some(session), unfetched });
        }
        if request.has("urls") {
            let (places, unfetched) = self.fetch_all(&request.texts("urls")).await?;
            let paths = if places.is_empty() { Vec::new() } else { vec![self.pages()] };
            return Ok(Run { paths, places, mode, again: None, unfetched });
        }
        let mut paths = Vec::new();
        for path in request.texts("paths") {
            let found = Path::new(path).canonicalize().ok().filter(|it| self.scope.covers(it));
            let found = found.and_then(|it| it.into_os_string().into_string().ok());
            paths.push(found.ok_or_else(|| {
                Refusal::new(Cause::UnknownFile, format!("there is no `{}`", short(path, 80)))
                    .field("paths")
                    .action("give an absolute path")
            })?);
        }
        Ok(Run { places: paths.clone(), paths, mode, again: None, unfetched: Vec::new() })
    }

    /// The absolute paths of files of a session that are still known.
    async fn absolute(&self, paths: Vec<String>, files: &[SessionFile]) -> Outcome<Vec<String>> {
        let ids: Vec<FileId> = files.iter().filter(|it| paths.contains(&it.path)).map(|it| it.file).collect();
        let reader = self.reader.clone();
        let records = blocking(move || reader.parts.catalog.records(&ids)).await?;
        Ok(records.iter().filter_map(|it| it.absolute().into_os_string().into_string().ok()).collect())
    }

    async fn start(&self, run: &Run) -> Outcome<Option<JobSnapshot>> {
        if run.paths.is_empty() {
            return Ok(None);
        }
        let request = IndexRequest { paths: run.paths.clone(), full: run.again.is_some(), ..IndexRequest::default() };
        Ok(Some(self.reader.parts.index.start_job(request).await?))
    }

    /// Waits for a job of the index; none when it turns out to be larger than that.
    async fn wait(&self, job: &Option<JobSnapshot>, most: Option<u64>) -> Outcome<Option<()>> {
        let Some(job) = job else { return Ok(Some(())) };
        let mut watched = self.reader.parts.index.watch_job(&job.job_id)?;
        loop {
            let now = watched.borrow_and_update().clone();
            if now.state.is_final() {
                return match now.state {
                    JobState::Completed => Ok(Some(())),
                    _ => Err(Refusal::new(
                        Cause::Unavailable,
                        now.error.unwrap_or_else(|| "the index job was stopped".into()),
                    )
                    .action("try again")),
                };
            }
            if most.is_some_and(|it| now.files_found > it) {
                return Ok(None);
            }
            if watched.changed().await.is_err() {
                return Ok(Some(()));
            }
        }
    }

    async fn finish_run(&self, request: &Request, run: Run) -> Outcome<Done> {
        let records = self.records_below(&run.places).await?;
        if run.mode == "full" {
            let ids = records.iter().filter(|it| it.state == FileState::Indexed).map(|it| it.id).collect::<Vec<_>>();
            self.read_all(&ids).await?;
        }
        let mut files: Vec<SessionFile> = records.iter().map(session_file).collect();
        files.extend((1..).zip(&run.unfetched).map(|(at, (url, problem))| SessionFile {
            file: -at,
            path: url.clone(),
            hash: None,
            size: 0,
            modified_ns: 0,
            problem: problem.clone(),
        }));
        let body = json!({"paths": run.places, "mode": run.mode}).to_string();
        let (reader, owner, again, kept) = (self.reader.clone(), self.owner(), run.again, files.clone());
        let session = blocking(move || match again {
            Some(session) => reader.parts.book.update_session(session, &body, &kept).map(|()| session),
            None => reader.parts.book.add_session(&owner, &body, &kept),
        });
        let session = session.await?;
        self.told(request, session, &run, &files).await
    }

    async fn records_below(&self, places: &[String]) -> Outcome<Vec<FileRecord>> {
        let (reader, scope, places) = (self.reader.clone(), self.scope.clone(), places.to_vec());
        let found = blocking(move || {
            let mut records: Vec<FileRecord> = Vec::new();
            for place in places {
                let filter =
                    FileFilter { under: Some(PathBuf::from(place)), within: scope.clone(), ..FileFilter::default() };
                records.extend(reader.parts.catalog.all_records(&filter)?);
            }
            records.sort_by_key(|it| it.id);
            records.dedup_by_key(|it| it.id);
            Ok(records)
        });
        Ok(found.await?)
    }

    async fn told(&self, request: &Request, session: i64, run: &Run, files: &[SessionFile]) -> Outcome<Done> {
        let failures: Vec<&SessionFile> = files.iter().filter(|it| !it.problem.is_empty()).collect();
        let written = if failures.is_empty() { None } else { Some(self.write_failures(session, &failures).await?) };
        let mut answer = Answer::new("indexed in place, deduplicated by content");
        answer.parameter("mode", run.mode.as_str());
        if !failures.is_empty() {
            answer.unknown(Unknown::new("unreadable_document", failures.len()).detail("named in the failures file"));
        }
        let contents: std::collections::BTreeSet<_> = files.iter().filter_map(|it| it.hash).collect();
        let indexed = files.len() - failures.len();
        let bytes: u64 = files.iter().map(|it| it.size).sum();
        let named: Vec<Value> =
            failures.iter().take(NAMED).map(|it| json!({"path": it.path, "reason": it.problem})).collect();
        answer.data = json!({
            "session": session, "files": files.len(), "indexed": indexed, "failed": failures.len(),
            "distinct_contents": contents.len(), "bytes": bytes, "failures": named,
            "failures_file": written.filter(|_| self.scope.is_all()).map(|it| it.to_string_lossy().into_owned()),
        });
        let coverage = if files.is_empty() { 0.0 } else { indexed as f64 / files.len() as f64 };
        let id = result_id(&request.canonical(), &answer.data.to_string());
        let view = json!({"type": "session", "session": session});
        Ok(Done::Answer { id, view, coverage, answer: Box::new(answer) })
    }

    async fn write_failures(&self, session: i64, failures: &[&SessionFile]) -> Outcome<PathBuf> {
        let list: Vec<Value> = failures.iter().map(|it| json!({"path": it.path, "reason": it.problem})).collect();
        let text = serde_yaml_ng::to_string(&json!({"session": session, "failed": list}))
            .map_err(|error| Refusal::from(Error::internal(error)))?;
        let path = self.reader.parts.folder.join("sessions").join(format!("failed-{session}.yaml"));
        let own = path.clone();
        let written = blocking(move || {
            let folder = own.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder).at("create", folder)?;
            std::fs::write(&own, text).at("write", &own)
        });
        written.await?;
        Ok(path)
    }

    /// The folder of fetched pages, the only one of the data directory that may be indexed.
    fn pages(&self) -> String {
        self.reader.parts.pages.to_string_lossy().into_owned()
    }

    /// Fetches pages; returns the files, and what could not be fetched.
    async fn fetch_all(&self, urls: &[&str]) -> Outcome<(Vec<String>, Vec<(String, String)>)> {
        let folder = &self.reader.parts.pages;
        std::fs::create_dir_all(folder).at("create", folder)?;
        let (mut fetched, mut failed) = (Vec::new(), Vec::new());
        for url in urls {
            match fetch(url, self.reader.parts.privacy, folder).await {
                Ok(path) => fetched.push(path.to_string_lossy().into_owned()),
                Err(error) => failed.push((url.to_string(), error.message)),
            }
        }
        Ok((fetched, failed))
    }
}

fn session_file(record: &FileRecord) -> SessionFile {
    let problem = match record.state {
        FileState::Indexed => String::new(),
        FileState::Pending => "pending".into(),
        FileState::Skipped | FileState::Failed => record.reason.map_or_else(|| "io".into(), |it| it.name().to_string()),
    };
    SessionFile {
        file: record.id,
        path: record.found.path.to_string_lossy().into_owned(),
        hash: record.hash,
        size: record.found.size,
        modified_ns: record.found.modified_ns,
        problem,
    }
}

/// Fetches one page: the same address always goes into the same file.
async fn fetch(url: &str, privacy: PrivacyMode, folder: &Path) -> Result<PathBuf> {
    let own = url.to_string();
    let outbound = blocking(move || egress::client(&own, privacy, Purpose::Page, None)).await?;
    let response = outbound.send(outbound.get(url).timeout(PAGE_TIME)).await.map_err(|error| error.at(url))?;
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
        response.chunk().await.map_err(|error| Error::new(ErrorCode::Unavailable, egress::cause(&error)))?
    {
        if bytes.len() + chunk.len() > MOST_PAGE {
            return Err(Error::new(ErrorCode::ResourceExhausted, "the page is larger than 20 MiB"));
        }
        bytes.extend_from_slice(&chunk);
    }
    let path = folder.join(format!("{}.{extension}", &blake3::hash(url.as_bytes()).to_hex()[..24]));
    blocking(move || std::fs::write(&path, bytes).at("write", &path).map(|()| path)).await
}
