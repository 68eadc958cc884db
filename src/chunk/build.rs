//! Builds chunks from ranges of segments: their context (title and headings), text and anchor.

use std::ops::Range;

use crate::chunk::section::{Outline, one_line};
use crate::chunk::segment::Segment;
use crate::model::chunk_places::{self, HEADING_SEPARATOR, LineCounts, line_breaks};
use crate::model::{Anchor, Block, BlockKind, Chunk, ChunkId, ChunkPiece, Document, EncodedPieces, Tier, TokenCounter};

/// Builds the chunks of one document.
pub(super) struct Builder<'a> {
    pub(super) document: &'a Document,
    pub(super) outline: &'a Outline,
    pub(super) segments: &'a [Segment],
    counter: &'a dyn TokenCounter,
    /// Number of line breaks in each block of the document.
    breaks: Vec<u32>,
    title: String,
    title_tokens: usize,
    context_limit: usize,
}

/// The context lines (title and headings) at the start of a chunk.
pub(super) struct Context {
    text: String,
    /// Size of the context in tokens.
    pub(super) tokens: usize,
    /// Whether the context has all headings in full length.
    pub(super) complete: bool,
}

/// A part of the text of one block.
#[derive(Clone, Debug)]
struct Piece {
    block: usize,
    range: Range<usize>,
    lines_before: u32,
}

impl<'a> Builder<'a> {
    /// Makes a builder whose chunks have contexts of at most `context_limit` tokens.
    pub(super) fn new(
        document: &'a Document,
        outline: &'a Outline,
        segments: &'a [Segment],
        counter: &'a dyn TokenCounter,
        context_limit: usize,
    ) -> Builder<'a> {
        let title = clip_to_tokens(counter, &one_line(document.title.as_deref().unwrap_or_default()), context_limit);
        let title_tokens = counter.token_spans(&title).len();
        let breaks = document.blocks.iter().map(|it| line_breaks(it.text.trim_end())).collect();
        Builder { document, outline, segments, counter, breaks, title, title_tokens, context_limit }
    }

    /// Returns the size in tokens of the title, which is truncated to the context limit.
    pub(super) fn title_tokens(&self) -> usize {
        self.title_tokens
    }

    /// Returns the context of a passage with text `body` below the headings `path`. The title is left out if a heading or
    /// the start of the body repeats it. If the context exceeds its limit, its outermost headings are dropped first.
    pub(super) fn context(&self, path: &[String], body: &str) -> Context {
        let repeated = path.iter().any(|it| it.eq_ignore_ascii_case(&self.title)) || body.starts_with(&self.title);
        let title = if repeated { "" } else { self.title.as_str() };
        let context = self.join_context(title, path, true);
        if context.tokens <= self.context_limit {
            return context;
        }
        let title = if path.is_empty() {
            title.to_owned()
        } else {
            clip_to_tokens(self.counter, title, self.context_limit / 2)
        };
        for skipped in 1..path.len() {
            let context = self.join_context(&title, &path[skipped..], false);
            if context.tokens <= self.context_limit {
                return context;
            }
        }
        let innermost = path.last().map(|it| clip_to_tokens(self.counter, it, self.context_limit / 2));
        self.join_context(&title, innermost.as_slice(), false)
    }

    fn join_context(&self, title: &str, path: &[String], complete: bool) -> Context {
        let mut text = title.to_owned();
        if !text.is_empty() && !path.is_empty() {
            text.push('\n');
        }
        text.push_str(&path.join(HEADING_SEPARATOR));
        let tokens = if text.is_empty() { 0 } else { self.counter.token_spans(&text).len() };
        Context { text, tokens, complete }
    }

    /// Builds the chunk of a range of segments, without id and ordinal. Returns `None` if the segments hold only white
    /// space.
    pub(super) fn chunk(&self, range: Range<usize>) -> Option<Chunk> {
        let (lifted, path) = self.split_headings(&range);
        let body = range.start + lifted..range.end;
        self.assemble_chunk(self.segment_pieces(range.start..body.start), self.segment_pieces(body), path)
    }

    /// Splits a single segment that exceeds `max_tokens` into several chunks.
    pub(super) fn split_segment(&self, segment: usize, max_tokens: usize) -> Vec<Chunk> {
        let Segment { block, range, lines_before, .. } = self.segments[segment].clone();
        let (_, path) = self.split_headings(&(segment..segment + 1));
        let text = &self.document.blocks[block].text;
        let mut open = vec![range.clone()];
        let mut chunks = Vec::new();
        while let Some(part) = open.pop() {
            let lines = lines_before + line_breaks(&text[range.start..part.start]);
            let piece = Piece { block, range: part.clone(), lines_before: lines };
            let Some(chunk) = self.assemble_chunk(Vec::new(), vec![piece], path) else { continue };
            let middle = text.floor_char_boundary(part.start + part.len() / 2);
            if chunk.tokens as usize <= max_tokens || middle == part.start {
                chunks.push(chunk);
            } else {
                open.push(middle..part.end);
                open.push(part.start..middle);
            }
        }
        chunks
    }

    /// Returns how many segments at the start of the range are headings that move from the body into the context, and the
    /// headings of that context. A heading stays in the body if it does not apply to the whole chunk, if nothing follows
    /// it, or if the context is full.
    fn split_headings(&self, range: &Range<usize>) -> (usize, &'a [String]) {
        let shared = self.outline.path_of(range);
        let section = &self.outline.sections[self.outline.sections_of(range).start];
        if range.start >= section.headings.end {
            return (0, shared);
        }
        let own = self.block_count(&section.headings);
        let above = section.path.len() - own.min(section.path.len());
        let outer = &shared[..above.min(shared.len())];
        if range.start > section.headings.start || range.end <= section.headings.end {
            return (0, outer);
        }
        if !self.context(shared, "").complete {
            return (0, outer);
        }
        let first = self.segments[section.headings.start].block;
        let held = shared.len().saturating_sub(above);
        let segments = &self.segments[section.headings.clone()];
        (segments.iter().take_while(|it| it.block < first + held).count(), shared)
    }

    fn block_count(&self, range: &Range<usize>) -> usize {
        match (self.segments[range.clone()].first(), self.segments[range.clone()].last()) {
            (Some(first), Some(last)) => last.block - first.block + 1,
            _ => 0,
        }
    }

    /// Returns a range of segments as pieces, with consecutive segments of the same block joined into one piece.
    fn segment_pieces(&self, range: Range<usize>) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for segment in &self.segments[range] {
            match pieces.last_mut() {
                Some(last) if last.block == segment.block => last.range.end = segment.range.end,
                _ => {
                    let Segment { block, range, lines_before, .. } = segment.clone();
                    pieces.push(Piece { block, range, lines_before });
                }
            }
        }
        pieces
    }

    /// Builds a chunk from its body and from its own `headings`, which move to the end of the context; they are the last of
    /// `path`.
    fn assemble_chunk(&self, headings: Vec<Piece>, mut body: Vec<Piece>, path: &[String]) -> Option<Chunk> {
        body.retain_mut(|piece| piece.trim(&self.document.blocks[piece.block]));
        let (text, parts) = self.join_pieces(&body);
        let anchor = covering_anchor(&parts)?;
        let mut whole = self.context(path, &text).text;
        let mut pieces = self.heading_pieces(&headings, path, &whole);
        if !whole.is_empty() {
            whole.push('\n');
        }
        let start = whole.len();
        let body_start = u32::try_from(start).expect("a context has few tokens of bounded length");
        whole.push_str(&text);
        let moved = |it: ChunkPiece| ChunkPiece { range: start + it.range.start..start + it.range.end, ..it };
        pieces.extend(parts.into_iter().map(moved));
        let pieces = EncodedPieces::new(&whole, start, &pieces);
        let tokens = u32::try_from(self.counter.token_spans(&whole).len()).unwrap_or(u32::MAX);
        let heading_path = path.to_vec();
        let id = ChunkId(String::new());
        Some(Chunk { id, ordinal: 0, text: whole, body_start, anchor, pieces, heading_path, tokens, tier: Tier::L1 })
    }

    /// Joins pieces to the body of a chunk. Returns the text, and the byte range and anchor of each piece in it.
    fn join_pieces(&self, pieces: &[Piece]) -> (String, Vec<ChunkPiece>) {
        let mut text = String::new();
        let mut parts = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.iter().enumerate() {
            let block = &self.document.blocks[piece.block];
            if index > 0 {
                text.push_str(separator(self.document.blocks[pieces[index - 1].block].kind, block.kind));
            }
            let (at, from) = (text.len(), piece.range.start);
            text.push_str(&block.text[piece.range.clone()]);
            parts.extend(piece.split_at_gaps(block).iter().map(|it| {
                let range = at + (it.range.start - from)..at + (it.range.end - from);
                ChunkPiece { range, anchor: it.anchor(block, self.breaks[it.block]) }
            }));
        }
        let parts = chunk_places::join_contiguous(&text, parts);
        (text, parts)
    }

    /// Returns the byte ranges and anchors of the headings that moved from the body to the end of the context.
    fn heading_pieces(&self, headings: &[Piece], path: &[String], context: &str) -> Vec<ChunkPiece> {
        let mut end = context.len();
        let mut lifted = Vec::with_capacity(headings.len());
        for (piece, shown) in headings.iter().rev().zip(path.iter().rev()) {
            if !context[..end].ends_with(shown) {
                break;
            }
            let block = &self.document.blocks[piece.block];
            let mut anchor = piece.anchor(block, self.breaks[piece.block]);
            anchor.verbatim &= *shown == block.text;
            lifted.push(ChunkPiece { range: end - shown.len()..end, anchor });
            end = end.saturating_sub(shown.len() + HEADING_SEPARATOR.len());
        }
        lifted.reverse();
        lifted
    }
}

impl Piece {
    /// Trims white space at both ends of the piece but keeps the indentation of code. Returns false if nothing is left.
    fn trim(&mut self, block: &Block) -> bool {
        let text = &block.text[self.range.clone()];
        let body = text.trim_start();
        let mut skipped = text.len() - body.len();
        if block.kind == BlockKind::Code {
            skipped = text[..skipped].rfind('\n').map_or(0, |line| line + 1);
        }
        self.lines_before += line_breaks(&text[..skipped]);
        self.range = self.range.start + skipped..self.range.start + text.trim_end().len().max(skipped);
        !body.is_empty()
    }

    /// Splits the piece at each line that does not directly follow the line before it in the file.
    fn split_at_gaps(&self, block: &Block) -> Vec<Piece> {
        if block.anchor.gaps.is_empty() {
            return vec![self.clone()];
        }
        let mut cut: Vec<Piece> = Vec::new();
        let mut start = self.range.start;
        for (line, text) in (self.lines_before..).zip(block.text[self.range.clone()].split_inclusive('\n')) {
            let range = start..start + text.len();
            start = range.end;
            match cut.last_mut() {
                Some(last) if block.anchor.gaps.binary_search_by_key(&line, |it| it.0).is_err() => {
                    last.range.end = range.end;
                }
                _ => cut.push(Piece { block: self.block, range, lines_before: line }),
            }
        }
        cut.iter_mut().for_each(|it| it.range.end = it.range.start + block.text[it.range.clone()].trim_end().len());
        cut
    }

    /// Returns the anchor of the block, narrowed to this piece as far as the data of the anchor allow.
    fn anchor(&self, block: &Block, all: u32) -> Anchor {
        let breaks = line_breaks(&block.text[self.range.clone()]);
        block.anchor.narrow(&self.range, LineCounts { above: self.lines_before, breaks, all })
    }
}

/// Returns one anchor that covers all parts of a chunk. If the parts are on several pages, the anchor has no page, because
/// a single page would be wrong for most parts.
fn covering_anchor(parts: &[ChunkPiece]) -> Option<Anchor> {
    let (first, last) = (&parts.first()?.anchor, &parts.last()?.anchor);
    if parts.len() < 2 {
        return Some(first.clone());
    }
    let anchor = first.clone().through(last);
    let is_one_page = parts.iter().all(|it| it.anchor.page == anchor.page || it.anchor.page.is_none());
    Some(if is_one_page { anchor } else { Anchor { page: None, region: None, ..anchor } })
}

/// Returns the separator between two blocks of a chunk.
fn separator(before: BlockKind, after: BlockKind) -> &'static str {
    match (before, after) {
        (BlockKind::Heading(_), _) => "\n",
        (BlockKind::ListItem, BlockKind::ListItem) => "\n",
        (BlockKind::Table, BlockKind::Table) => "\n",
        _ => "\n\n",
    }
}

/// Truncates a line to its first `tokens` tokens.
fn clip_to_tokens(counter: &dyn TokenCounter, line: &str, tokens: usize) -> String {
    // Limits the bytes first, because some tokenizers count an unknown word of any length as one token.
    let line = &line[..line.floor_char_boundary(tokens * 16)];
    match counter.token_spans(line).get(tokens) {
        Some((start, _)) => line[..*start].trim_end().to_owned(),
        None => line.to_owned(),
    }
}
