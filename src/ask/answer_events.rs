//! Event stream of an answer: sends each step (plan, hits, summary) to callers of `ask_stream` as soon as it is ready.

use tokio::sync::mpsc;

use crate::error::Result;
use crate::model::AskEvent;

/// Sender for the steps of an answer; `None` for callers that wait for the complete answer.
pub(crate) struct Events(Option<mpsc::Sender<Result<AskEvent>>>);

impl Events {
    /// Returns a sender that drops all events.
    pub(crate) fn none() -> Events {
        Events(None)
    }

    /// Returns a sender that sends events to a channel.
    pub(crate) fn to(sender: mpsc::Sender<Result<AskEvent>>) -> Events {
        Events(Some(sender))
    }

    /// Builds and sends one event. Does nothing if the caller takes no events, or if the channel is closed.
    pub(crate) async fn send(&self, event: impl FnOnce() -> AskEvent) {
        if let Some(sender) = &self.0 {
            let _gone = sender.send(Ok(event())).await;
        }
    }
}
