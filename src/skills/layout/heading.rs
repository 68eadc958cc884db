//! Finds headings on a page: short lines in larger letters than the surrounding text.

use crate::model::BlockKind;
use crate::skills::layout::page::{Page, StructureMatch};
use crate::skills::layout::reading_order::Row;

/// Maximum length of a heading, in characters; longer text is not a heading.
const MAX_HEADING_CHARS: usize = 120;
/// Minimum ratio of the letter size of a heading to that of the text, for sizes from a PDF.
const MIN_SIZE_RATIO: f32 = 1.15;
/// Minimum ratio of the letter size of a heading to that of the text on an image, where sizes are less exact, because
/// the height of a word's box depends on its letters.
const MIN_SIZE_RATIO_ON_PICTURE: f32 = 1.4;

/// Finds headings. The headings with the largest letters on the page get level 1.
pub(super) fn find_headings(page: &Page, rows: &[Row], taken: &[bool]) -> Vec<StructureMatch> {
    let Some(usual) = usual_size(page) else { return Vec::new() };
    let least = usual * if page.measured { MIN_SIZE_RATIO } else { MIN_SIZE_RATIO_ON_PICTURE };
    let alone = rows.iter().filter_map(|row| match row.pieces[..] {
        [one] if !taken[one] => Some(one),
        _ => None,
    });
    let headings: Vec<usize> = alone
        .filter(|at| {
            let piece = &page.pieces[*at];
            let letters = piece.text.chars().filter(|it| it.is_alphabetic()).count();
            let blank = piece.text.contains("____");
            piece.size >= least && letters >= 3 && !blank && piece.text.chars().count() <= MAX_HEADING_CHARS
        })
        .collect();
    let mut sizes: Vec<i32> = headings.iter().map(|at| quantised_size(page.pieces[*at].size)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let heading = |at: usize| {
        let piece = &page.pieces[at];
        let level = sizes.iter().position(|it| *it == quantised_size(piece.size)).unwrap_or(0) + 1;
        let kind = BlockKind::Heading(level.min(6) as u8);
        StructureMatch { kind, text: piece.text.clone(), area: piece.clone(), pieces: vec![at] }
    };
    let mut finds: Vec<StructureMatch> = Vec::with_capacity(headings.len());
    for at in headings {
        let next = heading(at);
        match finds.last_mut() {
            Some(above) if continues_heading(above, &next) => {
                above.text.push(' ');
                above.text.push_str(&next.text);
                above.area.cover(&next.area);
                above.pieces.extend(next.pieces);
            }
            _ => finds.push(next),
        }
    }
    finds
}

/// Returns whether `next` is the second line of the heading `above`.
fn continues_heading(above: &StructureMatch, next: &StructureMatch) -> bool {
    let gap = next.area.top - above.area.bottom;
    above.kind == next.kind && gap < 0.5 * next.area.size && above.text.chars().count() <= MAX_HEADING_CHARS
}

/// Rounds a letter size to half units, so that visually equal sizes are equal.
fn quantised_size(size: f32) -> i32 {
    (size * 2.0).round() as i32
}

/// Returns the letter size in which most letters of the page are set.
fn usual_size(page: &Page) -> Option<f32> {
    let mut sizes: Vec<(f32, usize)> = page.pieces.iter().map(|it| (it.size, it.text.len())).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: usize = sizes.iter().map(|it| it.1).sum();
    let mut letters = 0;
    sizes
        .into_iter()
        .find(|it| {
            letters += it.1;
            letters * 2 >= total
        })
        .map(|it| it.0)
}
