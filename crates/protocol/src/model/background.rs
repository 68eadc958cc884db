//! Background indexing: its state, and the requests to pause it or wait for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to wait until every change made on disk before the request is searchable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyncRequest {
    /// A folder or file of a root; every root if absent.
    pub path: Option<String>,
    /// Timeout in seconds; 60 if absent.
    pub timeout_seconds: Option<u32>,
}

/// Result of a [`SyncRequest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReport {
    /// Number of changed files that became searchable.
    pub files: u64,
    /// Milliseconds that the request waited.
    pub waited_ms: u64,
    /// Files with images that still wait for OCR. A sync does not wait for OCR, because OCR may take hours.
    pub unread_pictures: u64,
    /// Roots that are unavailable, e.g. not mounted. Their changes are indexed when the roots are available again.
    pub roots_away: u64,
}

/// A request to pause indexing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PauseRequest {
    /// Seconds to pause; if absent, indexing pauses until it is resumed.
    pub seconds: Option<u64>,
}

/// Why indexing is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A user asked for the pause.
    Asked,
    /// The machine runs on a battery, and the settings say to wait for mains power.
    Battery,
}

impl PauseReason {
    /// Returns the snake_case name of the reason.
    pub fn name(self) -> &'static str {
        match self {
            PauseReason::Asked => "asked",
            PauseReason::Battery => "battery",
        }
    }
}

/// A pause of indexing. Files are still scanned, and deleted files leave the results; but no file content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Why indexing is paused.
    pub reason: PauseReason,
    /// When indexing resumes by itself, in milliseconds since the epoch; never if absent.
    pub until_ms: Option<i64>,
}

/// Whether indexing is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseState {
    /// The current pause; absent while indexing runs.
    pub paused: Option<Pause>,
}

/// State of the file watcher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WatchReport {
    /// Whether a file watcher runs.
    pub watching: bool,
    /// Number of folders that the watcher watches.
    pub folders: u64,
    /// Number of folders that should be watched but cannot be, so that changes in them are found by scans only.
    pub missing: u64,
    /// Roots that are scanned every few seconds, because file system events do not report all of their changes.
    pub polled: Vec<String>,
    /// Number of times since the daemon's start that the event queue overflowed and events were lost.
    pub overflows: u64,
    /// Number of full rescans after such overflows.
    pub rescans: u64,
    /// Number of times that a watcher stopped responding and was replaced.
    pub restarts: u64,
    /// Seconds since the watcher last showed that it runs.
    pub heartbeat_seconds: Option<f64>,
}

/// Memory limit of one component of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCap {
    /// Name of the component.
    pub part: String,
    /// Memory limit in MiB.
    pub mib: u64,
}
