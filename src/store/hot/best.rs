//! The best of many rows, without keeping all of them.

/// Rows with the highest numbers seen so far; of equal ones the first.
#[derive(Debug)]
pub(super) struct Best {
    limit: usize,
    /// At most twice the limit, in no order.
    rows: Vec<(f32, u32)>,
    /// No row up to here is among the best.
    floor: f32,
}

impl Best {
    /// Keeps this many rows.
    pub(super) fn new(limit: usize) -> Best {
        Best { limit, rows: Vec::with_capacity(2 * limit), floor: f32::NEG_INFINITY }
    }

    /// Shows it a row, each after those before it. Most are not among the best, and cost one comparison.
    #[inline(always)]
    pub(super) fn push(&mut self, number: f32, row: u32) {
        if number > self.floor {
            self.keep(number, row);
        }
    }

    /// Shows it a few rows from `first` on. Mostly none is among the best, and all together cost one comparison.
    #[inline(always)]
    pub(super) fn push_all(&mut self, first: u32, numbers: &[f32]) {
        let floor = self.floor;
        if numbers.iter().fold(false, |any, it| any | (*it > floor)) {
            (first..).zip(numbers).for_each(|(row, number)| self.push(*number, row));
        }
    }

    /// Takes in what another has kept of other rows.
    pub(super) fn absorb(&mut self, other: Best) {
        self.rows.extend(other.rows);
        self.cut();
    }

    /// Ends with the rows, in no order.
    pub(super) fn into_rows(mut self) -> Vec<u32> {
        self.cut();
        self.rows.into_iter().map(|it| it.1).collect()
    }

    #[inline(never)]
    fn keep(&mut self, number: f32, row: u32) {
        self.rows.push((number, row));
        if self.rows.len() >= 2 * self.limit {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.limit > 0 && self.rows.len() > self.limit {
            // Rows before those behind them, so that it does not matter who has seen which.
            let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
            self.floor = self.rows.select_nth_unstable_by(self.limit - 1, order).1.0;
        }
        self.rows.truncate(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_whatever_order_they_come() {
        for step in [1, 7, 37, 99] {
            let mut best = Best::new(5);
            (0..100).map(|it| it * step % 100).for_each(|it| best.push(it as f32, it));
            let mut rows = best.into_rows();
            rows.sort_unstable();
            assert_eq!(rows, [95, 96, 97, 98, 99], "step {step}");
        }
    }

    #[test]
    fn the_best_of_parts_are_the_best_of_all_and_of_equal_ones_the_first() {
        let numbers: Vec<f32> = (0..200u32).map(|it| (it * 37 % 11) as f32).collect();
        let of = |rows: std::ops::Range<usize>| {
            let mut best = Best::new(25);
            numbers[rows.clone()]
                .chunks(8)
                .zip((rows.start..).step_by(8))
                .for_each(|(it, at)| best.push_all(at as u32, it));
            best
        };
        let sorted = |best: Best| {
            let mut rows = best.into_rows();
            rows.sort_unstable();
            rows
        };
        let mut truth: Vec<u32> = (0..200).collect();
        truth.sort_by(|a, b| numbers[*b as usize].total_cmp(&numbers[*a as usize]));
        truth.truncate(25);
        truth.sort_unstable();
        assert_eq!(sorted(of(0..200)), truth);
        for cut in [8, 64, 136] {
            let mut best = of(0..cut);
            best.absorb(of(cut..200));
            assert_eq!(sorted(best), truth, "cut at {cut}");
        }
    }

    #[test]
    fn fewer_than_asked_for_are_all_kept_and_none_when_none_are() {
        let mut best = Best::new(5);
        best.push(1.0, 3);
        assert_eq!(best.into_rows(), [3]);
        assert!(Best::new(5).into_rows().is_empty());
    }
}
