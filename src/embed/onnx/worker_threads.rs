//! The threads that run an in-process model, with queues for questions, urgent texts and passages.
//!
//! Threads for passages run at the lowest priority of the machine and sleep to stay within the CPU budget for indexing.
//! They cannot raise their priority again, so extra threads serve callers that wait: questions first, then urgent texts,
//! which are the candidate sentences of an answer and the files that were just saved.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::embed::embedder::Vector;
use crate::error::{Error, ErrorCode, Result};
use crate::machine;

/// Maximum number of queued passages per thread; callers wait to queue more. Enough to keep the thread busy, while memory
/// does not grow with the number of callers.
const WAITING_PER_THREAD: usize = 8;

/// A function that computes the vector of a text. Each worker thread creates its own.
pub(crate) type EmbedFn = Box<dyn FnMut(&str) -> Result<Vector>>;

/// The worker threads of one model. Dropping this stops them after their current texts.
pub(crate) struct WorkerThreads {
    queue: Arc<Queue>,
    permits: Arc<Semaphore>,
    /// This many of `threads`, the first ones, serve questions and urgent texts; the others serve passages.
    interactive: usize,
    threads: Vec<JoinHandle<()>>,
}

/// How many threads run a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadCounts {
    /// Threads for questions and urgent texts.
    pub(crate) interactive: usize,
    /// Threads for passages.
    pub(crate) passages: usize,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    questions: VecDeque<Job>,
    urgent: VecDeque<Job>,
    passages: VecDeque<Job>,
    closed: bool,
}

/// The queues that a worker thread serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    /// Questions and urgent texts, served at the priority of the daemon.
    Interactive,
    /// Passages, served at the lowest priority of the machine.
    Passages,
}

impl State {
    fn next(&mut self, lane: QueueKind) -> Option<Job> {
        match lane {
            QueueKind::Interactive => self.questions.pop_front().or_else(|| self.urgent.pop_front()),
            QueueKind::Passages => self.passages.pop_front(),
        }
    }
}

struct Job {
    text: String,
    reply: oneshot::Sender<Result<Vector>>,
    /// Permit that counts a passage against the length limit of the queue; released when the job is done.
    _place: Option<OwnedSemaphorePermit>,
}

impl WorkerThreads {
    /// Starts the threads. Blocks until each of them has loaded its model with `make`.
    pub(crate) fn start(
        counts: ThreadCounts,
        make: impl Fn() -> Result<EmbedFn> + Send + Sync + 'static,
    ) -> Result<WorkerThreads> {
        let queue = Arc::new(Queue::default());
        let make = Arc::new(make);
        let (ready, report) = std::sync::mpsc::channel();
        let mut lanes = WorkerThreads {
            queue: queue.clone(),
            permits: Arc::new(Semaphore::new(counts.passages * WAITING_PER_THREAD)),
            interactive: counts.interactive,
            threads: Vec::with_capacity(counts.interactive + counts.passages),
        };
        for number in 0..counts.interactive + counts.passages {
            let (queue, make, ready) = (queue.clone(), make.clone(), ready.clone());
            let lane = if number < counts.interactive { QueueKind::Interactive } else { QueueKind::Passages };
            let body = move || match make() {
                Ok(work) => {
                    let _ = ready.send(Ok(()));
                    drop(ready);
                    queue.run_jobs(lane, work);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            };
            let thread = std::thread::Builder::new().name(format!("embed-{number}")).spawn(body);
            lanes.threads.push(thread.map_err(Error::internal)?);
        }
        drop(ready);
        for _ in &lanes.threads {
            report.recv().unwrap_or_else(|_| Err(Error::internal("a model thread panicked at startup")))?;
        }
        Ok(lanes)
    }

    /// Returns the number of threads for passages.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len() - self.interactive
    }

    /// Returns the number of threads for questions and urgent texts.
    pub(crate) fn interactive_threads(&self) -> usize {
        self.interactive
    }

    /// Computes the vector of one text with the highest priority.
    pub(crate) async fn embed_question(&self, text: String) -> Result<Vector> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(|state| &mut state.questions, Job { text, reply, _place: None });
        flatten_reply(answer.await)
    }

    /// Computes the vector of one text before all queued passages, but after questions.
    pub(crate) async fn embed_urgent(&self, text: String) -> Result<Vector> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(|state| &mut state.urgent, Job { text, reply, _place: None });
        flatten_reply(answer.await)
    }

    /// Computes the vectors of texts and returns them in the order of the texts. Runs the longest texts first, so that all
    /// threads finish at about the same time.
    pub(crate) async fn embed_passages(&self, texts: Vec<String>) -> Result<Vec<Vector>> {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(texts[at].len()));
        let mut texts: Vec<Option<String>> = texts.into_iter().map(Some).collect();
        let mut answers = Vec::with_capacity(order.len());
        for at in order {
            let place = self.permits.clone().acquire_owned().await.map_err(Error::internal)?;
            let (reply, answer) = oneshot::channel();
            let text = texts[at].take().unwrap_or_default();
            self.queue.push(|state| &mut state.passages, Job { text, reply, _place: Some(place) });
            answers.push((at, answer));
        }
        let mut vectors = vec![Vector::new(); texts.len()];
        for (at, answer) in answers {
            vectors[at] = flatten_reply(answer.await)?;
        }
        Ok(vectors)
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // Waits for the thread, because its session must be dropped before the process unloads the library.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn push(&self, lane: impl FnOnce(&mut State) -> &mut VecDeque<Job>, job: Job) {
        lane(&mut self.lock()).push_back(job);
        // Wakes all threads, because a single woken thread might serve a different queue.
        self.arrived.notify_all();
    }

    fn next(&self, lane: QueueKind) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.next(lane) {
                return Some(job);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_jobs(&self, lane: QueueKind, mut work: EmbedFn) {
        if lane == QueueKind::Passages {
            machine::minimize_priority();
        }
        while let Some(job) = self.next(lane) {
            if job.reply.is_closed() {
                continue;
            }
            let begun = Instant::now();
            // Catches panics, because a panic would end this thread, and its queue might then never be served.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&job.text)));
            let _ = job.reply.send(
                outcome.unwrap_or_else(|_| Err(Error::internal("the model runtime failed with an internal error"))),
            );
            if lane == QueueKind::Passages {
                std::thread::sleep(machine::budget().spend_background(begun.elapsed()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn flatten_reply(answer: Result<Result<Vector>, oneshot::error::RecvError>) -> Result<Vector> {
    answer.unwrap_or_else(|_| Err(Error::new(ErrorCode::Cancelled, "the embedding model is shutting down")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_OF_EACH: ThreadCounts = ThreadCounts { interactive: 1, passages: 1 };

    /// Makes a model that logs each text and then waits until the mutex `gate` is unlocked.
    fn recorder(log: Arc<Mutex<Vec<String>>>, gate: Arc<Mutex<()>>) -> impl Fn() -> Result<EmbedFn> + Send + Sync {
        move || {
            let (log, gate) = (log.clone(), gate.clone());
            Ok(Box::new(move |text: &str| {
                log.lock().unwrap().push(text.to_string());
                drop(gate.lock().unwrap());
                assert_ne!(text, "panic");
                Ok(vec![text.len() as f32])
            }))
        }
    }

    #[tokio::test]
    async fn vectors_keep_text_order_when_longest_runs_first() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let lanes = WorkerThreads::start(ONE_OF_EACH, recorder(log.clone(), Arc::default())).unwrap();
        let texts: Vec<String> = ["aa", "a", "aaaa", "aaa"].map(String::from).to_vec();
        let vectors = lanes.embed_passages(texts).await.unwrap();
        assert_eq!(vectors, [[2.0], [1.0], [4.0], [3.0]]);
        // The longest text is queued first, so the order does not depend on when the thread starts.
        assert_eq!(log.lock().unwrap().as_slice(), ["aaaa", "aaa", "aa", "a"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn questions_overtake_urgent_texts_on_extra_thread() {
        let (log, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let lanes = Arc::new(WorkerThreads::start(ONE_OF_EACH, recorder(log.clone(), gate.clone())).unwrap());
        assert_eq!(lanes.threads(), 1);
        let closed = gate.lock().unwrap();
        let (passages, urgent) = (lanes.clone(), lanes.clone());
        let passages = tokio::spawn(async move { passages.embed_passages(vec!["passage".to_string(); 4]).await });
        let urgent = tokio::spawn(async move {
            let texts = ["urgent"; 3].map(|it| urgent.embed_urgent(it.into()));
            futures::future::try_join_all(texts).await
        });
        // Waits until one passage and one urgent text are running, and the others are queued.
        while log.lock().unwrap().len() < 2 || lanes.queue.lock().urgent.len() < 2 {
            std::thread::yield_now();
        }
        let asking = lanes.clone();
        let question = tokio::spawn(async move { asking.embed_question("question".into()).await });
        while lanes.queue.lock().questions.is_empty() {
            std::thread::yield_now();
        }
        drop(closed);
        question.await.unwrap().unwrap();
        urgent.await.unwrap().unwrap();
        passages.await.unwrap().unwrap();
        let log = log.lock().unwrap();
        let waited: Vec<&str> = log.iter().map(String::as_str).filter(|it| *it != "passage").collect();
        assert_eq!(waited, ["urgent", "question", "urgent", "urgent"]);
        assert_eq!(log.len(), 8);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn urgent_texts_run_on_all_interactive_threads() {
        let (log, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let counts = ThreadCounts { interactive: 2, passages: 1 };
        let lanes = WorkerThreads::start(counts, recorder(log.clone(), gate.clone())).unwrap();
        assert_eq!((lanes.interactive_threads(), lanes.threads()), (2, 1));
        let closed = gate.lock().unwrap();
        let urgent = tokio::spawn(async move {
            futures::future::try_join_all(["a", "bb", "ccc"].map(|it| lanes.embed_urgent(it.into()))).await
        });
        // Two texts are logged although the locked `gate` keeps the first one from ending, so they run on two threads.
        while log.lock().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        drop(closed);
        assert_eq!(urgent.await.unwrap().unwrap(), [[1.0], [2.0], [3.0]]);
    }

    #[tokio::test]
    async fn model_panic_fails_only_its_text() {
        let lanes = WorkerThreads::start(ONE_OF_EACH, recorder(Arc::default(), Arc::default())).unwrap();
        assert!(lanes.embed_question("panic".into()).await.is_err());
        assert_eq!(lanes.embed_question("fine".into()).await.unwrap(), [4.0]);
    }

    #[tokio::test]
    async fn unopenable_model_is_reported_at_start() {
        let outcome = WorkerThreads::start(ONE_OF_EACH, || Err(Error::not_found("no model")));
        assert_eq!(outcome.err().map(|it| it.code), Some(ErrorCode::NotFound));
    }
}
