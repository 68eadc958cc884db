//! Bounded top-k: finds the k rows with the highest scores without keeping all rows.

/// The k rows with the highest scores so far. Of rows with equal scores, those added first are kept.
#[derive(Debug)]
pub(super) struct TopK {
    limit: usize,
    /// The kept rows, unordered; fewer than twice `limit`, because `truncate_if_full` drops the worst.
    rows: Vec<Rank>,
    /// Rows with this score or a lower one are rejected, because they cannot be among the best.
    floor: f32,
}

/// Number of scores that are compared to `TopK::floor` together.
const SCORES_AT_ONCE: usize = 8;

/// A score and its row as one integer: integers compare without a branch, and a better rank is a larger integer.
type Rank = u64;

impl TopK {
    /// Creates a list of the `limit` best rows with scores above `floor`.
    pub(super) fn with_floor(floor: f32, limit: usize) -> TopK {
        TopK { limit, rows: Vec::new(), floor }
    }

    /// Returns the number of rows kept.
    pub(super) fn len(&self) -> usize {
        self.rows.len().min(self.limit)
    }

    /// Adds a row if it is among the best; rows must come in ascending order. Most rows are rejected after one
    /// comparison.
    #[inline(always)]
    pub(super) fn push(&mut self, number: f32, row: u32) {
        if number > self.floor {
            self.insert(number, row);
        }
    }

    /// Adds those of the rows from `first` on that are among the best. Rows are compared in groups of
    /// [`SCORES_AT_ONCE`]: a group without a good row, the usual case, costs one comparison.
    #[inline(always)]
    pub(super) fn push_all(&mut self, first: u32, numbers: &[f32]) {
        for (first, numbers) in (first..).step_by(SCORES_AT_ONCE).zip(numbers.chunks(SCORES_AT_ONCE)) {
            let floor = self.floor;
            if numbers.iter().fold(false, |any, it| any | (*it > floor)) {
                (first..).zip(numbers).for_each(|(row, number)| self.push(*number, row));
            }
        }
    }

    /// Merges the best of other rows into these.
    pub(super) fn merge(&mut self, other: TopK) {
        self.rows.extend(other.rows);
        self.truncate_if_full();
    }

    /// Returns the best rows, in ascending order of their numbers.
    pub(super) fn into_rows(mut self) -> Vec<u32> {
        self.truncate();
        let mut rows: Vec<u32> = self.rows.into_iter().map(row_of).collect();
        // Usually the rows are sorted already, so this takes one pass.
        rows.sort_unstable();
        rows
    }

    #[inline(never)]
    fn insert(&mut self, number: f32, row: u32) {
        self.rows.push(rank(number, row));
        self.truncate_if_full();
    }

    /// Keeps only the best rows when there are twice `limit`. Runs rarely, because it reads all kept rows.
    fn truncate_if_full(&mut self) {
        if self.rows.len() >= 2 * self.limit {
            self.truncate();
        }
    }

    fn truncate(&mut self) {
        if self.limit > 0 && self.rows.len() > self.limit {
            let mut ranks = self.rows.clone();
            let (_, last, _) = ranks.select_nth_unstable_by(self.limit - 1, |a, b| b.cmp(a));
            self.floor = score_of(*last);
            self.rows.retain(|it| *it >= *last);
        }
        self.rows.truncate(self.limit);
    }
}

/// Returns the rank of a row. Ranks are ordered by score like [`f32::total_cmp`]; of equal scores the first row ranks
/// highest, so that the result does not depend on how the rows were split.
fn rank(number: f32, row: u32) -> Rank {
    let bits = number.to_bits();
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(ordered) << 32 | u64::from(!row)
}

fn row_of(rank: Rank) -> u32 {
    !(rank as u32)
}

fn score_of(rank: Rank) -> f32 {
    let ordered = (rank >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_k_does_not_depend_on_order() {
        for step in [1, 7, 37, 99] {
            let mut best = TopK::with_floor(f32::NEG_INFINITY, 5);
            (0..100).map(|it| it * step % 100).for_each(|it| best.push(it as f32, it));
            assert_eq!(best.into_rows(), [95, 96, 97, 98, 99], "step {step}");
        }
    }

    #[test]
    fn merged_top_k_equals_top_k_of_all() {
        let numbers: Vec<f32> = (0..200u32).map(|it| (it * 37 % 11) as f32).collect();
        let of = |rows: std::ops::Range<usize>| {
            let mut best = TopK::with_floor(f32::NEG_INFINITY, 25);
            numbers[rows.clone()]
                .chunks(8)
                .zip((rows.start..).step_by(8))
                .for_each(|(it, at)| best.push_all(at as u32, it));
            best
        };
        let mut truth: Vec<u32> = (0..200).collect();
        truth.sort_by(|a, b| numbers[*b as usize].total_cmp(&numbers[*a as usize]));
        truth.truncate(25);
        truth.sort_unstable();
        assert_eq!(of(0..200).into_rows(), truth);
        for cut in [8, 64, 136] {
            let mut best = of(0..cut);
            best.merge(of(cut..200));
            assert_eq!(best.into_rows(), truth, "cut at {cut}");
        }
    }

    #[test]
    fn rank_orders_by_score_then_first_row() {
        let numbers = [f32::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-40, 0.3, f32::INFINITY];
        let ranks: Vec<Rank> = numbers.iter().map(|it| rank(*it, 7)).collect();
        assert!(ranks.is_sorted());
        assert!(numbers.iter().zip(&ranks).all(|(number, rank)| number.to_bits() == score_of(*rank).to_bits()));
        assert!(rank(0.3, 6) > rank(0.3, 7));
        assert_eq!([0, 7, u32::MAX].map(|it| row_of(rank(-1.0, it))), [0, 7, u32::MAX]);
    }

    #[test]
    fn rows_up_to_floor_are_dropped() {
        let mut best = TopK::with_floor(2.0, 5);
        best.push_all(0, &[1.0, 3.0, 2.0, 2.5]);
        assert_eq!((best.len(), best.into_rows()), (2, vec![1, 3]));
    }

    #[test]
    fn fewer_rows_than_limit_are_all_kept() {
        let mut best = TopK::with_floor(f32::NEG_INFINITY, 5);
        best.push(1.0, 3);
        assert_eq!(best.into_rows(), [3]);
        assert!(TopK::with_floor(f32::NEG_INFINITY, 5).into_rows().is_empty());
    }
}
