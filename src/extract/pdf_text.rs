//! Lines of a page to paragraphs of clean text. Pure: it knows nothing of PDF libraries.

use crate::extract::hyphen::CUT;
use crate::secrets;

/// A line as a PDF library gives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// Its characters, hyphens and ligatures as they are in the file.
    pub(crate) text: String,
    /// Height of its base line above the foot of the page, in points.
    pub(crate) y: Option<f32>,
    /// Size of its first character in points.
    pub(crate) size: f32,
}

/// What PDFium has for a hyphen at the end of a line, and had before. It leaves out the line break behind it.
const PDFIUM_HYPHENS: [char; 2] = [CUT, '\u{FFFE}'];
/// A hyphen that is shown at the end of a line only.
const SOFT_HYPHEN: char = '\u{AD}';
/// Hyphens that are shown everywhere.
const PLAIN_HYPHENS: [char; 2] = ['-', '\u{2010}'];
/// A gap so many times the usual one parts two paragraphs.
const PARAGRAPH_GAP: f32 = 1.45;
/// A paragraph is cut here even without a gap, unless a key goes on: whole pages have none.
const PARAGRAPH_BYTES: usize = 4 << 10;

/// Groups lines into paragraphs, lines kept apart by a line break. A word that was cut at a line end has [`CUT`] in it,
/// until the whole document tells whether a hyphen belongs there.
pub(crate) fn paragraphs(lines: &[Line]) -> Vec<String> {
    let usual = usual_gap(lines);
    let mut found = Vec::new();
    let mut open = String::new();
    let mut above: Option<&Line> = None;
    for line in lines {
        if line.text.trim().is_empty() {
            // Blank lines part paragraphs only where there are no heights to go by.
            if above.is_some_and(|it| it.y.is_none()) {
                close(&mut open, &mut found);
            }
            continue;
        }
        if above.is_some_and(|above| parts(above, line, usual)) || is_full(&open, line) {
            close(&mut open, &mut found);
        }
        append(&mut open, &line.text);
        above = Some(line);
    }
    close(&mut open, &mut found);
    found
}

/// Returns whether a paragraph is to end before a line.
fn is_full(open: &str, line: &Line) -> bool {
    let goes_on = || {
        let mut joined = open.to_string();
        append(&mut joined, &line.text);
        secrets::whole_at(&joined, joined.floor_char_boundary(open.len())).is_some()
    };
    open.len() > PARAGRAPH_BYTES && !goes_on()
}

fn close(open: &mut String, found: &mut Vec<String>) {
    let text = clean_but_cuts(&std::mem::take(open));
    if !text.trim().is_empty() {
        found.push(text.trim().to_string());
    }
}

/// Adds a line; a word that was cut at the end of the line before is in one piece again.
fn append(open: &mut String, line: &str) {
    let line = line.trim().replace(PDFIUM_HYPHENS, CUT.encode_utf8(&mut [0; 4]));
    if is_cut(open, &line) {
        let hyphen = open.pop();
        open.extend((hyphen != Some(SOFT_HYPHEN)).then_some(CUT));
    } else if !open.is_empty() {
        open.push('\n');
    }
    open.push_str(&line);
}

/// Returns whether a word goes on from one line to the next.
fn is_cut(above: &str, below: &str) -> bool {
    let before_plain = above.strip_suffix(PLAIN_HYPHENS);
    let by_plain = || before_plain.is_some_and(|it| it.ends_with(char::is_alphanumeric));
    above.ends_with(SOFT_HYPHEN)
        || above.ends_with(PDFIUM_HYPHENS)
        || by_plain() && below.starts_with(char::is_alphanumeric)
}

fn parts(above: &Line, line: &Line, usual: Option<f32>) -> bool {
    let (Some(high), Some(low), Some(usual)) = (above.y, line.y, usual) else { return false };
    // A line above the one before it begins a column; a sentence may go on in it, and then the words must meet.
    let gap = high - low;
    let jumped_up = gap < -usual && !is_cut(above.text.trim_end(), line.text.trim_start());
    let other_size = (above.size - line.size).abs() > 0.2 * above.size.max(line.size) && gap.abs() > 0.5 * usual;
    gap > usual * PARAGRAPH_GAP || jumped_up || other_size
}

/// Returns the median distance between a line and the next below it.
fn usual_gap(lines: &[Line]) -> Option<f32> {
    let heights: Vec<f32> = lines.iter().filter_map(|it| it.y).collect();
    let mut gaps: Vec<f32> = heights.windows(2).map(|it| it[0] - it[1]).filter(|it| *it > 1.0).collect();
    gaps.sort_by(f32::total_cmp);
    gaps.get(gaps.len() / 2).copied()
}

/// Writes out the ligatures of f and drops control characters. Other compatibility characters stay: they mean something.
pub(crate) fn clean(text: &str) -> String {
    clean_but_cuts(text).replace(CUT, "-")
}

/// The same, and cuts in words stay.
fn clean_but_cuts(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            'ﬀ' => cleaned.push_str("ff"),
            'ﬁ' => cleaned.push_str("fi"),
            'ﬂ' => cleaned.push_str("fl"),
            'ﬃ' => cleaned.push_str("ffi"),
            'ﬄ' => cleaned.push_str("ffl"),
            'ﬅ' | 'ﬆ' => cleaned.push_str("st"),
            '\u{A0}' => cleaned.push(' '),
            '\n' | '\t' | CUT => cleaned.push(char),
            '\u{AD}' | '\u{FFFE}' | '\u{FFFF}' | '\u{FEFF}' => {}
            _ if char.is_control() => {}
            _ => cleaned.push(char),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(&str, f32)], expected: &[&str]) {
        let lines: Vec<Line> =
            lines.iter().map(|(text, y)| Line { text: (*text).to_string(), y: Some(*y), size: 10.0 }).collect();
        assert_eq!(paragraphs(&lines), expected);
    }

    #[test]
    fn a_word_that_was_cut_at_the_line_end_is_marked() {
        let whole = format!("an exam{CUT}ple of it");
        for hyphen in ["\u{2}", "\u{FFFE}", "-", "\u{2010}"] {
            check(&[(&format!("an exam{hyphen}"), 100.0), ("ple of it", 88.0)], &[&whole]);
        }
        check(&[("an exam\u{FFFE}ple of it", 100.0)], &[&whole]);
        check(&[("an exam\u{AD}", 100.0), ("ple of it", 88.0)], &["an example of it"]);
        check(&[("EUR -", 100.0), ("none", 88.0)], &["EUR -\nnone"]);
    }

    #[test]
    fn a_word_goes_on_in_the_next_column() {
        let lines = [("b", 88.0), ("an exam-", 76.0), ("ple", 100.0), ("d", 88.0)];
        check(&lines, &[&format!("b\nan exam{CUT}ple\nd")]);
    }

    #[test]
    fn a_wide_gap_parts_paragraphs() {
        check(&[("a", 100.0), ("b", 88.0), ("c", 76.0), ("d", 40.0)], &["a\nb\nc", "d"]);
    }

    #[test]
    fn the_next_column_is_another_paragraph() {
        check(&[("a", 100.0), ("b", 88.0), ("c", 76.0), ("right", 100.0), ("side", 88.0)], &["a\nb\nc", "right\nside"]);
    }

    #[test]
    fn a_paragraph_without_end_is_cut_but_not_between_a_key_and_its_name() {
        let words = "words ".repeat(700);
        check(&[(&words, 30.0), ("api_key:", 20.0), ("q8Rt2L", 10.0)], &[words.trim(), "api_key:\nq8Rt2L"]);
        let named = format!("{words} api_key:");
        let whole = format!("{named}\nq8Rt2LmZx7Vb4NcK9wPd");
        check(&[(&named, 20.0), ("q8Rt2LmZx7Vb4NcK9wPd", 10.0), ("end", 0.0)], &[&whole, "end"]);
    }

    #[test]
    fn ligatures_of_f_are_written_out_and_nothing_else_changes() {
        assert_eq!(clean("eﬃcient ﬁle m² ½\u{1}\u{AD}"), "efficient file m² ½");
    }

    #[test]
    fn without_heights_blank_lines_part_paragraphs() {
        let lines: Vec<Line> =
            ["a", "b", "", "c"].iter().map(|it| Line { text: (*it).to_string(), ..Line::default() }).collect();
        assert_eq!(paragraphs(&lines), ["a\nb", "c"]);
    }
}
