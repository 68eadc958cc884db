//! Files and their text as JSON clients see them: bounded, and without what only vic itself needs.

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Anchor, BlockKind, Document, FileKind, FileRecord, FileState, JobSnapshot, JobState, L0Filters, OcrMode, Place,
    Reason, printed,
};

/// Which files are there?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilesRequest {
    /// Words that the name must contain, in any case; at most 16.
    pub words: Vec<String>,
    /// Only below this folder.
    pub warehouse_root: Option<String>,
    /// Only files in this state.
    pub state: Option<FileState>,
    /// Metadata filters.
    pub filters: L0Filters,
    /// Most files, 1 to 10000; 100 when absent.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<u32>,
    /// Files to pass over.
    pub offset: u64,
}

/// What stands in a file?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadRequest {
    /// Path of a file below a root, absolute or as hits print it, or `archive.zip!/member`; its place may follow it, as in
    /// `lease.pdf, page 3`.
    pub path: String,
    /// Only this page or slide, `3` or `3-5`.
    pub page: Option<String>,
    /// Only these lines, `12` or `12-20`.
    pub lines: Option<String>,
    /// Only the sheet of this name.
    pub sheet: Option<String>,
    /// Only this cell or range, `B2` or `B2:D9`.
    pub cell: Option<String>,
    /// Only this part of a message or notebook (`body`, `attachment: plan.pdf`, `cell 7`), or symbol of source code.
    pub part: Option<String>,
    /// Only this member of an archive, levels joined by `!/`.
    pub member: Option<String>,
    /// Character to begin at.
    pub offset: u64,
    /// Most characters, 1 to 1000000; 20000 when absent.
    #[schemars(range(min = 1, max = 1000000))]
    pub max_chars: Option<u64>,
}

impl ReadRequest {
    /// Which part of the file is meant.
    pub fn place(&self) -> Place {
        let ReadRequest { page, lines, sheet, cell, part, member, .. } = self.clone();
        Place { page, lines, sheet, cell, part, member }
    }
}

/// What to index, as the bridge is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexStart {
    /// Absolute path of a folder, or of a file of a root; without it VIC_WAREHOUSE_ROOT, or else every known root.
    pub root: Option<String>,
    /// The index of this daemon; any other is refused.
    pub db_path: Option<String>,
    /// Read and embed everything again, changed or not.
    pub full: bool,
    /// Read at most this many files; the rest stay pending.
    pub max_files: Option<u64>,
    /// Stop after L0.
    pub metadata_only: bool,
    /// Whether pictures of text are read.
    pub ocr: OcrMode,
}

/// A job as the bridge tells it: the snapshot, and what the contract of the bridge adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobReport {
    /// `running`, `completed` or `failed`; `state` tells more: queued is running, cancelled is failed.
    pub status: String,
    /// When it was asked for, RFC 3339.
    pub created_at: Option<String>,
    /// When it began, RFC 3339.
    pub started_at: Option<String>,
    /// When it ended, RFC 3339.
    pub finished_at: Option<String>,
    /// Chunks written to the index.
    pub rows: u64,
    /// The snapshot.
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

/// One file of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Absolute path; a `file://` URL where it is not UTF-8.
    pub path: String,
    /// The root it lies in.
    pub root: String,
    /// Bytes.
    pub size: u64,
    /// When its content last changed, RFC 3339.
    pub modified: String,
    /// User name, or number when it has none.
    pub owner: String,
    /// Lower case, without the dot; empty when there is none.
    pub extension: String,
    /// What it is, coarsely.
    pub kind: FileKind,
    /// Media type by content.
    pub media_type: String,
    /// Whether it is in the index.
    pub state: FileState,
    /// Why it is not.
    pub reason: Option<Reason>,
    /// More on why, or empty.
    pub detail: String,
    /// Chunks in the index.
    pub chunks: u32,
    /// BLAKE3 of its content in hex, once it was read.
    pub hash: Option<String>,
}

impl From<&FileRecord> for FileEntry {
    fn from(file: &FileRecord) -> FileEntry {
        let modified: DateTime<Utc> = DateTime::from_timestamp_nanos(file.found.modified_ns);
        FileEntry {
            path: printed(&file.absolute()).into_owned(),
            root: printed(&file.root).into_owned(),
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
        }
    }
}

/// One page of a list of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePage {
    /// How many files match in all.
    pub total: u64,
    /// The files of this page.
    pub files: Vec<FileEntry>,
}

/// A part of the text of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// The file, as it was asked for.
    pub path: String,
    /// Title, when the format has one.
    pub title: Option<String>,
    /// Media type by content.
    pub media_type: String,
    /// Pages, when the format has them.
    pub pages: Option<u32>,
    /// Characters of the whole text.
    pub total_chars: u64,
    /// Character at which this part begins.
    pub offset: u64,
    /// Where the next part begins; null at the end.
    pub next_offset: Option<u64>,
    /// The blocks of this part; the first and the last may be cut.
    pub blocks: Vec<ReadingBlock>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// True when extraction stopped at a limit: the whole text is longer than `total_chars`.
    pub truncated: bool,
}

/// A block of text with its place in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadingBlock {
    /// What it is.
    pub kind: BlockKind,
    /// Character of the whole text at which `text` begins.
    pub start: u64,
    /// The text.
    pub text: String,
    /// Where the whole block stands in the file.
    pub anchor: Anchor,
}

impl Reading {
    /// Cuts at most `max_chars` characters out of a document, from character `offset` on. Blocks are counted one after
    /// the other with nothing between them.
    pub fn cut(path: &str, document: Document, offset: u64, max_chars: u64) -> Reading {
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
        let reading = Reading::cut("/w/a", document(), offset, max_chars);
        let found: Vec<&str> = reading.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            (found.as_slice(), reading.next_offset, reading.total_chars),
            (texts, next, 6),
            "{offset} {max_chars}"
        );
        assert!(reading.blocks.first().is_none_or(|it| it.start == offset));
    }

    #[test]
    fn a_part_is_as_long_as_asked_and_says_where_the_next_begins() {
        check(0, 100, &["äbc", "def"], None);
        check(0, 3, &["äbc"], Some(3));
        check(1, 3, &["bc", "d"], Some(4));
        check(4, 2, &["ef"], None);
        check(6, 10, &[], None);
        check(u64::MAX, u64::MAX, &[], None);
    }

    #[test]
    fn the_parts_together_are_the_whole() {
        let (mut text, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let reading = Reading::cut("/w/a", document(), from, 1);
            text.extend(reading.blocks.into_iter().map(|it| it.text));
            offset = reading.next_offset;
        }
        assert_eq!(text, "äbcdef");
    }
}
