//! The steps of an answer, for callers that want to see them as they come.

use tokio::sync::mpsc;

use crate::ask::Asker;
use crate::error::Result;
use crate::model::{AskEvent, AskRequest};

/// Events that wait for a slow reader; then the answer waits too.
const WAITING: usize = 64;

/// Where the steps of an answer go; nowhere for callers that wait for the whole.
pub(crate) struct Events(Option<mpsc::Sender<Result<AskEvent>>>);

impl Events {
    /// Nobody watches.
    pub(crate) fn none() -> Events {
        Events(None)
    }

    /// Sends one step, which is made only if somebody watches. Whoever has gone away misses it.
    pub(crate) async fn send(&self, event: impl FnOnce() -> AskEvent) {
        if let Some(sender) = &self.0 {
            let _gone = sender.send(Ok(event())).await;
        }
    }
}

impl Asker {
    /// Answers a question step by step. The channel closes after the whole answer or the first error; when the receiver
    /// is dropped the work ends.
    pub fn ask_stream(&self, request: AskRequest) -> mpsc::Receiver<Result<AskEvent>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let asker = self.clone();
        tokio::spawn(async move {
            let events = Events(Some(sender.clone()));
            let last = tokio::select! {
                answer = asker.run(request, true, &events) => answer.map(|it| AskEvent::Done(Box::new(it))),
                () = sender.closed() => return,
            };
            let _gone = sender.send(last).await;
        });
        receiver
    }
}
