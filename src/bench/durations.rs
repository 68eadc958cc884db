//! Percentiles and a histogram of the durations of many units of work, such as calls, files or questions.

use crate::bench::figures::{MAX_MS, P50_MS, P90_MS, P99_MS};
use crate::bench::report::{HistogramBar, Row};

/// Number of histogram bars per doubling of time, so that the upper edge of a bar is about 19 % above the lower edge.
const BARS_PER_DOUBLING: f64 = 4.0;

/// Lower edge of the histogram in milliseconds; shorter times count in the first bar.
const MIN_MS: f64 = 0.001;

/// Measured times in milliseconds, or other numbers. Keeps every value, because a benchmark has only thousands.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    sorted: Vec<f64>,
}

impl Durations {
    /// Makes statistics of times in milliseconds, which may be in any order.
    pub fn new(mut milliseconds: Vec<f64>) -> Durations {
        milliseconds.sort_by(f64::total_cmp);
        Durations { sorted: milliseconds }
    }

    /// Returns the smallest measured time that at least `percent` of all times do not exceed; 0 if there are no times.
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        self.sorted.get(rank - 1).copied().unwrap_or(0.0)
    }

    /// Writes percentiles and histogram to a row; does nothing if there are no times.
    pub fn write_to(&self, row: &mut Row) {
        if self.sorted.is_empty() {
            return;
        }
        for (figure, percent) in [(P50_MS, 50), (P90_MS, 90), (P99_MS, 99), (MAX_MS, 100)] {
            row.set(figure, self.percentile(percent));
        }
        row.histogram_ms = self.histogram();
    }

    /// Returns the non-empty bars of the histogram, shortest times first. The edges of bars are the same in every run.
    pub fn histogram(&self) -> Vec<HistogramBar> {
        let mut bars: Vec<HistogramBar> = Vec::new();
        for time in &self.sorted {
            let step = ((time.max(MIN_MS) / MIN_MS).log2() * BARS_PER_DOUBLING).ceil();
            let to_ms = MIN_MS * (step / BARS_PER_DOUBLING).exp2();
            match bars.last_mut() {
                Some(last) if last.to_ms == to_ms => last.count += 1,
                _ => bars.push(HistogramBar { to_ms, count: 1 }),
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_measured_value() {
        let times = Durations::new(vec![3.0, 1.0, 4.0, 2.0]);
        assert_eq!((times.percentile(50), times.percentile(99), times.percentile(100)), (2.0, 4.0, 4.0));
        assert_eq!(Durations::default().percentile(50), 0.0);
    }

    #[test]
    fn every_time_falls_into_exactly_one_bar() {
        let times: Vec<f64> = (0..1_000).map(|it| f64::from(it) * 0.37).collect();
        let bars = Durations::new(times).histogram();
        assert_eq!(bars.iter().map(|it| it.count).sum::<u64>(), 1_000);
        assert!(bars.is_sorted_by(|a, b| a.to_ms < b.to_ms));
        let last = bars.last().unwrap();
        assert!(last.to_ms >= 999.0 * 0.37 && last.to_ms < 1.2 * 999.0 * 0.37, "{last:?}");
    }
}
