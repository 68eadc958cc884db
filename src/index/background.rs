//! The threads of all background tasks, and how their loops wait: for a notification, or for a retry delay that grows.

use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::index::state::IndexState;
use crate::machine::{self, IoClass};

/// Initial and maximum delay before a failed background task is retried.
const RETRY_DELAYS: (Duration, Duration) =
    (if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(15) }, Duration::from_secs(600));

/// Runtime of all background tasks. Its threads run at low priority and cannot raise it again, so queries never run on
/// them.
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
        // Does not wait for the threads: that would block a thread of the runtime that drops this one.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl IndexState {
    /// Waits for the notification `by`, or for the retry delay `again` if there is one. Returns false once the daemon
    /// shuts down.
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
