//! Runs long computations inside async code that borrows data or cannot await. Where the data can be moved and the result
//! awaited, use a blocking thread instead.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` on this thread; the other async tasks of this thread move to another thread.
pub(crate) fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    // A single-threaded runtime, as in most tests, has no thread to move the other tasks to.
    match Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread) {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::block_in_place;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_blocking_work() {
        let (sender, receiver) = mpsc::channel();
        let computed = tokio::spawn(async move {
            // Both tasks share one thread, so the sender can run only if `block_in_place` moves it to another thread.
            tokio::spawn(async move { sender.send(7) });
            block_in_place(|| receiver.recv_timeout(Duration::from_secs(20)))
        });
        assert_eq!(computed.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn blocking_work_runs_on_single_thread_runtime() {
        assert_eq!(block_in_place(|| 7), 7);
    }
}
