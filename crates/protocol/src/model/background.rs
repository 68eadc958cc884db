//! What goes on unasked: how it stands, and what a user may ask of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wait until everything that changed before is searchable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyncRequest {
    /// A folder or file of a root; none is every root.
    pub path: Option<String>,
    /// Seconds to wait at most; none is 60.
    pub timeout_seconds: Option<u32>,
}

/// How such a wait ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReport {
    /// Files that had changed and are searchable now.
    pub files: u64,
    /// Milliseconds that it took.
    pub waited_ms: u64,
    /// Files whose text in pictures and scans is still to be read: nobody waits for that here, as it may take hours.
    pub unread_pictures: u64,
    /// Roots that are away: what changed there is seen when they are back.
    pub roots_away: u64,
}

/// A request to stop indexing for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PauseRequest {
    /// For so many seconds; none is until it is resumed.
    pub seconds: Option<u64>,
}

/// Who wants indexing to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A user.
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

/// A pause that holds now. Files are still looked for, and those that are gone leave the answers; none is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// When it ends by itself, in milliseconds since the epoch; none is never.
    pub until_ms: Option<i64>,
}

/// Whether indexing pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseState {
    /// The pause; none while indexing goes on.
    pub paused: Option<Pause>,
}

/// How well changes on disk are seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WatchReport {
    /// Whether there is a watcher.
    pub watching: bool,
    /// Folders that are watched.
    pub folders: u64,
    /// Folders that should be watched and cannot.
    pub missing: u64,
    /// Roots that are walked every few seconds instead, because events do not tell of all their changes.
    pub polled: Vec<String>,
    /// How often events were lost since the start of the daemon.
    pub overflows: u64,
    /// How often every root was walked because of that.
    pub rescans: u64,
    /// How often the watcher had died and was replaced.
    pub restarts: u64,
    /// Seconds since its last heartbeat.
    pub heartbeat_seconds: Option<f64>,
}

/// A bound on the memory of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCap {
    /// Which part.
    pub part: String,
    /// MiB at most.
    pub mib: u64,
}
