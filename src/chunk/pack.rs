//! Chooses the boundaries of chunks: combines small sections, and splits large ones into chunks of about equal size.

use std::ops::Range;

use crate::chunk::build::Builder;
use crate::chunk::section::Section;
use crate::chunk::segment::{Break, Segment};
use crate::chunk::settings::ChunkSettings;
use crate::model::BlockKind;

/// Headings up to this level begin a new subject: before them, a chunk may end at half the size that other headings need.
const MAJOR_LEVEL: u8 = 2;

/// A large section is split into chunks of equal size. To end at a better boundary, a chunk may be smaller or larger than
/// that by this many percent.
const MAX_SHIFT_PERCENT: usize = 30;

/// Points that a boundary gains for each step to a better kind of [`Break`]. It loses one point for each percent by which
/// the chunk differs from the equal size.
const BREAK_SCORE: i64 = 12;

/// Returns the range of segments of each chunk, in order. Consecutive ranges overlap inside running text.
pub(super) fn pack(builder: &Builder, settings: &ChunkSettings) -> Vec<Range<usize>> {
    let sections = &builder.outline.sections;
    let mut chunks = Vec::new();
    let mut first = 0;
    let mut cost = 0;
    for (index, section) in sections.iter().enumerate() {
        if index > first && !may_join(section, cost, builder.title_tokens(), settings) {
            close_chunk(builder, settings, first..index, cost, &mut chunks);
            first = index;
            cost = 0;
        }
        cost += section.cost;
    }
    if first < sections.len() {
        close_chunk(builder, settings, first..sections.len(), cost, &mut chunks);
    }
    chunks
}

/// Returns whether a section may be added to a chunk whose sections so far take `cost` tokens.
fn may_join(section: &Section, cost: usize, title: usize, settings: &ChunkSettings) -> bool {
    let enough = settings.target_tokens / if section.level <= MAJOR_LEVEL { 4 } else { 2 };
    section.joins && cost < enough && title + cost + section.cost <= settings.max_tokens
}

fn close_chunk(
    builder: &Builder,
    settings: &ChunkSettings,
    sections: Range<usize>,
    cost: usize,
    chunks: &mut Vec<Range<usize>>,
) {
    let outline = &builder.outline.sections;
    let (first, last) = (&outline[sections.start], &outline[sections.end - 1]);
    let whole = first.headings.start..last.body.end;
    let context = builder.context(&first.path, "");
    let room = settings.max_tokens - context.tokens;
    // Number of segments of headings that move into the context, and so take no space in the body.
    let lifted =
        if sections.len() == 1 && context.complete && !first.body.is_empty() { first.headings.len() } else { 0 };
    let body = whole.start + lifted..whole.end;
    let body_cost = if lifted > 0 { builder.cost(&body) } else { cost };
    if body_cost <= room || (sections.len() > 1 && builder.title_tokens() + cost <= settings.max_tokens) {
        chunks.push(whole);
        return;
    }
    let at = chunks.len();
    split_evenly(builder, settings, body, room, chunks);
    chunks[at].start = whole.start;
}

/// Splits a range of segments that is too large for one chunk into as few chunks as possible, all of about equal size.
fn split_evenly(
    builder: &Builder,
    settings: &ChunkSettings,
    range: Range<usize>,
    room: usize,
    chunks: &mut Vec<Range<usize>>,
) {
    let overlap = settings.overlap_tokens;
    let target = settings.target_tokens.min(room).max(overlap + 1);
    let total = builder.cost(&range);
    let parts = total.saturating_sub(overlap).div_ceil(target - overlap).max(1);
    let even = (total / parts + overlap).min(room);
    let mut start = range.start;
    let mut done = range.start;
    while done < range.end {
        let end = chunk_end(builder.segments, start, done, range.end, even, room);
        chunks.push(start..end);
        done = end;
        start = overlap_start(builder, start, end, overlap);
    }
}

/// Returns the end of the chunk that begins at `start`: the best boundary at which the chunk has about `even` tokens. The
/// chunk gets at least one segment that is not in the previous chunk, which ends at `done`.
fn chunk_end(segments: &[Segment], start: usize, done: usize, end: usize, even: usize, room: usize) -> usize {
    let (least, most) = (even - even * MAX_SHIFT_PERCENT / 100, (even + even * MAX_SHIFT_PERCENT / 100).min(room));
    let mut cost = 0;
    let mut best = (i64::MIN, done + 1);
    for (index, segment) in segments.iter().enumerate().take(end).skip(start) {
        cost += segment.cost;
        if index < done {
            continue;
        }
        if cost > most && index > done {
            return best.1;
        }
        if index + 1 == end {
            // All remaining segments fit into this chunk, so it ends with them.
            return end;
        }
        let distance = (100 * cost.abs_diff(even) / even.max(1)) as i64;
        let early = if cost < least { 1_000 } else { 0 };
        let score = segments[index].after as i64 * BREAK_SCORE - distance - early;
        if score >= best.0 {
            best = (score, index + 1);
        }
    }
    best.1
}

/// Returns the start of the chunk after `start..end`: inside running text some sentences before `end`, as overlap;
/// elsewhere `end`.
fn overlap_start(builder: &Builder, start: usize, end: usize, overlap: usize) -> usize {
    if end >= builder.segments.len() || !builder.is_paragraph(end) {
        return end;
    }
    let mut cost = 0;
    let mut from = end;
    let mut best = end;
    while from > start + 1 && builder.is_paragraph(from - 1) {
        cost += builder.segments[from - 1].cost;
        if cost > overlap {
            break;
        }
        from -= 1;
        if builder.segments[from - 1].after >= Break::Sentence {
            best = from;
        }
    }
    best
}

impl Builder<'_> {
    pub(super) fn cost(&self, range: &Range<usize>) -> usize {
        self.segments[range.clone()].iter().map(|it| it.cost).sum()
    }

    fn is_paragraph(&self, segment: usize) -> bool {
        self.document.blocks[self.segments[segment].block].kind == BlockKind::Paragraph
    }
}
