//! Reader of FictionBook 2 e-books, each a single XML file with nested sections.

use crate::extract::office::ooxml::push_metadata;
use crate::extract::table_text::{one_line, table_row};
use crate::extract::xml_tree::{self, Node, Tree};
use crate::extract::zip_container::check_flaw;
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Adds the metadata and the sections of a FictionBook to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let xml = xml_tree::decode_xml(input.bytes);
    let tree = Tree::parse(&xml);
    let Some(book) = tree.top().child("FictionBook") else {
        return Err(new_failure(Reason::Damaged, "the file is not a FictionBook e-book"));
    };
    push_book_metadata(book, sink);
    for body in book.children_named("body") {
        push_section(body, 1, sink);
    }
    check_flaw(tree.flaw.as_ref(), input.name, sink)
}

fn push_book_metadata(book: Node<'_>, sink: &mut Sink) {
    let Some(info) = book.path(&["description", "title-info"]) else { return };
    let text = |name: &str| info.child(name).map(Node::text).unwrap_or_default();
    let mut facts = vec![("title", text("book-title"))];
    facts.extend(info.children_named("author").map(|it| ("author", text_with_spaces(it))));
    facts.push(("keywords", text("keywords")));
    if let Some(annotation) = info.child("annotation") {
        facts.push(("description", text_with_spaces(annotation)));
    }
    push_metadata(&facts, sink);
}

/// Returns the texts of all descendants of a node, separated by spaces.
fn text_with_spaces(node: Node<'_>) -> String {
    node.descendants().filter_map(Node::as_text).collect::<Vec<_>>().join(" ")
}

/// Adds the content of a section; its title becomes a heading of the given level.
fn push_section(node: Node<'_>, level: u8, sink: &mut Sink) {
    for child in node.children() {
        let (kind, text) = match child.name() {
            "title" => (BlockKind::Heading(level.min(6)), one_line(&text_with_spaces(child))),
            "p" | "subtitle" | "v" | "text-author" | "date" => (BlockKind::Paragraph, child.text()),
            "section" => {
                push_section(child, level.saturating_add(1), sink);
                continue;
            }
            "table" => {
                let rows = child.children_named("tr").filter_map(|row| {
                    table_row(&row.children().filter(|it| !it.name().is_empty()).map(Node::text).collect::<Vec<_>>())
                });
                (BlockKind::Table, rows.collect::<Vec<_>>().join("\n"))
            }
            "" | "image" => continue,
            // Poems, stanzas, quotations and epigraphs contain the elements above, so they are read like sections.
            _ => {
                push_section(child, level.saturating_add(1), sink);
                continue;
            }
        };
        if !sink.push(kind, &text, Anchor::default()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::{format_blocks, read_document};

    #[test]
    fn nested_sections_become_heading_levels() {
        let xml = "<?xml version='1.0'?><FictionBook><description><title-info><author><first-name>Ann</first-name>\
            <last-name>Lee</last-name></author><book-title>Book</book-title></title-info></description><body><section>\
            <title><p>One</p></title><p>A <strong>b</strong>.</p><section><title><p>Sub</p></title>\
            <poem><stanza><v>line</v></stanza></poem></section></section></body><binary>AAAA</binary></FictionBook>";
        let document = read_document(read, xml.as_bytes());
        assert_eq!(format_blocks(&document), "m title: Book / author: Ann Lee\n2 One\np A b.\n3 Sub\np line");
    }

    #[test]
    fn other_xml_is_reported_as_damaged() {
        let mut sink = Sink::new(crate::model::ExtractLimits::default());
        let failed = read(Input { bytes: b"<a/>", name: "a.fb2" }, &mut sink).unwrap_err();
        assert_eq!(failed.reason, Reason::Damaged);
    }
}
