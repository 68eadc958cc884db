//! Work over many rows, in parts on several threads at once.
//!
//! A scan of a million rows waits for memory, and one core alone does not ask for as much of it as there is. Where rows
//! are few, a second thread takes longer to start than it saves.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread::{Builder, available_parallelism, scope};

/// Most threads of one question: others are asked at the same time.
const MOST_THREADS: usize = 4;

/// The cores that this process may use. To ask the system each time means to read files.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));

/// Does the work for `0..count` in parts of at least so many, and returns what came of each, in order.
pub(super) fn in_parts<T: Send>(count: usize, least: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = (count / least.max(1)).clamp(1, (*CORES).min(MOST_THREADS));
    on_threads(threads, count, &work)
}

fn on_threads<T: Send>(threads: usize, count: usize, work: &(impl Fn(Range<usize>) -> T + Sync)) -> Vec<T> {
    let size = count.div_ceil(threads);
    let part = |number: usize| (number * size).min(count)..((number + 1) * size).min(count);
    if threads == 1 {
        return vec![work(part(0))];
    }
    scope(|scope| {
        let spawn = |number| Builder::new().spawn_scoped(scope, move || work(part(number)));
        let others: Vec<_> = (1..threads).map(|number| (number, spawn(number))).collect();
        let mut done = vec![work(part(0))];
        for (number, thread) in others {
            done.push(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // There may be no thread to be had.
                Err(_) => work(part(number)),
            });
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_once_and_in_order_however_many_threads_there_are() {
        for (threads, count) in [(1, 0), (1, 9), (2, 9), (4, 9), (4, 5), (4, 2)] {
            let done: Vec<usize> = on_threads(threads, count, &|part| part.collect::<Vec<_>>()).concat();
            assert_eq!(done, (0..count).collect::<Vec<_>>(), "{threads} threads, {count}");
        }
    }

    #[test]
    fn a_little_work_stays_on_the_thread_that_asks() {
        let here = std::thread::current().id();
        let threads = in_parts(199, 100, |_| std::thread::current().id());
        assert_eq!(threads, [here]);
        assert!(in_parts(1_000_000, 1, |_| ()).len() <= (*CORES).min(MOST_THREADS));
    }
}
