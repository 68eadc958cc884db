//! The threads on which the library computes, and the memory that it takes to index words.
//!
//! It has one pool of them for the whole process: the search of the keyword index for a question runs there, and so does
//! what commits and upkeep compute. A thread is started when there is more to do than threads at rest, has the priority of
//! whoever needed it, which no ordinary user can raise again, and stays for good. So all are started at once, before anything
//! that goes on unasked: otherwise questions would wait behind every program of the machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use lance_core::utils::tokio::{get_num_compute_intensive_cpus, spawn_cpu};

use crate::store::hot::start_threads;
use crate::store::upkeep::KEYWORD_MEMORY_MIB;

/// How many threads the pool has.
const THREADS: &str = "LANCE_CPU_THREADS";

/// Threads on a small machine. The library takes a single one there, and a question would wait until upkeep has computed what
/// it is at.
const ON_SMALL_MACHINES: usize = 2;

/// Cores up to which a machine is small.
const SMALL_MACHINE: usize = 3;

/// How many threads of the pool index words at once: one stays for questions.
const WORD_WORKERS: &str = "LANCE_FTS_NUM_SHARDS";

/// The memory of each, in MiB. What a keyword index was made with counts no more when it is brought up to date: then these
/// two do, and the library takes 2 GiB for half of the cores.
const WORD_MEMORY: &str = "LANCE_FTS_PARTITION_SIZE";

/// The longest that is waited for threads that the system may refuse.
const START: Duration = Duration::from_secs(1);

/// Bounds what the library takes of the machine, where the user has not. Call it first thing in `main`, before there is any
/// other thread.
#[expect(clippy::disallowed_methods, reason = "variables of a foreign library")]
pub fn bound_library() {
    let is_small = std::thread::available_parallelism().is_ok_and(|it| it.get() <= SMALL_MACHINE);
    let threads = is_small.then_some((THREADS, ON_SMALL_MACHINES as u64));
    let bounds = threads.into_iter().chain([(WORD_WORKERS, 1), (WORD_MEMORY, KEYWORD_MEMORY_MIB)]);
    for (name, value) in bounds.filter(|it| std::env::var_os(it.0).is_none()) {
        #[expect(unsafe_code, reason = "called before there is a second thread that could read the environment")]
        // SAFETY: by this function's contract no other thread runs yet.
        unsafe {
            std::env::set_var(name, value.to_string());
        }
    }
}

/// Starts all threads of the pool, and those that search in vectors, with the priority of the thread that calls.
pub async fn start_pool() {
    start_threads();
    let (threads, met) = (get_num_compute_intensive_cpus(), Arc::new(AtomicUsize::new(0)));
    let until = Instant::now() + START;
    let meet = |_| {
        let met = met.clone();
        // A thread that is done would do the next one's part too.
        spawn_cpu(move || {
            met.fetch_add(1, Ordering::Relaxed);
            while met.load(Ordering::Relaxed) < threads && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, Infallible>(())
        })
    };
    join_all((0..threads).map(meet)).await;
}
