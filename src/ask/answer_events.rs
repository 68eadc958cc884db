//! Streams the steps of an answer to callers that want to see them as they come.

use tokio::sync::mpsc;

use crate::error::Result;
use crate::model::AskEvent;

/// Sender for the steps of an answer; empty for callers that wait for the whole answer.
pub(crate) struct Events(Option<mpsc::Sender<Result<AskEvent>>>);

impl Events {
    /// Events without a receiver.
    pub(crate) fn none() -> Events {
        Events(None)
    }

    /// Events that go to a channel.
    pub(crate) fn to(sender: mpsc::Sender<Result<AskEvent>>) -> Events {
        Events(Some(sender))
    }

    /// Sends one step, and builds it only if there is a receiver. A closed channel is ignored.
    pub(crate) async fn send(&self, event: impl FnOnce() -> AskEvent) {
        if let Some(sender) = &self.0 {
            let _gone = sender.send(Ok(event())).await;
        }
    }
}
