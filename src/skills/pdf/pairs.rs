//! Facts: labels with values, as lines `label: value`. On forms the fields give the values.

use std::sync::LazyLock;

use regex::Regex;

use crate::model::BlockKind;
use crate::skills::pdf::order::Row;
use crate::skills::pdf::{FieldKind, Find, Page, Piece, around};

/// Longest label, in characters; a longer one is a sentence.
const LABEL_LETTERS: usize = 40;
/// Largest number of words in a label; more are a sentence.
const LABEL_WORDS: usize = 6;
/// Longest value, in characters; a longer one is running text.
const VALUE_LETTERS: usize = 200;
/// Largest gap between facts of one list, in lines.
const LIST_GAP: f32 = 2.5;

static INSIDE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\p{L}[^:]{0,60}?)\s*:\s+(\S.*)$").expect("a constant"));
static LEADERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\p{L}.*?)\s*(?:[.…·_]\s?){4,}\s*(\S.*)$").expect("a constant"));

static BLANK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[._…]{4,}").expect("a constant"));

/// A fact with its pieces.
struct Pair {
    line: String,
    area: Piece,
    pieces: Vec<usize>,
}

/// Finds facts, and groups those that stand together.
pub(super) fn find(page: &Page, rows: &[Row], taken: &[bool]) -> Vec<Find> {
    let mut used = taken.to_vec();
    let mut pairs = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for place in 0..row.pieces.len() {
            let at = row.pieces[place];
            if used[at] {
                continue;
            }
            let beside = row.pieces.get(place + 1).copied().filter(|it| !used[*it]);
            let pair = inside(page, at).or_else(|| open_label(page, at, beside, rows.get(index + 1), &used));
            if let Some(pair) = pair {
                pair.pieces.iter().for_each(|it| used[*it] = true);
                pairs.push(pair);
            }
        }
    }
    lists(pairs)
}

/// Finds label and value in one piece, separated by a colon or by dot leaders.
fn inside(page: &Page, at: usize) -> Option<Pair> {
    let piece = &page.pieces[at];
    let found = LEADERS.captures(&piece.text).or_else(|| INSIDE.captures(&piece.text))?;
    let (label, value) = (found.get(1)?.as_str(), found.get(2)?.as_str());
    is_fact(label, value).then(|| Pair { line: line(label, value), area: piece.clone(), pieces: vec![at] })
}

/// Returns whether this is a label with its value: not a sentence with a colon, and not a blank to fill in.
fn is_fact(label: &str, value: &str) -> bool {
    let blank = BLANK.is_match(value) || !value.contains(char::is_alphanumeric);
    let is_sentence = label.starts_with(char::is_lowercase)
        && (label.contains(char::is_whitespace) || !value.contains(|it: char| it.is_ascii_digit()));
    is_label(label) && !blank && !is_sentence && value.chars().count() <= VALUE_LETTERS
}

/// Finds a label that ends in a colon or dots, with its value beside it or below.
fn open_label(page: &Page, at: usize, beside: Option<usize>, below: Option<&Row>, used: &[bool]) -> Option<Pair> {
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
    let area = around([piece, &page.pieces[value]]);
    Some(Pair { line: line(label, text), area, pieces: vec![at, value] })
}

fn is_label(text: &str) -> bool {
    let web = text.ends_with("http") || text.ends_with("https") || text.ends_with("mailto");
    let sentence = text.chars().count() > LABEL_LETTERS || text.split_whitespace().count() > LABEL_WORDS;
    !web && !sentence && text.chars().any(char::is_alphabetic)
}

fn line(label: &str, value: &str) -> String {
    format!("{}: {}", label.trim().trim_end_matches(':'), value.trim())
}

/// Groups facts below each other into lists.
fn lists(pairs: Vec<Pair>) -> Vec<Find> {
    let mut lists: Vec<Find> = Vec::new();
    for pair in pairs {
        let joins = lists.iter_mut().rev().find(|list| {
            let gap = pair.area.top - list.area.bottom;
            let overlap = pair.area.left < list.area.right && list.area.left < pair.area.right;
            let same_row = gap < 0.0;
            gap < LIST_GAP * pair.area.height() && (overlap || same_row)
        });
        match joins {
            Some(list) => {
                list.text.push('\n');
                list.text.push_str(&pair.line);
                list.area.cover(&pair.area);
                list.pieces.extend(pair.pieces);
            }
            None => {
                lists.push(Find { kind: BlockKind::Metadata, text: pair.line, area: pair.area, pieces: pair.pieces });
            }
        }
    }
    lists
}

/// Returns the filled-in form fields as one list.
pub(super) fn fields(page: &Page) -> Vec<Find> {
    let filled: Vec<_> = page.fields.iter().filter(|it| it.kind == FieldKind::Value).collect();
    if filled.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> =
        filled.iter().map(|it| line(label_of(page, &it.place).unwrap_or(it.name.as_str()), &it.value)).collect();
    let area = around(filled.iter().map(|it| &it.place));
    vec![Find { kind: BlockKind::Metadata, text: lines.join("\n"), area, pieces: Vec::new() }]
}

/// Returns the words beside or above a field, which serve as its label.
pub(super) fn label_of<'a>(page: &'a Page, field: &Piece) -> Option<&'a str> {
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
