//! FictionBook 2: one XML file with nested sections.

use crate::extract::office::ooxml::{one_line, push_metadata, table_row};
use crate::extract::xml_tree::{self, Node, Tree};
use crate::extract::zip_container::check_flaw;
use crate::extract::{Input, ReadResult, Sink, failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Reads a FictionBook.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let xml = xml_tree::decode(input.bytes);
    let tree = Tree::parse(&xml);
    let Some(book) = tree.top().child("FictionBook") else {
        return Err(failure(Reason::Damaged, "not a FictionBook"));
    };
    metadata(book, sink);
    for body in book.all("body") {
        section(body, 1, sink);
    }
    check_flaw(tree.flaw.as_ref(), input.name, sink)
}

fn metadata(book: Node<'_>, sink: &mut Sink) {
    let Some(info) = book.path(&["description", "title-info"]) else { return };
    let text = |name: &str| info.child(name).map(Node::text).unwrap_or_default();
    let mut facts = vec![("title", text("book-title"))];
    facts.extend(info.all("author").map(|it| ("author", spaced(it))));
    facts.push(("keywords", text("keywords")));
    if let Some(annotation) = info.child("annotation") {
        facts.push(("description", spaced(annotation)));
    }
    push_metadata(&facts, sink);
}

/// Returns the texts below a node, separated by spaces.
fn spaced(node: Node<'_>) -> String {
    node.descendants().filter_map(Node::as_text).collect::<Vec<_>>().join(" ")
}

/// Adds a section; its title becomes a heading of `level`.
fn section(node: Node<'_>, level: u8, sink: &mut Sink) {
    for child in node.children() {
        let (kind, text) = match child.name() {
            "title" => (BlockKind::Heading(level.min(6)), one_line(&spaced(child))),
            "p" | "subtitle" | "v" | "text-author" | "date" => (BlockKind::Paragraph, child.text()),
            "section" => {
                section(child, level.saturating_add(1), sink);
                continue;
            }
            "table" => {
                let rows = child.all("tr").filter_map(|row| {
                    table_row(&row.children().filter(|it| !it.name().is_empty()).map(Node::text).collect::<Vec<_>>())
                });
                (BlockKind::Table, rows.collect::<Vec<_>>().join("\n"))
            }
            "" | "image" => continue,
            // Poems, stanzas, quotations, epigraphs: containers of the above.
            _ => {
                section(child, level.saturating_add(1), sink);
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
    use crate::extract::zip_container::tests::{run, shown};

    #[test]
    fn nested_sections_become_heading_levels() {
        let xml = "<?xml version='1.0'?><FictionBook><description><title-info><author><first-name>Ann</first-name>\
            <last-name>Lee</last-name></author><book-title>Book</book-title></title-info></description><body><section>\
            <title><p>One</p></title><p>A <strong>b</strong>.</p><section><title><p>Sub</p></title>\
            <poem><stanza><v>line</v></stanza></poem></section></section></body><binary>AAAA</binary></FictionBook>";
        let document = run(read, xml.as_bytes());
        assert_eq!(shown(&document), "m title: Book / author: Ann Lee\n2 One\np A b.\n3 Sub\np line");
    }

    #[test]
    fn other_xml_is_reported_as_damaged() {
        let mut sink = Sink::new(crate::model::ExtractLimits::default());
        let failed = read(Input { bytes: b"<a/>", name: "a.fb2" }, &mut sink).unwrap_err();
        assert_eq!(failed.reason, Reason::Damaged);
    }
}
