//! A [`Service`] for tests: returns fixed answers, and records the requests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use include_dir::Dir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::Assistant;
use crate::error::{Error, ErrorCode, Result};
use crate::model::samples::{answer, document, file, job, status, table};
use crate::model::{
    Anchor, AskEvent, AskRequest, AskResponse, AuditRecord, CompleteRequest, Completion, CorpusReply, CorpusRequest,
    Counts, CountsRequest, Document, FileFilter, FileList, FolderList, FoldersRequest, ForgetSearches, GraphRequest,
    GrepMatch, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, JobState, Marks, MarksRequest, ModelList,
    PagePreview, PageRequest, PastSearches, Pause, PauseReason, PauseRequest, PauseState, Picture, PictureRequest,
    Place, Principal, PrivacyMode, Root, RootCheck, RootCheckRequest, Scope, SearchNote, SettingChange, SettingList,
    SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::serve::{Service, UiService};

/// A web page without files.
pub(crate) static NO_PAGE: Dir<'static> = Dir::new("", &[]);

/// Returns the text of the file `/w/long.md`.
pub(crate) fn long_text() -> String {
    (0..300).map(|it| format!("line {it}\n")).collect()
}

/// A service with fixed answers.
pub(crate) struct FakeService {
    /// The last question that was asked.
    pub(crate) last_question: Mutex<Option<AskRequest>>,
    /// Number of calls of [`Service::ask`], in which a model may write an answer.
    pub(crate) ask_calls: AtomicU32,
    /// The last request for a list of files: filter, limit and offset.
    pub(crate) last_file_list: Mutex<Option<(FileFilter, u32, u64)>>,
    /// Sends the snapshots of the only job, `job-1`.
    pub(crate) job: watch::Sender<JobSnapshot>,
    /// Token that [`Service::shutdown`] cancels.
    pub(crate) shutdown: CancellationToken,
    /// The last scope that [`Service::scoped`] was called with.
    pub(crate) last_scope: Arc<Mutex<Option<Scope>>>,
    /// All calls of the corpus API, in any scope.
    pub(crate) corpus_calls: Arc<Mutex<Vec<CorpusRequest>>>,
    /// Number of calls of [`Service::status`].
    pub(crate) status_calls: AtomicU32,
    /// Delay before answers and lists are returned.
    pub(crate) latency: Duration,
}

impl FakeService {
    pub(crate) fn new() -> FakeService {
        FakeService {
            last_question: Mutex::default(),
            ask_calls: AtomicU32::new(0),
            last_file_list: Mutex::default(),
            job: watch::Sender::new(job(JobState::Queued, 0)),
            shutdown: CancellationToken::new(),
            last_scope: Arc::default(),
            corpus_calls: Arc::default(),
            status_calls: AtomicU32::new(0),
            latency: Duration::ZERO,
        }
    }
}

#[async_trait::async_trait]
impl Service for FakeService {
    /// Records the scope, and returns a service that is not restricted.
    fn scoped(&self, scope: Scope, _holder: Principal) -> Arc<dyn Service> {
        *self.last_scope.lock().unwrap() = Some(scope);
        let (narrowed, verbs, shutdown) = (self.last_scope.clone(), self.corpus_calls.clone(), self.shutdown.clone());
        Arc::new(FakeService { last_scope: narrowed, corpus_calls: verbs, shutdown, ..FakeService::new() })
    }

    fn tokens_embedded(&self) -> u64 {
        5_000
    }

    async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.ask_calls.fetch_add(1, Ordering::Relaxed);
        let AskResponse { answer_summary, answer, .. } = answer(&request.query);
        Ok(AskResponse { answer_summary, answer, ..self.search(request).await? })
    }

    async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        tokio::time::sleep(self.latency).await;
        *self.last_question.lock().unwrap() = Some(request.clone());
        match request.query.as_str() {
            "locked" => Err(Error::new(ErrorCode::Locked, "`/dätä` is in use").hint("stop the other `vicd`")),
            query => Ok(AskResponse { answer_summary: None, answer: None, ..answer(query) }),
        }
    }

    async fn ask_stream(&self, request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        let response = self.ask(request).await?;
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(async move {
            let summary = response.answer_summary.clone().unwrap_or_default();
            for event in [
                AskEvent::Plan(Box::new(response.query_plan.clone())),
                AskEvent::Hits(response.hits.clone()),
                AskEvent::Text(summary),
                AskEvent::Done(Box::new(response)),
            ] {
                let _ = sender.send(Ok(event)).await;
            }
        });
        Ok(receiver)
    }

    async fn similar(&self, request: SimilarRequest) -> Result<AskResponse> {
        Ok(answer(&request.path))
    }

    async fn grep(&self, request: GrepRequest) -> Result<GrepResponse> {
        let hit = GrepMatch {
            path: "notes/plan.md".into(),
            absolute_path: "/w/notes/plan.md".into(),
            anchor: Anchor { line_start: Some(3), line_end: Some(3), ..Anchor::default() },
            line: format!("Ada {} it.", request.pattern),
            start: 4,
            end: 4 + request.pattern.len() as u32,
            before: Vec::new(),
            after: Vec::new(),
        };
        Ok(GrepResponse { matches: vec![hit], files_searched: 8, truncated: false, warnings: Vec::new() })
    }

    async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        Ok(table(&request.path))
    }

    /// Returns verb and fields of the call as the reply. The state of each job is `running`.
    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        self.corpus_calls.lock().unwrap().push(call.clone());
        let refused = (call.verb == "search").then_some(ErrorCode::InvalidArgument);
        let mut data = call.request;
        if call.verb == "JOB" {
            data.insert("state".into(), "running".into());
        }
        let text = serde_json::json!({"verb": call.verb, "data": data}).to_string();
        Ok(CorpusReply {
            media_type: "application/json".into(),
            text,
            error_code: refused,
            accepted: call.verb == "INGEST",
        })
    }

    async fn audit(&self, _limit: u32) -> Result<Vec<AuditRecord>> {
        tokio::time::sleep(self.latency).await;
        Ok(vec![AuditRecord {
            time_ms: 1_700_000_000_000,
            destination: "https://models.example.com:443".into(),
            bytes: 512,
            purpose: "reasoning".into(),
            privacy_mode: PrivacyMode::CloudReasoningOk,
            allowed: true,
        }])
    }

    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot> {
        self.job.send_modify(|it| it.request = request);
        Ok(self.job.borrow().clone())
    }

    fn watch_job(&self, job_id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        match job_id {
            "job-1" => Ok(self.job.subscribe()),
            _ => Err(Error::not_found(format!("no job `{job_id}`"))),
        }
    }

    async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        match job_id {
            "job-1" => Ok(self.job.borrow().clone()),
            "job-0" => Ok(JobSnapshot { job_id: "job-0".into(), ..job(JobState::Failed, 1) }),
            _ => Err(Error::not_found(format!("no job `{job_id}`"))),
        }
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        tokio::time::sleep(self.latency).await;
        Ok(vec![self.job.borrow().clone(); limit.min(2) as usize])
    }

    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot> {
        self.job(job_id).await?;
        self.job.send_modify(|it| it.state = JobState::Cancelled);
        Ok(self.job.borrow().clone())
    }

    fn own_jobs(&self) -> Result<Vec<String>> {
        let job = self.job.borrow();
        Ok((!job.state.is_final()).then(|| job.job_id.clone()).into_iter().collect())
    }

    async fn sync(&self, request: SyncRequest) -> Result<SyncReport> {
        match request.path.as_deref() {
            Some("/slow") => Err(Error::new(ErrorCode::DeadlineExceeded, "not everything is searchable after 1 s")),
            _ => Ok(SyncReport {
                files: 3,
                waited_ms: u64::from(request.timeout_seconds.unwrap_or(60)),
                unread_pictures: 2,
                roots_away: 1,
            }),
        }
    }

    async fn pause(&self, request: PauseRequest) -> Result<PauseState> {
        let until_ms = request.seconds.map(|it| 1_000 * it.cast_signed());
        Ok(PauseState { paused: Some(Pause { reason: PauseReason::Asked, until_ms }) })
    }

    async fn resume(&self) -> Result<PauseState> {
        Ok(PauseState { paused: Some(Pause { reason: PauseReason::Battery, until_ms: None }) })
    }

    async fn status(&self) -> Result<Status> {
        self.status_calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latency).await;
        Ok(status())
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        tokio::time::sleep(self.latency).await;
        let is_mistyped = filter.name_words == ["mistyped"];
        *self.last_file_list.lock().unwrap() = Some((filter, limit, offset));
        let files = if offset == 0 { vec![file()] } else { Vec::new() };
        let warnings = Vec::from_iter(is_mistyped.then(|| "searched for `plan`".to_string()));
        Ok(FileList { files, total: 1, warnings })
    }

    async fn read(&self, path: &str, _: &Place) -> Result<Document> {
        match path {
            "/w/plan.md" => Ok(document()),
            "/w/long.md" => {
                let mut document = document();
                document.problems.clear();
                document.blocks.truncate(1);
                document.blocks[0].text = long_text();
                Ok(document)
            }
            _ => {
                Err(Error::new(ErrorCode::PermissionDenied, format!("`{path}` is in no root")).hint("`vic roots add`"))
            }
        }
    }

    async fn roots(&self) -> Result<Vec<Root>> {
        tokio::time::sleep(self.latency).await;
        Ok(status().roots)
    }

    async fn add_root(&self, path: &str) -> Result<Root> {
        Ok(Root { id: 2, path: path.into(), available: true, problem: String::new() })
    }

    async fn remove_root(&self, path: &str) -> Result<()> {
        if path == "/w" { Ok(()) } else { Err(Error::not_found(format!("no root `{path}`"))) }
    }

    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| vec![text.len() as f32, f32::from(u8::from(query))]).collect())
    }

    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value> {
        serde_json::to_value(request).map_err(Error::internal)
    }

    fn assistant(&self) -> Result<Assistant> {
        Err(Error::new(ErrorCode::FailedPrecondition, "no models here"))
    }

    async fn shutdown(&self) -> Result<()> {
        self.shutdown.cancel();
        Ok(())
    }
}

#[async_trait::async_trait]
impl UiService for FakeService {
    async fn marks(&self, request: MarksRequest) -> Result<Marks> {
        Ok(crate::ask::find_marks(&request))
    }

    async fn complete(&self, request: CompleteRequest) -> Result<Completion> {
        Ok(crate::planner::completion::complete(&request, &Default::default()))
    }

    async fn counts(&self, _: CountsRequest) -> Result<Counts> {
        Ok(Counts { total: 8, complete: true, groups: Vec::new() })
    }

    async fn page(&self, request: PageRequest) -> Result<PagePreview> {
        Ok(PagePreview { page: request.page.unwrap_or(1), pages: 2, ..PagePreview::default() })
    }

    async fn picture(&self, _: PictureRequest) -> Result<Picture> {
        Ok(Picture { jpeg: b"\xff\xd8".to_vec() })
    }

    async fn folders(&self, request: FoldersRequest) -> Result<FolderList> {
        Ok(FolderList { path: request.path.unwrap_or("/home/ada".into()), ..FolderList::default() })
    }

    async fn check_root(&self, request: RootCheckRequest) -> Result<RootCheck> {
        Ok(RootCheck { path: request.path, ..RootCheck::default() })
    }

    async fn settings(&self) -> Result<SettingList> {
        Ok(SettingList {
            privacy_mode: PrivacyMode::LocalOnly,
            data_dir: "/d".into(),
            config_file: "/d/config.toml".into(),
            settings: Vec::new(),
            restart_needed: Vec::new(),
        })
    }

    async fn change_setting(&self, _: SettingChange) -> Result<SettingList> {
        self.settings().await
    }

    async fn models(&self) -> Result<ModelList> {
        Ok(ModelList { current: "m".into(), models: Vec::new(), suggestion: None, languages: Default::default() })
    }

    async fn past_searches(&self) -> Result<PastSearches> {
        Ok(PastSearches::default())
    }

    async fn remember_search(&self, _: SearchNote) -> Result<PastSearches> {
        Ok(PastSearches::default())
    }

    async fn forget_searches(&self, _: ForgetSearches) -> Result<PastSearches> {
        Ok(PastSearches::default())
    }

    async fn openable_file(&self, path: &str) -> Result<std::path::PathBuf> {
        Ok(path.into())
    }
}
