//! Result of extraction: the text of a file in blocks, each with its location in the file.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{JailMode, Reason, Redaction};

/// A rectangle on a displayed page. Coordinates are fractions of the page's width and height, 0 to 1, from the top left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Left edge, as a fraction of the page width.
    pub left: f32,
    /// Top edge, as a fraction of the page height.
    pub top: f32,
    /// Right edge, as a fraction of the page width.
    pub right: f32,
    /// Bottom edge, as a fraction of the page height.
    pub bottom: f32,
}

impl Region {
    /// Returns the smallest rectangle that contains both rectangles.
    pub fn union(self, other: Region) -> Region {
        Region {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// Returns the ninth of the page (three rows, three columns) that contains the rectangle's centre, e.g. `top left`.
    pub fn area_name(self) -> &'static str {
        let third = |low: f32, high: f32| ((low + high) / 2.0 * 3.0).clamp(0.0, 2.9) as usize;
        const NAMES: [[&str; 3]; 3] =
            [["top left", "top", "top right"], ["left", "centre", "right"], ["bottom left", "bottom", "bottom right"]];
        NAMES[third(self.top, self.bottom)][third(self.left, self.right)]
    }
}

/// Location of a piece of text in its file. Fields are 1-based and inclusive unless documented otherwise, and absent if
/// the format has no such unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Anchor {
    /// Page number of a PDF, or slide number of a presentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// First line of the text in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_start: Option<u32>,
    /// Last line of the text in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_end: Option<u32>,
    /// Offset of the first byte, from 0, in the file on disk (or in the archive member).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_start: Option<u64>,
    /// Offset one past the last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_end: Option<u64>,
    /// Name of the spreadsheet's sheet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// Cell or range on the sheet, e.g. `B2:D9`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Part of a message or notebook: `body`, `attachment: plan.pdf`, `cell 7`, `message 3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Path of the member inside an archive, nested archives joined by `!/`; the hit is then `archive.zip!/member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Symbol of source code, e.g. `impl Parser::next_element`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Rectangle on the page, if the layout was analysed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// True if the text is exactly the bytes `byte_start..byte_end` of the file, as UTF-8.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verbatim: bool,
    /// Omitted lines inside a block, as `(line, count)`: before this line of the text (from 0), `count` lines of the file or
    /// rows of the sheet are omitted. Readers set it for the chunker; anchors in results have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub gaps: Vec<(u32, u32)>,
}

impl Anchor {
    /// Returns the location as text for people, e.g. `page 3, lines 7-9`; empty if no field is set.
    pub fn place(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.page.map(|page| format!("page {page}")));
        parts.extend(self.region.map(|region| region.area_name().to_string()));
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

/// What a block is in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BlockKind {
    /// A heading, level 1 (highest) to 6. Its text opens a section and becomes part of the heading path.
    Heading(u8),
    /// Running text. A chunk may span and overlap neighbouring paragraphs.
    Paragraph,
    /// An item of a list.
    ListItem,
    /// Rows of a table, one per line, cells separated by ` | `.
    Table,
    /// Source code or preformatted text; one symbol (e.g. a function) if the parser recognises symbols. Line breaks matter.
    Code,
    /// Facts about the file: title, author, mail headers, EXIF, as `key: value` lines.
    Metadata,
}

/// One piece of a document. Never empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// What the block is, e.g. a heading.
    pub kind: BlockKind,
    /// Text of the block: UTF-8, no NUL, no markup.
    pub text: String,
    /// Location of the block in the file.
    pub anchor: Anchor,
    /// For a table: the line of the file or the row of the sheet, from 1, at which each line of the text begins. Empty if
    /// the format has neither lines nor rows, or if the table's rows are consecutive within [`Block::anchor`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<u32>,
}

/// Maximum size of a file to read, in bytes (256 MiB), because parsers hold the whole file in memory. A larger file is
/// rejected with [`Reason::TooLarge`].
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Maximum number of blocks that a parser produces for a file, not counting the blocks from OCR; further ones are dropped.
pub const MAX_BLOCKS: usize = 250_000;

/// Maximum number of words with places that a document keeps; further ones have none. They take about 30 compressed bytes each.
pub const MAX_PLACED_WORDS: usize = 50_000;

/// The extracted text of one file, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Title from the file's metadata or first heading; not the file name.
    pub title: Option<String>,
    /// Media type detected from the content, e.g. `application/pdf`.
    pub media_type: String,
    /// Blocks in reading order.
    #[serde(deserialize_with = "deserialize_blocks")]
    pub blocks: Vec<Block>,
    /// What could not be read, one sentence each; the rest of the file was read.
    pub problems: Vec<String>,
    /// True if the text was truncated at a limit.
    pub truncated: bool,
    /// Number of pages or slides, if the format has them.
    pub pages: Option<u32>,
    /// Pages (1-based) that hold an image but no text layer: input for OCR.
    pub pages_without_text: Vec<u32>,
    /// References that the file contains outside its text, e.g. link targets, if the format has them. The graph uses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Names of embedded items, with or without text: attachments, members of an archive, sheets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// When the first and the last message in the file were sent, by their own headers: seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<(i64, i64)>,
    /// Words that OCR read, in reading order. The text of [`Document::blocks`] holds them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<PlacedWord>,
}

impl Document {
    /// Appends words up to the maximum number.
    pub fn add_words(&mut self, words: impl IntoIterator<Item = PlacedWord>) {
        let room = MAX_PLACED_WORDS.saturating_sub(self.words.len());
        self.words.extend(words.into_iter().take(room));
    }
}

/// A word with its place on a page. In a script without spaces, a piece of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedWord {
    /// Number of the page, from 1.
    pub page: u32,
    /// The word, with its punctuation.
    pub text: String,
    /// Location of the word on the page.
    pub region: Region,
}

/// Deserializes blocks, and fails for more blocks than a document may have. Without this limit, a faulty worker could send
/// so many empty blocks that they take gigabytes of memory.
fn deserialize_blocks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Block>, D::Error> {
    struct Blocks;
    impl<'de> Visitor<'de> for Blocks {
        type Value = Vec<Block>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(to, "at most {} blocks", 2 * MAX_BLOCKS)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Vec<Block>, A::Error> {
            let mut read = Vec::new();
            while let Some(block) = blocks.next_element()? {
                if read.len() == 2 * MAX_BLOCKS {
                    return Err(de::Error::invalid_length(read.len() + 1, &self));
                }
                read.push(block);
            }
            Ok(read)
        }
    }
    from.deserialize_seq(Blocks)
}

/// Type of a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Link to a file or an address.
    Link,
    /// The id of the message itself, to which links from other messages refer.
    Message,
    /// The id of the message to which this message replies.
    Reply,
}

/// A reference that a file contains outside its text, e.g. a link target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Type of the link.
    pub kind: LinkKind,
    /// Target of the link, as written in the file.
    pub target: String,
    /// The text of the link; may be empty.
    pub text: String,
}

impl Document {
    /// Returns the text of all blocks, separated by blank lines, as `vic read` prints it.
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

    /// Returns the subject of the first message; `None` for a mailbox, whose messages were sent at several times.
    pub fn subject(&self) -> Option<&str> {
        if self.sent.is_some_and(|(first, last)| first != last) {
            return None;
        }
        let metadata = self.blocks.iter().filter(|it| it.kind == BlockKind::Metadata);
        metadata.flat_map(|it| it.text.lines()).find_map(|it| it.strip_prefix("Subject: ")).map(str::trim)
    }

    /// Returns the senders of the messages, or the authors that the metadata names, each once and at most 200.
    pub fn authors(&self) -> Vec<String> {
        let mut authors: Vec<String> = Vec::new();
        for line in self.blocks.iter().filter(|it| it.kind == BlockKind::Metadata).flat_map(|it| it.text.lines()) {
            for author in authors_in_line(line) {
                if authors.len() < MAX_AUTHORS && !authors.iter().any(|it| it == author) {
                    authors.push(author.to_string());
                }
            }
        }
        authors
    }
}

/// Maximum number of authors of one file; a mailbox can have thousands of senders.
const MAX_AUTHORS: usize = 200;

/// Maximum length of an author in bytes; a longer text is no name.
const MAX_AUTHOR_BYTES: usize = 200;

/// Returns the authors that a line of metadata names.
fn authors_in_line(line: &str) -> impl Iterator<Item = &str> {
    let (key, value) = line.split_once(':').unwrap_or_default();
    let key = key.trim().to_lowercase();
    // A line `From:` without an address is in metadata other than that of mails.
    let is_author = matches!(key.as_str(), "author" | "authors" | "creator" | "last_author")
        || (key == "from" && value.contains('@'));
    let value = value.trim().trim_matches(['[', ']']);
    let separator = if value.contains(';') { ';' } else { ',' };
    let names = value.split(separator).map(|it| it.trim().trim_matches(['"', '\''])).filter(|it| !it.is_empty());
    names.filter(move |it| is_author && it.len() <= MAX_AUTHOR_BYTES)
}

/// Why a document could not be extracted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractFailure {
    /// The reason for which the catalog marks the file as failed or skipped.
    pub reason: Reason,
    /// One more sentence about the failure, without the path; may be empty.
    pub detail: String,
}

/// Prefix of [`ExtractFailure::detail`] if the OCR models cannot be loaded, which is not the file's fault. The reason is
/// then [`Reason::UnsupportedType`].
pub const OCR_MODELS_UNAVAILABLE: &str = "the networks that read text in pictures cannot be loaded";

impl ExtractFailure {
    /// Returns the detail if the failure is that the OCR models could not be loaded.
    pub fn ocr_unavailable_detail(&self) -> Option<&str> {
        let is_unloaded = self.reason == Reason::UnsupportedType && self.detail.starts_with(OCR_MODELS_UNAVAILABLE);
        is_unloaded.then_some(self.detail.as_str())
    }
}

/// Limits of the extraction of one file. For a nested archive, they apply to all of its members together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractLimits {
    /// Wall-clock seconds after which the worker process is killed.
    pub seconds: u32,
    /// Maximum resident memory of the worker in MiB; for a worker that runs a skill, in addition to the skill's models.
    pub memory_mib: u32,
    /// Maximum bytes of text; longer text is cut off and sets [`Document::truncated`].
    pub text_bytes: u64,
    /// Maximum bytes inflated from archives and containers, in total; a member or part that would exceed it is not read.
    pub inflated_bytes: u64,
    /// Maximum bytes inflated from one member or part; a larger one is not read.
    pub entry_bytes: u64,
    /// Maximum ratio of inflated to compressed size of a member or part larger than 1 MiB; one above it is not read.
    pub ratio: u64,
    /// Maximum members read from archives, in total; further members are not read.
    pub members: u32,
    /// Maximum parts in one office document or book; a document with more is rejected.
    pub parts: u32,
    /// Maximum nesting of archives and messages; deeper ones are not read.
    pub depth: u32,
    /// Maximum pages read; further pages are left out.
    pub pages: u32,
    /// Maximum cells read from spreadsheets; further cells are left out.
    pub cells: u64,
    /// Maximum pixels of an image, as the image's header states them; a larger image is rejected.
    pub pixels: u64,
    /// Whether parsers may run without a jail (an operating system sandbox).
    pub jail: JailMode,
    /// Which secrets are redacted in the text.
    pub redaction: Redaction,
}

impl Default for ExtractLimits {
    /// The defaults follow those of Apache Tika, Apache POI and LocalSearch.
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
    fn subject_is_that_of_the_first_message() {
        let block = |text: &str| Block {
            kind: BlockKind::Metadata,
            text: text.into(),
            anchor: Anchor::default(),
            rows: Vec::new(),
        };
        let blocks = vec![block("From: a@example.org\nSubject: Fwd: Keys"), block("Subject: Keys")];
        let mail = Document { blocks, sent: Some((5, 5)), ..Document::default() };
        assert_eq!(mail.subject(), Some("Fwd: Keys"));
        assert_eq!(Document { sent: Some((5, 9)), ..mail.clone() }.subject(), None);
        assert_eq!(Document::default().subject(), None);
    }

    #[test]
    fn authors_are_those_of_the_metadata_each_once() {
        let block = |kind, text: &str| Block { kind, text: text.into(), anchor: Anchor::default(), rows: Vec::new() };
        let blocks = vec![
            block(BlockKind::Metadata, "Subject: Keys\nFrom: Ada Lane <ada@example.org>\nTo: ben@example.org"),
            block(BlockKind::Paragraph, "author: a word of the text"),
            block(BlockKind::Metadata, "from: Harbour\nauthor: Lane, Ada; Ben Oak\nauthors: [\"Cy\", Ben Oak]"),
        ];
        let document = Document { blocks, ..Document::default() };
        assert_eq!(document.authors(), ["Ada Lane <ada@example.org>", "Lane, Ada", "Ben Oak", "Cy"]);
    }

    #[test]
    fn anchor_place_names_page_line_sheet_and_cell() {
        let anchor = Anchor { byte_start: Some(1), byte_end: Some(2), ..Anchor::default() };
        assert_eq!(anchor.place(), "");
        let anchor = Anchor { page: Some(3), line_start: Some(7), line_end: Some(7), ..anchor };
        assert_eq!(anchor.place(), "page 3, line 7");
        let anchor = Anchor { sheet: Some("Q1".into()), cell: Some("B2:D9".into()), ..Anchor::default() };
        assert_eq!(anchor.place(), "sheet Q1, B2:D9");
    }
}
