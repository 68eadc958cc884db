//! The parts of a chunk that have their own locations in the file, and the form in which the index stores them.

use std::ops::Range;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{Anchor, Region};

/// Separator between the headings above a passage, outermost first.
pub const HEADING_SEPARATOR: &str = " > ";

/// Short JSON keys for the fields of an anchor in stored pieces. They save space: an index may hold ten million pieces.
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

/// A part of the text of a chunk with its own location in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkPiece {
    /// The piece's byte range in `Chunk::text`.
    pub range: Range<usize>,
    /// The piece's location in the file.
    pub anchor: Anchor,
}

/// The encoded pieces of a chunk. Decoded only when a location is needed, because a search scans millions of chunks.
///
/// The form is a JSON array. Each piece has its offset in bytes from the start of the previous piece and, under short
/// keys, the anchor fields that differ from the previous piece. Empty if the chunk's anchor holds for all of its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedPieces(String);

impl EncodedPieces {
    /// Encodes pieces, given in the order of `text`. The body (the passage) begins at byte `body_start` of `text`.
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

    /// Wraps pieces that are already encoded; `json` is empty if there are none.
    pub fn from_stored(json: &str) -> EncodedPieces {
        EncodedPieces(json.to_owned())
    }

    /// Returns the encoded pieces; empty if there are none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes the pieces of `text`. Returns `None` if there are none or if their offsets do not fit `text`.
    pub(super) fn decode(&self, text: &str, body_start: usize) -> Option<Vec<ChunkPiece>> {
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

/// Returns the byte range of the piece that begins at byte `start`, without the separator at its end. The next piece begins
/// at byte `end`.
fn piece_range(text: &str, start: usize, end: usize, body_start: usize) -> Option<Range<usize>> {
    let is_heading = start < body_start;
    let end = if is_heading { end.min(body_start) } else { end };
    let piece = text.get(start..end)?;
    let piece = if is_heading { piece.strip_suffix(HEADING_SEPARATOR).unwrap_or(piece) } else { piece };
    Some(start..start + piece.trim_end().len())
}

/// Returns the fields of an anchor under short keys. Omits the last line and last byte if the text determines them.
fn encode_anchor(text: &str, anchor: &Anchor) -> Map<String, Value> {
    let Ok(Value::Object(mut long)) = serde_json::to_value(anchor) else { return Map::new() };
    if anchor.line_end == last_line(text, anchor) {
        long.remove(LINE_END);
    }
    if anchor.byte_end == last_byte(text, anchor) {
        long.remove(BYTE_END);
    }
    if let Some(region) = anchor.region {
        // Round coordinates to 1/10,000 of a page: this is smaller than a letter, so more digits carry no information.
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

/// Returns the line of the file on which a text ends, if the text is contiguous in the file.
fn last_line(text: &str, anchor: &Anchor) -> Option<u32> {
    anchor.line_start.map(|first| first.saturating_add(line_breaks(text)))
}

/// Returns the offset in the file one past the last byte of a text, if the text is a verbatim part of the file.
fn last_byte(text: &str, anchor: &Anchor) -> Option<u64> {
    anchor.byte_start.filter(|_| anchor.verbatim).map(|first| first.saturating_add(text.len() as u64))
}

/// Returns the fields of `now` that differ from `before`, with `null` for a field that `now` lacks.
fn changed_fields(before: &Map<String, Value>, now: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|it| !now.contains_key(*it)).map(|it| (it.clone(), Value::Null));
    let new = now.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    gone.chain(new.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// Joins neighbouring pieces whose location one anchor gives exactly: paragraphs of a page whose format has no line
/// numbers, and texts that are contiguous in the file.
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

/// Returns whether `piece` follows `before` without a gap, both in the text and in the file.
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

/// Counts the line breaks of a text.
pub fn line_breaks(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}
