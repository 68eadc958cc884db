//! Vectors in memory, and vector search over them.
//!
//! Each number of a vector is stored as one byte, in steps of 1/127 of the vector's largest number. This changes a
//! cosine by about 0.002. A scan is limited by memory bandwidth, and reads a quarter of the data. With many rows, a
//! [`BinaryCodes`] selects candidates, and only the vectors of candidates are compared.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::model::{ChunkId, FileId, LegHit};
use crate::store::memory::candidates::CandidateSearch;
use crate::store::memory::chunk_key::ChunkKey;
use crate::store::memory::parallel::run_in_parts;
use crate::store::memory::row_ids::ROW_BYTES;
use crate::store::{FileSet, schema};
use vic_kernels::vectors::{BinaryCodes, I8Rows, dot_products, round, step_size};

/// Number of steps from 0 to the largest number of a stored vector.
const ROW_STEPS: f32 = 127.0;

/// Number of steps from 0 to the largest number of a query vector. It is finer than `ROW_STEPS` at no cost, because
/// sums of 16,000 products still fit into 32 bits.
const QUERY_STEPS: f32 = 1_023.0;

/// Bytes per row in addition to its numbers and binary code: ids, positions, steps, row id, and spare capacity.
const ROW_OVERHEAD: usize = 112 + ROW_BYTES;

/// Returns the bytes of memory that a vector of this length takes.
pub(in crate::store) fn row_bytes(dimension: usize) -> usize {
    dimension + dimension / 8 + ROW_OVERHEAD
}

/// A search over at most this many rows compares all of them; over more rows, binary codes select the candidates.
const MAX_COMPARED_ROWS: usize = 16_384;

/// A search over more than [`MAX_COMPARED_ROWS`] rows compares one in this many, at least [`MIN_COMPARED_ROWS`] and at
/// most [`MAX_COMPARED_ROWS`]. Recall of the ten nearest, measured on synthetic vectors in unequal clusters: at 100,000
/// rows 1.00 with 2,000 compared; at 1,000,000 rows 0.98 with 2,000, 0.99 with 8,000, 1.00 with 16,000.
const ROWS_PER_CANDIDATE: usize = 64;

/// Minimum number of candidates per search; see [`ROWS_PER_CANDIDATE`].
const MIN_COMPARED_ROWS: usize = 4_000;

/// Minimum number of candidates per requested hit.
const MIN_COMPARED_PER_HIT: usize = 20;

/// Number of rows that one task compares, which takes a tenth of a millisecond.
const ROWS_PER_PART: usize = 1_024;

/// The row numbers of a file with at most this many rows need no extra allocation; most files have no more.
const INLINE_ROWS: usize = 4;

/// Quantised vectors of norm 1, one per row.
#[derive(Debug)]
pub(in crate::store) struct Vectors {
    rows: Vec<(FileId, ChunkKey)>,
    /// The vector of each row; every number is quantised to one byte.
    quantized: I8Rows,
    /// Step size of the numbers of each row.
    steps: Vec<f32>,
    /// The rows of each file.
    rows_by_file: HashMap<FileId, SmallVec<[u32; INLINE_ROWS]>>,
    /// Binary codes of all rows, or `None` while there are so few rows that all are compared.
    codes: Option<BinaryCodes>,
    /// Number of rows at which the codes are rebuilt around the current mean.
    rebuild_codes_at: usize,
}

impl Vectors {
    /// Creates an empty set of vectors of this length.
    pub(in crate::store) fn new(dimension: usize) -> Vectors {
        Vectors {
            rows: Vec::new(),
            quantized: I8Rows::new(dimension),
            steps: Vec::new(),
            rows_by_file: HashMap::new(),
            codes: None,
            rebuild_codes_at: MAX_COMPARED_ROWS + 1,
        }
    }

    /// Returns the length of a vector.
    pub(in crate::store) fn dimension(&self) -> usize {
        self.quantized.width()
    }

    /// Returns the number of vectors.
    pub(in crate::store) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Reserves space for this many vectors, which are added next. No binary codes are built until
    /// [`Vectors::end_load`].
    pub(in crate::store) fn begin_load(&mut self, rows: usize) {
        self.rows.reserve_exact(rows);
        self.steps.reserve_exact(rows);
        (self.codes, self.rebuild_codes_at) = (None, usize::MAX);
    }

    /// Builds the binary codes of all vectors added since [`Vectors::begin_load`].
    pub(in crate::store) fn end_load(&mut self) {
        if self.rows.len() > MAX_COMPARED_ROWS {
            self.rebuild_codes();
        } else {
            self.rebuild_codes_at = MAX_COMPARED_ROWS + 1;
        }
    }

    /// Adds a vector. Skips an empty vector or one of zeros, which stands for a missing one.
    pub(in crate::store) fn push(&mut self, file_id: FileId, chunk_id: &str, vector: &[f32]) {
        if schema::is_missing_vector(vector) {
            return;
        }
        debug_assert_eq!(vector.len(), self.dimension());
        let step = step_size(vector, ROW_STEPS);
        self.rows_by_file.entry(file_id).or_default().push(self.rows.len() as u32);
        self.rows.push((file_id, ChunkKey::parse(chunk_id)));
        self.quantized.push(vector.iter().map(|it| round(it / step) as i8));
        self.steps.push(step);
        if self.rows.len() == self.rebuild_codes_at {
            self.rebuild_codes();
        } else if let Some(mut sketch) = self.codes.take() {
            sketch.push(&self.dequantize(self.rows.len() - 1));
            self.codes = Some(sketch);
        }
    }

    /// Builds the binary codes of all rows around their mean. Repeated whenever the number of rows has doubled.
    fn rebuild_codes(&mut self) {
        let mut mean = vec![0.0; self.dimension()];
        let mut row = mean.clone();
        for number in 0..self.rows.len() {
            self.dequantize_into(number, &mut row);
            mean.iter_mut().zip(&row).for_each(|(mean, number)| *mean += number);
        }
        mean.iter_mut().for_each(|it| *it /= self.rows.len() as f32);
        let mut sketch = BinaryCodes::new(mean);
        sketch.reserve(self.rows.len());
        for number in 0..self.rows.len() {
            self.dequantize_into(number, &mut row);
            sketch.push(&row);
        }
        (self.codes, self.rebuild_codes_at) = (Some(sketch), self.rows.len() * 2);
    }

    /// Returns the numbers of a row, restored from their bytes.
    fn dequantize(&self, row: usize) -> Vec<f32> {
        let mut numbers = vec![0.0; self.dimension()];
        self.dequantize_into(row, &mut numbers);
        numbers
    }

    /// Writes the restored numbers of a row to `numbers`.
    fn dequantize_into(&self, row: usize, numbers: &mut [f32]) {
        let (kept, step) = (self.quantized.row(row), self.steps[row]);
        numbers.iter_mut().zip(kept).for_each(|(number, kept)| *number = f32::from(*kept) * step);
    }

    /// Removes the vectors of these files.
    pub(in crate::store) fn remove(&mut self, files: &[FileId]) {
        for file_id in files {
            while let Some(row) = self.rows_by_file.get(file_id).and_then(|it| it.last()) {
                self.remove_row(*row);
            }
        }
    }

    /// Removes the vectors of these chunks of a file.
    pub(in crate::store) fn remove_chunks(&mut self, file_id: FileId, chunks: &HashSet<ChunkId>) {
        let chunks: HashSet<ChunkKey> = chunks.iter().map(|it| ChunkKey::parse(&it.0)).collect();
        let is_gone = |row: &u32| chunks.contains(&self.rows[*row as usize].1);
        let mut gone: Vec<u32> = self.rows_of_file(file_id).iter().copied().filter(is_gone).collect();
        // Removes the highest rows first, so that the last row, which moves to the freed position, is never one that is
        // still to be removed.
        gone.sort_unstable_by(|a, b| b.cmp(a));
        gone.into_iter().for_each(|row| self.remove_row(row));
    }

    /// Removes a row and moves the last row to its position.
    fn remove_row(&mut self, row: u32) {
        let last = self.rows.len() as u32 - 1;
        let (file_id, _) = self.rows.swap_remove(row as usize);
        if let Some(places) = self.rows_by_file.get_mut(&file_id) {
            places.retain(|it| *it != row);
            if places.is_empty() {
                self.rows_by_file.remove(&file_id);
            }
        }
        if let Some((moved, _)) = self.rows.get(row as usize)
            && let Some(place) = self.rows_by_file.get_mut(moved).and_then(|it| it.iter_mut().find(|it| **it == last))
        {
            *place = row;
        }
        self.steps.swap_remove(row as usize);
        self.quantized.swap_remove(row as usize);
        if let Some(sketch) = &mut self.codes {
            sketch.swap_remove(row as usize);
        }
    }

    fn rows_of_file(&self, file_id: FileId) -> &[u32] {
        self.rows_by_file.get(&file_id).map_or(&[], SmallVec::as_slice)
    }

    /// Returns the `limit` chunks of these files whose vectors are nearest to `vector`, best first.
    pub(in crate::store) fn nearest(&self, vector: &[f32], files: &FileSet, limit: usize) -> Vec<LegHit> {
        let mut scored = self.score_rows(vector, &self.candidates(vector, files, limit));
        // Selects by score alone first, which avoids reading the ids of most rows.
        if scored.len() > limit && limit > 0 {
            let (_, &mut (worst, _), _) = scored.select_nth_unstable_by(limit - 1, |a, b| b.0.total_cmp(&a.0));
            scored.retain(|it| it.0.total_cmp(&worst).is_ge());
        }
        // Sorts equal scores by file id and chunk id, so that results are reproducible.
        scored.sort_unstable_by(|a, b| {
            b.0.total_cmp(&a.0).then_with(|| self.rows[a.1 as usize].cmp(&self.rows[b.1 as usize]))
        });
        scored.truncate(limit);
        scored.into_iter().map(|it| self.to_hit(it)).collect()
    }

    /// Returns the rows of these files to compare: all of them, or the best candidates if there are many.
    fn candidates(&self, vector: &[f32], files: &FileSet, limit: usize) -> Vec<u32> {
        let some: Option<Vec<u32>> = match files {
            FileSet::All => None,
            FileSet::Only(files) => Some(files.iter().flat_map(|it| self.rows_of_file(*it)).copied().collect()),
        };
        let count = some.as_ref().map_or(self.rows.len(), Vec::len);
        let Some(sketch) = self.codes.as_ref().filter(|_| count > MAX_COMPARED_ROWS) else {
            return some.unwrap_or_else(|| (0..self.rows.len() as u32).collect());
        };
        let most =
            (count / ROWS_PER_CANDIDATE).clamp(MIN_COMPARED_ROWS, MAX_COMPARED_ROWS).max(limit * MIN_COMPARED_PER_HIT);
        let marked = some.filter(|it| it.len() < self.rows.len()).map(|it| self.row_flags(&it));
        CandidateSearch { sketch, query: sketch.quantize_query(vector), allowed: marked, count }.top(most)
    }

    /// Returns a flag for every row, which is set for the given rows.
    fn row_flags(&self, rows: &[u32]) -> Vec<bool> {
        let mut marked = vec![false; self.rows.len()];
        rows.iter().for_each(|it| marked[*it as usize] = true);
        marked
    }

    /// Returns the cosine similarity of `vector` to each of these chunks. Skips missing chunks.
    pub(in crate::store) fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Vec<LegHit> {
        self.score_rows(vector, &self.rows_of_chunks(ids)).into_iter().map(|it| self.to_hit(it)).collect()
    }

    /// Returns the vectors of these chunks. Skips missing chunks.
    pub(in crate::store) fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Vec<((FileId, ChunkId), Vec<f32>)> {
        let vector = |row: u32| {
            let (file_id, id) = &self.rows[row as usize];
            ((*file_id, id.chunk_id()), self.dequantize(row as usize))
        };
        self.rows_of_chunks(ids).into_iter().map(vector).collect()
    }

    fn rows_of_chunks(&self, ids: &[(FileId, ChunkId)]) -> Vec<u32> {
        let row = |(file_id, chunk_id): &(FileId, ChunkId)| {
            let id = ChunkKey::parse(&chunk_id.0);
            self.rows_of_file(*file_id).iter().copied().find(|row| self.rows[*row as usize].1 == id)
        };
        ids.iter().filter_map(row).collect()
    }

    fn score_rows(&self, vector: &[f32], rows: &[u32]) -> Vec<(f32, u32)> {
        let query_step = step_size(vector, QUERY_STEPS);
        let query: Vec<i16> = vector.iter().map(|it| round(it / query_step) as i16).collect();
        let score = |(product, row): (i32, &u32)| (product as f32 * query_step * self.steps[*row as usize], *row);
        let parts = run_in_parts(rows.len(), ROWS_PER_PART, |part| {
            let rows = &rows[part];
            let mut products = vec![0; rows.len()];
            dot_products(&self.quantized, rows, &query, &mut products);
            products.into_iter().zip(rows).map(score).collect::<Vec<_>>()
        });
        parts.concat()
    }

    fn to_hit(&self, (score, row): (f32, u32)) -> LegHit {
        let (file_id, id) = &self.rows[row as usize];
        LegHit { chunk_id: id.chunk_id(), file_id: *file_id, score }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn small_index() -> Vectors {
        let mut hot = Vectors::new(2);
        for (file_id, vector) in [(1, [1.0, 0.0]), (2, [0.6, 0.8]), (3, [0.0, 1.0]), (3, [0.8, 0.6])] {
            let name = format!("{file_id}-{}", hot.rows.len());
            hot.push(file_id, &name, &vector);
        }
        hot
    }

    fn only(files: &[FileId]) -> FileSet {
        FileSet::Only(Arc::new(files.to_vec()))
    }

    fn files(hits: &[LegHit]) -> Vec<FileId> {
        hits.iter().map(|it| it.file_id).collect()
    }

    #[test]
    fn equal_scores_are_ordered_by_id() {
        let mut hot = Vectors::new(2);
        for file_id in [5, 3, 9, 1, 7] {
            hot.push(file_id, "same", &[0.6, 0.8]);
        }
        assert_eq!(files(&hot.nearest(&[1.0, 0.0], &FileSet::All, 3)), [1, 3, 5]);
    }

    #[test]
    fn nearest_come_first_up_to_limit() {
        assert_eq!(files(&small_index().nearest(&[1.0, 0.0], &FileSet::All, 3)), [1, 3, 2]);
        assert!(small_index().nearest(&[1.0, 0.0], &FileSet::All, 0).is_empty());
    }

    #[test]
    fn filtered_out_file_takes_no_slot() {
        assert_eq!(files(&small_index().nearest(&[1.0, 0.0], &only(&[2, 3]), 1)), [3]);
    }

    #[test]
    fn removed_file_is_gone_and_others_keep_vectors() {
        let mut hot = small_index();
        hot.remove(&[1, 2]);
        let hits = hot.nearest(&[1.0, 0.0], &FileSet::All, 9);
        assert_eq!(files(&hits), [3, 3]);
        assert!((hits[0].score - 0.8).abs() < 5e-3 && hits[1].score.abs() < 5e-3, "{hits:?}");
    }

    #[test]
    fn similarities_cover_requested_rows_only() {
        let ids = [(2, ChunkId("2-1".into())), (9, ChunkId("2-1".into()))];
        let hits = small_index().similarities(&[0.0, 1.0], &ids);
        assert_eq!(files(&hits), [2]);
        assert!((hits[0].score - 0.8).abs() < 5e-3);
    }

    #[test]
    fn vectors_cover_requested_rows_only() {
        let found = small_index().vectors(&[(2, ChunkId("2-1".into())), (2, ChunkId("3-2".into()))]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.0, 2);
        assert!((found[0].1[0] - 0.6).abs() < 5e-3 && (found[0].1[1] - 0.8).abs() < 5e-3, "{found:?}");
    }

    #[test]
    fn random_adds_and_removals_keep_remaining_rows() {
        let mut hot = Vectors::new(16);
        let mut truth: Vec<(FileId, ChunkId, Vec<f32>)> = Vec::new();
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..600 {
            let file_id = random(20) as FileId;
            if random(4) == 0 {
                let gone: HashSet<ChunkId> =
                    truth.iter().filter(|it| it.0 == file_id && random(2) == 0).map(|it| it.1.clone()).collect();
                match random(2) {
                    0 => {
                        hot.remove(&[file_id]);
                        truth.retain(|it| it.0 != file_id);
                    }
                    _ => {
                        hot.remove_chunks(file_id, &gone);
                        truth.retain(|it| it.0 != file_id || !gone.contains(&it.1));
                    }
                }
            } else {
                let mut vector: Vec<f32> = (0..16).map(|_| random(2_000) as f32 / 1e3 - 1.0).collect();
                let norm = dot(&vector, &vector).sqrt();
                vector.iter_mut().for_each(|it| *it /= norm);
                hot.push(file_id, &round.to_string(), &vector);
                truth.push((file_id, ChunkId(round.to_string()), vector));
            }
        }
        let question = [0.25; 16];
        let hits = hot.nearest(&question, &FileSet::All, truth.len() + 1);
        assert_eq!(hits.len(), truth.len());
        for hit in &hits {
            let (.., vector) = truth.iter().find(|it| (it.0, &it.1) == (hit.file_id, &hit.chunk_id)).unwrap();
            assert!((dot(vector, &question) - hit.score).abs() < 0.01, "{hit:?}");
        }
        for file_id in 0..20 {
            let ids: Vec<_> = truth.iter().filter(|it| it.0 == file_id).map(|it| (it.0, it.1.clone())).collect();
            assert_eq!(hot.vectors(&ids).len(), ids.len());
            assert_eq!(hot.nearest(&question, &only(&[file_id]), 600).len(), ids.len());
        }
    }

    /// Creates many rows in clusters, three per file, and removes every seventh file. With `at_once`, loads them in
    /// bulk.
    fn many_vectors(at_once: bool) -> (Vectors, Vec<Vec<f32>>) {
        const DIMENSION: usize = 128;
        let mut seed = 3u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let topics: Vec<Vec<f32>> = (0..900).map(|_| (0..DIMENSION).map(|_| random()).collect()).collect();
        let mut hot = Vectors::new(DIMENSION);
        let mut vectors = Vec::new();
        if at_once {
            hot.begin_load(3 * MAX_COMPARED_ROWS);
        }
        for row in 0..3 * MAX_COMPARED_ROWS {
            let topic = &topics[row * 31 % topics.len()];
            let vector: Vec<f32> = topic.iter().map(|it| it + 0.4 + random()).collect();
            let norm = dot(&vector, &vector).sqrt();
            let vector: Vec<f32> = vector.iter().map(|it| it / norm).collect();
            hot.push(row as FileId / 3, &row.to_string(), &vector);
            vectors.push(vector);
        }
        if at_once {
            assert!(hot.codes.is_none(), "it is rebuilt while the table is loaded");
            hot.end_load();
        }
        hot.remove(&(0..MAX_COMPARED_ROWS as FileId).step_by(7).collect::<Vec<_>>());
        (hot, vectors)
    }

    #[test]
    fn sketch_is_built_once_bulk_loaded_rows_are_many() {
        let mut hot = Vectors::new(1);
        hot.begin_load(2);
        hot.push(1, "a", &[1.0]);
        hot.end_load();
        assert!(hot.codes.is_none());
        (0..MAX_COMPARED_ROWS).for_each(|it| hot.push(2, &it.to_string(), &[1.0]));
        assert!(hot.codes.is_some());
    }

    #[test]
    fn nearest_are_found_among_many_with_and_without_filter() {
        for at_once in [false, true] {
            let (hot, vectors) = many_vectors(at_once);
            assert!(hot.codes.is_some());
            nearest_are_found(&hot, &vectors);
        }
    }

    fn nearest_are_found(hot: &Vectors, vectors: &[Vec<f32>]) {
        let some: Vec<FileId> = (0..MAX_COMPARED_ROWS as FileId).filter(|it| it % 5 > 1).collect();
        for files in [FileSet::All, only(&some)] {
            let may = |row: usize| match &files {
                FileSet::All => !(row / 3).is_multiple_of(7),
                FileSet::Only(ids) => !(row / 3).is_multiple_of(7) && ids.binary_search(&(row as FileId / 3)).is_ok(),
            };
            let mut found = 0;
            for question in vectors.iter().step_by(2_003) {
                let mut truth: Vec<(f32, usize)> =
                    (0..vectors.len()).filter(|it| may(*it)).map(|it| (dot(question, &vectors[it]), it)).collect();
                truth.sort_by(|a, b| b.0.total_cmp(&a.0));
                let names: HashSet<String> = truth[..10].iter().map(|it| it.1.to_string()).collect();
                let hits = hot.nearest(question, &files, 10);
                assert!(hits.iter().all(|it| may(it.chunk_id.0.parse().unwrap())), "{hits:?}");
                found += hits.iter().filter(|it| names.contains(&it.chunk_id.0)).count();
            }
            let asked = vectors.iter().step_by(2_003).count() * 10;
            assert!(found * 100 >= asked * 97, "{found} of {asked}");
        }
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }
}
