//! Reader of Rich Text Format: extracts paragraphs, tables, notes and the results of fields.
//!
//! Images, embedded objects, formatting and page layout are skipped.

mod charset;
mod lexer;

pub(crate) use crate::extract::office::rtf::charset::encoding_of_code_page;

use std::collections::{HashMap, HashSet};

use encoding_rs::Encoding;

use crate::extract::office::ooxml::{heading_by_name, push_metadata};
use crate::extract::office::rtf::lexer::{Lexer, Token};
use crate::extract::table_text::{one_line, table_row};
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Maximum depth of nested groups; a file that exceeds it fails. Real documents have a few dozen levels.
const MAX_GROUP_DEPTH: usize = 256;

/// Adds the text of an RTF file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    const SIGNATURE: &[u8] = b"{\\rtf";
    let start = input.bytes.windows(SIGNATURE.len()).take(64).position(|it| it == SIGNATURE);
    let Some(start) = start else { return Err(new_failure(Reason::Damaged, "the file has no RTF signature")) };
    let mut reader = Reader::new(sink);
    for token in Lexer::new(&input.bytes[start..]) {
        reader.handle_token(token)?;
        if reader.sink.is_full() {
            reader.sink.mark_truncated();
            break;
        }
    }
    reader.finish();
    Ok(())
}

/// What the text of a group is, for groups whose text is collected separately from the running text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capture {
    Footnote,
    Comment,
    HeaderFooter,
    Metadata(&'static str),
    Style,
    /// Bullet or number (label) of a list item.
    Label,
}

/// State of the reader that a group inherits, and that is restored at the end of the group.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether the content of the group is skipped.
    skipped: bool,
    hidden: bool,
    fonts: bool,
    styles: bool,
    info: bool,
    /// What the text of the group is, if this group began a separate text; `None` in the groups inside it.
    capture: Option<Capture>,
    /// Number of fallback bytes (`\uc`) that follow each Unicode character, for programs that cannot read Unicode.
    fallback: usize,
    encoding: Option<&'static Encoding>,
    style: i32,
    outline: Option<u8>,
    list: bool,
    in_table: bool,
}

impl State {
    const START: State = State {
        skipped: false,
        hidden: false,
        fonts: false,
        styles: false,
        info: false,
        capture: None,
        fallback: 1,
        encoding: None,
        style: 0,
        outline: None,
        list: false,
        in_table: false,
    };
}

struct Reader<'s> {
    /// Number of blocks in the sink before this file was read.
    start: usize,
    sink: &'s mut Sink,
    state: State,
    stack: Vec<State>,
    /// Stack of texts: the open paragraph, then the texts that are being collected separately.
    texts: Vec<String>,
    /// Bytes of text that are not decoded yet, because a character may have two bytes.
    bytes: Vec<u8>,
    /// Number of fallback bytes of a Unicode character that are still to be skipped.
    dropped: usize,
    high_surrogate: Option<u16>,
    /// Whether the previous token was `\*`, which marks a group that is skipped if its control word is unknown.
    optional: bool,
    document_encoding: &'static Encoding,
    font_encodings: HashMap<i32, &'static Encoding>,
    font: i32,
    headings: HashMap<i32, u8>,
    cells: Vec<String>,
    rows: Vec<String>,
    notes: Vec<(&'static str, String)>,
    facts: Vec<(&'static str, String)>,
    headers: Vec<String>,
}

impl<'s> Reader<'s> {
    fn new(sink: &'s mut Sink) -> Reader<'s> {
        Reader {
            start: sink.document().blocks.len(),
            sink,
            state: State::START,
            stack: Vec::new(),
            texts: vec![String::new()],
            bytes: Vec::new(),
            dropped: 0,
            high_surrogate: None,
            optional: false,
            document_encoding: encoding_rs::WINDOWS_1252,
            font_encodings: HashMap::new(),
            font: 0,
            headings: HashMap::new(),
            cells: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            facts: Vec::new(),
            headers: Vec::new(),
        }
    }

    fn handle_token(&mut self, token: Token<'_>) -> ReadResult {
        match token {
            Token::Open => {
                self.flush_bytes();
                self.dropped = 0;
                if self.stack.len() >= MAX_GROUP_DEPTH {
                    return Err(new_failure(Reason::TooDeep, "RTF groups are nested too deep"));
                }
                self.stack.push(self.state);
                self.state.capture = None;
            }
            Token::Close => self.close_group(),
            Token::Symbol(b'*') => self.optional = true,
            Token::Symbol(symbol) => self.handle_symbol(symbol),
            Token::Hex(byte) => self.push_bytes(&[byte]),
            Token::Text(text) => self.push_bytes(text),
            Token::Word("u", Some(code)) => self.handle_unicode(code),
            Token::Word(word, number) => {
                self.flush_bytes();
                self.handle_word(word, number);
            }
        }
        Ok(())
    }

    fn close_group(&mut self) {
        self.flush_bytes();
        self.dropped = 0;
        self.optional = false;
        if let Some(capture) = self.state.capture {
            self.finish_capture(capture);
        }
        if let Some(state) = self.stack.pop() {
            self.state = state;
        }
    }

    fn finish_capture(&mut self, capture: Capture) {
        if self.texts.len() < 2 {
            return;
        }
        let text = self.texts.pop().unwrap_or_default();
        match capture {
            Capture::Footnote => self.notes.push(("footnote", text)),
            Capture::Comment => self.notes.push(("comment", text)),
            Capture::HeaderFooter => self.headers.push(text),
            Capture::Metadata(key) => self.facts.push((key, text)),
            Capture::Label => {
                let label = text.trim();
                // Adds a label only if it is a number, because other text may refer to the number, but not to a bullet.
                if label.ends_with(['.', ')']) || label.contains(|it: char| it.is_ascii_digit()) {
                    self.text().push_str(&format!("{label} "));
                }
            }
            Capture::Style => {
                let name = text.trim().trim_end_matches(';').to_lowercase();
                if let Some(level) = self.state.outline.or_else(|| heading_by_name(&name)) {
                    self.headings.insert(self.state.style, level);
                }
            }
        }
    }

    fn begin_capture(&mut self, capture: Capture) {
        self.state.capture = Some(capture);
        self.texts.push(String::new());
    }

    fn is_silent(&self) -> bool {
        // Ignores text in the style sheet and the document info, except in groups that are collected separately.
        let listed = (self.state.styles || self.state.info) && self.texts.len() < 2;
        self.state.skipped || self.state.hidden || self.state.fonts || listed
    }

    fn text(&mut self) -> &mut String {
        if self.texts.is_empty() {
            self.texts.push(String::new());
        }
        let last = self.texts.len() - 1;
        &mut self.texts[last]
    }

    fn push_text(&mut self, text: &str) {
        self.flush_bytes();
        if !self.is_silent() {
            self.text().push_str(text);
        }
    }

    /// Adds bytes of text, without those that are the fallback of a Unicode character.
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.optional = false;
        let dropped = self.dropped.min(bytes.len());
        self.dropped -= dropped;
        if !self.is_silent() {
            self.bytes.extend_from_slice(&bytes[dropped..]);
        }
    }

    fn flush_bytes(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        self.high_surrogate = None;
        let encoding = self.state.encoding.unwrap_or(self.document_encoding);
        let bytes = std::mem::take(&mut self.bytes);
        let text = encoding.decode_without_bom_handling(&bytes).0;
        self.text().push_str(&text);
    }

    fn handle_unicode(&mut self, code: i32) {
        self.flush_bytes();
        self.dropped = self.state.fallback;
        // Accepts negative codes, because `\u` takes signed 16-bit numbers. Some programs write unsigned or larger numbers.
        let unit = if code < 0 { (code & 0xFFFF) as u32 } else { code as u32 };
        let character = match (self.high_surrogate.take(), unit) {
            (_, 0xD800..=0xDBFF) => {
                self.high_surrogate = Some(unit as u16);
                return;
            }
            (Some(high), 0xDC00..=0xDFFF) => char::decode_utf16([high, unit as u16]).next().and_then(Result::ok),
            // Drops characters of the private use area, because only the symbol font defines their meaning.
            (_, 0xE000..=0xF8FF) => None,
            (_, unit) => char::from_u32(unit),
        };
        if let Some(character) = character {
            self.push_text(character.encode_utf8(&mut [0; 4]));
        }
    }

    fn handle_symbol(&mut self, symbol: u8) {
        if self.dropped > 0 {
            self.dropped -= 1;
            return;
        }
        match symbol {
            b'~' => self.push_text("\u{a0}"),
            b'_' => self.push_text("\u{2011}"),
            b'\\' | b'{' | b'}' => self.push_bytes(&[symbol]),
            b'\r' | b'\n' => self.end_paragraph(),
            b'\t' => self.push_text("\t"),
            _ => {}
        }
    }

    fn handle_word(&mut self, word: &str, number: Option<i32>) {
        let optional = std::mem::take(&mut self.optional);
        if self.open_destination(word, optional) || self.state.skipped {
            return;
        }
        match word {
            "ansicpg" => self.document_encoding = charset::encoding_of_code_page(number.unwrap_or(1252)),
            "mac" => self.document_encoding = charset::encoding_of_code_page(10000),
            "uc" => self.state.fallback = number.unwrap_or(1).clamp(0, 16) as usize,
            "f" if self.state.fonts => self.font = number.unwrap_or(0),
            "f" => self.state.encoding = self.font_encodings.get(&number.unwrap_or(0)).copied(),
            "fcharset" if self.state.fonts => {
                if let Some(encoding) = charset::encoding_of_font_charset(number.unwrap_or(0)) {
                    self.font_encodings.insert(self.font, encoding);
                }
            }
            "v" | "deleted" => self.state.hidden = number != Some(0),
            "plain" => self.state.hidden = false,
            _ => self.paragraph_word(word, number),
        }
    }

    fn paragraph_word(&mut self, word: &str, number: Option<i32>) {
        match word {
            "pard" => {
                (self.state.style, self.state.outline) = (0, None);
                (self.state.list, self.state.in_table) = (false, false);
            }
            "s" => {
                self.state.style = number.unwrap_or(0);
                if self.state.styles && self.state.capture.is_none() {
                    self.begin_capture(Capture::Style);
                }
            }
            "outlinelevel" => {
                self.state.outline = number.filter(|it| (0..9).contains(it)).map(|it| (it as u8 + 1).min(6));
            }
            "ls" => self.state.list = number.is_some_and(|it| it > 0),
            "intbl" => self.state.in_table = true,
            "itap" => self.state.in_table = number.unwrap_or(0) > 0,
            "par" | "sect" | "page" => self.end_paragraph(),
            "line" => self.push_text("\n"),
            "tab" => self.push_text("\t"),
            "cell" => self.end_cell(),
            "row" => self.end_row(),
            "nestcell" => self.push_text(" | "),
            "nestrow" => self.push_text("\n"),
            "emdash" => self.push_text("—"),
            "endash" => self.push_text("–"),
            "lquote" => self.push_text("‘"),
            "rquote" => self.push_text("’"),
            "ldblquote" => self.push_text("“"),
            "rdblquote" => self.push_text("”"),
            "bullet" => self.push_text("•"),
            "emspace" | "enspace" | "qmspace" => self.push_text(" "),
            _ => {}
        }
    }

    /// Handles a control word that begins a destination (a group with special content); returns false for other words.
    fn open_destination(&mut self, word: &str, optional: bool) -> bool {
        match word {
            // Reads the `ud` group although the group around it is skipped, because `ud` holds the Unicode version of the
            // same text.
            "ud" => self.state.skipped = false,
            _ if self.state.skipped => return false,
            "fonttbl" => self.state.fonts = true,
            "stylesheet" => self.state.styles = true,
            "info" => self.state.info = true,
            "title" if self.state.info => self.begin_capture(Capture::Metadata("title")),
            "author" if self.state.info => self.begin_capture(Capture::Metadata("author")),
            "subject" if self.state.info => self.begin_capture(Capture::Metadata("subject")),
            "keywords" if self.state.info => self.begin_capture(Capture::Metadata("keywords")),
            "footnote" => self.begin_capture(Capture::Footnote),
            "annotation" => self.begin_capture(Capture::Comment),
            "header" | "headerl" | "headerr" | "headerf" | "footer" | "footerl" | "footerr" | "footerf" => {
                self.begin_capture(Capture::HeaderFooter);
            }
            "listtext" | "pntext" => {
                // Marks the paragraph around the label as a list item.
                if let Some(outer) = self.stack.last_mut() {
                    outer.list = true;
                }
                self.begin_capture(Capture::Label);
            }
            // These groups are not skipped, although `\*` marks them as optional, because they hold text or affect it.
            "shpinst" | "nesttableprops" | "cs" => return false,
            "colortbl" | "pict" | "fldinst" | "nonshppict" | "shprslt" | "nonesttables" | "objdata" | "objclass"
            | "upr" | "xe" | "tc" | "rxe" | "sp" | "listtable" | "listoverridetable" | "revtbl" | "rsidtbl"
            | "filetbl" | "datafield" | "themedata" | "colorschememapping" | "latentstyles" | "datastore"
            | "ftnsep" | "ftnsepc" | "ftncn" | "aftnsep" | "aftnsepc" | "aftncn" | "bkmkstart" | "bkmkend"
            | "atnid" | "atnauthor" | "atnref" | "atnicn" | "atndate" | "atrfstart" | "atrfend" => {
                self.state.skipped = true;
            }
            _ if optional => self.state.skipped = true,
            _ => return false,
        }
        true
    }

    fn end_paragraph(&mut self) {
        self.flush_bytes();
        if self.is_silent() {
            return;
        }
        if self.texts.len() > 1 || self.state.in_table {
            self.push_text("\n");
            return;
        }
        self.end_table();
        let text = std::mem::take(self.text());
        let heading = self.state.outline.or_else(|| self.headings.get(&self.state.style).copied());
        match heading {
            Some(level) => {
                let text = one_line(&text);
                if level == 1 {
                    self.sink.set_title(&text);
                }
                self.push(BlockKind::Heading(level), &text, None);
            }
            None if self.state.list => self.push(BlockKind::ListItem, &text, None),
            None => self.push(BlockKind::Paragraph, &text, None),
        }
        self.state.list = false;
        self.end_notes();
    }

    fn push(&mut self, kind: BlockKind, text: &str, part: Option<&str>) {
        self.sink.push(kind, text, Anchor { part: part.map(str::to_string), ..Anchor::default() });
    }

    fn end_notes(&mut self) {
        for (part, text) in std::mem::take(&mut self.notes) {
            self.push(BlockKind::Paragraph, &text, Some(part));
        }
    }

    fn end_cell(&mut self) {
        self.flush_bytes();
        if self.texts.len() == 1 && !self.is_silent() {
            let text = std::mem::take(self.text());
            self.cells.push(text);
        }
    }

    fn end_row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        self.rows.extend(table_row(&cells));
    }

    fn end_table(&mut self) {
        self.end_row();
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.push(BlockKind::Table, &rows.join("\n"), None);
        }
    }

    fn finish(mut self) {
        self.flush_bytes();
        if !self.stack.is_empty() {
            self.sink.record_problem("the RTF file ends inside a group that is not closed");
        }
        // Adds the text of a note that is not closed as a paragraph, so that it is not lost.
        let text = std::mem::take(&mut self.texts).join("\n");
        self.end_table();
        self.push(BlockKind::Paragraph, &text, None);
        self.end_notes();
        let mut seen = HashSet::new();
        for text in std::mem::take(&mut self.headers) {
            if seen.insert(text.clone()) {
                self.push(BlockKind::Paragraph, &text, Some("header"));
            }
        }
        // Moves the metadata block before the other blocks, where the readers of all formats put it.
        let end = self.sink.document().blocks.len();
        push_metadata(&self.facts, self.sink);
        let blocks = &mut self.sink.document().blocks;
        if blocks.len() > end {
            blocks[self.start..].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests;
