//! The indexing state of a file, and the reason why it was skipped or failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Indexing state of a file. `found = indexed + skipped + failed + pending` always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// The file is known, but its content has not been read yet.
    Pending,
    /// The file's chunks are durable in the store, or the file holds no text and has no chunks.
    Indexed,
    /// The file was deliberately not read; a [`Reason`] says why.
    Skipped,
    /// The file could not be read; a [`Reason`] says why. Tried again when the file changes.
    Failed,
}

impl FileState {
    /// Returns the snake_case name of the state.
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
    /// Skipped: vic cannot read this file type.
    UnsupportedType,
    /// Skipped: the file is larger than the size limit.
    TooLarge,
    /// Skipped: the file is known to contain secrets, e.g. a private key.
    Secret,
    /// Skipped: not a regular file but a FIFO, socket or device.
    NotRegular,
    /// Skipped: a symbolic link; its target is indexed at its own path, if inside a root.
    Symlink,
    /// Skipped: a sparse file, which takes far fewer blocks on disk than its size needs.
    Sparse,
    /// Skipped: the file has zero bytes.
    Empty,
    /// Skipped: the file was read but holds no text, e.g. a scan without a text layer.
    NoText,
    /// Failed: the file can only be opened with a password.
    Encrypted,
    /// Failed: the content is not valid for the file's type.
    Damaged,
    /// Failed: the extraction took longer than the time limit.
    Timeout,
    /// Failed: the extraction needed more memory than the limit.
    OutOfMemory,
    /// Failed: archives or messages are nested deeper than the limit.
    TooDeep,
    /// Failed: compressed content inflates to more bytes than the limit.
    DecompressionLimit,
    /// Failed: the worker process that read the file crashed.
    WorkerCrash,
    /// Failed: the file's parser needs a jail (sandbox), and none is available; without a jail only plain text is read.
    NoJail,
    /// Failed: the operating system denies read access.
    PermissionDenied,
    /// Failed: the operating system reported a read error.
    Io,
    /// Failed: the embedding backend rejected the file's text.
    EmbedFailed,
}

impl Reason {
    /// Every skip and failure reason.
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

    /// Returns whether the worker process that read the file crashed or was killed by vic.
    pub fn killed_worker(self) -> bool {
        matches!(self, Reason::WorkerCrash | Reason::OutOfMemory | Reason::TooDeep | Reason::Timeout)
    }

    /// Returns the state of a file with this reason: [`FileState::Skipped`] or [`FileState::Failed`].
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
