//! Segments to chunks: context, text and anchor.

use std::ops::Range;

use crate::chunk::section::{Outline, one_line};
use crate::chunk::segment::{Segment, line_breaks};
use crate::model::{Anchor, Block, BlockKind, Chunk, ChunkId, Document, Tier, TokenCounter};

/// What a chunk is built from.
pub(super) struct Builder<'a> {
    pub(super) document: &'a Document,
    pub(super) outline: &'a Outline,
    pub(super) segments: &'a [Segment],
    counter: &'a dyn TokenCounter,
    title: String,
    title_tokens: usize,
    context_limit: usize,
}

/// The lines above a passage.
pub(super) struct Context {
    text: String,
    /// Its size.
    pub(super) tokens: usize,
    /// Whether every heading is in it in full.
    pub(super) complete: bool,
}

/// Part of the text of one block.
struct Piece {
    block: usize,
    range: Range<usize>,
    lines_before: u32,
}

impl<'a> Builder<'a> {
    /// Makes a builder whose contexts have at most `context_limit` tokens.
    pub(super) fn new(
        document: &'a Document,
        outline: &'a Outline,
        segments: &'a [Segment],
        counter: &'a dyn TokenCounter,
        context_limit: usize,
    ) -> Builder<'a> {
        let title = clip(counter, &one_line(document.title.as_deref().unwrap_or_default()), context_limit);
        let title_tokens = counter.token_spans(&title).len();
        Builder { document, outline, segments, counter, title, title_tokens, context_limit }
    }

    /// Tokens of the title, as far as it goes into a context.
    pub(super) fn title_tokens(&self) -> usize {
        self.title_tokens
    }

    /// Returns the context of a passage below these headings. What is too long loses the outermost headings first.
    pub(super) fn context(&self, path: &[String], body: &str) -> Context {
        let repeated = path.iter().any(|it| it.eq_ignore_ascii_case(&self.title)) || body.starts_with(&self.title);
        let title = if repeated { "" } else { self.title.as_str() };
        let context = self.lines(title, path, true);
        if context.tokens <= self.context_limit {
            return context;
        }
        let title = if path.is_empty() { title.to_owned() } else { clip(self.counter, title, self.context_limit / 2) };
        for skipped in 1..path.len() {
            let context = self.lines(&title, &path[skipped..], false);
            if context.tokens <= self.context_limit {
                return context;
            }
        }
        let innermost = path.last().map(|it| clip(self.counter, it, self.context_limit / 2));
        self.lines(&title, innermost.as_slice(), false)
    }

    fn lines(&self, title: &str, path: &[String], complete: bool) -> Context {
        let mut text = title.to_owned();
        if !text.is_empty() && !path.is_empty() {
            text.push('\n');
        }
        text.push_str(&path.join(" > "));
        let tokens = if text.is_empty() { 0 } else { self.counter.token_spans(&text).len() };
        Context { text, tokens, complete }
    }

    /// Builds the chunk of these segments, without id and ordinal; none when they hold nothing but white space.
    pub(super) fn chunk(&self, range: Range<usize>) -> Option<Chunk> {
        let (lifted, path) = self.lift(&range);
        self.assemble(self.pieces(range.start + lifted..range.end), path)
    }

    /// Builds the chunks of one segment that has more than `max_tokens` when it stands alone.
    pub(super) fn halves(&self, segment: usize, max_tokens: usize) -> Vec<Chunk> {
        let Segment { block, range, lines_before, .. } = self.segments[segment].clone();
        let (_, path) = self.lift(&(segment..segment + 1));
        let text = &self.document.blocks[block].text;
        let mut open = vec![range.clone()];
        let mut chunks = Vec::new();
        while let Some(part) = open.pop() {
            let lines = lines_before + line_breaks(&text[range.start..part.start]);
            let piece = Piece { block, range: part.clone(), lines_before: lines };
            let Some(chunk) = self.assemble(vec![piece], path) else { continue };
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

    /// Returns how many leading segments are headings that go into the context, and the headings of that context. A
    /// heading is left in the body when it does not hold for the whole chunk, when nothing follows it, or when the
    /// context has no room for it.
    fn lift(&self, range: &Range<usize>) -> (usize, &'a [String]) {
        let shared = self.outline.path_of(range);
        let section = &self.outline.sections[self.outline.sections_of(range).start];
        if range.start >= section.headings.end {
            return (0, shared);
        }
        let own = self.blocks(&section.headings);
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

    fn blocks(&self, range: &Range<usize>) -> usize {
        match (self.segments[range.clone()].first(), self.segments[range.clone()].last()) {
            (Some(first), Some(last)) => last.block - first.block + 1,
            _ => 0,
        }
    }

    /// Joins neighbouring segments of a block, and trims what is left.
    fn pieces(&self, range: Range<usize>) -> Vec<Piece> {
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

    fn assemble(&self, mut pieces: Vec<Piece>, path: &[String]) -> Option<Chunk> {
        pieces.retain_mut(|piece| piece.trim(&self.document.blocks[piece.block]));
        let (first, last) = (pieces.first()?, pieces.last()?);
        let mut body = String::new();
        for (index, piece) in pieces.iter().enumerate() {
            let block = &self.document.blocks[piece.block];
            if index > 0 {
                body.push_str(separator(self.document.blocks[pieces[index - 1].block].kind, block.kind));
            }
            body.push_str(&block.text[piece.range.clone()]);
        }
        let mut anchor = first.anchor(&self.document.blocks[first.block]);
        if pieces.len() > 1 {
            anchor = union(anchor, &last.anchor(&self.document.blocks[last.block]));
        }
        let mut text = self.context(path, &body).text;
        if !text.is_empty() {
            text.push('\n');
        }
        let body_start = u32::try_from(text.len()).expect("a context has few tokens of bounded length");
        text.push_str(&body);
        let tokens = u32::try_from(self.counter.token_spans(&text).len()).unwrap_or(u32::MAX);
        let heading_path = path.to_vec();
        let id = ChunkId(String::new());
        Some(Chunk { id, ordinal: 0, text, body_start, anchor, heading_path, tokens, tier: Tier::L1 })
    }
}

impl Piece {
    /// Takes white space off both ends, but keeps the indentation of code; says whether anything is left.
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

    /// Narrows the block's anchor to this piece, as far as the block says enough.
    fn anchor(&self, block: &Block) -> Anchor {
        let mut anchor = block.anchor.clone();
        let breaks = line_breaks(&block.text[self.range.clone()]);
        if let (Some(first), Some(last)) = (anchor.line_start, anchor.line_end)
            && (anchor.verbatim || first + line_breaks(block.text.trim_end()) == last)
        {
            anchor.line_start = Some(first + self.lines_before);
            anchor.line_end = Some(first + self.lines_before + breaks);
        }
        if anchor.verbatim
            && let Some(start) = anchor.byte_start
        {
            anchor.byte_start = Some(start + self.range.start as u64);
            anchor.byte_end = Some(start + self.range.end as u64);
        }
        if let Some(cells) = anchor.cell.as_deref().filter(|_| block.kind == BlockKind::Table) {
            let rows = line_breaks(block.text.trim_end()) + 1;
            anchor.cell = Some(rows_of(cells, rows, self.lines_before, breaks).unwrap_or_else(|| cells.to_owned()));
        }
        anchor
    }
}

/// Narrows a range of cells to some of its rows; none when the range has not as many rows as the text has lines.
fn rows_of(cells: &str, rows: u32, skipped: u32, breaks: u32) -> Option<String> {
    let (from, to) = cells.split_once(':')?;
    let (first_column, first) = cell(from)?;
    let (last_column, last) = cell(to)?;
    if first + rows != last + 1 {
        return None;
    }
    Some(format!("{first_column}{}:{last_column}{}", first + skipped, first + skipped + breaks))
}

fn cell(name: &str) -> Option<(&str, u32)> {
    let digits = name.find(|it: char| it.is_ascii_digit())?;
    Some((&name[..digits], name[digits..].parse().ok()?))
}

/// The anchor of a passage that reaches from the start of `first` to the end of `last`.
fn union(first: Anchor, last: &Anchor) -> Anchor {
    let bytes = match (first.byte_start, last.byte_end) {
        (Some(start), Some(end)) if end >= start => (Some(start), Some(end)),
        _ => (None, None),
    };
    let cell = match (&first.cell, &last.cell) {
        (Some(from), Some(to)) => {
            let (from, to) = (from.split(':').next().unwrap_or(from), to.rsplit(':').next().unwrap_or(to));
            Some(format!("{from}:{to}"))
        }
        (from, _) => from.clone(),
    };
    // A rectangle says something on its own page only; what goes on overleaf is cited by where it begins.
    let region = match (first.region, last.region) {
        (Some(from), Some(to)) if first.page == last.page => Some(from.union(to)),
        (Some(from), _) => Some(from),
        // Facts about the file have no page; what follows them has.
        (None, to) => to.filter(|_| first.page.is_none()),
    };
    // A quotation that a passage begins with is not what all of it is.
    let part = first.part.filter(|it| !it.ends_with("quote") || last.part.as_ref() == Some(it));
    Anchor {
        page: first.page.or(last.page),
        region,
        part,
        line_end: last.line_end.max(first.line_end),
        byte_start: bytes.0,
        byte_end: bytes.1,
        cell,
        verbatim: false,
        ..first
    }
}

/// What stands between two blocks of a chunk.
fn separator(before: BlockKind, after: BlockKind) -> &'static str {
    match (before, after) {
        (BlockKind::Heading(_), _) => "\n",
        (BlockKind::ListItem, BlockKind::ListItem) => "\n",
        (BlockKind::Table, BlockKind::Table) => "\n",
        _ => "\n\n",
    }
}

/// Cuts a line after so many tokens.
fn clip(counter: &dyn TokenCounter, line: &str, tokens: usize) -> String {
    // An unknown word of any length is one token to some tokenizers.
    let line = &line[..line.floor_char_boundary(tokens * 16)];
    match counter.token_spans(line).get(tokens) {
        Some((start, _)) => line[..*start].trim_end().to_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_a_quotation_only_from_its_beginning_to_its_end() {
        let anchor = |part: Option<&str>| Anchor { part: part.map(str::to_string), ..Anchor::default() };
        let part = |first, last| union(anchor(first), &anchor(last)).part;
        assert_eq!(part(Some("quote"), Some("quote")).as_deref(), Some("quote"));
        assert_eq!(part(Some("quote"), None), None);
        assert_eq!(part(Some("body"), Some("attachment: a.txt")).as_deref(), Some("body"));
    }
}
