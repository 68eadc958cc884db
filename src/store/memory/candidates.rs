//! Selects candidates for vector search: of many rows, those whose binary codes are closest to the query's.

use std::ops::Range;

use tracing::debug;

use crate::store::memory::parallel::run_in_parts;
use crate::store::memory::top_k::TopK;
use vic_kernels::vectors::{BinaryCodes, QueryCodes};

/// Number of blocks (of eight rows) that one task scans, which takes a tenth of a millisecond.
const BLOCKS_PER_PART: usize = 1 << 12;

/// Number of blocks, spread over all rows, whose estimates are sampled first. The sample determines the floor of the scan:
/// rows with lower estimates are skipped.
const SAMPLED_BLOCKS: usize = 1_024;

/// The floor (lowest useful estimate) is chosen so that about `most * MARGIN_HALVES / 2` rows exceed it. With a filter the
/// sample has fewer rows, so the margin for a filter is larger.
const MARGIN_HALVES: usize = 3;
const FILTER_MARGIN_HALVES: usize = 4;

/// A search for candidate rows by the binary codes of all rows.
pub(super) struct CandidateSearch<'a> {
    pub(super) sketch: &'a BinaryCodes,
    pub(super) query: QueryCodes,
    /// A flag for each row, true if the search may return the row; `None` without a filter.
    pub(super) allowed: Option<Vec<bool>>,
    /// Number of rows that pass the filter.
    pub(super) count: usize,
}

impl CandidateSearch<'_> {
    /// Returns up to `most` rows, those with the highest estimates, in ascending order of their row numbers.
    pub(super) fn top(&self, most: usize) -> Vec<u32> {
        let best = self.top_above(self.sampled_floor(most), most);
        if best.len() >= most.min(self.count) {
            return best.into_rows();
        }
        debug!(found = best.len(), wanted = most, rows = self.count, "the sampled floor was too high, rescanning rows");
        self.top_above(f32::NEG_INFINITY, most).into_rows()
    }

    /// Scans all rows and returns up to `most` rows, those with the highest estimates above `floor`.
    fn top_above(&self, floor: f32, most: usize) -> TopK {
        let parts = run_in_parts(self.sketch.blocks(), BLOCKS_PER_PART, |blocks| {
            let mut best = TopK::with_floor(floor, most);
            match &self.allowed {
                None => self.sketch.estimate(&self.query, blocks, |first, estimates| best.push_all(first, estimates)),
                Some(_) => self.for_each_allowed(blocks, |row, estimate| best.push(estimate, row)),
            }
            best
        });
        let whole = parts.into_iter().reduce(|mut best, part| {
            best.merge(part);
            best
        });
        whole.unwrap_or_else(|| TopK::with_floor(floor, most))
    }

    /// Returns an estimate (the floor) that slightly more than `most` rows probably exceed. Without a floor, keeping and
    /// sorting unwanted rows takes as long as estimating them. If there are few rows, or many equal ones, the floor may
    /// be too high.
    fn sampled_floor(&self, most: usize) -> f32 {
        let mut sample = Vec::with_capacity(self.sketch.blocks().min(2 * SAMPLED_BLOCKS) * 8);
        let step = (self.sketch.blocks() / SAMPLED_BLOCKS).max(1);
        for block in (0..self.sketch.blocks()).step_by(step) {
            self.for_each_allowed(block..block + 1, |_, estimate| sample.push(estimate));
        }
        let slack = if self.allowed.is_some() { FILTER_MARGIN_HALVES } else { MARGIN_HALVES };
        let above = slack * most * sample.len() / (2 * self.count).max(1);
        if above >= sample.len() {
            return f32::NEG_INFINITY;
        }
        *sample.select_nth_unstable_by(above, |a, b| b.total_cmp(a)).1
    }

    /// Calls `each` with the allowed rows of these blocks and their estimates.
    fn for_each_allowed(&self, blocks: Range<usize>, mut each: impl FnMut(u32, f32)) {
        self.sketch.estimate(&self.query, blocks, |first, estimates| {
            for (row, estimate) in (first..).zip(estimates) {
                if self.allowed.as_ref().is_none_or(|it| it[row as usize]) {
                    each(row, *estimate);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether enough rows exceed the floor (minimum estimate) that was found by sampling.
    #[derive(Debug, PartialEq)]
    enum Sample {
        Leads,
        Misleads,
    }

    /// Checks the best rows for a query along the first axis. `number` is the first component of each row.
    fn check_candidates(
        rows: usize,
        marked: Option<fn(usize) -> bool>,
        most: usize,
        sample: Sample,
        number: impl Fn(usize) -> f32,
    ) {
        let mut sketch = BinaryCodes::new(vec![0.0; 64]);
        for row in 0..rows {
            let mut vector = vec![0.25; 64];
            vector[0] = number(row);
            sketch.push(&vector);
        }
        let mut query = vec![0.0; 64];
        query[0] = 1.0;
        let marked = marked.map(|may| (0..rows).map(may).collect::<Vec<bool>>());
        let count = marked.as_ref().map_or(rows, |it| it.iter().filter(|it| **it).count());
        let search = CandidateSearch { sketch: &sketch, query: sketch.quantize_query(&query), allowed: marked, count };
        let mut truth = Vec::new();
        search.for_each_allowed(0..sketch.blocks(), |row, estimate| truth.push((estimate, row)));
        truth.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut truth: Vec<u32> = truth.iter().take(most).map(|it| it.1).collect();
        truth.sort_unstable();
        assert_eq!(search.top(most), truth, "{rows} rows, {most} of {count}");
        let found = search.top_above(search.sampled_floor(most), most).len();
        assert_eq!(found < most.min(count), sample == Sample::Misleads, "{found} of {most}");
    }

    #[test]
    fn sampled_search_equals_full_search() {
        let scattered = |row: usize| ((row * 7_919) % 10_007) as f32 / 1e4;
        for most in [100, 4_000, 40_000] {
            check_candidates(30_003, None, most, Sample::Leads, scattered);
            check_candidates(30_003, Some(|row| row.is_multiple_of(3)), most, Sample::Leads, scattered);
            check_candidates(30_003, Some(|row| row > 29_900), most, Sample::Leads, scattered);
        }
    }

    #[test]
    fn misleading_sample_costs_second_scan_but_no_row() {
        // All of the best rows are in the sampled blocks, so the sample yields a floor that is too high.
        let blocks = 30_000 / 8;
        let step = blocks / SAMPLED_BLOCKS;
        let few = |row: usize| if (row / 8).is_multiple_of(step) { 2.0 + row as f32 * 1e-5 } else { 0.5 };
        check_candidates(30_000, None, 11_000, Sample::Misleads, few);
        // All rows have the same estimate, which is then the floor, so no row exceeds it.
        check_candidates(30_000, None, 100, Sample::Misleads, |_| 0.5);
    }
}
