//! Computes the location in the file of any part of a chunk from the locations of the chunk's pieces. Pure functions.

use std::ops::Range;

use crate::model::{Anchor, Chunk, ChunkPiece};

pub use crate::model::chunk_pieces::{HEADING_SEPARATOR, join_contiguous, line_breaks};

/// Line counts that describe a part of a text.
#[derive(Clone, Copy, Debug)]
pub struct LineCounts {
    /// Line breaks before the part.
    pub above: u32,
    /// Line breaks in the part.
    pub breaks: u32,
    /// Line breaks in the whole text.
    pub all: u32,
}

impl Anchor {
    /// Narrows the location of a text to a part of the text, given by bytes and lines, as exactly as the anchor allows.
    pub fn narrow(&self, bytes: &Range<usize>, lines: LineCounts) -> Anchor {
        let further = |line: u32| {
            let left_out = self.gaps.iter().take_while(|it| it.0 <= line);
            left_out.fold(line, |line, it| line.saturating_add(it.1))
        };
        let (first, last) = (further(lines.above), further(lines.above.saturating_add(lines.breaks)));
        let all = self.gaps.iter().fold(lines.all, |all, it| all.saturating_add(it.1));
        let mut anchor = Anchor { gaps: Vec::new(), ..self.clone() };
        if let (Some(start), Some(end)) = (self.line_start, self.line_end)
            && (self.verbatim || start.saturating_add(all) == end)
        {
            anchor.line_start = Some(start.saturating_add(first));
            anchor.line_end = Some(start.saturating_add(last));
        }
        if let (true, Some(start)) = (self.verbatim, self.byte_start) {
            anchor.byte_start = Some(start + bytes.start as u64);
            anchor.byte_end = Some(start + bytes.end as u64);
        }
        if let Some(rows) = self.cell.as_deref().and_then(|it| narrow_rows(it, all, first, last)) {
            anchor.cell = Some(rows);
        }
        anchor
    }

    /// Narrows the location of a text to the byte range `part` of the text. Ignores white space at both ends of the part,
    /// except the indentation of its first line.
    pub fn narrow_to(&self, text: &str, part: Range<usize>) -> Anchor {
        let part = trim_part(text, part);
        let lines = LineCounts {
            above: line_breaks(&text[..part.start]),
            breaks: line_breaks(&text[part.clone()]),
            all: line_breaks(text.trim_end()),
        };
        self.narrow(&part, lines)
    }

    /// Returns the location of a passage from the start of this anchor to the end of `last`. Its page is the page on which
    /// the passage begins.
    pub fn through(self, last: &Anchor) -> Anchor {
        let first = self;
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
        // A rectangle is valid on one page only, so a passage over two pages keeps the rectangle of its beginning.
        let region = match (first.region, last.region) {
            (Some(from), Some(to)) if first.page == last.page => Some(from.union(to)),
            (Some(from), _) => Some(from),
            // If the passage begins with file metadata, which has no page, use the region of `last`, the text after it.
            (None, to) => to.filter(|_| first.page.is_none()),
        };
        // Keep a part name that ends with `quote` only if the whole passage is a quotation.
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
}

/// Narrows a cell range to the rows `from..=to`, counted from the first row of the range. Returns `None` unless the range
/// has one row for each line of the text.
fn narrow_rows(cells: &str, all: u32, from: u32, to: u32) -> Option<String> {
    let (first_cell, last_cell) = cells.split_once(':')?;
    let (first_column, first) = split_cell(first_cell)?;
    let (last_column, last) = split_cell(last_cell)?;
    if first.checked_add(all)? != last {
        return None;
    }
    Some(format!("{first_column}{}:{last_column}{}", first + from, first + to))
}

fn split_cell(name: &str) -> Option<(&str, u32)> {
    let digits = name.find(|it: char| it.is_ascii_digit())?;
    Some((&name[..digits], name[digits..].parse().ok()?))
}

/// Trims blank lines and white space from a part of a text, but keeps the indentation of its first line.
fn trim_part(text: &str, part: Range<usize>) -> Range<usize> {
    let body = &text[part.clone()];
    let blank = body.len() - body.trim_start().len();
    let start = body[..blank].rfind('\n').map_or(0, |line| line + 1);
    part.start + start..part.start + body.trim_end().len().max(start)
}

/// The locations of all text of a chunk, decoded once for many lookups.
#[derive(Clone, Debug)]
pub struct PlaceIndex<'c> {
    chunk: &'c Chunk,
    pieces: Vec<ChunkPiece>,
}

impl PlaceIndex<'_> {
    /// Returns the location of a byte range of [`Chunk::text`]. If the range spans several pieces, the location covers all
    /// of them and has the page of the first piece.
    pub fn anchor_at(&self, range: Range<usize>) -> Anchor {
        let (text, range) = (&self.chunk.text, trim_part(&self.chunk.text, range));
        let within = |piece: &ChunkPiece| {
            let (start, end) = (piece.range.start, piece.range.end);
            let part = range.start.clamp(start, end) - start..range.end.clamp(start, end) - start;
            piece.anchor.narrow_to(&text[start..end], part)
        };
        let held = self.overlapping(&range);
        match (held.first(), held.last()) {
            (Some(first), Some(last)) if held.len() > 1 => within(first).through(&within(last)),
            (Some(only), _) => within(only),
            (None, _) => self.chunk.anchor.clone(),
        }
    }

    /// Returns the pieces that overlap a byte range, or the piece before the range if it lies between two pieces.
    fn overlapping(&self, range: &Range<usize>) -> &[ChunkPiece] {
        let first = self.pieces.partition_point(|it| it.range.end <= range.start);
        let last = self.pieces.partition_point(|it| it.range.start < range.end.max(range.start + 1));
        if first < last { &self.pieces[first..last] } else { &self.pieces[first.saturating_sub(1)..first] }
    }

    /// Returns the byte range in [`Chunk::text`] of each heading above the passage.
    pub fn headings(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let body = self.chunk.body_start as usize;
        self.pieces.iter().map(|it| it.range.clone()).take_while(move |it| it.start < body)
    }
}

impl Chunk {
    /// Returns the locations of all text of the chunk.
    pub fn places(&self) -> PlaceIndex<'_> {
        let body = self.body_start as usize;
        let whole = || ChunkPiece { range: body..self.text.len(), anchor: self.anchor.clone() };
        let pieces = self.pieces.decode(&self.text, body).unwrap_or_else(|| vec![whole()]);
        PlaceIndex { chunk: self, pieces }
    }

    /// Returns the location of a byte range of the [body](Chunk::body), e.g. of a sentence: its page, lines, cells, bytes.
    pub fn body_anchor(&self, range: Range<usize>) -> Anchor {
        let body = self.body_start as usize;
        self.places().anchor_at(body + range.start..body + range.end)
    }

    /// Returns the part of the [body](Chunk::body), as a byte range, that contains byte `at` and lies on one page, so that
    /// it can be shown and cited with one page number.
    pub fn page_around(&self, at: usize) -> Range<usize> {
        let (places, body) = (self.places(), self.body_start as usize);
        let pieces = &places.pieces[places.headings().count()..];
        let Some(index) = pieces.partition_point(|it| it.range.start <= body + at).checked_sub(1) else {
            return 0..self.body().len();
        };
        let page = pieces[index].anchor.page;
        let same = |it: &&ChunkPiece| it.anchor.page == page;
        let before = pieces[..index].iter().rev().take_while(same).count();
        let behind = pieces[index + 1..].iter().take_while(same).count();
        let end = pieces.get(index + behind + 1).map_or(self.text.len(), |it| it.range.start);
        pieces[index - before].range.start - body..end - body
    }

    /// Converts `bytes`, the byte range of some evidence, to a byte range of [`Chunk::text`]. `bytes` counts from the start
    /// of the file if the text is verbatim, else from the start of the text. Returns `None` if the evidence is the whole
    /// chunk.
    pub fn evidence_range(&self, bytes: &Range<u64>) -> Option<Range<usize>> {
        if bytes.is_empty() || (self.anchor.byte_start, self.anchor.byte_end) == (Some(bytes.start), Some(bytes.end)) {
            return None;
        }
        let pieces = self.places().pieces;
        let in_file = |it: &ChunkPiece| {
            let first = it.anchor.byte_start.filter(|_| it.anchor.verbatim)?;
            let is_held = first <= bytes.start && bytes.end <= it.anchor.byte_end?;
            is_held
                .then(|| it.range.start + (bytes.start - first) as usize..it.range.start + (bytes.end - first) as usize)
        };
        let range = match pieces.iter().find_map(in_file) {
            None if pieces.iter().any(|it| it.anchor.verbatim) => return None,
            None => usize::try_from(bytes.start).ok()?..usize::try_from(bytes.end).ok()?,
            Some(range) => range,
        };
        self.text.get(range.clone()).map(|_| range)
    }

    /// Returns whether the chunk spans more than one page.
    pub fn spans_pages(&self) -> bool {
        self.page_around(0).len() < self.body().len()
    }
}

#[cfg(test)]
mod tests;
