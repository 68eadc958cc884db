//! HTTP handler that streams the status as server-sent events.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use futures::StreamExt;

use crate::error::Result;
use crate::model::Status;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::http::sse;
use crate::serve::http::state::{CallerExtension, Reply, SharedState};

/// Interval between two looks at the status.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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
