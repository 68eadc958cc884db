//! Measures the store with many chunks: build time, memory, disk, and the time and recall of vector and keyword search, with
//! and without filters.
//!
//! Corpus: texts of words with Zipf frequencies, and unit vectors in clusters of unequal size, from a fixed seed, five
//! chunks per file. Recall is measured against the exact ten nearest vectors, which are found while the vectors are
//! generated again, so that the memory use is that of the store alone.
//!
//! ```text
//! cargo bench --profile release --bench store -- --chunks 120000 --queries 50
//! ```
//! With `--folder DIR`, the table is kept in that folder and reused.

mod measure;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use vic::model::{Anchor, Chunk, ChunkId, Embedded, EncodedPieces, FileChunks, FileId, LegHit, Tier};
use vic::store::{FileSet, KeywordQuery, LanceStore, Maintenance, Store};

use measure::{Outcome, Rng, Times, argument, number_argument, print};

/// Dimension of the vectors, as in the default model.
const DIMENSION: usize = 384;
/// Number of chunks per file.
const FILE_CHUNKS: usize = 5;
/// Number of chunks per commit, as in the pipeline.
const COMMIT_CHUNKS: usize = 2_000;
/// Number of words in the vocabulary.
const VOCABULARY: usize = 60_000;
/// Number of topics: the centers of clusters of vectors, which have unequal sizes.
const TOPICS: usize = 2_000;
/// Spread of the vectors around their topic, so that two vectors of one topic have a cosine similarity of 0.6.
const CLUSTER_SPREAD: f32 = 0.8;
/// The `k` in the measured recall@k.
const TOP_K: usize = 10;
/// Maximum number of hits that a query requests from vector and keyword search.
const LIMIT: usize = 100;
/// Fingerprint of an embedding model, which the store needs to name its table.
const FINGERPRINT: &str = "be0c4be0c4be0c4b";

/// Generates each chunk and each query from its number alone, so that none has to be kept in memory.
struct Corpus {
    /// Cumulative sums of the word frequencies, to draw random words.
    frequencies: Vec<f64>,
    topics: Vec<Vec<f32>>,
    /// Weight of each dimension of the vectors; a few dimensions have most of the variance.
    axes: Vec<f32>,
}

impl Corpus {
    fn new() -> Corpus {
        let mut random = Rng::new(1);
        let mut sum = 0.0;
        let frequencies = (0..VOCABULARY).map(|rank| {
            sum += 1.0 / (rank as f64 + 2.7);
            sum
        });
        let frequencies = frequencies.collect();
        let mut axes: Vec<f32> = (0..DIMENSION).map(|axis| (axis as f32 + 1.0).powf(-0.35)).collect();
        for axis in (1..DIMENSION).rev() {
            axes.swap(axis, random.below(axis + 1));
        }
        let topics = (0..TOPICS).map(|_| axes.iter().map(|weight| weight * random.normal()).collect()).collect();
        Corpus { frequencies, topics, axes }
    }

    /// Returns a random unit vector near a topic. The first topics get more vectors than the last ones.
    fn vector(&self, random: &mut Rng) -> Vec<f32> {
        let topic = &self.topics[(random.uniform().powi(2) * TOPICS as f64) as usize];
        let mut vector: Vec<f32> = topic
            .iter()
            .zip(&self.axes)
            .map(|(middle, weight)| middle + CLUSTER_SPREAD * weight * random.normal())
            .collect();
        let norm = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|it| *it /= norm);
        vector
    }

    fn words(&self, count: usize, random: &mut Rng) -> String {
        let all = self.frequencies[VOCABULARY - 1];
        let word = |_| {
            let drawn = random.uniform() * all;
            format!("w{}", base26(self.frequencies.partition_point(|it| *it < drawn)))
        };
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }

    fn chunk(&self, row: usize) -> Embedded {
        let mut random = Rng::new(row as u64 + 1_000);
        let vector = self.vector(&mut random);
        let count = 40 + random.below(80);
        let chunk = Chunk {
            id: ChunkId(format!("{:016x}{row:016x}", Rng::new(row as u64).next())),
            ordinal: (row % FILE_CHUNKS) as u32,
            text: self.words(count, &mut random),
            body_start: 0,
            anchor: Anchor::default(),
            pieces: EncodedPieces::default(),
            heading_path: Vec::new(),
            tokens: count as u32,
            tier: Tier::L1,
        };
        Embedded { chunk, vector }
    }

    /// Returns the vector and the words of the query with this number.
    fn question(&self, number: usize) -> (Vec<f32>, String) {
        let mut random = Rng::new(number as u64 + 1_000_000_007);
        (self.vector(&mut random), self.words(6, &mut random))
    }
}

/// Writes a number with letters only, so that the tokenizer of the keyword index does not split the word.
fn base26(mut number: usize) -> String {
    let mut text = String::new();
    loop {
        text.push((b'a' + (number % 26) as u8) as char);
        number /= 26;
        if number == 0 {
            return text;
        }
    }
}

/// Returns the filters to measure: all files, five files, 1 %, 5 %, 20 % and half of the files.
fn filters(files: usize) -> Vec<(&'static str, FileSet)> {
    let every = |step: usize| (1..=files).step_by(step).map(|it| it as FileId).collect();
    let only = |ids: Vec<FileId>| FileSet::Only(Arc::new(ids));
    vec![
        ("all", FileSet::All),
        ("five files", only((1..=5).map(|it| (it * files / 6) as FileId).collect())),
        ("1 % of the files", only(every(100))),
        ("5 % of the files", only(every(20))),
        ("20 % of the files", only(every(5))),
        ("half of the files", only(every(2))),
    ]
}

fn file_of(row: usize) -> FileId {
    (row / FILE_CHUNKS) as FileId + 1
}

/// The most similar rows of one query under one filter with their similarities, best first.
type TopRows = Vec<(f32, usize)>;

/// Compares every row with every query. Returns the exact most similar rows by filter and query.
fn exact_top_rows(
    corpus: &Corpus,
    chunks: usize,
    questions: &[(Vec<f32>, String)],
    sets: &[(&str, FileSet)],
) -> Vec<Vec<TopRows>> {
    let allowed: Vec<Option<HashSet<FileId>>> = sets
        .iter()
        .map(|(_, set)| match set {
            FileSet::All => None,
            FileSet::Only(ids) => Some(ids.iter().copied().collect()),
        })
        .collect();
    let mut best = vec![vec![TopRows::new(); questions.len()]; sets.len()];
    for row in 0..chunks {
        let vector = corpus.vector(&mut Rng::new(row as u64 + 1_000));
        let file = file_of(row);
        let passing: Vec<usize> =
            (0..sets.len()).filter(|set| allowed[*set].as_ref().is_none_or(|it| it.contains(&file))).collect();
        for (question, (wanted, _)) in questions.iter().enumerate() {
            let similarity = dot(&vector, wanted);
            for set in &passing {
                insert_top(&mut best[*set][question], similarity, row);
            }
        }
    }
    best
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

fn insert_top(best: &mut TopRows, similarity: f32, row: usize) {
    if best.len() == TOP_K && best[TOP_K - 1].0 >= similarity {
        return;
    }
    let place = best.partition_point(|it| it.0 > similarity);
    best.insert(place, (similarity, row));
    best.truncate(TOP_K);
}

/// Fills the table as the pipeline does: in commits of `COMMIT_CHUNKS` chunks, with maintenance at the end.
async fn fill(store: &LanceStore, corpus: &Corpus, chunks: usize) -> Outcome {
    let mut commits = Times::default();
    for start in (0..chunks).step_by(COMMIT_CHUNKS) {
        let rows: Vec<usize> = (start..(start + COMMIT_CHUNKS).min(chunks)).collect();
        let file = |rows: &[usize]| FileChunks {
            file_id: file_of(rows[0]),
            chunks: rows.iter().map(|row| corpus.chunk(*row)).collect(),
        };
        let files: Vec<FileChunks> = rows.chunks(FILE_CHUNKS).map(file).collect();
        let begun = Instant::now();
        store.replace(files).await?;
        commits.add(begun);
    }
    commits.report("commit", COMMIT_CHUNKS as f64, "chunks", Value::Null);
    let mut upkeep = Times::default();
    let begun = Instant::now();
    store.maintain(Maintenance::Full).await?;
    upkeep.add(begun);
    upkeep.report("upkeep after the first fill", chunks as f64, "chunks", Value::Null);
    Ok(())
}

async fn measure_legs(store: &LanceStore, corpus: &Corpus, chunks: usize, questions: usize) -> Outcome {
    let asked: Vec<(Vec<f32>, String)> = (0..questions).map(|it| corpus.question(it)).collect();
    let sets = filters(chunks / FILE_CHUNKS);
    let truth = exact_top_rows(corpus, chunks, &asked, &sets);
    for ((name, set), best) in sets.iter().zip(&truth) {
        let (mut times, mut found, mut wanted, mut fewest) = (Times::default(), 0, 0, usize::MAX);
        store.vector_leg(&asked[0].0, set, LIMIT).await?;
        for ((vector, _), best) in asked.iter().zip(best) {
            let begun = Instant::now();
            let hits = store.vector_leg(vector, set, LIMIT).await?;
            times.add(begun);
            fewest = fewest.min(hits.len());
            wanted += best.len();
            found += best.iter().filter(|(_, row)| contains_row(&hits[..TOP_K.min(hits.len())], *row)).count();
        }
        let more = json!({ "recall_at_10": (found as f64 / wanted as f64 * 1e4).round() / 1e4, "fewest_hits": fewest });
        times.report(&format!("vector leg, {name}"), 1.0, "questions", more);
    }
    for (name, set) in &sets {
        let (mut times, mut fewest) = (Times::default(), usize::MAX);
        for (_, text) in &asked {
            let begun = Instant::now();
            let hits = store.keyword_leg(&keyword_query(text), set, LIMIT).await?;
            times.add(begun);
            fewest = fewest.min(hits.len());
        }
        times.report(&format!("keyword leg, {name}"), 1.0, "questions", json!({ "fewest_hits": fewest }));
    }
    measure_lookups(store, &asked).await
}

fn keyword_query(text: &str) -> KeywordQuery {
    KeywordQuery { terms: vic_words::question_terms(text, &[vic_words::Language::English]) }
}

/// Measures the two lookups by id that every query makes: similarities of chunks, and texts of chunks.
async fn measure_lookups(store: &LanceStore, asked: &[(Vec<f32>, String)]) -> Outcome {
    let (mut similarities, mut chunks) = (Times::default(), Times::default());
    for (vector, text) in asked {
        let hits = store.keyword_leg(&keyword_query(text), &FileSet::All, LIMIT).await?;
        let ids: Vec<(FileId, ChunkId)> = hits.into_iter().map(|it| (it.file_id, it.chunk_id)).collect();
        let begun = Instant::now();
        store.similarities(vector, &ids).await?;
        similarities.add(begun);
        let begun = Instant::now();
        store.chunks(&ids[..ids.len().min(TOP_K)]).await?;
        chunks.add(begun);
    }
    similarities.report("similarities of 100 chunks", 100.0, "chunks", Value::Null);
    chunks.report("text of 10 chunks", 10.0, "chunks", Value::Null);
    Ok(())
}

fn contains_row(hits: &[LegHit], row: usize) -> bool {
    let id = format!("{:016x}{row:016x}", Rng::new(row as u64).next());
    hits.iter().any(|it| it.chunk_id.0 == id)
}

#[tokio::main]
async fn main() -> Outcome {
    let chunks = number_argument("chunks", 20_000)? / FILE_CHUNKS * FILE_CHUNKS;
    let questions = number_argument("queries", 50)?.max(1);
    let temporary = tempfile::tempdir()?;
    let kept = argument("folder");
    let dir = kept.as_ref().map_or(temporary.path(), Path::new);
    let corpus = Corpus::new();
    let begun = Instant::now();
    let store = LanceStore::open(dir, FINGERPRINT, DIMENSION).await?;
    let mut opened = Times::default();
    opened.add(begun);
    opened.report("open", 1.0, "tables", json!({ "chunks": store.chunk_count() }));
    if store.chunk_count() == 0 {
        fill(&store, &corpus, chunks).await?;
    }
    let stats = store.stats().await?;
    let mib = stats.bytes >> 20;
    print(&json!({ "what": "table", "chunks": stats.chunks, "disk_mib": mib, "fragments": stats.fragments }));
    measure_legs(&store, &corpus, stats.chunks as usize, questions).await
}
