//! The frames on the picture of a page: around the words of a question, and around the lines of a quote.

use crate::ask::QuestionMatcher;
use crate::model::{Document, PageRequest, Region, WordsFrom};

/// Maximum number of frames on a page.
const MAX_FRAMES: usize = 2_000;

/// A quote of fewer letters is framed only as whole words, because it occurs inside longer words by chance. A longer one may
/// begin inside a word: scripts without spaces have no words on a page.
const LETTERS_OF_DISTINCT_QUOTE: usize = 12;

/// The frames on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frames {
    /// The words of the question. Paragraphs with them if OCR read the page and noted no places of words, as it did once.
    pub(super) words: Vec<Region>,
    /// The lines of the quote.
    pub(super) quote: Vec<Region>,
    /// Where the words of the page come from.
    pub(super) words_from: WordsFrom,
}

/// Finds the words of the question and of the quote on a page: in its text layer, or in the words that OCR read.
pub(super) fn find_frames(
    words: &[(String, Region)],
    read_by_ocr: &[Document],
    page: u32,
    request: &PageRequest,
) -> Frames {
    if !words.is_empty() {
        return frames_of_words(words, WordsFrom::Text, request);
    }
    // Each skill read the whole page, so that a quote is looked for in the paragraphs of one skill at a time.
    let read: Vec<Vec<(String, Region)>> = read_by_ocr.iter().map(|it| paragraphs_on_page(it, page)).collect();
    let quoted_paragraphs = || read.iter().map(|it| quote_lines(it, &request.quote, 0)).find(|it| !it.is_empty());
    if let Some(words) = read_by_ocr.iter().map(|it| words_on_page(it, page)).find(|it| !it.is_empty()) {
        let mut found = frames_of_words(&words, WordsFrom::Ocr, request);
        // Words that were cut at the end of a line are whole in the paragraphs only.
        if found.words.is_empty() {
            found.words = matching_places(read.iter().flatten(), request);
        }
        if found.quote.is_empty() {
            found.quote = quoted_paragraphs().unwrap_or_default();
        }
        return found;
    }
    if read.iter().flatten().next().is_none() {
        return Frames::default();
    }
    Frames {
        words: matching_places(read.iter().flatten(), request),
        quote: quoted_paragraphs().unwrap_or_default(),
        words_from: WordsFrom::Ocr,
    }
}

/// Returns the places of the texts that match the question.
fn matching_places<'t>(texts: impl Iterator<Item = &'t (String, Region)>, request: &PageRequest) -> Vec<Region> {
    let mut matcher = QuestionMatcher::new(&request.query);
    texts.filter(|it| !matcher.ranges(&it.0).is_empty()).map(|it| it.1).take(MAX_FRAMES).collect()
}

fn frames_of_words(words: &[(String, Region)], words_from: WordsFrom, request: &PageRequest) -> Frames {
    Frames {
        words: matching_places(words.iter(), request),
        quote: quote_lines(words, &request.quote, LETTERS_OF_DISTINCT_QUOTE),
        words_from,
    }
}

fn words_on_page(document: &Document, page: u32) -> Vec<(String, Region)> {
    document.words.iter().filter(|it| it.page == page).map(|it| (it.text.clone(), it.region)).collect()
}

fn paragraphs_on_page(document: &Document, page: u32) -> Vec<(String, Region)> {
    let on_page = document.blocks.iter().filter(|it| it.anchor.page.unwrap_or(1) == page);
    on_page.filter_map(|it| Some((it.text.clone(), it.anchor.region?))).collect()
}

/// Returns the lines of a quote on a page, one frame for each; empty if the words of the quote do not follow each other on
/// the page. Only letters and digits are compared, so that line ends, hyphens at line ends, white space and punctuation do
/// not matter. A quote of fewer letters than `distinct` must begin and end with a word.
fn quote_lines(words: &[(String, Region)], quote: &str, distinct: usize) -> Vec<Region> {
    let wanted = letters(quote);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut text = String::new();
    // The place in `text` where each word ends.
    let ends: Vec<usize> = words
        .iter()
        .map(|it| {
            text.push_str(&letters(&it.0));
            text.len()
        })
        .collect();
    let is_edge = |at: usize| at == 0 || ends.binary_search(&at).is_ok();
    let places = || memchr::memmem::find_iter(text.as_bytes(), wanted.as_bytes());
    let whole = places().find(|at| is_edge(*at) && is_edge(at + wanted.len()));
    let inside = || places().next().filter(|_| wanted.chars().count() >= distinct);
    let Some(start) = whole.or_else(inside) else { return Vec::new() };
    let first = ends.partition_point(|end| *end <= start);
    let last = ends.partition_point(|end| *end < start + wanted.len());
    let framed = words.iter().take(last + 1).skip(first).filter(|it| !it.0.is_empty());
    join_lines(framed.map(|it| it.1))
}

/// Returns the letters and digits of a text, folded as the search folds words: without case, with ligatures as letters.
fn letters(text: &str) -> String {
    vic_words::fold(text).chars().filter(|it| it.is_alphanumeric()).collect()
}

/// Joins the places of consecutive words on the same line.
fn join_lines(words: impl Iterator<Item = Region>) -> Vec<Region> {
    let mut lines: Vec<Region> = Vec::new();
    for word in words {
        match lines.last_mut().filter(|line| is_same_line(line, &word)) {
            Some(line) => {
                line.left = line.left.min(word.left);
                line.top = line.top.min(word.top);
                line.right = line.right.max(word.right);
                line.bottom = line.bottom.max(word.bottom);
            }
            None => lines.push(word),
        }
    }
    lines.truncate(MAX_FRAMES);
    lines
}

fn is_same_line(line: &Region, word: &Region) -> bool {
    let common = line.bottom.min(word.bottom) - line.top.max(word.top);
    common > (line.bottom - line.top).min(word.bottom - word.top) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Block, BlockKind, PlacedWord};

    /// Makes the words of lines, with the line as the place from above and the position in the line as the place from left.
    fn words_of(lines: &[&str]) -> Vec<(String, Region)> {
        let place = |line: usize, at: usize| Region {
            left: at as f32 / 10.0,
            top: line as f32 / 10.0,
            right: (at + 1) as f32 / 10.0,
            bottom: (line + 1) as f32 / 10.0,
        };
        let line = |(number, text): (usize, &&str)| -> Vec<(String, Region)> {
            text.split(' ').enumerate().map(|(at, word)| (word.to_string(), place(number, at))).collect()
        };
        lines.iter().enumerate().flat_map(line).collect()
    }

    /// Returns each line of the quote as (line, first word, end of the last word).
    fn framed(lines: &[&str], quote: &str) -> Vec<(u32, u32, u32)> {
        let tenths = |it: f32| (it * 10.0).round() as u32;
        let found = quote_lines(&words_of(lines), quote, LETTERS_OF_DISTINCT_QUOTE);
        found.iter().map(|it| (tenths(it.top), tenths(it.left), tenths(it.right))).collect()
    }

    fn request(query: &str, quote: &str) -> PageRequest {
        PageRequest { query: query.into(), quote: quote.into(), ..PageRequest::default() }
    }

    #[test]
    fn frames_are_words_of_the_question_from_text_or_ocr() {
        let region = Region { left: 0.1, top: 0.2, right: 0.3, bottom: 0.4 };
        let words = vec![("The".to_string(), region), ("leases,".to_string(), region)];
        let found = find_frames(&words, &[], 1, &request("lease", ""));
        assert_eq!(found, Frames { words: vec![region], quote: Vec::new(), words_from: WordsFrom::Text });
        let block = |page, text: &str| Block {
            kind: BlockKind::Paragraph,
            text: text.into(),
            anchor: Anchor { page: Some(page), region: Some(region), ..Anchor::default() },
            rows: Vec::new(),
        };
        let scan =
            Document { blocks: vec![block(1, "a lease"), block(2, "the lease"), block(2, "x")], ..Document::default() };
        let found = find_frames(&[], std::slice::from_ref(&scan), 2, &request("lease", "The lease x"));
        assert_eq!(found, Frames { words: vec![region], quote: vec![region], words_from: WordsFrom::Ocr });
        assert_eq!(find_frames(&[], std::slice::from_ref(&scan), 3, &request("lease", "lease")), Frames::default());
        let placed = words_of(&["the lease", "ends soon"]).into_iter();
        let placed = placed.map(|(text, region)| PlacedWord { page: 2, text, region }).collect();
        let scan = Document { words: placed, ..scan };
        let found = find_frames(&[], &[scan], 2, &request("lease", "Lease ends"));
        let lines: Vec<(f32, f32)> = found.quote.iter().map(|it| (it.top, it.left)).collect();
        assert_eq!((found.words.len(), found.words_from), (1, WordsFrom::Ocr));
        assert_eq!(lines, [(0.0, 0.1), (0.1, 0.0)]);
    }

    #[test]
    fn quote_is_framed_line_by_line() {
        let page = ["The notice period", "is three months from", "the day of receipt."];
        assert_eq!(framed(&page, "period is three"), [(0, 2, 3), (1, 0, 2)]);
        assert_eq!(framed(&page, "The day of receipt."), [(2, 0, 4)]);
        assert!(framed(&page, "period of three").is_empty() && framed(&page, " , ").is_empty());
    }

    #[test]
    fn hyphens_ligatures_case_and_spaces_do_not_matter() {
        let page = ["The \u{FB01}rst instal-", "ment is due", "\u{201C}at once\u{201D}"];
        assert_eq!(framed(&page, "first  instalment\nIS due \"at once\""), [(0, 1, 3), (1, 0, 3), (2, 0, 2)]);
        let page = ["instal\u{AD}", "ment due"];
        assert_eq!(framed(&page, "instalment due"), [(0, 0, 1), (1, 0, 2)]);
    }

    #[test]
    fn short_quote_is_not_framed_inside_words() {
        let page = ["release the lease", "契約は三か月前に書面で通知します。終了"];
        assert_eq!(framed(&page, "lease"), [(0, 2, 3)]);
        assert!(framed(&page, "eas").is_empty());
        assert_eq!(framed(&page, "三か月前に書面で通知します"), [(1, 0, 1)]);
    }
}
