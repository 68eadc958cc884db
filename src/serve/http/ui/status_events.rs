//! HTTP handler that streams the status as server-sent events.

use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use futures::StreamExt;

use crate::error::Result;
use crate::model::Status;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::http::sse;
use crate::serve::http::state::{CallerExtension, Reply, SharedState};

/// Shortest pause between two looks at the status.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: a person who waits for a job to begin or to end wants to see it.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// A pause is this many times as long as the look before it: with a million files, counting them takes a while.
const PAUSE_FACTOR: u32 = 20;

/// `GET /v1/status/events`: sends the status at once, and whenever it changes.
pub(crate) async fn events(State(bridge): SharedState, Extension(caller): CallerExtension) -> Reply {
    let open = bridge.status_streams.open(caller.holder())?;
    let begun = Instant::now();
    let first = caller.service().status().await?;
    let poll = Poll { caller, last: Some(first.clone()), pause: pause_after(begun.elapsed()) };
    let changes = futures::stream::unfold(poll, Poll::next_change).inspect(move |_| {
        let _until_the_stream_ends = &open;
    });
    let statuses = futures::stream::once(std::future::ready(Ok(first)))
        .chain(changes)
        .take_until(bridge.shutdown.clone().cancelled_owned());
    Ok(sse::stream(statuses.boxed(), |status: Status| sse::event("status", &status.with_printable_paths())))
}

/// Returns how long to wait after a look that took `elapsed`.
fn pause_after(elapsed: Duration) -> Duration {
    (elapsed * PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// Looks at the status again and again.
struct Poll {
    caller: AuthorizedService,
    /// The status that was sent last; `None` after an error, which ends the stream.
    last: Option<Status>,
    pause: Duration,
}

impl Poll {
    /// Waits until the status differs from the last one that was sent, and returns it. Ends after an error.
    async fn next_change(mut self) -> Option<(Result<Status>, Poll)> {
        let last = self.last.take()?;
        loop {
            tokio::time::sleep(self.pause).await;
            let begun = Instant::now();
            let found = self.caller.service().status().await;
            self.pause = pause_after(begun.elapsed());
            match found {
                Ok(status) if is_same(&status, &last) => (),
                Ok(status) => {
                    self.last = Some(status.clone());
                    return Some((Ok(status), self));
                }
                Err(error) => return Some((Err(error), self)),
            }
        }
    }
}

/// Returns whether two statuses differ only in figures that always change.
fn is_same(one: &Status, other: &Status) -> bool {
    let plain = |it: &Status| {
        let mut plain = it.clone();
        (plain.uptime_seconds, plain.rss_mib, plain.peak_rss_mib) = (0, 0.0, 0.0);
        plain.watch.heartbeat_seconds = Default::default();
        // Free space moves by a few MiB all the time.
        plain.upkeep.disk_free_bytes >>= 28;
        plain
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_status_is_read_less_often() {
        assert_eq!(pause_after(Duration::from_millis(3)), Duration::from_secs(1));
        assert_eq!(pause_after(Duration::from_millis(400)), Duration::from_secs(8));
        assert_eq!(pause_after(Duration::from_secs(10)), Duration::from_secs(15));
    }
}
