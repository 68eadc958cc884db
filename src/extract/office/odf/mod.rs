//! Reader of OpenDocument files: texts (odt), presentations (odp), spreadsheets (ods) and drawings (odg), zipped or as a
//! single XML file.
//!
//! Text that change tracking marks as deleted is skipped. Embedded objects are added after the text.

mod inline;

use std::collections::HashSet;

use crate::extract::office::odf::inline::Inline;
use crate::extract::office::ooxml::push_metadata;
use crate::extract::sheet_writer::{SheetWriter, cell_name};
use crate::extract::table_text::{one_line, table_row};
use crate::extract::xml_tree::{self, Node, Tree};
use crate::extract::zip_container::{Package, check_flaw};
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Maximum number of copies added of a cell or row that the file declares as repeated.
const MAX_REPEATED: u32 = 16;

/// Adds the text of an OpenDocument file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    if !input.bytes.starts_with(b"PK") && !input.bytes.starts_with(&crate::extract::zip_container::COMPOUND_FILE) {
        return read_flat(input, sink);
    }
    let mut package = Package::open(input.bytes, sink)?;
    check_encryption(&mut package, sink)?;
    if let Some(xml) = package.read_xml("meta.xml", sink)? {
        push_document_metadata(Tree::parse(&xml).top(), sink);
    }
    let Some(xml) = package.read_xml("content.xml", sink)? else {
        return Err(new_failure(Reason::Damaged, "the package has no readable `content.xml`"));
    };
    let tree = Tree::parse(&xml);
    read_body(tree.top(), sink);
    if let Some(xml) = package.read_xml("styles.xml", sink)? {
        headers_and_footers(Tree::parse(&xml).top(), sink);
    }
    push_embedded_objects(&mut package, sink)?;
    check_flaw(tree.flaw.as_ref(), "content.xml", sink)
}

/// Reads a document that is stored as a single XML file.
fn read_flat(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let xml = xml_tree::decode_xml(input.bytes);
    let tree = Tree::parse(&xml);
    let Some(document) = tree.top().child("document") else {
        return Err(new_failure(Reason::Damaged, "the file is not an OpenDocument file"));
    };
    push_document_metadata(document, sink);
    read_body(document, sink);
    headers_and_footers(document, sink);
    check_flaw(tree.flaw.as_ref(), input.name, sink)
}

fn check_encryption(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult {
    let Some(xml) = package.read_xml("META-INF/manifest.xml", sink)? else { return Ok(()) };
    let tree = Tree::parse(&xml);
    let is_body = |it: &Node<'_>| {
        it.attr("full-path").is_some_and(|path| matches!(path.as_str(), "content.xml" | "encrypted-package"))
    };
    let encrypted = |it: Node<'_>| is_body(&it) && it.child("encryption-data").is_some();
    match tree.top().descendants().any(encrypted) {
        true => Err(new_failure(Reason::Encrypted, "needs a password")),
        false => Ok(()),
    }
}

fn push_document_metadata(top: Node<'_>, sink: &mut Sink) {
    let Some(meta) = top.find("meta") else { return };
    let text = |name: &str| meta.child(name).map(Node::text).unwrap_or_default();
    let author = Some(text("initial-creator")).filter(|it| !it.is_empty()).unwrap_or_else(|| text("creator"));
    let mut facts = vec![
        ("title", text("title")),
        ("subject", text("subject")),
        ("author", author),
        ("description", text("description")),
    ];
    let keywords: Vec<String> = meta.children_named("keyword").map(Node::text).collect();
    facts.push(("keywords", keywords.join(", ")));
    push_metadata(&facts, sink);
}

fn read_body(top: Node<'_>, sink: &mut Sink) {
    let Some(body) = top.find("body") else { return };
    if let Some(sheets) = body.child("spreadsheet") {
        for sheet in sheets.children_named("table") {
            read_sheet(sheet, sink);
        }
        return;
    }
    let pages = body.descendants().filter(|it| it.name() == "page").count();
    if pages > 0 {
        sink.document().pages = Some(pages as u32);
    }
    Walker { sink, page: 0, part: None, kind: BlockKind::Paragraph, quotations: quotation_styles(top) }
        .push_blocks(body);
}

struct Walker<'s> {
    sink: &'s mut Sink,
    /// Number of the current slide, from 1; 0 outside slides.
    page: u32,
    part: Option<&'static str>,
    /// Kind of block that the current paragraphs become: list items in a list, headings in a slide title.
    kind: BlockKind,
    /// Names of the paragraph styles for quotations.
    quotations: HashSet<String>,
}

/// Returns the names of the paragraph styles for quotations: the built-in ones, which are English in every language, and
/// the automatic styles derived from them.
fn quotation_styles(top: Node<'_>) -> HashSet<String> {
    const NAMES: [&str; 4] = ["Quotations", "Quote", "Intense_20_Quote", "Block_20_Text"];
    let mut found = HashSet::from(NAMES.map(String::from));
    for style in top.descendants().filter(|it| it.name() == "style") {
        if style.attr("parent-style-name").is_some_and(|it| found.contains(&it)) {
            found.extend(style.attr("name"));
        }
    }
    found
}

impl Walker<'_> {
    fn push(&mut self, kind: BlockKind, text: &str) {
        let page = (self.page > 0).then_some(self.page);
        self.sink.push(kind, text, Anchor { page, part: self.part.map(str::to_string), ..Anchor::default() });
    }

    fn push_blocks(&mut self, node: Node<'_>) {
        for child in node.children() {
            if self.sink.is_full() || self.page > self.sink.limits().pages {
                self.sink.mark_truncated();
                return;
            }
            self.push_block(child);
        }
    }

    fn push_block(&mut self, node: Node<'_>) {
        match node.name() {
            "h" => {
                let level = node.attr("outline-level").and_then(|it| it.parse::<u8>().ok()).unwrap_or(1);
                self.push_paragraph(node, BlockKind::Heading(level.clamp(1, 6)));
            }
            "p" if node.attr("style-name").is_some_and(|it| it == "Title") => {
                self.push_paragraph(node, BlockKind::Heading(1));
            }
            "p" if node.attr("style-name").is_some_and(|it| self.quotations.contains(&it)) => {
                let outer = self.part.replace("quote");
                self.push_paragraph(node, self.kind);
                self.part = outer;
            }
            "p" => self.push_paragraph(node, self.kind),
            "list" => self.push_blocks_as(node, self.part, BlockKind::ListItem),
            "table" => self.push_table(node),
            "page" => {
                self.page += 1;
                self.push_blocks(node);
            }
            "notes" => self.push_blocks_as(node, Some("notes"), BlockKind::Paragraph),
            "frame" | "custom-shape" if node.attr("class").is_some_and(|it| it == "title") => {
                self.push_blocks_as(node, self.part, BlockKind::Heading(1));
            }
            "title" | "desc" => self.push(BlockKind::Paragraph, &node.text()),
            "annotation" => self.push_comment(node),
            "footer-decl" | "header-decl" => self.push(BlockKind::Paragraph, &node.text()),
            "" | "tracked-changes" | "forms" | "sequence-decls" | "variable-decls" | "user-field-decls"
            | "settings" | "binary-data" | "image" | "event-listeners" | "date-time-decl" | "plugin" => {}
            _ => self.push_blocks(node),
        }
    }

    fn push_blocks_as(&mut self, node: Node<'_>, part: Option<&'static str>, kind: BlockKind) {
        let outer = (self.part, self.kind);
        (self.part, self.kind) = (part, kind);
        self.push_blocks(node);
        (self.part, self.kind) = outer;
    }

    fn push_paragraph(&mut self, node: Node<'_>, kind: BlockKind) {
        let inline = Inline::parse(node);
        if matches!(kind, BlockKind::Heading(_)) {
            let text = one_line(&inline.text);
            if kind == BlockKind::Heading(1) {
                self.sink.set_title(&text);
            }
            self.push(kind, &text);
        } else {
            self.push(kind, &inline.text);
        }
        self.push_anchored_objects(inline);
    }

    /// Adds the objects anchored in a paragraph: frames, notes and comments. Call this after the paragraph is added.
    fn push_anchored_objects(&mut self, inline: Inline<'_>) {
        for frame in inline.frames {
            self.push_block(frame);
        }
        for note in inline.notes {
            self.push_blocks_as(note, Some("footnote"), BlockKind::Paragraph);
        }
        for comment in inline.comments {
            self.push_comment(comment);
        }
    }

    fn push_comment(&mut self, node: Node<'_>) {
        let author = node.child("creator").map(Node::text).unwrap_or_default();
        let text: Vec<String> =
            node.descendants().filter(|it| it.name() == "p").map(|it| Inline::parse(it).text).collect();
        let outer = self.part.replace("comment");
        self.push(BlockKind::Paragraph, &format!("{author}: {}", text.join("\n")));
        self.part = outer;
    }

    fn push_table(&mut self, table: Node<'_>) {
        let mut rows = Vec::new();
        collect_rows(table, &mut rows);
        let mut lines = Vec::new();
        let mut inside = Vec::new();
        let mut tables = Vec::new();
        for row in rows {
            let mut cells = Vec::new();
            for cell in row.children().filter(|it| matches!(it.name(), "table-cell" | "covered-table-cell")) {
                let text = match cell.name() {
                    "table-cell" => cell_text(cell, &mut inside, &mut tables),
                    _ => String::new(),
                };
                let count = repeat_count(cell, "number-columns-repeated").min(MAX_REPEATED);
                cells.extend(std::iter::repeat_n(text, count as usize));
            }
            lines.extend(table_row(&cells));
        }
        self.push(BlockKind::Table, &lines.join("\n"));
        inside.into_iter().for_each(|inline| self.push_anchored_objects(inline));
        tables.into_iter().for_each(|table| self.push_table(table));
    }
}

/// Collects the rows of a table, but not those of tables nested in its cells.
fn collect_rows<'t>(node: Node<'t>, rows: &mut Vec<Node<'t>>) {
    for child in node.children() {
        match child.name() {
            "table-row" => rows.push(child),
            "table-rows" | "table-header-rows" | "table-row-group" => collect_rows(child, rows),
            _ => {}
        }
    }
}

/// Returns the text of a cell. Collects the cell's anchored objects and nested tables, to be added after the whole table.
fn cell_text<'t>(cell: Node<'t>, inside: &mut Vec<Inline<'t>>, tables: &mut Vec<Node<'t>>) -> String {
    let mut text = String::new();
    for child in cell.children() {
        match child.name() {
            "p" | "h" => {
                let mut inline = Inline::parse(child);
                text.push_str(&std::mem::take(&mut inline.text));
                text.push('\n');
                inside.push(inline);
            }
            "table" => tables.push(child),
            "" | "annotation" | "shapes" => {}
            _ => text.push_str(&cell_text(child, inside, tables)),
        }
    }
    text
}

fn repeat_count(node: Node<'_>, attribute: &str) -> u32 {
    node.attr(attribute).and_then(|it| it.parse().ok()).unwrap_or(1).max(1)
}

/// Adds one sheet of a spreadsheet. Cells have the text that the spreadsheet program displayed.
fn read_sheet(sheet: Node<'_>, sink: &mut Sink) {
    let mut writer = SheetWriter::new(&sheet.attr("name").unwrap_or_default(), sink);
    let mut rows = Vec::new();
    collect_rows(sheet, &mut rows);
    let mut comments = Vec::new();
    let mut row_number = 0u32;
    'sheet: for row in rows {
        let times = repeat_count(row, "number-rows-repeated");
        // Limits the copies of a repeated row: rows with content are rarely repeated, and the copies add no new text.
        for place in 0..times.min(MAX_REPEATED) {
            if !write_row(row, row_number.saturating_add(place), &mut writer, &mut comments) {
                break 'sheet;
            }
        }
        row_number = row_number.saturating_add(times);
    }
    for (cell, comment) in comments {
        writer.push_comment(&cell, &comment);
    }
    if let Some(shapes) = sheet.child("shapes") {
        let text = shapes.descendants().filter(|it| it.name() == "p").map(|it| Inline::parse(it).text);
        writer.push_graphic(&text.collect::<Vec<_>>().join("\n"));
    }
    writer.finish();
}

fn write_row(row: Node<'_>, number: u32, writer: &mut SheetWriter<'_>, comments: &mut Vec<(String, String)>) -> bool {
    let mut column = 0u32;
    for cell in row.children().filter(|it| matches!(it.name(), "table-cell" | "covered-table-cell")) {
        let times = repeat_count(cell, "number-columns-repeated");
        let text: Vec<String> = cell.children_named("p").map(|it| Inline::parse(it).text).collect();
        let text = text.join(" ");
        for place in 0..times.min(MAX_REPEATED) {
            if !writer.push_cell(number, column.saturating_add(place), &text) {
                return false;
            }
        }
        for comment in cell.children_named("annotation") {
            let lines = comment.descendants().filter(|it| it.name() == "p").map(Node::text);
            comments.push((cell_name(number, column), lines.collect::<Vec<_>>().join("\n")));
        }
        column = column.saturating_add(times);
    }
    true
}

/// Adds the headers and footers of the page styles, and the text of slide masters. Equal texts are added once.
fn headers_and_footers(top: Node<'_>, sink: &mut Sink) {
    let mut seen = HashSet::new();
    let Some(styles) = top.find("master-styles") else { return };
    for node in styles.descendants() {
        let part = match node.name() {
            "header" | "header-left" | "header-first" => "header",
            "footer" | "footer-left" | "footer-first" => "footer",
            // Takes the fixed text of a slide master, but not the placeholders, because they hold only hints for the
            // author.
            "frame" if node.attr("placeholder").is_none() => "master",
            _ => continue,
        };
        let lines: Vec<String> =
            node.descendants().filter(|it| matches!(it.name(), "p" | "h")).map(|it| Inline::parse(it).text).collect();
        let text = lines.join("\n");
        if seen.insert(text.clone()) {
            sink.push(BlockKind::Paragraph, &text, Anchor { part: Some(part.to_string()), ..Anchor::default() });
        }
    }
}

/// Adds the text of embedded objects: charts, formulas and other documents.
fn push_embedded_objects(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult {
    /// Maximum number of embedded objects that are read; the others are skipped. A report has a few dozen charts.
    const MAX_OBJECTS: usize = 100;
    let is_object = |name: &String| {
        name.split_once('/').is_some_and(|(folder, rest)| folder.starts_with("Object") && rest == "content.xml")
    };
    for name in package.names().into_iter().filter(is_object).take(MAX_OBJECTS) {
        let Some(xml) = package.read_xml(&name, sink)? else { continue };
        let tree = Tree::parse(&xml);
        let top = tree.top();
        let part = Some("object");
        let mut walker = Walker { sink, page: 0, part, kind: BlockKind::Paragraph, quotations: HashSet::new() };
        match top.find("body").or_else(|| top.child("math")) {
            Some(math) if math.name() == "math" => {
                let text = |it: Node<'_>| matches!(it.name(), "mi" | "mn" | "mo" | "mtext").then(|| it.text());
                walker.push(BlockKind::Paragraph, &math.descendants().filter_map(text).collect::<Vec<_>>().join(" "));
            }
            Some(body) => walker.push_blocks(body),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
