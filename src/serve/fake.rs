//! A [`Service`] for tests: returns fixed answers and records requests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::Assistant;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    Anchor, Answer, AnswerOutcome, AnswerQuote, AskEvent, AskRequest, AskResponse, AuditRecord, Block, BlockKind,
    CorpusCall, CorpusReply, Coverage, Document, FileFilter, FileKind, FileRecord, FileState, FoundFile, GraphRequest,
    GrepMatch, GrepRequest, GrepResponse, Holder, IndexRequest, JobSnapshot, JobState, MemoryCap, OcrMode, Pause,
    PauseReason, PauseRequest, PauseState, Phase, Place, PrivacyMode, QueryPlan, ResponseStats, Root, Scope, SearchHit,
    SimilarRequest, Status, SyncReport, SyncRequest, TableCell, TableColumn, TableGroup, TableLeftOut, TableRequest,
    TableResponse, TableRow, TableValue, Upkeep, WatchReport,
};
use crate::serve::Service;

/// The fake service.
pub(crate) struct FakeService {
    /// The last question.
    pub(crate) asked: Mutex<Option<AskRequest>>,
    /// Number of calls of [`Service::ask`], for which a model may write an answer.
    pub(crate) in_words: AtomicU32,
    /// The last file list request.
    pub(crate) listed: Mutex<Option<(FileFilter, u32, u64)>>,
    /// The one job, `job-1`.
    pub(crate) job: watch::Sender<JobSnapshot>,
    /// Cancelled by [`Service::shutdown`].
    pub(crate) shutdown: CancellationToken,
    /// The last scope given to [`Service::within`].
    pub(crate) narrowed: Arc<Mutex<Option<Scope>>>,
    /// All corpus calls, in any scope.
    pub(crate) verbs: Arc<Mutex<Vec<CorpusCall>>>,
    /// Number of status calls.
    pub(crate) looks: AtomicU32,
    /// Delay of answers and lists.
    pub(crate) latency: Duration,
}

impl FakeService {
    pub(crate) fn new() -> FakeService {
        FakeService {
            asked: Mutex::default(),
            in_words: AtomicU32::new(0),
            listed: Mutex::default(),
            job: watch::Sender::new(job(JobState::Queued, 0)),
            shutdown: CancellationToken::new(),
            narrowed: Arc::default(),
            verbs: Arc::default(),
            looks: AtomicU32::new(0),
            latency: Duration::ZERO,
        }
    }
}

#[async_trait::async_trait]
impl Service for FakeService {
    /// Only records the scope.
    fn within(&self, scope: Scope, _holder: Holder) -> Arc<dyn Service> {
        *self.narrowed.lock().unwrap() = Some(scope);
        let (narrowed, verbs, shutdown) = (self.narrowed.clone(), self.verbs.clone(), self.shutdown.clone());
        Arc::new(FakeService { narrowed, verbs, shutdown, ..FakeService::new() })
    }

    fn tokens_embedded(&self) -> u64 {
        5_000
    }

    async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.in_words.fetch_add(1, Ordering::Relaxed);
        let AskResponse { answer_summary, answer, .. } = answer(&request.query);
        Ok(AskResponse { answer_summary, answer, ..self.search(request).await? })
    }

    async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        tokio::time::sleep(self.latency).await;
        *self.asked.lock().unwrap() = Some(request.clone());
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

    /// Echoes the call. Every job is running.
    async fn corpus(&self, call: CorpusCall) -> Result<CorpusReply> {
        self.verbs.lock().unwrap().push(call.clone());
        let refused = (call.verb == "search").then_some(ErrorCode::InvalidArgument);
        let mut data = call.request;
        if call.verb == "JOB" {
            data.insert("state".into(), "running".into());
        }
        let text = serde_json::json!({"verb": call.verb, "data": data}).to_string();
        Ok(CorpusReply { media_type: "application/json".into(), text, refused, accepted: call.verb == "INGEST" })
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
        self.looks.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latency).await;
        Ok(status())
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)> {
        tokio::time::sleep(self.latency).await;
        *self.listed.lock().unwrap() = Some((filter, limit, offset));
        Ok((if offset == 0 { vec![file()] } else { Vec::new() }, 1))
    }

    async fn read(&self, path: &str, _: &Place) -> Result<Document> {
        match path {
            "/w/plan.md" => Ok(document()),
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

/// Returns an answer with one hit and every field set.
pub(crate) fn answer(query: &str) -> AskResponse {
    let anchor = Anchor { line_start: Some(3), line_end: Some(5), verbatim: true, ..Anchor::default() };
    let metadata = serde_json::json!({"size": u64::MAX, "zeta": 1, "anchor": anchor, "alpha": null});
    let serde_json::Value::Object(metadata) = metadata else { unreachable!("json! builds an object") };
    AskResponse {
        query_plan: QueryPlan {
            intent: "search".into(),
            l0_filters: None,
            l1_query_text: Some(query.into()),
            l1_threshold: Some(0.25),
            requires_l2: false,
            l2_skills: vec!["ocr_image".into()],
            l2_top_k: Some(3),
            privacy_mode: PrivacyMode::LocalOnly,
            raw_user_text: query.into(),
            planner_model_id: Some("rules-v1".into()),
        },
        hits: vec![SearchHit {
            path: "notes/plan.md".into(),
            score: 0.8125,
            tier: "L1".into(),
            layers: vec!["L0".into(), "L1".into()],
            excerpt: "The budget of the harbour project was signed by Ada on Monday.".into(),
            metadata,
            reasoning: "keyword rank 1, vector rank 2".into(),
        }],
        answer_summary: Some("Ada signed it.".into()),
        answer: Some(Answer {
            outcome: AnswerOutcome::Answered,
            confidence: 0.875,
            quotes: vec![AnswerQuote {
                hit: 1,
                text: "The budget of the harbour project was signed by Ada on Monday.".into(),
                place: "notes/plan.md, lines 3-5".into(),
                checked: true,
            }],
        }),
        warnings: vec!["2 files are still to be read".into()],
        stats: Some(ResponseStats {
            pipeline: "tiered".into(),
            warehouse_root: "/w".into(),
            db_path: "/d/index".into(),
            latency_ms: Some(12.5),
            embed_model: Some("all-MiniLM-L6-v2".into()),
            chunk_rows_indexed: Some(1_234),
            unique_paths_in_index: Some(1),
            l1_candidates_merged: Some(7),
            hits_returned: 1,
            hits_by_tier: [("L1".to_string(), 1)].into(),
            filesystem_files_seen: None,
        }),
    }
}

/// Returns `job-1` in this state, with this number of files done.
pub(crate) fn job(state: JobState, files_done: u64) -> JobSnapshot {
    JobSnapshot {
        job_id: "job-1".into(),
        state,
        phase: if state.is_final() { Phase::Done } else { Phase::Indexing },
        request: IndexRequest {
            paths: vec!["/w".into()],
            full: true,
            metadata_only: false,
            max_files: Some(9),
            ocr: OcrMode::Never,
            accept_losses: true,
        },
        created_ms: 1_700_000_000_000,
        started_ms: Some(1_700_000_001_000),
        finished_ms: state.is_final().then_some(1_700_000_003_500),
        files_found: 12,
        files_total: 10,
        files_done,
        files_failed: 1,
        files_removed: 2,
        chunks_written: 40,
        chunks_embedded: 30,
        chunks_awaiting: 0,
        tokens_embedded: 5_000,
        tokens_per_second: 2_000.0,
        eta_seconds: Some(65.0),
        last_error: Some("a.pdf: damaged".into()),
        error: (state == JobState::Failed).then(|| "the disk is full".into()),
        error_exit_code: (state == JobState::Failed).then_some(8),
    }
}

/// Returns the status of a daemon with one root.
pub(crate) fn status() -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: 4_242,
        uptime_seconds: 93_784,
        rss_mib: 310.5,
        peak_rss_mib: 420.0,
        data_dir: "/d".into(),
        listen: "127.0.0.1:8765".into(),
        privacy_mode: PrivacyMode::LocalOnly,
        embed_model: "all-MiniLM-L6-v2 (onnx)".into(),
        dimension: 384,
        index_ready: true,
        chunks: 1_234,
        store_bytes: 5 << 20,
        roots: vec![Root { id: 1, path: "/w".into(), available: true, problem: String::new() }],
        coverage: Coverage {
            found: 12,
            indexed: 8,
            skipped: 2,
            failed: 1,
            pending: 1,
            awaiting_vectors: 3,
            reasons: [("too_large".to_string(), 2), ("damaged".to_string(), 1)].into(),
        },
        running_jobs: vec![job(JobState::Running, 4)],
        degraded: vec!["watching is off: raise fs.inotify.max_user_watches".into()],
        auth_enabled: false,
        upkeep: Upkeep {
            now: "compacting".into(),
            versions: 12,
            fragments: 3,
            unindexed_chunks: 40,
            unread_pictures: 5,
            disk_free_bytes: 7 << 30,
        },
        paused: Some(Pause { reason: PauseReason::Asked, until_ms: None }),
        watch: WatchReport {
            watching: true,
            folders: 7,
            missing: 2,
            polled: vec!["/w".into()],
            overflows: 1,
            rescans: 1,
            restarts: 1,
            heartbeat_seconds: Some(2.5),
        },
        memory_caps: vec![MemoryCap { part: "one worker".into(), mib: 1_024 }],
    }
}

/// Returns a failed file with every field set.
pub(crate) fn file() -> FileRecord {
    FileRecord {
        id: 7,
        root_id: 1,
        root: "/w".into(),
        found: FoundFile {
            path: "a\u{1b}[31m.pdf".into(),
            size: 2_048,
            modified_ns: 1_700_000_000_000_000_000,
            changed_ns: 2,
            created_ns: Some(3),
            inode: 4,
            device: 5,
            mode: 0o100_644,
            uid: 1_000,
            skip: None,
        },
        extension: "pdf".into(),
        kind: FileKind::Pdf,
        media_type: "application/pdf".into(),
        owner: "ada".into(),
        hash: Some(crate::model::ContentHash([7; 32])),
        state: FileState::Failed,
        reason: Some(crate::model::Reason::Damaged),
        detail: "no end".into(),
        chunks: 0,
        tries: 2,
    }
}

/// Returns a document of two blocks.
pub(crate) fn document() -> Document {
    let block = |kind, text: &str| Block {
        kind,
        text: text.into(),
        anchor: Anchor { page: Some(1), ..Anchor::default() },
        rows: Vec::new(),
    };
    Document {
        title: Some("Plan".into()),
        media_type: "text/markdown".into(),
        blocks: vec![block(BlockKind::Heading(1), "Plan"), block(BlockKind::Paragraph, "Ada signs.\u{1b}[2J")],
        problems: vec!["page 2 is damaged".into()],
        truncated: false,
        pages: Some(2),
        pages_without_text: vec![2],
        ..Document::default()
    }
}

/// Returns a table response with every field set.
pub(crate) fn table(path: &str) -> TableResponse {
    let value = TableValue {
        function: "sum".into(),
        column: Some("amount".into()),
        value: Some("0.3".into()),
        unit: Some("EUR".into()),
        exact: true,
        rows: 2,
        left_out: vec![TableLeftOut {
            reason: "no number".into(),
            cells: 1,
            examples: vec![TableCell { place: "line 4".into(), text: "x".into() }],
        }],
        evidence: vec!["line 2".into(), "line 3".into()],
    };
    let column = |name: &str, kind: &str| TableColumn { name: name.into(), kind: kind.into() };
    TableResponse {
        path: path.into(),
        tables: 2,
        table: 1,
        name: "Q1".into(),
        head_rows: 1,
        columns: vec![column("what", "text"), column("amount", "number")],
        total_rows: 3,
        matched_rows: 2,
        rows: vec![TableRow {
            place: "line 2".into(),
            anchor: Anchor { line_start: Some(2), line_end: Some(2), ..Anchor::default() },
            cells: vec!["pa\u{1b}[2Jper".into(), "0.1".into()],
        }],
        groups: vec![TableGroup { key: "paper".into(), rows: 2, result: vec![value.clone()] }],
        total_groups: 1,
        result: vec![value],
        warnings: vec!["1 cell is no number".into()],
        truncated: false,
    }
}
