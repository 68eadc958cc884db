//! Sample values of the model types, for the tests of this workspace.

use std::path::Path;

use crate::model::{
    Anchor, Answer, AnswerOutcome, AnswerQuote, AskResponse, Block, BlockKind, ContentHash, Coverage, DateOrder,
    Document, FileKind, FileRecord, FileState, FoundFile, IndexRequest, JobSnapshot, JobState, MemoryCap, OcrMode,
    Pause, PauseReason, Phase, PrivacyMode, QueryPlan, ResponseStats, Root, SearchHit, Status, TableCell, TableColumn,
    TableGroup, TableLeftOut, TableResponse, TableRow, TableValue, Upkeep, WatchReport,
};

/// Returns an answer with one hit and every field set.
pub fn answer(query: &str) -> AskResponse {
    let anchor = Anchor { line_start: Some(3), line_end: Some(5), verbatim: true, ..Anchor::default() };
    let metadata = serde_json::json!({"size": u64::MAX, "zeta": 1, "anchor": anchor, "alpha": null});
    let serde_json::Value::Object(metadata) = metadata else { unreachable!("json! builds an object") };
    AskResponse {
        query_plan: QueryPlan {
            intent: "search".into(),
            l0_filters: None,
            l1_query_text: Some(query.into()),
            l1_threshold: Some(0.25),
            date_order: Some(DateOrder::Newest),
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

/// Returns the snapshot of a job `job-1` with this state and this many files done.
pub fn job(state: JobState, files_done: u64) -> JobSnapshot {
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
pub fn status() -> Status {
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
            store: "LanceDB".into(),
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
        languages: [("de".to_string(), 90), ("en".to_string(), 10)].into(),
        advice: vec!["most of the text is in German: `vic models use m` switches to a model for it".into()],
    }
}

/// Returns a failed file with every field set.
pub fn file() -> FileRecord {
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
        mail: Some(crate::model::MailFacts {
            subject: Some("Key of the hut".into()),
            senders: vec!["Ada Lane <ada@example.org>".into()],
            sent_ns: Some((1_700_000_000_000_000_000, 1_700_000_001_000_000_000)),
        }),
    }
}

/// Returns a document of two blocks.
pub fn document() -> Document {
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
pub fn table(path: &str) -> TableResponse {
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
        sheets: vec!["Q1".into(), "Q2".into()],
    }
}

/// Returns the record of an indexed file with this content hash.
pub fn indexed_file(root: &Path, name: &str, kind: FileKind, hash: ContentHash) -> FileRecord {
    let found = FoundFile {
        path: name.into(),
        size: 1,
        modified_ns: 0,
        changed_ns: 0,
        created_ns: None,
        inode: 1,
        device: 1,
        mode: 0o644,
        uid: 0,
        skip: None,
    };
    FileRecord {
        id: 7,
        root_id: 1,
        root: root.to_path_buf(),
        found,
        extension: name.rsplit('.').next().unwrap_or_default().into(),
        kind,
        media_type: String::new(),
        owner: String::new(),
        hash: Some(hash),
        state: FileState::Indexed,
        reason: None,
        detail: String::new(),
        chunks: 1,
        tries: 1,
        mail: None,
    }
}
