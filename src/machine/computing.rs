//! Work that computes for longer than an async task may, for code that borrows or cannot wait. Whatever can be moved and
//! waited for belongs on a blocking thread instead.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work where it stands; the other tasks of this thread go on on another one meanwhile.
pub(crate) fn computing<T>(work: impl FnOnce() -> T) -> T {
    // A runtime of one thread, as that of most tests, has no other.
    match Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread) {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::computing;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_of_the_thread_go_on_while_one_computes() {
        let (sender, receiver) = mpsc::channel();
        let computed = tokio::spawn(async move {
            // There is one thread for both.
            tokio::spawn(async move { sender.send(7) });
            computing(|| receiver.recv_timeout(Duration::from_secs(20)))
        });
        assert_eq!(computed.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn with_one_thread_alone_it_computes_all_the_same() {
        assert_eq!(computing(|| 7), 7);
    }
}
