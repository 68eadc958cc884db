//! Groups the lines of a text before it is split into sentences: joins lines of wrapped prose, and separates list items,
//! headings and table rows.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::text::full_stop::TextBefore;

/// Number of lines whose widths are compared with each other. It bounds the work on long texts.
const BLOCK_LINES: usize = 256;

/// Minimum width in columns of a line that the next line may continue. A narrower line is an entry of its own.
const MIN_CONTINUED_WIDTH: usize = 25;

/// Minimum width in columns of a line that the next line may continue with a word in upper case or a number.
const MIN_WIDTH_BEFORE_CAPITAL: usize = 40;

/// Lines of at least this many columns count as wrapped prose, even if there are only a few.
const PROSE_WIDTH: usize = 60;

/// Maximum width in columns of wrapped text; wider lines are taken for whole paragraphs.
const MAX_WRAPPED_WIDTH: usize = 160;

/// A line counts as full if it would exceed this percentage of the usual width with the first word of the next line added.
const FULL_PERCENT: usize = 85;

/// Maximum bytes of a key at the start of a line, as in `key: value`.
const MAX_KEY_BYTES: usize = 40;

/// Start of a line that certainly is a list item, heading, code fence or table row.
static STANDALONE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:[*+•◦▪‣●○■□☐☑✓✔→]\s|-\s|\[[ xX]\]\s|#{1,6}\s|```|~~~|\|)"));

/// Start of a line that usually is a list item (a number, a letter, a dash), but may also be a line of wrapped prose.
static ITEM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:\(?(?:[0-9]{1,3}|\pL|[ivxIVX]{1,5})[.)]\s|[0-9]+(?:\.[0-9]+)+\.?\s|[–—·]\s)"));

/// Start of a line of the form `key: value`; the key is one word, or a few words with a capital letter.
static KEY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:[^\s:]+|[\p{Lu}\p{Lo}\pN][^\s:]*(?: [^\s:]+){1,3}):(?:\s|$)"));

/// Punctuation at the end of a line after which the line is complete.
static SENTENCE_END: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"[\p{sb=STerm}\p{sb=ATerm}…:]["'*_)\]}\p{Pe}\p{Pf}\p{Pi}]*$"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

/// Returns the ranges of the lines of a text. Lines of the same paragraph share a range, and blank lines belong to the
/// range before them. The ranges cover the text without gaps.
pub(super) fn line_units(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut block: Vec<Line> = Vec::new();
    for range in line_ranges(text) {
        match Line::parse(text, range.clone()) {
            Some(line) => {
                block.push(line);
                if block.len() == BLOCK_LINES {
                    add_units(&mut block, &mut found);
                }
            }
            None => {
                add_units(&mut block, &mut found);
                block.clear();
                match found.last_mut() {
                    Some(unit) => unit.end = range.end,
                    None => found.push(range),
                }
            }
        }
    }
    add_units(&mut block, &mut found);
    found
}

fn line_ranges(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    text.split_inclusive(['\n', '\u{B}', '\u{C}', '\u{2028}', '\u{2029}']).map(|it| {
        let start = it.as_ptr() as usize - text.as_ptr() as usize;
        start..start + it.len()
    })
}

/// Adds the groups of lines of a block to `found`. The last line stays in `block`, so that the next block can continue it.
fn add_units(block: &mut Vec<Line>, found: &mut Vec<Range<usize>>) {
    let shape = BlockShape::of(block);
    for (at, line) in block.iter().enumerate() {
        if line.is_added {
            continue;
        }
        match found.last_mut() {
            Some(unit) if at > 0 && shape.continues(&block[at - 1], line) => unit.end = line.range.end,
            _ => found.push(line.range.clone()),
        }
    }
    let last = block.pop();
    block.clear();
    block.extend(last.map(|it| Line { is_added: true, ..it }));
}

/// How a line starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Alone,
    Item,
    Key,
    /// With a lower-case letter, or a letter of a script without case.
    Lower,
    Other,
}

struct Line {
    range: Range<usize>,
    /// Width of the line in columns, without surrounding blanks.
    width: usize,
    /// Width of the first word in columns.
    first_word: usize,
    opening: Opening,
    /// Whether the line starts with `>`, the mark of quoted mail.
    is_quoted: bool,
    /// Whether the line is a table row: tabs or bars separate cells.
    is_row: bool,
    /// Whether the line ends with punctuation that ends a sentence.
    is_stopped: bool,
    colon: bool,
    /// Whether the line ends with an abbreviation that a name or number usually follows, such as `Mr.`
    expects_more: bool,
    /// Whether the line is a heading or a horizontal rule, so that the next line cannot continue it.
    is_closed: bool,
    is_added: bool,
}

impl Line {
    /// Parses a line; `None` if the line is blank.
    fn parse(text: &str, range: Range<usize>) -> Option<Line> {
        let whole = text[range.clone()].trim();
        let body = whole.trim_start_matches('>').trim_start();
        if whole.is_empty() {
            return None;
        }
        let first = body.split(char::is_whitespace).next().unwrap_or_default();
        let tail = &body[body.ceil_char_boundary(body.len().saturating_sub(MAX_KEY_BYTES))..];
        Some(Line {
            range,
            width: display_width(body),
            first_word: display_width(first),
            opening: line_opening(body),
            is_quoted: whole.len() != body.len(),
            is_row: body.contains('\t') || body.contains(" | "),
            is_stopped: SENTENCE_END.is_match(tail),
            expects_more: tail.strip_suffix('.').is_some_and(|it| TextBefore::of(it).expects_more()),
            colon: body.ends_with([':', '：']),
            is_closed: body.starts_with(['#', '|']) || !body.contains(char::is_alphanumeric),
            is_added: false,
        })
    }
}

fn line_opening(body: &str) -> Opening {
    let head = &body[..body.floor_char_boundary(MAX_KEY_BYTES)];
    match body.chars().find(|it| it.is_alphanumeric()) {
        None => Opening::Alone,
        _ if STANDALONE.is_match(head) => Opening::Alone,
        _ if ITEM.is_match(head) => Opening::Item,
        _ if KEY.is_match(head) => Opening::Key,
        Some(it) if it.is_alphabetic() && !it.is_uppercase() => Opening::Lower,
        _ => Opening::Other,
    }
}

/// Returns the width of a text in columns; East Asian letters take two columns.
fn display_width(text: &str) -> usize {
    let wide = |it: char| matches!(it, '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FF60}');
    text.chars().map(|it| 1 + usize::from(wide(it))).sum()
}

/// Properties of a block of lines that decide which lines continue each other.
struct BlockShape {
    /// Usual width of the lines. Ignores the widest third, because text from PDFs has two lines joined into one wherever a
    /// word was hyphenated.
    width: usize,
    /// Whether the lines look like wrapped prose: many continue in lower case, or there are only a few wide lines.
    is_wrapped: bool,
}

impl BlockShape {
    fn of(block: &[Line]) -> BlockShape {
        let mut widths: Vec<usize> = block.iter().map(|it| it.width).collect();
        widths.sort_unstable();
        let width = widths.get(widths.len() * 2 / 3).copied().unwrap_or(0);
        let open = block.windows(2).filter(|it| !it[0].is_stopped).count();
        let lower = block.windows(2).filter(|it| !it[0].is_stopped && it[1].opening == Opening::Lower).count();
        BlockShape {
            width,
            is_wrapped: width <= MAX_WRAPPED_WIDTH && (lower * 4 >= open || open <= 2 && width >= PROSE_WIDTH),
        }
    }

    /// Whether the line `below` continues the line `above`.
    fn continues(&self, above: &Line, below: &Line) -> bool {
        if above.is_row || below.is_row || above.is_closed || above.is_quoted != below.is_quoted {
            return false;
        }
        let full = (above.width + 1 + below.first_word) * 100 > self.width * FULL_PERCENT;
        if above.expects_more && below.opening != Opening::Alone {
            return true;
        }
        let prose = full && self.is_wrapped && above.width >= MIN_WIDTH_BEFORE_CAPITAL && !above.colon;
        match below.opening {
            Opening::Alone => false,
            Opening::Item => prose && !above.is_stopped && above.opening != Opening::Item,
            Opening::Key => prose && above.opening != Opening::Key,
            Opening::Lower => above.width >= MIN_CONTINUED_WIDTH && (full || above.width * 2 >= self.width),
            Opening::Other => prose,
        }
    }
}
