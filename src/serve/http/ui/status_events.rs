//! HTTP handler that streams the status as server-sent events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use futures::StreamExt;

use crate::error::{Error, ErrorCode, Result};
use crate::model::{Principal, Status};
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::http::sse;
use crate::serve::http::state::{CallerExtension, Reply, SharedState};

/// Interval between two looks at the status.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of streams that one holder has open: each asks for the whole status once a second.
const MAX_STREAMS: usize = 16;

/// Number of open streams by holder.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<HashMap<Principal, usize>>);

/// An open stream; closed on drop.
struct OpenStream {
    counts: Arc<OpenStreams>,
    holder: Principal,
}

impl OpenStreams {
    /// Counts one more stream.
    ///
    /// # Errors
    /// `ResourceExhausted` if the holder has [`MAX_STREAMS`].
    fn open(self: &Arc<OpenStreams>, holder: Principal) -> Result<OpenStream> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(holder.clone()).or_default();
        if *count >= MAX_STREAMS {
            let text = format!("{MAX_STREAMS} streams of the status are open already");
            return Err(Error::new(ErrorCode::ResourceExhausted, text).hint("close a page"));
        }
        *count += 1;
        Ok(OpenStream { counts: self.clone(), holder })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.holder) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.holder)),
        }
    }
}

/// `GET /v1/status/events`: sends the status at once, and whenever it changes.
pub(crate) async fn events(State(bridge): SharedState, Extension(caller): CallerExtension) -> Reply {
    let open = bridge.status_streams.open(caller.holder())?;
    let first = caller.service().status().await?;
    let polls = futures::stream::unfold((caller, Some(first.clone())), next_status).inspect(move |_| {
        let _until_the_stream_ends = &open;
    });
    let statuses = futures::stream::once(std::future::ready(Ok(first)))
        .chain(polls)
        .take_until(bridge.shutdown.clone().cancelled_owned());
    Ok(sse::stream(statuses.boxed(), |status: Status| sse::event("status", &status.with_printable_paths())))
}

/// Waits until the status differs from the last one that was sent. Ends after an error.
async fn next_status(
    (caller, last): (AuthorizedService, Option<Status>),
) -> Option<(Result<Status>, (AuthorizedService, Option<Status>))> {
    let last = last?;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match caller.service().status().await {
            Ok(status) if is_same(&status, &last) => (),
            Ok(status) => return Some((Ok(status.clone()), (caller, Some(status)))),
            Err(error) => return Some((Err(error), (caller, None))),
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
    fn open_streams_of_a_holder_are_limited() {
        let counts = Arc::new(OpenStreams::default());
        let mut open: Vec<OpenStream> = (0..MAX_STREAMS).map(|_| counts.open(Principal::Owner).unwrap()).collect();
        assert!(counts.open(Principal::Owner).is_err());
        let other = counts.open(Principal::Key("ada".into())).unwrap();
        open.pop();
        open.push(counts.open(Principal::Owner).unwrap());
        drop((open, other));
        assert!(counts.0.lock().unwrap().is_empty());
    }
}
