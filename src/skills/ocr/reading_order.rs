//! Reading order of a page: columns one after the other, in a column the rows from top to bottom, in a row the pieces from
//! left to right.
//!
//! Pure geometry on boxes that are already upright. Two groups of pieces side by side are columns only if both look like
//! running text; otherwise, as on receipts and in tables, they are read row by row.

/// The box of a piece of text on the upright page, with properties of its text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
    /// Number of characters of the text, without blanks.
    pub(crate) characters: usize,
    /// Number of letters in the text.
    pub(crate) letters: usize,
    /// Whether the text contains a colon, as between a label and its value.
    pub(crate) has_label: bool,
}

impl Extent {
    /// Adds the properties of the text: its length, and whether it looks like running text.
    pub(crate) fn with_text(self, text: &str) -> Extent {
        let characters = || text.chars().filter(|it| !it.is_whitespace());
        Extent {
            characters: characters().count(),
            letters: characters().filter(|it| it.is_alphabetic()).count(),
            has_label: text.contains(':'),
            ..self
        }
    }

    fn middle(&self) -> f32 {
        (self.top + self.bottom) / 2.0
    }

    fn height(&self) -> f32 {
        self.bottom - self.top
    }
}

/// Pieces of text at the same height, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Indices of the pieces, left to right.
    pub(crate) pieces: Vec<usize>,
    /// Number of the paragraph of the row, counted over the page.
    pub(crate) block: u32,
}

/// Maximum depth of nested columns; deeper nesting is taken for a table.
const MAX_COLUMN_DEPTH: usize = 8;
/// Maximum number of positions tried for a gutter, the gap between two columns.
const MAX_GUTTERS: usize = 200;
/// Minimum width of a gutter, in line heights.
const MIN_GUTTER: f32 = 0.2;
/// How far a piece may reach across a gutter, in line heights: columns on a photo of a page are not straight.
const GUTTER_SLACK: f32 = 0.5;
/// How far the box of a piece reaches beyond its letters at either end, in heights of the box.
const OVERHANG: f32 = 0.2;
/// Minimum number of rows in a column.
const MIN_COLUMN_ROWS: usize = 4;
/// Minimum median number of characters in the rows of a column.
const MIN_COLUMN_CHARACTERS: usize = 14;
/// Minimum fraction of a column's width that its median row fills.
const MIN_COLUMN_FILL: f32 = 0.45;
/// Minimum fraction of letters in running text; prices, dates and article numbers have fewer.
const MIN_LETTER_SHARE: f32 = 0.75;
/// If a larger fraction of rows contains a colon, the rows are a form, which is read row by row.
const MAX_LABEL_SHARE: f32 = 0.34;
/// Minimum vertical overlap of two pieces of a row, as a fraction of the smaller height.
const ROW_OVERLAP: f32 = 0.5;
/// A row distance larger than the usual one by this factor starts a new paragraph.
const PARAGRAPH_GAP: f32 = 1.45;
/// Rows whose heights differ by more than this factor belong to different paragraphs.
const PARAGRAPH_SIZE_RATIO: f32 = 1.45;

/// Arranges the pieces of a page in rows in reading order.
pub(crate) fn reading_order(boxes: &[Extent]) -> Vec<Row> {
    let trimmed = |it: &Extent| {
        let overhang = (OVERHANG * it.height()).min((it.right - it.left) / 4.0);
        Extent { left: it.left + overhang, right: it.right - overhang, ..*it }
    };
    let boxes: &[Extent] = &boxes.iter().map(trimmed).collect::<Vec<_>>();
    let mut regions = Vec::new();
    split_region(boxes, (0..boxes.len()).collect(), 0, &mut regions);
    let mut found = Vec::new();
    let mut block = 0;
    for region in regions {
        let rows = group_rows(boxes, &region);
        let usual = usual_row_distance(boxes, &rows);
        for (at, pieces) in rows.iter().enumerate() {
            let parted = at > 0 && starts_paragraph(boxes, &rows[at - 1], pieces, usual);
            block += u32::from(at == 0 || parted);
            found.push(Row { pieces: pieces.clone(), block: block - 1 });
        }
    }
    found
}

/// Splits a region at its best gutter into the part above, the columns, and the part below, recursively.
fn split_region(boxes: &[Extent], region: Vec<usize>, depth: usize, regions: &mut Vec<Vec<usize>>) {
    let Some(columns) = best_columns(boxes, &region).filter(|_| depth < MAX_COLUMN_DEPTH) else {
        if !region.is_empty() {
            regions.push(region);
        }
        return;
    };
    for part in columns.parts {
        split_region(boxes, part, depth + 1, regions);
    }
}

/// A region split into two columns at a gutter.
struct ColumnSplit {
    /// The pieces above the columns, the left column, the right column, the insets (captions and images between the
    /// columns), and the pieces below.
    parts: [Vec<usize>; 5],
    /// Score of the split: the number of rows in the column with fewer rows, minus the number of insets.
    rows: usize,
    width: f32,
}

fn best_columns(boxes: &[Extent], region: &[usize]) -> Option<ColumnSplit> {
    if region.len() < 2 * MIN_COLUMN_ROWS {
        return None;
    }
    let height = median(region.iter().map(|at| boxes[*at].height()));
    let mut best: Option<ColumnSplit> = None;
    for at in gutter_positions(boxes, region, height) {
        let gutter = Gutter::new(boxes, region, at, height);
        for band in gutter.bands(boxes) {
            let Some(columns) = gutter.split_columns(boxes, region, band, height) else { continue };
            let merits = |it: &ColumnSplit| (it.rows, it.parts[1].len() + it.parts[2].len());
            let better = |it: &ColumnSplit| {
                merits(&columns) > merits(it) || merits(&columns) == merits(it) && columns.width > it.width
            };
            if best.as_ref().is_none_or(better) {
                best = Some(columns);
            }
        }
    }
    best
}

/// Returns the positions where a gutter may run: at the right end of a piece, with another piece further right.
fn gutter_positions(boxes: &[Extent], region: &[usize], height: f32) -> Vec<f32> {
    let reach = MIN_GUTTER * height;
    let mut ends: Vec<f32> = region.iter().map(|at| boxes[*at].right + reach / 2.0).collect();
    ends.sort_by(f32::total_cmp);
    ends.dedup_by(|a, b| (*a - *b).abs() < reach / 2.0);
    let last = region.iter().map(|at| boxes[*at].left).fold(f32::NEG_INFINITY, f32::max);
    ends.retain(|it| *it < last);
    // If there are too many positions, only every n-th is tried.
    let stride = ends.len().div_ceil(MAX_GUTTERS).max(1);
    ends.into_iter().step_by(stride).collect()
}

/// A possible gutter of a region, and the pieces that cross it.
struct Gutter {
    at: f32,
    /// Pieces across the gutter that end both columns, such as headings.
    crossing: Vec<usize>,
    /// Pieces across the gutter with text on both sides, such as captions and images around which the columns flow.
    insets: Vec<usize>,
}

impl Gutter {
    fn new(boxes: &[Extent], region: &[usize], at: f32, height: f32) -> Gutter {
        let slack = GUTTER_SLACK * height;
        let crosses = |it: &&usize| boxes[**it].left < at - slack && boxes[**it].right > at + slack;
        let (crossing, others): (Vec<usize>, Vec<usize>) = region.iter().partition(crosses);
        let beside = |piece: &Extent, other: &Extent| {
            other.bottom.min(piece.bottom) - other.top.max(piece.top) >= ROW_OVERLAP * piece.height()
        };
        let flowed_around = |it: &usize| {
            let piece = &boxes[*it];
            let mut neighbours = others.iter().map(|at| &boxes[*at]).filter(|other| beside(piece, other));
            let left = neighbours.clone().any(|it| it.right <= piece.left);
            left && neighbours.any(|it| it.left >= piece.right)
        };
        let (insets, crossing) = crossing.into_iter().partition(flowed_around);
        Gutter { at, crossing, insets }
    }

    /// Returns the vertical ranges between the crossing pieces.
    fn bands(&self, boxes: &[Extent]) -> Vec<(f32, f32)> {
        let mut edges: Vec<f32> = self.crossing.iter().map(|it| boxes[*it].middle()).collect();
        edges.extend([f32::NEG_INFINITY, f32::INFINITY]);
        edges.sort_by(f32::total_cmp);
        edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Splits the region in this vertical range, if the gutter separates two columns of running text there.
    fn split_columns(&self, boxes: &[Extent], region: &[usize], band: (f32, f32), height: f32) -> Option<ColumnSplit> {
        let inside = |at: &usize| boxes[*at].middle() > band.0 && boxes[*at].middle() < band.1;
        let (insets, rest): (Vec<usize>, Vec<usize>) =
            region.iter().filter(|it| inside(it)).partition(|it| self.insets.contains(it));
        let (left, right): (Vec<usize>, Vec<usize>) =
            rest.into_iter().partition(|at| boxes[*at].left + boxes[*at].right <= 2.0 * self.at);
        if left.len() < MIN_COLUMN_ROWS || right.len() < MIN_COLUMN_ROWS {
            return None;
        }
        // Uses quantiles, because a few rows may reach beyond the edge of their column.
        let start = quantile(right.iter().map(|at| boxes[*at].left), 0.1);
        let end = quantile(left.iter().map(|at| boxes[*at].right), 0.9);
        if start - end < MIN_GUTTER * height || !are_side_by_side(boxes, &left, &right) {
            return None;
        }
        // Subtracts the insets, so that a position at the ragged edge of a column, where many rows cross, scores low.
        let rows = running_rows(boxes, &left)?.min(running_rows(boxes, &right)?).checked_sub(insets.len())?;
        let above = region.iter().filter(|at| boxes[**at].middle() <= band.0).copied().collect();
        let below = region.iter().filter(|at| boxes[**at].middle() >= band.1).copied().collect();
        Some(ColumnSplit { parts: [above, left, right, insets, below], rows, width: start - end })
    }
}

/// Returns whether two groups of pieces overlap vertically by at least half the height of the smaller group.
fn are_side_by_side(boxes: &[Extent], left: &[usize], right: &[usize]) -> bool {
    let extent = |group: &[usize]| {
        let top = group.iter().map(|at| boxes[*at].top).fold(f32::INFINITY, f32::min);
        let bottom = group.iter().map(|at| boxes[*at].bottom).fold(f32::NEG_INFINITY, f32::max);
        (top, bottom)
    };
    let (a, b) = (extent(left), extent(right));
    a.1.min(b.1) - a.0.max(b.0) >= 0.5 * (a.1 - a.0).min(b.1 - b.0)
}

/// Returns the number of rows of a column of running text; `None` if it is something else.
fn running_rows(boxes: &[Extent], column: &[usize]) -> Option<usize> {
    let rows = group_rows(boxes, column);
    if rows.len() < MIN_COLUMN_ROWS {
        return None;
    }
    let left = column.iter().map(|at| boxes[*at].left).fold(f32::INFINITY, f32::min);
    let right = column.iter().map(|at| boxes[*at].right).fold(f32::NEG_INFINITY, f32::max);
    let characters = median(rows.iter().map(|row| row.iter().map(|at| boxes[*at].characters as f32).sum::<f32>()));
    let filled = median(rows.iter().map(|row| row.iter().map(|at| boxes[*at].right - boxes[*at].left).sum::<f32>()));
    let count = |of: fn(&Extent) -> usize| column.iter().map(|at| of(&boxes[*at])).sum::<usize>() as f32;
    let labels = rows.iter().filter(|row| row.iter().any(|at| boxes[*at].has_label)).count() as f32;
    let running = characters >= MIN_COLUMN_CHARACTERS as f32
        && filled >= MIN_COLUMN_FILL * (right - left)
        && count(|it| it.letters) >= MIN_LETTER_SHARE * count(|it| it.characters)
        && labels < MAX_LABEL_SHARE * rows.len() as f32;
    running.then_some(rows.len())
}

/// Groups pieces into rows, from top to bottom, each from left to right.
///
/// A piece joins the row whose last piece it overlaps most, so that a row may follow the curve of a page.
fn group_rows(boxes: &[Extent], region: &[usize]) -> Vec<Vec<usize>> {
    let mut sorted = region.to_vec();
    sorted.sort_by(|a, b| boxes[*a].left.total_cmp(&boxes[*b].left).then(a.cmp(b)));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for at in sorted {
        let overlap = |row: &Vec<usize>| {
            let (last, piece) = (boxes[row[row.len() - 1]], boxes[at]);
            let shared = last.bottom.min(piece.bottom) - last.top.max(piece.top);
            // Does not join pieces that overlap horizontally, because they are different lines of a narrow column.
            let apart = piece.left - last.right > -0.5 * (last.right - last.left).min(piece.right - piece.left);
            if apart { shared / last.height().min(piece.height()).max(1.0) } else { 0.0 }
        };
        let best = rows.iter().map(overlap).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        match best.filter(|it| it.1 >= ROW_OVERLAP) {
            Some((row, _)) => rows[row].push(at),
            None => rows.push(vec![at]),
        }
    }
    rows.sort_by(|a, b| row_middle(boxes, a).total_cmp(&row_middle(boxes, b)));
    rows
}

fn row_middle(boxes: &[Extent], row: &[usize]) -> f32 {
    row.iter().map(|at| boxes[*at].middle()).sum::<f32>() / row.len() as f32
}

fn usual_row_distance(boxes: &[Extent], rows: &[Vec<usize>]) -> f32 {
    median(rows.windows(2).map(|pair| row_middle(boxes, &pair[1]) - row_middle(boxes, &pair[0])))
}

fn starts_paragraph(boxes: &[Extent], above: &[usize], below: &[usize], usual: f32) -> bool {
    let height = |row: &[usize]| median(row.iter().map(|at| boxes[*at].height()));
    let (a, b) = (height(above), height(below));
    let distance = row_middle(boxes, below) - row_middle(boxes, above);
    distance > PARAGRAPH_GAP * usual || a.max(b) > PARAGRAPH_SIZE_RATIO * a.min(b)
}

/// Returns the median of the values; 0 if there are none.
fn median(values: impl Iterator<Item = f32>) -> f32 {
    quantile(values, 0.5)
}

fn quantile(values: impl Iterator<Item = f32>, share: f32) -> f32 {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    values.get((values.len() as f32 * share) as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a page drawn as text, with 10 x 20 pixels per letter and two blanks between pieces; checks the rows found.
    fn check(page: &str, expect: &[&str]) {
        let mut boxes = Vec::new();
        let mut texts = Vec::new();
        for (line, text) in page.lines().enumerate() {
            let mut from = 0;
            for part in text.split("  ") {
                let skipped = part.len() - part.trim_start().len();
                let words = part.trim();
                if !words.is_empty() {
                    let left = (from + skipped) as f32 * 10.0;
                    let (top, right) = (line as f32 * 20.0, left + words.len() as f32 * 10.0);
                    boxes.push(Extent { left, top, right, bottom: top + 18.0, ..Extent::default() }.with_text(words));
                    texts.push(words);
                }
                from += part.len() + 2;
            }
        }
        let rows = reading_order(&boxes);
        let read: Vec<String> =
            rows.iter().map(|row| row.pieces.iter().map(|at| texts[*at]).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(read, expect);
    }

    #[test]
    fn two_columns_are_read_in_order() {
        check(
            "The tide gauge at the   storm had torn away in\n\
             end of the pier was     the night. Pilots had\n\
             found bent, and its     seen it happen, and the\n\
             cable, which the        keeper was asleep.",
            &[
                "The tide gauge at the",
                "end of the pier was",
                "found bent, and its",
                "cable, which the",
                "storm had torn away in",
                "the night. Pilots had",
                "seen it happen, and the",
                "keeper was asleep.",
            ],
        );
    }

    #[test]
    fn heading_and_footer_surround_columns() {
        check(
            "A heading that runs across the whole page\n\
             the first column with   the second column with\n\
             some rows of running    some more rows of text\n\
             text in its lines       in every line of it\n\
             and then one more       and after it the end\n\
             A footer that runs across the whole page too",
            &[
                "A heading that runs across the whole page",
                "the first column with",
                "some rows of running",
                "text in its lines",
                "and then one more",
                "the second column with",
                "some more rows of text",
                "in every line of it",
                "and after it the end",
                "A footer that runs across the whole page too",
            ],
        );
    }

    #[test]
    fn three_columns_are_read_left_to_right() {
        check(
            "first column of it   second column it is   third column at last\n\
             goes on like this    goes on like that     goes on like those\n\
             and has four rows    and has four rows     and has four rows\n\
             until it is done.    until it is done.     until it is done.",
            &[
                "first column of it",
                "goes on like this",
                "and has four rows",
                "until it is done.",
                "second column it is",
                "goes on like that",
                "and has four rows",
                "until it is done.",
                "third column at last",
                "goes on like those",
                "and has four rows",
                "until it is done.",
            ],
        );
    }

    #[test]
    fn caption_inside_columns_comes_after_them() {
        check(
            "the left column begins up here   and the right one begins there\n\
             and is as wide as the other is   with as many rows as the other\n\
             until it is    A picture of the sea     squeezed by one\n\
             squeezed by    which pupils painted     caption in them\n\
             and then goes on down the page   and then goes on all the same\n\
             with more rows of running text   as if nothing had been there",
            &[
                "the left column begins up here",
                "and is as wide as the other is",
                "until it is",
                "squeezed by",
                "and then goes on down the page",
                "with more rows of running text",
                "and the right one begins there",
                "with as many rows as the other",
                "squeezed by one",
                "caption in them",
                "and then goes on all the same",
                "as if nothing had been there",
                "A picture of the sea",
                "which pupils painted",
            ],
        );
    }

    #[test]
    fn skewed_columns_are_detected() {
        let mut boxes = Vec::new();
        for row in 0..8 {
            let (shift, top) = (2.0 * row as f32, 22.0 * row as f32);
            let piece = |left: f32| {
                let extent = Extent { left: left - shift, top, right: left - shift + 300.0, ..Extent::default() };
                Extent { bottom: top + 20.0, ..extent }.with_text("words in a column of text")
            };
            boxes.extend([piece(20.0), piece(330.0)]);
        }
        let read: Vec<usize> = reading_order(&boxes).into_iter().flat_map(|it| it.pieces).collect();
        assert_eq!(read, [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]);
    }

    #[test]
    fn receipt_is_read_row_by_row() {
        check(
            "FISH AND TWO SIDE DISHES      12.50\n\
             A POT OF TEA FOR THREE         4.20\n\
             TOTAL OF BOTH WITH TAX        16.70\n\
             CASH AS GIVEN BY GUEST        20.00",
            &[
                "FISH AND TWO SIDE DISHES 12.50",
                "A POT OF TEA FOR THREE 4.20",
                "TOTAL OF BOTH WITH TAX 16.70",
                "CASH AS GIVEN BY GUEST 20.00",
            ],
        );
    }

    #[test]
    fn invoice_head_is_read_row_by_row() {
        check(
            "Bill to: Salt and Sons     Date: 3 March 2025\n\
             Place: The Long Quay 4     Number: SF-2025-04\n\
             Order: by telephone        Terms: thirty days\n\
             Agent: Hedda Lindqvist     Page: one out of two",
            &[
                "Bill to: Salt and Sons Date: 3 March 2025",
                "Place: The Long Quay 4 Number: SF-2025-04",
                "Order: by telephone Terms: thirty days",
                "Agent: Hedda Lindqvist Page: one out of two",
            ],
        );
    }

    #[test]
    fn wide_gap_starts_paragraph() {
        let row = |top: f32| Extent { left: 0.0, top, right: 90.0, bottom: top + 10.0, ..Extent::default() };
        let blocks: Vec<u32> =
            reading_order(&[row(0.0), row(12.0), row(24.0), row(60.0), row(72.0)]).iter().map(|it| it.block).collect();
        assert_eq!(blocks, [0, 0, 0, 1, 1]);
    }

    #[test]
    fn empty_page_has_no_rows() {
        assert!(reading_order(&[]).is_empty());
    }
}
