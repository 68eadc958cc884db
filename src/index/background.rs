//! The threads of all background work, and how its loops wait: for a notification, or for a retry delay that grows.

use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::index::state::IndexState;
use crate::machine::{self, IoClass};

/// Initial and maximum retry delay.
const RETRY_DELAYS: (Duration, Duration) =
    (if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(15) }, Duration::from_secs(600));

/// Threads of all background work. They run at low priority, and a thread cannot raise its priority again. Queries
/// therefore never run on these threads.
pub(super) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    pub(super) fn start() -> Result<BackgroundRuntime> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("index")
            .on_thread_start(|| machine::lower_priority(IoClass::LowestBestEffort))
            .enable_all()
            .build();
        threads.map(|it| BackgroundRuntime(Some(it))).map_err(Error::internal)
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |it| it.handle().clone())
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        // Waiting for the threads here would block a thread of another runtime.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl IndexState {
    /// Waits for a notification or the retry delay. Returns false once the daemon shuts down.
    pub(super) async fn wait_for_wake(&self, by: &Notify, again: Option<Duration>) -> bool {
        tokio::select! {
            () = by.notified() => true,
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => true,
            () = self.shutdown.cancelled() => false,
        }
    }
}

/// Returns the next retry delay: twice the previous one, up to the maximum.
pub(super) fn next_backoff(before: Option<Duration>) -> Duration {
    before.map_or(RETRY_DELAYS.0, |it| (2 * it).min(RETRY_DELAYS.1))
}
