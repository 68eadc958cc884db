//! Metadata of a file (tier L0), known without reading the file's content.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Document, FileState, Reason, RootId, Scope};

/// The catalog's id of a file. The id survives a rename and is never reused.
pub type FileId = i64;

/// BLAKE3 hash of a file's content.
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
    /// Any other kind.
    Other,
}

/// A directory entry as the walk found it. The `files` module produces it, the `catalog` module stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Path relative to the root folder; may hold bytes that are not UTF-8.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Last status change (ctime), nanoseconds since the epoch. Reveals a changed file whose mtime was set back.
    pub changed_ns: i64,
    /// Creation time, nanoseconds since the epoch, if the file system records it.
    pub created_ns: Option<i64>,
    /// Inode number.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Permission bits and file type, as in `st_mode`.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Why the content must not be read, if the walk already knows that.
    pub skip: Option<Reason>,
}

/// A row of the catalog: all metadata of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Id of the file.
    pub id: FileId,
    /// Id of the root folder that contains the file.
    pub root_id: RootId,
    /// Absolute path of the root folder.
    pub root: PathBuf,
    /// Metadata found by the walk.
    pub found: FoundFile,
    /// Extension in lower case without the dot; empty if there is none.
    pub extension: String,
    /// Broad kind; decided by extension until the content is read.
    pub kind: FileKind,
    /// Media type detected from the content, e.g. `application/pdf`; empty until the content is read.
    pub media_type: String,
    /// Owner's user name, or the user id if the owner has no name.
    pub owner: String,
    /// Hash of the content when it was last read.
    pub hash: Option<ContentHash>,
    /// Indexing state of the file.
    pub state: FileState,
    /// Why the file was skipped or failed.
    pub reason: Option<Reason>,
    /// One more sentence about the reason; may be empty.
    pub detail: String,
    /// Number of the file's chunks in the store.
    pub chunks: u32,
    /// Number of extraction attempts for the current content.
    pub tries: u32,
    /// Subject, senders and dates of a mail or mailbox; `None` for other files, and until the content is read.
    pub mail: Option<MailFacts>,
}

/// Subject, senders and dates of the messages in a mail file, for lists of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailFacts {
    /// Subject of the message; `None` for a mailbox.
    pub subject: Option<String>,
    /// The first senders, at most [`MailFacts::MAX_SENDERS`].
    pub senders: Vec<String>,
    /// When the first and the last message were sent, in nanoseconds since the epoch; `None` if they have no date.
    pub sent_ns: Option<(i64, i64)>,
}

impl MailFacts {
    /// Maximum number of senders in a list of files; a mailbox can have thousands.
    pub const MAX_SENDERS: usize = 3;
}

impl FileRecord {
    /// Returns the absolute path of the file.
    pub fn absolute(&self) -> PathBuf {
        self.root.join(&self.found.path)
    }
}

/// Names of embedded items, send dates and authors of a file, which are stored beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Names of attachments, archive members or sheets.
    pub names: Vec<String>,
    /// When the first and the last message in the file were sent, in nanoseconds since the epoch.
    pub sent_ns: Option<(i64, i64)>,
    /// Senders of mails, or authors of a document, each once.
    pub authors: Vec<String>,
    /// Subject of a mail; `None` for a mailbox.
    pub subject: Option<String>,
}

impl Contents {
    /// Copies names, dates and authors from an extracted document.
    pub fn from_document(document: &Document) -> Contents {
        let nanoseconds = |seconds: i64| seconds.saturating_mul(1_000_000_000);
        let sent_ns = document.sent.map(|(first, last)| (nanoseconds(first), nanoseconds(last)));
        let (authors, subject) = (document.authors(), document.subject().map(String::from));
        Contents { names: document.names.clone(), sent_ns, authors, subject }
    }
}

/// One page of the files that match a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileList {
    /// The files of this page.
    pub files: Vec<FileRecord>,
    /// Number of matching files on all pages.
    pub total: u64,
    /// Warnings for the user: which words of names were corrected, because no file name contains them.
    pub warnings: Vec<String>,
}

/// A filter over metadata, resolved from [`crate::model::L0Filters`]: dates parsed, extensions in lower case, globs checked.
/// An empty filter matches every file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    /// Only files below this absolute folder, or only this file.
    pub under: Option<PathBuf>,
    /// Only these extensions, lowercase, without the dot.
    pub extensions: Vec<String>,
    /// Only paths (relative to the root) that match this glob.
    pub path_glob: Option<String>,
    /// Only files with each of these words in their name, in any case.
    pub name_words: Vec<String>,
    /// Only files modified at or after this time, in nanoseconds since the epoch.
    pub modified_after_ns: Option<i64>,
    /// Only files modified before this time, in nanoseconds since the epoch.
    pub modified_before_ns: Option<i64>,
    /// Only files of at least this many bytes.
    pub min_size: Option<u64>,
    /// Only files of at most this many bytes.
    pub max_size: Option<u64>,
    /// Only files of this owner (user name or user id).
    pub owner: Option<String>,
    /// Only files most of whose passages are in this language (code of ISO 639-1).
    pub language: Option<String>,
    /// Only files whose sender or author has these words in sequence, in any case.
    pub author: Option<String>,
    /// Whether `modified_after_ns` and `modified_before_ns` apply to the send date of mail instead, if it is known.
    pub mail_dates: bool,
    /// Only files with named embedded items, e.g. mail with attachments.
    pub with_inner_names: bool,
    /// Only files in this indexing state.
    pub state: Option<FileState>,
    /// Only files that were skipped or failed for this reason.
    pub reason: Option<Reason>,
    /// Only files that the caller may access. Clients cannot set it; the server sets it for the caller.
    pub scope: Scope,
}

impl FileFilter {
    /// Returns whether the filter matches every file.
    pub fn is_empty(&self) -> bool {
        *self == FileFilter::default()
    }

    /// Returns the folder `under` if it is the only condition of the filter and the scope covers every file.
    pub fn only_folder(&self) -> Option<&Path> {
        let rest = FileFilter { under: None, ..self.clone() };
        self.under.as_deref().filter(|_| rest.is_empty())
    }

    /// Returns whether the scope is the only condition of the filter.
    pub fn is_only_scope(&self) -> bool {
        FileFilter { scope: Scope::All, ..self.clone() }.is_empty()
    }
}
