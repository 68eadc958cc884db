//! Streams the steps of an answer to callers that want to see them as they come.

use tokio::sync::mpsc;

use crate::ask::Asker;
use crate::error::Result;
use crate::model::{AskEvent, AskRequest};

/// Capacity of the channel. When a slow reader fills it, the answer waits.
const CHANNEL_CAPACITY: usize = 64;

/// Sender for the steps of an answer; empty for callers that wait for the whole answer.
pub(crate) struct Events(Option<mpsc::Sender<Result<AskEvent>>>);

impl Events {
    /// Events without a receiver.
    pub(crate) fn none() -> Events {
        Events(None)
    }

    /// Sends one step, and builds it only if there is a receiver. A closed channel is ignored.
    pub(crate) async fn send(&self, event: impl FnOnce() -> AskEvent) {
        if let Some(sender) = &self.0 {
            let _gone = sender.send(Ok(event())).await;
        }
    }
}

impl Asker {
    /// Answers a question step by step. The channel closes after the whole answer or the first error. Dropping the receiver
    /// cancels the work.
    pub fn ask_stream(&self, request: AskRequest) -> mpsc::Receiver<Result<AskEvent>> {
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let asker = self.clone();
        tokio::spawn(async move {
            let events = Events(Some(sender.clone()));
            let last = tokio::select! {
                answer = asker.answer_request(request, true, &events) => answer.map(|it| AskEvent::Done(Box::new(it))),
                () = sender.closed() => return,
            };
            let _gone = sender.send(last).await;
        });
        receiver
    }
}
