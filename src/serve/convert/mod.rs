//! Between the hand-over types and their wire form: the one place that knows both.
//!
//! Model to wire never fails (`From`). Wire to model fails (`TryFrom`) when a peer left out what must be there or sent an
//! enum value that this version does not know. Nothing here checks whether values make sense: that is the service's.
//! Questions and answers are in `ask`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::model;
use crate::serve::wire;

mod ask;
mod corpus;
mod llm;
mod llm_events;

pub(crate) use llm::{embedding, privacy_mode};

/// Both directions for messages whose fields have the same names and types on both sides.
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
    L0Filters { extensions, path_glob, modified_after, modified_before, min_size, max_size, owner }
    ResponseStats {
        pipeline, warehouse_root, db_path, latency_ms, embed_model, chunk_rows_indexed, unique_paths_in_index,
        l1_candidates_merged, hits_returned, hits_by_tier, filesystem_files_seen,
    }
    Coverage { found, indexed, skipped, failed, pending, awaiting_vectors, reasons }
    Region { left, top, right, bottom }
    SyncRequest { path, timeout_seconds }
    SyncReport { files, waited_ms }
    PauseRequest { seconds }
    WatchReport { watching, folders, missing, polled, overflows, rescans, restarts, heartbeat_seconds }
    MemoryCap { part, mib }
}

/// A closed set of names that travels as a protobuf enum, whose zero means "not said".
trait WireEnum: Sized {
    /// What the set is called in messages.
    const NAME: &'static str;

    fn encode(self) -> i32;

    /// Returns none for zero.
    fn decode(number: i32) -> Result<Option<Self>>;

    fn require(number: i32) -> Result<Self> {
        Self::decode(number)?.ok_or_else(|| missing(Self::NAME))
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
                        .hint("the two programs are of different versions: update the older one")),
                }
            }
        }
    )+ };
}

wire_enum! {
    PrivacyMode("privacy_mode") { LocalOnly, CloudReasoningOk, CloudEmbeddingOk }
    JobState("state") { Queued, Running, Completed, Failed, Cancelled }
    OcrMode("ocr") { Auto, Never, Always }
    Phase("phase") { Waiting, Scanning, Indexing, Vectors, Finishing, Done }
    PauseReason("reason") { Asked, Battery }
    FileState("state") { Pending, Indexed, Skipped, Failed }
    FileKind("kind") {
        Text, Markup, Web, Code, Data, Pdf, Document, Spreadsheet, Slides, Mail, Notebook, Image, Archive, Media, Other,
    }
    Reason("reason") {
        UnsupportedType, TooLarge, Secret, NotRegular, Symlink, Sparse, Empty, NoText, Encrypted, Damaged, Timeout,
        OutOfMemory, TooDeep, DecompressionLimit, WorkerCrash, NoJail, PermissionDenied, Io, EmbedFailed,
    }
}

impl From<model::IndexRequest> for wire::IndexRequest {
    fn from(it: model::IndexRequest) -> wire::IndexRequest {
        wire::IndexRequest {
            paths: it.paths,
            full: it.full,
            metadata_only: it.metadata_only,
            max_files: it.max_files,
            ocr: it.ocr.encode(),
            accept_losses: it.accept_losses,
        }
    }
}

impl TryFrom<wire::IndexRequest> for model::IndexRequest {
    type Error = Error;

    fn try_from(it: wire::IndexRequest) -> Result<model::IndexRequest> {
        Ok(model::IndexRequest {
            paths: it.paths,
            full: it.full,
            metadata_only: it.metadata_only,
            max_files: it.max_files,
            ocr: WireEnum::decode(it.ocr)?.unwrap_or_default(),
            accept_losses: it.accept_losses,
        })
    }
}

impl From<model::Pause> for wire::Pause {
    fn from(it: model::Pause) -> wire::Pause {
        wire::Pause { reason: it.reason.encode(), until_ms: it.until_ms }
    }
}

impl TryFrom<wire::Pause> for model::Pause {
    type Error = Error;

    fn try_from(it: wire::Pause) -> Result<model::Pause> {
        Ok(model::Pause { reason: WireEnum::require(it.reason)?, until_ms: it.until_ms })
    }
}

impl From<model::PauseState> for wire::PauseState {
    fn from(it: model::PauseState) -> wire::PauseState {
        wire::PauseState { paused: it.paused.map(Into::into) }
    }
}

impl TryFrom<wire::PauseState> for model::PauseState {
    type Error = Error;

    fn try_from(it: wire::PauseState) -> Result<model::PauseState> {
        Ok(model::PauseState { paused: it.paused.map(TryInto::try_into).transpose()? })
    }
}

impl From<model::JobSnapshot> for wire::JobSnapshot {
    fn from(it: model::JobSnapshot) -> wire::JobSnapshot {
        wire::JobSnapshot {
            job_id: it.job_id,
            state: it.state.encode(),
            phase: it.phase.encode(),
            request: Some(it.request.into()),
            created_ms: it.created_ms,
            started_ms: it.started_ms,
            finished_ms: it.finished_ms,
            files_found: it.files_found,
            files_total: it.files_total,
            files_done: it.files_done,
            files_failed: it.files_failed,
            files_removed: it.files_removed,
            chunks_written: it.chunks_written,
            chunks_embedded: it.chunks_embedded,
            chunks_awaiting: it.chunks_awaiting,
            tokens_embedded: it.tokens_embedded,
            tokens_per_second: it.tokens_per_second,
            eta_seconds: it.eta_seconds,
            last_error: it.last_error,
            error: it.error,
            error_exit_code: it.error_exit_code,
        }
    }
}

impl TryFrom<wire::JobSnapshot> for model::JobSnapshot {
    type Error = Error;

    fn try_from(it: wire::JobSnapshot) -> Result<model::JobSnapshot> {
        Ok(model::JobSnapshot {
            job_id: it.job_id,
            state: WireEnum::require(it.state)?,
            phase: WireEnum::require(it.phase)?,
            request: it.request.ok_or_else(|| missing("request"))?.try_into()?,
            created_ms: it.created_ms,
            started_ms: it.started_ms,
            finished_ms: it.finished_ms,
            files_found: it.files_found,
            files_total: it.files_total,
            files_done: it.files_done,
            files_failed: it.files_failed,
            files_removed: it.files_removed,
            chunks_written: it.chunks_written,
            chunks_embedded: it.chunks_embedded,
            chunks_awaiting: it.chunks_awaiting,
            tokens_embedded: it.tokens_embedded,
            tokens_per_second: it.tokens_per_second,
            eta_seconds: it.eta_seconds,
            last_error: it.last_error,
            error: it.error,
            error_exit_code: it.error_exit_code,
        })
    }
}

impl From<model::Root> for wire::Root {
    fn from(it: model::Root) -> wire::Root {
        let (path, path_bytes) = encode_path(&it.path);
        wire::Root { id: it.id, path, path_bytes, available: it.available, problem: it.problem }
    }
}

impl From<wire::Root> for model::Root {
    fn from(it: wire::Root) -> model::Root {
        let path = decode_path(it.path, it.path_bytes);
        model::Root { id: it.id, path, available: it.available, problem: it.problem }
    }
}

impl From<model::Status> for wire::Status {
    fn from(it: model::Status) -> wire::Status {
        wire::Status {
            version: it.version,
            pid: it.pid,
            uptime_seconds: it.uptime_seconds,
            rss_mib: it.rss_mib,
            peak_rss_mib: it.peak_rss_mib,
            data_dir: it.data_dir,
            listen: it.listen,
            privacy_mode: it.privacy_mode.encode(),
            embed_model: it.embed_model,
            dimension: it.dimension,
            index_ready: it.index_ready,
            chunks: it.chunks,
            store_bytes: it.store_bytes,
            roots: into_all(it.roots),
            coverage: Some(it.coverage.into()),
            running_jobs: into_all(it.running_jobs),
            degraded: it.degraded,
            auth_enabled: it.auth_enabled,
            upkeep: Some(it.upkeep.into()),
            paused: it.paused.map(Into::into),
            watch: Some(it.watch.into()),
            memory_caps: into_all(it.memory_caps),
        }
    }
}

impl From<model::Upkeep> for wire::Upkeep {
    fn from(it: model::Upkeep) -> wire::Upkeep {
        let model::Upkeep { now, versions, fragments, unindexed_chunks, disk_free_bytes } = it;
        wire::Upkeep { now, versions, fragments, unindexed_chunks, disk_free_bytes }
    }
}

impl From<wire::Upkeep> for model::Upkeep {
    fn from(it: wire::Upkeep) -> model::Upkeep {
        let wire::Upkeep { now, versions, fragments, unindexed_chunks, disk_free_bytes } = it;
        model::Upkeep { now, versions, fragments, unindexed_chunks, disk_free_bytes }
    }
}

impl TryFrom<wire::Status> for model::Status {
    type Error = Error;

    fn try_from(it: wire::Status) -> Result<model::Status> {
        Ok(model::Status {
            version: it.version,
            pid: it.pid,
            uptime_seconds: it.uptime_seconds,
            rss_mib: it.rss_mib,
            peak_rss_mib: it.peak_rss_mib,
            data_dir: it.data_dir,
            listen: it.listen,
            privacy_mode: WireEnum::require(it.privacy_mode)?,
            embed_model: it.embed_model,
            dimension: it.dimension,
            index_ready: it.index_ready,
            chunks: it.chunks,
            store_bytes: it.store_bytes,
            roots: into_all(it.roots),
            coverage: it.coverage.ok_or_else(|| missing("coverage"))?.into(),
            running_jobs: try_into_all(it.running_jobs)?,
            degraded: it.degraded,
            auth_enabled: it.auth_enabled,
            upkeep: it.upkeep.map(Into::into).unwrap_or_default(),
            paused: it.paused.map(TryInto::try_into).transpose()?,
            // An older daemon does not know.
            watch: it.watch.map(Into::into).unwrap_or_default(),
            memory_caps: into_all(it.memory_caps),
        })
    }
}

impl From<model::FoundFile> for wire::FoundFile {
    fn from(it: model::FoundFile) -> wire::FoundFile {
        let (path, path_bytes) = encode_path(&it.path);
        wire::FoundFile {
            path,
            path_bytes,
            size: it.size,
            modified_ns: it.modified_ns,
            changed_ns: it.changed_ns,
            created_ns: it.created_ns,
            inode: it.inode,
            device: it.device,
            mode: it.mode,
            uid: it.uid,
            skip: it.skip.map_or(0, WireEnum::encode),
        }
    }
}

impl TryFrom<wire::FoundFile> for model::FoundFile {
    type Error = Error;

    fn try_from(it: wire::FoundFile) -> Result<model::FoundFile> {
        Ok(model::FoundFile {
            path: decode_path(it.path, it.path_bytes),
            size: it.size,
            modified_ns: it.modified_ns,
            changed_ns: it.changed_ns,
            created_ns: it.created_ns,
            inode: it.inode,
            device: it.device,
            mode: it.mode,
            uid: it.uid,
            skip: WireEnum::decode(it.skip)?,
        })
    }
}

impl From<model::FileRecord> for wire::FileRecord {
    fn from(it: model::FileRecord) -> wire::FileRecord {
        let (root, root_bytes) = encode_path(&it.root);
        wire::FileRecord {
            id: it.id,
            root_id: it.root_id,
            root,
            root_bytes,
            found: Some(it.found.into()),
            extension: it.extension,
            kind: it.kind.encode(),
            media_type: it.media_type,
            owner: it.owner,
            hash: it.hash.map(|hash| hash.0.to_vec()).unwrap_or_default(),
            state: it.state.encode(),
            reason: it.reason.map_or(0, WireEnum::encode),
            detail: it.detail,
            chunks: it.chunks,
            tries: it.tries,
        }
    }
}

impl TryFrom<wire::FileRecord> for model::FileRecord {
    type Error = Error;

    fn try_from(it: wire::FileRecord) -> Result<model::FileRecord> {
        let hash = match it.hash.len() {
            0 => None,
            _ => Some(model::ContentHash(it.hash.try_into().map_err(|_| Error::invalid("hash is not 32 bytes long"))?)),
        };
        Ok(model::FileRecord {
            id: it.id,
            root_id: it.root_id,
            root: decode_path(it.root, it.root_bytes),
            found: it.found.ok_or_else(|| missing("found"))?.try_into()?,
            extension: it.extension,
            kind: WireEnum::require(it.kind)?,
            media_type: it.media_type,
            owner: it.owner,
            hash,
            state: WireEnum::require(it.state)?,
            reason: WireEnum::decode(it.reason)?,
            detail: it.detail,
            chunks: it.chunks,
            tries: it.tries,
        })
    }
}

impl From<model::FileFilter> for wire::FileFilter {
    fn from(it: model::FileFilter) -> wire::FileFilter {
        let (under, under_bytes) = it.under.as_deref().map(encode_path).unwrap_or_default();
        wire::FileFilter {
            under,
            under_bytes,
            extensions: it.extensions,
            path_glob: it.path_glob,
            name_words: it.name_words,
            modified_after_ns: it.modified_after_ns,
            modified_before_ns: it.modified_before_ns,
            min_size: it.min_size,
            max_size: it.max_size,
            owner: it.owner,
            state: it.state.map_or(0, WireEnum::encode),
        }
    }
}

impl TryFrom<wire::FileFilter> for model::FileFilter {
    type Error = Error;

    fn try_from(it: wire::FileFilter) -> Result<model::FileFilter> {
        Ok(model::FileFilter {
            under: Some(decode_path(it.under, it.under_bytes)).filter(|path| !path.as_os_str().is_empty()),
            extensions: it.extensions,
            path_glob: it.path_glob,
            name_words: it.name_words,
            modified_after_ns: it.modified_after_ns,
            modified_before_ns: it.modified_before_ns,
            min_size: it.min_size,
            max_size: it.max_size,
            owner: it.owner,
            state: WireEnum::decode(it.state)?,
            within: model::Scope::All,
        })
    }
}

impl From<model::Anchor> for wire::Anchor {
    fn from(it: model::Anchor) -> wire::Anchor {
        wire::Anchor {
            page: it.page,
            line_start: it.line_start,
            line_end: it.line_end,
            byte_start: it.byte_start,
            byte_end: it.byte_end,
            sheet: it.sheet,
            cell: it.cell,
            part: it.part,
            member: it.member,
            symbol: it.symbol,
            region: it.region.map(Into::into),
            verbatim: it.verbatim,
        }
    }
}

impl From<wire::Anchor> for model::Anchor {
    fn from(it: wire::Anchor) -> model::Anchor {
        model::Anchor {
            page: it.page,
            line_start: it.line_start,
            line_end: it.line_end,
            byte_start: it.byte_start,
            byte_end: it.byte_end,
            sheet: it.sheet,
            cell: it.cell,
            part: it.part,
            member: it.member,
            symbol: it.symbol,
            region: it.region.map(Into::into),
            verbatim: it.verbatim,
        }
    }
}

impl From<model::Block> for wire::Block {
    fn from(it: model::Block) -> wire::Block {
        let (kind, heading_level) = match it.kind {
            model::BlockKind::Heading(level) => (wire::BlockKind::Heading, level.into()),
            model::BlockKind::Paragraph => (wire::BlockKind::Paragraph, 0),
            model::BlockKind::ListItem => (wire::BlockKind::ListItem, 0),
            model::BlockKind::Table => (wire::BlockKind::Table, 0),
            model::BlockKind::Code => (wire::BlockKind::Code, 0),
            model::BlockKind::Metadata => (wire::BlockKind::Metadata, 0),
        };
        wire::Block { kind: kind as i32, heading_level, text: it.text, anchor: Some(it.anchor.into()) }
    }
}

impl TryFrom<wire::Block> for model::Block {
    type Error = Error;

    fn try_from(it: wire::Block) -> Result<model::Block> {
        let kind = match wire::BlockKind::try_from(it.kind) {
            // A level that cannot be is no reason to lose the text.
            Ok(wire::BlockKind::Heading) => model::BlockKind::Heading(u8::try_from(it.heading_level).unwrap_or(6)),
            Ok(wire::BlockKind::ListItem) => model::BlockKind::ListItem,
            Ok(wire::BlockKind::Table) => model::BlockKind::Table,
            Ok(wire::BlockKind::Code) => model::BlockKind::Code,
            Ok(wire::BlockKind::Metadata) => model::BlockKind::Metadata,
            Ok(wire::BlockKind::Paragraph | wire::BlockKind::Unspecified) | Err(_) => model::BlockKind::Paragraph,
        };
        Ok(model::Block { kind, text: it.text, anchor: it.anchor.map(Into::into).unwrap_or_default() })
    }
}

impl From<model::Document> for wire::Document {
    fn from(it: model::Document) -> wire::Document {
        wire::Document {
            title: it.title,
            media_type: it.media_type,
            blocks: into_all(it.blocks),
            problems: it.problems,
            truncated: it.truncated,
            pages: it.pages,
            pages_without_text: it.pages_without_text,
        }
    }
}

impl TryFrom<wire::Document> for model::Document {
    type Error = Error;

    fn try_from(it: wire::Document) -> Result<model::Document> {
        Ok(model::Document {
            title: it.title,
            media_type: it.media_type,
            blocks: try_into_all(it.blocks)?,
            problems: it.problems,
            truncated: it.truncated,
            pages: it.pages,
            pages_without_text: it.pages_without_text,
            // What a file refers to is for the graph, which is asked where it is.
            links: Vec::new(),
        })
    }
}

/// Converts every item.
pub(crate) fn into_all<A: Into<B>, B>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(Into::into).collect()
}

/// Converts every item, or fails with the first that cannot be.
pub(crate) fn try_into_all<A, B: TryFrom<A, Error = Error>>(items: Vec<A>) -> Result<Vec<B>> {
    items.into_iter().map(B::try_from).collect()
}

/// Returns the path for people, and its bytes when that loses any.
fn encode_path(path: &Path) -> (String, Vec<u8>) {
    match path.to_str() {
        Some(text) => (text.into(), Vec::new()),
        None => (path.to_string_lossy().into_owned(), path.as_os_str().as_bytes().to_vec()),
    }
}

fn decode_path(text: String, bytes: Vec<u8>) -> PathBuf {
    if bytes.is_empty() { PathBuf::from(text) } else { PathBuf::from(OsString::from_vec(bytes)) }
}

fn missing(field: &str) -> Error {
    Error::invalid(format!("`{field}` is missing"))
}

#[cfg(test)]
mod llm_tests;
#[cfg(test)]
mod tests;
