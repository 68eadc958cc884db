//! Tests of filters by file: narrow ones, wide ones, and filters over many rows.

use super::*;

#[tokio::test]
async fn narrow_filter_finds_file_of_any_rank() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(300)).await.unwrap();
    for upkeep in [false, true] {
        if upkeep {
            store.maintain(Maintenance::Full).await.unwrap();
        }
        assert_eq!(keyword(&store, "common", &only(&[250])).await, [250]);
        assert_eq!(nearest(&store, &vector(1, 0.0), &only(&[250]), 1).await, [250]);
        assert!(keyword(&store, "common", &only(&[])).await.is_empty());
        assert!(nearest(&store, &vector(1, 0.0), &only(&[999]), 1).await.is_empty());
    }
}

#[tokio::test]
async fn wide_filter_excludes_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(8)).await.unwrap();
    let mut found = keyword(&store, "common", &only(&[1, 2, 3, 4, 6, 7, 8, 1000])).await;
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(keyword(&store, "common", &only(&[1, 2, 3, 4, 5, 6, 7, 8])).await.len(), 8);
}

/// Creates a table too large for memory, with an approximate index of many partitions.
async fn large(dir: &Path, files: Vec<FileChunks>) -> LanceStore {
    let store = open(dir).await;
    store.replace(files).await.unwrap();
    store.maintain(Maintenance::Full).await.unwrap();
    store.drop_memory();
    let index = IvfPqIndexBuilder::default().distance_type(DistanceType::Cosine).num_partitions(64).num_sub_vectors(4);
    store.table.create_index(&["vector"], Index::IvfPq(index)).execute().await.unwrap();
    store.commit_durable().await.unwrap();
    store
}

#[tokio::test]
async fn narrow_filter_returns_all_files_however_far() {
    let dir = tempfile::tempdir().unwrap();
    // Adds so many rows that there are more partitions than a query searches: in the library a partition has at least
    // 256 rows.
    let mut files = many(10_000);
    let mut seed = 1_u64;
    for number in files.iter_mut().flat_map(|it| &mut it.chunks[0].vector) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *number = (seed >> 40) as f32 / 8e6 - 1.0;
    }
    // The vectors of the wanted files point away from the query, but the search of the index starts near the query.
    let question = vector(1, 0.5);
    let wanted: Vec<FileId> = (1..=5).map(|it| it * 700).collect();
    for file_id in &wanted {
        files[*file_id as usize - 1].chunks[0].vector = question.iter().map(|it| -it).collect();
    }
    let store = large(dir.path(), files).await;
    let by_index = async || {
        let query = store.table.query().nearest_to(&question[..]).unwrap().distance_type(DistanceType::Cosine);
        let query = indexes::set_search_effort(query, 1.0).limit(100).only_if_expr(queries::file_condition(&wanted));
        let batches: Vec<RecordBatch> = query.execute().await.unwrap().try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    assert_eq!(by_index().await, 0, "the default index search does not reach them");
    for limit in [5, 100] {
        let mut found = nearest(&store, &question, &only(&wanted), limit).await;
        found.sort_unstable();
        assert_eq!(found, wanted);
    }
    let mut found = keyword(&store, "common", &only(&wanted)).await;
    found.sort_unstable();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn wide_filter_fills_limit_with_allowed_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = large(dir.path(), many(4_400)).await;
    // The filter passes more rows than are compared one by one, and only one of these rows has the direction of the
    // query.
    for wanted in [
        (1..=4_400).filter(|it| it % 22 != 0).collect::<Vec<FileId>>(),
        (1..=4_400).filter(|it| it % 7 != 1 || *it == 8).collect(),
    ] {
        let set = only(&wanted);
        let hits = nearest(&store, &vector(1, 0.0), &set, 100).await;
        assert_eq!(hits.len(), 100);
        assert!(hits.iter().all(|it| wanted.contains(it)));
        assert!(hits[0] % 7 == 1, "the nearest comes first: {}", hits[0]);
        let hits = store.keyword_leg(&words("common"), &set, 1_000).await.unwrap();
        assert_eq!(hits.len(), 1_000);
        assert!(hits.iter().all(|it| wanted.contains(&it.file_id)));
    }
}

/// Searches 20,000 rows of 384 numbers, as a large folder gives.
#[tokio::test]
async fn both_legs_fill_limit_at_20000_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = LanceStore::open(dir.path(), FINGERPRINT, 384).await.unwrap();
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    let mut numbers = |len: usize| -> Vec<f32> { (0..len).map(|_| random() as f32 / 2e9 - 0.5).collect() };
    for batch in 0..20 {
        let files = (0..1000).map(|it| {
            let id = batch * 1000 + it;
            let text: String = (0..120).map(|word| format!("w{} ", (id * 31 + word * word * 7) % 4000)).collect();
            let mut file = file(id, &[&text]);
            file.chunks[0].vector = numbers(384);
            file
        });
        store.replace(files.collect()).await.unwrap();
    }
    store.maintain(Maintenance::Full).await.unwrap();
    let query = numbers(384);
    for round in 0..3 {
        let hits = store.vector_leg(&query, &FileSet::All, 100).await.unwrap();
        let text = format!("w{} w{} w{}", round * 3, round * 5 + 1, round * 7 + 2);
        assert_eq!(store.keyword_leg(&words(&text), &FileSet::All, 100).await.unwrap().len(), 100);
        let ids: Vec<_> = hits.into_iter().map(|it| (it.file_id, it.chunk_id)).collect();
        assert_eq!(store.similarities(&query, &ids).await.unwrap().len(), 100);
    }
}

#[tokio::test]
async fn file_added_while_filter_is_made_does_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(9)).await.unwrap();
    for is_hot in [true, false] {
        if !is_hot {
            store.drop_memory();
        }
        for allowed in [1..=8, 1..=7] {
            // Removes the row count of file 9, as if the filter had been made just before file 9 was added. The filter
            // must then still not allow file 8.
            store.rows.write().unwrap().remove(&9);
            let allowed = only(&Vec::from_iter(allowed));
            let FileSet::Only(ids) = &allowed else { unreachable!() };
            let found = keyword(&store, "common", &allowed).await;
            assert!(!found.is_empty() && found.iter().all(|it| ids.contains(it)), "{found:?}");
            let found = nearest(&store, &vector(2, 0.0), &allowed, 50).await;
            assert!(!found.is_empty() && found.iter().all(|it| ids.contains(it)), "{found:?}");
            assert_eq!(&store.files_with(&required("common"), &allowed).await.unwrap(), &**ids);
            let mut scanned = Vec::new();
            let mut each = |it: StoredChunk| {
                scanned.push(it.file_id);
                true
            };
            store.scan(&allowed, &mut each).await.unwrap();
            scanned.sort_unstable();
            assert_eq!(&scanned, &**ids);
        }
    }
}
