//! L0: metadata of a file, known without reading its content.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Document, FileState, Reason, RootId, Scope};

/// The catalog's id of a file. It survives a rename and is never reused.
pub type FileId = i64;

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
