//! The vectors of a table that is not large, kept in memory: the exact vector leg without reading the disk.
//!
//! A scan of the table decodes and copies every vector for every question: at 20,000 rows that took ten times as long as
//! the comparison itself, and tens of MiB of fresh memory. Above [`HOT_ROWS`] the table's own index takes over.

use std::collections::{HashMap, HashSet};

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::model::{ChunkId, Embedded, FileId, LegHit};

/// Rows that are kept: at 384 numbers of 2 bytes, 77 MB.
pub(super) const HOT_ROWS: usize = 100_000;

/// Vectors of norm 1 at half precision, which moves a cosine by less than 0.001.
#[derive(Debug)]
pub(super) struct HotVectors {
    dimension: usize,
    rows: Vec<(FileId, ChunkId)>,
    numbers: Vec<f16>,
}

impl HotVectors {
    /// Makes an empty set of vectors of this length.
    pub(super) fn new(dimension: usize) -> HotVectors {
        HotVectors { dimension, rows: Vec::new(), numbers: Vec::new() }
    }

    /// Says whether there are more rows than are worth keeping.
    pub(super) fn is_too_large(&self) -> bool {
        self.rows.len() > HOT_ROWS
    }

    /// Adds the vectors of a file's chunks.
    pub(super) fn add(&mut self, file_id: FileId, chunks: &[Embedded]) {
        for it in chunks {
            self.push(file_id, it.chunk.id.clone(), &it.vector);
        }
    }

    /// Adds one vector.
    pub(super) fn push(&mut self, file_id: FileId, chunk_id: ChunkId, vector: &[f32]) {
        debug_assert_eq!(vector.len(), self.dimension);
        self.rows.push((file_id, chunk_id));
        self.numbers.extend(vector.iter().map(|it| f16::from_f32(*it)));
    }

    /// Drops the vectors of these files.
    pub(super) fn remove(&mut self, files: &[FileId]) {
        let files: HashSet<FileId> = files.iter().copied().collect();
        self.remove_where(|(file_id, _)| files.contains(file_id));
    }

    /// Drops these vectors of a file.
    pub(super) fn remove_chunks(&mut self, file_id: FileId, chunks: &HashSet<ChunkId>) {
        self.remove_where(|(file, chunk)| *file == file_id && chunks.contains(chunk));
    }

    fn remove_where(&mut self, is_gone: impl Fn(&(FileId, ChunkId)) -> bool) {
        for row in (0..self.rows.len()).rev() {
            if is_gone(&self.rows[row]) {
                self.rows.swap_remove(row);
                let (last, here) = (self.rows.len() * self.dimension, row * self.dimension);
                self.numbers.copy_within(last..last + self.dimension, here);
                self.numbers.truncate(last);
            }
        }
    }

    /// Returns the `limit` rows nearest to `vector`, best first, of those files that `allowed` lets pass.
    pub(super) fn nearest(&self, vector: &[f32], allowed: impl Fn(FileId) -> bool, limit: usize) -> Vec<LegHit> {
        let mut buffer = vec![0.0; self.dimension];
        let mut scored: Vec<(f32, usize)> = (0..self.rows.len())
            .filter(|row| allowed(self.rows[*row].0))
            .map(|row| (self.similarity(row, vector, &mut buffer), row))
            .collect();
        // Equal scores in the order of their ids, so that the same question has the same answer.
        let best_first =
            |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then_with(|| self.rows[a.1].cmp(&self.rows[b.1]));
        if scored.len() > limit && limit > 0 {
            scored.select_nth_unstable_by(limit - 1, best_first);
        }
        scored.truncate(limit);
        scored.sort_unstable_by(best_first);
        scored.into_iter().map(|(score, row)| self.hit(row, score)).collect()
    }

    /// Returns the cosines of these rows; missing ones are left out.
    pub(super) fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Vec<LegHit> {
        let mut buffer = vec![0.0; self.dimension];
        self.asked(ids).into_iter().map(|row| self.hit(row, self.similarity(row, vector, &mut buffer))).collect()
    }

    /// Returns the vectors of these rows; missing ones are left out.
    pub(super) fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Vec<((FileId, ChunkId), Vec<f32>)> {
        let vector = |row: usize| self.numbers[row * self.dimension..][..self.dimension].to_f32_vec();
        self.asked(ids).into_iter().map(|row| (self.rows[row].clone(), vector(row))).collect()
    }

    fn asked(&self, ids: &[(FileId, ChunkId)]) -> Vec<usize> {
        let mut asked: HashMap<FileId, Vec<&ChunkId>> = HashMap::new();
        for (file_id, chunk_id) in ids {
            asked.entry(*file_id).or_default().push(chunk_id);
        }
        let is_asked =
            |(file_id, chunk_id): &(FileId, ChunkId)| asked.get(file_id).is_some_and(|it| it.contains(&chunk_id));
        (0..self.rows.len()).filter(|row| is_asked(&self.rows[*row])).collect()
    }

    fn similarity(&self, row: usize, vector: &[f32], buffer: &mut [f32]) -> f32 {
        self.numbers[row * self.dimension..][..self.dimension].convert_to_f32_slice(buffer);
        dot(vector, buffer)
    }

    fn hit(&self, row: usize, score: f32) -> LegHit {
        let (file_id, chunk_id) = &self.rows[row];
        LegHit { chunk_id: chunk_id.clone(), file_id: *file_id, score }
    }
}

/// Sixteen sums side by side: the compiler turns them into vector registers, which one running sum forbids.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (a_parts, b_parts) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_parts.remainder().iter().zip(b_parts.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_parts.zip(b_parts) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot() -> HotVectors {
        let mut hot = HotVectors::new(2);
        for (file_id, vector) in [(1, [1.0, 0.0]), (2, [0.6, 0.8]), (3, [0.0, 1.0]), (3, [0.8, 0.6])] {
            let name = format!("{file_id}-{}", hot.rows.len());
            hot.push(file_id, ChunkId(name), &vector);
        }
        hot
    }

    fn files(hits: &[LegHit]) -> Vec<FileId> {
        hits.iter().map(|it| it.file_id).collect()
    }

    #[test]
    fn the_nearest_come_first_and_no_more_than_asked_for() {
        assert_eq!(files(&hot().nearest(&[1.0, 0.0], |_| true, 3)), [1, 3, 2]);
        assert!(hot().nearest(&[1.0, 0.0], |_| true, 0).is_empty());
    }

    #[test]
    fn a_file_that_may_not_pass_takes_no_place() {
        assert_eq!(files(&hot().nearest(&[1.0, 0.0], |file| file != 1, 1)), [3]);
    }

    #[test]
    fn a_removed_file_is_gone_and_the_others_keep_their_vectors() {
        let mut hot = hot();
        hot.remove(&[1, 2]);
        let hits = hot.nearest(&[1.0, 0.0], |_| true, 9);
        assert_eq!(files(&hits), [3, 3]);
        assert!((hits[0].score - 0.8).abs() < 1e-3 && hits[1].score.abs() < 1e-3, "{hits:?}");
    }

    #[test]
    fn similarities_are_those_of_the_rows_asked_for() {
        let ids = [(2, ChunkId("2-1".into())), (9, ChunkId("2-1".into()))];
        let hits = hot().similarities(&[0.0, 1.0], &ids);
        assert_eq!(files(&hits), [2]);
        assert!((hits[0].score - 0.8).abs() < 1e-3);
    }

    #[test]
    fn vectors_are_those_of_the_rows_asked_for() {
        let found = hot().vectors(&[(2, ChunkId("2-1".into())), (2, ChunkId("3-2".into()))]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.0, 2);
        assert!((found[0].1[0] - 0.6).abs() < 1e-3 && (found[0].1[1] - 0.8).abs() < 1e-3, "{found:?}");
    }
}
