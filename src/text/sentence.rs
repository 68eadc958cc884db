//! Where sentences end.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::text::context::{Before, Behind, ends_between};
use crate::text::lines;

/// Marks that end sentences, by UAX 29, with the ellipsis and the Greek question marks.
const STOP: &str = r"[\p{sb=STerm}\p{sb=ATerm}\u{2026}\u{37E};]";

/// Bytes of the beginning of a sentence.
const BEGINNING_BYTES: usize = 64;

static STOP_MARK: LazyLock<Regex> = LazyLock::new(|| Regex::new(STOP).expect("the pattern is a constant"));

/// A row of marks that end sentences, with the quotation marks and brackets that close behind it, and the numbers of
/// notes. Only the first hundred figures of a note are looked at.
static STOPS: LazyLock<Regex> = LazyLock::new(|| {
    const CLOSING: &str = r#"["'*_)\]}\p{Pe}\p{Pf}\p{Pi}\p{M}\p{Cf}]"#;
    const NOTE: &str = r"(?:[ \u{A0}]?\[[0-9][0-9, \u{2013}-]{0,99}\])";
    Regex::new(&format!("(?:{STOP}+{CLOSING}*)+{NOTE}*")).expect("the pattern is a constant")
});

/// Returns the sentences of a text in order, each with the blanks behind it. They cover the text without gaps. In time
/// that grows as the text does.
///
/// Lines that stand alone (items of lists, rows of tables, headings, verse) are sentences of their own; a line break in
/// wrapped prose ends none.
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

/// The same without the blanks around each; what is blank alone is none.
pub(crate) fn trimmed_sentences(text: &str) -> Vec<Range<usize>> {
    let trimmed = sentences(text).into_iter().map(|it| {
        let sentence = &text[it.clone()];
        let start = it.start + sentence.len() - sentence.trim_start().len();
        start..start + sentence.trim().len()
    });
    trimmed.filter(|it| !it.is_empty()).collect()
}

/// What a row of marks says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A single full stop, which may stand for letters that were left out.
    FullStop,
    /// Full stops in a row: words were left out.
    Ellipsis,
    /// A question or an exclamation mark.
    Strong,
    /// A mark of a script that has no blank behind it.
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

/// Says whether a sentence ends behind a row of marks. `before` is what there is of the sentence up to it, `rest` what
/// follows the row.
fn ends(before: &str, stop: &str, rest: &str) -> bool {
    let mark = Mark::of(stop, before);
    let Some(first) = rest.chars().next() else { return true };
    let behind = Behind::of(rest);
    let closed = !stop.ends_with(is_stop);
    match mark {
        Mark::None => false,
        Mark::Wide => !(is_continuing(behind.first) || closed && behind.first == 'と'),
        _ if !first.is_whitespace() || is_continuing(behind.first) => false,
        // A row of dots leads to the number of a page.
        Mark::Ellipsis => !behind.is_lower() && !behind.is_digit(),
        Mark::Strong => !behind.is_lower() || !closed && begins_lower(before),
        Mark::FullStop if before.ends_with(char::is_whitespace) => !behind.is_lower() && !behind.is_digit(),
        Mark::FullStop if behind.is_lower() => begins_lower(before) && Before::of(before).is_plain_word(),
        Mark::FullStop => ends_between(&Before::of(before), &behind, stop.contains([')', ']'])),
    }
}

/// Bytes of a quotation mark that closes behind a blank, as French has it. One that opens has a letter behind it.
fn closing_behind_blank(rest: &str) -> usize {
    let mark = rest.strip_prefix([' ', '\u{A0}', '\u{202F}']).and_then(|it| it.strip_prefix('»'));
    mark.filter(|it| !it.starts_with(char::is_alphanumeric)).map_or(0, |after| rest.len() - after.len())
}

/// Says whether a sentence began with a small letter: then the next one may. Only its first words are looked at.
fn begins_lower(sentence: &str) -> bool {
    let beginning = &sentence[..sentence.floor_char_boundary(BEGINNING_BYTES)];
    beginning.chars().find(|it| it.is_alphabetic()).is_some_and(char::is_lowercase)
}

fn is_stop(mark: char) -> bool {
    matches!(mark, '.' | '!' | '?' | ';') || !mark.is_ascii() && STOP_MARK.is_match(mark.encode_utf8(&mut [0; 4]))
}

/// Marks that no sentence begins with.
fn is_continuing(mark: char) -> bool {
    matches!(mark, ',' | ';' | ':' | '.' | '!' | '?' | ')' | ']' | '}' | '%' | '、' | '，' | '；' | '：' | '،' | '؛')
}

fn is_greek(letter: char) -> bool {
    matches!(letter, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}')
}
