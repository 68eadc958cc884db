//! Groups pieces of text into rows, and sorts areas of a page into reading order.

use std::ops::Range;

use crate::skills::layout::page::{Piece, bounding_box};

/// A gap of at least this width, in letters, separates two pieces of a row; word spaces are narrower, even in justified
/// text.
pub(super) const WIDE_GAP: f32 = 1.2;

/// Maximum number of horizontal white stripes that are checked for columns above or below them; a page has few that
/// matter. If no such stripe has columns, the area is cut at its widest stripe.
const MAX_STRIPES_TRIED: usize = 50;

/// Pieces of text at the same height, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Indices of the pieces on the page, from left to right.
    pub(super) pieces: Vec<usize>,
    /// The box around the pieces.
    pub(super) area: Piece,
}

/// Groups pieces into rows, from top to bottom.
pub(super) fn group_rows(pieces: &[Piece]) -> Vec<Row> {
    let mut numbers: Vec<usize> = (0..pieces.len()).collect();
    numbers.sort_by(|a, b| pieces[*a].middle().total_cmp(&pieces[*b].middle()));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for number in numbers {
        let piece = &pieces[number];
        match groups.last_mut() {
            Some(group) if is_beside(&pieces[group[0]], piece) => group.push(number),
            _ => groups.push(vec![number]),
        }
    }
    let row = |mut group: Vec<usize>| {
        group.sort_by(|a, b| pieces[*a].left.total_cmp(&pieces[*b].left));
        let area = bounding_box(group.iter().map(|it| &pieces[*it]));
        Row { pieces: group, area }
    };
    groups.into_iter().map(row).collect()
}

/// Returns whether two pieces overlap vertically by at least half the height of the smaller one.
fn is_beside(a: &Piece, b: &Piece) -> bool {
    let shared = a.bottom.min(b.bottom) - a.top.max(b.top);
    shared >= 0.5 * a.height().min(b.height())
}

/// Joins pieces of a row that are only a word space apart, because files often draw a line in several steps.
pub(super) fn join_pieces(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut result: Vec<Piece> = Vec::with_capacity(pieces.len());
    for row in group_rows(&pieces) {
        let begin = result.len();
        for number in row.pieces {
            let piece = &pieces[number];
            match result[begin..].last_mut() {
                Some(last) if piece.left - last.right <= WIDE_GAP * last.size.max(piece.size) => {
                    if piece.left - last.right > 0.15 * piece.size && !last.text.ends_with(' ') {
                        last.text.push(' ');
                    }
                    last.text.push_str(&piece.text);
                    last.cover(piece);
                }
                _ => result.push(piece.clone()),
            }
        }
    }
    for piece in &mut result {
        piece.text = piece.text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    result.retain(|it| !it.text.is_empty());
    result
}

/// Returns the white stripes between these intervals, i.e. the gaps of their union, in ascending order.
pub(super) fn white_stripes(stretches: &mut [Range<f32>]) -> Vec<Range<f32>> {
    stretches.sort_by(|a, b| a.start.total_cmp(&b.start));
    let mut gaps = Vec::new();
    let mut reached = f32::INFINITY;
    for stretch in stretches.iter() {
        if stretch.start > reached {
            gaps.push(reached..stretch.start);
        }
        reached = if reached.is_finite() { reached.max(stretch.end) } else { stretch.end };
    }
    gaps
}

/// Returns the indices of these areas in reading order: each column from top to bottom, one column after the other.
pub(super) fn reading_order(places: &[&Piece]) -> Vec<usize> {
    let mut ordered = Vec::with_capacity(places.len());
    xy_cut(places, (0..places.len()).collect(), &mut ordered);
    ordered
}

/// Sorts the areas in `part` into reading order by a recursive XY cut along white stripes: vertically between columns;
/// else horizontally at a stripe with columns above or below it; else at the widest horizontal stripe.
fn xy_cut(places: &[&Piece], mut part: Vec<usize>, ordered: &mut Vec<usize>) {
    if let Some(at) = column_gap(places, &part) {
        let (left, right) = part.into_iter().partition(|it| places[*it].left <= at);
        xy_cut(places, left, ordered);
        xy_cut(places, right, ordered);
        return;
    }
    let mut across: Vec<Range<f32>> = part.iter().map(|it| places[*it].top..places[*it].bottom).collect();
    let stripes = white_stripes(&mut across);
    let split = |at: f32| part.iter().copied().partition::<Vec<usize>, _>(|it| places[*it].top <= at);
    let frees_columns = |stripe: &&Range<f32>| {
        let (above, below) = split(stripe.start);
        column_gap(places, &above).is_some() || column_gap(places, &below).is_some()
    };
    let found = stripes.iter().take(MAX_STRIPES_TRIED).find(frees_columns).or_else(|| widest_stripe(&stripes));
    if let Some(stripe) = found {
        let (above, below) = split(stripe.start);
        xy_cut(places, above, ordered);
        xy_cut(places, below, ordered);
    } else {
        let key = |it: &usize| (places[*it].top, places[*it].left);
        part.sort_by(|a, b| key(a).0.total_cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
        ordered.extend(part);
    }
}

/// Returns the left edge of the widest vertical white stripe, if it separates two columns. Each side must have several
/// areas, because single areas side by side are a row.
fn column_gap(places: &[&Piece], part: &[usize]) -> Option<f32> {
    let mut along: Vec<_> = part.iter().map(|it| places[*it].left..places[*it].right).collect();
    let at = widest_stripe(&white_stripes(&mut along))?.start;
    let left = part.iter().filter(|it| places[**it].left <= at).count();
    (left.min(part.len() - left) > 1).then_some(at)
}

fn widest_stripe(gaps: &[Range<f32>]) -> Option<&Range<f32>> {
    gaps.iter().max_by(|a, b| (a.end - a.start).total_cmp(&(b.end - b.start)))
}
