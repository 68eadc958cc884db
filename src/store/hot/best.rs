//! The best of many rows, without keeping all of them.

/// Rows with the highest numbers seen so far.
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

    /// Shows it a row. Most are not among the best, and cost one comparison.
    #[inline(always)]
    pub(super) fn push(&mut self, number: f32, row: u32) {
        if number > self.floor {
            self.keep(number, row);
        }
    }

    /// Ends with the rows, in no order.
    pub(super) fn into_rows(mut self) -> Vec<u32> {
        self.cut();
        self.rows.into_iter().map(|it| it.1).collect()
    }

    #[inline(never)]
    fn keep(&mut self, number: f32, row: u32) {
        self.rows.push((number, row));
        if self.rows.len() == 2 * self.limit {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.limit > 0 && self.rows.len() > self.limit {
            let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0);
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
    fn fewer_than_asked_for_are_all_kept_and_none_when_none_are() {
        let mut best = Best::new(5);
        best.push(1.0, 3);
        assert_eq!(best.into_rows(), [3]);
        assert!(Best::new(5).into_rows().is_empty());
    }
}
