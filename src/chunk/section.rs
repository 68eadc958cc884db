//! Groups segments into sections by heading, and decides which consecutive sections may share a chunk.

use std::ops::Range;

use crate::chunk::segment::Segment;
use crate::model::{Anchor, Block, BlockKind, Document};

/// Maximum bytes of a heading that begins a section. A longer heading is running text that is only formatted as a heading.
const MAX_HEADING_BYTES: usize = 300;

/// Metadata of at most this many tokens may share a chunk with the text that follows it.
const TINY_METADATA: usize = 48;

/// Level of a section that has no heading.
const NO_HEADING: u8 = 7;

/// A section of a document: headings, and the segments below them up to the next heading.
#[derive(Debug)]
pub(super) struct Section {
    /// Segments of the headings that begin the section. Each heading is a subheading of the previous one, with no text in
    /// between.
    pub(super) headings: Range<usize>,
    /// Segments below the headings; may be empty.
    pub(super) body: Range<usize>,
    /// Texts of all headings above the body, outermost first, including those of outer sections.
    pub(super) path: Vec<String>,
    /// Level of the first heading, 1 to 6; 7 for a section without a heading.
    pub(super) level: u8,
    /// Size of headings and body in tokens.
    pub(super) cost: usize,
    /// Whether the section may share a chunk with the previous section.
    pub(super) joins: bool,
}

/// All sections of a document.
pub(super) struct Outline {
    /// Sections in reading order; together they cover every segment.
    pub(super) sections: Vec<Section>,
}

impl Outline {
    /// Groups the segments of a document into sections.
    pub(super) fn new(document: &Document, segments: &[Segment]) -> Outline {
        let mut builder = OutlineBuilder::default();
        let mut at = 0;
        while at < segments.len() {
            let index = segments[at].block;
            let len = segments[at..].iter().take_while(|it| it.block == index).count();
            let cost = segments[at..at + len].iter().map(|it| it.cost).sum();
            builder.add_block(&document.blocks[index], at..at + len, cost);
            at += len;
        }
        Outline { sections: builder.sections }
    }

    /// Returns the indices of the sections that contain a range of segments.
    pub(super) fn sections_of(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.sections.partition_point(|it| it.body.end <= range.start);
        let last = self.sections.partition_point(|it| it.headings.start < range.end);
        first..last
    }

    /// Returns the headings that apply to all segments of a range, outermost first.
    pub(super) fn path_of(&self, range: &Range<usize>) -> &[String] {
        let sections = &self.sections[self.sections_of(range)];
        let Some((first, rest)) = sections.split_first() else { return &[] };
        let shared = rest.iter().fold(first.path.len(), |shared, section| {
            first.path.iter().zip(&section.path).take(shared).take_while(|(a, b)| a == b).count()
        });
        &first.path[..shared]
    }
}

/// Returns the heading level of a block; `None` if the block does not begin a section.
fn heading_level(block: &Block) -> Option<u8> {
    match block.kind {
        BlockKind::Heading(level) if block.text.len() <= MAX_HEADING_BYTES => Some(level.clamp(1, 6)),
        _ => None,
    }
}

/// Returns the text of a heading on one line, with white space collapsed.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
struct OutlineBuilder {
    sections: Vec<Section>,
    open_headings: Vec<(u8, String)>,
    place: Option<(Anchor, bool)>,
}

impl OutlineBuilder {
    fn add_block(&mut self, block: &Block, range: Range<usize>, cost: usize) {
        let metadata = block.kind == BlockKind::Metadata;
        let (moved, switched) = match &self.place {
            None => (true, false),
            Some((anchor, was_metadata)) => (!same_place(anchor, &block.anchor), *was_metadata != metadata),
        };
        if moved {
            self.open_headings.clear();
        }
        // Metadata always forms a section of its own, which shares a chunk with the next section only if it is small.
        let joins = !moved && !(switched && (metadata || self.last_cost() > TINY_METADATA));
        self.place = Some((block.anchor.clone(), metadata));
        match heading_level(block) {
            Some(level) => self.add_heading(block, level, range, cost, joins),
            None if moved || switched => self.open_section(NO_HEADING, range.start..range.start, range, cost, joins),
            None => self.extend_section(range, cost),
        }
    }

    fn add_heading(&mut self, block: &Block, level: u8, range: Range<usize>, cost: usize, joins: bool) {
        let deeper = self.open_headings.last().is_some_and(|(above, _)| *above < level);
        self.open_headings.retain(|(above, _)| *above < level);
        self.open_headings.push((level, one_line(&block.text)));
        let path = self.open_path();
        match self.sections.last_mut() {
            Some(last) if joins && deeper && last.body.is_empty() && !last.headings.is_empty() => {
                last.headings.end = range.end;
                last.body = range.end..range.end;
                last.path = path;
                last.cost += cost;
            }
            _ => self.open_section(level, range.clone(), range.end..range.end, cost, joins),
        }
    }

    fn open_section(&mut self, level: u8, headings: Range<usize>, body: Range<usize>, cost: usize, joins: bool) {
        let path = self.open_path();
        self.sections.push(Section { headings, body, path, level, cost, joins });
    }

    fn extend_section(&mut self, range: Range<usize>, cost: usize) {
        let section = self.sections.last_mut().expect("the first block always opens a section");
        section.body.end = range.end;
        section.cost += cost;
    }

    fn open_path(&self) -> Vec<String> {
        self.open_headings.iter().map(|(_, text)| text.clone()).collect()
    }

    fn last_cost(&self) -> usize {
        self.sections.last().map_or(0, |it| it.cost)
    }
}

/// Returns whether two blocks are in the same archive member, part of the file, and sheet.
fn same_place(a: &Anchor, b: &Anchor) -> bool {
    a.member == b.member && a.part == b.part && a.sheet == b.sheet
}
