//! The clock of times that outlive the process.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since the epoch.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as i64)
}
