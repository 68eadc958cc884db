//! L0: metadata of a file, known without reading its content.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Document, Scope, display_path};

/// The catalog's number of a root folder.
pub type RootId = i64;

/// The catalog's id of a file. It survives a rename and is never reused.
pub type FileId = i64;

/// A root folder that vic indexes and watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// Its number in the catalog.
    pub id: RootId,
    /// Its absolute path, symlinks resolved.
    pub path: PathBuf,
    /// False when the last scan could not read it; nothing is deleted then.
    pub available: bool,
    /// Why the root is unavailable or not watched, and the fix; empty when all is well.
    pub problem: String,
}

impl Root {
    /// Replaces a path that is not UTF-8 by a URL, because JSON cannot hold it.
    pub fn with_printable_path(self) -> Root {
        Root { path: display_path(&self.path).into_owned().into(), ..self }
    }
}

/// BLAKE3 of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContentHash(pub [u8; 32]);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The broad kind of a file, decided by content first and extension second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Plain text, logs, subtitles, configuration.
    Text,
    /// Markdown and other light markup.
    Markup,
    /// HTML and XML.
    Web,
    /// Source code.
    Code,
    /// CSV, JSON, YAML, TOML and the like.
    Data,
    /// PDF.
    Pdf,
    /// Word processing: docx, odt, rtf, epub, doc.
    Document,
    /// Spreadsheets.
    Spreadsheet,
    /// Slides.
    Slides,
    /// Mail: eml, mbox, msg.
    Mail,
    /// Notebooks.
    Notebook,
    /// Images.
    Image,
    /// Archives: zip, tar, gz.
    Archive,
    /// Sound and film.
    Media,
    /// Anything else.
    Other,
}

/// A directory entry as the walk saw it. `warehouse` produces it, `catalog` consumes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Path relative to its root; any bytes, not only UTF-8.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Last status change, nanoseconds since the epoch. Catches a restored mtime.
    pub changed_ns: i64,
    /// Creation, nanoseconds since the epoch, where the file system knows it.
    pub created_ns: Option<i64>,
    /// Inode number.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Permission bits and type.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Set when the walk already knows that the content must not be read.
    pub skip: Option<Reason>,
}

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

/// A row of the catalog: all metadata of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Its number.
    pub id: FileId,
    /// Its root's number.
    pub root_id: RootId,
    /// Its root's absolute path.
    pub root: PathBuf,
    /// Metadata from the walk.
    pub found: FoundFile,
    /// Lowercase extension without the dot; empty when there is none.
    pub extension: String,
    /// Broad kind; by extension until the content is read.
    pub kind: FileKind,
    /// Media type by content, e.g. `application/pdf`; empty until the content is read.
    pub media_type: String,
    /// Owner's name, or the number where it has none.
    pub owner: String,
    /// Hash of the content that was last read.
    pub hash: Option<ContentHash>,
    /// Indexing state.
    pub state: FileState,
    /// Why it was skipped or failed.
    pub reason: Option<Reason>,
    /// One more sentence about the reason; empty when there is nothing to add.
    pub detail: String,
    /// Number of chunks in the store.
    pub chunks: u32,
    /// Number of extraction attempts for the current content.
    pub tries: u32,
}

impl FileRecord {
    /// Returns the absolute path.
    pub fn absolute(&self) -> PathBuf {
        self.root.join(&self.found.path)
    }
}

/// Embedded items and dates of a file, beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Names of attachments, members of an archive, sheets.
    pub names: Vec<String>,
    /// When the first and the last message in the file were sent, nanoseconds since the epoch.
    pub sent_ns: Option<(i64, i64)>,
}

impl Contents {
    /// Takes the contents from a document.
    pub fn from_document(document: &Document) -> Contents {
        let nanoseconds = |seconds: i64| seconds.saturating_mul(1_000_000_000);
        let sent_ns = document.sent.map(|(first, last)| (nanoseconds(first), nanoseconds(last)));
        Contents { names: document.names.clone(), sent_ns }
    }
}

/// A filter over metadata, resolved from [`crate::model::L0Filters`]: dates parsed, extensions lowercase, globs checked.
/// An empty filter matches every file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    /// Only files below this absolute folder, or this file.
    pub under: Option<PathBuf>,
    /// Only these extensions, lowercase, without the dot.
    pub extensions: Vec<String>,
    /// Only paths (relative to the root) that match this glob.
    pub path_glob: Option<String>,
    /// Only files with each of these words in their name, in any case.
    pub name_words: Vec<String>,
    /// Modified at or after, nanoseconds since the epoch.
    pub modified_after_ns: Option<i64>,
    /// Modified before, nanoseconds since the epoch.
    pub modified_before_ns: Option<i64>,
    /// At least this many bytes.
    pub min_size: Option<u64>,
    /// At most this many bytes.
    pub max_size: Option<u64>,
    /// Only files of this owner (name or number).
    pub owner: Option<String>,
    /// Whether the bounds on modification apply to the send date of mail, where it is known.
    pub mail_dates: bool,
    /// Only files with named embedded items: mail with attachments.
    pub with_inner_names: bool,
    /// Only files in this state.
    pub state: Option<FileState>,
    /// Only files of this scope. Clients cannot set it; the server sets it for the caller.
    pub scope: Scope,
}

impl FileFilter {
    /// Returns whether every file matches.
    pub fn is_empty(&self) -> bool {
        *self == FileFilter::default()
    }

    /// Returns the folder if it is the only condition and the scope is everything.
    pub fn only_folder(&self) -> Option<&Path> {
        let rest = FileFilter { under: None, ..self.clone() };
        self.under.as_deref().filter(|_| rest.is_empty())
    }

    /// Returns whether the scope is the only condition.
    pub fn is_only_scope(&self) -> bool {
        FileFilter { scope: Scope::All, ..self.clone() }.is_empty()
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
