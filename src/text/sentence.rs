//! Finds the ends of sentences.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::text::context::{Before, Behind, ends_between};
use crate::text::lines;

/// Sentence-ending marks of UAX 29, with the ellipsis and the Greek question marks.
const STOP: &str = r"[\p{sb=STerm}\p{sb=ATerm}\u{2026}\u{37E};]";

/// Bytes examined at the start of a sentence.
const BEGINNING_BYTES: usize = 64;

static STOP_MARK: LazyLock<Regex> = LazyLock::new(|| Regex::new(STOP).expect("the pattern is a constant"));

/// A run of sentence-ending marks with closing quotation marks, brackets and note numbers. A note is limited to a
/// hundred characters.
static STOPS: LazyLock<Regex> = LazyLock::new(|| {
    const CLOSING: &str = r#"["'*_)\]}\p{Pe}\p{Pf}\p{Pi}\p{M}\p{Cf}]"#;
    const NOTE: &str = r"(?:[ \u{A0}]?\[[0-9][0-9, \u{2013}-]{0,99}\])";
    Regex::new(&format!("(?:{STOP}+{CLOSING}*)+{NOTE}*")).expect("the pattern is a constant")
});

/// Returns the sentences of a text in order, each with the blanks after it. The ranges cover the text without gaps.
/// Takes linear time.
///
/// Lines that stand alone (list items, table rows, headings, verse) are separate sentences; a line break in wrapped
/// prose does not end a sentence.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for unit in lines::units(text) {
        let mut start = unit.start;
        for stop in STOPS.find_iter(&text[unit.clone()]) {
            let (at, end) = (unit.start + stop.start(), unit.start + stop.end());
            let end = end + closing_behind_blank(&text[end..unit.end]);
            let rest = &text[end..unit.end];
            if ends(&text[start..at], stop.as_str(), rest) {
                let next = end + rest.len() - rest.trim_start().len();
                found.push(start..next);
                start = next;
            }
        }
        if start < unit.end {
            found.push(start..unit.end);
        }
    }
    found
}

/// As [`sentences`], trimmed and without blank ones.
pub(crate) fn trimmed_sentences(text: &str) -> Vec<Range<usize>> {
    let trimmed = sentences(text).into_iter().map(|it| {
        let sentence = &text[it.clone()];
        let start = it.start + sentence.len() - sentence.trim_start().len();
        start..start + sentence.trim().len()
    });
    trimmed.filter(|it| !it.is_empty()).collect()
}

/// The meaning of a run of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A single full stop, possibly of an abbreviation.
    FullStop,
    /// Several full stops: an omission.
    Ellipsis,
    /// A question mark or an exclamation mark.
    Strong,
    /// A mark of a script without blanks between sentences.
    Wide,
    None,
}

impl Mark {
    fn of(stop: &str, before: &str) -> Mark {
        let marks = || stop.chars().take_while(|it| *it != '[');
        let last = marks().filter(|it| is_stop(*it)).last().unwrap_or('.');
        match last {
            ';' if before.ends_with(is_greek) => Mark::Strong,
            ';' => Mark::None,
            '.' | '\u{2024}' | '\u{FE52}' if marks().filter(|it| *it == last).count() == 1 => Mark::FullStop,
            '.' | '\u{2024}' | '\u{FE52}' | '\u{2026}' => Mark::Ellipsis,
            '!' | '?' | '\u{37E}' | '\u{203C}' | '\u{203D}' | '\u{2047}'..='\u{2049}' => Mark::Strong,
            _ => Mark::Wide,
        }
    }
}

/// Whether a sentence ends after a run of marks. `before` is the sentence up to the run, `rest` the text after it.
fn ends(before: &str, stop: &str, rest: &str) -> bool {
    let mark = Mark::of(stop, before);
    let Some(first) = rest.chars().next() else { return true };
    let behind = Behind::of(rest);
    let closed = !stop.ends_with(is_stop);
    match mark {
        Mark::None => false,
        Mark::Wide => !(is_continuing(behind.first) || closed && behind.first == 'と'),
        _ if !first.is_whitespace() || is_continuing(behind.first) => false,
        // Dot leaders point to a page number.
        Mark::Ellipsis => !behind.is_lower() && !behind.is_digit(),
        Mark::Strong => !behind.is_lower() || !closed && begins_lower(before),
        Mark::FullStop if before.ends_with(char::is_whitespace) => !behind.is_lower() && !behind.is_digit(),
        Mark::FullStop if behind.is_lower() => begins_lower(before) && Before::of(before).is_plain_word(),
        Mark::FullStop => ends_between(&Before::of(before), &behind, stop.contains([')', ']'])),
    }
}

/// Length of a closing quotation mark after a blank, as in French. An opening one has a letter after it.
fn closing_behind_blank(rest: &str) -> usize {
    let mark = rest.strip_prefix([' ', '\u{A0}', '\u{202F}']).and_then(|it| it.strip_prefix('»'));
    mark.filter(|it| !it.starts_with(char::is_alphanumeric)).map_or(0, |after| rest.len() - after.len())
}

/// Whether a sentence starts in lower case, so that the next one may as well. Examines only its first words.
fn begins_lower(sentence: &str) -> bool {
    let beginning = &sentence[..sentence.floor_char_boundary(BEGINNING_BYTES)];
    beginning.chars().find(|it| it.is_alphabetic()).is_some_and(char::is_lowercase)
}

fn is_stop(mark: char) -> bool {
    matches!(mark, '.' | '!' | '?' | ';') || !mark.is_ascii() && STOP_MARK.is_match(mark.encode_utf8(&mut [0; 4]))
}

/// Marks that never start a sentence.
fn is_continuing(mark: char) -> bool {
    matches!(mark, ',' | ';' | ':' | '.' | '!' | '?' | ')' | ']' | '}' | '%' | '、' | '，' | '；' | '：' | '،' | '؛')
}

fn is_greek(letter: char) -> bool {
    matches!(letter, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}')
}
