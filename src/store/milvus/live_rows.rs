//! The valid rows of a collection, in memory: the ledger's runs by file.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::catalog::ChunkRun;
use crate::model::FileId;
use crate::store::backend::FileSet;

/// Chunks of one file with consecutive ordinals that one change wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    generation: u64,
    ordinals: Range<u32>,
}

/// The valid rows. Most files have one run, which needs no extra allocation.
#[derive(Debug, Default)]
pub(super) struct LiveRows {
    files: BTreeMap<FileId, SmallVec<[Run; 1]>>,
    chunks: u64,
}

impl LiveRows {
    pub(super) fn new(runs: Vec<ChunkRun>) -> LiveRows {
        let mut live = LiveRows::default();
        runs.into_iter().for_each(|it| live.add(it));
        live
    }

    pub(super) fn add(&mut self, run: ChunkRun) {
        self.chunks += u64::from(run.ordinals.end - run.ordinals.start);
        let run_of_file = Run { generation: run.generation, ordinals: run.ordinals };
        self.files.entry(run.file_id).or_default().push(run_of_file);
    }

    /// Removes the chunks of a file with these ordinals, or all. A run that is only partly in the range is cut, as in the
    /// ledger.
    pub(super) fn remove(&mut self, file_id: FileId, ordinals: Option<&Range<u32>>) {
        let removed = self.runs(file_id);
        self.chunks -= self.chunks_of(file_id);
        self.files.remove(&file_id);
        let rest = removed.iter().flat_map(|run| ordinals.map_or_else(Vec::new, |it| run.without(it)));
        rest.for_each(|it| self.add(it));
    }

    pub(super) fn contains(&self, file_id: FileId, generation: u64, ordinal: u32) -> bool {
        let runs = self.files.get(&file_id).map(SmallVec::as_slice).unwrap_or_default();
        runs.iter().any(|it| it.generation == generation && it.ordinals.contains(&ordinal))
    }

    pub(super) fn has_file(&self, file_id: FileId) -> bool {
        self.files.contains_key(&file_id)
    }

    /// Returns the generations of the runs of a file.
    pub(super) fn generations(&self, file_id: FileId) -> impl Iterator<Item = u64> {
        let runs = self.files.get(&file_id).map(SmallVec::as_slice).unwrap_or_default();
        runs.iter().map(|it| it.generation)
    }

    /// Returns the runs of a file.
    pub(super) fn runs(&self, file_id: FileId) -> Vec<ChunkRun> {
        let runs = self.files.get(&file_id).map(SmallVec::as_slice).unwrap_or_default();
        let run = |it: &Run| ChunkRun { file_id, generation: it.generation, ordinals: it.ordinals.clone() };
        runs.iter().map(run).collect()
    }

    /// Returns ranges of ordinals that together hold the chunks of a file, each at most `most` of them. The chunks that deep
    /// extraction adds begin at a high number, so the numbers up to the last one are far more than the chunks.
    pub(super) fn ordinal_ranges(&self, file_id: FileId, most: u32) -> Vec<Range<u32>> {
        let mut runs = self.runs(file_id);
        runs.sort_by_key(|it| it.ordinals.start);
        let (mut ranges, mut left) = (Vec::<Range<u32>>::new(), 0);
        for mut rest in runs.into_iter().map(|it| it.ordinals) {
            while !rest.is_empty() {
                if left == 0 {
                    ranges.push(rest.start..rest.start);
                    left = most;
                }
                let end = rest.end.min(rest.start.saturating_add(left));
                left -= end - rest.start;
                ranges.iter_mut().last().into_iter().for_each(|it| it.end = end);
                rest.start = end;
            }
        }
        ranges
    }

    pub(super) fn chunks_of(&self, file_id: FileId) -> u64 {
        let runs = self.files.get(&file_id).map(SmallVec::as_slice).unwrap_or_default();
        runs.iter().map(|it| u64::from(it.ordinals.end - it.ordinals.start)).sum()
    }

    pub(super) fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.files.keys().map(|it| (*it, self.chunks_of(*it))).collect()
    }

    pub(super) fn file_ids(&self) -> Vec<FileId> {
        self.files.keys().copied().collect()
    }

    pub(super) fn chunk_count(&self) -> u64 {
        self.chunks
    }

    /// Returns the files of a set that have chunks, sorted, with their number of chunks. `None` stands for all files.
    pub(super) fn select(&self, files: &FileSet) -> Option<(Vec<FileId>, u64)> {
        let FileSet::Only(wanted) = files else { return None };
        let selected: Vec<FileId> = wanted.iter().copied().filter(|it| self.files.contains_key(it)).collect();
        let chunks = selected.iter().map(|it| self.chunks_of(*it)).sum();
        (selected.len() < self.files.len()).then_some((selected, chunks))
    }
}

/// Returns the runs of consecutive numbers in sorted ordinals.
pub(super) fn runs_of(file_id: FileId, generation: u64, ordinals: impl Iterator<Item = u32>) -> Vec<ChunkRun> {
    let mut runs: Vec<ChunkRun> = Vec::new();
    for ordinal in ordinals {
        match runs.last_mut().filter(|it| it.ordinals.end == ordinal) {
            Some(last) => last.ordinals.end = ordinal + 1,
            None => runs.push(ChunkRun { file_id, generation, ordinals: ordinal..ordinal + 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file_id: FileId, generation: u64, ordinals: Range<u32>) -> ChunkRun {
        ChunkRun { file_id, generation, ordinals }
    }

    #[test]
    fn removed_range_cuts_run_and_keeps_count() {
        let mut live = LiveRows::new(vec![run(1, 5, 0..10), run(2, 5, 0..3)]);
        live.remove(1, Some(&(3..5)));
        live.add(run(1, 6, 3..4));
        assert_eq!((live.chunk_count(), live.chunks_of(1)), (12, 9));
        assert!(live.contains(1, 5, 2) && live.contains(1, 6, 3) && live.contains(1, 5, 9));
        assert!(!live.contains(1, 5, 3) && !live.contains(1, 5, 4) && !live.contains(1, 6, 4));
        live.remove(2, None);
        assert_eq!(live.file_ids(), [1]);
        assert_eq!(live.select(&FileSet::Only(vec![1, 2].into())), None);
    }

    #[test]
    fn ordinal_ranges_hold_all_chunks_despite_gaps() {
        let deep = 1 << 24;
        let live = LiveRows::new(vec![run(1, 6, deep..deep + 3), run(1, 5, 0..10), run(1, 7, 10..12)]);
        assert_eq!(live.ordinal_ranges(1, 100), std::iter::once(0..deep + 3).collect::<Vec<_>>());
        assert_eq!(live.ordinal_ranges(1, 5), [0..5, 5..10, 10..deep + 3]);
        assert_eq!(live.ordinal_ranges(1, 6), [0..6, 6..12, deep..deep + 3]);
        assert!(live.ordinal_ranges(2, 5).is_empty());
    }

    #[test]
    fn ordinals_with_gaps_make_several_runs() {
        assert_eq!(runs_of(1, 2, [0, 1, 4].into_iter()), [run(1, 2, 0..2), run(1, 2, 4..5)]);
    }
}
