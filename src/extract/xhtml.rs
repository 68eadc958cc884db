//! Reader of XHTML: chapters of e-books and HTML imported into office documents, which an XML parser can parse.
//!
//! Web pages, which need the parsing rules of HTML, are read by `html`.

use crate::extract::table_text::{one_line, table_row};
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::check_flaw;
use crate::extract::{ReadResult, Sink};
use crate::model::{Anchor, BlockKind};

/// Adds the blocks of an XHTML page to the sink, each with a copy of `anchor`.
pub(crate) fn read_text(xml: &str, anchor: &Anchor, sink: &mut Sink) -> ReadResult {
    let tree = Tree::parse(xml);
    let top = tree.top();
    let mut walker = Walker { sink, anchor, text: String::new(), kind: BlockKind::Paragraph, in_quote: false };
    walker.push_children(top.find("body").unwrap_or(top));
    walker.end_block();
    check_flaw(tree.flaw.as_ref(), anchor.part.as_deref().unwrap_or("page"), sink)
}

struct Walker<'s> {
    sink: &'s mut Sink,
    anchor: &'s Anchor,
    /// Text of the open block so far.
    text: String,
    kind: BlockKind,
    /// Whether the current element is inside a `blockquote`.
    in_quote: bool,
}

impl Walker<'_> {
    fn push_children(&mut self, node: Node<'_>) {
        for child in node.children() {
            if self.sink.is_full() {
                self.sink.mark_truncated();
                return;
            }
            self.push_node(child);
        }
    }

    fn push_node(&mut self, node: Node<'_>) {
        if let Some(text) = node.as_text() {
            return self.push_collapsed(text);
        }
        match node.name() {
            "script" | "style" | "head" | "template" | "annotation" | "rp" => {}
            "br" => self.text.push('\n'),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = node.name().as_bytes()[1] - b'0';
                self.push_block(node, BlockKind::Heading(level));
            }
            "li" => self.push_block(node, BlockKind::ListItem),
            "pre" => {
                self.end_block();
                self.sink.push(BlockKind::Code, &node.text(), self.anchor.clone());
            }
            "table" => self.push_table(node),
            "blockquote" => {
                self.end_block();
                let outer = std::mem::replace(&mut self.in_quote, true);
                self.push_block(node, self.kind);
                self.in_quote = outer;
            }
            "img" | "image" => {
                let alt = node.attr("alt").filter(|it| it.contains(' ') || !it.contains('.')).unwrap_or_default();
                self.push_collapsed(&format!(" {alt} "));
            }
            "p" | "div" | "section" | "article" | "aside" | "nav" | "header" | "footer" | "main" | "figure"
            | "figcaption" | "ul" | "ol" | "dl" | "dt" | "dd" | "hr" | "address" | "caption" | "details"
            | "summary" | "center" | "form" | "title" => self.push_block(node, self.kind),
            _ => self.push_children(node),
        }
    }

    fn push_block(&mut self, node: Node<'_>, kind: BlockKind) {
        self.end_block();
        let outer = std::mem::replace(&mut self.kind, kind);
        self.push_children(node);
        self.end_block();
        self.kind = outer;
    }

    /// Adds text to the open block, with white space collapsed as in a browser.
    fn push_collapsed(&mut self, text: &str) {
        if text.starts_with(|it: char| it.is_ascii_whitespace()) && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
        for (place, word) in text.split_ascii_whitespace().enumerate() {
            if place > 0 {
                self.text.push(' ');
            }
            self.text.push_str(word);
        }
        let ends_blank = text.ends_with(|it: char| it.is_ascii_whitespace());
        if ends_blank && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }

    fn end_block(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = if matches!(self.kind, BlockKind::Heading(_)) { one_line(&text) } else { text };
        let mut anchor = self.anchor.clone();
        if self.in_quote {
            anchor.part = Some(anchor.part.map_or_else(|| "quote".into(), |it| format!("{it}, quote")));
        }
        self.sink.push(self.kind, &text, anchor);
    }

    fn push_table(&mut self, table: Node<'_>) {
        self.end_block();
        let mut rows = Vec::new();
        collect_rows(table, &mut rows);
        let is_cell = |it: &Node<'_>| matches!(it.name(), "td" | "th");
        let widest = rows.iter().map(|row| row.children().filter(is_cell).count()).max().unwrap_or(0);
        if widest <= 1 {
            // Adds the cells as separate blocks, because a table of a single column only lays out the page.
            return rows
                .into_iter()
                .for_each(|row| row.children().filter(is_cell).for_each(|it| self.push_block(it, self.kind)));
        }
        if let Some(caption) = table.child("caption") {
            self.push_block(caption, self.kind);
        }
        let row_text = |row: &Node<'_>| table_row(&row.children().filter(is_cell).map(spaced_text).collect::<Vec<_>>());
        let lines: Vec<String> = rows.iter().filter_map(row_text).collect();
        self.sink.push(BlockKind::Table, &lines.join("\n"), self.anchor.clone());
    }
}

/// Collects the rows of a table, but not those of tables nested in its cells.
fn collect_rows<'t>(node: Node<'t>, rows: &mut Vec<Node<'t>>) {
    for child in node.children() {
        match child.name() {
            "tr" => rows.push(child),
            "thead" | "tbody" | "tfoot" => collect_rows(child, rows),
            _ => {}
        }
    }
}

/// Returns the text of a cell, with spaces between the paragraphs and other blocks in it.
fn spaced_text(cell: Node<'_>) -> String {
    let mut text = String::new();
    for node in cell.descendants() {
        match node.as_text() {
            Some(it) => text.push_str(it),
            None if matches!(node.name(), "p" | "div" | "li" | "br" | "td" | "th" | "tr") => text.push(' '),
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::format_blocks;
    use crate::model::ExtractLimits;

    fn assert_blocks(body: &str, blocks: &str) {
        let mut sink = Sink::new(ExtractLimits::default());
        read_text(&format!("<html><body>{body}</body></html>"), &Anchor::default(), &mut sink).unwrap();
        assert_eq!(format_blocks(&sink.into_document()), blocks);
    }

    #[test]
    fn elements_map_to_block_kinds() {
        assert_blocks(
            "<h2>A <i>b</i></h2>loose <p>text<b>bold</b>\n more<br/>line</p><ul><li><p>one</p></li><li>two</li></ul>",
            "2 A b\np loose\np textbold more / line\n- one\n- two",
        );
        assert_blocks("<pre>  a\n    b</pre><script>no</script>", "c   a /     b");
    }

    #[test]
    fn block_quotation_is_labelled_as_quote() {
        let mut sink = Sink::new(ExtractLimits::default());
        let anchor = Anchor { part: Some("chapter 2".into()), ..Anchor::default() };
        let page = "<html><body>before<blockquote><p>one</p>two</blockquote><p>after</p></body></html>";
        read_text(page, &anchor, &mut sink).unwrap();
        let document = sink.into_document();
        let parts: Vec<_> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.anchor.part.as_deref().unwrap())).collect();
        let quote = "chapter 2, quote";
        assert_eq!(parts, [("before", "chapter 2"), ("one", quote), ("two", quote), ("after", "chapter 2")]);
    }

    #[test]
    fn data_table_becomes_rows_and_layout_table_text() {
        assert_blocks(
            "<table><caption>C</caption><thead><tr><th>a</th><th>b</th></tr></thead><tr><td><p>1</p><p>2</p></td><td/></tr></table>",
            "p C\nt a | b / 1 2",
        );
        assert_blocks("<table><tr><td><p>only</p></td></tr></table>", "p only");
    }

    #[test]
    fn truncated_page_keeps_its_text() {
        let mut sink = Sink::new(ExtractLimits::default());
        read_text("<html><body><p>one</p><p>two", &Anchor::default(), &mut sink).unwrap();
        let document = sink.into_document();
        assert_eq!(format_blocks(&document), "p one\np two");
        assert_eq!(document.problems.len(), 1);
    }
}
