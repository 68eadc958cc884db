//! Helpers of the long tests: sizes, a random generator, and the table of results.
//!
//! A long test is `#[ignore]`d and its name begins with `torture_`. It prints its results with [`figure`], or with
//! [`PromiseChecks`] for numbers that the documentation promises. `make torture` runs all long tests and shows the lines as
//! a table. CI runs the same code with smaller sizes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// Returns the number in this environment variable, or the default.
pub(crate) fn size_from_env(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |it| it.parse().unwrap())
}

/// Prints one line of the table of results.
pub(crate) fn figure(what: &str, found: impl std::fmt::Display) {
    // Begins with a line break, because the harness leaves the line with the test name open.
    println!("\nTORTURE\t{what}\t{found}");
}

/// Compares several results with promised numbers. Prints a line for each before the test fails for those above their
/// bounds.
#[derive(Default)]
pub(crate) struct PromiseChecks {
    broken: Vec<String>,
}

impl PromiseChecks {
    /// Prints one line with the result and the promised number, and records a failure if the result exceeds the bound. For
    /// counts and sizes, promise and bound are equal; times get a larger bound because the machine may be busy.
    pub(crate) fn at_most<T: PartialOrd + Debug>(&mut self, what: &str, found: T, promised: T, bound: T) {
        figure(what, format!("{found:.1?} (promised {promised:.1?}, fails above {bound:.1?})"));
        if found > bound {
            self.broken.push(format!("{what}: {found:?} exceeds {bound:?}"));
        }
    }

    /// Like [`PromiseChecks::at_most`], for times: the bound is three times the promised time.
    pub(crate) fn within_time(&mut self, what: &str, found: Duration, promised: Duration) {
        self.at_most(what, found, promised, 3 * promised);
    }

    /// Fails the test if any bound was exceeded.
    pub(crate) fn check(self) {
        assert!(self.broken.is_empty(), "{}", self.broken.join("\n"));
    }
}

/// Prints one result and fails the test above its bound; see [`PromiseChecks::at_most`].
pub(crate) fn check_at_most<T: PartialOrd + Debug>(what: &str, found: T, promised: T, bound: T) {
    let mut promises = PromiseChecks::default();
    promises.at_most(what, found, promised, bound);
    promises.check();
}

/// Prints a measured time, and fails the test if it exceeds `promised`; see [`PromiseChecks::within_time`].
pub(crate) fn check_within_time(what: &str, found: Duration, promised: Duration) {
    check_at_most(what, found, promised, 3 * promised);
}

/// Returns the given percentile of the times, 0 to 100.
pub(crate) fn percentile(times: &[Duration], part: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get((times.len() * part / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// A deterministic random generator (splitmix64), so that failures are reproducible.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next random number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a random number in the range.
    pub(crate) fn in_range(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Returns a random index below `count`, for a list.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// Returns a random element, or None if the set is empty.
    pub(crate) fn pick<T: Clone>(&mut self, from: &BTreeSet<T>) -> Option<T> {
        if from.is_empty() { None } else { from.iter().nth(self.index(from.len())).cloned() }
    }
}
