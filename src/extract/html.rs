//! Reader of HTML: extracts title, description, headings, paragraphs, lists, tables and preformatted text.
//!
//! Scripts, styles and `<nav>` are skipped. The tree is traversed without recursion, so that deep nesting cannot overflow
//! the stack. Blocks have no position in the file, because the parser repairs markup and does not keep positions.

use std::collections::HashSet;

use ego_tree::iter::Edge;
use ego_tree::{NodeId, NodeRef};
use scraper::node::Element;
use scraper::{Html, Node};

use crate::extract::encoding::decode;
use crate::extract::html_depth_limit::limit_depth;
use crate::extract::source_text::Source;
use crate::extract::table_text::without_bars;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::{Anchor, BlockKind, LinkKind};

/// Number of rows per table block, which makes a block about as large as a chunk.
const ROWS_PER_BLOCK: usize = 30;

/// Elements whose content is skipped, because it is not readable text.
const SKIPPED: [&str; 10] =
    ["script", "style", "noscript", "template", "nav", "iframe", "object", "head", "svg", "canvas"];

/// Inline elements, which do not start a new block; all others do.
const INLINE: [&str; 37] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "button", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "input", "ins", "kbd", "label", "mark", "q", "ruby", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var",
];

/// Adds the text of an HTML file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let text = decode(input.bytes, declared_charset(input.bytes));
    read_text(&text.text, sink);
    Ok(())
}

/// Adds the text of an HTML page to the sink, e.g. of one embedded in another document.
pub(crate) fn read_text(html: &str, sink: &mut Sink) {
    let (html, cut) = limit_depth(html);
    if cut {
        sink.record_problem("HTML elements are nested too deep; tags beyond the depth limit are ignored");
    }
    let html = Html::parse_document(&html);
    push_head(&html, sink);
    let layout = layout_tables(&html);
    let mut walk = HtmlWalker {
        sink,
        layout,
        text: String::new(),
        kinds: Vec::new(),
        preformatted: 0,
        lists: Vec::new(),
        tables: Vec::new(),
    };
    let mut skipping: Option<NodeId> = None;
    for edge in html.tree.root().traverse() {
        match edge {
            Edge::Open(node) if skipping.is_none() => match node.value() {
                Node::Text(text) => walk.push_text(text),
                Node::Element(element) if is_skipped(element) => skipping = Some(node.id()),
                Node::Element(element) => {
                    push_link(node, element, walk.sink);
                    walk.open_element(node, element);
                }
                _ => {}
            },
            Edge::Close(node) if skipping.is_some() => {
                skipping = skipping.filter(|skipped| *skipped != node.id());
            }
            Edge::Close(node) => {
                if let Node::Element(element) = node.value() {
                    walk.close_element(element.name());
                }
            }
            Edge::Open(_) => {}
        }
        if walk.sink.is_full() {
            walk.sink.mark_truncated();
            return;
        }
    }
    walk.end_block();
}

/// Returns the encoding that an HTML page declares: the value of the first `charset=` near its start.
fn declared_charset(bytes: &[u8]) -> Option<&str> {
    const HEAD: usize = 2048;
    let head = &bytes[..bytes.len().min(HEAD)];
    let at = head.windows(8).position(|it| it.eq_ignore_ascii_case(b"charset="))? + 8;
    let rest = head[at..].strip_prefix(b"\"").or(head[at..].strip_prefix(b"'")).unwrap_or(&head[at..]);
    let length = rest.iter().position(|it| !(it.is_ascii_alphanumeric() || b"-_:.".contains(it)))?;
    std::str::from_utf8(&rest[..length]).ok()
}

/// Records the target and text of a link if the element is `a` with `href`.
fn push_link(node: NodeRef<'_, Node>, element: &Element, sink: &mut Sink) {
    let Some(target) = element.attr("href").filter(|_| element.name() == "a") else { return };
    let text: String = node.descendants().filter_map(|it| it.value().as_text().map(|it| &**it)).take(20).collect();
    sink.record_link(LinkKind::Link, target, &collapse_white_space(&text));
}

fn is_skipped(element: &Element) -> bool {
    SKIPPED.contains(&element.name()) || element.attr("hidden").is_some()
}

/// Adds the title and the description of the page as a metadata block.
fn push_head(html: &Html, sink: &mut Sink) {
    let mut facts = Vec::new();
    for node in html.tree.nodes() {
        let Node::Element(element) = node.value() else { continue };
        match element.name() {
            "title" if facts.is_empty() && !in_svg(node) => {
                let title: String = node.children().filter_map(|it| it.value().as_text().map(|it| &**it)).collect();
                let title = collapse_white_space(&title);
                if !title.is_empty() {
                    sink.set_title(&title);
                    facts.push(format!("title: {title}"));
                }
            }
            "meta" => {
                let name = element.attr("name").unwrap_or_default().to_ascii_lowercase();
                let content = collapse_white_space(element.attr("content").unwrap_or_default());
                if matches!(name.as_str(), "description" | "author" | "keywords") && !content.is_empty() {
                    facts.push(format!("{name}: {content}"));
                }
            }
            "body" => break,
            _ => {}
        }
    }
    sink.push(BlockKind::Metadata, &facts.join("\n"), Anchor::default());
}

fn in_svg(node: NodeRef<'_, Node>) -> bool {
    node.parent().and_then(|it| it.value().as_element().map(|it| it.name() == "svg")).unwrap_or(false)
}

/// Returns the tables that contain other tables. They only lay out the page, so their cells become blocks instead of table
/// rows.
fn layout_tables(html: &Html) -> HashSet<NodeId> {
    let mut open = Vec::new();
    let mut layout = HashSet::new();
    for edge in html.tree.root().traverse() {
        let (Edge::Open(node) | Edge::Close(node)) = edge;
        if node.value().as_element().is_none_or(|it| it.name() != "table") {
            continue;
        }
        match edge {
            Edge::Open(_) => {
                layout.extend(open.last().copied());
                open.push(node.id());
            }
            Edge::Close(_) => {
                open.pop();
            }
        }
    }
    layout
}

/// Collapses consecutive white space to one space.
fn collapse_white_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rows and cells collected from an open table. A table that only lays out the page is `None` in [`HtmlWalker::tables`].
#[derive(Default)]
struct Table {
    rows: Vec<String>,
    cells: Vec<String>,
    /// Number of columns and of rows that the open cell spans.
    span: (usize, usize),
    /// Cells with a `rowspan` that extend into the next rows: column, number of rows left, text.
    spanned_cells: Vec<(usize, usize, String)>,
}

impl Table {
    /// Repeats a cell in every column and row that it spans, so that each row is readable on its own.
    fn add_cell(&mut self, text: String) {
        self.add_spanned_cells();
        let (columns, rows) = self.span;
        for _ in 0..columns {
            if rows > 1 {
                self.spanned_cells.push((self.cells.len(), rows, text.clone()));
            }
            self.cells.push(text.clone());
        }
    }

    /// Adds to the open row the cells of rows above that extend into its next columns.
    fn add_spanned_cells(&mut self) {
        while let Some(cell) = self.spanned_cells.iter().find(|it| it.0 == self.cells.len() && !it.2.is_empty()) {
            self.cells.push(cell.2.clone());
        }
    }

    /// Ends the open row and returns its text; `None` if all its cells are empty.
    fn end_row(&mut self) -> Option<String> {
        self.add_spanned_cells();
        let cells = std::mem::take(&mut self.cells);
        for cell in &mut self.spanned_cells {
            cell.1 -= 1;
        }
        self.spanned_cells.retain(|it| it.1 > 0);
        cells.iter().any(|it| !it.is_empty()).then(|| cells.join(" | "))
    }
}

struct HtmlWalker<'a> {
    sink: &'a mut Sink,
    layout: HashSet<NodeId>,
    /// Text of the open block or cell.
    text: String,
    /// Open elements that determine the kind of block (headings, list items, `pre`), outermost first.
    kinds: Vec<(&'static str, BlockKind)>,
    preformatted: usize,
    /// Open lists: the number of the next item, or `None` for a list with bullets.
    lists: Vec<Option<usize>>,
    tables: Vec<Option<Table>>,
}

impl HtmlWalker<'_> {
    fn push_text(&mut self, text: &str) {
        if self.preformatted > 0 {
            self.text.push_str(text);
            return;
        }
        let starts_with_space = text.starts_with(char::is_whitespace);
        for (number, word) in text.split_whitespace().enumerate() {
            if (number > 0 || starts_with_space) && !self.text.ends_with(char::is_whitespace) {
                self.text.push(' ');
            }
            self.text.push_str(word);
        }
        if text.ends_with(char::is_whitespace) && !self.text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
    }

    fn in_cell(&self) -> bool {
        matches!(self.tables.last(), Some(Some(_)))
    }

    fn open_element(&mut self, node: NodeRef<'_, Node>, element: &Element) {
        let name = element.name();
        match name {
            "img" => self.push_text(element.attr("alt").unwrap_or_default()),
            "br" if self.in_cell() => self.text.push(' '),
            "br" => self.text.push('\n'),
            "table" => {
                if !self.in_cell() {
                    self.end_block();
                }
                let layout = self.layout.contains(&node.id());
                self.tables.push((!layout).then(Table::default));
            }
            "td" | "th" if self.in_cell() => self.open_cell(element),
            _ if self.in_cell() => {
                if !INLINE.contains(&name) && !self.text.ends_with(char::is_whitespace) {
                    self.text.push(' ');
                }
            }
            _ => self.open_block(name, element),
        }
    }

    fn open_block(&mut self, name: &str, element: &Element) {
        if !INLINE.contains(&name) {
            self.end_block();
        }
        let kind = match name {
            "h1" => ("h1", BlockKind::Heading(1)),
            "h2" => ("h2", BlockKind::Heading(2)),
            "h3" => ("h3", BlockKind::Heading(3)),
            "h4" => ("h4", BlockKind::Heading(4)),
            "h5" => ("h5", BlockKind::Heading(5)),
            "h6" => ("h6", BlockKind::Heading(6)),
            "ol" | "ul" => {
                let first = element.attr("start").and_then(|it| it.parse().ok()).unwrap_or(1);
                self.lists.push((name == "ol").then_some(first));
                return;
            }
            "li" => {
                self.number_item();
                ("li", BlockKind::ListItem)
            }
            "pre" => {
                self.preformatted += 1;
                ("pre", BlockKind::Code)
            }
            _ => return,
        };
        self.kinds.push(kind);
    }

    /// Begins an item of a numbered list with its number, because other text may refer to it.
    fn number_item(&mut self) {
        if let Some(Some(number)) = self.lists.last_mut() {
            self.text = format!("{number}. ");
            *number = number.saturating_add(1);
        }
    }

    fn close_element(&mut self, name: &str) {
        match name {
            "table" => self.close_table(),
            "td" | "th" if self.in_cell() => self.close_cell(),
            "tr" if self.in_cell() => self.close_row(),
            _ if INLINE.contains(&name) => {}
            _ if self.in_cell() => self.text.push(' '),
            _ => {
                self.end_block();
                if matches!(name, "ol" | "ul") {
                    self.lists.pop();
                }
                if self.kinds.last().is_some_and(|it| it.0 == name) {
                    self.kinds.pop();
                    self.preformatted -= usize::from(name == "pre");
                }
            }
        }
    }

    fn open_cell(&mut self, element: &Element) {
        // Adds the text before the cell, e.g. the caption, as a paragraph of its own.
        let loose = collapse_white_space(&std::mem::take(&mut self.text));
        self.sink.push(BlockKind::Paragraph, &loose, Anchor::default());
        let span = |name| {
            // Limits the repetition of a cell: some pages span thousands of columns just to draw a line.
            const MAX_SPAN: usize = 20;
            element.attr(name).and_then(|it| it.trim().parse().ok()).unwrap_or(1).clamp(1, MAX_SPAN)
        };
        if let Some(Some(table)) = self.tables.last_mut() {
            table.span = (span("colspan"), span("rowspan"));
        }
    }

    fn close_cell(&mut self) {
        let cell = collapse_white_space(&std::mem::take(&mut self.text));
        if let Some(Some(table)) = self.tables.last_mut() {
            table.add_cell(without_bars(cell));
        }
    }

    fn close_row(&mut self) {
        let Some(Some(table)) = self.tables.last_mut() else { return };
        let row = table.end_row();
        table.rows.extend(row);
        if table.rows.len() >= ROWS_PER_BLOCK {
            let rows = std::mem::take(&mut table.rows).join("\n");
            self.sink.push(BlockKind::Table, &rows, Anchor::default());
        }
    }

    fn close_table(&mut self) {
        // Takes the text after the last cell, e.g. a caption below the table, to add it as a paragraph after the table.
        let loose = collapse_white_space(&std::mem::take(&mut self.text));
        if let Some(Some(table)) = self.tables.pop() {
            let rows = table.rows.join("\n");
            Source::detached(&rows).push(self.sink, BlockKind::Table, 0..rows.len());
        }
        self.sink.push(BlockKind::Paragraph, &loose, Anchor::default());
    }

    /// Ends the open block and adds it to the sink.
    fn end_block(&mut self) {
        let text = std::mem::take(&mut self.text);
        let kind = self.kinds.last().map_or(BlockKind::Paragraph, |it| it.1);
        if matches!(kind, BlockKind::Heading(1)) {
            self.sink.set_title(&text);
        }
        Source::detached(&text).push(self.sink, kind, 0..text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(html: &str) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: html.as_bytes(), name: "a.html" }, &mut sink).unwrap();
        sink.into_document()
    }

    fn assert_blocks(html: &str, expected: &[(BlockKind, &str)]) {
        let document = extract(html);
        let found: Vec<_> = document.blocks.iter().map(|it| (it.kind, it.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn head_yields_title_and_description() {
        let html = "<title>A\n page</title><meta name=Description content='About it'><p>Text";
        assert_blocks(
            html,
            &[(BlockKind::Metadata, "title: A page\ndescription: About it"), (BlockKind::Paragraph, "Text")],
        );
        assert_eq!(extract(html).title.as_deref(), Some("A page"));
    }

    #[test]
    fn block_elements_split_and_inline_elements_join() {
        assert_blocks(
            "<h2>Head<em>ing</em></h2>Loose <b>text</b>.<p>One<br>two</p><ul><li>a<li>b</ul><pre>x\n  y</pre>",
            &[
                (BlockKind::Heading(2), "Heading"),
                (BlockKind::Paragraph, "Loose text."),
                (BlockKind::Paragraph, "One\ntwo"),
                (BlockKind::ListItem, "a"),
                (BlockKind::ListItem, "b"),
                (BlockKind::Code, "x\n  y"),
            ],
        );
    }

    #[test]
    fn data_table_becomes_rows_but_layout_table_does_not() {
        assert_blocks(
            "<table><tr><th>a<th>b<tr><td>1<td><p>two</p>words</table>",
            &[(BlockKind::Table, "a | b\n1 | two words")],
        );
        assert_blocks(
            "<table><tr><td><p>Left</p><table><tr><td>x<td>y</table></table>",
            &[(BlockKind::Paragraph, "Left"), (BlockKind::Table, "x | y")],
        );
    }

    #[test]
    fn spanning_cell_is_repeated() {
        assert_blocks(
            "<table><tr><td rowspan=2>a<td>b<tr><td>c<tr><td colspan=2>d</table>",
            &[(BlockKind::Table, "a | b\na | c\nd | d")],
        );
    }

    #[test]
    fn numbered_items_keep_numbers() {
        assert_blocks("<ol start=3><li>x<li>y</ol>", &[(BlockKind::ListItem, "3. x"), (BlockKind::ListItem, "4. y")]);
    }

    #[test]
    fn scripts_navigation_and_hidden_parts_are_skipped() {
        assert_blocks(
            "<nav>Home</nav><script>x()</script><style>p{}</style><p hidden>no</p><p>Yes",
            &[(BlockKind::Paragraph, "Yes")],
        );
    }

    // Case C3
    #[test]
    fn deep_nesting_does_not_overflow_stack() {
        let html = format!("{}deep", "<div>".repeat(20_000));
        assert_blocks(&html, &[(BlockKind::Paragraph, "deep")]);
    }

    #[test]
    fn declared_charset_is_used() {
        let mut sink = Sink::new(ExtractLimits::default());
        let bytes = b"<meta charset=\"iso-8859-2\"><p>\xB1\xB1\xB1</p>";
        read(Input { bytes, name: "a.html" }, &mut sink).unwrap();
        assert_eq!(sink.into_document().text(), "ąąą");
    }
}
