//! Computes the exact location of a block in its file. Text files always get lines and bytes, even if the parser gives none.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::model::{Anchor, Block, BlockKind};

/// A location in a file. Lines are 1-based and inclusive; bytes are 0-based with an exclusive end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SourceLocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<(u64, u64)>,
    /// Any other location in the format: part of a message or notebook, sheet and cells, archive member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<String>,
}

impl SourceLocation {
    /// Writes the location into a JSON object.
    pub(crate) fn write(&self, object: &mut Map<String, Value>) {
        if let Some(page) = self.page {
            object.insert("page".into(), page.into());
        }
        if let Some((first, last)) = self.lines {
            object.insert("lines".into(), json!([first, last]));
        }
        if let Some((start, end)) = self.bytes {
            object.insert("bytes".into(), json!([start, end]));
        }
        if let Some(part) = &self.part {
            object.insert("part".into(), part.as_str().into());
        }
    }

    /// Returns the smallest location that covers this and another location; both must be in the same part of the file.
    pub(crate) fn merge(&self, other: &SourceLocation) -> SourceLocation {
        fn join<T: Ord + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
            Some((a?.0.min(b?.0), a?.1.max(b?.1)))
        }
        SourceLocation {
            page: self.page,
            lines: join(self.lines, other.lines),
            bytes: join(self.bytes, other.bytes),
            part: self.part.clone(),
        }
    }
}

/// How to tell letters of the text from markup in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markup {
    /// Every character is text.
    None,
    /// `<...>` and `&...;` are markup.
    Tags,
    /// Backslash escapes are markup.
    Escapes,
}

/// The text of a file on disk, with an index of its letters and digits. Blocks are searched by their letters and digits,
/// because parsers change white space and markup.
pub(crate) struct SourceText {
    pub(crate) text: String,
    line_starts: Vec<usize>,
    /// All letters and digits of the text, in order.
    letters: String,
    /// For each byte of `letters`, the start of its character in `text`.
    offsets: Vec<u32>,
}

impl SourceText {
    pub(crate) fn new(text: String, markup: Markup) -> SourceText {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|it| it.0 + 1)).collect();
        let (mut letters, mut offsets) = (String::new(), Vec::new());
        let mut skip_until = 0;
        for (at, character) in text.char_indices() {
            if at < skip_until {
                continue;
            }
            match (markup, character) {
                (Markup::Tags, '<') => skip_until = at + tag_length(&text[at..]),
                (Markup::Tags, '&') => skip_until = at + entity_length(&text[at..]),
                (Markup::Escapes, '\\') => skip_until = at + escape_length(&text[at..]),
                _ if character.is_alphanumeric() => {
                    letters.push(character);
                    offsets.resize(letters.len(), u32::try_from(at).unwrap_or(u32::MAX));
                }
                _ => {}
            }
        }
        SourceText { text, line_starts, letters, offsets }
    }

    /// Returns the line number of a byte, from 1.
    pub(crate) fn line(&self, byte: usize) -> u32 {
        self.line_starts.partition_point(|it| *it <= byte) as u32
    }

    /// Returns the text of the line before the line that contains this byte.
    pub(crate) fn line_before(&self, byte: usize) -> &str {
        let line = self.line_starts.partition_point(|it| *it <= byte);
        match line {
            0 | 1 => "",
            _ => self.text[self.line_starts[line - 2]..self.line_starts[line - 1]].trim_end(),
        }
    }

    /// Returns the location of a byte range.
    pub(crate) fn place(&self, bytes: &Range<usize>) -> SourceLocation {
        let last = bytes.end.saturating_sub(1).max(bytes.start);
        SourceLocation {
            lines: Some((self.line(bytes.start), self.line(last))),
            bytes: Some((bytes.start as u64, bytes.end as u64)),
            ..SourceLocation::default()
        }
    }

    /// Finds the letters of `text` in `letters`, at or after position `from`.
    fn find_letters(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let wanted: String = text.chars().filter(|it| it.is_alphanumeric()).collect();
        if wanted.is_empty() {
            return None;
        }
        let start = from + self.letters.get(from..)?.find(&wanted)?;
        Some(start..start + wanted.len())
    }

    /// Returns the position in `letters` of the first letter at or after a byte of the file.
    fn letter_at(&self, byte: usize) -> usize {
        self.offsets.partition_point(|it| (*it as usize) < byte)
    }

    /// Returns the byte range in the file of a range of `letters`, extended by the punctuation around `text` if present.
    fn bytes(&self, letters: &Range<usize>, text: &str) -> Option<Range<usize>> {
        let start = *self.offsets.get(letters.start)? as usize;
        let last = *self.offsets.get(letters.end.checked_sub(1)?)? as usize;
        let end = last + self.text[last..].chars().next()?.len_utf8();
        let first_letter = text.find(char::is_alphanumeric)?;
        let leading = text[..first_letter].trim_start();
        let after_last =
            text.char_indices().rev().find(|it| it.1.is_alphanumeric()).map(|it| it.0 + it.1.len_utf8())?;
        let trailing = text[after_last..].trim_end();
        let start = if self.text[..start].ends_with(leading) { start - leading.len() } else { start };
        let end = if self.text[end..].starts_with(trailing) { end + trailing.len() } else { end };
        Some(start..end)
    }
}

/// Returns the length of the tag at the start of `text`; 1 for a `<` that is not a tag.
fn tag_length(text: &str) -> usize {
    if text.starts_with("<!--") {
        return text.find("-->").map_or(text.len(), |it| it + 3);
    }
    let second = text[1..].chars().next();
    if !second.is_some_and(|it| it.is_ascii_alphabetic() || matches!(it, '/' | '!' | '?')) {
        return 1;
    }
    for element in ["script", "style"] {
        if text.get(1..=element.len()).is_some_and(|it| it.eq_ignore_ascii_case(element)) {
            let closes = |at: &usize| {
                text.get(at + 2..at + 2 + element.len()).is_some_and(|it| it.eq_ignore_ascii_case(element))
            };
            let close = text.match_indices("</").map(|it| it.0).find(closes);
            return close.map_or(text.len(), |it| it + 2 + element.len());
        }
    }
    // Like browsers, treat an unclosed tag as running to the end: searching again at each `<` would be quadratic.
    text.find('>').map_or(text.len(), |it| it + 1)
}

fn entity_length(text: &str) -> usize {
    const LONGEST: usize = 12;
    let name = text[1..].find(|it: char| !it.is_ascii_alphanumeric() && it != '#').unwrap_or(0);
    if name > 0 && name <= LONGEST && text[1 + name..].starts_with(';') { name + 2 } else { 1 }
}

fn escape_length(text: &str) -> usize {
    match text[1..].chars().next() {
        Some('u') => 6.min(text.len()),
        Some(other) => 1 + other.len_utf8(),
        None => 1,
    }
}

/// Finds the positions of a document's blocks in the file, in order.
pub(crate) struct BlockFinder<'r> {
    raw: Option<&'r SourceText>,
    cursor: usize,
    misses: usize,
}

/// Maximum failed searches for blocks of a file; each scans the rest of the file. After so many, the file must have
/// changed, and no further block is searched.
pub(crate) const MAX_MISSES: usize = 200;

/// The position of a block in its file.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPosition {
    anchor: Anchor,
    letters: Option<Range<usize>>,
    /// Number of bytes that the parser added at the start of the block, e.g. the number of a list item.
    reader_prefix_len: usize,
    /// Whether only the start and the end of the block match, because the parser repeated some of the text.
    ends_only: bool,
}

impl<'r> BlockFinder<'r> {
    pub(crate) fn new(raw: Option<&'r SourceText>) -> BlockFinder<'r> {
        BlockFinder { raw, cursor: 0, misses: 0 }
    }

    /// Finds the position of the next block.
    pub(crate) fn next(&mut self, block: &Block) -> BlockPosition {
        let spot = BlockPosition { anchor: block.anchor.clone(), ..BlockPosition::default() };
        let Some(raw) = self.raw.filter(|_| block.anchor.member.is_none() && self.misses < MAX_MISSES) else {
            return spot;
        };
        let from = block.anchor.byte_start.map_or(self.cursor, |it| raw.letter_at(it as usize));
        let bare = block.text.trim_start_matches(|it: char| it.is_ascii_digit());
        let written = block.text.len() - bare.len();
        let (letters, written) = match raw.find_letters(&block.text, from) {
            None if written > 0 && bare.starts_with(". ") => (raw.find_letters(bare, from), written),
            found => (found, 0),
        };
        let ends = if letters.is_none() && block.kind == BlockKind::Table {
            table_range(raw, &block.text, from)
        } else {
            None
        };
        let ends_only = ends.is_some();
        let letters = letters.or(ends);
        // Drop a match beyond the block's own end, so that the search for the next blocks starts at the last good match.
        let near = |it: &Range<usize>| block.anchor.byte_end.is_none_or(|end| it.end <= raw.letter_at(end as usize));
        let letters = letters.filter(near);
        match &letters {
            Some(found) => self.cursor = found.end,
            None => self.misses += 1,
        }
        BlockPosition { letters, reader_prefix_len: written, ends_only, ..spot }
    }
}

/// Maximum number of positions that are tried as the first cell of a table.
const MAX_TABLE_CANDIDATES: usize = 50;

/// Finds a table, from its first cell to its last. A cell that spans columns repeats in the block, but not in the file.
fn table_range(raw: &SourceText, table: &str, mut from: usize) -> Option<Range<usize>> {
    let letters = |it: &str| it.chars().filter(|it| it.is_alphanumeric()).collect::<String>();
    let rows: Vec<Vec<String>> = table.lines().map(|it| it.split(" | ").map(letters).collect()).collect();
    let first = rows.iter().flatten().find(|it| !it.is_empty())?;
    for _ in 0..MAX_TABLE_CANDIDATES {
        let start = raw.find_letters(first, from)?.start;
        if let Some(end) = match_cells(&raw.letters, &rows, start) {
            return Some(start..end);
        }
        from = start + raw.letters[start..].chars().next()?.len_utf8();
    }
    None
}

/// Returns the end of consecutive cells that start at `at`; a cell that repeats its neighbour may be absent.
fn match_cells(letters: &str, rows: &[Vec<String>], mut at: usize) -> Option<usize> {
    for (number, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let above = number.checked_sub(1).and_then(|it| rows[it].get(column));
            let before = column.checked_sub(1).and_then(|it| row.get(it));
            if letters[at..].starts_with(cell.as_str()) {
                at += cell.len();
            } else if above != Some(cell) && before != Some(cell) {
                return None;
            }
        }
    }
    Some(at)
}

impl BlockPosition {
    /// Returns the byte range in the file of a part of the block's text.
    pub(crate) fn bytes(&self, raw: Option<&SourceText>, text: &str, part: &Range<usize>) -> Option<Range<usize>> {
        if let (true, Some(start)) = (self.anchor.verbatim, self.anchor.byte_start) {
            let start = start as usize;
            return Some(start + part.start..start + part.end);
        }
        if let (true, Some(start), Some(end)) = (*part == (0..text.len()), self.anchor.byte_start, self.anchor.byte_end)
        {
            return Some(start as usize..end as usize);
        }
        let letters = self.letters.as_ref()?;
        if self.ends_only {
            return raw.filter(|_| *part == (0..text.len()))?.bytes(letters, text);
        }
        let count = |text: &str| text.chars().filter(|it| it.is_alphanumeric()).map(char::len_utf8).sum::<usize>();
        let at = |byte: usize| letters.start + count(&text[..byte]).saturating_sub(self.reader_prefix_len);
        let start = if self.reader_prefix_len > part.start { self.reader_prefix_len.min(part.end) } else { part.start };
        raw?.bytes(&(at(part.start)..at(part.end)), text[start..part.end].trim_start_matches(". "))
    }

    /// Returns the location of a part of the block's text, as exactly as the format allows.
    pub(crate) fn place(&self, raw: Option<&SourceText>, text: &str, part: &Range<usize>) -> SourceLocation {
        let anchor = self.anchor.narrow_to(text, part.clone());
        let lines = anchor.line_start.map(|it| (it, anchor.line_end.unwrap_or(it)));
        let mut place = match (self.bytes(raw, text, part), raw) {
            (Some(bytes), Some(raw)) if bytes.end <= raw.text.len() => raw.place(&bytes),
            (Some(bytes), _) => SourceLocation {
                lines,
                bytes: Some((bytes.start as u64, bytes.end as u64)),
                ..SourceLocation::default()
            },
            (None, _) => {
                SourceLocation { lines, bytes: anchor.byte_start.zip(anchor.byte_end), ..SourceLocation::default() }
            }
        };
        place.page = anchor.page;
        place.part = part_name(&anchor);
        place
    }
}

fn part_name(anchor: &Anchor) -> Option<String> {
    let sheet = anchor.sheet.as_ref().map(|it| format!("sheet {it}"));
    let parts = [anchor.member.clone(), anchor.part.clone(), sheet, anchor.cell.clone()];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        Block { kind: BlockKind::Paragraph, text: text.into(), anchor: Anchor::default(), rows: Vec::new() }
    }

    #[test]
    fn html_text_is_located_by_bytes_and_lines() {
        let html = "<html>\n<p>One &amp; <b>two</b> [3].</p>\n<script>var One = 2;</script>\n<p>One again.</p>";
        let raw = SourceText::new(html.into(), Markup::Tags);
        let mut finder = BlockFinder::new(Some(&raw));
        let first = "One & two [3].";
        let spot = finder.next(&block(first));
        let at = first.find("[3]").unwrap();
        let bytes = spot.bytes(Some(&raw), first, &(at..at + 3)).unwrap();
        assert_eq!(&html[bytes.clone()], "[3]");
        assert_eq!(raw.place(&bytes).lines, Some((2, 2)));
        let again = finder.next(&block("One again."));
        let bytes = again.bytes(Some(&raw), "One again.", &(0..10)).unwrap();
        assert_eq!((&html[bytes.clone()], raw.line(bytes.start)), ("One again.", 4));
    }

    #[test]
    fn verbatim_part_is_offset_from_block() {
        let raw = SourceText::new("zero\nfirst [1]\n".into(), Markup::None);
        let anchor = Anchor {
            line_start: Some(2),
            line_end: Some(2),
            byte_start: Some(5),
            byte_end: Some(14),
            verbatim: true,
            ..Anchor::default()
        };
        let spot = BlockFinder::new(Some(&raw)).next(&Block { anchor, ..block("first [1]") });
        let place = spot.place(Some(&raw), "first [1]", &(6..9));
        assert_eq!((place.lines, place.bytes), (Some((2, 2)), Some((11, 14))));
    }

    #[test]
    fn table_with_spanning_cells_is_located() {
        let html = "<p>One a b.</p><table><tr><td rowspan=2>a</td><td colspan=2>b</td></tr><tr><td>c</td><td>d</td></tr></table>";
        let raw = SourceText::new(html.into(), Markup::Tags);
        let table = Block { kind: BlockKind::Table, ..block("a | b | b\na | c | d") };
        let spot = BlockFinder::new(Some(&raw)).next(&table);
        let bytes = spot.bytes(Some(&raw), &table.text, &(0..table.text.len())).unwrap();
        assert_eq!(&html[bytes], "a</td><td colspan=2>b</td></tr><tr><td>c</td><td>d");
        assert_eq!(spot.bytes(Some(&raw), &table.text, &(0..1)), None, "parts of a table are not located");
    }

    #[test]
    fn unlocated_part_keeps_place_of_block() {
        let anchor = Anchor { page: Some(3), ..Anchor::default() };
        let spot = BlockFinder::new(None).next(&Block { anchor, ..block("a page") });
        let place = spot.place(None, "a page", &(0..1));
        assert_eq!((place.page, place.lines, place.bytes), (Some(3), None, None));
    }
}
