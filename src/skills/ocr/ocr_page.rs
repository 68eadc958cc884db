//! The result of OCR: lines of a page in reading order, and their conversion to blocks of a document.

use crate::extract::{CUT_MARK, join_cut_words};
use crate::model::{Anchor, Block, BlockKind, PlacedWord, Region};
use crate::skills::ocr::orientation::TextPiece;
use crate::skills::ocr::reading_order::Extent;
use crate::skills::ocr::text_box::{Point, TextBox};
use crate::skills::ocr::{detect, reading_order};

/// Text recognized with less confidence is dropped: it comes from a drawing or a speck.
const MIN_CONFIDENCE: f32 = 0.5;

/// A line of text. Words far apart in one row, as on a receipt, belong to one line.
#[derive(Clone, Debug, PartialEq)]
pub struct OcrLine {
    /// The text of the line; never empty.
    pub text: String,
    /// Mean probability of the characters, 0.5 to 1.
    pub confidence: f32,
    /// Region of the line on the image as given, before any rotation.
    pub region: Region,
    /// Number of the paragraph of the line, from 0 in reading order.
    pub block: u32,
    /// The pieces of text of the line, left to right, each with its region: the gaps between them reveal table columns.
    pub parts: Vec<(String, Region)>,
}

/// The text that OCR read on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OcrPage {
    /// The lines in reading order.
    pub lines: Vec<OcrLine>,
    /// Clockwise rotation of the image that makes the text upright: 0, 90, 180 or 270 degrees.
    pub rotation_degrees: u16,
    /// Width of the image in pixels, as given.
    pub width: u32,
    /// Height of the image in pixels, as given.
    pub height: u32,
}

impl OcrPage {
    /// Returns the lines, each with a line break at the end, and a blank line between paragraphs.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut block = 0;
        for line in &self.lines {
            if line.block != block && !text.is_empty() {
                text.push('\n');
            }
            block = line.block;
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    /// Returns the paragraphs as blocks of page `page` (1-based; `None` for files without pages), each with its region.
    /// Words split at the end of a line are joined.
    pub fn to_blocks(&self, page: Option<u32>) -> Vec<Block> {
        let mut blocks = Vec::new();
        for lines in self.lines.chunk_by(|a, b| a.block == b.block) {
            let mut text = String::new();
            for line in lines {
                append_line(&mut text, &line.text);
            }
            let region = lines.iter().map(|it| it.region).reduce(Region::union);
            let anchor = Anchor { page, region, ..Anchor::default() };
            blocks.push(Block { kind: BlockKind::Paragraph, text, anchor, rows: Vec::new() });
        }
        join_cut_words(blocks.iter_mut().map(|it| &mut it.text));
        blocks
    }

    /// Returns the words with their places on page `page` (1-based). The place of a word in its piece of text is estimated from
    /// the number of characters; on a rotated page, a word has the place of its piece.
    pub fn words(&self, page: u32) -> Vec<PlacedWord> {
        let pieces = self.lines.iter().flat_map(|it| &it.parts);
        let words = pieces.flat_map(|(text, region)| match self.rotation_degrees {
            0 => split_words(text, *region),
            _ => vec![(text.clone(), *region)],
        });
        words.map(|(text, region)| PlacedWord { page, text, region }).collect()
    }
}

/// Splits a piece of horizontal text into words, and divides its width in proportion to their characters.
fn split_words(text: &str, region: Region) -> Vec<(String, Region)> {
    let width = (region.right - region.left) / text.chars().count().max(1) as f32;
    let mut at = 0;
    let words = text.split(' ').map(|word| {
        let start = at;
        let end = start + word.chars().count();
        at = end + 1;
        let (left, right) = (region.left + width * start as f32, region.left + width * end as f32);
        (word.to_string(), Region { left, right, ..region })
    });
    words.filter(|it| !it.0.is_empty()).collect()
}

/// Appends a line to a paragraph. A hyphen between lower-case letters at the end of a line counts as a split word.
fn append_line(text: &mut String, line: &str) {
    let cut = text.strip_suffix('-').is_some_and(|it| it.ends_with(char::is_lowercase));
    if cut && line.starts_with(char::is_lowercase) {
        text.pop();
        text.push(CUT_MARK);
    } else if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Arranges the pieces of text of an image into lines.
pub(crate) fn assemble_page(mut pieces: Vec<TextPiece>, width: u32, height: u32) -> OcrPage {
    pieces.retain(|it| !it.reading.text.is_empty() && it.reading.confidence >= MIN_CONFIDENCE);
    let along = page_direction(&pieces);
    let boxes: Vec<Extent> = pieces.iter().map(|it| upright_extent(it, along)).collect();
    // Drops rows without letters and digits: they are drawn lines, or text in a script that the networks cannot read.
    let says_something =
        |row: &reading_order::Row| row.pieces.iter().any(|at| pieces[*at].reading.text.contains(char::is_alphanumeric));
    let lines = reading_order::reading_order(&boxes).into_iter().filter(says_something).map(|row| {
        let parts: Vec<&TextPiece> = row.pieces.iter().map(|at| &pieces[*at]).collect();
        let texts: Vec<&str> = parts.iter().map(|it| it.reading.text.as_str()).collect();
        let characters = |it: &TextPiece| it.reading.text.chars().count() as f32;
        let total: f32 = parts.iter().map(|it| characters(it)).sum();
        let sum: f32 = parts.iter().map(|it| characters(it) * it.reading.confidence).sum();
        let regions = parts.iter().map(|it| to_region(it.slab, width, height));
        OcrLine {
            text: texts.join(" "),
            confidence: sum / total,
            region: regions.reduce(Region::union).unwrap_or_default(),
            block: row.block,
            parts: parts.iter().map(|it| (it.reading.text.clone(), to_region(it.slab, width, height))).collect(),
        }
    });
    OcrPage { lines: lines.collect(), rotation_degrees: rotation(along), width, height }
}

/// Returns the main reading direction of the page.
fn page_direction(pieces: &[TextPiece]) -> Point {
    let mut quarters = [0.0; 4];
    for piece in pieces {
        quarters[quarter_turns(piece.slab.direction)] += piece.slab.length;
    }
    let most = (0..4).rev().max_by(|a, b| quarters[*a].total_cmp(&quarters[*b])).unwrap_or(0);
    let mut along = detect::page_direction(
        &pieces
            .iter()
            .filter(|it| quarter_turns(it.slab.direction) == most)
            .map(|it| TextBox { direction: turn_clockwise(it.slab.direction, (4 - most) % 4), ..it.slab })
            .collect::<Vec<_>>(),
    );
    along = turn_clockwise(along, most);
    along
}

/// Turns a direction clockwise by this many quarter turns.
fn turn_clockwise(along: Point, quarters: usize) -> Point {
    (0..quarters).fold(along, |it, _| it.clockwise())
}

/// Returns the number of clockwise quarter turns from "to the right" to this direction.
fn quarter_turns(along: Point) -> usize {
    match (along.x.abs() >= along.y.abs(), along.x >= 0.0, along.y >= 0.0) {
        (true, true, _) => 0,
        (true, false, _) => 2,
        (false, _, true) => 1,
        (false, _, false) => 3,
    }
}

/// Returns the clockwise rotation, in degrees, that makes text of this direction upright.
fn rotation(along: Point) -> u16 {
    [0, 270, 180, 90][quarter_turns(along)]
}

/// Returns the box of a piece as it is after the page was turned upright and deskewed.
fn upright_extent(piece: &TextPiece, along: Point) -> Extent {
    let slab = piece.slab;
    let (x, y) = (slab.centre.dot(along), slab.centre.dot(along.clockwise()));
    // A piece that runs perpendicular to the page direction has length and height swapped.
    let across = slab.direction.dot(along).abs() < 0.5;
    let (length, height) = if across { (slab.height, slab.length) } else { (slab.length, slab.height) };
    Extent {
        left: x - length / 2.0,
        top: y - height / 2.0,
        right: x + length / 2.0,
        bottom: y + height / 2.0,
        ..Extent::default()
    }
    .with_text(&piece.reading.text)
}

fn to_region(slab: TextBox, width: u32, height: u32) -> Region {
    let [left, top, right, bottom] = slab.bounds();
    let fraction = |at: f32, extent: u32| (at / extent.max(1) as f32).clamp(0.0, 1.0);
    Region {
        left: fraction(left, width),
        top: fraction(top, height),
        right: fraction(right, width),
        bottom: fraction(bottom, height),
    }
}
