//! The decoded text of a file, with its line numbers and byte offsets in the file; all line-based readers use it.
//!
//! A reader selects the byte range of a block, and the block's anchor (lines and bytes of the file) follows from the range.

use std::ops::Range;

use crate::extract::Sink;
use crate::extract::encoding::Text;
use crate::extract::text_pieces::split_pieces;
use crate::model::{Anchor, BlockKind};

/// Decoded text with its lines and its position in the file.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    offset: Option<u64>,
    newlines: Vec<usize>,
    anchored: bool,
}

/// A line without its line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    /// Offset of the line's first byte in [`Source::text`].
    pub(crate) start: usize,
}

impl Line<'_> {
    /// Returns the offset after the line's last byte.
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns the range in [`Source::text`] of `part`, which must be a slice of this line.
    pub(crate) fn range_of(&self, part: &str) -> Range<usize> {
        let start = self.start + (part.as_ptr() as usize - self.text.as_ptr() as usize);
        start..start + part.len()
    }
}

impl<'a> Source<'a> {
    /// Makes the source of a whole file.
    pub(crate) fn new(text: &'a Text<'_>) -> Source<'a> {
        Source { text: &text.text, offset: text.offset, newlines: newline_offsets(&text.text), anchored: true }
    }

    /// Makes a source of text that is not in the file verbatim, e.g. a decoded mail body. Its anchors have no line and no
    /// byte range.
    pub(crate) fn detached(text: &'a str) -> Source<'a> {
        Source { text, offset: None, newlines: Vec::new(), anchored: false }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let mut next = 0;
        self.text.split_inclusive('\n').map(move |line| {
            let start = next;
            next += line.len();
            Line { text: line.trim_end_matches(['\n', '\r']), start }
        })
    }

    /// Returns the anchor of a range of the text; the anchor is verbatim if the file is UTF-8.
    pub(crate) fn anchor(&self, range: &Range<usize>) -> Anchor {
        if !self.anchored {
            return Anchor::default();
        }
        let last = range.end.saturating_sub(1).max(range.start);
        Anchor {
            line_start: Some(self.line_of(range.start)),
            line_end: Some(self.line_of(last)),
            byte_start: self.offset.map(|offset| offset + range.start as u64),
            byte_end: self.offset.map(|offset| offset + range.end as u64),
            verbatim: self.offset.is_some(),
            ..Anchor::default()
        }
    }

    /// Adds the text of a range verbatim to the sink, in blocks of at most
    /// [`MAX_BLOCK_BYTES`](crate::extract::text_pieces::MAX_BLOCK_BYTES). Returns false if the sink is full.
    pub(crate) fn push(&self, sink: &mut Sink, kind: BlockKind, range: Range<usize>) -> bool {
        self.push_symbol(sink, kind, range, None)
    }

    /// Like `Source::push`, and labels the blocks with the symbol (e.g. a function) that the range defines.
    pub(crate) fn push_symbol(
        &self,
        sink: &mut Sink,
        kind: BlockKind,
        range: Range<usize>,
        symbol: Option<&str>,
    ) -> bool {
        self.pieces(kind, range).all(|piece| {
            let anchor = Anchor { symbol: symbol.map(str::to_string), ..self.anchor(&piece) };
            sink.push(kind, &self.text[piece], anchor)
        })
    }

    /// Splits a range into the trimmed ranges that become one block each.
    fn pieces(&self, kind: BlockKind, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let keep_indent = kind == BlockKind::Code;
        split_pieces(self.text, self.trim_range(range, keep_indent))
            .map(move |piece| self.trim_range(piece, keep_indent))
    }

    /// Adds text that was derived from a range but differs from it, e.g. a table row without its borders.
    pub(crate) fn push_derived(&self, sink: &mut Sink, kind: BlockKind, text: &str, range: Range<usize>) -> bool {
        let anchor = Anchor { verbatim: false, ..self.anchor(&self.trim_range(range, false)) };
        split_pieces(text, 0..text.len()).all(|piece| sink.push(kind, &text[piece], anchor.clone()))
    }

    /// Adds text that was derived from a range line by line. In `lines`, each derived line follows the offset of its
    /// original line.
    pub(crate) fn push_lines(
        &self,
        sink: &mut Sink,
        kind: BlockKind,
        lines: &[(usize, String)],
        range: Range<usize>,
    ) -> bool {
        let text = lines.iter().map(|it| it.1.as_str()).collect::<Vec<_>>().join("\n");
        let whole = Anchor { verbatim: false, ..self.anchor(&self.trim_range(range, false)) };
        let mut first = 0;
        split_pieces(&text, 0..text.len()).all(|piece| {
            let text = &text[piece];
            let (lead, body) = (text.len() - text.trim_start().len(), text.trim());
            let held = first + count_line_breaks(&text[..lead]);
            first += count_line_breaks(text);
            sink.push(kind, text, self.anchor_of_lines(&whole, lines, held..held + count_line_breaks(body) + 1))
        })
    }

    /// Narrows the anchor of derived text to the derived lines `held`. Lines of the file that lie between these, but have no
    /// derived line, are recorded as gaps.
    fn anchor_of_lines(&self, whole: &Anchor, lines: &[(usize, String)], held: Range<usize>) -> Anchor {
        let mut anchor = whole.clone();
        let (Some(end), Some(from)) = (whole.line_end, lines.get(held.start)) else { return anchor };
        let start = self.line_of(from.0);
        let mut gaps = Vec::new();
        let mut next = start;
        for (number, line) in (0..).zip(lines.get(held.clone()).unwrap_or_default()) {
            let line = self.line_of(line.0);
            if line > next {
                gaps.push((number, line - next));
            }
            next = line + 1;
        }
        // Extends the anchor of the last piece to the end of the range, which may have lines without a derived line.
        let end = if held.end >= lines.len() { end.max(next - 1) } else { next - 1 };
        if end >= next {
            gaps.push((held.len() as u32, end + 1 - next));
        }
        (anchor.line_start, anchor.line_end, anchor.gaps) = (Some(start), Some(end), gaps);
        anchor
    }

    /// Trims white space at both ends of a range, so that its line numbers refer to lines with text. Code keeps its
    /// indentation.
    fn trim_range(&self, range: Range<usize>, keep_indent: bool) -> Range<usize> {
        let text = &self.text[range.clone()];
        let end = range.start + text.trim_end().len();
        let mut start = range.start + (text.len() - text.trim_start().len());
        if keep_indent {
            start = text[..start - range.start].rfind('\n').map_or(range.start, |at| range.start + at + 1);
        }
        start.min(end)..end
    }

    /// Returns the file line of each of these offsets; empty for a detached source.
    pub(crate) fn lines_at(&self, bytes: &[usize]) -> Vec<u32> {
        if self.anchored { bytes.iter().map(|it| self.line_of(*it)).collect() } else { Vec::new() }
    }

    fn line_of(&self, byte: usize) -> u32 {
        u32::try_from(self.newlines.partition_point(|newline| *newline < byte) + 1).unwrap_or(u32::MAX)
    }
}

fn count_line_breaks(text: &str) -> usize {
    text.bytes().filter(|it| *it == b'\n').count()
}

fn newline_offsets(text: &str) -> Vec<usize> {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::encoding::decode;
    use crate::extract::text_pieces::MAX_BLOCK_BYTES;
    use crate::model::ExtractLimits;

    #[test]
    fn long_text_is_cut_at_line_ends_without_loss() {
        let text = "one line of some length\n".repeat(2_000);
        let decoded = decode(text.as_bytes(), None);
        let mut sink = Sink::new(ExtractLimits::default());
        Source::new(&decoded).push(&mut sink, BlockKind::Paragraph, 0..text.len());
        let document = sink.into_document();
        assert!(document.blocks.len() > 5);
        for block in &document.blocks {
            assert!(block.text.len() <= MAX_BLOCK_BYTES && block.text.starts_with("one line"));
            let (start, end) = (block.anchor.byte_start.unwrap() as usize, block.anchor.byte_end.unwrap() as usize);
            assert_eq!(&text[start..end], block.text);
            assert_eq!(block.anchor.line_start, Some(text[..start].matches('\n').count() as u32 + 1));
        }
        assert_eq!(document.text().matches("some length").count(), 2_000);
    }

    #[test]
    fn lines_have_byte_ranges_for_all_line_ends() {
        let decoded = decode(b"a\r\n\nb", None);
        let source = Source::new(&decoded);
        let lines: Vec<_> = source.lines().map(|line| (line.text, line.start..line.end())).collect();
        assert_eq!(lines, [("a", 0..1), ("", 3..3), ("b", 4..5)]);
    }
}
