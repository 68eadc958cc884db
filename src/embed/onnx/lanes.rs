//! The threads that run the model, and the two lanes that lead to them: questions overtake passages.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::embed::Vector;
use crate::error::{Error, ErrorCode, Result};

/// Passages that wait for each thread: enough to keep it busy while the next are handed over, few enough that memory does
/// not grow with the number of callers.
const WAITING_PER_THREAD: usize = 8;

/// What one thread does with a text. Made on its own thread.
pub(crate) type Work = Box<dyn FnMut(&str) -> Result<Vector>>;

/// The threads of one model. Dropping it stops them after the text at hand.
pub(crate) struct Lanes {
    queue: Arc<Queue>,
    room: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    questions: VecDeque<Job>,
    passages: VecDeque<Job>,
    closed: bool,
}

struct Job {
    text: String,
    reply: oneshot::Sender<Result<Vector>>,
    /// Its place among the waiting passages, given back when the job is done.
    _place: Option<OwnedSemaphorePermit>,
}

impl Lanes {
    /// Starts `count` threads and waits until each has its model. Blocks.
    pub(crate) fn start(count: usize, make: impl Fn() -> Result<Work> + Send + Sync + 'static) -> Result<Lanes> {
        let queue = Arc::new(Queue::default());
        let make = Arc::new(make);
        let (ready, report) = std::sync::mpsc::channel();
        let mut lanes = Lanes {
            queue: queue.clone(),
            room: Arc::new(Semaphore::new(count * WAITING_PER_THREAD)),
            threads: Vec::with_capacity(count),
        };
        for number in 0..count {
            let (queue, make, ready) = (queue.clone(), make.clone(), ready.clone());
            let body = move || match make() {
                Ok(work) => {
                    let _ = ready.send(Ok(()));
                    drop(ready);
                    queue.serve(work);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            };
            let thread = std::thread::Builder::new().name(format!("embed-{number}")).spawn(body);
            lanes.threads.push(thread.map_err(Error::internal)?);
        }
        drop(ready);
        for _ in 0..count {
            report.recv().unwrap_or_else(|_| Err(Error::internal("a thread of the model panicked at its start")))?;
        }
        Ok(lanes)
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Embeds one text before all waiting passages.
    pub(crate) async fn question(&self, text: String) -> Result<Vector> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Job { text, reply, _place: None }, true);
        received(answer.await)
    }

    /// Embeds texts, longest first so that no thread ends long after the others; the vectors come in the order of the
    /// texts.
    pub(crate) async fn passages(&self, texts: Vec<String>) -> Result<Vec<Vector>> {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(texts[at].len()));
        let mut texts: Vec<Option<String>> = texts.into_iter().map(Some).collect();
        let mut answers = Vec::with_capacity(order.len());
        for at in order {
            let place = self.room.clone().acquire_owned().await.map_err(Error::internal)?;
            let (reply, answer) = oneshot::channel();
            let text = texts[at].take().unwrap_or_default();
            self.queue.push(Job { text, reply, _place: Some(place) }, false);
            answers.push((at, answer));
        }
        let mut vectors = vec![Vector::new(); texts.len()];
        for (at, answer) in answers {
            vectors[at] = received(answer.await)?;
        }
        Ok(vectors)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // Sessions must be gone before the process tears the library down.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn push(&self, job: Job, question: bool) {
        let mut state = self.lock();
        if question {
            state.questions.push_back(job);
        } else {
            state.passages.push_back(job);
        }
        drop(state);
        self.arrived.notify_one();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.questions.pop_front() {
                return Some(job);
            }
            if let Some(job) = state.passages.pop_front() {
                return Some(job);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, mut work: Work) {
        while let Some(job) = self.next() {
            if job.reply.is_closed() {
                continue;
            }
            // A thread that died would leave its share of the queue waiting forever.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&job.text)));
            let _ = job.reply.send(outcome.unwrap_or_else(|_| Err(Error::internal("the model panicked"))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn received(answer: Result<Result<Vector>, oneshot::error::RecvError>) -> Result<Vector> {
    answer.unwrap_or_else(|_| Err(Error::new(ErrorCode::Cancelled, "the model is being closed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that writes down what it is given, and waits for the gate before each text.
    fn recorder(log: Arc<Mutex<Vec<String>>>, gate: Arc<Mutex<()>>) -> impl Fn() -> Result<Work> + Send + Sync {
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
    async fn vectors_come_in_the_order_of_the_texts_although_the_longest_runs_first() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let lanes = Lanes::start(1, recorder(log.clone(), Arc::default())).unwrap();
        let texts: Vec<String> = ["aa", "a", "aaaa", "aaa"].map(String::from).to_vec();
        let vectors = lanes.passages(texts).await.unwrap();
        assert_eq!(vectors, [[2.0], [1.0], [4.0], [3.0]]);
        // The first may have been taken before the second came; the rest is sorted in any case.
        assert_eq!(log.lock().unwrap().as_slice(), ["aaaa", "aaa", "aa", "a"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_question_overtakes_waiting_passages() {
        let (log, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let lanes = Arc::new(Lanes::start(1, recorder(log.clone(), gate.clone())).unwrap());
        let closed = gate.lock().unwrap();
        let passages = tokio::spawn({
            let lanes = lanes.clone();
            async move { lanes.passages(vec!["passage".to_string(); 4]).await }
        });
        while lanes.queue.lock().passages.len() < 3 {
            std::thread::yield_now();
        }
        let question = tokio::spawn({
            let lanes = lanes.clone();
            async move { lanes.question("question".into()).await }
        });
        while lanes.queue.lock().questions.is_empty() {
            std::thread::yield_now();
        }
        drop(closed);
        question.await.unwrap().unwrap();
        passages.await.unwrap().unwrap();
        assert_eq!(log.lock().unwrap()[..2], ["passage", "question"]);
    }

    #[tokio::test]
    async fn a_panic_fails_its_text_and_no_other() {
        let lanes = Lanes::start(1, recorder(Arc::default(), Arc::default())).unwrap();
        assert!(lanes.question("panic".into()).await.is_err());
        assert_eq!(lanes.question("fine".into()).await.unwrap(), [4.0]);
    }

    #[tokio::test]
    async fn a_model_that_cannot_be_opened_is_reported_at_the_start() {
        let outcome = Lanes::start(2, || Err(Error::not_found("no model")));
        assert_eq!(outcome.err().map(|it| it.code), Some(ErrorCode::NotFound));
    }
}
