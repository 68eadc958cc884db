//! What all callers have in common: how much is at work at the same time, the keys and the certificate. What finds no place
//! is refused at once: whoever asks can try again, and what is taken on is answered soon.

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
    /// That of the TCP port; none when it speaks without TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    /// Ahead of others while a place is taken.
    pub(crate) session: Arc<Session>,
    /// How long a reader may take none of the steps that wait for it.
    pub(crate) stall: Duration,
}

/// A place that somebody has.
struct Place {
    _seat: Seat,
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
            certificate: None,
            session: Arc::new(Session::own()),
            stall: MAX_STALL,
        }
    }

    /// Answers a question of somebody when there is a place for it.
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

    /// Reads or embeds when there is a place for it.
    pub(crate) async fn reading<T>(&self, holder: &Holder, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _place = self.place(&self.readings, holder).await?;
        work.await
    }

    /// Lists what is known when there is a place for it. It costs too little for the session to come forward.
    pub(crate) async fn list<T>(&self, holder: &Holder, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _seat = self.enter(&self.lists, holder).await?;
        work.await
    }

    /// As [`Desk::question`], for an answer that comes in steps: it has its place until the last one.
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

    async fn place(&self, places: &Places, holder: &Holder) -> Result<Place> {
        Ok(Place { _seat: self.enter(places, holder).await?, _ahead: self.session.come_forward() })
    }

    async fn enter(&self, places: &Places, holder: &Holder) -> Result<Seat> {
        places.enter(holder).await.inspect_err(|_| self.metrics.refused(Refused::Busy))
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

/// Some places, and a short queue before them. A key has at most half of both together, and never the last place: whoever
/// asks and asks, or reads an answer slowly, keeps nobody else from being served. The owner may have all of them.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    most_waiting: usize,
    queue: Mutex<Queue>,
    patience: Duration,
    shares: Arc<Shares>,
    /// The places that are open to each key that asks for one now.
    own: Mutex<HashMap<Holder, Weak<Semaphore>>>,
}

/// Who waits.
#[derive(Default)]
struct Queue {
    waiting: usize,
    /// When one was refused last: there were too many.
    refused: Option<Instant>,
}

/// One of the places, taken.
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

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.all - self.free.available_permits().min(self.all)
    }

    /// How many wait.
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

    /// The places that are open to a key: all but one. None for the owner, to whom all are.
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

    const OWNER: Holder = Holder::Owner;

    /// So many questions that do not end, started.
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
    async fn beyond_the_places_and_the_queue_it_is_refused_at_once() {
        let desk = Arc::new(Desk::new(2));
        let tasks = fill(&desk, &OWNER, 2 + MAX_WAITING).await;
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (2, MAX_WAITING));
        let begun = Instant::now();
        let error = desk.question(&OWNER, async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(begun.elapsed() < Duration::from_secs(5) && error.hint.is_some(), "{error}");
        // Readings have places of their own.
        desk.reading(&OWNER, async { Ok(()) }).await.unwrap();
        // Who goes away makes room.
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
    async fn a_key_that_floods_is_refused_and_whoever_else_asks_is_served() {
        let desk = Arc::new(Desk::new(2));
        let [ada, bo] = ["ada", "bo"].map(|it| Holder::Key(it.into()));
        let tasks = fill(&desk, &ada, 100).await;
        // One of the two places, and half of all that there is with those that wait.
        assert_eq!((desk.questions.taken(), desk.questions.waiting()), (1, (2 + MAX_WAITING) / 2 - 1));
        let error = desk.question(&ada, async { Ok(()) }).await.unwrap_err();
        assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("this key"), "{error}");
        for other in [&bo, &OWNER] {
            desk.question(other, async { Ok(()) }).await.unwrap();
        }
        // Each kind of place has its own.
        desk.reading(&ada, async { Ok(()) }).await.unwrap();
        for task in tasks {
            task.abort();
            drop(task.await);
        }
        desk.question(&ada, async { Ok(()) }).await.unwrap();
        assert_eq!(desk.questions.taken(), 0);
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let places = Places::new(1, MAX_WAITING, Duration::from_millis(50));
        let _taken = places.enter(&OWNER).await.unwrap();
        let begun = Instant::now();
        assert_eq!(places.enter(&OWNER).await.err().map(|it| it.code), Some(ErrorCode::ResourceExhausted));
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
        let mut steps = desk.steps(&OWNER, async { Ok(receiver) }).await.unwrap();
        sender.send(Ok(AskEvent::Text("a".into()))).await.unwrap();
        steps.recv().await.unwrap().unwrap();
        assert_eq!(desk.questions.taken(), 1);
        drop(sender);
        assert!(steps.recv().await.is_none());
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
        // One that nobody reads any more frees its place too.
        let (_sender, receiver) = mpsc::channel(1);
        drop(desk.steps(&OWNER, async { Ok(receiver) }).await.unwrap());
        desk.question(&OWNER, async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn whoever_reads_no_step_for_long_loses_the_place_and_is_told() {
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
