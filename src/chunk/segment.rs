//! Splits the blocks of a document into segments, the smallest pieces from which chunks are built.
//!
//! Running text is split at sentence ends, all other text at line ends. Pieces that are still too long are split between
//! words, then between tokens.

use std::ops::Range;

use crate::model::chunk_places::line_breaks;
use crate::model::{BlockKind, Document, TokenCounter};
use crate::text;

/// Maximum number of bytes per tokenizer call. A tokenizer needs about 100 bytes of memory per token, so a single call for
/// a text of 10 MiB would take a gigabyte.
const TOKENIZER_WINDOW: usize = 32 << 10;

/// A segment counts as at least one token per this many bytes, because some tokenizers turn an unknown word of megabytes
/// into one token.
const MAX_BYTES_PER_TOKEN: usize = 16;

/// The kind of boundary after a segment, from the worst to the best end of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    /// Inside a sentence or line: the worst end of a chunk.
    Word,
    /// After a line.
    Line,
    /// After a sentence.
    Sentence,
    /// After a blank line or a block.
    Block,
    /// At the end of a page: the best end of a chunk.
    Page,
}

/// A piece of the text of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Index of the block in the document.
    pub(super) block: usize,
    /// Byte range in the block's text. The segments of a block cover it without gaps.
    pub(super) range: Range<usize>,
    /// Size in tokens, or more for text that has few tokens for its length, see `MAX_BYTES_PER_TOKEN`.
    pub(super) cost: usize,
    /// Number of line breaks in the block before this segment.
    pub(super) lines_before: u32,
    /// The kind of boundary after this segment.
    pub(super) after: Break,
}

/// Splits every block of the document into segments that cost at most `limit` tokens.
pub(super) fn cut_into_segments(document: &Document, counter: &dyn TokenCounter, limit: usize) -> Vec<Segment> {
    let mut segments = Vec::new();
    for (index, block) in document.blocks.iter().enumerate() {
        let first = segments.len();
        let starts = token_starts(counter, &block.text);
        let tokens = Tokens { text: &block.text, starts: &starts, limit };
        let pieces = match block.kind {
            BlockKind::Paragraph | BlockKind::ListItem | BlockKind::Heading(_) => tokens.sentences(),
            BlockKind::Table | BlockKind::Code | BlockKind::Metadata => tokens.lines(),
        };
        let mut lines = 0;
        for (range, after) in pieces {
            for (part, after) in tokens.split_to_limit(range, after) {
                let cost = tokens.cost(&part);
                let breaks = line_breaks(&block.text[part.clone()]);
                segments.push(Segment { block: index, range: part, cost, lines_before: lines, after });
                lines += breaks;
            }
        }
        let page_ends = document.blocks.get(index + 1).is_some_and(|next| next.anchor.page != block.anchor.page);
        if let Some(last) = segments[first..].last_mut() {
            last.after = if page_ends { Break::Page } else { Break::Block };
        }
    }
    segments
}

/// Returns the byte offset of each token in a text.
fn token_starts(counter: &dyn TokenCounter, text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let to = window_end(text, from);
        starts.extend(counter.token_spans(&text[from..to]).into_iter().map(|(start, _)| from + start));
        from = to;
    }
    starts
}

/// Returns the end of the text that one tokenizer call gets, beginning at `from`: after white space if possible, so that no
/// word is split.
fn window_end(text: &str, from: usize) -> usize {
    if text.len() - from <= TOKENIZER_WINDOW {
        return text.len();
    }
    let limit = text.floor_char_boundary(from + TOKENIZER_WINDOW);
    match text[from..limit].rfind(char::is_whitespace) {
        Some(space) if space > 0 => text.ceil_char_boundary(from + space + 1),
        _ => limit,
    }
}

/// The text of one block, the offsets of its tokens, and the maximum cost of a segment.
struct Tokens<'a> {
    text: &'a str,
    starts: &'a [usize],
    limit: usize,
}

impl Tokens<'_> {
    fn token_index(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start < byte)
    }

    fn cost(&self, range: &Range<usize>) -> usize {
        let tokens = self.token_index(range.end) - self.token_index(range.start);
        tokens.max(range.len().div_ceil(MAX_BYTES_PER_TOKEN))
    }

    /// Returns the sentences of the text. Consecutive short lines are joined until they take a quarter of the token limit.
    fn sentences(&self) -> Vec<(Range<usize>, Break)> {
        let mut pieces: Vec<(Range<usize>, Break)> = Vec::new();
        for Range { start, end } in text::sentences(self.text) {
            let sentence = &self.text[start..end];
            let Some((open, last)) = pieces.last_mut() else {
                pieces.push((start..end, sentence_end(sentence)));
                continue;
            };
            let blank = sentence.trim().is_empty();
            if blank || (*last < Break::Sentence && self.cost(&(open.start..end)) <= self.limit / 4) {
                open.end = end;
                *last = if blank { Break::Block } else { sentence_end(sentence) };
            } else {
                pieces.push((start..end, sentence_end(sentence)));
            }
        }
        pieces
    }

    /// Returns the lines of the text, including their line breaks. Blank lines belong to the line before them.
    fn lines(&self) -> Vec<(Range<usize>, Break)> {
        let mut pieces: Vec<(Range<usize>, Break)> = Vec::new();
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let end = start + line.len();
            match pieces.last_mut() {
                Some((open, after)) if line.trim().is_empty() => {
                    open.end = end;
                    *after = Break::Block;
                }
                _ => pieces.push((start..end, Break::Line)),
            }
            start = end;
        }
        pieces
    }

    /// Splits a piece of the text that costs more than the limit, between words if possible.
    fn split_to_limit(&self, range: Range<usize>, after: Break) -> Vec<(Range<usize>, Break)> {
        let mut parts = Vec::new();
        let mut start = range.start;
        while self.cost(&(start..range.end)) > self.limit {
            let end = self.part_end(start, range.end);
            parts.push((start..end, Break::Word));
            start = end;
        }
        parts.push((start..range.end, after));
        parts
    }

    /// Returns the end of the longest part from `start` that is within the limit. If the second half of that part has white
    /// space, the part ends after the last white space instead, so that no word is split.
    fn part_end(&self, start: usize, end: usize) -> usize {
        let by_tokens = self.starts.get(self.token_index(start) + self.limit).copied().unwrap_or(end);
        let by_bytes = self.text.floor_char_boundary(start + self.limit * MAX_BYTES_PER_TOKEN);
        let most = by_tokens.min(by_bytes).min(end);
        let half = self.text.floor_char_boundary(start + (most - start) / 2);
        match self.text[half..most].rfind(char::is_whitespace) {
            Some(space) => self.text.ceil_char_boundary(half + space + 1),
            None if most > start => most,
            None => self.text.ceil_char_boundary(start + 1),
        }
    }
}

/// Returns the kind of boundary after a sentence.
fn sentence_end(sentence: &str) -> Break {
    let text = sentence.trim_end();
    let gap = &sentence[text.len()..];
    if gap.matches('\n').count() > 1 {
        return Break::Block;
    }
    let last = text.trim_end_matches(['"', '\'', ')', ']', '\u{201d}', '\u{2019}', '\u{bb}']).chars().next_back();
    match last {
        Some('.' | '!' | '?' | ':' | ';' | '\u{2026}' | '\u{3002}' | '\u{ff01}' | '\u{ff1f}') => Break::Sentence,
        _ if gap.contains('\n') => Break::Line,
        _ => Break::Sentence,
    }
}
