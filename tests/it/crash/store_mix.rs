//! Tests the store alone with random changes, maintenance and restarts: it must hold the latest version of each file once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use vic::model::{Anchor, Chunk, ChunkId, Embedded, EncodedPieces, FileChunks, FileId, Tier};
use vic::store::{FileSet, LanceStore, Maintenance, Store};

use crate::limits::disk_space::MAX_VERSIONS;
use crate::support::harness::World;
use crate::support::long_tests::Rng;
use crate::support::long_tests::check_at_most;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;

const DIMENSION: usize = 8;

/// Number of file ids that changes draw from.
const FILES: u64 = 40;

/// Changes between two comparisons of the store with the expected texts.
const ROUND: u64 = 25;

/// The expected chunk texts of each file, by ordinal.
type ExpectedTexts = BTreeMap<FileId, BTreeMap<u32, String>>;

async fn open_store(dir: &Path) -> LanceStore {
    let store = LanceStore::open(dir, "0123456789abcdef", DIMENSION).await.unwrap();
    assert!(!store.recovery().has_lost_commits && store.recovery().quarantined.is_empty());
    store
}

fn make_chunks(file_id: FileId, serial: u64, ordinals: std::ops::Range<u32>) -> FileChunks {
    let chunk = |ordinal: u32| Embedded {
        chunk: Chunk {
            id: ChunkId(format!("{:032x}", u128::from(serial) * 100 + u128::from(ordinal))),
            ordinal,
            text: format!("part {ordinal} of version {serial} of file {file_id}"),
            body_start: 0,
            anchor: Anchor::default(),
            pieces: EncodedPieces::default(),
            heading_path: Vec::new(),
            tokens: 9,
            tier: Tier::L1,
        },
        vector: (0..DIMENSION).map(|axis| if axis == serial as usize % DIMENSION { 1.0 } else { 0.0 }).collect(),
    };
    FileChunks { file_id, chunks: ordinals.map(chunk).collect() }
}

fn chunk_texts(file: &FileChunks) -> BTreeMap<u32, String> {
    file.chunks.iter().map(|it| (it.chunk.ordinal, it.chunk.text.clone())).collect()
}

async fn apply_change(store: &LanceStore, model: &mut ExpectedTexts, dice: &mut Rng, serial: u64) {
    let file_id = dice.below(FILES) as FileId + 1;
    match dice.below(100) {
        0..45 => {
            let others = [file_id, (file_id + 7) % FILES as FileId + 1];
            let files: Vec<FileChunks> = others[..dice.in_range(1..3) as usize]
                .iter()
                .map(|id| make_chunks(*id, serial, 0..dice.below(5) as u32))
                .collect();
            for file in &files {
                model.insert(file.file_id, chunk_texts(file));
            }
            store.replace(files).await.unwrap();
        }
        45..60 => {
            model.remove(&file_id);
            store.delete(&[file_id]).await.unwrap();
        }
        60..75 => {
            let part = make_chunks(file_id, serial, 1_000..1_000 + dice.below(3) as u32);
            let known = model.entry(file_id).or_default();
            known.retain(|ordinal, _| *ordinal < 1_000);
            known.extend(chunk_texts(&part));
            let rows = store.replace_part(part, 1_000..2_000).await.unwrap();
            assert_eq!(rows, known.len() as u64);
        }
        75..85 => {
            let to = (file_id + 3) % FILES as FileId + 1;
            let copied = model.get(&file_id).cloned().unwrap_or_default();
            assert_eq!(store.copy(&[(file_id, to)]).await.unwrap(), [copied.len() as u64]);
            model.insert(to, copied);
        }
        // Runs maintenance and writes at the same time.
        _ => {
            let file = make_chunks(file_id, serial, 0..2);
            let gone = (file_id + 11) % FILES as FileId + 1;
            model.insert(file_id, chunk_texts(&file));
            model.remove(&gone);
            let write = async {
                store.replace(vec![file]).await?;
                store.delete(&[gone]).await
            };
            let (upkeep, written) = tokio::join!(store.maintain(Maintenance::Full), write);
            upkeep.and(written).unwrap();
        }
    }
}

async fn compare(store: &LanceStore, model: &ExpectedTexts, what: &str) {
    let mut found = ExpectedTexts::new();
    let mut rows = 0;
    let mut each = |stored: vic::model::StoredChunk| {
        rows += 1;
        found.entry(stored.file_id).or_default().insert(stored.chunk.ordinal, stored.chunk.text);
        true
    };
    store.scan(&FileSet::All, &mut each).await.unwrap();
    let expected: ExpectedTexts =
        model.iter().filter(|it| !it.1.is_empty()).map(|(id, it)| (*id, it.clone())).collect();
    assert_eq!(found, expected, "{what}");
    assert_eq!(rows, expected.values().map(BTreeMap::len).sum::<usize>(), "{what}: duplicate rows");
    assert_eq!(store.chunk_count(), rows as u64, "{what}: the count");
    let vectors = store.vector_leg(&[1.0; DIMENSION], &FileSet::All, 10_000).await.unwrap();
    assert_eq!(vectors.len(), rows, "{what}: the vectors");
}

fn run_changes(changes: u64, seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut dice, mut model) = (Rng::new(seed), ExpectedTexts::new());
        let mut store = open_store(dir.path()).await;
        for serial in 0..changes {
            apply_change(&store, &mut model, &mut dice, serial).await;
            if serial % ROUND == ROUND - 1 {
                compare(&store, &model, &format!("after {serial} changes of seed {seed}")).await;
                if dice.below(3) == 0 {
                    drop(store);
                    store = open_store(dir.path()).await;
                    compare(&store, &model, &format!("reopened after {serial} changes of seed {seed}")).await;
                }
            }
        }
        figure("changes, maintenance and restarts mixed", format!("{changes} changes, seed {seed}, 0 differences"));
        // Waits first, because the newest version may still be in use: a daemon checks the version every second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.maintain(Maintenance::Prune).await.unwrap();
        check_at_most(
            "versions of the table at the end",
            store.version_count().unwrap() as u64,
            MAX_VERSIONS,
            MAX_VERSIONS,
        );
    });
}

// Case B11
#[test]
fn random_changes_upkeep_restarts_keep_latest_versions() {
    run_changes(250, 1);
}

/// Runs twenty seeds with ten thousand changes each: 200,000 operations with equal results. A restart only reopens the store
/// here; `kills` restarts killed daemons, and `daemon_mix` changes files in a folder.
// Case B11
#[test]
#[ignore = "takes hours: see `make torture`"]
fn torture_mix_of_changes() {
    for seed in 1..=size_from_env("VIC_TORTURE_SEEDS", 20) {
        run_changes(size_from_env("VIC_TORTURE_CHANGES", 10_000), seed);
    }
}

/// Number of rows outside the keyword index: more than a query may scan there. Without further changes, only the start of a
/// daemon adds these rows to the index.
const UNINDEXED_ROWS: u64 = 150;

#[test]
fn unindexed_rows_enter_keyword_index_after_start() {
    let mut world = World::new().start();
    (0..UNINDEXED_ROWS).for_each(|it| drop(world.write(&format!("{}/{it}.md", it % 20), format!("Berth {it}."))));
    world.index();
    let outside = |world: &World| world.json(&["status"])["upkeep"]["unindexed_chunks"].as_u64().unwrap();
    assert_eq!(outside(&world), 0);
    assert!(world.terminate());
    let config = world.config();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let embedder = vic::embed::open(&config).await.unwrap();
        let (fingerprint, dimension) = (embedder.fingerprint(), embedder.dimension());
        let store = LanceStore::open(&config.db_path, fingerprint, dimension).await.unwrap();
        let mut files = Vec::new();
        let mut each = |stored: vic::model::StoredChunk| {
            let vector = (0..dimension).map(|axis| if axis == 0 { 1.0 } else { 0.0 }).collect();
            let chunks = vec![Embedded { chunk: stored.chunk, vector }];
            files.push(FileChunks { file_id: stored.file_id, chunks });
            true
        };
        store.scan(&FileSet::All, &mut each).await.unwrap();
        store.replace(files).await.unwrap();
        assert_eq!(store.stats().await.unwrap().unindexed_rows, UNINDEXED_ROWS);
    });
    world.spawn_and_wait();
    world.wait_until("the rows are in the keyword index", Duration::from_secs(60), |it| outside(it) == 0);
    assert_eq!(world.json(&["status"])["chunks"], UNINDEXED_ROWS, "chunks must not be written twice");
    assert_eq!(world.paths(&["berth 134"])[0], "14/134.md");
}
