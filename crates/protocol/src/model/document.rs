//! What extraction gives: a file's text in blocks, each with the place it came from.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{JailMode, Reason, Redaction};

/// A rectangle on a page as it is displayed: fractions of its width and height, 0 to 1, from the top left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Left edge.
    pub left: f32,
    /// Top edge.
    pub top: f32,
    /// Right edge.
    pub right: f32,
    /// Bottom edge.
    pub bottom: f32,
}

impl Region {
    /// Returns the smallest rectangle that holds both.
    pub fn union(self, other: Region) -> Region {
        Region {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// Says where on the page its centre lies, in thirds: `top left`, `centre`, `bottom`.
    pub fn place(self) -> &'static str {
        let third = |low: f32, high: f32| ((low + high) / 2.0 * 3.0).clamp(0.0, 2.9) as usize;
        const NAMES: [[&str; 3]; 3] =
            [["top left", "top", "top right"], ["left", "centre", "right"], ["bottom left", "bottom", "bottom right"]];
        NAMES[third(self.top, self.bottom)][third(self.left, self.right)]
    }
}

/// Where a piece of text stands in its file. Every field is 1-based and inclusive unless it says otherwise, and absent
/// where the format has no such thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Anchor {
    /// Page of a PDF or slide of a presentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// First line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_start: Option<u32>,
    /// Last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_end: Option<u32>,
    /// First byte, 0-based, in the file as it lies on disk (or in the archive member).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_start: Option<u64>,
    /// One past the last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_end: Option<u64>,
    /// Name of the sheet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// Cell or range on the sheet, e.g. `B2:D9`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Part of a message or notebook: `body`, `attachment: plan.pdf`, `cell 7`, `message 3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Path inside an archive, levels joined by `!/`; the hit is then `archive.zip!/member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Symbol of source code, e.g. `impl Parser::next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Rectangle on the page, where layout was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// True when the text is exactly the bytes `byte_start..byte_end` of the file, as UTF-8.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verbatim: bool,
    /// Lines of the text (from 0) before which lines of the file, or rows of the sheet, are left out, and how many. It is
    /// what a reader tells the chunker of a block; no place that is shown has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub gaps: Vec<(u32, u32)>,
}

impl Anchor {
    /// Says the place in words a person looks for, e.g. `page 3, lines 7-9`; empty when there is none.
    pub fn place(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.page.map(|page| format!("page {page}")));
        parts.extend(self.region.map(|region| region.place().to_string()));
        parts.extend(self.sheet.as_ref().map(|sheet| format!("sheet {sheet}")));
        parts.extend(self.cell.clone());
        parts.extend(self.part.clone());
        parts.extend(self.symbol.clone());
        match (self.line_start, self.line_end) {
            (Some(first), Some(last)) if last > first => parts.push(format!("lines {first}-{last}")),
            (Some(line), _) => parts.push(format!("line {line}")),
            (None, _) => (),
        }
        parts.join(", ")
    }
}

/// The role of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BlockKind {
    /// A heading, level 1 (highest) to 6. Its text opens a section and becomes part of the heading path.
    Heading(u8),
    /// Running text. Neighbouring paragraphs flow on: a chunk may span them and overlap.
    Paragraph,
    /// An item of a list.
    ListItem,
    /// Rows of a table, one per line, cells separated by ` | `.
    Table,
    /// Source code or preformatted text, one symbol where symbols are known. Line breaks matter.
    Code,
    /// Facts about the file: title, author, mail headers, EXIF, as `key: value` lines.
    Metadata,
}

/// One piece of a document. Never empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its role.
    pub kind: BlockKind,
    /// Its text: UTF-8, no NUL, no markup.
    pub text: String,
    /// Where it stands.
    pub anchor: Anchor,
    /// Of a table: the line of the file, or the row of the sheet, that each line of the text begins in, from 1. Empty where
    /// the format has neither, and where the rows follow each other through all of [`Block::anchor`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<u32>,
}

/// The largest file whose content is looked at: readers have it whole in memory.
pub const MOST_FILE_BYTES: u64 = 256 << 20;

/// Most blocks that a reader makes of a file; what its pictures say comes beside them.
pub const MOST_BLOCKS: usize = 250_000;

/// The text of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Title as the file itself states it (metadata or first heading), not its name.
    pub title: Option<String>,
    /// Media type found by content, e.g. `application/pdf`.
    pub media_type: String,
    /// Blocks in reading order.
    #[serde(deserialize_with = "no_more_blocks")]
    pub blocks: Vec<Block>,
    /// What could not be read, one sentence each; the rest was read.
    pub problems: Vec<String>,
    /// True when a limit cut the text short.
    pub truncated: bool,
    /// Number of pages or slides, where the format has them.
    pub pages: Option<u32>,
    /// Pages (1-based) that hold an image but no text layer: work for OCR.
    pub pages_without_text: Vec<u32>,
    /// What the file refers to outside its text, where the format has such: the graph reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Names of what lies in the file, with or without text: attachments, members of an archive, sheets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// When the first and the last message in it were sent, as they say themselves: seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<(i64, i64)>,
}

/// Reads blocks, and refuses more than any document has: of blocks without text, what a worker may say holds so many that
/// they would be gigabytes in memory.
fn no_more_blocks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Block>, D::Error> {
    struct Blocks;
    impl<'de> Visitor<'de> for Blocks {
        type Value = Vec<Block>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(to, "at most {} blocks", 2 * MOST_BLOCKS)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Vec<Block>, A::Error> {
            let mut read = Vec::new();
            while let Some(block) = blocks.next_element()? {
                if read.len() == 2 * MOST_BLOCKS {
                    return Err(de::Error::invalid_length(read.len() + 1, &self));
                }
                read.push(block);
            }
            Ok(read)
        }
    }
    from.deserialize_seq(Blocks)
}

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// To a file or an address.
    Link,
    /// The name of this very message.
    Message,
    /// The name of a message that this one answers.
    Reply,
}

/// A reference that is no part of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Where it leads, as it is written.
    pub target: String,
    /// The text that carries it; may be empty.
    pub text: String,
}

impl Document {
    /// Returns the text of all blocks, one blank line between them: what `vic read` prints.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&block.text);
        }
        text
    }
}

/// Why a document could not be extracted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractFailure {
    /// One of the closed list.
    pub reason: Reason,
    /// One sentence more, without the path; may be empty.
    pub detail: String,
}

/// How the detail of a failure begins that says nothing of the file, but that no picture can be read. Its reason is
/// [`Reason::UnsupportedType`].
pub const NETWORKS_UNLOADED: &str = "the networks that read text in pictures cannot be loaded";

impl ExtractFailure {
    /// Says why no picture at all can be read, where that is what failed.
    pub fn unloaded(&self) -> Option<&str> {
        let is_unloaded = self.reason == Reason::UnsupportedType && self.detail.starts_with(NETWORKS_UNLOADED);
        is_unloaded.then_some(self.detail.as_str())
    }
}

/// Bounds on one extraction. They hold for the whole tree of a nested archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractLimits {
    /// Wall-clock seconds before the worker is killed.
    pub seconds: u32,
    /// Resident memory of the worker in MiB; of one for skills, beyond what its models take.
    pub memory_mib: u32,
    /// Bytes of text kept; the rest sets [`Document::truncated`].
    pub text_bytes: u64,
    /// Bytes inflated from archives and containers, in total.
    pub inflated_bytes: u64,
    /// Bytes inflated from one member or part.
    pub entry_bytes: u64,
    /// How many times its compressed size a member or part may have, once it is larger than 1 MiB.
    pub ratio: u64,
    /// Members read from archives, in total.
    pub members: u32,
    /// Parts in one office document or book.
    pub parts: u32,
    /// Nesting of archives and messages.
    pub depth: u32,
    /// Pages read.
    pub pages: u32,
    /// Cells read from spreadsheets.
    pub cells: u64,
    /// Pixels of a picture, as its header states them.
    pub pixels: u64,
    /// Whether there must be a jail.
    pub jail: JailMode,
    /// What is blacked out in the text.
    pub redaction: Redaction,
}

impl Default for ExtractLimits {
    /// The defaults follow what Tika, POI and LocalSearch ship.
    fn default() -> ExtractLimits {
        ExtractLimits {
            seconds: 30,
            memory_mib: 512,
            text_bytes: 10 << 20,
            inflated_bytes: 256 << 20,
            entry_bytes: 64 << 20,
            ratio: 100,
            members: 1_000,
            parts: 10_000,
            depth: 3,
            pages: 5_000,
            cells: 1_000_000,
            pixels: 100_000_000,
            jail: JailMode::default(),
            redaction: Redaction::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_what_a_person_looks_for() {
        let anchor = Anchor { byte_start: Some(1), byte_end: Some(2), ..Anchor::default() };
        assert_eq!(anchor.place(), "");
        let anchor = Anchor { page: Some(3), line_start: Some(7), line_end: Some(7), ..anchor };
        assert_eq!(anchor.place(), "page 3, line 7");
        let anchor = Anchor { sheet: Some("Q1".into()), cell: Some("B2:D9".into()), ..Anchor::default() };
        assert_eq!(anchor.place(), "sheet Q1, B2:D9");
    }
}
