//! What all callers have in common: how much is at work at the same time, and the keys. What finds no place is refused
//! at once: whoever asks can try again, and what is taken on is answered soon.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::{Error, ErrorCode, Result};
use crate::machine::{self, Ahead, Session};
use crate::model::AskEvent;
use crate::serve::metrics::{Metrics, Refused};
use crate::serve::ring::KeyRing;

/// Requests that wait for a place, when many come at once.
const MAX_WAITING: usize = 16;

/// Lists at work for each place of a question: they wait for the disk more than they compute.
const LISTS_A_PLACE: usize = 4;

/// Lists that wait. Each takes milliseconds, and a program may well ask at once for all that it shows. Without an end they
/// would fill the queue before the threads that block, which questions and readings need too.
const MAX_LISTS_WAITING: usize = 256;

/// How long a flood lasts after the last request was refused. While it does, no more wait than there are places: a longer
/// queue would never become shorter, no more would be answered with it, and all would be answered later.
const FLOOD: Duration = Duration::from_secs(1);

/// The longest that one waits.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Steps of an answer that wait for a slow reader.
const STEPS: usize = 8;

/// The longest that a step waits for a reader who takes none. A few that never read would otherwise have all places.
const MAX_STALL: Duration = Duration::from_secs(30);

/// Places for what takes long, and the counts of what came of it.
pub(crate) struct Desk {
    /// Everything that searches the index.
    pub(crate) questions: Places,
    /// What reads a file or embeds texts for somebody.
    pub(crate) readings: Places,
    /// What lists files, jobs, folders or counts.
    pub(crate) lists: Places,
    pub(crate) metrics: Metrics,
    /// Those of the TCP port; none when it asks for none.
    pub(crate) keys: Option<Arc<KeyRing>>,
    /// Ahead of others while a place is taken.
    pub(crate) session: Arc<Session>,
    /// How long a reader may take none of the steps that wait for it.
    pub(crate) stall: Duration,
}

/// A place that somebody has.
struct Place {
    _permit: OwnedSemaphorePermit,
    _ahead: Ahead,
}

impl Desk {
    /// A desk with so many places of each kind.
    pub(crate) fn new(places: usize) -> Desk {
        let kind = || Places::new(places, MAX_WAITING, MAX_WAIT);
        Desk {
            questions: kind(),
            readings: kind(),
            lists: Places::new(LISTS_A_PLACE * places, MAX_LISTS_WAITING, MAX_WAIT),
            metrics: Metrics::default(),
            keys: None,
            session: Arc::new(Session::own()),
            stall: MAX_STALL,
        }
    }

    /// Answers a question when there is a place for it.
    pub(crate) async fn question<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = self.metrics.asked();
        let outcome = async {
            let _place = self.place(&self.questions).await?;
            let _attention = machine::budget().attend();
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

    /// Lists what is known when there is a place for it. It costs too little for the session to come forward.
    pub(crate) async fn list<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _permit = self.enter(&self.lists).await?;
        work.await
    }

    /// As [`Desk::question`], for an answer that comes in steps: it has its place until the last one.
    pub(crate) async fn steps(
        self: &Arc<Desk>,
        begin: impl Future<Output = Result<mpsc::Receiver<Result<AskEvent>>>>,
    ) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        let begun = async {
            let place = self.place(&self.questions).await?;
            let attention = machine::budget().attend();
            Ok::<_, Error>((place, attention, begin.await?))
        };
        let (place, attention, mut steps) =
            begun.await.inspect_err(|error| self.metrics.asked().ended(Some(error.code)))?;
        let desk = self.clone();
        let (sender, receiver) = mpsc::channel(STEPS + 1);
        // Of a channel that is full, the reader would not learn why the answer ends.
        let farewell = sender.clone().try_reserve_owned().map_err(Error::internal)?;
        tokio::spawn(async move {
            let asked = desk.metrics.asked();
            match pass_on(&mut steps, &sender, desk.stall).await {
                Passed::All(last) => asked.ended(last),
                Passed::Gone => {}
                Passed::Stalled => {
                    let error = stalled(desk.stall);
                    asked.ended(Some(error.code));
                    farewell.send(Err(error));
                }
            }
            drop((place, attention));
        });
        Ok(receiver)
    }

    async fn place(&self, places: &Places) -> Result<Place> {
        Ok(Place { _permit: self.enter(places).await?, _ahead: self.session.come_forward() })
    }

    async fn enter(&self, places: &Places) -> Result<OwnedSemaphorePermit> {
        places.enter().await.inspect_err(|_| self.metrics.refused(Refused::Busy))
    }
}

/// How the passing on of an answer ended.
enum Passed {
    /// With its last step: the code of its error, if it is one.
    All(Option<ErrorCode>),
    /// The reader went away.
    Gone,
    /// The reader is there and takes nothing.
    Stalled,
}

async fn pass_on(
    steps: &mut mpsc::Receiver<Result<AskEvent>>,
    reader: &mpsc::Sender<Result<AskEvent>>,
    stall: Duration,
) -> Passed {
    let mut last = None;
    loop {
        let step = tokio::select! {
            step = steps.recv() => step,
            () = reader.closed() => return Passed::Gone,
        };
        let Some(step) = step else { return Passed::All(last) };
        last = step.as_ref().err().map(|it| it.code);
        match reader.send_timeout(step, stall).await {
            Ok(()) => {}
            Err(SendTimeoutError::Closed(_)) => return Passed::Gone,
            Err(SendTimeoutError::Timeout(_)) => return Passed::Stalled,
        }
    }
}

fn stalled(stall: Duration) -> Error {
    let text = format!("nobody read the answer for {} seconds", stall.as_secs());
    Error::new(ErrorCode::DeadlineExceeded, text).hint("read the steps as they come, or ask without a stream")
}

/// Some places, and a short queue before them.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    most_waiting: usize,
    queue: Mutex<Queue>,
    patience: Duration,
}

/// Who waits.
#[derive(Default)]
struct Queue {
    waiting: usize,
    /// When one was refused last: there were too many.
    refused: Option<Instant>,
}

impl Places {
    fn new(places: usize, most_waiting: usize, patience: Duration) -> Places {
        Places { free: Arc::new(Semaphore::new(places)), all: places, most_waiting, queue: Mutex::default(), patience }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.all - self.free.available_permits().min(self.all)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.with_queue(|it| it.waiting)
    }

    async fn enter(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(place) = self.free.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _queued = self.queue_up(Instant::now()).ok_or_else(|| self.busy())?;
        match tokio::time::timeout(self.patience, self.free.clone().acquire_owned()).await {
            Ok(place) => place.map_err(Error::internal),
            Err(_) => Err(self.busy()),
        }
    }

    fn queue_up(&self, now: Instant) -> Option<Queued<'_>> {
        self.with_queue(|queue| {
            let flood = queue.refused.is_some_and(|it| now.duration_since(it) < FLOOD);
            if queue.waiting >= if flood { self.all.min(self.most_waiting) } else { self.most_waiting } {
                queue.refused = Some(now);
                return None;
            }
            queue.waiting += 1;
            Some(Queued(self))
        })
    }

    fn with_queue<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn busy(&self) -> Error {
        let (all, waiting) = (self.all, self.waiting());
        Error::new(ErrorCode::ResourceExhausted, format!("busy: {all} requests are at work and {waiting} wait"))
            .hint("try again in a second")
    }
}

/// A place in the queue.
struct Queued<'a>(&'a Places);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.with_queue(|queue| queue.waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let places = Places::new(1, MAX_WAITING, Duration::from_millis(50));
        let _taken = places.enter().await.unwrap();
        let begun = Instant::now();
        assert_eq!(places.enter().await.unwrap_err().code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn in_a_flood_no_more_wait_than_there_are_places_and_when_it_is_over_as_many_as_before() {
        let places = Places::new(2, MAX_WAITING, MAX_WAIT);
        let begun = Instant::now();
        let mut queue: Vec<_> = (0..MAX_WAITING).map(|_| places.queue_up(begun).unwrap()).collect();
        assert!(places.queue_up(begun).is_none(), "the queue is full, and a flood begins");
        queue.truncate(2);
        let soon = begun + FLOOD / 2;
        assert!(places.queue_up(soon).is_none(), "as many wait as there are places");
        queue.pop();
        queue.push(places.queue_up(soon).expect("one of them went on"));
        let later = soon + FLOOD;
        queue.extend((2..MAX_WAITING).map(|_| places.queue_up(later).expect("a second without a refusal")));
        assert_eq!(places.waiting(), MAX_WAITING);
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

    #[tokio::test]
    async fn whoever_reads_no_step_for_long_loses_the_place_and_is_told() {
        let desk = Arc::new(Desk { stall: Duration::from_millis(50), ..Desk::new(1) });
        let (sender, receiver) = mpsc::channel(2 * STEPS);
        let mut steps = desk.steps(async { Ok(receiver) }).await.unwrap();
        for _ in 0..2 * STEPS {
            sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        }
        desk.question(async { Ok(()) }).await.unwrap();
        for _ in 0..STEPS {
            steps.recv().await.unwrap().unwrap();
        }
        assert_eq!(steps.recv().await.unwrap().unwrap_err().code, ErrorCode::DeadlineExceeded);
        assert!(steps.recv().await.is_none());
    }
}
