//! Groups the lines of a PDF page into paragraphs of clean text. Does no I/O, and is independent of PDF libraries.

use crate::extract::hyphenation::CUT_MARK;
use crate::secrets;

/// A line of text on a page, as returned by a PDF library.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// The characters as stored in the PDF, with hyphens and ligatures.
    pub(crate) text: String,
    /// Height of the line's baseline above the bottom of the page, in points; `None` if the library reports no positions.
    pub(crate) y: Option<f32>,
    /// Font size of the line's first character in points.
    pub(crate) size: f32,
}

/// Characters that PDFium returns in place of a hyphen and the line break after it: current versions the first character,
/// earlier versions the second.
const PDFIUM_HYPHENS: [char; 2] = [CUT_MARK, '\u{FFFE}'];
/// The soft hyphen, which is visible only at the end of a line.
const SOFT_HYPHEN: char = '\u{AD}';
/// Hyphens that are always visible.
const PLAIN_HYPHENS: [char; 2] = ['-', '\u{2010}'];
/// A gap between two lines separates paragraphs if it is larger than the median gap by more than this factor.
const PARAGRAPH_GAP_FACTOR: f32 = 1.45;
/// A paragraph of more bytes is ended even without a gap (some pages have none), unless that would split a secret key.
const MAX_PARAGRAPH_BYTES: usize = 4 << 10;

/// Groups lines into paragraphs, with line breaks between lines. A word hyphenated at a line end contains [`CUT_MARK`]
/// until `join_cut_words` decides, from the whole document, whether to keep the hyphen.
pub(crate) fn group_paragraphs(lines: &[Line]) -> Vec<String> {
    let usual = usual_gap(lines);
    let mut found = Vec::new();
    let mut open = String::new();
    let mut above: Option<&Line> = None;
    for line in lines {
        if line.text.trim().is_empty() {
            // A blank line ends a paragraph only if the lines have no vertical positions. If they do, the gaps between
            // lines decide.
            if above.is_some_and(|it| it.y.is_none()) {
                close_paragraph(&mut open, &mut found);
            }
            continue;
        }
        if above.is_some_and(|above| separates_paragraphs(above, line, usual)) || is_full(&open, line) {
            close_paragraph(&mut open, &mut found);
        }
        append_line(&mut open, &line.text);
        above = Some(line);
    }
    close_paragraph(&mut open, &mut found);
    found
}

/// Returns whether the open paragraph is full, so that `line` must begin a new one. Returns false if a secret key continues
/// from the paragraph to the line, because a paragraph break would split the key.
fn is_full(open: &str, line: &Line) -> bool {
    let goes_on = || {
        let mut joined = open.to_string();
        append_line(&mut joined, &line.text);
        secrets::unsplittable_range(&joined, joined.floor_char_boundary(open.len())).is_some()
    };
    open.len() > MAX_PARAGRAPH_BYTES && !goes_on()
}

fn close_paragraph(open: &mut String, found: &mut Vec<String>) {
    let text = clean_keeping_cuts(&std::mem::take(open));
    if !text.trim().is_empty() {
        found.push(text.trim().to_string());
    }
}

/// Appends a line to the open paragraph. A word hyphenated at the end of the previous line is joined.
fn append_line(open: &mut String, line: &str) {
    let line = line.trim().replace(PDFIUM_HYPHENS, CUT_MARK.encode_utf8(&mut [0; 4]));
    if is_cut(open, &line) {
        let hyphen = open.pop();
        open.extend((hyphen != Some(SOFT_HYPHEN)).then_some(CUT_MARK));
    } else if !open.is_empty() {
        open.push('\n');
    }
    open.push_str(&line);
}

/// Returns whether a hyphenated word continues from the line `above` to the line `below`.
fn is_cut(above: &str, below: &str) -> bool {
    let before_plain = above.strip_suffix(PLAIN_HYPHENS);
    let by_plain = || before_plain.is_some_and(|it| it.ends_with(char::is_alphanumeric));
    above.ends_with(SOFT_HYPHEN)
        || above.ends_with(PDFIUM_HYPHENS)
        || by_plain() && below.starts_with(char::is_alphanumeric)
}

fn separates_paragraphs(above: &Line, line: &Line, usual: Option<f32>) -> bool {
    let (Some(high), Some(low), Some(usual)) = (above.y, line.y, usual) else { return false };
    // A line above the previous one begins a new column, and so a new paragraph, unless a hyphenated word continues there.
    let gap = high - low;
    let jumped_up = gap < -usual && !is_cut(above.text.trim_end(), line.text.trim_start());
    let other_size = (above.size - line.size).abs() > 0.2 * above.size.max(line.size) && gap.abs() > 0.5 * usual;
    gap > usual * PARAGRAPH_GAP_FACTOR || jumped_up || other_size
}

/// Returns the median distance between the baselines of consecutive lines; `None` if no distance is known.
fn usual_gap(lines: &[Line]) -> Option<f32> {
    let heights: Vec<f32> = lines.iter().filter_map(|it| it.y).collect();
    let mut gaps: Vec<f32> = heights.windows(2).map(|it| it[0] - it[1]).filter(|it| *it > 1.0).collect();
    gaps.sort_by(f32::total_cmp);
    gaps.get(gaps.len() / 2).copied()
}

/// Expands ligatures such as `ﬁ` and drops control characters. Other compatibility characters (`²`, `½`) stay, as they
/// carry meaning.
pub(crate) fn clean_text(text: &str) -> String {
    clean_keeping_cuts(text).replace(CUT_MARK, "-")
}

/// Like `clean_text`, but keeps each [`CUT_MARK`] instead of writing a hyphen.
fn clean_keeping_cuts(text: &str) -> String {
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
            '\n' | '\t' | CUT_MARK => cleaned.push(char),
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

    fn assert_paragraphs(lines: &[(&str, f32)], expected: &[&str]) {
        let lines: Vec<Line> =
            lines.iter().map(|(text, y)| Line { text: (*text).to_string(), y: Some(*y), size: 10.0 }).collect();
        assert_eq!(group_paragraphs(&lines), expected);
    }

    #[test]
    fn hyphenated_word_at_line_end_is_marked() {
        let whole = format!("an exam{CUT_MARK}ple of it");
        for hyphen in ["\u{2}", "\u{FFFE}", "-", "\u{2010}"] {
            assert_paragraphs(&[(&format!("an exam{hyphen}"), 100.0), ("ple of it", 88.0)], &[&whole]);
        }
        assert_paragraphs(&[("an exam\u{FFFE}ple of it", 100.0)], &[&whole]);
        assert_paragraphs(&[("an exam\u{AD}", 100.0), ("ple of it", 88.0)], &["an example of it"]);
        assert_paragraphs(&[("EUR -", 100.0), ("none", 88.0)], &["EUR -\nnone"]);
    }

    #[test]
    fn hyphenated_word_continues_in_next_column() {
        let lines = [("b", 88.0), ("an exam-", 76.0), ("ple", 100.0), ("d", 88.0)];
        assert_paragraphs(&lines, &[&format!("b\nan exam{CUT_MARK}ple\nd")]);
    }

    #[test]
    fn wide_gap_separates_paragraphs() {
        assert_paragraphs(&[("a", 100.0), ("b", 88.0), ("c", 76.0), ("d", 40.0)], &["a\nb\nc", "d"]);
    }

    #[test]
    fn next_column_starts_new_paragraph() {
        assert_paragraphs(
            &[("a", 100.0), ("b", 88.0), ("c", 76.0), ("right", 100.0), ("side", 88.0)],
            &["a\nb\nc", "right\nside"],
        );
    }

    #[test]
    fn long_paragraph_is_cut_but_keeps_secret_with_name() {
        let words = "words ".repeat(700);
        assert_paragraphs(&[(&words, 30.0), ("api_key:", 20.0), ("q8Rt2L", 10.0)], &[words.trim(), "api_key:\nq8Rt2L"]);
        let named = format!("{words} api_key:");
        let whole = format!("{named}\nq8Rt2LmZx7Vb4NcK9wPd");
        assert_paragraphs(&[(&named, 20.0), ("q8Rt2LmZx7Vb4NcK9wPd", 10.0), ("end", 0.0)], &[&whole, "end"]);
    }

    #[test]
    fn clean_expands_only_f_ligatures() {
        assert_eq!(clean_text("eﬃcient ﬁle m² ½\u{1}\u{AD}"), "efficient file m² ½");
    }

    #[test]
    fn blank_lines_separate_paragraphs_without_positions() {
        let lines: Vec<Line> =
            ["a", "b", "", "c"].iter().map(|it| Line { text: (*it).to_string(), ..Line::default() }).collect();
        assert_eq!(group_paragraphs(&lines), ["a\nb", "c"]);
    }
}
