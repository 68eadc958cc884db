//! Admission control: limits the number of concurrent requests. A request that finds no free slot and a full queue is
//! rejected at once, so that accepted requests are answered soon. Also holds the other state shared by all callers:
//! metrics, keys and certificate.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::{Error, ErrorCode, Result};
use crate::machine::{self, AutogroupPriority, FairSlots, RaisedPriority, Slot};
use crate::model::{AskEvent, Principal};
use crate::serve::auth::authenticator::Authenticator;
use crate::serve::auth::sessions::Sessions;
use crate::serve::metrics::{Metrics, RejectionReason};
use crate::serve::transport::certificate::Certificate;

/// Maximum number of requests that wait for a slot; further ones are rejected.
const MAX_WAITING: usize = 16;

/// For each slot for questions, there are this many slots for list requests. More than one, because list requests mostly
/// wait for the disk.
const LISTS_PER_QUESTION: usize = 4;

/// Maximum number of waiting list requests. Each takes milliseconds, and a program may send many at once. Without a limit
/// they would fill the queue of the blocking thread pool, which questions and reads need too.
const MAX_LISTS_WAITING: usize = 256;

/// An overload lasts this long after the last rejection. During an overload, at most as many requests may wait as there
/// are slots, because a longer queue would increase only the latency, not the throughput.
const OVERLOAD_DURATION: Duration = Duration::from_secs(1);

/// Maximum time that a request waits for a slot; it is then rejected.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Number of events of a streamed answer that are buffered for a slow client.
const MAX_BUFFERED_EVENTS: usize = 8;

/// Maximum time that an event waits for a client to read it; the answer then ends with an error. Otherwise a few clients
/// that do not read would occupy all slots.
const MAX_STALL: Duration = Duration::from_secs(30);

/// Limits on the number of concurrent requests of each kind, with metrics.
pub(crate) struct Admission {
    /// Limit for queries of the index.
    pub(crate) questions: ConcurrencyLimit,
    /// Limit for reading files and embedding texts for callers.
    pub(crate) readings: ConcurrencyLimit,
    /// Limit for requests that list files, jobs or folders, or that count files.
    pub(crate) lists: ConcurrencyLimit,
    pub(crate) metrics: Metrics,
    /// API keys that the TCP port accepts; `None` without authentication.
    pub(crate) keys: Option<Arc<Authenticator>>,
    /// Sessions of the web page.
    pub(crate) sessions: Sessions,
    /// Certificate of the TCP port; `None` without TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// Raises the scheduling priority of the daemon's session while a question or a read is running.
    pub(crate) session: Arc<AutogroupPriority>,
    /// Maximum time that a client may leave events unread.
    pub(crate) stall: Duration,
}

/// A slot in use by a request; the daemon's session has a raised priority until the slot is dropped.
struct PrioritizedPermit {
    _seat: Permit,
    _ahead: RaisedPriority,
}

impl Admission {
    /// Creates limits for `places` concurrent questions and as many concurrent reads.
    pub(crate) fn new(places: usize) -> Admission {
        let kind = || ConcurrencyLimit::new(places, MAX_WAITING, MAX_WAIT);
        Admission {
            questions: kind(),
            readings: kind(),
            lists: ConcurrencyLimit::new(LISTS_PER_QUESTION * places, MAX_LISTS_WAITING, MAX_WAIT),
            metrics: Metrics::default(),
            keys: None,
            sessions: Sessions::default(),
            certificate: None,
            session: Arc::new(AutogroupPriority::of_this_process()),
            stall: MAX_STALL,
        }
    }

    /// Runs a question as soon as a slot is free.
    pub(crate) async fn run_question<T>(&self, holder: &Principal, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = self.metrics.start_question();
        let outcome = async {
            let _place = self.admit_with_priority(&self.questions, holder).await?;
            let _attention = machine::budget().begin_question();
            work.await
        }
        .await;
        asked.finish(outcome.as_ref().err().map(|it| it.code));
        outcome
    }

    /// Runs a read or an embedding as soon as a slot is free.
    pub(crate) async fn run_read<T>(&self, holder: &Principal, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _place = self.admit_with_priority(&self.readings, holder).await?;
        work.await
    }

    /// Runs a list request as soon as a slot is free. Does not raise the priority of the session, because list requests
    /// are cheap.
    pub(crate) async fn run_list<T>(&self, holder: &Principal, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _seat = self.admit(&self.lists, holder).await?;
        work.await
    }

    /// Runs a streamed question like [`Admission::run_question`]; the slot is held until the last event is sent.
    pub(crate) async fn run_streamed_question(
        self: &Arc<Admission>,
        holder: &Principal,
        begin: impl Future<Output = Result<mpsc::Receiver<Result<AskEvent>>>>,
    ) -> Result<mpsc::Receiver<Result<AskEvent>>> {
        let begun = async {
            let place = self.admit_with_priority(&self.questions, holder).await?;
            let attention = machine::budget().begin_question();
            Ok::<_, Error>((place, attention, begin.await?))
        };
        let (place, attention, mut steps) =
            begun.await.inspect_err(|error| self.metrics.start_question().finish(Some(error.code)))?;
        let desk = self.clone();
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_EVENTS + 1);
        // Reserves a slot of the channel for the final error, because a full channel could not report why the answer
        // ended.
        let farewell = sender.clone().try_reserve_owned().map_err(Error::internal)?;
        tokio::spawn(async move {
            let asked = desk.metrics.start_question();
            match forward_events(&mut steps, &sender, desk.stall).await {
                ForwardOutcome::Completed(last) => asked.finish(last),
                ForwardOutcome::Disconnected => {}
                ForwardOutcome::Stalled => {
                    let error = stalled_error(desk.stall);
                    asked.finish(Some(error.code));
                    farewell.send(Err(error));
                }
            }
            drop((place, attention));
        });
        Ok(receiver)
    }

    async fn admit_with_priority(&self, places: &ConcurrencyLimit, holder: &Principal) -> Result<PrioritizedPermit> {
        Ok(PrioritizedPermit { _seat: self.admit(places, holder).await?, _ahead: self.session.raise() })
    }

    async fn admit(&self, places: &ConcurrencyLimit, holder: &Principal) -> Result<Permit> {
        places.acquire(holder).await.inspect_err(|_| self.metrics.count_rejection(RejectionReason::Busy))
    }
}

/// How the forwarding of the events of a streamed answer to the client ended.
enum ForwardOutcome {
    /// All events were forwarded. Contains the code of the last event if that is an error.
    Completed(Option<ErrorCode>),
    /// The client disconnected.
    Disconnected,
    /// The client is connected but did not read events in time.
    Stalled,
}

async fn forward_events(
    steps: &mut mpsc::Receiver<Result<AskEvent>>,
    reader: &mpsc::Sender<Result<AskEvent>>,
    stall: Duration,
) -> ForwardOutcome {
    let mut last = None;
    loop {
        let step = tokio::select! {
            step = steps.recv() => step,
            () = reader.closed() => return ForwardOutcome::Disconnected,
        };
        let Some(step) = step else { return ForwardOutcome::Completed(last) };
        last = step.as_ref().err().map(|it| it.code);
        match reader.send_timeout(step, stall).await {
            Ok(()) => {}
            Err(SendTimeoutError::Closed(_)) => return ForwardOutcome::Disconnected,
            Err(SendTimeoutError::Timeout(_)) => return ForwardOutcome::Stalled,
        }
    }
}

fn stalled_error(stall: Duration) -> Error {
    let text = format!("the client did not read the answer for {} seconds", stall.as_secs());
    Error::new(ErrorCode::DeadlineExceeded, text).hint("read the events as they arrive, or ask without a stream")
}

/// A limit on concurrent requests, with a short queue. One key gets at most half of all slots and queue positions, and
/// never the last slot, so that a key that floods requests or reads slowly cannot block other keys. The owner may use all
/// slots.
pub(crate) struct ConcurrencyLimit {
    free: Arc<Semaphore>,
    capacity: usize,
    most_waiting: usize,
    queue: Mutex<WaitQueue>,
    max_wait: Duration,
    shares: Arc<FairSlots>,
    /// A limit for each key that has active requests.
    per_key: Mutex<HashMap<Principal, Weak<Semaphore>>>,
}

/// State of the queue of waiting requests.
#[derive(Default)]
struct WaitQueue {
    waiting: usize,
    /// When a request was last rejected because the queue was full.
    refused: Option<Instant>,
}

/// A slot in use by a request; dropping it frees the slot.
#[derive(Debug)]
struct Permit {
    _share: Slot,
    _own: Option<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    fn new(places: usize, most_waiting: usize, max_wait: Duration) -> ConcurrencyLimit {
        ConcurrencyLimit {
            free: Arc::new(Semaphore::new(places)),
            capacity: places,
            most_waiting,
            queue: Mutex::default(),
            max_wait,
            shares: FairSlots::per_holder((places + most_waiting) / 2),
            per_key: Mutex::default(),
        }
    }

    /// Returns the number of slots in use.
    pub(crate) fn in_use(&self) -> usize {
        self.capacity - self.free.available_permits().min(self.capacity)
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.with_queue(|it| it.waiting)
    }

    async fn acquire(&self, holder: &Principal) -> Result<Permit> {
        let share = self.shares.acquire(holder, "requests are running or waiting")?;
        let own = self.key_limit(holder);
        let at_once = match &own {
            Some(own) => own.clone().try_acquire_owned().map(Some),
            None => Ok(None),
        };
        if let Ok(own) = at_once
            && let Ok(permit) = self.free.clone().try_acquire_owned()
        {
            return Ok(Permit { _share: share, _own: own, _permit: permit });
        }
        let _queued = self.enqueue(Instant::now()).ok_or_else(|| self.busy_error())?;
        let turn = async {
            let own = match own {
                Some(own) => Some(own.acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>((own, self.free.clone().acquire_owned().await?))
        };
        let (own, permit) =
            tokio::time::timeout(self.max_wait, turn).await.map_err(|_| self.busy_error())?.map_err(Error::internal)?;
        Ok(Permit { _share: share, _own: own, _permit: permit })
    }

    /// Returns the limit of a key: all slots but one. `None` for the owner, who has no limit.
    fn key_limit(&self, holder: &Principal) -> Option<Arc<Semaphore>> {
        if *holder == Principal::Owner {
            return None;
        }
        let mut all = self.per_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(holder).and_then(Weak::upgrade) {
            return Some(own);
        }
        all.retain(|_, it| it.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.capacity.saturating_sub(1).max(1)));
        all.insert(holder.clone(), Arc::downgrade(&own));
        Some(own)
    }

    fn enqueue(&self, now: Instant) -> Option<QueueSlot<'_>> {
        self.with_queue(|queue| {
            let flood = queue.refused.is_some_and(|it| now.duration_since(it) < OVERLOAD_DURATION);
            if queue.waiting >= if flood { self.capacity.min(self.most_waiting) } else { self.most_waiting } {
                queue.refused = Some(now);
                return None;
            }
            queue.waiting += 1;
            Some(QueueSlot(self))
        })
    }

    fn with_queue<T>(&self, work: impl FnOnce(&mut WaitQueue) -> T) -> T {
        work(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn busy_error(&self) -> Error {
        let (all, waiting) = (self.capacity, self.waiting());
        Error::new(ErrorCode::ResourceExhausted, format!("busy: {all} requests are running and {waiting} are waiting"))
            .hint("try again in a second")
    }
}

/// The position of a waiting request in the queue.
struct QueueSlot<'a>(&'a ConcurrencyLimit);

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.with_queue(|queue| queue.waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Principal = Principal::Owner;

    /// Starts this number of questions that never end.
    async fn start_endless_questions(
        desk: &Arc<Admission>,
        holder: &Principal,
        questions: usize,
    ) -> Vec<tokio::task::JoinHandle<Result<()>>> {
        let start = |_| {
            let (desk, holder) = (desk.clone(), holder.clone());
            tokio::spawn(async move { desk.run_question(&holder, std::future::pending::<Result<()>>()).await })
        };
        let tasks = (0..questions).map(start).collect();
        tokio::task::yield_now().await;
        tasks
    }

    #[tokio::test]
    async fn full_queue_rejects_at_once() {
        let desk = Arc::new(Admission::new(2));
        let tasks = start_endless_questions(&desk, &OWNER, 2 + MAX_WAITING).await;
        assert_eq!((desk.questions.in_use(), desk.questions.waiting()), (2, MAX_WAITING));
        let begun = Instant::now();
        let error = desk.run_question(&OWNER, async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() < Duration::from_secs(5) && error.hint.is_some(), "{error}");
        // The limit of reads is separate, so a read is admitted although all slots for questions are in use.
        desk.run_read(&OWNER, async { Ok(()) }).await.unwrap();
        // Cancelling the requests must free their slots.
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            task.await.unwrap_err();
        }
        assert_eq!((desk.questions.in_use(), desk.questions.waiting()), (0, 0));
        desk.run_question(&OWNER, async { Ok(()) }).await.unwrap();
    }

    // Case D11
    #[tokio::test]
    async fn flooding_key_is_limited_and_others_are_served() {
        let desk = Arc::new(Admission::new(2));
        let [ada, bo] = ["ada", "bo"].map(|it| Principal::Key(it.into()));
        let tasks = start_endless_questions(&desk, &ada, 100).await;
        // The key got one of the two slots, and in total half of all slots and queue positions.
        assert_eq!((desk.questions.in_use(), desk.questions.waiting()), (1, (2 + MAX_WAITING) / 2 - 1));
        let error = desk.run_question(&ada, async { Ok(()) }).await.unwrap_err();
        assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("this key"), "{error}");
        for other in [&bo, &OWNER] {
            desk.run_question(other, async { Ok(()) }).await.unwrap();
        }
        // Reads have a separate limit, so that the key may still read.
        desk.run_read(&ada, async { Ok(()) }).await.unwrap();
        for task in tasks {
            task.abort();
            drop(task.await);
        }
        desk.run_question(&ada, async { Ok(()) }).await.unwrap();
        assert_eq!(desk.questions.in_use(), 0);
    }

    #[tokio::test]
    async fn queue_wait_times_out() {
        let places = ConcurrencyLimit::new(1, MAX_WAITING, Duration::from_millis(50));
        let _taken = places.acquire(&OWNER).await.unwrap();
        let begun = Instant::now();
        assert_eq!(places.acquire(&OWNER).await.err().map(|it| it.code), Some(ErrorCode::ResourceExhausted));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn overload_shrinks_queue_until_calm() {
        let places = ConcurrencyLimit::new(2, MAX_WAITING, MAX_WAIT);
        let begun = Instant::now();
        let mut queue: Vec<_> = (0..MAX_WAITING).map(|_| places.enqueue(begun).unwrap()).collect();
        assert!(places.enqueue(begun).is_none(), "the queue is full: overload begins");
        queue.truncate(2);
        let soon = begun + OVERLOAD_DURATION / 2;
        assert!(places.enqueue(soon).is_none(), "the queue is limited to the number of places");
        queue.pop();
        queue.push(places.enqueue(soon).expect("one slot is free"));
        let later = soon + OVERLOAD_DURATION;
        queue.extend((2..MAX_WAITING).map(|_| places.enqueue(later).expect("no rejection for a second")));
        assert_eq!(places.waiting(), MAX_WAITING);
    }

    #[tokio::test]
    async fn streamed_answer_keeps_place_until_end() {
        let desk = Arc::new(Admission::new(1));
        let (sender, receiver) = mpsc::channel(1);
        let mut steps = desk.run_streamed_question(&OWNER, async { Ok(receiver) }).await.unwrap();
        sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        steps.recv().await.unwrap().unwrap();
        assert_eq!(desk.questions.in_use(), 1);
        drop(sender);
        assert!(steps.recv().await.is_none());
        desk.run_question(&OWNER, async { Ok(()) }).await.unwrap();
        // A client that has disconnected must free its slot too.
        let (_sender, receiver) = mpsc::channel(1);
        drop(desk.run_streamed_question(&OWNER, async { Ok(receiver) }).await.unwrap());
        desk.run_question(&OWNER, async { Ok(()) }).await.unwrap();
    }

    // Case D11
    #[tokio::test]
    async fn stalled_reader_loses_place_with_deadline_error() {
        let desk = Arc::new(Admission { stall: Duration::from_millis(50), ..Admission::new(1) });
        let (sender, receiver) = mpsc::channel(2 * MAX_BUFFERED_EVENTS);
        let mut steps = desk.run_streamed_question(&OWNER, async { Ok(receiver) }).await.unwrap();
        for _ in 0..2 * MAX_BUFFERED_EVENTS {
            sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        }
        desk.run_question(&OWNER, async { Ok(()) }).await.unwrap();
        for _ in 0..MAX_BUFFERED_EVENTS {
            steps.recv().await.unwrap().unwrap();
        }
        assert_eq!(steps.recv().await.unwrap().unwrap_err().code, ErrorCode::DeadlineExceeded);
        assert!(steps.recv().await.is_none());
    }
}
