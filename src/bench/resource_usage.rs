//! Measures the CPU and memory use of this process during a benchmark.

use std::time::Instant;

use crate::bench::figures::{CPU_PERCENT, PEAK_RSS_MIB, SECONDS};
use crate::bench::report::Row;
use crate::daemon::Memory;

/// Number of units of CPU time per second in `/proc`; the same on every Linux for user programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// In a shorter measurement CPU use is not reported, because CPU time is counted in hundredths of a second.
const MIN_CPU_SECONDS: f64 = 0.2;

/// Measures the time and the use of CPU and memory since this value was created.
#[derive(Debug)]
pub(super) struct ResourceUsage {
    begun: Instant,
    cpu_before: Option<f64>,
}

impl ResourceUsage {
    /// Starts measuring. Resets the memory peak if the system allows it.
    pub(super) fn start() -> ResourceUsage {
        // Returns freed memory to the system, so that memory of earlier rows does not count for the next row.
        vic_system::malloc::trim();
        // Writing 5 resets the peak resident memory of this process. Other systems and some containers refuse that.
        let _kept = std::fs::write("/proc/self/clear_refs", "5");
        ResourceUsage { begun: Instant::now(), cpu_before: cpu_seconds() }
    }

    /// Returns the seconds since the start.
    pub(super) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Writes the duration, CPU use and peak memory to a row.
    pub(super) fn write_to(&self, row: &mut Row) {
        let seconds = self.seconds();
        row.set(SECONDS, seconds);
        if let (Some(before), Some(now)) = (self.cpu_before, cpu_seconds())
            && seconds >= MIN_CPU_SECONDS
        {
            row.set(CPU_PERCENT, (now - before) / seconds * 100.0);
        }
        let peak = Memory::of_this_process().peak_mib;
        if peak > 0.0 {
            row.set(PEAK_RSS_MIB, peak);
        }
    }
}

/// Returns the CPU time of all threads of this process in seconds, in user and system mode together.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Skips the process name in parentheses, because it may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn busy_thread_counts_as_one_core_with_its_memory() {
        let usage = ResourceUsage::start();
        let block = vec![1_u8; 64 << 20];
        let mut sum = 0_u64;
        while usage.begun.elapsed() < Duration::from_millis(600) {
            sum = block.iter().step_by(4096).fold(sum, |sum, it| sum.wrapping_add(u64::from(*it)));
        }
        assert!(sum > 0);
        let mut row = Row::new("x");
        usage.write_to(&mut row);
        // Checks no upper bound, because other tests run in this process at the same time.
        assert!(row.get(CPU_PERCENT).is_some_and(|it| it > 5.0), "{row:?}");
        assert!(row.get(PEAK_RSS_MIB).is_some_and(|it| it > 64.0), "{row:?}");
    }
}
