//! Finds the ends of sentences in a text in any language.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::text::full_stop::{TextAfter, TextBefore, is_sentence_end};
use crate::text::line_groups;

/// The punctuation marks that may end a sentence: those of Unicode annex 29, the ellipsis and the Greek question marks.
const STOP_CLASS: &str = r"[\p{sb=STerm}\p{sb=ATerm}\u{2026}\u{37E};]";

/// Number of bytes examined at the start of a sentence, to find whether the sentence starts in lower case.
const BEGINNING_BYTES: usize = 64;

static STOP_MARK: LazyLock<Regex> = LazyLock::new(|| Regex::new(STOP_CLASS).expect("the pattern is a constant"));

/// A run of sentence-ending marks. It includes the closing quotation marks, brackets and note numbers such as `[3]` after
/// the marks. A note number has at most a hundred characters.
static STOPS: LazyLock<Regex> = LazyLock::new(|| {
    const CLOSING: &str = r#"["'*_)\]}\p{Pe}\p{Pf}\p{Pi}\p{M}\p{Cf}]"#;
    const NOTE: &str = r"(?:[ \u{A0}]?\[[0-9][0-9, \u{2013}-]{0,99}\])";
    Regex::new(&format!("(?:{STOP_CLASS}+{CLOSING}*)+{NOTE}*")).expect("the pattern is a constant")
});

/// Returns the sentences of a text in order, each with the blanks after it. The ranges cover the text without gaps.
/// Takes linear time.
///
/// Lines that stand alone (list items, table rows, headings, verse) are separate sentences; a line break in wrapped
/// prose does not end a sentence.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for unit in line_groups::line_units(text) {
        let mut start = unit.start;
        for stop in STOPS.find_iter(&text[unit.clone()]) {
            let (at, end) = (unit.start + stop.start(), unit.start + stop.end());
            let end = end + closing_behind_blank(&text[end..unit.end]);
            let rest = &text[end..unit.end];
            if ends_sentence(&text[start..at], stop.as_str(), rest) {
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

/// Returns the sentences of a text like [`sentences`], without surrounding blanks and without blank sentences.
pub(crate) fn trimmed_sentences(text: &str) -> Vec<Range<usize>> {
    let trimmed = sentences(text).into_iter().map(|it| {
        let sentence = &text[it.clone()];
        let start = it.start + sentence.len() - sentence.trim_start().len();
        start..start + sentence.trim().len()
    });
    trimmed.filter(|it| !it.is_empty()).collect()
}

/// The kind of a run of punctuation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopMark {
    /// A single full stop, which may belong to an abbreviation.
    FullStop,
    /// Several full stops or an ellipsis, which may stand for an omission.
    Ellipsis,
    /// A question mark or an exclamation mark.
    Strong,
    /// A mark of a script that has no blanks between sentences, such as Chinese.
    Wide,
    None,
}

impl StopMark {
    fn of(stop: &str, before: &str) -> StopMark {
        let marks = || stop.chars().take_while(|it| *it != '[');
        let last = marks().filter(|it| is_stop(*it)).last().unwrap_or('.');
        match last {
            ';' if before.ends_with(is_greek) => StopMark::Strong,
            ';' => StopMark::None,
            '.' | '\u{2024}' | '\u{FE52}' if marks().filter(|it| *it == last).count() == 1 => StopMark::FullStop,
            '.' | '\u{2024}' | '\u{FE52}' | '\u{2026}' => StopMark::Ellipsis,
            '!' | '?' | '\u{37E}' | '\u{203C}' | '\u{203D}' | '\u{2047}'..='\u{2049}' => StopMark::Strong,
            _ => StopMark::Wide,
        }
    }
}

/// Whether a sentence ends after the marks `stop`. `before` is the sentence up to the marks, `rest` the text after them.
fn ends_sentence(before: &str, stop: &str, rest: &str) -> bool {
    let mark = StopMark::of(stop, before);
    let Some(first) = rest.chars().next() else { return true };
    let behind = TextAfter::of(rest);
    let closed = !stop.ends_with(is_stop);
    match mark {
        StopMark::None => false,
        StopMark::Wide => !(is_continuing(behind.first) || closed && behind.first == 'と'),
        _ if !first.is_whitespace() || is_continuing(behind.first) => false,
        // A digit after dots does not begin a sentence, because in a table of contents dots lead to a page number.
        StopMark::Ellipsis => !behind.is_lower() && !behind.is_digit(),
        StopMark::Strong => !behind.is_lower() || !closed && begins_lower(before),
        StopMark::FullStop if before.ends_with(char::is_whitespace) => !behind.is_lower() && !behind.is_digit(),
        StopMark::FullStop if behind.is_lower() => begins_lower(before) && TextBefore::of(before).is_plain_word(),
        StopMark::FullStop => is_sentence_end(&TextBefore::of(before), &behind, stop.contains([')', ']'])),
    }
}

/// Returns the length of a blank and a closing quotation mark `»` at the start of `rest`, as French has them; else 0. If a
/// letter or digit follows the mark, it is an opening mark.
fn closing_behind_blank(rest: &str) -> usize {
    let mark = rest.strip_prefix([' ', '\u{A0}', '\u{202F}']).and_then(|it| it.strip_prefix('»'));
    mark.filter(|it| !it.starts_with(char::is_alphanumeric)).map_or(0, |after| rest.len() - after.len())
}

/// Whether a sentence starts in lower case, in which case the next sentence may do so too. Examines only the first words.
fn begins_lower(sentence: &str) -> bool {
    let beginning = &sentence[..sentence.floor_char_boundary(BEGINNING_BYTES)];
    beginning.chars().find(|it| it.is_alphabetic()).is_some_and(char::is_lowercase)
}

fn is_stop(mark: char) -> bool {
    matches!(mark, '.' | '!' | '?' | ';') || !mark.is_ascii() && STOP_MARK.is_match(mark.encode_utf8(&mut [0; 4]))
}

/// Whether a mark never starts a sentence.
fn is_continuing(mark: char) -> bool {
    matches!(mark, ',' | ';' | ':' | '.' | '!' | '?' | ')' | ']' | '}' | '%' | '、' | '，' | '；' | '：' | '،' | '؛')
}

fn is_greek(letter: char) -> bool {
    matches!(letter, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}')
}
