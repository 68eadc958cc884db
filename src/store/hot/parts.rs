//! Work over many rows, in parts on several threads at once.
//!
//! A scan of a million rows waits for memory, and one core alone does not ask for as much of it as there is. Where rows
//! are few, a second thread takes longer to start than it saves.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// Most threads of one question: others are asked at the same time.
const MOST_THREADS: usize = 4;

/// Parts for each thread. Whichever is free takes the next: one that shares its core with other work, as with the keyword
/// leg of the same question, would keep the rest waiting with a fixed share.
const PARTS_A_THREAD: usize = 8;

/// The cores that this process may use. To ask the system each time means to read files.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));

/// Does the work for `0..count` in parts, and returns what came of each, in order. So many are worth a thread: `least`.
pub(super) fn in_parts<T: Send>(count: usize, least: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = (count / least.max(1)).clamp(1, (*CORES).min(MOST_THREADS));
    on_threads(threads, count, &work)
}

fn on_threads<T: Send>(threads: usize, count: usize, work: &(impl Fn(Range<usize>) -> T + Sync)) -> Vec<T> {
    if threads == 1 {
        return vec![work(0..count)];
    }
    let next = AtomicUsize::new(0);
    let size = count.div_ceil(threads * PARTS_A_THREAD).max(1);
    let take = || {
        let starts = std::iter::repeat_with(|| next.fetch_add(size, Ordering::Relaxed)).take_while(|it| *it < count);
        starts.map(|it| (it, work(it..(it + size).min(count)))).collect::<Vec<_>>()
    };
    let mut done = scope(|scope| {
        // There may be no thread to be had: then the others do it all.
        let others: Vec<_> = (1..threads).filter_map(|_| Builder::new().spawn_scoped(scope, take).ok()).collect();
        let mut done = take();
        for thread in others {
            done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|it| it.0);
    done.into_iter().map(|it| it.1).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn all_is_done_once_and_in_order_however_many_threads_there_are() {
        for (threads, count) in [(1, 0), (1, 9), (2, 9), (4, 9), (4, 5), (4, 2)] {
            let done: Vec<usize> = on_threads(threads, count, &|part| part.collect::<Vec<_>>()).concat();
            assert_eq!(done, (0..count).collect::<Vec<_>>(), "{threads} threads, {count}");
        }
    }

    #[test]
    fn whoever_is_free_takes_the_next_part() {
        // The first part ends when all others have: with a fixed share for each thread it would wait for ever.
        let left = AtomicUsize::new(2 * PARTS_A_THREAD - 1);
        let begun = Instant::now();
        on_threads(2, 2 * PARTS_A_THREAD, &|part| match part.start {
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
        let threads = in_parts(199, 100, |_| std::thread::current().id());
        assert_eq!(threads, [here]);
        assert!(in_parts(1_000_000, 1, |_| ()).len() <= (*CORES).min(MOST_THREADS) * PARTS_A_THREAD);
    }
}
