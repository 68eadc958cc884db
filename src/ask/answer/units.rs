//! Splits a passage into units that can be quoted alone: sentences, list items, table rows, `key: value` lines. Pure.
//!
//! A heading is not a unit, but belongs to the units below it. A table row is quoted with its column names.

use std::ops::Range;

use crate::text::trimmed_sentences;

/// Separator between the cells of a table row in extracted text.
const CELL_SEPARATOR: &str = " | ";
/// Maximum number of words of a line that counts as a heading inside a passage.
const MAX_HEADING_WORDS: usize = 12;
/// Number of lines above and below a numbered line that are searched for other numbered lines. If one is found, the line
/// is not a heading.
const HEADING_CONTEXT_LINES: usize = 3;
/// Maximum number of characters and words before the colon of a `key: value` line.
const MAX_KEY_CHARS: usize = 40;
const MAX_KEY_WORDS: usize = 5;
/// Maximum number of text units of one passage; text after them is not quoted.
const MAX_UNITS: usize = 200;

/// The form of a text unit (a part of a passage that can be quoted alone).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitForm {
    /// A sentence with its full stop.
    Sentence,
    /// An item of a list.
    Item,
    /// A row of a table.
    Row,
    /// A line of the form `key: value`.
    Field,
    /// A line that does not end like a sentence.
    Fragment,
}

impl UnitForm {
    fn classify(text: &str) -> UnitForm {
        if is_item(text) {
            UnitForm::Item
        } else if is_field(text) {
            UnitForm::Field
        } else if ends_sentence(text) {
            UnitForm::Sentence
        } else {
            UnitForm::Fragment
        }
    }
}

/// A part of a passage that can be quoted alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    /// Byte range of the unit in the passage, without surrounding spaces.
    pub(super) range: Range<usize>,
    pub(super) form: UnitForm,
    /// Byte range of the heading above the unit, if the passage has one. A line that ends with a colon counts as a
    /// heading.
    pub(super) heading: Option<Range<usize>>,
    /// If the unit is a table row: byte range of the header row of this table, if the passage contains it.
    pub(super) head: Option<Range<usize>>,
}

/// Splits a passage into text units: sentences, list items, table rows and `key: value` lines.
pub(super) fn split_units(body: &str) -> Vec<Unit> {
    let mut reader = UnitReader { body, units: Vec::new(), heading: None, head: None };
    let mut prose: Option<Range<usize>> = None;
    let lines = lines(body);
    for (index, line) in lines.iter().enumerate() {
        let text = &body[line.clone()];
        let next = lines.get(index + 1).map_or("", |it| &body[it.clone()]);
        let mut form = LineKind::classify(text, next, prose.is_some());
        if form == LineKind::Prose && is_numbered_heading(body, &lines, index) {
            form = LineKind::Heading;
        }
        if form != LineKind::Row {
            reader.head = None;
        }
        if form == LineKind::Prose {
            prose = Some(prose.map_or(line.start, |it| it.start)..line.end);
            continue;
        }
        reader.prose(prose.take());
        match form {
            LineKind::Blank | LineKind::Prose => (),
            LineKind::Heading => reader.heading = Some(line.clone()),
            LineKind::Row => reader.row(line.clone(), next),
        }
        if reader.units.len() >= MAX_UNITS {
            break;
        }
    }
    reader.prose(prose);
    reader.units.truncate(MAX_UNITS);
    reader.units
}

/// Returns the whole passage as one text unit.
pub(super) fn whole_unit(body: &str) -> Unit {
    Unit { range: 0..body.len(), form: UnitForm::Field, heading: None, head: None }
}

/// Returns a row as text, with the column head before each cell (`head: cell`) if the table has heads.
pub(super) fn row_with_heads(head: Option<&str>, row: &str) -> String {
    let Some(head) = head else { return row.to_string() };
    let heads = cells(head);
    let cells = cells(row);
    if heads.len() < cells.len() {
        return row.to_string();
    }
    let pairs = heads.iter().zip(&cells).filter(|(_, cell)| !cell.is_empty());
    pairs
        .map(|(head, cell)| if head.is_empty() { (*cell).to_string() } else { format!("{head}: {cell}") })
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns the trimmed cells of a table row. If the last cell is empty, the row ends with ` |`, because lines are trimmed.
fn cells(row: &str) -> Vec<&str> {
    let (whole, last) = match row.strip_suffix(CELL_SEPARATOR.trim_end()) {
        Some(whole) => (whole, Some("")),
        None => (row, None),
    };
    whole.split(CELL_SEPARATOR).map(str::trim).chain(last).collect()
}

/// The kind of a line of a passage; consecutive `Prose` lines are split into sentences together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Blank,
    Heading,
    Row,
    Prose,
}

impl LineKind {
    fn classify(text: &str, next: &str, in_prose: bool) -> LineKind {
        if text.is_empty() {
            LineKind::Blank
        } else if text.contains(CELL_SEPARATOR) {
            LineKind::Row
        } else if !in_prose && !is_item(text) && is_heading(text, next) {
            LineKind::Heading
        } else {
            LineKind::Prose
        }
    }
}

struct UnitReader<'a> {
    body: &'a str,
    units: Vec<Unit>,
    heading: Option<Range<usize>>,
    head: Option<Range<usize>>,
}

impl UnitReader<'_> {
    fn add(&mut self, range: Range<usize>, form: UnitForm) {
        if self.body[range.clone()].contains(char::is_alphanumeric) {
            self.units.push(Unit { range, form, heading: self.heading.clone(), head: None });
        }
    }

    fn row(&mut self, range: Range<usize>, next: &str) {
        let is_first = self.head.is_none();
        if is_first && next.contains(CELL_SEPARATOR) && is_head_row(&self.body[range.clone()], next) {
            self.head = Some(range);
            return;
        }
        let head = self.head.clone().filter(|it| !it.is_empty());
        if is_first {
            // Marks the table as one without a header row (empty range), so that no later row is taken for the header.
            self.head = Some(range.start..range.start);
        }
        self.units.push(Unit { range, form: UnitForm::Row, heading: self.heading.clone(), head });
    }

    /// Adds the sentences of consecutive lines of prose as units.
    fn prose(&mut self, range: Option<Range<usize>>) {
        let Some(range) = range else { return };
        let text = &self.body[range.clone()];
        for sentence in trimmed_sentences(text) {
            let form = UnitForm::classify(&text[sentence.clone()]);
            self.add(range.start + sentence.start..range.start + sentence.end, form);
        }
    }
}

/// Returns the byte ranges of the lines of a text without surrounding spaces; blank lines give empty ranges.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let from = start + (line.len() - line.trim_start().len());
            start += line.len();
            from.min(start)..from.min(start) + line.trim().len()
        })
        .collect()
}

/// Returns whether a text ends with sentence punctuation; ignores closing quotes and brackets at the end of the text.
pub(super) fn ends_sentence(text: &str) -> bool {
    let closed = text.trim_end_matches(['"', '\'', ')', ']', '\u{201d}', '\u{2019}', '\u{bb}', '\u{300d}']);
    closed.ends_with(['.', '!', '?', '\u{2026}', '\u{3002}', '\u{ff01}', '\u{ff1f}', '\u{61f}', '\u{964}'])
}

fn is_item(line: &str) -> bool {
    let mark = line.split_whitespace().next().unwrap_or_default();
    let is_bullet = matches!(mark, "-" | "*" | "+" | "\u{2022}" | "\u{2013}" | "\u{25aa}" | "\u{25cf}" | "\u{b7}");
    (is_bullet && line.len() > mark.len()) || is_numbered(line)
}

fn is_numbered(line: &str) -> bool {
    let mark = line.split_whitespace().next().unwrap_or_default();
    let number = mark.trim_start_matches('(');
    number.len() <= 4
        && number.ends_with(['.', ')'])
        && number.trim_end_matches(['.', ')']).chars().all(|it| it.is_ascii_digit())
        && number.starts_with(|it: char| it.is_ascii_digit())
        && line.len() > mark.len()
}

/// Returns whether a line is a heading: short, without a full stop at its end, and directly above a line that does not
/// continue it. A line that ends with a colon, above another line, is a heading too.
fn is_heading(line: &str, next: &str) -> bool {
    if line.ends_with(':') {
        return !next.is_empty();
    }
    let begins = next.chars().next().is_some_and(|it| it.is_uppercase() || it.is_numeric() || !it.is_alphanumeric());
    begins
        && !ends_sentence(line)
        && !line.ends_with([',', ';'])
        && !is_field(line)
        && line.split_whitespace().count() <= MAX_HEADING_WORDS
}

/// Returns whether a numbered line is a heading (`7. Payment`): short, without a full stop at its end, and with no other
/// numbered line near, as in a list.
fn is_numbered_heading(body: &str, lines: &[Range<usize>], index: usize) -> bool {
    let text = |at: usize| &body[lines[at].clone()];
    let line = text(index);
    if !is_numbered(line) || ends_sentence(line) || line.split_whitespace().count() > MAX_HEADING_WORDS {
        return false;
    }
    let near = |at: &usize| !text(*at).is_empty();
    let before = (0..index).rev().take(HEADING_CONTEXT_LINES).find(near).map(text);
    let behind = (index + 1..lines.len()).take(HEADING_CONTEXT_LINES).find(near).map(text);
    let stands_alone = index == 0 || text(index - 1).is_empty() || ends_sentence(text(index - 1));
    stands_alone && !before.is_some_and(is_numbered) && behind.is_some_and(|it| !is_numbered(it))
}

fn is_field(line: &str) -> bool {
    let Some((key, value)) = line.split_once(": ") else { return false };
    let is_key = key.starts_with(char::is_alphanumeric) && key.split_whitespace().count() <= MAX_KEY_WORDS;
    is_key && key.chars().count() <= MAX_KEY_CHARS && !ends_sentence(key) && !value.trim().is_empty()
}

/// Returns whether the first row of a table is a header: it has no numbers except years, and as many cells as the next
/// row.
fn is_head_row(first: &str, next: &str) -> bool {
    let cells = cells(first);
    let is_number = |it: &&str| {
        let digits = it.chars().filter(char::is_ascii_digit).count();
        digits > 0 && digits * 2 >= it.chars().filter(|it| it.is_alphanumeric()).count()
    };
    cells.len() == self::cells(next).len() && !cells.iter().any(|it| is_number(it) && it.len() != 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &[(UnitForm, &str)]) {
        let found: Vec<(UnitForm, &str)> =
            split_units(body).iter().map(|it| (it.form, &body[it.range.clone()])).collect();
        assert_eq!(found, expected, "{body:?}");
    }

    #[test]
    fn heading_is_context_not_a_unit() {
        let body = "Rent\nThe rent is 412.50 EUR a month. It is due on the first.";
        check(
            body,
            &[(UnitForm::Sentence, "The rent is 412.50 EUR a month."), (UnitForm::Sentence, "It is due on the first.")],
        );
        assert_eq!(split_units(body)[0].heading, Some(0..4));
    }

    #[test]
    fn items_fields_and_fragments_become_units() {
        check(
            "Bring:\n- the thin gloves\n- tea, no sugar\n\nWeight: 31 kg\n\n200 g red lentils",
            &[
                (UnitForm::Item, "- the thin gloves"),
                (UnitForm::Item, "- tea, no sugar"),
                (UnitForm::Field, "Weight: 31 kg"),
                (UnitForm::Fragment, "200 g red lentils"),
            ],
        );
    }

    #[test]
    fn numbered_line_is_heading_unless_in_a_list() {
        let body = "6. Term\nIt runs for a year.\n7. Payment after damage\n\nThe insurer pays within 30 days.";
        let texts = |body: &'static str| split_units(body).iter().map(|it| &body[it.range.clone()]).collect::<Vec<_>>();
        assert_eq!(texts(body), ["It runs for a year.", "The insurer pays within 30 days."]);
        assert_eq!(split_units(body)[1].heading.clone().map(|it| &body[it]), Some("7. Payment after damage"));
        assert_eq!(texts("Buy:\n1. milk\n2. eggs\n\nThen rest."), ["1. milk", "2. eggs", "Then rest."]);
        assert_eq!(texts("1. The boat leaks."), ["1. The boat leaks."]);
    }

    #[test]
    fn row_is_quoted_with_column_heads() {
        let body = "Month | Amount | Note\nAugust | 31.50 | \nDecember | 12.00 | paid";
        let units = split_units(body);
        assert_eq!(units.len(), 2);
        let head = units[1].head.clone().map(|it| &body[it]);
        assert_eq!(row_with_heads(head, &body[units[1].range.clone()]), "Month: December; Amount: 12.00; Note: paid");
        assert_eq!(row_with_heads(head, "a | b"), "Month: a; Amount: b");
        assert_eq!(row_with_heads(head, "a | b | c | d"), "a | b | c | d", "more cells than heads");
    }

    #[test]
    fn table_without_heads_yields_plain_rows() {
        let body = "1 | 2\n3 | 4\na | b";
        assert_eq!(split_units(body).iter().filter(|it| it.head.is_none()).count(), 3);
    }

    #[test]
    fn units_of_huge_passage_are_bounded() {
        assert_eq!(split_units(&"word.\n".repeat(100_000)).len(), MAX_UNITS);
        assert!(split_units("").is_empty());
        assert!(split_units("\n \n|\n").iter().all(|it| !it.range.is_empty()));
    }
}
