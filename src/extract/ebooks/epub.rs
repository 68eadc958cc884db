//! Reader of e-books (EPUB): extracts the chapters in the order of the book's spine, which is the reading order.
//!
//! Links are not followed, scripts are not run, and copy protection is not removed.

use std::collections::{HashMap, HashSet};

use crate::extract::office::ooxml::push_metadata;
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::{Package, check_flaw, resolve_part};
use crate::extract::{Input, ReadResult, Sink, new_failure, xhtml};
use crate::model::{Anchor, BlockKind, Reason};

/// Adds the metadata and the chapters of an e-book to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let mut package = Package::open(input.bytes, sink)?;
    let mark = sink.block_count();
    let book = package_document(&mut package, sink)?;
    let mut chapters = match package.read_xml(&book, sink)? {
        Some(xml) => {
            let tree = Tree::parse(&xml);
            check_flaw(tree.flaw.as_ref(), &book, sink)?;
            push_book_metadata(tree.top(), sink);
            spine_parts(tree.top(), &book)
        }
        None => Vec::new(),
    };
    chapters.retain(|it| package.has(it));
    if chapters.is_empty() {
        chapters = package.names().into_iter().map(|it| it.to_lowercase()).collect();
        chapters.retain(|it| [".xhtml", ".html", ".htm"].iter().any(|end| it.ends_with(end)));
    }
    let protected = protected_parts(&mut package, sink)?;
    if !chapters.is_empty() && chapters.iter().all(|it| protected.contains(it)) {
        return Err(new_failure(Reason::Encrypted, "all chapters of the e-book are copy-protected"));
    }
    read_chapters(&chapters, &protected, &mut package, sink)?;
    package.check_damage(mark, |it| it.kind != BlockKind::Metadata, sink)
}

/// Adds the chapters that are not copy-protected. Fails if no chapter can be read.
fn read_chapters(
    chapters: &[String],
    protected: &HashSet<String>,
    package: &mut Package<'_>,
    sink: &mut Sink,
) -> ReadResult {
    let mut is_any_read = false;
    let mut told = None;
    for (place, chapter) in chapters.iter().enumerate() {
        if protected.contains(chapter) || sink.is_full() {
            continue;
        }
        let Some(xml) = package.read_xml(chapter, sink)? else { continue };
        let part = format!("chapter {}", place + 1);
        let anchor = Anchor { part: Some(part.clone()), ..Anchor::default() };
        match xhtml::read_text(&xml, &anchor, sink) {
            Ok(()) => is_any_read = true,
            Err(failed) => {
                sink.record_problem(format!("{part}: {}", failed.detail));
                told.get_or_insert(failed);
            }
        }
    }
    match told {
        Some(failed) if !is_any_read => Err(failed),
        _ => Ok(()),
    }
}

/// Returns the path of the package document (`.opf`), which lists all other parts of the e-book.
fn package_document(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult<String> {
    if let Some(xml) = package.read_xml("META-INF/container.xml", sink)?
        && let Some(path) = Tree::parse(&xml).top().find("rootfile").and_then(|it| it.attr("full-path"))
    {
        return Ok(path);
    }
    let any = package.names().into_iter().find(|it| it.to_lowercase().ends_with(".opf"));
    any.ok_or_else(|| new_failure(Reason::Damaged, "the e-book has no package document"))
}

fn push_book_metadata(top: Node<'_>, sink: &mut Sink) {
    let Some(node) = top.find("metadata") else { return };
    let fields = ["title", "creator", "contributor", "publisher", "language", "identifier", "subject", "description"];
    let mut facts = Vec::new();
    for field in fields {
        let label = if field == "creator" { "author" } else { field };
        facts.extend(node.descendants().filter(|it| it.name() == field).map(|it| (label, strip_markup(&it.text()))));
    }
    push_metadata(&facts, sink);
}

/// Removes the markup from a metadata value, because descriptions are often HTML.
fn strip_markup(text: &str) -> String {
    match text.contains('<') {
        true => Tree::parse(text).top().text(),
        false => text.to_string(),
    }
}

/// Returns the paths of the chapters in the spine, in order and without duplicates. `book` is the path of the package
/// document.
fn spine_parts(top: Node<'_>, book: &str) -> Vec<String> {
    let items = top.find("manifest").into_iter().flat_map(|it| it.children_named("item"));
    let by_id: HashMap<String, String> = items
        .filter_map(|it| Some((it.attr("id")?, resolve_part(book, &percent_decoded(&it.attr("href")?)))))
        .collect();
    let mut seen = HashSet::new();
    let references = top.find("spine").into_iter().flat_map(|it| it.children_named("itemref"));
    references
        .filter_map(|it| by_id.get(&it.attr("idref")?).map(|it| it.to_lowercase()))
        .filter(|it| seen.insert(it.clone()))
        .collect()
}

/// Returns the paths of the encrypted parts, without obfuscated fonts, which do not protect any text.
fn protected_parts(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult<HashSet<String>> {
    let Some(xml) = package.read_xml("META-INF/encryption.xml", sink)? else { return Ok(HashSet::new()) };
    let tree = Tree::parse(&xml);
    let is_cipher = |it: &Node<'_>| {
        let algorithm = it.child("EncryptionMethod").and_then(|it| it.attr("Algorithm")).unwrap_or_default();
        algorithm.contains("xmlenc")
    };
    let data = tree.top().descendants().filter(|it| it.name() == "EncryptedData").filter(is_cipher);
    let uri = |it: Node<'_>| it.find("CipherReference").and_then(|it| it.attr("URI"));
    Ok(data.filter_map(uri).map(|it| resolve_part("", &percent_decoded(&it)).to_lowercase()).collect())
}

/// Decodes percent-encoded characters, such as `%20`, in a path.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::{
        failure_reason, format_blocks, read_document, with_damaged_part, zipped,
    };

    const CONTAINER: &str = r#"<container><rootfiles><rootfile full-path="O/b.opf"/></rootfiles></container>"#;
    const BOOK: &str = r#"<package><metadata><dc:title>The Book</dc:title><dc:creator>Ann</dc:creator></metadata>
        <manifest><item id="x" href="two%20.xhtml"/><item id="y" href="one.xhtml"/><item id="z" href="unused.xhtml"/></manifest>
        <spine><itemref idref="y"/><itemref idref="x"/><itemref idref="gone"/></spine></package>"#;

    fn book(extra: &[(&str, &str)]) -> Vec<u8> {
        let mut parts = vec![
            ("META-INF/container.xml", CONTAINER),
            ("O/b.opf", BOOK),
            ("O/two .xhtml", "<html><body><p>second</p></body></html>"),
            ("O/one.xhtml", "<html><head><title>no</title></head><body><h1>First</h1></body></html>"),
            ("O/unused.xhtml", "<html><body>unused</body></html>"),
        ];
        parts.extend(extra);
        zipped(&parts)
    }

    #[test]
    fn chapters_follow_spine_order() {
        let document = read_document(read, &book(&[]));
        assert_eq!(format_blocks(&document), "m title: The Book / author: Ann\n1 First\np second");
        assert_eq!(document.title.as_deref(), Some("The Book"));
        assert_eq!(document.blocks[2].anchor.part.as_deref(), Some("chapter 2"));
    }

    #[test]
    fn book_without_readable_chapters_is_damaged() {
        let bytes = with_damaged_part(book(&[]), "O/one.xhtml");
        assert_eq!(format_blocks(&read_document(read, &bytes)), "m title: The Book / author: Ann\np second");
        assert_eq!(failure_reason(read, &with_damaged_part(bytes, "O/two .xhtml")), Reason::Damaged);
    }

    #[test]
    fn unreadable_chapter_is_skipped() {
        let deep = format!("<html><body>{}</body></html>", "<div>".repeat(1_000));
        let parts = |second| {
            let chapters = [("O/one.xhtml", deep.as_str()), ("O/two .xhtml", second)];
            zipped(&[("META-INF/container.xml", CONTAINER), ("O/b.opf", BOOK), chapters[0], chapters[1]])
        };
        let document = read_document(read, &parts("<html><body><p>second</p></body></html>"));
        assert_eq!(format_blocks(&document), "m title: The Book / author: Ann\np second");
        assert!(document.problems[0].starts_with("chapter 1: "), "{:?}", document.problems);
        assert_eq!(failure_reason(read, &parts(&deep)), Reason::TooDeep);
    }

    #[test]
    fn copy_protected_book_is_encrypted() {
        let data = |uri: &str| {
            format!(
                r#"<EncryptedData><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>
                <CipherData><CipherReference URI="{uri}"/></CipherData></EncryptedData>"#
            )
        };
        let xml = format!("<encryption>{}{}</encryption>", data("O/one.xhtml"), data("O/two%20.xhtml"));
        let bytes = book(&[("META-INF/encryption.xml", &xml)]);
        let mut sink = Sink::new(crate::model::ExtractLimits::default());
        let failed = read(Input { bytes: &bytes, name: "a.epub" }, &mut sink).unwrap_err();
        assert_eq!(failed.reason, Reason::Encrypted);
    }
}
