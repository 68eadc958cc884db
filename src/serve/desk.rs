//! Admission control, and the other state shared by all callers: metrics, keys and certificate. A request that finds no
//! free place and a full queue is rejected at once, so that accepted requests are answered soon.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::{Error, ErrorCode, Result};
use crate::machine::{self, Ahead, Session, Share, Shares};
use crate::model::{AskEvent, Holder};
use crate::serve::certificate::Certificate;
use crate::serve::metrics::{Metrics, Refused};
use crate::serve::ring::KeyRing;

/// Maximum number of waiting requests.
const MAX_WAITING: usize = 16;

/// Concurrent list requests per question place: lists wait for the disk more than they compute.
const LISTS_A_PLACE: usize = 4;

/// Maximum number of waiting list requests. Each takes milliseconds, and a program may issue many at once. Without a limit
/// they would fill the queue of the blocking thread pool, which questions and reads need too.
const MAX_LISTS_WAITING: usize = 256;

/// Duration of overload after the last rejection. During overload, the queue holds at most as many requests as there are
/// places. A longer queue would not increase throughput, only latency.
const FLOOD: Duration = Duration::from_secs(1);

/// Maximum time in the queue.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Buffered events of a streamed answer for a slow reader.
const STEPS: usize = 8;

/// Maximum time that an event waits for a reader. Without it, a few stalled readers would occupy all places.
const MAX_STALL: Duration = Duration::from_secs(30);

/// Limits on concurrent work, with metrics.
pub(crate) struct Desk {
    /// Queries of the index.
    pub(crate) questions: Places,
    /// Reading a file or embedding texts for a caller.
    pub(crate) readings: Places,
    /// Listing files, jobs, folders or counts.
    pub(crate) lists: Places,
    pub(crate) metrics: Metrics,
    /// Keys of the TCP port; none without authentication.
    pub(crate) keys: Option<Arc<KeyRing>>,
    /// Certificate of the TCP port; none without TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// Raises the scheduling priority of the daemon's session while a place is taken.
    pub(crate) session: Arc<Session>,
    /// How long a reader may leave events unread.
    pub(crate) stall: Duration,
}

/// A place in use, with raised priority.
struct Place {
    _seat: Seat,
    _ahead: Ahead,
}

impl Desk {
    /// Creates limits for this number of concurrent questions, and as many reads.
    pub(crate) fn new(places: usize) -> Desk {
        let kind = || Places::new(places, MAX_WAITING, MAX_WAIT);
        Desk {
            questions: kind(),
            readings: kind(),
            lists: Places::new(LISTS_A_PLACE * places, MAX_LISTS_WAITING, MAX_WAIT),
            metrics: Metrics::default(),
            keys: None,
            certificate: None,
            session: Arc::new(Session::own()),
            stall: MAX_STALL,
        }
    }

    /// Runs a question once it is admitted.
    pub(crate) async fn question<T>(&self, holder: &Holder, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = self.metrics.asked();
        let outcome = async {
            let _place = self.place(&self.questions, holder).await?;
            let _attention = machine::budget().attend();
            work.await
        }
        .await;
        asked.ended(outcome.as_ref().err().map(|it| it.code));
        outcome
    }

    /// Runs a read or an embedding once it is admitted.
    pub(crate) async fn reading<T>(&self, holder: &Holder, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _place = self.place(&self.readings, holder).await?;
        work.await
    }

    /// Runs a list request once it is admitted. Lists are too cheap to raise the priority of the session.
    pub(crate) async fn list<T>(&self, holder: &Holder, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _seat = self.enter(&self.lists, holder).await?;
        work.await
    }

    /// Like [`Desk::question`], for a streamed answer: it keeps its place until the last event.
    pub(crate) async fn steps(
        self: &Arc<Desk>,
        holder: &Holder,
        begin: impl Future<Output = Result<mpsc::Receiver<Result<AskEvent>>>>,
    ) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        let begun = async {
            let place = self.place(&self.questions, holder).await?;
            let attention = machine::budget().attend();
            Ok::<_, Error>((place, attention, begin.await?))
        };
        let (place, attention, mut steps) =
            begun.await.inspect_err(|error| self.metrics.asked().ended(Some(error.code)))?;
        let desk = self.clone();
        let (sender, receiver) = mpsc::channel(STEPS + 1);
        // Reserves a slot for the error: on a full channel, the reader would not learn why the answer ends.
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

    async fn place(&self, places: &Places, holder: &Holder) -> Result<Place> {
        Ok(Place { _seat: self.enter(places, holder).await?, _ahead: self.session.come_forward() })
    }

    async fn enter(&self, places: &Places, holder: &Holder) -> Result<Seat> {
        places.enter(holder).await.inspect_err(|_| self.metrics.refused(Refused::Busy))
    }
}

/// How forwarding of an answer ended.
enum Passed {
    /// All events were forwarded; the code of the last one if it is an error.
    All(Option<ErrorCode>),
    /// The reader disconnected.
    Gone,
    /// The reader is connected but does not read.
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
    let text = format!("the client did not read the answer for {} seconds", stall.as_secs());
    Error::new(ErrorCode::DeadlineExceeded, text).hint("read the steps as they come, or ask without a stream")
}

/// Concurrency limit with a short queue. A key gets at most half of places and queue together, and never the last place,
/// so that a key that floods requests or reads slowly cannot block others. The owner may use all places.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    most_waiting: usize,
    queue: Mutex<Queue>,
    patience: Duration,
    shares: Arc<Shares>,
    /// Per-key limit for each key with active requests.
    own: Mutex<HashMap<Holder, Weak<Semaphore>>>,
}

/// State of the queue.
#[derive(Default)]
struct Queue {
    waiting: usize,
    /// Time of the last rejection because the queue was full.
    refused: Option<Instant>,
}

/// Permit for one place.
#[derive(Debug)]
struct Seat {
    _share: Share,
    _own: Option<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    fn new(places: usize, most_waiting: usize, patience: Duration) -> Places {
        Places {
            free: Arc::new(Semaphore::new(places)),
            all: places,
            most_waiting,
            queue: Mutex::default(),
            patience,
            shares: Shares::of_each((places + most_waiting) / 2),
            own: Mutex::default(),
        }
    }

    /// Returns the number of places in use.
    pub(crate) fn taken(&self) -> usize {
        self.all - self.free.available_permits().min(self.all)
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.with_queue(|it| it.waiting)
    }

    async fn enter(&self, holder: &Holder) -> Result<Seat> {
        let share = self.shares.take(holder, "requests are at work or wait")?;
        let own = self.own(holder);
        let at_once = match &own {
            Some(own) => own.clone().try_acquire_owned().map(Some),
            None => Ok(None),
        };
        if let Ok(own) = at_once
            && let Ok(permit) = self.free.clone().try_acquire_owned()
        {
            return Ok(Seat { _share: share, _own: own, _permit: permit });
        }
        let _queued = self.queue_up(Instant::now()).ok_or_else(|| self.busy())?;
        let turn = async {
            let own = match own {
                Some(own) => Some(own.acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>((own, self.free.clone().acquire_owned().await?))
        };
        let (own, permit) =
            tokio::time::timeout(self.patience, turn).await.map_err(|_| self.busy())?.map_err(Error::internal)?;
        Ok(Seat { _share: share, _own: own, _permit: permit })
    }

    /// Returns the limit of a key: all places but one. `None` for the owner, who has no limit.
    fn own(&self, holder: &Holder) -> Option<Arc<Semaphore>> {
        if *holder == Holder::Owner {
            return None;
        }
        let mut all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(holder).and_then(Weak::upgrade) {
            return Some(own);
        }
        all.retain(|_, it| it.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.all.saturating_sub(1).max(1)));
        all.insert(holder.clone(), Arc::downgrade(&own));
        Some(own)
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

/// A slot in the queue.
struct Queued<'a>(&'a Places);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.with_queue(|queue| queue.waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Holder = Holder::Owner;

    /// Starts this number of questions that never end.
    async fn fill(desk: &Arc<Desk>, holder: &Holder, questions: usize) -> Vec<tokio::task::JoinHandle<Result<()>>> {
        let start = |_| {
            let (desk, holder) = (desk.clone(), holder.clone());
            tokio::spawn(async move { desk.question(&holder, std::future::pending::<Result<()>>()).await })
        };
        let tasks = (0..questions).map(start).collect();
        tokio::task::yield_now().await;
        tasks
    }

    #[tokio::test]
    async fn full_queue_rejects_at_once() {
        let desk = Arc::new(Desk::new(2));
        let tasks = fill(&desk, &OWNER, 2 + MAX_WAITING).await;
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (2, MAX_WAITING));
        let begun = Instant::now();
        let error = desk.question(&OWNER, async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() < Duration::from_secs(5) && error.hint.is_some(), "{error}");
        // Reads have a limit of their own.
        desk.reading(&OWNER, async { Ok(()) }).await.unwrap();
        // Cancelled requests free their places.
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            task.await.unwrap_err();
        }
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (0, 0));
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn flooding_key_is_limited_and_others_are_served() {
        let desk = Arc::new(Desk::new(2));
        let [ada, bo] = ["ada", "bo"].map(|it| Holder::Key(it.into()));
        let tasks = fill(&desk, &ada, 100).await;
        // One of the two places, and half of places and queue together.
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (1, (2 + MAX_WAITING) / 2 - 1));
        let error = desk.question(&ada, async { Ok(()) }).await.unwrap_err();
        assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("this key"), "{error}");
        for other in [&bo, &OWNER] {
            desk.question(other, async { Ok(()) }).await.unwrap();
        }
        // Each kind of place has its own limit.
        desk.reading(&ada, async { Ok(()) }).await.unwrap();
        for task in tasks {
            task.abort();
            drop(task.await);
        }
        desk.question(&ada, async { Ok(()) }).await.unwrap();
        assert_eq!(desk.questions.taken(), 0);
    }

    #[tokio::test]
    async fn queue_wait_times_out() {
        let places = Places::new(1, MAX_WAITING, Duration::from_millis(50));
        let _taken = places.enter(&OWNER).await.unwrap();
        let begun = Instant::now();
        assert_eq!(places.enter(&OWNER).await.err().map(|it| it.code), Some(ErrorCode::ResourceExhausted));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn overload_shrinks_queue_until_calm() {
        let places = Places::new(2, MAX_WAITING, MAX_WAIT);
        let begun = Instant::now();
        let mut queue: Vec<_> = (0..MAX_WAITING).map(|_| places.queue_up(begun).unwrap()).collect();
        assert!(places.queue_up(begun).is_none(), "the queue is full: overload begins");
        queue.truncate(2);
        let soon = begun + FLOOD / 2;
        assert!(places.queue_up(soon).is_none(), "the queue is limited to the number of places");
        queue.pop();
        queue.push(places.queue_up(soon).expect("one slot is free"));
        let later = soon + FLOOD;
        queue.extend((2..MAX_WAITING).map(|_| places.queue_up(later).expect("no rejection for a second")));
        assert_eq!(places.waiting(), MAX_WAITING);
    }

    #[tokio::test]
    async fn streamed_answer_keeps_place_until_end() {
        let desk = Arc::new(Desk::new(1));
        let (sender, receiver) = mpsc::channel(1);
        let mut steps = desk.steps(&OWNER, async { Ok(receiver) }).await.unwrap();
        sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        steps.recv().await.unwrap().unwrap();
        assert_eq!(desk.questions.taken(), 1);
        drop(sender);
        assert!(steps.recv().await.is_none());
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
        // A disconnected reader frees its place too.
        let (_sender, receiver) = mpsc::channel(1);
        drop(desk.steps(&OWNER, async { Ok(receiver) }).await.unwrap());
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn stalled_reader_loses_place_with_deadline_error() {
        let desk = Arc::new(Desk { stall: Duration::from_millis(50), ..Desk::new(1) });
        let (sender, receiver) = mpsc::channel(2 * STEPS);
        let mut steps = desk.steps(&OWNER, async { Ok(receiver) }).await.unwrap();
        for _ in 0..2 * STEPS {
            sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        }
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
        for _ in 0..STEPS {
            steps.recv().await.unwrap().unwrap();
        }
        assert_eq!(steps.recv().await.unwrap().unwrap_err().code, ErrorCode::DeadlineExceeded);
        assert!(steps.recv().await.is_none());
    }
}
