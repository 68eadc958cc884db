//! What the long tests share: their sizes, their dice and their table.
//!
//! A long test is `#[ignore]`d, has a name that begins with `torture_`, and prints what it found with [`figure`], or as
//! [`Promises`] where a number is promised; `make torture` runs them all and shows the lines as a table. Whatever runs in CI
//! runs the same code with smaller numbers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

/// A number of a long test: the variable's value, or what it is when nobody sets it.
pub(crate) fn size(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |it| it.parse().unwrap())
}

/// Prints one line of the table.
pub(crate) fn figure(what: &str, found: impl std::fmt::Display) {
    // The harness does not end the line that names the test.
    println!("\nTORTURE\t{what}\t{found}");
}

/// What is promised of several numbers: each has its line, and only then those that are above their bounds fail the test.
#[derive(Default)]
pub(crate) struct Promises {
    broken: Vec<String>,
}

impl Promises {
    /// Prints one line of the table with what is promised, and notes whether it is above the bound. Both are the same where
    /// the number is a count or a size; times get more, because the machine has others to serve.
    pub(crate) fn at_most<T: PartialOrd + Debug>(&mut self, what: &str, found: T, promised: T, bound: T) {
        figure(what, format!("{found:.1?} (promised {promised:.1?}, fails above {bound:.1?})"));
        if found > bound {
            self.broken.push(format!("{what}: {found:?}, and at most {bound:?} is borne with"));
        }
    }

    /// As [`Promises::at_most`], for times: they may take three times as long as is promised.
    pub(crate) fn soon(&mut self, what: &str, found: Duration, promised: Duration) {
        self.at_most(what, found, promised, 3 * promised);
    }

    /// Fails where one is broken.
    pub(crate) fn check(self) {
        assert!(self.broken.is_empty(), "{}", self.broken.join("\n"));
    }
}

/// Prints and checks one number; see [`Promises::at_most`].
pub(crate) fn at_most<T: PartialOrd + Debug>(what: &str, found: T, promised: T, bound: T) {
    let mut promises = Promises::default();
    promises.at_most(what, found, promised, bound);
    promises.check();
}

/// Prints and checks one time; see [`Promises::soon`].
pub(crate) fn soon(what: &str, found: Duration, promised: Duration) {
    at_most(what, found, promised, 3 * promised);
}

/// The time that so many in a hundred of these do not exceed.
pub(crate) fn percentile(times: &[Duration], part: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get((times.len() * part / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Numbers that are the same for the same seed (splitmix64), so that whatever goes wrong goes wrong again.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number in that range.
    pub(crate) fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// A place in something that has so many.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// One of them, if there is any.
    pub(crate) fn pick<T: Clone>(&mut self, from: &BTreeSet<T>) -> Option<T> {
        if from.is_empty() { None } else { from.iter().nth(self.index(from.len())).cloned() }
    }
}
