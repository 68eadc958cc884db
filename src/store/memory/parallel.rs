//! Runs work over many rows in parallel on a pool of threads.
//!
//! The pool threads wait for work; on machines with few cores each is pinned to a core. Without pinning, a thread that
//! is started or woken for a query first runs on the core of the thread that woke it. Linux on few cores rarely looks
//! for an idle core, and moves no thread for some milliseconds, which is longer than the whole work.

use std::num::NonZero;
use std::ops::Range;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tracing::warn;

/// Maximum number of threads of the pool. A scan is limited by memory bandwidth, which more threads would not increase.
const MAX_THREADS: usize = 4;

/// The pool; `None` on a single core or if the system refuses threads: the caller then does all the work itself.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(build_pool);

/// Starts the threads of the pool, with the priority of the caller.
pub(in crate::store) fn start_threads() {
    LazyLock::force(&POOL);
}

fn build_pool() -> Option<ThreadPool> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    if cores == 1 {
        return None;
    }
    let mut builder = ThreadPoolBuilder::new().num_threads(cores.min(MAX_THREADS));
    builder = builder.thread_name(|number| format!("scan-{number}"));
    if cores <= MAX_THREADS {
        builder = builder.start_handler(pin_thread);
    }
    builder.build().inspect_err(|error| warn!(%error, "vector search runs on one thread")).ok()
}

/// Pins the thread to one of the allowed cores. An error is ignored, because the thread is then only slower. Pins
/// nothing if more cores than pool threads are allowed, as in a container with a CPU quota, because other processes
/// would share the same few cores.
#[cfg(target_os = "linux")]
fn pin_thread(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if allowed.count() as usize > MAX_THREADS {
        return;
    }
    let mut own = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(number) {
        own.set(core);
        let _ = sched_setaffinity(None, &own);
    }
}

/// Does nothing: other systems place threads themselves.
#[cfg(not(target_os = "linux"))]
fn pin_thread(_number: usize) {}

/// Runs the work for `0..count` in parts of `size`, and returns the results in order. An idle thread takes the next
/// part. If each thread had a fixed share of the parts, a thread that shares its core with other work would delay the
/// result.
pub(super) fn run_in_parts<T: Send>(count: usize, size: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    run_on_pool(POOL.as_ref(), count, size, work)
}

fn run_on_pool<T: Send>(
    pool: Option<&ThreadPool>,
    count: usize,
    size: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let parts = count.div_ceil(size);
    let part = |number: usize| work(number * size..count.min((number + 1) * size));
    match pool {
        Some(pool) if parts > 1 => pool.install(|| (0..parts).into_par_iter().with_max_len(1).map(part).collect()),
        _ => (0..parts).map(part).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    fn threads(count: usize) -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(count).build().unwrap()
    }

    #[test]
    fn all_parts_run_once_and_in_order() {
        for pool in [None, Some(threads(1)), Some(threads(3))] {
            for (count, size) in [(0, 4), (3, 4), (4, 4), (9, 4), (1_000, 7)] {
                let done: Vec<usize> =
                    run_on_pool(pool.as_ref(), count, size, |part| part.collect::<Vec<_>>()).concat();
                assert_eq!(done, (0..count).collect::<Vec<_>>(), "{count} by {size}");
            }
        }
    }

    #[test]
    fn idle_thread_takes_next_part() {
        // The first part waits until all other parts are done: if parts were assigned to threads in advance, it would
        // wait forever.
        let left = AtomicUsize::new(15);
        let begun = Instant::now();
        run_on_pool(Some(&threads(2)), 16, 1, |part| match part.start {
            0 => {
                while left.load(Ordering::Relaxed) > 0 {
                    assert!(begun.elapsed() < Duration::from_secs(30), "no thread takes the others");
                    std::thread::yield_now();
                }
            }
            _ => drop(left.fetch_sub(1, Ordering::Relaxed)),
        });
    }

    #[test]
    fn single_part_runs_on_calling_thread() {
        let here = std::thread::current().id();
        assert_eq!(run_in_parts(100, 100, |_| std::thread::current().id()), [here]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_on_few_cores_are_pinned_separately() {
        use std::collections::BTreeSet;

        use crate::machine::test_needs::can_prove;

        let cores = available_parallelism().map_or(1, NonZero::get);
        let all = rustix::thread::sched_getaffinity(None).unwrap().count() as usize;
        let pool = POOL.as_ref().filter(|_| all <= MAX_THREADS);
        if !can_prove(pool.is_some(), "threads are pinned on 2 to 4 cores only") {
            return;
        }
        let allowed = pool.unwrap().broadcast(|_| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            (0..rustix::thread::CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it)).collect::<Vec<_>>()
        });
        assert!(allowed.iter().all(|it| it.len() == 1), "{allowed:?}");
        assert_eq!(allowed.iter().collect::<BTreeSet<_>>().len(), cores, "{allowed:?}");
    }
}
