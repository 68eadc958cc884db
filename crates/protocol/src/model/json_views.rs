//! Files, jobs and text as JSON clients receive them: limited in size, and without internal fields.

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Anchor, BlockKind, Document, FileKind, FileList, FileRecord, FileState, JobSnapshot, JobState, L0Filters,
    MailFacts, OcrMode, Place, Reason, display_path,
};

/// A request to list files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilesRequest {
    /// Words that the file name must contain, in any case; at most 16.
    pub words: Vec<String>,
    /// Only files below this folder.
    pub warehouse_root: Option<String>,
    /// Only files in this indexing state.
    pub state: Option<FileState>,
    /// Only files that were skipped or failed for this reason.
    pub reason: Option<Reason>,
    /// Metadata filters that the files must match.
    pub filters: L0Filters,
    /// Maximum number of files, 1 to 10000; 100 if absent.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<u32>,
    /// Number of matching files to skip before the first in the reply.
    pub offset: u64,
}

/// A request for the text of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadRequest {
    /// Path of a file below a root, absolute or as hits show it, or `archive.zip!/member`. A location may follow, as in
    /// `lease.pdf, page 3`.
    pub path: String,
    /// Only this page or slide, or these: `3` or `3-5`.
    pub page: Option<String>,
    /// Only this line, `12`, or these lines, `12-20`.
    pub lines: Option<String>,
    /// Only the sheet with this name.
    pub sheet: Option<String>,
    /// Only this cell or range, `B2` or `B2:D9`.
    pub cell: Option<String>,
    /// Only this part of a message or notebook (`body`, `attachment: plan.pdf`, `cell 7`), or symbol of source code.
    pub part: Option<String>,
    /// Only this member of an archive, nested archives joined by `!/`.
    pub member: Option<String>,
    /// Number of characters to skip before the first in the reply.
    pub offset: u64,
    /// Maximum number of characters, 1 to 1000000; 20000 if absent.
    #[schemars(range(min = 1, max = 1000000))]
    pub max_chars: Option<u64>,
}

impl ReadRequest {
    /// Returns the requested location in the file.
    pub fn place(&self) -> Place {
        let ReadRequest { page, lines, sheet, cell, part, member, .. } = self.clone();
        Place { page, lines, sheet, cell, part, member }
    }
}

/// A request to start an index job, as the HTTP bridge accepts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexStart {
    /// Absolute path of a folder, or of a file of a root. If absent: VIC_WAREHOUSE_ROOT if it is set, else every root.
    pub root: Option<String>,
    /// Path of this daemon's index, for clients that send it; any other path is rejected.
    pub db_path: Option<String>,
    /// Read and embed every file again, changed or not.
    pub full: bool,
    /// Read at most this many files; the other files stay pending.
    pub max_files: Option<u64>,
    /// Index metadata only (tier L0), without reading content.
    pub metadata_only: bool,
    /// When to run OCR.
    pub ocr: OcrMode,
}

/// A job as the HTTP bridge reports it: the snapshot, and additional fields of the bridge API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobReport {
    /// `running`, `completed` or `failed`. See `state` for details: a queued job is `running`, a cancelled one `failed`.
    pub status: String,
    /// Time of the request, RFC 3339.
    pub created_at: Option<String>,
    /// Start time, RFC 3339.
    pub started_at: Option<String>,
    /// End time, RFC 3339.
    pub finished_at: Option<String>,
    /// Number of chunks written to the index.
    pub rows: u64,
    /// Snapshot of the job; its fields are inlined in the JSON.
    #[serde(flatten)]
    pub job: JobSnapshot,
}

impl From<JobSnapshot> for JobReport {
    fn from(job: JobSnapshot) -> JobReport {
        let time =
            |ms: i64| DateTime::from_timestamp_millis(ms).map(|it| it.to_rfc3339_opts(SecondsFormat::Millis, true));
        let status = match job.state {
            JobState::Queued | JobState::Running => "running",
            JobState::Completed => "completed",
            JobState::Failed | JobState::Cancelled => "failed",
        };
        JobReport {
            status: status.into(),
            created_at: time(job.created_ms),
            started_at: job.started_ms.and_then(time),
            finished_at: job.finished_ms.and_then(time),
            rows: job.chunks_written,
            job,
        }
    }
}

/// One file in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Absolute path; a `file://` URL if the path is not UTF-8.
    pub path: String,
    /// The root folder that contains the file.
    pub root: String,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content, RFC 3339.
    pub modified: String,
    /// Owner's user name, or the user id if the owner has no name.
    pub owner: String,
    /// Extension in lower case, without the dot; empty if there is none.
    pub extension: String,
    /// Broad kind, e.g. source code.
    pub kind: FileKind,
    /// Media type detected from the content.
    pub media_type: String,
    /// Indexing state of the file.
    pub state: FileState,
    /// Why the file was skipped or failed.
    pub reason: Option<Reason>,
    /// One more sentence about the reason; may be empty.
    pub detail: String,
    /// Number of the file's chunks in the index.
    pub chunks: u32,
    /// BLAKE3 of the content in hex; absent until the content has been read.
    pub hash: Option<String>,
    /// Subject, senders and dates of a mail or mailbox; absent for other files, and until the content has been read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailEntry>,
}

/// Subject, senders and dates of the messages in a mail file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MailEntry {
    /// Subject of the message; null for a mailbox.
    pub subject: Option<String>,
    /// The first senders, at most three.
    pub senders: Vec<String>,
    /// When the first message was sent, RFC 3339; null if the messages have no date.
    pub first_sent: Option<String>,
    /// When the last message was sent, RFC 3339; null if the messages have no date.
    pub last_sent: Option<String>,
}

impl From<&MailFacts> for MailEntry {
    fn from(mail: &MailFacts) -> MailEntry {
        let time = |ns: i64| DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::Secs, true);
        MailEntry {
            subject: mail.subject.clone(),
            senders: mail.senders.clone(),
            first_sent: mail.sent_ns.map(|it| time(it.0)),
            last_sent: mail.sent_ns.map(|it| time(it.1)),
        }
    }
}

impl From<&FileRecord> for FileEntry {
    fn from(file: &FileRecord) -> FileEntry {
        let modified: DateTime<Utc> = DateTime::from_timestamp_nanos(file.found.modified_ns);
        FileEntry {
            path: display_path(&file.absolute()).into_owned(),
            root: display_path(&file.root).into_owned(),
            size: file.found.size,
            modified: modified.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            owner: file.owner.clone(),
            extension: file.extension.clone(),
            kind: file.kind,
            media_type: file.media_type.clone(),
            state: file.state,
            reason: file.reason,
            detail: file.detail.clone(),
            chunks: file.chunks,
            hash: file.hash.map(|it| it.to_string()),
            mail: file.mail.as_ref().map(MailEntry::from),
        }
    }
}

/// One page of a list of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePage {
    /// Total number of matching files.
    pub total: u64,
    /// The files of this page of the list.
    pub files: Vec<FileEntry>,
    /// Warnings for the user: which words were corrected, because no file name contains them.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl From<FileList> for FilePage {
    fn from(list: FileList) -> FilePage {
        let files = list.files.iter().map(FileEntry::from).collect();
        FilePage { total: list.total, files, warnings: list.warnings }
    }
}

/// A part of the text of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Path of the file, as requested.
    pub path: String,
    /// Title of the document, if the format has one.
    pub title: Option<String>,
    /// Media type detected from the content.
    pub media_type: String,
    /// Number of pages, if the format has them.
    pub pages: Option<u32>,
    /// Length of the whole text in characters.
    pub total_chars: u64,
    /// Offset of the first character of this part in the whole text.
    pub offset: u64,
    /// Offset at which the next part begins; null at the end of the text.
    pub next_offset: Option<u64>,
    /// The blocks of this part; the first and the last may be truncated.
    pub blocks: Vec<ReadingBlock>,
    /// What could not be read, one sentence each.
    pub problems: Vec<String>,
    /// True if extraction stopped at a limit, so that the whole text is longer than `total_chars`.
    pub truncated: bool,
}

/// A block of text with its location in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadingBlock {
    /// What the block is, e.g. a heading.
    pub kind: BlockKind,
    /// Offset of `text` in the whole text, in characters.
    pub start: u64,
    /// Text of the block.
    pub text: String,
    /// Location of the whole block in the file.
    pub anchor: Anchor,
}

impl Reading {
    /// Returns at most `max_chars` characters of a document, from character `offset`. Characters are counted over the
    /// concatenated blocks, without separators.
    pub fn from_document(path: &str, document: Document, offset: u64, max_chars: u64) -> Reading {
        let end = offset.saturating_add(max_chars);
        let mut at = 0u64;
        let mut blocks = Vec::new();
        for block in document.blocks {
            let begin = at;
            at += block.text.chars().count() as u64;
            if at <= offset || begin >= end || begin == at {
                continue;
            }
            let (skip, until) = (offset.saturating_sub(begin), end.min(at) - begin);
            let text = match skip == 0 && until == at - begin {
                true => block.text,
                false => block.text.chars().skip(skip as usize).take((until - skip) as usize).collect(),
            };
            blocks.push(ReadingBlock { kind: block.kind, start: begin + skip, text, anchor: block.anchor });
        }
        Reading {
            path: path.into(),
            title: document.title,
            media_type: document.media_type,
            pages: document.pages,
            total_chars: at,
            offset,
            next_offset: (end < at).then_some(end),
            blocks,
            problems: document.problems,
            truncated: document.truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Block;

    fn document() -> Document {
        let block = |text: &str| Block {
            kind: BlockKind::Paragraph,
            text: text.into(),
            anchor: Anchor::default(),
            rows: Vec::new(),
        };
        Document { blocks: vec![block("äbc"), block("def"), block("")], ..Document::default() }
    }

    fn check(offset: u64, max_chars: u64, texts: &[&str], next: Option<u64>) {
        let reading = Reading::from_document("/w/a", document(), offset, max_chars);
        let found: Vec<&str> = reading.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            (found.as_slice(), reading.next_offset, reading.total_chars),
            (texts, next, 6),
            "{offset} {max_chars}"
        );
        assert!(reading.blocks.first().is_none_or(|it| it.start == offset));
    }

    #[test]
    fn cut_returns_part_and_next_offset() {
        check(0, 100, &["äbc", "def"], None);
        check(0, 3, &["äbc"], Some(3));
        check(1, 3, &["bc", "d"], Some(4));
        check(4, 2, &["ef"], None);
        check(6, 10, &[], None);
        check(u64::MAX, u64::MAX, &[], None);
    }

    #[test]
    fn parts_concatenate_to_whole_text() {
        let (mut text, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let reading = Reading::from_document("/w/a", document(), from, 1);
            text.extend(reading.blocks.into_iter().map(|it| it.text));
            offset = reading.next_offset;
        }
        assert_eq!(text, "äbcdef");
    }
}
