//! Work over many rows, in parts on several threads at once.
//!
//! The threads wait for work, and where cores are few they stay where they are. A thread that is started for a question, or woken, runs first of all
//! on the core of whoever woke it: a Linux of a few cores does not look for one at rest unless hardly any has anything to
//! do, and moves nothing for some milliseconds, which is longer than all of the work takes.

use std::num::NonZero;
use std::ops::Range;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tracing::warn;

/// Most threads. More would not have more of the memory's time, for which a scan waits.
const MOST_THREADS: usize = 4;

/// None where there is one core, or the system gives no threads: then whoever asks does it all.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(pool);

/// Starts the threads, with the priority of the one that calls.
pub(in crate::store) fn start_threads() {
    LazyLock::force(&POOL);
}

fn pool() -> Option<ThreadPool> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    if cores == 1 {
        return None;
    }
    let mut builder = ThreadPoolBuilder::new().num_threads(cores.min(MOST_THREADS));
    builder = builder.thread_name(|number| format!("scan-{number}"));
    if cores <= MOST_THREADS {
        builder = builder.start_handler(stay);
    }
    builder.build().inspect_err(|error| warn!(%error, "a search in vectors runs on one thread")).ok()
}

/// Keeps the thread on one of the cores that are allowed, its own. Where that is not granted it is only slower. Where more
/// are allowed than there is time for, as in a container with a quota, other processes would be on the same few.
#[cfg(target_os = "linux")]
fn stay(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if allowed.count() as usize > MOST_THREADS {
        return;
    }
    let mut own = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(number) {
        own.set(core);
        let _ = sched_setaffinity(None, &own);
    }
}

/// Other systems place threads as they like.
#[cfg(not(target_os = "linux"))]
fn stay(_number: usize) {}

/// Does the work for `0..count` in parts of this size, and returns what came of each, in order. Whichever thread is free
/// takes the next part: one that shares its core with other work would keep the rest waiting with a fixed share.
pub(super) fn in_parts<T: Send>(count: usize, size: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    on_pool(POOL.as_ref(), count, size, work)
}

fn on_pool<T: Send>(
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
    fn all_is_done_once_and_in_order_however_many_threads_there_are() {
        for pool in [None, Some(threads(1)), Some(threads(3))] {
            for (count, size) in [(0, 4), (3, 4), (4, 4), (9, 4), (1_000, 7)] {
                let done: Vec<usize> = on_pool(pool.as_ref(), count, size, |part| part.collect::<Vec<_>>()).concat();
                assert_eq!(done, (0..count).collect::<Vec<_>>(), "{count} by {size}");
            }
        }
    }

    #[test]
    fn whoever_is_free_takes_the_next_part() {
        // The first part ends when all others have: with a fixed share for each thread it would wait for ever.
        let left = AtomicUsize::new(15);
        let begun = Instant::now();
        on_pool(Some(&threads(2)), 16, 1, |part| match part.start {
            0 => {
                while left.load(Ordering::Relaxed) > 0 {
                    assert!(begun.elapsed() < Duration::from_secs(30), "nobody takes the others");
                    std::thread::yield_now();
                }
            }
            _ => drop(left.fetch_sub(1, Ordering::Relaxed)),
        });
    }

    #[test]
    fn a_little_work_stays_on_the_thread_that_asks() {
        let here = std::thread::current().id();
        assert_eq!(in_parts(100, 100, |_| std::thread::current().id()), [here]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_of_few_cores_stay_each_on_its_own() {
        use std::collections::BTreeSet;

        let cores = available_parallelism().map_or(1, NonZero::get);
        let all = rustix::thread::sched_getaffinity(None).unwrap().count() as usize;
        let Some(pool) = POOL.as_ref().filter(|_| all <= MOST_THREADS) else {
            println!("nothing is proved: threads are not kept on one of {all} cores");
            return;
        };
        let allowed = pool.broadcast(|_| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            (0..rustix::thread::CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it)).collect::<Vec<_>>()
        });
        assert!(allowed.iter().all(|it| it.len() == 1), "{allowed:?}");
        assert_eq!(allowed.iter().collect::<BTreeSet<_>>().len(), cores, "{allowed:?}");
    }
}
