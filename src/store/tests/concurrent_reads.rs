//! Tests of queries that run at the same time as writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::tests::*;

/// Number of files that are rewritten together in each round.
const FILES: i64 = 200;

/// Returns the files of a round, each with its own word.
fn own_words(round: usize) -> Vec<FileChunks> {
    (1..=FILES).map(|it| file(it, &[&format!("kingfisher{it} and others, {round}")])).collect()
}

/// Queries every file with each kind of search while `write` runs. Fails if a file is not found.
async fn query_during(store: LanceStore, rounds: usize, write: impl AsyncFn(&LanceStore, usize)) {
    let (store, is_over) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    let asking = tokio::spawn({
        let (store, is_over) = (store.clone(), is_over.clone());
        async move {
            let mut missed = std::collections::BTreeMap::<&str, u32>::new();
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) {
                asked += 1;
                let id = asked % FILES + 1;
                let (word, only) = (format!("kingfisher{id}"), FileSet::Only(vec![id].into()));
                let mut look = |way, found: bool| *missed.entry(way).or_default() += u32::from(!found);
                look("keyword", keyword(&*store, &word, &FileSet::All).await == [id]);
                look("all words", store.files_with(&required(&word), &FileSet::All).await.unwrap() == [id]);
                look("nearest", nearest(&*store, &vector(id as usize, 0.0), &only, 5).await == [id]);
                let mut scanned = 0;
                let mut count = |_| {
                    scanned += 1;
                    true
                };
                store.scan(&only, &mut count).await.unwrap();
                look("scan", scanned == 1);
                look("chunks of", store.chunks_of(vec![id]).await.unwrap().len() == 1);
                look("vectors of", store.file_vectors(id).await.unwrap().len() == 1);
            }
            (asked, missed)
        }
    });
    for round in 0..rounds {
        write(&store, round).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let (asked, missed) = asking.await.unwrap();
    assert!(asked > 20, "no query ran");
    assert!(missed.values().all(|it| *it == 0), "of {asked}: {missed:?}");
}

// Case B11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewritten_files_are_found_at_every_moment() {
    for is_hot in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(own_words(0)).await.unwrap();
        if !is_hot {
            store.drop_memory();
        }
        let write = async |store: &LanceStore, round: usize| {
            store.replace(own_words(round)).await.unwrap();
            if round % 5 == 4 {
                store.maintain(Maintenance::Full).await.unwrap();
            }
        };
        query_during(store, 30, write).await;
    }
}
