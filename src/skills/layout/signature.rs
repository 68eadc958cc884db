//! Finds signatures on a page: the signers, the parties they represent, and the dates. Searches for blocks of short lines
//! below words like `signed by`, for lines with `Name` or `Date` below them, and for signature fields of forms.
//!
//! Handwriting on a signature line is not detected; only the words around it are returned.

use std::sync::LazyLock;

use regex::Regex;

use crate::model::BlockKind;
use crate::skills::layout::key_values;
use crate::skills::layout::page::{Field, FieldKind, Page, Piece, StructureMatch, bounding_box};
use crate::skills::layout::reading_order::{Row, group_rows as rows_of, white_stripes};
use crate::skills::layout::signer::{Line, find_signer};

/// Words that begin a signature block, at the start of a short line.
static OPENING_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)^\W*(signed\b|signatures?\b|signature of|in witness whereof|for and on behalf of|on behalf of|authori[sz]ed signat|executed (?:by|as)|unterschrift|unterzeichnet|signé|signatures? des)";
    Regex::new(words).expect("a constant")
});
/// Labels beside or below a signature line, such as `Name` or `Date`.
static PART_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)^\W*(name|print(?:ed)? name|title|position|date|dated|place|by|witness|its|signature|signed|for|datum|ort|fait à|le)\b";
    Regex::new(words).expect("a constant")
});
/// A signature line typed with underscores or dots.
static SIGNATURE_LINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"_{5,}|\.{12,}").expect("a constant"));

/// First line of a signature block in which no name was found.
const UNSIGNED_TITLE: &str = "Signatures";
/// Words for a signature; they may be anywhere in a line that also has a blank to fill in.
static SIGNATURE_WORDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\b(signature|signed|unterschrift)\b").expect("a constant"));

/// Maximum length of a line in a block, in characters; a longer line is a clause about signatures.
const MAX_LINE_CHARS: usize = 70;
/// Maximum gap within a block, in line heights: twice the three lines that a handwritten signature needs.
const MAX_GAP_LINES: f32 = 6.0;
/// Maximum number of rows in a block; the rows after them are not part of it.
const MAX_BLOCK_ROWS: usize = 24;
/// Rows without an opening word such as `signed by` are a block if at least this many have a label such as `Name`.
const MIN_PART_ROWS: usize = 2;

/// Finds signature blocks and signature fields.
pub(super) fn find_signatures(page: &Page, rows: &[Row], taken: &[bool]) -> Vec<StructureMatch> {
    let mut finds = Vec::new();
    let mut next = 0;
    while next < rows.len() {
        let end = block_end(page, rows, next, taken);
        if end > next {
            let pieces: Vec<usize> = rows[next..end].iter().flat_map(|it| &it.pieces).copied().collect();
            finds.push(signature_block(page, pieces));
        }
        next = end.max(next + 1);
    }
    finds.extend(signature_fields(page));
    finds
}

/// Returns the end (exclusive) of the signature block that begins at this row; the row itself if none begins.
fn block_end(page: &Page, rows: &[Row], begin: usize, taken: &[bool]) -> usize {
    let text = |row: &Row| row.pieces.iter().map(|it| page.pieces[*it].text.as_str()).collect::<Vec<_>>();
    let is_short = |row: &Row| text(row).iter().all(|it| it.chars().count() <= MAX_LINE_CHARS);
    let is_free = |row: &Row| row.pieces.iter().all(|it| !taken[*it]);
    let has = |row: &Row, what: &Regex| text(row).iter().any(|it| what.is_match(it));
    let first = &rows[begin];
    let begins = has(first, &OPENING_WORDS) && is_short(first);
    let is_line = text(first).iter().all(|it| SIGNATURE_LINE.is_match(it) && !it.contains(char::is_alphanumeric));
    let may_begin = begins
        || is_line
        || has(first, &SIGNATURE_LINE)
        || (has(first, &PART_WORDS) && is_short(first) && is_on_rule(page, first));
    if !may_begin || !is_free(first) {
        return begin;
    }
    let mut end = begin + 1;
    while end < rows.len().min(begin + MAX_BLOCK_ROWS) {
        let (above, row) = (&rows[end - 1].area, &rows[end]);
        let gap = row.area.top - above.bottom;
        if gap > MAX_GAP_LINES * above.height().max(row.area.height()) || !is_short(row) || !is_free(row) {
            break;
        }
        end += 1;
    }
    let named = rows[begin..end].iter().filter(|row| has(row, &PART_WORDS)).count();
    let parts = rows[begin..end].iter().filter(|row| has(row, &PART_WORDS) || has(row, &SIGNATURE_LINE)).count();
    // Requires more than one sign of a signature block, because a lone `Signature` in a table of contents, or `Name
    // ____` on a form, is not one.
    let enough = match (begins, is_line) {
        (true, _) => parts >= 2 || (parts >= 1 && end - begin >= 3),
        // A block that begins with a signature line needs no label: the names below the line are enough.
        (false, true) => end - begin >= 2,
        (false, false) => named >= MIN_PART_ROWS || (has(first, &SIGNATURE_LINE) && has(first, &SIGNATURE_WORDS)),
    };
    if enough { end } else { begin }
}

/// Returns whether a row is directly below a drawn horizontal line.
fn is_on_rule(page: &Page, row: &Row) -> bool {
    page.rules.iter().any(|rule| {
        let level = rule.right - rule.left > 40.0 && rule.bottom - rule.top < 3.0;
        let near = row.area.top - rule.bottom;
        level && near > -3.0 && near < row.area.height() && rule.left < row.area.right && row.area.left < rule.right
    })
}

/// Creates one block for all signers side by side. The first line names the signers, which answers most questions.
fn signature_block(page: &Page, pieces: Vec<usize>) -> StructureMatch {
    let (head, body) = split_head(page, &pieces);
    let size = body.iter().map(|it| page.pieces[*it].size).fold(0.0, f32::max);
    let mut stretches: Vec<_> = body.iter().map(|it| page.pieces[*it].left..page.pieces[*it].right).collect();
    let gaps = white_stripes(&mut stretches);
    let wide: Vec<f32> = gaps.into_iter().filter(|it| it.end - it.start > 1.5 * size).map(|it| it.start).collect();
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); wide.len() + 1];
    for at in &body {
        let column = wide.iter().filter(|gap| page.pieces[*at].left > **gap).count();
        groups[column].push(*at);
    }
    // Splits into columns only if each has a signer, because labels beside their values look like columns too.
    let several = groups.len() > 1 && groups.iter().all(|it| it.len() > 1 && is_signer(page, it));
    if !several {
        groups = vec![body];
    }
    let groups: Vec<Vec<Line>> = groups.iter().map(|it| block_lines(page, it)).collect();
    let names: Vec<String> = groups.iter().filter_map(|it| find_signer(it)).collect();
    let first = if names.is_empty() { UNSIGNED_TITLE.to_string() } else { format!("Signed by: {}", names.join("; ")) };
    let head = block_lines(page, &head);
    let rest = head.iter().chain(groups.iter().flatten()).map(|it| it.text.clone());
    let text = std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n");
    let area = bounding_box(pieces.iter().map(|it| &page.pieces[*it]));
    StructureMatch { kind: BlockKind::Metadata, text, area, pieces }
}

/// Splits a block into the lines above all signers, i.e. the first rows with a single piece, and the other lines.
fn split_head(page: &Page, pieces: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let copies: Vec<Piece> = pieces.iter().map(|it| page.pieces[*it].clone()).collect();
    let rows = rows_of(&copies);
    let alone = rows.iter().take_while(|it| it.pieces.len() == 1).count();
    let alone = if alone == rows.len() { 0 } else { alone };
    let numbers = |rows: &[Row]| rows.iter().flat_map(|it| &it.pieces).map(|it| pieces[*it]).collect();
    (numbers(&rows[..alone]), numbers(&rows[alone..]))
}

fn is_signer(page: &Page, pieces: &[usize]) -> bool {
    let marks = [&*PART_WORDS, &*OPENING_WORDS, &*SIGNATURE_LINE];
    pieces.iter().any(|it| marks.iter().any(|mark| mark.is_match(&page.pieces[*it].text)))
}

/// Returns the lines of a block, row by row, without the signature lines.
fn block_lines(page: &Page, pieces: &[usize]) -> Vec<Line> {
    let copies: Vec<Piece> = pieces.iter().map(|it| page.pieces[*it].clone()).collect();
    let mut lines = Vec::new();
    let mut below_rule = false;
    for row in rows_of(&copies) {
        let words: Vec<&str> = row.pieces.iter().map(|it| copies[*it].text.as_str()).collect();
        if words.iter().any(|it| it.contains(char::is_alphanumeric)) {
            lines.push(Line { text: words.join(" "), below_rule: below_rule || is_on_rule(page, &row) });
            below_rule = false;
        } else {
            below_rule = words.iter().any(|it| SIGNATURE_LINE.is_match(it));
        }
    }
    lines
}

/// Finds the signature fields of a form.
fn signature_fields(page: &Page) -> Vec<StructureMatch> {
    let signed = page.fields.iter().filter(|it| it.kind == FieldKind::Signature);
    let find = |field: &Field| {
        let label = key_values::field_label(page, &field.place).unwrap_or(field.name.as_str());
        let text = format!("Signature field: {label}");
        StructureMatch { kind: BlockKind::Metadata, text, area: field.place.clone(), pieces: Vec::new() }
    };
    signed.map(find).collect()
}
