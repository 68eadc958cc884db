//! Background work: its state, and the requests that control it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to wait until every earlier change on disk is searchable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyncRequest {
    /// A folder or file of a root; every root when absent.
    pub path: Option<String>,
    /// Timeout in seconds; 60 when absent.
    pub timeout_seconds: Option<u32>,
}

/// Result of a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReport {
    /// Changed files that are searchable now.
    pub files: u64,
    /// Milliseconds waited.
    pub waited_ms: u64,
    /// Files that still wait for OCR. A sync does not wait for them, as OCR may take hours.
    pub unread_pictures: u64,
    /// Roots that are unavailable. Their changes are indexed when they are back.
    pub roots_away: u64,
}

/// A request to pause indexing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PauseRequest {
    /// Seconds to pause; until resumed when absent.
    pub seconds: Option<u64>,
}

/// Why indexing pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A user asked for it.
    Asked,
    /// The machine runs on a battery, and the settings say to wait for mains power.
    Battery,
}

impl PauseReason {
    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            PauseReason::Asked => "asked",
            PauseReason::Battery => "battery",
        }
    }
}

/// A pause in effect. Files are still scanned, and deleted files leave the results; no content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Its reason.
    pub reason: PauseReason,
    /// When it ends by itself, in milliseconds since the epoch; never when absent.
    pub until_ms: Option<i64>,
}

/// Whether indexing pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseState {
    /// The pause in effect; absent while indexing runs.
    pub paused: Option<Pause>,
}

/// State of the file watcher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WatchReport {
    /// Whether a watcher runs.
    pub watching: bool,
    /// Number of watched folders.
    pub folders: u64,
    /// Folders that should be watched but cannot be.
    pub missing: u64,
    /// Roots that are scanned every few seconds instead, because events do not report all of their changes.
    pub polled: Vec<String>,
    /// Number of event overflows since the daemon started.
    pub overflows: u64,
    /// Number of full rescans after overflows.
    pub rescans: u64,
    /// Number of times that a dead watcher was replaced.
    pub restarts: u64,
    /// Seconds since the watcher's last heartbeat.
    pub heartbeat_seconds: Option<f64>,
}

/// Memory limit of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCap {
    /// The component.
    pub part: String,
    /// Limit in MiB.
    pub mib: u64,
}
