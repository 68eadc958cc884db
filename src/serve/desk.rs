//! How much is at work at the same time. What finds no place is refused at once: whoever asks can try again, and what is
//! taken on is answered soon.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::{Error, ErrorCode, Result};
use crate::model::AskEvent;
use crate::serve::metrics::{Metrics, Refused};

/// Requests that wait for a place.
const MAX_WAITING: usize = 16;

/// The longest that one waits.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Steps of an answer that wait for a slow reader.
const STEPS: usize = 8;

/// Places for what takes long, and the counts of what came of it.
pub(crate) struct Desk {
    /// Everything that searches the index.
    pub(crate) questions: Places,
    /// What reads a file or embeds texts for somebody.
    pub(crate) readings: Places,
    pub(crate) metrics: Metrics,
}

impl Desk {
    /// A desk with so many places of each kind.
    pub(crate) fn new(places: usize) -> Desk {
        let kind = || Places::new(places, MAX_WAIT);
        Desk { questions: kind(), readings: kind(), metrics: Metrics::default() }
    }

    /// Answers a question when there is a place for it.
    pub(crate) async fn question<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = self.metrics.asked();
        let outcome = async {
            let _place = self.place(&self.questions).await?;
            work.await
        }
        .await;
        asked.ended(outcome.as_ref().err().map(|it| it.code));
        outcome
    }

    /// Reads or embeds when there is a place for it.
    pub(crate) async fn reading<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _place = self.place(&self.readings).await?;
        work.await
    }

    /// As [`Desk::question`], for an answer that comes in steps: it has its place until the last one.
    pub(crate) async fn steps(
        self: &Arc<Desk>,
        begin: impl Future<Output = Result<mpsc::Receiver<Result<AskEvent>>>>,
    ) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        let begun = async {
            let place = self.place(&self.questions).await?;
            Ok::<_, Error>((place, begin.await?))
        };
        let (place, mut steps) = begun.await.inspect_err(|error| self.metrics.asked().ended(Some(error.code)))?;
        let desk = self.clone();
        let (sender, receiver) = mpsc::channel(STEPS);
        tokio::spawn(async move {
            let asked = desk.metrics.asked();
            let mut last = None;
            loop {
                let step = tokio::select! {
                    step = steps.recv() => step,
                    () = sender.closed() => return,
                };
                let Some(step) = step else { break };
                last = step.as_ref().err().map(|it| it.code);
                if sender.send(step).await.is_err() {
                    return;
                }
            }
            asked.ended(last);
            drop(place);
        });
        Ok(receiver)
    }

    async fn place(&self, places: &Places) -> Result<OwnedSemaphorePermit> {
        places.enter().await.inspect_err(|_| self.metrics.refused(Refused::Busy))
    }
}

/// Some places, and a short queue before them.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
    patience: Duration,
}

impl Places {
    fn new(places: usize, patience: Duration) -> Places {
        Places { free: Arc::new(Semaphore::new(places)), all: places, waiting: AtomicUsize::new(0), patience }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.all - self.free.available_permits().min(self.all)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn enter(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(place) = self.free.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _queued = Queued::new(&self.waiting).ok_or_else(|| self.busy())?;
        match tokio::time::timeout(self.patience, self.free.clone().acquire_owned()).await {
            Ok(place) => place.map_err(Error::internal),
            Err(_) => Err(self.busy()),
        }
    }

    fn busy(&self) -> Error {
        let (all, waiting) = (self.all, self.waiting());
        Error::new(ErrorCode::ResourceExhausted, format!("busy: {all} requests are at work and {waiting} wait"))
            .hint("try again in a second")
    }
}

/// A place in the queue.
struct Queued<'a>(&'a AtomicUsize);

impl Queued<'_> {
    fn new(waiting: &AtomicUsize) -> Option<Queued<'_>> {
        let longer = |now: usize| (now < MAX_WAITING).then_some(now + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer).ok().map(|_| Queued(waiting))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// So many questions that do not end, started.
    async fn fill(desk: &Arc<Desk>, questions: usize) -> Vec<tokio::task::JoinHandle<Result<()>>> {
        let start = |_| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.question(std::future::pending::<Result<()>>()).await })
        };
        let tasks = (0..questions).map(start).collect();
        tokio::task::yield_now().await;
        tasks
    }

    #[tokio::test]
    async fn beyond_the_places_and_the_queue_it_is_refused_at_once() {
        let desk = Arc::new(Desk::new(2));
        let tasks = fill(&desk, 2 + MAX_WAITING).await;
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (2, MAX_WAITING));
        let begun = Instant::now();
        let error = desk.question(async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() < Duration::from_secs(5) && error.hint.is_some(), "{error}");
        // Readings have places of their own.
        desk.reading(async { Ok(()) }).await.unwrap();
        // Who goes away makes room.
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            task.await.unwrap_err();
        }
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (0, 0));
        desk.question(async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let places = Places::new(1, Duration::from_millis(50));
        let _taken = places.enter().await.unwrap();
        let begun = Instant::now();
        assert_eq!(places.enter().await.unwrap_err().code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn an_answer_in_steps_has_its_place_until_the_last() {
        let desk = Arc::new(Desk::new(1));
        let (sender, receiver) = mpsc::channel(1);
        let mut steps = desk.steps(async { Ok(receiver) }).await.unwrap();
        sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        steps.recv().await.unwrap().unwrap();
        assert_eq!(desk.questions.taken(), 1);
        drop(sender);
        assert!(steps.recv().await.is_none());
        desk.question(async { Ok(()) }).await.unwrap();
        // One that nobody reads any more frees its place too.
        let (_sender, receiver) = mpsc::channel(1);
        drop(desk.steps(async { Ok(receiver) }).await.unwrap());
        desk.question(async { Ok(()) }).await.unwrap();
    }
}
