//! The indexing state of a file, and the reason why it was skipped or failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Indexing state of a file. `found = indexed + skipped + failed + pending` always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Known, content not yet read.
    Pending,
    /// Its chunks are durable in the store, or it holds no text and has none.
    Indexed,
    /// Deliberately not read, with a [`Reason`].
    Skipped,
    /// Could not be read, with a [`Reason`]; tried again when it changes.
    Failed,
}

impl FileState {
    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            FileState::Pending => "pending",
            FileState::Indexed => "indexed",
            FileState::Skipped => "skipped",
            FileState::Failed => "failed",
        }
    }

    /// Returns the state with this [`FileState::name`].
    pub fn from_name(name: &str) -> Option<FileState> {
        [FileState::Pending, FileState::Indexed, FileState::Skipped, FileState::Failed]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// Why a file was skipped or failed. The list is closed: each skip and each failure has exactly one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Skipped: no reader for this type.
    UnsupportedType,
    /// Skipped: larger than the size limit.
    TooLarge,
    /// Skipped: a known secret file.
    Secret,
    /// Skipped: FIFO, socket or device.
    NotRegular,
    /// Skipped: a symbolic link; its target is indexed at its own path, if inside a root.
    Symlink,
    /// Skipped: allocates far fewer blocks on disk than its size.
    Sparse,
    /// Skipped: zero bytes.
    Empty,
    /// Skipped: read, but it holds no text, e.g. a scan without a text layer.
    NoText,
    /// Failed: needs a password.
    Encrypted,
    /// Failed: not valid for its type.
    Damaged,
    /// Failed: took longer than the time limit.
    Timeout,
    /// Failed: needed more memory than the limit.
    OutOfMemory,
    /// Failed: nested deeper than the limit.
    TooDeep,
    /// Failed: inflates beyond the limit.
    DecompressionLimit,
    /// Failed: killed its worker process.
    WorkerCrash,
    /// Failed: no jail is available for its reader; without a jail only plain text is read.
    NoJail,
    /// Failed: the operating system denies read access.
    PermissionDenied,
    /// Failed: read error.
    Io,
    /// Failed: the embedding backend refused its text.
    EmbedFailed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 19] = [
        Reason::UnsupportedType,
        Reason::TooLarge,
        Reason::Secret,
        Reason::NotRegular,
        Reason::Symlink,
        Reason::Sparse,
        Reason::Empty,
        Reason::NoText,
        Reason::Encrypted,
        Reason::Damaged,
        Reason::Timeout,
        Reason::OutOfMemory,
        Reason::TooDeep,
        Reason::DecompressionLimit,
        Reason::WorkerCrash,
        Reason::NoJail,
        Reason::PermissionDenied,
        Reason::Io,
        Reason::EmbedFailed,
    ];

    /// Returns whether this failure ended the worker process that read the file, or made vic end it.
    pub fn killed_worker(self) -> bool {
        matches!(self, Reason::WorkerCrash | Reason::OutOfMemory | Reason::TooDeep | Reason::Timeout)
    }

    /// Returns the state that goes with this reason: [`FileState::Skipped`] or [`FileState::Failed`].
    pub fn state(self) -> FileState {
        match self {
            Reason::UnsupportedType
            | Reason::TooLarge
            | Reason::Secret
            | Reason::NotRegular
            | Reason::Symlink
            | Reason::Sparse
            | Reason::Empty
            | Reason::NoText => FileState::Skipped,
            Reason::Encrypted
            | Reason::Damaged
            | Reason::Timeout
            | Reason::OutOfMemory
            | Reason::TooDeep
            | Reason::DecompressionLimit
            | Reason::WorkerCrash
            | Reason::NoJail
            | Reason::PermissionDenied
            | Reason::Io
            | Reason::EmbedFailed => FileState::Failed,
        }
    }

    /// Returns the snake_case name used in the catalog, in JSON and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Reason::UnsupportedType => "unsupported_type",
            Reason::TooLarge => "too_large",
            Reason::Secret => "secret",
            Reason::NotRegular => "not_regular",
            Reason::Symlink => "symlink",
            Reason::Sparse => "sparse",
            Reason::Empty => "empty",
            Reason::NoText => "no_text",
            Reason::Encrypted => "encrypted",
            Reason::Damaged => "damaged",
            Reason::Timeout => "timeout",
            Reason::OutOfMemory => "out_of_memory",
            Reason::TooDeep => "too_deep",
            Reason::DecompressionLimit => "decompression_limit",
            Reason::WorkerCrash => "worker_crash",
            Reason::NoJail => "no_jail",
            Reason::PermissionDenied => "permission_denied",
            Reason::Io => "io",
            Reason::EmbedFailed => "embed_failed",
        }
    }

    /// Returns the reason with this [`Reason::name`].
    pub fn from_name(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|it| it.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_state_name_round_trips_and_equals_json() {
        for state in [FileState::Pending, FileState::Indexed, FileState::Skipped, FileState::Failed] {
            assert_eq!(FileState::from_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn reason_name_round_trips_and_equals_json() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }

    #[test]
    fn reason_state_is_skipped_or_failed() {
        for reason in Reason::ALL {
            assert!(matches!(reason.state(), FileState::Skipped | FileState::Failed));
        }
    }
}
