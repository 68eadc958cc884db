//! Conversions between model types and generated wire types. No other module uses both.
//!
//! Model to wire never fails (`From`). Wire to model fails (`TryFrom`) if a peer omits a required field or sends an enum
//! value unknown to this version. Other values are validated by the service, not here.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::model;
use crate::proto::wire;

mod ask;
mod corpus;
mod file;
pub mod graph;
mod index;
mod llm;
mod llm_events;
mod table;

pub use crate::proto::convert::llm::{embed_request, privacy_mode};

/// Implements both conversions for a type whose model and wire messages have the same fields.
macro_rules! mirror {
    ($($name:ident { $($field:ident),+ $(,)? })+) => { $(
        impl From<model::$name> for wire::$name {
            fn from(it: model::$name) -> wire::$name {
                let model::$name { $($field),+ } = it;
                wire::$name { $($field),+ }
            }
        }
        impl From<wire::$name> for model::$name {
            fn from(it: wire::$name) -> model::$name {
                let wire::$name { $($field),+ } = it;
                model::$name { $($field),+ }
            }
        }
    )+ };
}

mirror! {
    L0Filters { extensions, path_glob, modified_after, modified_before, min_size, max_size, owner, language, author }
    ResponseStats {
        pipeline, warehouse_root, db_path, latency_ms, embed_model, chunk_rows_indexed, unique_paths_in_index,
        l1_candidates_merged, hits_returned, hits_by_tier, filesystem_files_seen,
    }
    Coverage { found, indexed, skipped, failed, pending, awaiting_vectors, reasons }
    Region { left, top, right, bottom }
    Place { page, lines, sheet, cell, part, member }
    SyncRequest { path, timeout_seconds }
    SyncReport { files, waited_ms, unread_pictures, roots_away }
    PauseRequest { seconds }
    Upkeep { now, versions, fragments, unindexed_chunks, disk_free_bytes, unread_pictures, store }
    WatchReport { watching, folders, missing, polled, overflows, rescans, restarts, heartbeat_seconds }
    MemoryCap { part, mib }
    TableColumn { name, kind }
    TableCell { place, text }
}

/// An enum whose names are sent as a protobuf enum, in which zero means unspecified.
trait WireEnum: Sized {
    /// Name of the enum in error messages.
    const NAME: &'static str;

    fn encode(self) -> i32;

    /// Returns the variant for a number on the wire, or `None` for zero.
    fn decode(number: i32) -> Result<Option<Self>>;

    fn require(number: i32) -> Result<Self> {
        Self::decode(number)?.ok_or_else(|| missing_field_error(Self::NAME))
    }
}

macro_rules! wire_enum {
    ($($name:ident($label:literal) { $($variant:ident),+ $(,)? })+) => { $(
        impl WireEnum for model::$name {
            const NAME: &'static str = $label;

            fn encode(self) -> i32 {
                (match self { $(model::$name::$variant => wire::$name::$variant),+ }) as i32
            }

            fn decode(number: i32) -> Result<Option<Self>> {
                match wire::$name::try_from(number) {
                    Ok(wire::$name::Unspecified) => Ok(None),
                    $(Ok(wire::$name::$variant) => Ok(Some(model::$name::$variant)),)+
                    Err(_) => Err(Error::invalid(format!(concat!("unknown ", $label, " `{}`"), number))
                        .hint("client and daemon have different versions: update the older one")),
                }
            }
        }
    )+ };
}

wire_enum! {
    AnswerOutcome("outcome") { Answered, Passage, Nothing }
    DateOrder("date_order") { Newest, Oldest }
    PrivacyMode("privacy_mode") { LocalOnly, CloudReasoningOk, CloudEmbeddingOk }
    JobState("state") { Queued, Running, Completed, Failed, Cancelled }
    OcrMode("ocr") { Auto, Never, Always }
    Phase("phase") { Waiting, Scanning, Indexing, Vectors, Finishing, Done }
    PauseReason("reason") { Asked, Battery }
    TableFunction("function") { Sum, Avg, Min, Max, Count }
    TablePeriod("per") { Year, Quarter, Month, Day }
    FileState("state") { Pending, Indexed, Skipped, Failed }
    FileKind("kind") {
        Text, Markup, Web, Code, Data, Pdf, Document, Spreadsheet, Slides, Mail, Notebook, Image, Archive, Media, Other,
    }
    Reason("reason") {
        UnsupportedType, TooLarge, Secret, NotRegular, Symlink, Sparse, Empty, NoText, Encrypted, Damaged, Timeout,
        OutOfMemory, TooDeep, DecompressionLimit, WorkerCrash, NoJail, PermissionDenied, Io, EmbedFailed,
    }
}

/// Converts every item of a list.
pub fn into_all<A: Into<B>, B>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(Into::into).collect()
}

/// Converts every item of a list; fails with the first error.
pub fn try_into_all<A, B: TryFrom<A, Error = Error>>(items: Vec<A>) -> Result<Vec<B>> {
    items.into_iter().map(B::try_from).collect()
}

/// Returns the path as text, and also its bytes if the path is not UTF-8.
fn encode_path(path: &Path) -> (String, Vec<u8>) {
    match path.to_str() {
        Some(text) => (text.into(), Vec::new()),
        None => (path.to_string_lossy().into_owned(), path.as_os_str().as_bytes().to_vec()),
    }
}

fn decode_path(text: String, bytes: Vec<u8>) -> PathBuf {
    if bytes.is_empty() { PathBuf::from(text) } else { PathBuf::from(OsString::from_vec(bytes)) }
}

fn missing_field_error(field: &str) -> Error {
    Error::invalid(format!("`{field}` is missing"))
}

#[cfg(test)]
mod llm_tests;
#[cfg(test)]
mod tests;
