mod analysed_terms;
mod concurrent_reads;
pub(super) mod conformance;
mod filters;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use lancedb::DistanceType;
use lancedb::index::Index;
use lancedb::index::vector::IvfPqIndexBuilder;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use super::*;
use crate::error::ErrorCode;
use crate::model::{Anchor, Chunk, ChunkId, Embedded, EncodedPieces, FileChunks, FileId, StoredChunk, Tier};

pub(super) const DIMENSION: usize = 8;
pub(super) const FINGERPRINT: &str = "0123456789abcdef";

pub(super) async fn open(dir: &Path) -> LanceStore {
    LanceStore::open(dir, FINGERPRINT, DIMENSION).await.unwrap()
}

/// Returns a unit vector along axis `axis`, turned towards the last axis by `tilt`.
pub(super) fn vector(axis: usize, tilt: f32) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSION];
    vector[axis % (DIMENSION - 1)] = (1.0 - tilt * tilt).sqrt();
    vector[DIMENSION - 1] = tilt;
    vector
}

pub(super) fn file(file_id: FileId, texts: &[&str]) -> FileChunks {
    let chunks = texts.iter().enumerate().map(|(ordinal, text)| Embedded {
        chunk: Chunk {
            id: ChunkId(format!("{:032x}", file_id as u128 * 1000 + ordinal as u128)),
            ordinal: ordinal as u32,
            text: format!("Title\n{text}"),
            body_start: 6,
            anchor: Anchor { page: Some(3), verbatim: true, ..Anchor::default() },
            pieces: EncodedPieces::default(),
            heading_path: vec!["A".into(), "B \"quoted\"".into()],
            tokens: 7,
            tier: Tier::L1,
        },
        vector: vector(file_id as usize, 0.001 * (file_id as f32 % 500.0)),
    });
    FileChunks { file_id, chunks: chunks.collect() }
}

/// Returns the files `1..=count`; all contain `common`, and each its own number.
pub(super) fn many(count: FileId) -> Vec<FileChunks> {
    (1..=count).map(|id| file(id, &[&format!("common words of number{id}")])).collect()
}

fn words(text: &str) -> KeywordQuery {
    KeywordQuery { terms: vic_words::question_terms(text, &[vic_words::Language::English]) }
}

pub(super) fn required(text: &str) -> Vec<Vec<String>> {
    vic_words::required_words(text)
}

fn only(ids: &[FileId]) -> FileSet {
    FileSet::Only(Arc::new(ids.to_vec()))
}

pub(super) async fn keyword(store: &dyn Store, text: &str, files: &FileSet) -> Vec<FileId> {
    let hits = store.keyword_leg(&words(text), files, 10).await.unwrap();
    assert!(hits.windows(2).all(|it| it[0].score >= it[1].score));
    hits.into_iter().map(|it| it.file_id).collect()
}

pub(super) async fn nearest(store: &dyn Store, vector: &[f32], files: &FileSet, limit: usize) -> Vec<FileId> {
    let hits = store.vector_leg(vector, files, limit).await.unwrap();
    assert!(hits.windows(2).all(|it| it[0].score >= it[1].score));
    hits.into_iter().map(|it| it.file_id).collect()
}

#[tokio::test]
async fn table_of_another_vector_length_is_refused_with_both_lengths() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let error = LanceStore::open(dir.path(), FINGERPRINT, 2 * DIMENSION).await.err().unwrap();
    assert_eq!(error.code, crate::error::ErrorCode::FailedPrecondition);
    assert!(error.message.contains("vectors of 8 numbers, but the model gives 16"), "{error}");
    assert!(error.hint.unwrap().contains("vic index --full"));
}

#[tokio::test]
async fn empty_store_answers_all_queries() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    assert!(keyword(&store, "anything", &FileSet::All).await.is_empty());
    assert!(nearest(&store, &vector(0, 0.0), &FileSet::All, 5).await.is_empty());
    assert!(store.file_ids().is_empty());
    assert_eq!(store.stats().await.unwrap().chunks, 0);
    store.delete(&[1, 2]).await.unwrap();
    store.replace(Vec::new()).await.unwrap();
    store.maintain(Maintenance::Full).await.unwrap();
}

#[tokio::test]
async fn new_table_uses_file_format_with_cheap_row_reads() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let manifest = store.table.as_native().unwrap().manifest().await.unwrap();
    assert_eq!(manifest.data_storage_format.version.to_manifest_string(), "2.1");
}

#[tokio::test]
async fn chunk_round_trips_through_table() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let stored = file(4, &["some text", "more"]);
    store.replace(vec![stored.clone()]).await.unwrap();
    let chunk = stored.chunks[1].chunk.clone();
    let found = store.chunks(&[(4, chunk.id.clone()), (5, chunk.id.clone())]).await.unwrap();
    assert_eq!(found, [StoredChunk { file_id: 4, chunk }]);
}

/// Asserts that the row id of every row is known.
async fn check_addresses(store: &LanceStore) {
    let rows = store.table.query().select(Select::columns(&["chunk_id", "file_id"])).with_row_id();
    let batches: Vec<RecordBatch> = rows.execute().await.unwrap().try_collect().await.unwrap();
    assert!(!batches.is_empty());
    for batch in &batches {
        assert_eq!(store.memory().row_ids().unwrap().chunks(batch).as_ref(), schema::ids(batch).ok().as_ref());
    }
}

#[tokio::test]
async fn row_ids_survive_insert_compaction_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(50)).await.unwrap();
    store.replace(vec![file(7, &["written anew", "in two parts"]), file(60, &["new"])]).await.unwrap();
    store.copy(&[(7, 61), (8, 62)]).await.unwrap();
    check_addresses(&store).await;
    for id in 100..140 {
        store.replace(vec![file(id, &["one of many small fragments"])]).await.unwrap();
    }
    let fragments = store.stats().await.unwrap().fragments;
    store.maintain(Maintenance::Full).await.unwrap();
    assert!(store.stats().await.unwrap().fragments < fragments, "compacted");
    check_addresses(&store).await;
    drop(store);
    check_addresses(&open(dir.path()).await).await;
}

#[tokio::test]
async fn replace_is_idempotent_and_removes_missing_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for _ in 0..2 {
        store.replace(vec![file(1, &["apple", "banana"]), file(2, &["cherry"])]).await.unwrap();
        assert_eq!(store.stats().await.unwrap().chunks, 3);
        assert_eq!(store.table.count_rows(None).await.unwrap(), 3);
    }
    store.replace(vec![file(1, &["apple"])]).await.unwrap();
    assert_eq!(keyword(&store, "banana", &FileSet::All).await, [0; 0]);
    store.replace(vec![file(1, &[])]).await.unwrap();
    assert_eq!(store.file_ids(), [2]);
    assert_eq!(store.table.count_rows(None).await.unwrap(), 1);
}

#[tokio::test]
async fn maintenance_merges_many_small_fragments() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(0, &["apple"])]).await.unwrap();
    for id in 1..300 {
        let batch = schema::batch(&[file(id, &["common"])], DIMENSION).unwrap();
        store.table.add(batch).execute().await.unwrap();
    }
    store.maintain(Maintenance::Full).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert!(stats.fragments < 10, "{stats:?}");
}

#[tokio::test]
async fn deleted_files_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(5)).await.unwrap();
    store.delete(&[2, 4, 77]).await.unwrap();
    assert_eq!(store.file_ids(), [1, 3, 5]);
    assert_eq!(keyword(&store, "number2 number3", &FileSet::All).await, [3]);
    assert!(!nearest(&store, &vector(2, 0.0), &FileSet::All, 10).await.contains(&2));
}

#[tokio::test]
async fn many_copies_are_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(1, &["apple", "banana"]), file(2, &["cherry"])]).await.unwrap();
    let before = store.version_count().unwrap();
    let copies: Vec<(FileId, FileId)> = (10..60).map(|to| (1 + to % 2, to)).collect();
    let counts = store.copy(&copies).await.unwrap();
    assert_eq!(counts, copies.iter().map(|it| 3 - it.0 as u64).collect::<Vec<_>>());
    assert_eq!(store.version_count().unwrap(), before + 1);
    assert_eq!(store.chunk_count(), 3 + 25 * 3);
    assert_eq!(store.files_with(&required("cherry"), &FileSet::All).await.unwrap().len(), 26);
}

#[tokio::test]
async fn copy_replaces_rows_of_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(1, &["apple", "banana"]), file(2, &["cherry"])]).await.unwrap();
    assert_eq!(store.copy(&[(1, 2), (9, 3), (1, 1)]).await.unwrap(), [2, 0, 2]);
    assert_eq!(keyword(&store, "banana cherry", &FileSet::All).await, [1, 2]);
    assert_eq!(store.stats().await.unwrap().chunks, 4);
    let shared = file(1, &["apple"]).chunks[0].chunk.id.clone();
    assert_eq!(store.chunks(&[(2, shared.clone())]).await.unwrap()[0].file_id, 2);
    assert_eq!(store.similarities(&vector(1, 0.001), &[(1, shared)]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn query_without_words_or_with_odd_characters_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(1, &["the quick fox's résumé"]), file(2, &["slow dogs"])]).await.unwrap();
    for upkeep in [false, true] {
        if upkeep {
            store.maintain(Maintenance::Full).await.unwrap();
        }
        for text in ["", "  ", "the and of", "'\"\\()[]{}*?:^~!", "\u{0}"] {
            assert!(keyword(&store, text, &FileSet::All).await.is_empty(), "{text:?}");
        }
        for text in ["fox' OR 1=1 --", "+fox -quick", "\"quick\" AND (fox", "RÉSUMÉ", "FOXES"] {
            assert_eq!(keyword(&store, text, &FileSet::All).await, [1], "{text:?}");
        }
        assert_eq!(keyword(&store, "dog", &FileSet::All).await, [2]);
        assert_eq!(keyword(&store, &"fox ".repeat(10_000), &FileSet::All).await, [1]);
    }
}

#[tokio::test]
async fn similarity_equals_cosine() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(6)).await.unwrap();
    let query = vector(3, 0.0);
    let by_leg = store.vector_leg(&query, &FileSet::All, 6).await.unwrap();
    let ids: Vec<_> = by_leg.iter().map(|it| (it.file_id, it.chunk_id.clone())).collect();
    let asked = store.similarities(&query, &ids).await.unwrap();
    assert_eq!(asked.len(), 6);
    for hit in &by_leg {
        let same = asked.iter().find(|it| it.chunk_id == hit.chunk_id).unwrap();
        assert!((same.score - hit.score).abs() < 1e-5, "{same:?} {hit:?}");
    }
    assert!((by_leg[0].score - (1.0_f32 - 0.003 * 0.003).sqrt()).abs() < 1e-5);
}

#[tokio::test]
async fn reopened_store_has_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(20)).await.unwrap();
    store.delete(&[7]).await.unwrap();
    let before = store.stats().await.unwrap().chunks;
    drop(store);
    let store = open(dir.path()).await;
    assert_eq!((store.stats().await.unwrap().chunks, before), (19, 19));
    assert!(!store.file_ids().contains(&7));
    assert_eq!(keyword(&store, "number13", &FileSet::All).await, [13]);
}

#[tokio::test]
async fn partly_covered_words_are_found_and_merged_by_maintenance() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(5)).await.unwrap();
    assert!(!store.is_queried());
    for id in 10..30 {
        store.replace(vec![file(id, &[&format!("common number{id}")]), file(1, &["common first"])]).await.unwrap();
        store.maintain(Maintenance::Keywords).await.unwrap();
        assert_eq!(store.stats().await.unwrap().unindexed_rows, 0);
    }
    assert!(parts(&store).await > 1);
    for id in 10..30 {
        assert_eq!(keyword(&store, &format!("number{id}"), &FileSet::All).await, [id]);
    }
    assert_eq!(keyword(&store, "first", &FileSet::All).await, [1], "what was replaced is not found");
    assert!(store.is_queried());
    store.maintain(Maintenance::Full).await.unwrap();
    assert_eq!(parts(&store).await, 1);
    assert_eq!(keyword(&store, "number29", &FileSet::All).await, [29]);
}

/// Returns the number of parts of the keyword index.
async fn parts(store: &LanceStore) -> u32 {
    let indices = store.table.list_indices().await.unwrap();
    indices.iter().find(|it| it.columns == [schema::TERMS]).unwrap().num_segments.unwrap()
}

// Case B11
#[tokio::test]
async fn repeated_maintenance_keeps_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for round in 0..12 {
        let first = round * 20 + 1;
        store
            .replace((first..first + 20).map(|id| file(id, &[&format!("common number{id}")])).collect())
            .await
            .unwrap();
        store.delete(&[first]).await.unwrap();
        store.replace(vec![file(first + 1, &["common again"])]).await.unwrap();
        store.maintain(Maintenance::Full).await.unwrap();
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.chunks, stats.unindexed_rows, stats.upkeep_error), ((round as u64 + 1) * 19, 0, None));
        for id in (2..=first + 19).step_by(20) {
            assert_eq!(keyword(&store, &format!("number{}", id + 3), &FileSet::All).await, [id + 3]);
            assert!(keyword(&store, &format!("number{id}"), &FileSet::All).await.is_empty());
            assert_eq!(nearest(&store, &vector(1, 0.5), &only(&[id]), 3).await, [id]);
        }
    }
    assert!(store.stats().await.unwrap().fragments <= 34);
}

#[tokio::test]
async fn each_model_has_its_own_table() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(3)).await.unwrap();
    let other = LanceStore::open(dir.path(), "another model, in words", 4).await.unwrap();
    assert!(other.file_ids().is_empty());
    let tables = LanceStore::tables(dir.path()).await.unwrap();
    assert_eq!(tables.len(), 2);
    assert!(tables.contains(&LanceStore::table_of(FINGERPRINT)), "{tables:?}");
    LanceStore::drop_table(dir.path(), &LanceStore::table_of("another model, in words")).await.unwrap();
    assert_eq!(LanceStore::tables(dir.path()).await.unwrap(), ["chunks_0123456789ab"]);
    assert_eq!(keyword(&store, "number2", &FileSet::All).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_found_while_it_is_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()).await);
    store.replace(many(3)).await.unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for round in 0..20 {
                store.replace(vec![file(2, &[&format!("round {round}")])]).await.unwrap();
            }
        }
    });
    let mut asked = 0;
    while !writer.is_finished() || asked == 0 {
        assert_eq!(nearest(&*store, &vector(2, 0.0), &only(&[2]), 3).await, [2], "after {asked} queries");
        asked += 1;
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn queries_are_answered_during_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()).await);
    store.replace(many(10)).await.unwrap();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for round in 1..=8 {
                let files = (round * 100..round * 100 + 10).map(|id| file(id, &["common later"])).collect();
                store.replace(files).await.unwrap();
                store.maintain(Maintenance::Full).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        assert_eq!(keyword(&*store, "number7", &FileSet::All).await, [7]);
        // Expects file 7 among the first three: other files are closer than quantised vectors can tell apart.
        assert!(nearest(&*store, &vector(7, 0.007), &FileSet::All, 3).await.contains(&7));
    }
    writer.await.unwrap();
    assert_eq!(store.stats().await.unwrap().chunks, 90);
}

// Case B13
#[tokio::test]
async fn table_of_other_dimension_and_wrong_vector_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let error = LanceStore::open(dir.path(), FINGERPRINT, DIMENSION + 1).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::FailedPrecondition);
    let mut wrong = file(1, &["x"]);
    wrong.chunks[0].vector.push(0.0);
    assert!(store.replace(vec![wrong]).await.is_err());
    assert!(store.file_ids().is_empty());
}

/// Returns chunks of a file with ordinals from `first` on.
fn part(file_id: FileId, texts: &[&str], first: u32) -> FileChunks {
    let mut part = file(file_id, texts);
    for (ordinal, it) in (first..).zip(&mut part.chunks) {
        it.chunk.ordinal = ordinal;
        it.chunk.id = ChunkId(format!("part-{file_id}-{ordinal}"));
    }
    part
}

#[tokio::test]
async fn replace_part_keeps_the_rest_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(1, &["apple", "banana"]), file(2, &["cherry"])]).await.unwrap();
    assert_eq!(store.replace_part(part(1, &["damson", "elder"], 100), 100..200).await.unwrap(), 4);
    assert_eq!(store.replace_part(part(1, &["fig"], 200), 200..300).await.unwrap(), 5);
    assert_eq!(store.replace_part(part(1, &["grape"], 100), 100..200).await.unwrap(), 4);
    for (word, expected) in [("damson", 0), ("grape", 1), ("fig", 1), ("banana", 1)] {
        assert_eq!(keyword(&store, word, &FileSet::All).await.len(), expected, "{word}");
    }
    assert_eq!(store.table.count_rows(None).await.unwrap(), 5);
    assert_eq!(store.memory().vectors().unwrap().nearest(&vector(0, 0.0), &FileSet::All, 99).len(), 5);
    assert_eq!(store.replace_part(part(1, &[], 100), 100..200).await.unwrap(), 3);
    assert_eq!(store.chunk_count(), 4);
}

#[tokio::test]
async fn file_without_chunks_gets_part_until_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.replace_part(part(7, &["found by a skill"], 100), 100..200).await.unwrap(), 1);
    assert_eq!(keyword(&store, "skill", &FileSet::All).await, [7]);
    store.replace(vec![file(7, &["new content"])]).await.unwrap();
    assert_eq!(keyword(&store, "skill", &FileSet::All).await, [0; 0]);
    assert_eq!(store.chunk_count(), 1);
}

#[tokio::test]
async fn chunk_without_vector_is_found_by_keywords_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let whole = file(1, &["apple"]);
    let mut waiting = whole.clone();
    waiting.chunks[0].vector.clear();
    store.replace(vec![waiting, file(2, &["banana"])]).await.unwrap();
    let id = [(1, whole.chunks[0].chunk.id.clone())];
    let asked = vector(1, 0.0);
    for store in [store, open(dir.path()).await] {
        for in_memory in [true, false] {
            if !in_memory {
                store.drop_memory();
            }
            assert_eq!(keyword(&store, "apple", &FileSet::All).await, [1]);
            assert_eq!(nearest(&store, &asked, &FileSet::All, 5).await, [2], "in memory: {in_memory}");
            assert_eq!(store.similarities(&asked, &id).await.unwrap(), []);
            assert_eq!(store.vectors(&id).await.unwrap(), []);
            assert_eq!(store.file_vectors(1).await.unwrap(), [[0.0; 0]; 0]);
            assert_eq!(store.chunks_of(vec![1]).await.unwrap()[0].chunk, whole.chunks[0].chunk);
        }
    }
    let store = open(dir.path()).await;
    store.replace(vec![whole]).await.unwrap();
    assert_eq!(nearest(&store, &asked, &FileSet::All, 5).await, [1, 2]);
    assert_eq!(store.file_vectors(1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn keyword_search_is_unaffected_by_moved_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let check = async |what: &str| {
        let found = store.keyword_leg(&words("common"), &FileSet::All, 1_000).await.unwrap();
        let again = store.keyword_leg(&words("common"), &FileSet::All, 1_000).await.unwrap();
        let table = open(dir.path()).await;
        table.drop_memory();
        let plain = table.keyword_leg(&words("common"), &FileSet::All, 1_000).await.unwrap();
        assert!((&found, &again) == (&plain, &plain), "{what}");
        found.len()
    };
    store.replace(many(60)).await.unwrap();
    assert_eq!(check("new rows").await, 60);
    for id in 1..40 {
        store.replace(vec![file(id, &["common", "more of the common"])]).await.unwrap();
    }
    assert_eq!(check("rows written anew").await, 99);
    store.delete(&[50, 51]).await.unwrap();
    store.copy(&[(1, 70)]).await.unwrap();
    assert_eq!(check("rows deleted and copied").await, 99);
    store.maintain(Maintenance::Full).await.unwrap();
    assert!(store.stats().await.unwrap().fragments <= 2, "compacted");
    assert_eq!(check("rows moved").await, 99);
}
