//! Exact places: computes the place of any part of a chunk from the places of its pieces. Pure functions.

use std::ops::Range;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{Anchor, Chunk, Region};

/// Separator between the headings above a passage.
pub const HEADING_SEPARATOR: &str = " > ";

/// Short names of the fields of an anchor in stored pieces. An index may hold ten million pieces.
const SHORT_FIELD_NAMES: [(&str, &str); 12] = [
    ("page", "p"),
    ("line_start", "l"),
    (LINE_END, "m"),
    ("byte_start", "b"),
    (BYTE_END, "c"),
    ("sheet", "s"),
    ("cell", "e"),
    ("part", "t"),
    ("member", "a"),
    ("symbol", "y"),
    ("region", "r"),
    ("verbatim", "v"),
];
const LINE_END: &str = "line_end";
const BYTE_END: &str = "byte_end";

/// A part of the text of a chunk with a place of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkPiece {
    /// Its bytes in [`Chunk::text`].
    pub range: Range<usize>,
    /// Its place.
    pub anchor: Anchor,
}

/// The pieces of a chunk in their stored form, parsed only when a place is needed: a search scans millions of chunks.
///
/// A JSON array. Each piece has its offset in bytes from the start of the previous piece, and the fields of its anchor
/// that differ from the previous one, by short names. Empty when the chunk's anchor holds for all of its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedPieces(String);

impl EncodedPieces {
    /// Encodes pieces, which are in the order of `text`. The body of `text` begins at `body_start`.
    pub fn new(text: &str, body_start: usize, pieces: &[ChunkPiece]) -> EncodedPieces {
        if !pieces.iter().any(|it| it.range.start < body_start) && pieces.len() < 2 {
            return EncodedPieces::default();
        }
        let (mut at, mut before) = (0, Map::new());
        let mut stored = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let fields = encode_anchor(&text[piece.range.clone()], &piece.anchor);
            stored.push(Value::Array(vec![(piece.range.start - at).into(), changed_fields(&before, &fields).into()]));
            (at, before) = (piece.range.start, fields);
        }
        EncodedPieces(Value::Array(stored).to_string())
    }

    /// Wraps the stored form; empty for no pieces.
    pub fn from_stored(json: &str) -> EncodedPieces {
        EncodedPieces(json.to_owned())
    }

    /// Returns the stored form; empty for no pieces.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes the pieces of a text. Returns `None` if there are none or if they do not fit the text.
    fn decode(&self, text: &str, body_start: usize) -> Option<Vec<ChunkPiece>> {
        if self.0.is_empty() {
            return None;
        }
        let stored: Vec<(usize, Map<String, Value>)> = serde_json::from_str(&self.0).ok()?;
        let (mut at, mut fields) = (0_usize, Map::new());
        let mut pieces: Vec<ChunkPiece> = Vec::with_capacity(stored.len());
        let mut places = Vec::with_capacity(stored.len());
        for (further, change) in stored {
            at = at.checked_add(further)?;
            for (name, value) in change {
                if value.is_null() {
                    fields.remove(&name)
                } else {
                    fields.insert(name, value)
                };
            }
            places.push((at, fields.clone()));
        }
        for (index, (start, fields)) in places.iter().enumerate() {
            let end = places.get(index + 1).map_or(text.len(), |it| it.0);
            let range = piece_range(text, *start, end, body_start)?;
            pieces.push(ChunkPiece { anchor: decode_anchor(&text[range.clone()], fields)?, range });
        }
        Some(pieces)
    }
}

/// Returns the bytes of a piece, without the separator before the next piece, which begins at `end`.
fn piece_range(text: &str, start: usize, end: usize, body_start: usize) -> Option<Range<usize>> {
    let is_heading = start < body_start;
    let end = if is_heading { end.min(body_start) } else { end };
    let piece = text.get(start..end)?;
    let piece = if is_heading { piece.strip_suffix(HEADING_SEPARATOR).unwrap_or(piece) } else { piece };
    Some(start..start + piece.trim_end().len())
}

/// Returns the fields of an anchor by their short names, without ends that follow from the text.
fn encode_anchor(text: &str, anchor: &Anchor) -> Map<String, Value> {
    let Ok(Value::Object(mut long)) = serde_json::to_value(anchor) else { return Map::new() };
    if anchor.line_end == last_line(text, anchor) {
        long.remove(LINE_END);
    }
    if anchor.byte_end == last_byte(text, anchor) {
        long.remove(BYTE_END);
    }
    if let Some(region) = anchor.region {
        // A ten-thousandth of a page is finer than a letter, so more digits carry no information.
        let rounded = |it: f32| (f64::from(it) * 1e4).round() / 1e4;
        let Region { left, top, right, bottom } = region;
        let edges = [("left", left), ("top", top), ("right", right), ("bottom", bottom)];
        let edges: Map<String, Value> =
            edges.map(|(name, it)| (name.to_owned(), rounded(it).into())).into_iter().collect();
        long.insert("region".into(), edges.into());
    }
    let named = |(long_name, name): &(&str, &str)| Some(((*name).to_owned(), long.remove(*long_name)?));
    SHORT_FIELD_NAMES.iter().filter_map(named).collect()
}

fn decode_anchor(text: &str, fields: &Map<String, Value>) -> Option<Anchor> {
    let named = |(name, short): &(&str, &str)| Some(((*name).to_owned(), fields.get(*short)?.clone()));
    let long: Map<String, Value> = SHORT_FIELD_NAMES.iter().filter_map(named).collect();
    let mut anchor = Anchor::deserialize(Value::Object(long)).ok()?;
    anchor.line_end = anchor.line_end.or(last_line(text, &anchor));
    anchor.byte_end = anchor.byte_end.or(last_byte(text, &anchor));
    Some(anchor)
}

/// Returns the last line of a text that is contiguous in the file.
fn last_line(text: &str, anchor: &Anchor) -> Option<u32> {
    anchor.line_start.map(|first| first.saturating_add(line_breaks(text)))
}

/// Returns one past the last byte of a text that is verbatim in the file.
fn last_byte(text: &str, anchor: &Anchor) -> Option<u64> {
    anchor.byte_start.filter(|_| anchor.verbatim).map(|first| first.saturating_add(text.len() as u64))
}

/// Returns the fields that differ from `before`; `null` for a field that is gone.
fn changed_fields(before: &Map<String, Value>, now: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|it| !now.contains_key(*it)).map(|it| (it.clone(), Value::Null));
    let new = now.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    gone.chain(new.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// Joins neighbouring pieces that one anchor describes exactly: paragraphs of a page without lines, and text that is
/// contiguous in the file too.
pub fn join_contiguous(text: &str, pieces: Vec<ChunkPiece>) -> Vec<ChunkPiece> {
    let mut joined: Vec<ChunkPiece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if is_contiguous(text, last, &piece) => {
                (last.anchor.line_end, last.anchor.byte_end) = (piece.anchor.line_end, piece.anchor.byte_end);
                last.range.end = piece.range.end;
            }
            _ => joined.push(piece),
        }
    }
    joined
}

/// Returns whether `piece` follows `before` without a gap in the file too.
fn is_contiguous(text: &str, before: &ChunkPiece, piece: &ChunkPiece) -> bool {
    let (a, b) = (&before.anchor, &piece.anchor);
    let Anchor { line_start, line_end, byte_start, byte_end, .. } = *b;
    let is_alike = *b == Anchor { line_start, line_end, byte_start, byte_end, ..a.clone() };
    if !is_alike || a.cell.is_some() {
        return false;
    }
    let between = before.range.start..piece.range.start;
    let bytes = a.byte_start.map(|first| first + between.len() as u64);
    let lines = a.line_start.map(|first| first.saturating_add(line_breaks(&text[between])));
    let are_exact = |it: &ChunkPiece| it.anchor.line_end == last_line(&text[it.range.clone()], &it.anchor);
    match (lines, bytes) {
        (None, None) => line_start.is_none() && byte_start.is_none(),
        (Some(_), None) => line_start == lines && byte_start.is_none() && are_exact(before) && are_exact(piece),
        (Some(_), Some(_)) => a.verbatim && line_start == lines && byte_start == bytes,
        (None, Some(_)) => false,
    }
}

/// Line counts of a part of a text.
#[derive(Clone, Copy, Debug)]
pub struct LineCounts {
    /// Line breaks before it.
    pub above: u32,
    /// Line breaks in it.
    pub breaks: u32,
    /// Line breaks in the whole text.
    pub all: u32,
}

impl Anchor {
    /// Narrows the place of a text to a part of it, given by bytes and lines, as far as the anchor allows.
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

    /// Narrows the place of a text to a part of it. Ignores white space at both ends of the part, except the
    /// indentation of its first line.
    pub fn narrow_to(&self, text: &str, part: Range<usize>) -> Anchor {
        let part = trim_part(text, part);
        let lines = LineCounts {
            above: line_breaks(&text[..part.start]),
            breaks: line_breaks(&text[part.clone()]),
            all: line_breaks(text.trim_end()),
        };
        self.narrow(&part, lines)
    }

    /// Returns the place of a passage from the start of this anchor to the end of `last`. Its page is the page it
    /// begins on.
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
        // A rectangle is valid on one page only; a passage over two pages is cited by its beginning.
        let region = match (first.region, last.region) {
            (Some(from), Some(to)) if first.page == last.page => Some(from.union(to)),
            (Some(from), _) => Some(from),
            // Facts about the file have no page; the text after them has.
            (None, to) => to.filter(|_| first.page.is_none()),
        };
        // Keep `quote` only if the whole passage is a quotation.
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

/// Narrows a cell range to the rows `from..=to`, counted from its first row. Returns `None` unless the range has one
/// row for each line of the text.
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

/// Counts the line breaks of a text.
pub fn line_breaks(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// Trims blank lines and white space from a part of a text, but keeps the indentation of its first line.
fn trim_part(text: &str, part: Range<usize>) -> Range<usize> {
    let body = &text[part.clone()];
    let blank = body.len() - body.trim_start().len();
    let start = body[..blank].rfind('\n').map_or(0, |line| line + 1);
    part.start + start..part.start + body.trim_end().len().max(start)
}

/// The places of all text of a chunk.
#[derive(Clone, Debug)]
pub struct PlaceIndex<'c> {
    chunk: &'c Chunk,
    pieces: Vec<ChunkPiece>,
}

impl PlaceIndex<'_> {
    /// Returns the place of a byte range of [`Chunk::text`]. If the range spans several pieces, the place covers all of
    /// them and its page is the first one.
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

    /// Returns the pieces that overlap a byte range. If the range lies between two pieces, returns the one before it.
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
    /// Returns the places of all text of the chunk.
    pub fn places(&self) -> PlaceIndex<'_> {
        let body = self.body_start as usize;
        let whole = || ChunkPiece { range: body..self.text.len(), anchor: self.anchor.clone() };
        let pieces = self.pieces.decode(&self.text, body).unwrap_or_else(|| vec![whole()]);
        PlaceIndex { chunk: self, pieces }
    }

    /// Returns the place of a byte range of the [body](Chunk::body), e.g. of a sentence: its page, lines, cells, bytes.
    pub fn body_anchor(&self, range: Range<usize>) -> Anchor {
        let body = self.body_start as usize;
        self.places().anchor_at(body + range.start..body + range.end)
    }

    /// Returns the byte range of the [body](Chunk::body) around `at` that lies on the same page. It is shown together
    /// and cited with one page.
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

    /// Returns the byte range of evidence in [`Chunk::text`]. `bytes` counts in the file where the text is verbatim,
    /// else in the text. Returns `None` for evidence that is the whole chunk.
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
