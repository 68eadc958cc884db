use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::option::of;
use proptest::prelude::*;
use prost::Message;

use crate::model::{samples, *};
use crate::proto::convert::*;

/// Checks that a value stays the same when it is encoded and decoded.
pub(super) fn check_round_trip<M, W>(value: M)
where
    M: Clone + PartialEq + Debug + Into<W> + TryFrom<W>,
    M::Error: Debug,
    W: Message + Default,
{
    let bytes = Into::<W>::into(value.clone()).encode_to_vec();
    let back = M::try_from(W::decode(bytes.as_slice()).unwrap()).unwrap();
    assert_eq!(back, value);
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(".{0,8}", 0..3)
}

fn counts() -> impl Strategy<Value = BTreeMap<String, u64>> {
    prop::collection::btree_map("[a-z_]{1,8}", any::<u64>(), 0..3)
}

fn number() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO
}

pub(super) fn privacy() -> impl Strategy<Value = PrivacyMode> {
    prop::sample::select(vec![PrivacyMode::LocalOnly, PrivacyMode::CloudReasoningOk, PrivacyMode::CloudEmbeddingOk])
}

prop_compose! {
    fn filters()(
        extensions in texts(), path_glob in of(".{0,8}"), modified_after in of(".{0,8}"),
        modified_before in of(".{0,8}"), min_size in of(any::<u64>()), max_size in of(any::<u64>()), owner in of(".{0,8}"),
        language in of(".{0,2}"), author in of(".{0,8}"),
    ) -> L0Filters {
        L0Filters { extensions, path_glob, modified_after, modified_before, min_size, max_size, owner, language, author }
    }
}

prop_compose! {
    fn plan()(
        intent in ".{0,8}", l0_filters in of(filters()), l1_query_text in of(".{0,8}"), l1_threshold in of(number()),
        date_order in of(prop::sample::select(&DateOrder::ALL[..])), requires_l2 in any::<bool>(), l2_skills in texts(), l2_top_k in of(any::<u32>()), privacy_mode in privacy(),
        raw_user_text in ".{0,8}", planner_model_id in of(".{0,8}"),
    ) -> QueryPlan {
        QueryPlan {
            intent, l0_filters, l1_query_text, l1_threshold, date_order, requires_l2, l2_skills, l2_top_k,
            privacy_mode, raw_user_text, planner_model_id,
        }
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|it| (f64::from(it) / 8.0).into()),
        ".{0,8}".prop_map(Into::into),
        texts().prop_map(Into::into),
    ]
}

prop_compose! {
    fn hit()(
        path in ".{0,8}", score in number(), tier in ".{0,3}", layers in texts(), excerpt in ".{0,30}",
        metadata in prop::collection::vec((".{0,5}", json()), 0..4), reasoning in ".{0,8}",
    ) -> SearchHit {
        SearchHit { path, score, tier, layers, excerpt, metadata: metadata.into_iter().collect(), reasoning }
    }
}

prop_compose! {
    fn stats()(
        texts in (".{0,8}", ".{0,8}", ".{0,8}"), latency_ms in of(number()), embed_model in of(".{0,8}"),
        optional in (of(any::<u64>()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>())), hits_returned in any::<u64>(),
        hits_by_tier in counts(),
    ) -> ResponseStats {
        ResponseStats {
            pipeline: texts.0, warehouse_root: texts.1, db_path: texts.2, latency_ms, embed_model,
            chunk_rows_indexed: optional.0, unique_paths_in_index: optional.1, l1_candidates_merged: optional.2,
            hits_returned, hits_by_tier, filesystem_files_seen: optional.3,
        }
    }
}

prop_compose! {
    fn quote()(hit in any::<u32>(), text in ".{0,8}", place in ".{0,8}", checked in any::<bool>()) -> AnswerQuote {
        AnswerQuote { hit, text, place, checked }
    }
}

prop_compose! {
    fn answer()(
        outcome in prop::sample::select(&AnswerOutcome::ALL[..]), confidence in number(),
        quotes in prop::collection::vec(quote(), 0..3),
    ) -> Answer {
        Answer { outcome, confidence, quotes }
    }
}

prop_compose! {
    fn response()(
        query_plan in plan(), hits in prop::collection::vec(hit(), 0..3), answer_summary in of(".{0,8}"),
        answer in of(answer()), warnings in texts(), stats in of(stats()),
    ) -> AskResponse {
        AskResponse { query_plan, hits, answer_summary, answer, warnings, stats }
    }
}

prop_compose! {
    fn job()(
        job_id in ".{0,8}",
        state in prop::sample::select(vec![
            JobState::Queued, JobState::Running, JobState::Completed, JobState::Failed, JobState::Cancelled,
        ]),
        phase in prop::sample::select(vec![
            Phase::Waiting, Phase::Scanning, Phase::Indexing, Phase::Vectors, Phase::Finishing, Phase::Done,
        ]),
        request in (
            texts(), any::<bool>(), any::<bool>(), of(any::<u64>()), prop::sample::select(&OcrMode::ALL[..]), any::<bool>(),
        ),
        times in (any::<i64>(), of(any::<i64>()), of(any::<i64>())),
        files in any::<[u64; 5]>(), work in any::<[u64; 4]>(), tokens_per_second in number(), eta_seconds in of(number()),
        last_error in of(".{0,8}"), error in of(".{0,8}"), error_exit_code in of(any::<u32>()),
    ) -> JobSnapshot {
        let (paths, full, metadata_only, max_files, ocr, accept_losses) = request;
        JobSnapshot {
            job_id, state, phase, request: IndexRequest { paths, full, metadata_only, max_files, ocr, accept_losses },
            created_ms: times.0, started_ms: times.1, finished_ms: times.2,
            files_found: files[0], files_total: files[1], files_done: files[2], files_failed: files[3],
            files_removed: files[4], chunks_written: work[0], chunks_embedded: work[1], tokens_embedded: work[2],
            chunks_awaiting: work[3],
            tokens_per_second, eta_seconds, last_error, error, error_exit_code,
        }
    }
}

prop_compose! {
    /// Generates paths of all bytes that a path may contain: all but NUL.
    fn path()(bytes in prop::collection::vec(1..=u8::MAX, 1..12)) -> PathBuf {
        PathBuf::from(OsString::from_vec(bytes))
    }
}

prop_compose! {
    fn root()(id in any::<i64>(), path in path(), available in any::<bool>(), problem in ".{0,8}") -> Root {
        Root { id, path, available, problem }
    }
}

prop_compose! {
    fn pause()(
        reason in prop::sample::select(vec![PauseReason::Asked, PauseReason::Battery]), until_ms in of(any::<i64>()),
    ) -> Pause {
        Pause { reason, until_ms }
    }
}

prop_compose! {
    fn watch()(
        watching in any::<bool>(), counts in any::<[u64; 5]>(), polled in texts(), heartbeat_seconds in of(number()),
    ) -> WatchReport {
        WatchReport {
            watching, folders: counts[0], missing: counts[1], polled, overflows: counts[2], rescans: counts[3],
            restarts: counts[4], heartbeat_seconds,
        }
    }
}

prop_compose! {
    fn memory_cap()(part in ".{0,8}", mib in any::<u64>()) -> MemoryCap {
        MemoryCap { part, mib }
    }
}

prop_compose! {
    fn status()(
        texts in (".{0,8}", ".{0,8}", ".{0,8}", ".{0,8}"), small in any::<[u32; 2]>(), large in any::<[u64; 3]>(),
        memory in (number(), number()), privacy_mode in privacy(), index_ready in any::<bool>(),
        roots in prop::collection::vec(root(), 0..3), counted in any::<[u64; 6]>(), reasons in counts(),
        running_jobs in prop::collection::vec(job(), 0..2), degraded in texts(), auth_enabled in any::<bool>(),
        upkeep in (".{0,8}", any::<[u64; 5]>()), found in (counts(), texts()),
        background in (of(pause()), watch(), prop::collection::vec(memory_cap(), 0..3)),
    ) -> Status {
        Status {
            version: texts.0, pid: small[0], uptime_seconds: large[0], rss_mib: memory.0, peak_rss_mib: memory.1,
            data_dir: texts.1, listen: texts.2, privacy_mode, embed_model: texts.3, dimension: small[1], index_ready,
            chunks: large[1], store_bytes: large[2], roots,
            coverage: Coverage {
                found: counted[0], indexed: counted[1], skipped: counted[2], failed: counted[3], pending: counted[4],
                awaiting_vectors: counted[5], reasons,
            },
            running_jobs, degraded, auth_enabled, paused: background.0, watch: background.1, memory_caps: background.2,
            languages: found.0, advice: found.1,
            upkeep: Upkeep {
                now: upkeep.0.clone(), versions: upkeep.1[0], fragments: upkeep.1[1], unindexed_chunks: upkeep.1[2],
                disk_free_bytes: upkeep.1[3], unread_pictures: upkeep.1[4], store: upkeep.0,
            },
        }
    }
}

/// Checks that a value stays the same when converted to JSON and back, and that an unknown field is rejected.
fn check_json<M>(value: &M)
where
    M: Clone + PartialEq + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let json = serde_json::to_value(value).unwrap();
    assert_eq!(&serde_json::from_value::<M>(json.clone()).unwrap(), value);
    let mut unknown = json;
    unknown.as_object_mut().unwrap().insert("colour".into(), 1.into());
    let error = serde_json::from_value::<M>(unknown).unwrap_err();
    assert!(error.to_string().contains("unknown field `colour`"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn plan_round_trips_json_and_rejects_unknown_field(it in plan()) {
        check_json(&it);
    }

    #[test]
    fn hit_round_trips_json_and_rejects_unknown_field(it in hit()) {
        check_json(&it);
    }

    #[test]
    fn answer_round_trips_json_and_rejects_unknown_field(it in response()) {
        check_json(&it);
    }

    #[test]
    fn stats_round_trip_json_and_reject_unknown_field(it in stats()) {
        check_json(&it);
    }

    #[test]
    fn filters_round_trip_json_and_reject_unknown_field(it in filters()) {
        check_json(&it);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn answers_round_trip(it in response()) {
        check_round_trip::<AskResponse, wire::AskResponse>(it);
    }

    #[test]
    fn questions_round_trip(
        query in ".{0,20}", mode in of(privacy()), root in of("/.{0,8}"), limit in of(any::<u32>()), filters in filters(),
        offset in of(any::<u32>()),
        explain in any::<bool>(), words_only in any::<bool>(), plain_words in any::<bool>(), plan in of(plan()),
    ) {
        let it = AskRequest {
            query, privacy_mode: mode, warehouse_root: root, limit, offset, filters, explain, words_only, plain_words, plan,
        };
        check_round_trip::<AskRequest, wire::AskRequest>(it);
    }

    #[test]
    fn streamed_answers_round_trip(it in response()) {
        for event in [
            AskEvent::Plan(Box::new(it.query_plan.clone())),
            AskEvent::Hits(it.hits.clone()),
            AskEvent::Text("piece".into()),
            AskEvent::Done(Box::new(it)),
        ] {
            check_round_trip::<AskEvent, wire::AskEvent>(event);
        }
    }

    #[test]
    fn jobs_round_trip(it in job()) {
        check_round_trip::<JobSnapshot, wire::JobSnapshot>(it);
    }

    #[test]
    fn status_round_trips(it in status()) {
        check_round_trip::<Status, wire::Status>(it);
    }

    // Case A11
    #[test]
    fn non_utf8_paths_round_trip(root in path(), path in path(), under in of(path())) {
        let mut file = samples::file();
        file.root = root;
        file.found.path = path;
        check_round_trip::<FileRecord, wire::FileRecord>(file);
        check_round_trip::<FileFilter, wire::FileFilter>(FileFilter { under, ..FileFilter::default() });
    }
}

#[test]
fn files_documents_and_filters_round_trip() {
    check_round_trip::<Document, wire::Document>(samples::document());
    for reason in Reason::ALL {
        let mut file = samples::file();
        (file.found.skip, file.reason, file.hash, file.found.created_ns) = (Some(reason), Some(reason), None, None);
        check_round_trip::<FileRecord, wire::FileRecord>(file);
    }
    check_round_trip::<FileFilter, wire::FileFilter>(FileFilter {
        under: Some("/w".into()),
        extensions: vec!["pdf".into()],
        path_glob: Some("a/**".into()),
        name_words: vec!["plan".into()],
        modified_after_ns: Some(1),
        modified_before_ns: Some(-2),
        min_size: Some(0),
        max_size: Some(9),
        owner: Some("ada".into()),
        language: Some("de".into()),
        author: Some("anna".into()),
        mail_dates: false,
        with_inner_names: false,
        state: Some(FileState::Pending),
        reason: Some(Reason::Empty),
        scope: Scope::All,
    });
}

#[test]
fn greps_similars_and_audits_round_trip() {
    let filters = L0Filters { extensions: vec![".pdf".into()], ..L0Filters::default() };
    check_round_trip::<SimilarRequest, wire::SimilarRequest>(SimilarRequest {
        path: "/w/a.md".into(),
        warehouse_root: Some("/w".into()),
        limit: Some(3),
        offset: Some(4),
        filters: filters.clone(),
    });
    check_round_trip::<GrepRequest, wire::GrepRequest>(GrepRequest {
        pattern: "a+".into(),
        ignore_case: true,
        fixed: true,
        fold: true,
        warehouse_root: None,
        limit: Some(9),
        before: 1,
        after: 2,
        filters,
    });
    let region = Some(Region { left: 0.1, top: 0.2, right: 0.3, bottom: 0.4 });
    let hit = GrepMatch {
        path: "a.zip!/b".into(),
        absolute_path: "/w/a.zip".into(),
        anchor: Anchor { page: Some(2), region, ..Anchor::default() },
        line: "aa".into(),
        start: 0,
        end: 2,
        before: vec!["b".into()],
        after: vec!["c".into(), "d".into()],
    };
    check_round_trip::<GrepResponse, wire::GrepResponse>(GrepResponse {
        matches: vec![hit],
        files_searched: 4,
        truncated: true,
        warnings: vec!["w".into()],
    });
    check_round_trip::<AuditRecord, wire::AuditRecord>(AuditRecord {
        time_ms: 1,
        destination: "https://example.com:443".into(),
        bytes: 7,
        purpose: "reasoning".into(),
        privacy_mode: PrivacyMode::CloudReasoningOk,
        allowed: true,
    });
}

#[test]
fn tables_round_trip() {
    let aggregate = |function| TableAggregate { function, column: Some("x".into()) };
    check_round_trip::<TableRequest, wire::TableRequest>(TableRequest {
        path: "/w/a.csv".into(),
        sheet: Some("Q1".into()),
        table: Some(2),
        filter: Some("x>1".into()),
        group_by: Some("date".into()),
        per: Some(TablePeriod::Month),
        aggregates: TableFunction::ALL.map(aggregate).to_vec(),
        top: Some(3),
        by: Some("x".into()),
        ascending: true,
        limit: Some(9),
        decimal: Some(",".into()),
        head_rows: Some(0),
        offset: 40,
    });
    check_round_trip::<TableResponse, wire::TableResponse>(samples::table("/w/a.csv"));
}

#[test]
fn metadata_order_is_kept() {
    let hit = samples::answer("x").hits.remove(0);
    let back = SearchHit::try_from(wire::SearchHit::from(hit.clone())).unwrap();
    let keys = |hit: &SearchHit| hit.metadata.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&back), keys(&hit));
}

#[test]
fn missing_or_unknown_wire_values_are_named() {
    let full = wire::JobSnapshot::from(samples::job(JobState::Running, 1));
    for (wrong, name) in [
        (wire::JobSnapshot { request: None, ..full.clone() }, "request"),
        (wire::JobSnapshot { state: 0, ..full.clone() }, "state"),
        (wire::JobSnapshot { phase: 99, ..full }, "99"),
    ] {
        let error = JobSnapshot::try_from(wrong).unwrap_err();
        assert!(error.message.contains(name), "{error}");
    }
    let hit = wire::SearchHit { metadata_json: "[1]".into(), ..wire::SearchHit::default() };
    assert!(SearchHit::try_from(hit).unwrap_err().message.contains("metadata_json"));
}
