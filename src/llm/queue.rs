//! The request queue of a model backend: a limited number of requests run, a limited number wait, and others are rejected.
//!
//! All clients in the process share one queue per backend, because the server is shared too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::capabilities::QueueState;

/// Limits of the request queue of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of running requests.
    pub running: usize,
    /// Maximum number of waiting requests; further ones are rejected.
    pub waiting: usize,
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        // Runs two requests at a time, although a local server computes one answer at a time, so that the next request
        // is already sent when an answer ends.
        QueueLimits { running: 2, waiting: 32 }
    }
}

/// All queues of the process, by backend and address.
static QUEUES: LazyLock<Mutex<HashMap<String, Weak<Queue>>>> = LazyLock::new(Mutex::default);

/// The queue of one backend.
#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Queue {
    /// Returns the queue of a backend, whose kind and address are `place`. The limits of its first client apply until all
    /// clients of the queue are dropped.
    pub(super) fn for_backend(place: &str, limits: QueueLimits) -> Arc<Queue> {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(place).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, it| it.strong_count() > 0);
        let queue = Arc::new(Queue::new(limits));
        queues.insert(place.to_string(), Arc::downgrade(&queue));
        queue
    }

    pub(super) fn new(limits: QueueLimits) -> Queue {
        let limits = QueueLimits { running: limits.running.max(1), ..limits };
        let permits = Arc::new(Semaphore::new(limits.running));
        Queue { limits, permits, waiting: AtomicUsize::new(0) }
    }

    /// Returns how many requests are running and waiting.
    pub(super) fn state(&self) -> QueueState {
        let running = self.limits.running - self.permits.available_permits().min(self.limits.running);
        QueueState {
            running,
            waiting: self.waiting.load(Ordering::Relaxed),
            most_running: self.limits.running,
            most_waiting: self.limits.waiting,
        }
    }

    /// Adds a request to the queue.
    ///
    /// # Errors
    /// `ResourceExhausted` if the queue is full.
    pub(super) fn enter(self: &Arc<Queue>) -> Result<QueueEntry> {
        // Adds the free permits to the limit, because a request that can run immediately also counts as waiting for a
        // moment.
        let most = self.limits.waiting + self.permits.available_permits();
        let longer = |now: usize| (now < most).then_some(now + 1);
        let before = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
        match before {
            Ok(before) => Ok(QueueEntry { queue: self.clone(), ahead: before, waits: true }),
            Err(_) => {
                let QueueLimits { running, waiting } = self.limits;
                // Omits the server's address, which the caller may not be allowed to know.
                let text = format!("the model is busy: {running} requests are running and {waiting} are waiting");
                Err(Error::new(ErrorCode::ResourceExhausted, text).hint("try again in a second"))
            }
        }
    }
}

/// The position of a request in the queue; dropping this value releases the position.
#[derive(Debug)]
pub(super) struct QueueEntry {
    queue: Arc<Queue>,
    /// Number of requests that were already waiting when this one was added.
    pub(super) ahead: usize,
    waits: bool,
}

impl QueueEntry {
    /// Waits until the request may run.
    ///
    /// # Errors
    /// `DeadlineExceeded` if the request may not run within `most`.
    pub(super) async fn acquire(mut self, most: Duration) -> Result<OwnedSemaphorePermit> {
        let permit = tokio::time::timeout(most, self.queue.permits.clone().acquire_owned()).await.map_err(|_| {
            Error::new(ErrorCode::DeadlineExceeded, "the model was busy with other requests for too long")
        })?;
        let permit = permit.map_err(Error::internal)?;
        self.release();
        Ok(permit)
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn full_queue_rejects_at_once_and_recovers() {
        let queue = Queue::for_backend("openai http://192.0.2.5:1", QueueLimits { running: 1, waiting: 2 });
        let running = queue.enter().unwrap().acquire(PATIENCE).await.unwrap();
        let waiting = [queue.enter().unwrap(), queue.enter().unwrap()];
        assert_eq!((queue.state().running, queue.state().waiting), (1, 2));
        let error = queue.enter().unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(error.message.contains("is busy") && error.hint.is_some(), "{error}");
        assert!(!error.message.contains("192.0.2.5"), "{error}");
        drop((waiting, running));
        assert_eq!((queue.state().running, queue.state().waiting), (0, 0));
        let _turn = queue.enter().unwrap().acquire(PATIENCE).await.unwrap();
    }

    #[test]
    fn same_backend_shares_queue() {
        let limits = QueueLimits::default();
        let first = Queue::for_backend("ollama http://127.0.0.1:1", limits);
        assert!(Arc::ptr_eq(&first, &Queue::for_backend("ollama http://127.0.0.1:1", limits)));
        assert!(!Arc::ptr_eq(&first, &Queue::for_backend("ollama http://127.0.0.1:2", limits)));
    }
}
