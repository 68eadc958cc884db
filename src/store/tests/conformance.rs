//! One set of tests that every backend passes: LanceDB, Milvus behind the mock server, and Milvus Lite.

use std::collections::BTreeMap;

use vic_milvus::mock::MockServer;

use super::*;
use crate::config::Config;

/// A backend in a temporary directory.
pub(in crate::store) struct Place {
    pub(in crate::store) backend: Arc<dyn Backend>,
    pub(in crate::store) dir: tempfile::TempDir,
    /// The server, if the backend is Milvus behind the mock.
    pub(in crate::store) server: Option<MockServer>,
}

impl Place {
    fn lance() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place { backend: Arc::new(LanceBackend::new(dir.path().join("index"))), dir, server: None }
    }

    pub(in crate::store) async fn mock() -> Place {
        let (dir, server) = (tempfile::tempdir().unwrap(), MockServer::start().await.unwrap());
        let backend = open_backend(&config(dir.path(), &server.address(), &[])).await.unwrap();
        Place { backend, dir, server: Some(server) }
    }

    async fn lite() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("milvus_lite.db");
        let backend = open_backend(&config(dir.path(), data.to_str().unwrap(), &[])).await.unwrap();
        Place { backend, dir, server: None }
    }

    pub(in crate::store) async fn open(&self) -> Arc<dyn Store> {
        self.backend.open(FINGERPRINT, DIMENSION).await.unwrap()
    }
}

/// Returns the settings of a vic with its index in Milvus.
pub(in crate::store) fn config(dir: &Path, uri: &str, more: &[(&str, &str)]) -> Config {
    let data = dir.to_str().unwrap();
    let mut settings = vec![("VIC_DATA_DIR", data), ("VIC_VECTOR_BACKEND", "milvus"), ("VIC_MILVUS_URI", uri)];
    settings.extend(more);
    let lookup = |name: &str| settings.iter().rfind(|it| it.0 == name).map(|it| it.1.into());
    Config::from_lookup(&lookup).unwrap()
}

/// Makes a test of every function for every backend.
macro_rules! for_every_backend {
    ($($test:ident),* $(,)?) => {
        mod lance {
            $(#[tokio::test] async fn $test() { super::$test(super::Place::lance()).await; })*
        }
        mod milvus_mock {
            $(#[tokio::test] async fn $test() { super::$test(super::Place::mock().await).await; })*
        }
        mod milvus_lite {
            $(#[tokio::test]
            #[ignore = "needs milvus-lite in PATH: make test-milvus"]
            async fn $test() { super::$test(super::Place::lite().await).await; })*
        }
    };
}

for_every_backend!(
    empty_table_answers_all_queries,
    chunk_round_trips,
    replace_is_idempotent_and_removes_missing_chunks,
    replaced_part_keeps_other_chunks,
    copies_have_own_rows,
    deleted_file_is_in_no_answer,
    file_filter_limits_every_search,
    keyword_scores_are_those_of_lance,
    files_with_all_words_are_found,
    scan_returns_every_chunk_once,
    chunk_without_vector_is_found_by_keywords_only,
    large_change_is_split,
    reopened_table_has_same_rows,
    purged_text_is_gone,
    tables_of_unused_models_are_dropped,
    inspection_counts_rows,
);

fn ids_of(store: &dyn Store) -> Vec<(FileId, u64)> {
    store.rows_by_file().into_iter().collect()
}

async fn texts(store: &dyn Store, files: &FileSet) -> BTreeMap<(FileId, u32), String> {
    let mut found = BTreeMap::new();
    let mut add = |it: StoredChunk| {
        let old = found.insert((it.file_id, it.chunk.ordinal), it.chunk.body().to_owned());
        assert_eq!(old, None, "each chunk once");
        true
    };
    store.scan(files, &mut add).await.unwrap();
    found
}

async fn empty_table_answers_all_queries(place: Place) {
    let store = place.open().await;
    assert!(keyword(&*store, "anything", &FileSet::All).await.is_empty());
    assert!(nearest(&*store, &vector(0, 0.0), &FileSet::All, 5).await.is_empty());
    assert!(store.files_with(&required("anything"), &FileSet::All).await.unwrap().is_empty());
    assert!(store.file_ids().is_empty() && texts(&*store, &FileSet::All).await.is_empty());
    assert_eq!(store.stats().await.unwrap().chunks, 0);
    store.delete(&[1, 2]).await.unwrap();
    store.replace(Vec::new()).await.unwrap();
    store.maintain(Maintenance::Full).await.unwrap();
}

async fn chunk_round_trips(place: Place) {
    let store = place.open().await;
    let mut stored = file(4, &["some \"text\" with 100 % of \\ and \u{1F41F}", "more"]);
    stored.chunks[0].chunk.pieces = EncodedPieces::from_stored("[[6,{\"p\":3}]]");
    store.replace(vec![stored.clone()]).await.unwrap();
    for it in &stored.chunks {
        let ids = [(4, it.chunk.id.clone()), (5, it.chunk.id.clone())];
        assert_eq!(store.chunks(&ids).await.unwrap(), [StoredChunk { file_id: 4, chunk: it.chunk.clone() }]);
        let [(id, vector)] = &store.vectors(&ids).await.unwrap()[..] else { panic!("one vector") };
        // LanceDB keeps coded vectors in memory.
        let cosine: f32 = vector.iter().zip(&it.vector).map(|(a, b)| a * b).sum();
        assert!(*id == ids[0] && (cosine - 1.0).abs() < 1e-3, "{vector:?}");
        let similar = store.similarities(&it.vector, &ids).await.unwrap();
        assert!(similar.len() == 1 && (similar[0].score - 1.0).abs() < 1e-3, "{similar:?}");
    }
    assert_eq!(store.file_vectors(4).await.unwrap().len(), 2);
}

async fn replace_is_idempotent_and_removes_missing_chunks(place: Place) {
    let store = place.open().await;
    for _ in 0..2 {
        store.replace(vec![file(2, &["old alpha", "old beta", "old gamma"])]).await.unwrap();
    }
    assert_eq!(ids_of(&*store), [(2, 3)]);
    let version = store.version();
    store.replace(vec![file(2, &["new alpha"]), file(3, &[])]).await.unwrap();
    assert!(store.version() > version);
    assert_eq!((ids_of(&*store), store.chunk_count()), (vec![(2, 1)], 1));
    assert!(keyword(&*store, "beta", &FileSet::All).await.is_empty());
    assert_eq!(texts(&*store, &FileSet::All).await.into_values().collect::<Vec<_>>(), ["new alpha"]);
    let old = file(2, &["", "old beta"]).chunks[1].chunk.id.clone();
    assert!(store.chunks(&[(2, old)]).await.unwrap().is_empty());
}

async fn replaced_part_keeps_other_chunks(place: Place) {
    let store = place.open().await;
    store.replace(vec![file(1, &["zero", "one", "two", "three"])]).await.unwrap();
    let mut part = file(1, &["", "one again"]);
    part.chunks.remove(0);
    assert_eq!(store.replace_part(part, 1..3).await.unwrap(), 3);
    let found: Vec<String> = texts(&*store, &FileSet::All).await.into_values().collect();
    assert_eq!(found, ["zero", "one again", "three"]);
    assert!(keyword(&*store, "two", &FileSet::All).await.is_empty());
    let mut added = file(1, &["", "", "", "", "four"]);
    added.chunks.drain(..4);
    assert_eq!(store.replace_part(added, 4..9).await.unwrap(), 4);
    assert_eq!(ids_of(&*place.open_again(store).await), [(1, 4)]);
}

async fn copies_have_own_rows(place: Place) {
    let store = place.open().await;
    store.replace(vec![file(1, &["harbour at night", "second"]), file(9, &["old"])]).await.unwrap();
    assert_eq!(store.copy(&[(1, 8), (1, 9)]).await.unwrap(), [2, 2]);
    store.delete(&[1]).await.unwrap();
    let mut found = keyword(&*store, "harbour", &FileSet::All).await;
    found.sort_unstable();
    assert_eq!(found, [8, 9]);
    assert_eq!(store.file_vectors(8).await.unwrap().len(), 2);
    assert!(keyword(&*store, "old", &FileSet::All).await.is_empty());
}

async fn deleted_file_is_in_no_answer(place: Place) {
    let store = place.open().await;
    store.replace(many(20)).await.unwrap();
    store.delete(&[7]).await.unwrap();
    assert!(!store.has_file(7) && store.has_file(8));
    assert!(keyword(&*store, "number7", &FileSet::All).await.is_empty());
    assert!(!nearest(&*store, &vector(7, 0.007), &FileSet::All, 20).await.contains(&7));
    assert_eq!(keyword(&*store, "number8", &FileSet::All).await, [8]);
    assert_eq!(store.files_with(&required("common words"), &FileSet::All).await.unwrap().len(), 19);
    let gone = file(7, &["x"]).chunks[0].chunk.id.clone();
    assert!(store.chunks(&[(7, gone)]).await.unwrap().is_empty());
}

async fn file_filter_limits_every_search(place: Place) {
    let store = place.open().await;
    store.replace(many(60)).await.unwrap();
    let files = only(&[3, 5, 99]);
    let mut found = keyword(&*store, "common", &files).await;
    found.sort_unstable();
    assert_eq!(found, [3, 5]);
    assert_eq!(nearest(&*store, &vector(5, 0.005), &files, 9).await.first(), Some(&5));
    assert_eq!(nearest(&*store, &vector(5, 0.005), &files, 9).await.len(), 2);
    assert_eq!(store.files_with(&required("common"), &files).await.unwrap(), [3, 5]);
    assert_eq!(texts(&*store, &files).await.len(), 2);
    assert!(keyword(&*store, "common", &only(&[])).await.is_empty());
}

async fn keyword_scores_are_those_of_lance(place: Place) {
    let (store, reference) = (place.open().await, Place::lance());
    let lance = reference.open().await;
    let mut files = many(30);
    files.push(file(40, &["the harbour harbour harbour lights", "a pump, pumps and pumping in the harbour at night"]));
    files.push(file(41, &["café au lait: 1,234 cups"]));
    store.replace(files.clone()).await.unwrap();
    lance.replace(files).await.unwrap();
    for question in
        ["harbours", "pump harbour", "harbour harbour pump", "CAFE", "1,234", "common number3 harbour", "the"]
    {
        let scores = async |store: &dyn Store| {
            let hits = store.keyword_leg(&words(question), &FileSet::All, 50).await.unwrap();
            hits.into_iter().map(|it| ((it.file_id, it.chunk_id), it.score)).collect::<BTreeMap<_, _>>()
        };
        let (found, wanted) = (scores(&*store).await, scores(&*lance).await);
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{question}");
        for (id, score) in &wanted {
            assert!((found[id] / score - 1.0).abs() < 0.02, "{question}: {} for {score}", found[id]);
        }
    }
}

async fn files_with_all_words_are_found(place: Place) {
    let store = place.open().await;
    let texts = ["red harbour", "red pump", "harbours painted red", "blue"];
    store.replace((1..).zip(texts).map(|(id, text)| file(id, &[text, "green"])).collect()).await.unwrap();
    assert_eq!(store.files_with(&required("red harbour"), &FileSet::All).await.unwrap(), [1, 3]);
    assert_eq!(store.files_with(&required("green"), &FileSet::All).await.unwrap(), [1, 2, 3, 4]);
    assert!(store.files_with(&required("red green"), &FileSet::All).await.unwrap().is_empty(), "no chunk has both");
    assert!(store.files_with(&required("red zeppelin"), &FileSet::All).await.unwrap().is_empty());
}

async fn scan_returns_every_chunk_once(place: Place) {
    let store = place.open().await;
    let long: Vec<String> = (0..2_500).map(|it| format!("part{it}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    store.replace(vec![file(1, &["a", "b"]), file(2, &long), file(3, &["c"])]).await.unwrap();
    assert_eq!(texts(&*store, &FileSet::All).await.len(), 2_503);
    assert_eq!(store.chunks_of(vec![3, 1]).await.unwrap().len(), 3);
    let mut seen = 0;
    let mut first = |_| {
        seen += 1;
        false
    };
    store.scan(&FileSet::All, &mut first).await.unwrap();
    assert_eq!(seen, 1);
}

async fn chunk_without_vector_is_found_by_keywords_only(place: Place) {
    let store = place.open().await;
    let mut bare = file(1, &["harbour"]);
    bare.chunks[0].vector.clear();
    store.replace(vec![bare, file(2, &["pump"])]).await.unwrap();
    assert_eq!(keyword(&*store, "harbour", &FileSet::All).await, [1]);
    assert_eq!(nearest(&*store, &vector(2, 0.5), &FileSet::All, 5).await, [2]);
    assert!(store.file_vectors(1).await.unwrap().is_empty());
    let wrong =
        FileChunks { file_id: 3, chunks: vec![Embedded { vector: vec![1.0], ..file(3, &["x"]).chunks[0].clone() }] };
    assert!(store.replace(vec![wrong]).await.is_err() && !store.has_file(3));
}

async fn large_change_is_split(place: Place) {
    let store = place.open().await;
    store.replace(many(2_300)).await.unwrap();
    assert_eq!((store.chunk_count(), texts(&*store, &FileSet::All).await.len()), (2_300, 2_300));
    assert_eq!(keyword(&*store, "number2299", &FileSet::All).await, [2_299]);
    let wide: Vec<FileId> = (1..=2_000).collect();
    assert_eq!(keyword(&*store, "number2299 number7", &only(&wide)).await, [7]);
    assert_eq!(store.files_with(&required("common words"), &FileSet::All).await.unwrap().len(), 2_300);
}

async fn reopened_table_has_same_rows(place: Place) {
    let store = place.open().await;
    store.replace(many(30)).await.unwrap();
    store.replace(vec![file(7, &["written anew", "in two parts"])]).await.unwrap();
    store.delete(&[8]).await.unwrap();
    let before = (ids_of(&*store), texts(&*store, &FileSet::All).await);
    let store = place.open_again(store).await;
    assert_eq!((ids_of(&*store), texts(&*store, &FileSet::All).await), before);
    assert_eq!(keyword(&*store, "anew", &FileSet::All).await, [7]);
    assert_eq!(store.recovery(), Recovery::default());
}

async fn purged_text_is_gone(place: Place) {
    let store = place.open().await;
    store.replace(many(10)).await.unwrap();
    store.delete(&[3]).await.unwrap();
    let version = store.purge().await.unwrap();
    assert!(store.prune_before(version).await.unwrap());
    assert!(keyword(&*store, "number3", &FileSet::All).await.is_empty());
    assert_eq!(keyword(&*store, "number4", &FileSet::All).await, [4]);
}

async fn tables_of_unused_models_are_dropped(place: Place) {
    let (old, new) = ("aaaaaaaaaaaa", "bbbbbbbbbbbb");
    place.backend.open(old, DIMENSION).await.unwrap().replace(many(3)).await.unwrap();
    place.backend.set_serving(old).await.unwrap();
    let store = place.backend.open(new, 4).await.unwrap();
    assert_eq!(store.chunk_count(), 0);
    place.backend.drop_tables_except(&[old, new]).await.unwrap();
    assert_eq!(place.backend.inspect(old, DIMENSION).await.unwrap().unwrap().rows.len(), 3);
    place.backend.set_serving(new).await.unwrap();
    place.backend.set_serving(new).await.unwrap();
    place.backend.drop_tables_except(&[new]).await.unwrap();
    assert_eq!(place.backend.inspect(old, DIMENSION).await.unwrap(), None);
    assert!(place.backend.inspect(new, 4).await.unwrap().is_some());
}

async fn inspection_counts_rows(place: Place) {
    assert_eq!(place.backend.inspect(FINGERPRINT, DIMENSION).await.unwrap(), None);
    let store = place.open().await;
    store.replace(vec![file(1, &["a", "b"]), file(2, &["c"])]).await.unwrap();
    let found = place.backend.inspect(FINGERPRINT, DIMENSION).await.unwrap().unwrap();
    assert_eq!((found.rows.into_iter().collect::<Vec<_>>(), found.damaged.len()), (vec![(1, 2), (2, 1)], 0));
}

impl Place {
    /// Closes the table and opens it again.
    pub(in crate::store) async fn open_again(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        self.open().await
    }
}
