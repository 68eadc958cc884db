//! Reader of XML files: the text of elements, with the headings, tables and lists of articles (JATS), patents and DocBook,
//! and the text of SVG images.
//!
//! Expands only the five predefined entities and numeric references, reads nothing external, and is not recursive, so that
//! nested elements cannot overflow the stack.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::extract::encoding::decode;
use crate::extract::source_text::Source;
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{BlockKind, Reason};

/// Maximum depth of nested elements; a file that exceeds it fails, because such a file is an attack, not a document.
const MAX_DEPTH: usize = 4_096;
/// Number of rows per table block, which makes a block about as large as a chunk.
const ROWS_PER_BLOCK: usize = 30;
/// Short texts are joined into blocks of up to this many bytes, because a single value of a data file is too short for
/// search.
const MAX_JOINED_BYTES: usize = 1_000;
/// Texts of fewer bytes than this are joined into blocks of up to `MAX_JOINED_BYTES`.
const MAX_SHORT_BYTES: usize = 80;

/// Inline elements, which do not end the block around them.
const INLINE: [&str; 44] = [
    "a",
    "abbrev",
    "b",
    "bold",
    "bio",
    "chem",
    "claim-ref",
    "code",
    "emphasis",
    "em",
    "email",
    "ext-link",
    "figref",
    "fn-ref",
    "font",
    "i",
    "inline-formula",
    "italic",
    "label",
    "link",
    "literal",
    "maths",
    "monospace",
    "named-content",
    "o",
    "overline",
    "patcit",
    "phrase",
    "quote",
    "roman",
    "s",
    "sc",
    "smallcaps",
    "span",
    "strike",
    "strong",
    "styled-content",
    "sub",
    "sub2",
    "sup",
    "tspan",
    "u",
    "underline",
    "xref",
];

/// Elements whose children are joined into one block, separated by spaces.
const JOINED: [&str; 16] = [
    "ref",
    "contrib",
    "name",
    "aff",
    "pub-date",
    "mixed-citation",
    "element-citation",
    "addressbook",
    "address",
    "author",
    "math",
    "license",
    "kwd",
    "copyright-statement",
    "document-id",
    "dc",
];

/// Elements whose content is skipped, because it is not readable text.
const SKIPPED: [&str; 5] = ["style", "script", "metadata", "annotation", "annotation-xml"];

/// Adds the text of an XML file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let decoded = decode(input.bytes, declared_encoding(input.bytes));
    let source = Source::new(&decoded);
    let mut reader = Reader::from_str(source.text);
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    reader.config_mut().allow_dangling_amp = true;
    let mut walk = XmlWalker::new(&source, sink);
    loop {
        walk.at = usize::try_from(reader.buffer_position()).unwrap_or(source.text.len()).min(source.text.len());
        match reader.read_event() {
            Ok(Event::Start(tag)) => walk.open_element(tag.local_name().as_ref())?,
            Ok(Event::End(tag)) => walk.close_element(tag.local_name().as_ref()),
            Ok(Event::Empty(tag)) if tag.local_name().as_ref() == "br" => walk.push_text(" "),
            Ok(Event::Text(text)) => walk.push_text(&text.xml10_content()),
            Ok(Event::CData(text)) => walk.push_text(&text.xml10_content()),
            Ok(Event::GeneralRef(name)) => match name.resolve_char_ref() {
                Ok(Some(char)) => walk.push_text(char.encode_utf8(&mut [0; 4])),
                _ => walk.push_entity(&name.xml10_content()),
            },
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) => {
                walk.sink.record_problem(format!("the XML is damaged, and the rest of the file is skipped: {error}"));
                break;
            }
        }
        if walk.sink.is_full() {
            walk.sink.mark_truncated();
            return Ok(());
        }
    }
    walk.finish();
    Ok(())
}

fn declared_encoding(bytes: &[u8]) -> Option<&str> {
    let head = bytes.get(..bytes.len().min(200))?;
    let head = &head[..head.iter().position(|it| *it == b'>')?];
    let head = std::str::from_utf8(head).ok()?;
    let rest = head.split_once("encoding=")?.1;
    rest.get(1..)?.split(['"', '\'']).next()
}

struct XmlWalker<'a> {
    source: &'a Source<'a>,
    sink: &'a mut Sink,
    /// Current byte offset of the parser in the text.
    at: usize,
    open: Vec<String>,
    /// Depth of the open element in `SKIPPED`, if there is one.
    skip: Option<usize>,
    /// Depth of the outermost open element whose children are joined, if there is one.
    joined: Option<usize>,
    text: String,
    start: usize,
    /// Short texts collected for one block; `short_start` is the offset of the first.
    short: String,
    short_start: usize,
    cells: Vec<String>,
    rows: Vec<String>,
    svg: bool,
}

impl<'a> XmlWalker<'a> {
    fn new(source: &'a Source<'a>, sink: &'a mut Sink) -> XmlWalker<'a> {
        XmlWalker {
            source,
            sink,
            at: 0,
            open: Vec::new(),
            skip: None,
            joined: None,
            text: String::new(),
            start: 0,
            short: String::new(),
            short_start: 0,
            cells: Vec::new(),
            rows: Vec::new(),
            svg: false,
        }
    }

    fn open_element(&mut self, name: &str) -> ReadResult {
        if self.open.len() >= MAX_DEPTH {
            return Err(new_failure(
                Reason::TooDeep,
                format!("XML elements are nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.svg |= self.open.is_empty() && name == "svg";
        if !INLINE.contains(&name) {
            self.end_block();
        }
        self.open.push(name.to_string());
        if SKIPPED.contains(&name) {
            self.skip = self.skip.or(Some(self.open.len()));
        }
        if JOINED.contains(&name) || is_cell(name) {
            self.joined = self.joined.or(Some(self.open.len()));
        }
        Ok(())
    }

    fn close_element(&mut self, name: &str) {
        // Ignores an end tag without a start tag.
        let Some(depth) = self.open.iter().rposition(|it| it == name).map(|it| it + 1) else { return };
        if is_cell(name) && self.joined.is_none_or(|it| it >= depth) {
            self.cells.push(collapse_white_space(&std::mem::take(&mut self.text)));
        } else if matches!(name, "tr" | "row") && self.joined.is_none_or(|it| it >= depth) {
            self.end_row();
        } else if matches!(name, "table" | "tgroup") && self.joined.is_none_or(|it| it >= depth) {
            self.end_table();
        } else if !INLINE.contains(&name) {
            if self.joined == Some(depth) {
                self.joined = None;
            }
            self.end_block();
        }
        self.open.truncate(depth - 1);
        self.skip = self.skip.filter(|it| *it < depth);
        self.joined = self.joined.filter(|it| *it < depth);
    }

    fn push_text(&mut self, text: &str) {
        let readable = !self.svg
            || self.open.iter().rev().take(3).any(|it| matches!(it.as_str(), "text" | "title" | "desc" | "tspan"));
        if self.skip.is_some() || !readable {
            return;
        }
        // Skips the MathML form of a formula that is also given as TeX, because TeX source is easier to search.
        let is = |name: &str| self.open.iter().any(|it| it == name);
        if is("math") && is("alternatives") {
            return;
        }
        let text = if is("tex-math") { strip_tex_document(text) } else { text };
        if self.text.trim().is_empty() {
            self.text.clear();
            self.start = self.at;
        }
        self.text.push_str(text);
    }

    fn push_entity(&mut self, name: &str) {
        match quick_xml::escape::resolve_predefined_entity(name) {
            Some(text) => self.push_text(text),
            None => self.push_text(&format!("&{name};")),
        }
    }

    /// Ends the open block, or only adds a space if an open element joins its children.
    fn end_block(&mut self) {
        if self.joined.is_some() {
            if !self.text.ends_with(char::is_whitespace) && !self.text.is_empty() {
                self.text.push(' ');
            }
            return;
        }
        let kind = self.block_kind();
        let raw = std::mem::take(&mut self.text);
        let text = if kind == BlockKind::Code { raw } else { collapse_white_space(&raw) };
        if text.trim().is_empty() {
            return;
        }
        if kind == BlockKind::Paragraph && text.len() < MAX_SHORT_BYTES {
            self.join_short(&text);
            return;
        }
        self.flush_short();
        if matches!(kind, BlockKind::Heading(1)) {
            self.sink.set_title(&text);
        }
        self.source.push_derived(self.sink, kind, &text, self.start..self.at.max(self.start));
    }

    fn join_short(&mut self, text: &str) {
        if self.short.is_empty() {
            self.short_start = self.start;
        } else {
            self.short.push('\n');
        }
        self.short.push_str(text);
        if self.short.len() >= MAX_JOINED_BYTES {
            self.flush_short();
        }
    }

    fn flush_short(&mut self) {
        let text = std::mem::take(&mut self.short);
        let end = self.start.max(self.short_start);
        self.source.push_derived(self.sink, BlockKind::Paragraph, &text, self.short_start..end);
    }

    /// Returns the kind of block for the innermost open element.
    fn block_kind(&self) -> BlockKind {
        let sections = self.open.iter().filter(|it| matches!(it.as_str(), "sec" | "section" | "chapter")).count();
        let name = self.open.iter().rev().find(|it| !INLINE.contains(&it.as_str())).map_or("", String::as_str);
        match name {
            "article-title" | "invention-title" | "book-title" if self.open.iter().all(|it| it != "ref") => {
                BlockKind::Heading(1)
            }
            "title" if !self.svg => BlockKind::Heading((sections + 1).min(6) as u8),
            "heading" => BlockKind::Heading(2),
            "preformat" | "programlisting" | "screen" => BlockKind::Code,
            _ if self.open.iter().any(|it| matches!(it.as_str(), "list-item" | "listitem" | "li")) => {
                BlockKind::ListItem
            }
            _ => BlockKind::Paragraph,
        }
    }

    fn end_row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        if cells.iter().any(|it| !it.is_empty()) {
            self.rows.push(cells.join(" | "));
        }
        if self.rows.len() >= ROWS_PER_BLOCK {
            self.end_table();
        }
    }

    fn end_table(&mut self) {
        self.flush_short();
        let rows = std::mem::take(&mut self.rows).join("\n");
        self.source.push_derived(self.sink, BlockKind::Table, &rows, self.start.min(self.at)..self.at);
    }

    fn finish(&mut self) {
        self.joined = None;
        self.end_block();
        self.end_row();
        self.end_table();
        self.flush_short();
    }
}

/// Returns the formula without the complete TeX document that some publishers wrap around it.
fn strip_tex_document(tex: &str) -> &str {
    let body = tex.split_once("\\begin{document}").map_or(tex, |it| it.1);
    body.split_once("\\end{document}").map_or(body, |it| it.0)
}

fn is_cell(name: &str) -> bool {
    matches!(name, "td" | "th" | "entry")
}

fn collapse_white_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(xml: &str) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: xml.as_bytes(), name: "a.xml" }, &mut sink).unwrap();
        sink.into_document()
    }

    fn assert_blocks(xml: &str, expected: &[(BlockKind, &str)]) {
        let document = extract(xml);
        let found: Vec<_> = document.blocks.iter().map(|it| (it.kind, it.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn article_headings_follow_section_depth() {
        assert_blocks(
            "<article><article-title>On <italic>x</italic></article-title><body><sec><title>Intro</title><p>Some &lt;b&gt; &#233; that is long enough to stand alone as a paragraph of its own, as in articles.</p></sec></body></article>",
            &[
                (BlockKind::Heading(1), "On x"),
                (BlockKind::Heading(2), "Intro"),
                (
                    BlockKind::Paragraph,
                    "Some <b> é that is long enough to stand alone as a paragraph of its own, as in articles.",
                ),
            ],
        );
    }

    #[test]
    fn tables_become_rows() {
        assert_blocks(
            "<table><tr><th>a</th><th>b</th></tr><tr><td><p>1</p></td><td>2</td></tr></table>",
            &[(BlockKind::Table, "a | b\n1 | 2")],
        );
    }

    #[test]
    fn short_values_of_data_file_are_joined() {
        assert_blocks("<cfg><a>one</a>\n<b><c>two</c></b></cfg>", &[(BlockKind::Paragraph, "one\ntwo")]);
    }

    #[test]
    fn doctype_entities_are_not_expanded() {
        let xml = "<!DOCTYPE a [<!ENTITY x \"boom\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]><a>v &x; &f;</a>";
        assert_blocks(xml, &[(BlockKind::Paragraph, "v &x; &f;")]);
    }

    #[test]
    fn corrupt_xml_keeps_text_before_damage() {
        let document = extract("<a><p>kept</p><p attr=\"x>lost");
        assert_eq!(document.blocks[0].text, "kept");
        assert_eq!(document.problems.len(), 1);
    }

    // Case C3
    #[test]
    fn deep_nesting_is_rejected() {
        let mut sink = Sink::new(ExtractLimits::default());
        let xml = "<a>".repeat(100_000);
        let failed = read(Input { bytes: xml.as_bytes(), name: "a.xml" }, &mut sink).unwrap_err();
        assert_eq!(failed.reason, Reason::TooDeep);
    }
}
