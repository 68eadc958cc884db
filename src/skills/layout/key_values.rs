//! Finds facts on a page, i.e. labels with values, as lines `label: value`; on forms, the fields give the values.

use std::sync::LazyLock;

use regex::Regex;

use crate::model::BlockKind;
use crate::skills::layout::page::{FieldKind, Page, Piece, StructureMatch, bounding_box};
use crate::skills::layout::reading_order::Row;

/// Maximum length of a label, in characters; longer text is a sentence.
const MAX_LABEL_CHARS: usize = 40;
/// Maximum number of words in a label; a text with more words is a sentence.
const MAX_LABEL_WORDS: usize = 6;
/// Maximum length of a value, in characters; longer text is running text.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum distance between two facts of one list, in line heights; after a larger gap, a new list begins.
const MAX_LIST_GAP: f32 = 2.5;

static INSIDE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\p{L}[^:]{0,60}?)\s*:\s+(\S.*)$").expect("a constant"));
static LEADERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\p{L}.*?)\s*(?:[.…·_]\s?){4,}\s*(\S.*)$").expect("a constant"));

static BLANK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[._…]{4,}").expect("a constant"));

/// A label with its value, and the pieces of text that they come from.
struct LabelValue {
    line: String,
    area: Piece,
    pieces: Vec<usize>,
}

/// Finds facts, and groups those that are close together into lists.
pub(super) fn find_facts(page: &Page, rows: &[Row], taken: &[bool]) -> Vec<StructureMatch> {
    let mut used = taken.to_vec();
    let mut pairs = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for place in 0..row.pieces.len() {
            let at = row.pieces[place];
            if used[at] {
                continue;
            }
            let beside = row.pieces.get(place + 1).copied().filter(|it| !used[*it]);
            let pair =
                pair_in_piece(page, at).or_else(|| pair_with_neighbour(page, at, beside, rows.get(index + 1), &used));
            if let Some(pair) = pair {
                pair.pieces.iter().for_each(|it| used[*it] = true);
                pairs.push(pair);
            }
        }
    }
    group_into_lists(pairs)
}

/// Finds label and value in one piece of text, separated by a colon or by dot leaders.
fn pair_in_piece(page: &Page, at: usize) -> Option<LabelValue> {
    let piece = &page.pieces[at];
    let found = LEADERS.captures(&piece.text).or_else(|| INSIDE.captures(&piece.text))?;
    let (label, value) = (found.get(1)?.as_str(), found.get(2)?.as_str());
    is_fact(label, value).then(|| LabelValue { line: fact_line(label, value), area: piece.clone(), pieces: vec![at] })
}

/// Returns whether the two texts are a label and its value, rather than a sentence with a colon or an empty form field.
fn is_fact(label: &str, value: &str) -> bool {
    let blank = BLANK.is_match(value) || !value.contains(char::is_alphanumeric);
    let is_sentence = label.starts_with(char::is_lowercase)
        && (label.contains(char::is_whitespace) || !value.contains(|it: char| it.is_ascii_digit()));
    is_label(label) && !blank && !is_sentence && value.chars().count() <= MAX_VALUE_CHARS
}

/// Finds a label that ends in a colon or dots, with its value beside or below.
fn pair_with_neighbour(
    page: &Page,
    at: usize,
    beside: Option<usize>,
    below: Option<&Row>,
    used: &[bool],
) -> Option<LabelValue> {
    let piece = &page.pieces[at];
    let label = piece.text.trim_end_matches([':', '.', '…', ' ', '_']);
    let is_open = piece.text.ends_with(':') || (piece.text.len() >= label.len() + 4);
    if !is_open || !is_label(label) {
        return None;
    }
    let under = below.into_iter().flat_map(|row| row.pieces.iter().copied()).find(|it| {
        let other = &page.pieces[*it];
        let near = other.top - piece.bottom < 1.5 * piece.height();
        !used[*it] && near && (other.left - piece.left).abs() < piece.size
    });
    let value = beside.or(under)?;
    let text = &page.pieces[value].text;
    if text.ends_with(':') || !is_fact(label, text) {
        return None;
    }
    let area = bounding_box([piece, &page.pieces[value]]);
    Some(LabelValue { line: fact_line(label, text), area, pieces: vec![at, value] })
}

fn is_label(text: &str) -> bool {
    let web = text.ends_with("http") || text.ends_with("https") || text.ends_with("mailto");
    let sentence = text.chars().count() > MAX_LABEL_CHARS || text.split_whitespace().count() > MAX_LABEL_WORDS;
    !web && !sentence && text.chars().any(char::is_alphabetic)
}

fn fact_line(label: &str, value: &str) -> String {
    format!("{}: {}", label.trim().trim_end_matches(':'), value.trim())
}

/// Groups facts below each other into lists.
fn group_into_lists(pairs: Vec<LabelValue>) -> Vec<StructureMatch> {
    let mut lists: Vec<StructureMatch> = Vec::new();
    for pair in pairs {
        let joins = lists.iter_mut().rev().find(|list| {
            let gap = pair.area.top - list.area.bottom;
            let overlap = pair.area.left < list.area.right && list.area.left < pair.area.right;
            let same_row = gap < 0.0;
            gap < MAX_LIST_GAP * pair.area.height() && (overlap || same_row)
        });
        match joins {
            Some(list) => {
                list.text.push('\n');
                list.text.push_str(&pair.line);
                list.area.cover(&pair.area);
                list.pieces.extend(pair.pieces);
            }
            None => {
                lists.push(StructureMatch {
                    kind: BlockKind::Metadata,
                    text: pair.line,
                    area: pair.area,
                    pieces: pair.pieces,
                });
            }
        }
    }
    lists
}

/// Returns the form fields with values as one list.
pub(super) fn form_values(page: &Page) -> Vec<StructureMatch> {
    let filled: Vec<_> = page.fields.iter().filter(|it| it.kind == FieldKind::Value).collect();
    if filled.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> = filled
        .iter()
        .map(|it| fact_line(field_label(page, &it.place).unwrap_or(it.name.as_str()), &it.value))
        .collect();
    let area = bounding_box(filled.iter().map(|it| &it.place));
    vec![StructureMatch { kind: BlockKind::Metadata, text: lines.join("\n"), area, pieces: Vec::new() }]
}

/// Returns the words beside or above a form field, which serve as its label.
pub(super) fn field_label<'a>(page: &'a Page, field: &Piece) -> Option<&'a str> {
    let height = field.height().clamp(6.0, 20.0);
    let beside = |it: &&Piece| {
        let level = it.middle() > field.top - height / 2.0 && it.middle() < field.bottom + height / 2.0;
        level && it.right <= field.left + 2.0 && field.left - it.right < 12.0 * height
    };
    let above = |it: &&Piece| {
        let over = it.left < field.right && field.left < it.right;
        over && it.bottom <= field.top + 2.0 && field.top - it.bottom < 1.2 * height
    };
    let nearest = page.pieces.iter().filter(beside).max_by(|a, b| a.right.total_cmp(&b.right));
    let found = nearest.or_else(|| page.pieces.iter().filter(above).max_by(|a, b| a.bottom.total_cmp(&b.bottom)))?;
    let label = found.text.trim_end_matches([':', '.', '_', ' ']);
    is_label(label).then_some(label)
}
