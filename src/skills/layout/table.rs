//! Finds tables on a page: cells between drawn lines, or pieces aligned in columns over at least three rows.

use crate::model::BlockKind;
use crate::skills::layout::page::{Page, Piece, Rule, StructureMatch, bounding_box};
use crate::skills::layout::reading_order::{Row, white_stripes};

/// Minimum number of rows of a table without drawn lines; fewer may be aligned by chance.
const MIN_ROWS: usize = 3;
/// A column whose cells have at least this many letters on average is running text, not part of a table.
const PROSE_LETTERS: usize = 32;
/// Ends of drawn lines up to this far apart, in points, touch each other.
const TOUCH_DISTANCE: f32 = 3.0;
/// Maximum number of cells of a table. A larger grid, such as a crossword, is not returned as a table.
const MAX_CELLS: usize = 20_000;

/// Finds tables, first those with drawn lines, because their cells are certain.
pub(super) fn find_tables(page: &Page, rows: &[Row], taken: &[bool]) -> Vec<StructureMatch> {
    let mut used = taken.to_vec();
    let mut finds = Vec::new();
    for group in group_touching(&page.rules) {
        finds.extend(ruled_table(page, &group, &used));
        finds.iter().flat_map(|it| &it.pieces).for_each(|at| used[*at] = true);
    }
    finds.extend(aligned_tables(page, rows, &used));
    finds
}

/// Groups drawn lines that touch each other, by comparing the boxes around the groups.
fn group_touching(rules: &[Rule]) -> Vec<Vec<Rule>> {
    let mut groups: Vec<(Rule, Vec<Rule>)> = Vec::new();
    for rule in rules {
        let mut area = *rule;
        let mut members = vec![*rule];
        // Searches again after each merge, because the merged group may touch groups that were separate before.
        while let Some(at) = groups.iter().position(|(other, _)| are_touching(other, &area)) {
            let (other, more) = groups.swap_remove(at);
            members.extend(more);
            area = Rule {
                left: area.left.min(other.left),
                top: area.top.min(other.top),
                right: area.right.max(other.right),
                bottom: area.bottom.max(other.bottom),
            };
        }
        groups.push((area, members));
    }
    groups.into_iter().map(|it| it.1).collect()
}

fn are_touching(a: &Rule, b: &Rule) -> bool {
    a.left <= b.right + TOUCH_DISTANCE
        && b.left <= a.right + TOUCH_DISTANCE
        && a.top <= b.bottom + TOUCH_DISTANCE
        && b.top <= a.bottom + TOUCH_DISTANCE
}

/// Puts the pieces of text into the cells of the grid that these drawn lines form.
fn ruled_table(page: &Page, rules: &[Rule], used: &[bool]) -> Option<StructureMatch> {
    let upright = |it: &&Rule| it.bottom - it.top > it.right - it.left;
    let (uprights, levels): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(upright);
    let columns = merge_edges(uprights.iter().map(|it| (it.left + it.right) / 2.0));
    let lines = merge_edges(levels.iter().map(|it| (it.top + it.bottom) / 2.0));
    let (width, height) = (columns.len().saturating_sub(1), lines.len().saturating_sub(1));
    if width < 2 || height < 2 || width * height > MAX_CELLS {
        return None;
    }
    let place = |edges: &[f32], at: f32| edges.windows(2).position(|it| it[0] <= at && at < it[1]);
    let mut cells = vec![vec![String::new(); width]; height];
    let mut pieces = Vec::new();
    // Goes from top to bottom, so that the lines of a cell are appended in order.
    let mut numbers: Vec<usize> = (0..page.pieces.len()).filter(|it| !used[*it]).collect();
    numbers.sort_by(|a, b| page.pieces[*a].top.total_cmp(&page.pieces[*b].top));
    for number in numbers {
        let piece = &page.pieces[number];
        if let (Some(row), Some(column)) = (place(&lines, piece.middle()), place(&columns, piece.centre())) {
            append_to_cell(&mut cells[row][column], &piece.text);
            pieces.push(number);
        }
    }
    let area = Piece {
        left: *columns.first()?,
        top: *lines.first()?,
        right: *columns.last()?,
        bottom: *lines.last()?,
        ..Piece::default()
    };
    cells.retain(|row| row.iter().any(|it| !it.is_empty()));
    let filled = cells.iter().flatten().filter(|it| !it.is_empty()).count();
    // Requires two rows and four filled cells, because a frame around words is not a table.
    (cells.len() >= 2 && filled >= 4).then(|| to_match(&cells, area, pieces))
}

/// Sorts edges and merges those closer than [`TOUCH_DISTANCE`].
fn merge_edges(edges: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut edges: Vec<f32> = edges.collect();
    edges.sort_by(f32::total_cmp);
    edges.dedup_by(|a, b| *a - *b < TOUCH_DISTANCE);
    edges
}

fn append_to_cell(cell: &mut String, text: &str) {
    if !cell.is_empty() {
        cell.push(' ');
    }
    cell.push_str(text);
}

fn to_match(cells: &[Vec<String>], area: Piece, pieces: Vec<usize>) -> StructureMatch {
    // Replaces `|` in a cell, because it would look like a cell border.
    let line = |row: &Vec<String>| row.iter().map(|it| it.replace('|', "/")).collect::<Vec<_>>().join(" | ");
    let text = cells.iter().map(line).collect::<Vec<_>>().join("\n");
    StructureMatch { kind: BlockKind::Table, text, area, pieces }
}

/// Finds tables without drawn lines: sequences of rows whose pieces leave the same vertical white stripes.
fn aligned_tables(page: &Page, rows: &[Row], used: &[bool]) -> Vec<StructureMatch> {
    let mut finds = Vec::new();
    let free: Vec<(&Row, Vec<usize>)> =
        rows.iter().map(|row| (row, row.pieces.iter().copied().filter(|it| !used[*it]).collect())).collect();
    let mut begin = 0;
    while begin < free.len() {
        if free[begin].1.len() < 2 {
            begin += 1;
            continue;
        }
        let end = table_end(page, &free, begin);
        finds.extend(aligned_table(page, &free[begin..end]));
        begin = end;
    }
    finds
}

/// Returns the end (exclusive) of the table that begins at `begin`: each row is close to the one above and leaves the same
/// white stripes. A row of one piece continues a cell if the piece lies in one column.
fn table_end(page: &Page, free: &[(&Row, Vec<usize>)], begin: usize) -> usize {
    let mut end = begin + 1;
    while end < free.len() {
        let (above, row) = (&free[end - 1].0.area, &free[end].0.area);
        let gap = row.top - above.bottom;
        if gap > 1.8 * above.height().max(row.height()) || free[end].1.is_empty() {
            break;
        }
        let before = stripe_starts(page, &free[begin..end]).len();
        let after = stripe_starts(page, &free[begin..=end]).len();
        if after == 0 || after < before {
            break;
        }
        end += 1;
    }
    while end > begin + 1 && free[end - 1].1.len() < 2 {
        end -= 1;
    }
    end
}

/// Returns the left edges of the white stripes between the pieces of these rows.
fn stripe_starts(page: &Page, rows: &[(&Row, Vec<usize>)]) -> Vec<f32> {
    let pieces = rows.iter().flat_map(|(_, pieces)| pieces.iter().map(|it| &page.pieces[*it]));
    let mut stretches: Vec<_> = pieces.clone().map(|it| it.left..it.right).collect();
    let size = pieces.map(|it| it.size).fold(0.0, f32::max);
    white_stripes(&mut stretches).into_iter().filter(|it| it.end - it.start >= 0.6 * size).map(|it| it.start).collect()
}

fn aligned_table(page: &Page, rows: &[(&Row, Vec<usize>)]) -> Option<StructureMatch> {
    let stripes = stripe_starts(page, rows);
    let full = rows.iter().filter(|(_, pieces)| pieces.len() > 1).count();
    if full < MIN_ROWS || stripes.is_empty() {
        return None;
    }
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut pieces = Vec::new();
    for (_, row) in rows {
        let mut line = vec![String::new(); stripes.len() + 1];
        for at in row {
            let column = stripes.iter().filter(|stripe| page.pieces[*at].left > **stripe).count();
            append_to_cell(&mut line[column], &page.pieces[*at].text);
            pieces.push(*at);
        }
        match (row.len(), cells.last_mut()) {
            // A single piece that is not in the first column continues a cell of the row above.
            (1, Some(above)) if line[0].is_empty() => {
                above
                    .iter_mut()
                    .zip(&line)
                    .filter(|(_, more)| !more.is_empty())
                    .for_each(|(cell, more)| append_to_cell(cell, more));
            }
            _ => cells.push(line),
        }
    }
    (!is_running_text(&cells) && !is_list_of_labels(&cells))
        .then(|| to_match(&cells, bounding_box(pieces.iter().map(|it| &page.pieces[*it])), pieces))
}

/// Returns whether the cells are prose in columns, which is aligned too but has long lines.
fn is_running_text(cells: &[Vec<String>]) -> bool {
    let columns = cells.first().map_or(0, Vec::len);
    let long = (0..columns).filter(|column| {
        let filled: Vec<usize> =
            cells.iter().map(|row| row[*column].chars().count()).filter(|letters| *letters > 0).collect();
        filled.iter().sum::<usize>() >= PROSE_LETTERS * filled.len().max(1)
    });
    long.count() * 2 > columns || columns < 2
}

/// Returns whether the rows are labels with values, i.e. a list of facts.
fn is_list_of_labels(cells: &[Vec<String>]) -> bool {
    let labels = cells.iter().filter(|row| row[0].ends_with(':')).count();
    cells.first().is_some_and(|row| row.len() == 2) && labels * 2 >= cells.len()
}
