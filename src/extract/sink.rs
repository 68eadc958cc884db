//! The sink: collects the blocks that the format readers produce, and enforces the limits on text and inflated data.

use std::io::Read;

use crate::extract::limits::{MAX_BUFFER_STEP, MAX_STREAM_BYTES, SMALL_FILE_BYTES, STREAM_PER_BYTE};
use crate::extract::text_pieces::{cut_outside_secrets, split_pieces, trim_blank_lines};
use crate::model::{
    Anchor, Block, BlockKind, Document, ExtractFailure, ExtractLimits, Link, LinkKind, MAX_BLOCKS, MEMBER_SEPARATOR,
    Reason,
};

/// Maximum number of links recorded per file; further links are dropped.
const MAX_LINKS: usize = 5_000;
/// Maximum length of a link's target (longer ones are dropped) and of its text (truncated), in bytes.
const MAX_LINK_BYTES: usize = 1_000;

/// Maximum number of recorded names of attachments, archive members and sheets (further names are dropped), and maximum
/// length of a name in bytes (longer names are truncated).
const MAX_NAMES: usize = 2_000;
const MAX_NAME_BYTES: usize = 1_000;

/// Maximum length of a title in bytes: short, because the title is repeated above every passage.
const MAX_TITLE_BYTES: usize = 1_000;

/// The soft hyphen, which is visible only at the end of a line.
const SOFT_HYPHEN: char = '\u{AD}';

/// The result of a reader, which fails only if it could read nothing useful.
pub(crate) type ReadResult<T = ()> = std::result::Result<T, ExtractFailure>;

/// The file or archive member that a reader reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// Complete content of the file or archive member.
    pub(crate) bytes: &'a [u8],
    /// File name, for its extension.
    pub(crate) name: &'a str,
}

pub(crate) fn new_failure(reason: Reason, detail: impl Into<String>) -> ExtractFailure {
    ExtractFailure { reason, detail: detail.into() }
}

/// Collects blocks and drops those beyond the limits. All levels of a nested archive share one sink, so that the limits
/// apply to their totals.
#[derive(Debug)]
pub(crate) struct Sink {
    document: Document,
    limits: ExtractLimits,
    text_bytes: u64,
    inflated_bytes: u64,
    members: u32,
    cells: u64,
    /// Names of the archive members that are being read, outermost first.
    pub(super) member_path: Vec<String>,
    /// The only member that is read; `None` reads all.
    pub(super) only_member: Option<String>,
}

impl Sink {
    pub(crate) fn new(limits: ExtractLimits) -> Sink {
        Sink {
            document: Document::default(),
            limits,
            text_bytes: 0,
            inflated_bytes: 0,
            members: 0,
            cells: 0,
            member_path: Vec::new(),
            only_member: None,
        }
    }

    /// Adds a block. Trims white space at both ends, drops a block that is then empty, and truncates it at the text limit.
    /// Returns false once the limit is reached: the reader may stop, and further blocks are dropped.
    ///
    /// The byte range of a verbatim anchor must hold exactly `text`; it is adjusted for the trimmed white space. Soft
    /// hyphens are removed from all other text, because they are not part of words.
    pub(crate) fn push(&mut self, kind: BlockKind, text: &str, anchor: Anchor) -> bool {
        if !anchor.verbatim && text.contains(SOFT_HYPHEN) {
            let lines = text.replace("\u{AD}\r\n", "").replace("\u{AD}\n", "");
            return self.push_whole(kind, &lines.replace(SOFT_HYPHEN, ""), anchor);
        }
        self.push_whole(kind, text, anchor)
    }

    fn push_whole(&mut self, kind: BlockKind, text: &str, mut anchor: Anchor) -> bool {
        if self.is_full() {
            self.document.truncated = true;
            return false;
        }
        let trimmed = if kind == BlockKind::Code { trim_blank_lines(text) } else { text.trim() };
        if trimmed.is_empty() {
            return true;
        }
        let kept = self.fitting_prefix(trimmed);
        if anchor.verbatim {
            narrow_anchor(&mut anchor, text, kept);
        }
        if !self.member_path.is_empty() {
            anchor.member = Some(self.member_path.join(MEMBER_SEPARATOR));
        }
        let mut is_whole = kept.len() == trimmed.len();
        let text = match kept.contains('\0') {
            true => {
                anchor.verbatim = false;
                let readable = kept.replace('\0', "\u{FFFD}");
                let within = self.fitting_prefix(&readable);
                is_whole &= within.len() == readable.len();
                within.to_string()
            }
            false => kept.to_string(),
        };
        self.text_bytes += if is_whole { text.len() as u64 } else { self.limits.text_bytes };
        self.document.truncated |= !is_whole;
        if !text.is_empty() {
            self.document.blocks.push(Block { kind, text, anchor, rows: Vec::new() });
        }
        is_whole
    }

    /// Returns the part of a text that fits into the rest of the text limit: the whole text, or a prefix that ends at a
    /// line or word break and never inside a secret.
    fn fitting_prefix<'t>(&self, text: &'t str) -> &'t str {
        let left = usize::try_from(self.limits.text_bytes - self.text_bytes).unwrap_or(usize::MAX);
        if text.len() <= left {
            return text;
        }
        let whole_pieces = split_pieces(text, 0..text.len()).map(|it| it.end).take_while(|end| *end <= left).last();
        let end = whole_pieces.unwrap_or_else(|| cut_outside_secrets(text, text.floor_char_boundary(left)));
        text[..end].trim_end()
    }

    /// Returns whether the limit on text or on the number of blocks is reached.
    pub(crate) fn is_full(&self) -> bool {
        // Limits the number of blocks too, because a block of two bytes takes a hundred times the memory of its text.
        self.text_bytes >= self.limits.text_bytes || self.document.blocks.len() >= MAX_BLOCKS
    }

    /// Records in one sentence which part of the file could not be read.
    pub(crate) fn record_problem(&mut self, sentence: impl Into<String>) {
        // Maximum number of recorded problems; later ones are dropped, because a damaged file can have one per record.
        const MAX_PROBLEMS: usize = 20;
        if self.document.problems.len() < MAX_PROBLEMS {
            self.document.problems.push(sentence.into());
        }
    }

    /// Sets the title of the file, unless the title is already set or the reader is inside an archive member.
    pub(crate) fn set_title(&mut self, title: &str) {
        let title = title.trim();
        if self.member_path.is_empty() && self.document.title.is_none() && !title.is_empty() {
            let end = cut_outside_secrets(title, title.floor_char_boundary(MAX_TITLE_BYTES));
            self.document.title = Some(title[..end].trim_end().to_string());
        }
    }

    /// Records the name of an attachment, an archive member or a sheet in the file.
    pub(crate) fn record_name(&mut self, name: &str) {
        let name = name.trim();
        if !name.is_empty() && self.document.names.len() < MAX_NAMES {
            self.document.names.push(name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_string());
        }
    }

    /// Records when a mail message was sent, in seconds since the epoch. Attached messages are ignored.
    pub(crate) fn record_sent_time(&mut self, seconds: i64) {
        if self.member_path.is_empty() {
            let (first, last) = self.document.sent.unwrap_or((seconds, seconds));
            self.document.sent = Some((first.min(seconds), last.max(seconds)));
        }
    }

    /// Records a link from the text to a file, page or message. Links inside an archive are dropped, because their targets
    /// are not files.
    pub(crate) fn record_link(&mut self, kind: LinkKind, target: &str, text: &str) {
        let (target, text) = (target.trim(), text.trim());
        let fits = !target.is_empty() && target.len() <= MAX_LINK_BYTES && self.document.links.len() < MAX_LINKS;
        if fits && self.member_path.is_empty() {
            let end = cut_outside_secrets(text, text.floor_char_boundary(MAX_LINK_BYTES));
            let text = text[..end].to_string();
            self.document.links.push(Link { kind, target: target.to_string(), text });
        }
    }

    /// Returns the number of blocks so far, to be passed later to [`Sink::label_part`] as `mark`.
    pub(crate) fn block_count(&self) -> usize {
        self.document.blocks.len()
    }

    /// Labels every block added since `mark` (an earlier result of `Sink::block_count`) with the part of the file it
    /// belongs to. For a part inside another part, the name of the outer part comes first.
    pub(crate) fn label_part(&mut self, mark: usize, part: &str) {
        for block in self.document.blocks.iter_mut().skip(mark) {
            block.anchor.part = Some(match block.anchor.part.take() {
                Some(inner) => format!("{part}, {inner}"),
                None => part.to_string(),
            });
        }
    }

    /// Sets `rows` on the blocks of the table added since `mark`: for each table row, the line of the file or row of the
    /// sheet where it begins. Does nothing if the rows are consecutive in a single block, or if rows were truncated.
    pub(crate) fn number_rows(&mut self, mark: usize, rows: &[u32]) {
        let first = mark.min(self.document.blocks.len());
        let blocks = &mut self.document.blocks[first..];
        let follow = rows.windows(2).all(|it| it[0].checked_add(1) == Some(it[1]));
        let lines = |block: &Block| block.text.split('\n').count();
        if (follow && blocks.len() < 2) || blocks.iter().map(lines).sum::<usize>() != rows.len() {
            return;
        }
        let mut rest = rows.iter().copied();
        for block in blocks {
            block.rows = rest.by_ref().take(lines(block)).collect();
        }
    }

    /// Returns the document, so that a reader can set the fields that only it knows, e.g. the number of pages.
    pub(crate) fn document(&mut self) -> &mut Document {
        &mut self.document
    }

    pub(crate) fn limits(&self) -> &ExtractLimits {
        &self.limits
    }

    /// Marks the document as truncated by a limit.
    pub(crate) fn mark_truncated(&mut self) {
        self.document.truncated = true;
    }

    /// Adds to the number of spreadsheet cells. Returns false once the limit on cells is exceeded.
    pub(crate) fn count_cells(&mut self, cells: u64) -> bool {
        self.cells += cells;
        let within = self.cells <= self.limits.cells;
        self.document.truncated |= !within;
        within
    }

    /// Inflates an archive member or document part. `compressed` is its size in the file. The limits apply to the actual
    /// output, not to the size claimed by a header.
    pub(crate) fn inflate_entry(&mut self, reader: impl Read, compressed: u64) -> ReadResult<Vec<u8>> {
        self.read_within(reader, self.limits.entry_bytes, self.ratio_limit(compressed))
    }

    /// Inflates a stream that may hold a whole archive: like [`Sink::inflate_entry`], but with a size limit that depends
    /// only on the available memory.
    pub(crate) fn inflate_stream(&mut self, reader: impl Read, compressed: u64) -> ReadResult<Vec<u8>> {
        let beyond = compressed.saturating_sub(SMALL_FILE_BYTES).saturating_mul(STREAM_PER_BYTE);
        self.read_within(reader, MAX_STREAM_BYTES.saturating_add(beyond), self.ratio_limit(compressed))
    }

    /// Reads an uncompressed stream from a container. Only the total limit applies, because the stream cannot be larger
    /// than the file.
    pub(crate) fn read_uncompressed(&mut self, reader: impl Read) -> ReadResult<Vec<u8>> {
        self.read_within(reader, u64::MAX, u64::MAX)
    }

    fn ratio_limit(&self, compressed: u64) -> u64 {
        // Output of up to this size may have any compression ratio, because a few repeated lines compress extremely well.
        const RATIO_FROM: u64 = 1 << 20;
        compressed.saturating_mul(self.limits.ratio).max(RATIO_FROM)
    }

    fn read_within(&mut self, reader: impl Read, by_size: u64, by_ratio: u64) -> ReadResult<Vec<u8>> {
        let left = self.remaining_inflate_bytes();
        let most = by_size.min(by_ratio).min(left);
        let mut bytes = Vec::new();
        let read = read_in_steps(reader.take(most.saturating_add(1)), &mut bytes);
        self.inflated_bytes += bytes.len() as u64;
        if bytes.len() as u64 > most {
            let detail = match (most == left, most == by_ratio) {
                (true, _) => format!("the file inflates to more than {} MiB", self.limits.inflated_bytes >> 20),
                (false, true) => format!("a file part inflates to more than {} times its size", self.limits.ratio),
                (false, false) => format!("a file part inflates to more than {} MiB", most >> 20),
            };
            return Err(new_failure(Reason::DecompressionLimit, detail));
        }
        read.map_err(|error| new_failure(Reason::Damaged, format!("compressed data is damaged: {error}")))?;
        Ok(bytes)
    }

    /// Returns how many more bytes may be inflated for this file.
    pub(crate) fn remaining_inflate_bytes(&self) -> u64 {
        self.limits.inflated_bytes.saturating_sub(self.inflated_bytes)
    }

    /// Enters an archive member or attachment; the caller must call [`Sink::leave_member`] after it. Fails if the limit on
    /// nesting depth or on the number of members is exceeded.
    pub(crate) fn enter_member(&mut self, name: &str) -> ReadResult {
        self.members += 1;
        if self.members > self.limits.members {
            self.document.truncated = true;
            return Err(new_failure(
                Reason::DecompressionLimit,
                format!("the file has more than {} members", self.limits.members),
            ));
        }
        if self.member_path.len() as u32 >= self.limits.depth {
            return Err(new_failure(
                Reason::TooDeep,
                format!("archives or attachments are nested deeper than {} levels", self.limits.depth),
            ));
        }
        self.member_path.push(name.to_string());
        Ok(())
    }

    /// Returns whether another member may be entered.
    pub(crate) fn may_enter_member(&self) -> bool {
        self.members < self.limits.members
    }

    pub(crate) fn leave_member(&mut self) {
        self.member_path.pop();
    }

    /// Returns the name of the current archive member or attachment, as stored in its container.
    pub(crate) fn member_name(&self) -> Option<&str> {
        self.member_path.last().map(String::as_str)
    }

    /// Returns whether the reader is inside an archive member.
    pub(crate) fn in_member(&self) -> bool {
        !self.member_path.is_empty()
    }

    pub(crate) fn into_document(self) -> Document {
        self.document
    }
}

/// Narrows the anchor of `text` to `part`, which must be a slice of that text.
fn narrow_anchor(anchor: &mut Anchor, text: &str, part: &str) {
    let cut = part.as_ptr() as usize - text.as_ptr() as usize;
    anchor.byte_start = anchor.byte_start.map(|start| start + cut as u64);
    anchor.byte_end = anchor.byte_start.map(|start| start + part.len() as u64);
    let skipped_lines = text[..cut].matches('\n').count() as u32;
    anchor.line_start = anchor.line_start.map(|line| line + skipped_lines);
    anchor.line_end = anchor.line_start.map(|line| line + part.matches('\n').count() as u32);
}

/// Reads to the end and grows the buffer in small steps, because doubling it could take twice the memory that the limit
/// allows.
fn read_in_steps(mut reader: impl Read, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    const SMALLEST: usize = 64 << 10;
    loop {
        let step = bytes.len().clamp(SMALLEST, MAX_BUFFER_STEP);
        bytes.reserve_exact(step);
        if reader.by_ref().take(step as u64).read_to_end(bytes)? < step {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(limits: ExtractLimits) -> Sink {
        Sink::new(limits)
    }

    #[test]
    fn soft_hyphens_are_removed_unless_verbatim() {
        let mut sink = sink(ExtractLimits::default());
        sink.push(BlockKind::Paragraph, "acous\u{AD}tical mini\u{AD}\nmization", Anchor::default());
        sink.push(BlockKind::Paragraph, "a\u{AD}b", Anchor { verbatim: true, ..Anchor::default() });
        let texts: Vec<String> = sink.into_document().blocks.into_iter().map(|it| it.text).collect();
        assert_eq!(texts, ["acoustical minimization", "a\u{AD}b"]);
    }

    #[test]
    fn verbatim_anchor_is_adjusted_for_trimming() {
        let mut sink = sink(ExtractLimits::default());
        let anchor = Anchor {
            byte_start: Some(10),
            byte_end: Some(19),
            line_start: Some(3),
            line_end: Some(5),
            verbatim: true,
            ..Anchor::default()
        };
        sink.push(BlockKind::Paragraph, "\n  abc d\n", anchor);
        let block = sink.into_document().blocks.remove(0);
        assert_eq!(block.text, "abc d");
        assert_eq!((block.anchor.byte_start, block.anchor.byte_end), (Some(13), Some(18)));
        assert_eq!((block.anchor.line_start, block.anchor.line_end), (Some(4), Some(4)));
    }

    // Case C2
    #[test]
    fn inflate_stops_at_total_limit() {
        let mut sink = sink(ExtractLimits { inflated_bytes: 10, ..ExtractLimits::default() });
        assert_eq!(sink.inflate_entry(&b"12345678"[..], 8).unwrap().len(), 8);
        assert_eq!(sink.inflate_entry(&b"123"[..], 3).unwrap_err().reason, Reason::DecompressionLimit);
    }

    #[test]
    fn inflate_entry_enforces_size_and_ratio_limits() {
        let zeros = |bytes: u64| std::io::repeat(0).take(bytes);
        let mut sink = sink(ExtractLimits::default());
        assert!(sink.inflate_entry(zeros(1 << 20), 1).is_ok(), "small output may have any ratio");
        let failed = sink.inflate_entry(zeros((1 << 20) + 1), 1_000).unwrap_err();
        assert_eq!(failed.reason, Reason::DecompressionLimit);
        assert!(failed.detail.contains("100 times"), "{}", failed.detail);
        let failed = sink.inflate_entry(zeros((64 << 20) + 1), 64 << 20).unwrap_err();
        assert!(failed.detail.contains("64 MiB"), "{}", failed.detail);
        assert!(sink.inflate_stream(zeros(65 << 20), 65 << 20).is_ok(), "an archive may be larger than a part");
    }

    // Case C2
    #[test]
    fn inflate_stream_limit_grows_with_file_size() {
        let inflated = |bytes: u64, compressed: u64| {
            sink(ExtractLimits::default()).inflate_stream(std::io::repeat(0).take(bytes), compressed)
        };
        assert!(inflated(192 << 20, 10 << 20).is_ok());
        for compressed in [5 << 20, 10 << 20] {
            let failed = inflated((192 << 20) + 1, compressed).unwrap_err();
            assert_eq!(failed.reason, Reason::DecompressionLimit);
            assert!(failed.detail.contains("192 MiB"), "{}", failed.detail);
        }
        assert!(inflated(222 << 20, 20 << 20).is_ok(), "a larger file has more memory");
        assert!(inflated((222 << 20) + 1, 20 << 20).unwrap_err().detail.contains("222 MiB"));
        let failed = inflated((256 << 20) + 1, 100 << 20).unwrap_err();
        assert!(failed.detail.contains("256 MiB"), "{}", failed.detail);
    }

    // Case C2
    #[test]
    fn enter_fails_at_depth_limit() {
        let mut sink = sink(ExtractLimits { depth: 1, ..ExtractLimits::default() });
        sink.enter_member("a.zip").unwrap();
        assert_eq!(sink.enter_member("b.zip").unwrap_err().reason, Reason::TooDeep);
    }

    #[test]
    fn text_over_limit_is_dropped_and_marked() {
        let mut sink = sink(ExtractLimits { text_bytes: 4, ..ExtractLimits::default() });
        assert!(sink.push(BlockKind::Paragraph, "abcd", Anchor::default()));
        assert!(!sink.push(BlockKind::Paragraph, "efgh", Anchor::default()));
        let document = sink.into_document();
        assert!(document.truncated);
        assert_eq!(document.text(), "abcd");
    }

    #[test]
    fn block_over_limit_is_cut_and_marked() {
        const MOST: usize = 20_000;
        let mut sink = sink(ExtractLimits { text_bytes: MOST as u64, ..ExtractLimits::default() });
        let text = format!(" {}", "one line of some length\n".repeat(4_000));
        let anchor = Anchor { byte_start: Some(0), line_start: Some(1), verbatim: true, ..Anchor::default() };
        assert!(!sink.push(BlockKind::Paragraph, &text, anchor));
        assert!(!sink.push(BlockKind::Paragraph, "more", Anchor::default()));
        let document = sink.into_document();
        let [block] = &document.blocks[..] else { panic!("{} blocks", document.blocks.len()) };
        assert!(document.truncated && block.text.ends_with("of some length"));
        assert!((MOST / 2..=MOST).contains(&block.text.len()), "{}", block.text.len());
        let (start, end) = (block.anchor.byte_start.unwrap() as usize, block.anchor.byte_end.unwrap() as usize);
        assert_eq!(&text[start..end], block.text);
        assert_eq!(block.anchor.line_end, Some(block.text.lines().count() as u32));
    }

    #[test]
    fn text_limit_splits_no_secret_and_is_never_exceeded() {
        let key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        for (text, expected) in [(format!("see {key}"), "see"), ("\0".repeat(99), "\u{FFFD}\u{FFFD}\u{FFFD}")] {
            let mut sink = sink(ExtractLimits { text_bytes: 11, ..ExtractLimits::default() });
            sink.push(BlockKind::Paragraph, &text, Anchor::default());
            assert_eq!(sink.into_document().text(), expected);
        }
    }

    #[test]
    fn sent_time_ignores_attached_messages() {
        let mut sink = sink(ExtractLimits::default());
        [30, 10, 20].into_iter().for_each(|it| sink.record_sent_time(it));
        sink.enter_member("forwarded.eml").unwrap();
        sink.record_sent_time(1);
        sink.leave_member();
        sink.record_name(&"x".repeat(2 * MAX_NAME_BYTES));
        let document = sink.into_document();
        assert_eq!((document.sent, document.names[0].len()), (Some((10, 30)), MAX_NAME_BYTES));
    }

    #[test]
    fn long_title_is_truncated() {
        let mut sink = sink(ExtractLimits::default());
        sink.set_title(&"word ".repeat(100_000));
        assert_eq!(sink.into_document().title.unwrap().len(), MAX_TITLE_BYTES - 1);
    }
}
