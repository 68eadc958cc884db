//! Starts the compute threads of the Lance library, and limits its memory for building the keyword index.
//!
//! The library has one pool of threads per process: keyword queries run there, and so do commits and maintenance. The
//! library starts a thread when all others are busy, and a thread never ends. A new thread inherits the priority of
//! the thread that starts it, and an ordinary user cannot raise a priority again. Therefore all threads are started
//! at once, before any background work. Otherwise queries would run at background priority, behind every other program of
//! the machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use lance_core::utils::tokio::{get_num_compute_intensive_cpus, spawn_cpu};

use crate::store::indexes::KEYWORD_MEMORY_MIB;
use crate::store::memory::start_threads;

/// Environment variable with the number of threads in the pool.
const THREADS_VARIABLE: &str = "LANCE_CPU_THREADS";

/// Number of threads on a small machine. The library's default for such a machine is one thread, so that a query would
/// wait for the running maintenance step.
const SMALL_MACHINE_THREADS: usize = 2;

/// A machine with at most this many cores counts as small.
const SMALL_MACHINE_CORES: usize = 3;

/// Environment variable with the number of threads that build the keyword index; queries use all others.
const INDEXERS_VARIABLE: &str = "LANCE_FTS_NUM_SHARDS";

/// Environment variable with the memory of each thread that builds the keyword index, in MiB. An update of a keyword
/// index obeys only these two variables, not the settings with which the index was built; the library's default is 2
/// GiB for half of the cores.
const INDEXER_MEMORY_VARIABLE: &str = "LANCE_FTS_PARTITION_SIZE";

/// Maximum time to wait for all threads to start: the system may refuse some.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// Sets the thread and memory limits of the library, except those that the user has set. Must be called first in
/// `main`, before any thread starts.
#[expect(clippy::disallowed_methods, reason = "variables of a foreign library")]
pub fn limit_library() {
    let is_small = std::thread::available_parallelism().is_ok_and(|it| it.get() <= SMALL_MACHINE_CORES);
    let threads = is_small.then_some((THREADS_VARIABLE, SMALL_MACHINE_THREADS as u64));
    let bounds = threads.into_iter().chain([(INDEXERS_VARIABLE, 1), (INDEXER_MEMORY_VARIABLE, KEYWORD_MEMORY_MIB)]);
    for (name, value) in bounds.filter(|it| std::env::var_os(it.0).is_none()) {
        if let Err(error) = vic_system::environment::set_variable_before_threads(name, &value.to_string()) {
            tracing::warn!("{error}");
        }
    }
}

/// Starts all threads of the pool and those of vector search, with the priority of the caller.
pub async fn start_pool() {
    start_threads();
    let (threads, met) = (get_num_compute_intensive_cpus(), Arc::new(AtomicUsize::new(0)));
    let until = Instant::now() + START_TIMEOUT;
    let meet = |_| {
        let met = met.clone();
        // Keeps each thread busy until all threads have started, because a thread that finished early would take the
        // next task, for which no further thread would be started.
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
