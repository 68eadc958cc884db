//! Reader of Word documents (docx, docm, dotx): extracts the body in reading order, each note and comment after the
//! paragraph that refers to it, headers and footers once at the end.
//!
//! Page layout and fonts are ignored.

mod inline;
mod numbering;
mod styles;

use std::collections::{HashMap, HashSet};

use crate::extract::office::docx::inline::Inline;
use crate::extract::office::docx::numbering::Numbering;
use crate::extract::office::docx::styles::{Role, Styles, child_value, list_place, outline_level};
use crate::extract::office::ooxml::{self, Relation, comment_text};
use crate::extract::table_text::{merged_text, one_line, table_row};
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::{Package, check_flaw};
use crate::extract::{Input, ReadResult, Sink, new_failure, xhtml};
use crate::model::{Anchor, BlockKind, Reason};

/// Adds the text of a Word document to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let mut package = Package::open(input.bytes, sink)?;
    let main = ooxml::main_part(&mut package, "word/document.xml", sink)?;
    ooxml::push_properties(&mut package, sink)?;
    let relations = ooxml::read_relations(&mut package, &main, sink)?;
    let mut walker = Walker {
        styles: Styles::default(),
        numbering: Numbering::default(),
        notes: HashMap::new(),
        comments: HashMap::new(),
        relations,
        package,
        sink,
    };
    walker.read_side_parts()?;
    let Some(xml) = walker.package.read_xml(&main, walker.sink)? else {
        return Err(new_failure(Reason::Damaged, format!("the package has no readable `{main}`")));
    };
    let tree = Tree::parse(&xml);
    walker.push_blocks(tree.top())?;
    walker.headers_and_footers()?;
    check_flaw(tree.flaw.as_ref(), &main, walker.sink)
}

struct Walker<'a, 's> {
    styles: Styles,
    numbering: Numbering,
    /// Text of footnotes and endnotes that are not added yet, by `f` or `e` and the id.
    notes: HashMap<String, String>,
    /// Text of comments that are not added yet, with their authors, by id.
    comments: HashMap<String, String>,
    relations: Vec<Relation>,
    package: Package<'a>,
    sink: &'s mut Sink,
}

impl Walker<'_, '_> {
    fn side_part(&mut self, kind: &str) -> ReadResult<Option<String>> {
        match self.relations.iter().find(|it| it.kind == kind && !it.external).cloned() {
            Some(relation) => self.package.read_xml(&relation.target, self.sink),
            None => Ok(None),
        }
    }

    /// Reads the parts that the body refers to: styles, numbering, notes and comments.
    fn read_side_parts(&mut self) -> ReadResult {
        if let Some(xml) = self.side_part("styles")? {
            self.styles = Styles::parse(Tree::parse(&xml).top());
        }
        if let Some(xml) = self.side_part("numbering")? {
            self.numbering = Numbering::parse(Tree::parse(&xml).top());
        }
        for (kind, element, prefix) in [("footnotes", "footnote", "f"), ("endnotes", "endnote", "e")] {
            let Some(xml) = self.side_part(kind)? else { continue };
            let tree = Tree::parse(&xml);
            for note in tree.top().descendants().filter(|it| it.name() == element) {
                // Skips notes that have a type, because they are separator lines.
                if let (Some(id), None) = (note.attr("id"), note.attr("type")) {
                    self.notes.insert(format!("{prefix}{id}"), plain_text(note));
                }
            }
        }
        if let Some(xml) = self.side_part("comments")? {
            let tree = Tree::parse(&xml);
            for comment in tree.top().descendants().filter(|it| it.name() == "comment") {
                let author = comment.attr("author").unwrap_or_default();
                let text = comment_text(&author, comment.attr("date"), &plain_text(comment));
                self.comments.insert(comment.attr("id").unwrap_or_default(), text);
            }
        }
        Ok(())
    }

    /// Adds the headers and footers of the document. Equal texts are added once.
    fn headers_and_footers(&mut self) -> ReadResult {
        let mut seen = HashSet::new();
        for kind in ["header", "footer"] {
            let relations: Vec<Relation> = self.relations.iter().filter(|it| it.kind == kind).cloned().collect();
            for relation in relations {
                let Some(xml) = self.package.read_xml(&relation.target, self.sink)? else { continue };
                let text = plain_text(Tree::parse(&xml).top());
                if seen.insert(text.clone()) {
                    self.push(BlockKind::Paragraph, &text, Some(kind));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, kind: BlockKind, text: &str, part: Option<&str>) {
        self.sink.push(kind, text, Anchor { part: part.map(str::to_string), ..Anchor::default() });
    }

    /// Adds all content below a container of paragraphs and tables.
    fn push_blocks(&mut self, node: Node<'_>) -> ReadResult {
        for child in node.children() {
            if self.sink.is_full() {
                self.sink.mark_truncated();
                return Ok(());
            }
            match child.name() {
                "p" => self.push_paragraph(child)?,
                "tbl" => self.push_table(child)?,
                "AlternateContent" => {
                    if let Some(child) = child.child("Choice").or_else(|| child.child("Fallback")) {
                        self.push_blocks(child)?;
                    }
                }
                "altChunk" => self.push_imported_part(child)?,
                // An equation in the body stands in place of a paragraph.
                "oMathPara" | "oMath" => self.push(BlockKind::Paragraph, &Inline::parse(child).text, None),
                "" | "del" | "moveFrom" | "sectPr" | "sdtPr" => {}
                _ => self.push_blocks(child)?,
            }
        }
        Ok(())
    }

    fn push_paragraph(&mut self, node: Node<'_>) -> ReadResult {
        let inline = Inline::parse(node);
        let role = self.role(node);
        // Does not count empty paragraphs, because Word does not number them.
        let numbered = role.list.filter(|_| !inline.text.trim().is_empty());
        let style = node.path(&["pPr", "pStyle"]).and_then(|it| it.attr("val"));
        let label = numbered.and_then(|place| self.numbering.next_label(place, style.as_deref()));
        let text = label.map_or_else(|| inline.text.clone(), |label| format!("{label} {}", inline.text.trim_start()));
        match role {
            Role { heading: Some(level), .. } => {
                if level == 1 {
                    self.sink.set_title(&one_line(&inline.text));
                }
                self.push(BlockKind::Heading(level), &one_line(&text), None);
            }
            Role { list: Some(_), .. } => self.push(BlockKind::ListItem, &text, None),
            Role { code: true, .. } => self.push(BlockKind::Code, &text, None),
            _ => self.push(BlockKind::Paragraph, &text, role.quote.then_some("quote")),
        }
        self.push_anchored_objects(inline)
    }

    /// Returns the role of a paragraph (heading, list item, code, quotation). The paragraph's own settings override those
    /// of its style.
    fn role(&self, paragraph: Node<'_>) -> Role {
        let Some(properties) = paragraph.child("pPr") else { return Role::default() };
        let role = child_value(properties, "pStyle").map(|id| self.styles.role(&id)).unwrap_or_default();
        let heading = match outline_level(properties) {
            Some(level) => (level < 10).then_some(level.min(6)),
            None => role.heading,
        };
        Role { heading, list: list_place(properties).or(role.list.into()).into_list_place(), ..role }
    }

    /// Adds the objects anchored in a paragraph: text boxes, images, charts, notes, comments. Call this after the paragraph
    /// is added.
    fn push_anchored_objects(&mut self, inline: Inline<'_>) -> ReadResult {
        for text_box in inline.boxes {
            self.push_blocks(text_box)?;
        }
        for picture in inline.pictures {
            self.push(BlockKind::Paragraph, &picture, Some("picture"));
        }
        for id in inline.graphics {
            if let Some(relation) = self.relations.iter().find(|it| it.id == id && !it.external).cloned() {
                let text = ooxml::graphic_text(&mut self.package, &relation.target, self.sink)?;
                self.push(BlockKind::Paragraph, &text, Some("chart"));
            }
        }
        for (ids, part) in [(inline.notes, "footnote"), (inline.comments, "comment")] {
            for id in ids {
                let texts = if part == "footnote" { &mut self.notes } else { &mut self.comments };
                // Removes the text from the map, so that a note with a thousand references is added only once.
                if let Some(text) = texts.remove(&id) {
                    self.push(BlockKind::Paragraph, &text, Some(part));
                }
            }
        }
        Ok(())
    }

    fn push_table(&mut self, node: Node<'_>) -> ReadResult {
        let mut rows = Vec::new();
        collect_named(node, "tr", &mut rows);
        rows.retain(|row| row.path(&["trPr", "del"]).is_none());
        if let [row] = rows.as_slice() {
            let mut cells = Vec::new();
            collect_named(*row, "tc", &mut cells);
            if let [cell] = cells.as_slice() {
                // Adds the content of the cell as ordinary blocks, because a table of one cell is only a frame.
                return self.push_blocks(*cell);
            }
        }
        let mut lines = Vec::new();
        let mut inside = Vec::new();
        let mut tables = Vec::new();
        let mut above = HashMap::new();
        for row in rows {
            let cells = row_cells(row, &mut above, &mut inside, &mut tables);
            lines.extend(table_row(&cells));
        }
        self.push(BlockKind::Table, &lines.join("\n"), None);
        for inline in inside {
            self.push_anchored_objects(inline)?;
        }
        tables.into_iter().try_for_each(|table| self.push_table(table))
    }

    /// Adds an imported document (`altChunk`), if it is HTML.
    fn push_imported_part(&mut self, node: Node<'_>) -> ReadResult {
        let id = node.prefixed_attr("id").unwrap_or_default();
        let Some(relation) = self.relations.iter().find(|it| it.id == id && !it.external).cloned() else {
            return Ok(());
        };
        match self.package.read_xml(&relation.target, self.sink)? {
            Some(xml) if xml.trim_start().starts_with('<') => xhtml::read_text(&xml, &Anchor::default(), self.sink),
            _ => Ok(()),
        }
    }
}

/// Collects the elements called `name` (rows or cells) below a node, also in content controls and insertions, but not in
/// nested tables.
fn collect_named<'t>(node: Node<'t>, name: &str, found: &mut Vec<Node<'t>>) {
    for child in node.children() {
        match child.name() {
            it if it == name => found.push(child),
            "sdt" | "sdtContent" | "ins" | "moveTo" | "customXml" | "smartTag" => collect_named(child, name, found),
            _ => {}
        }
    }
}

/// Returns the cell texts of a row. `above` holds, for each column, the text of the merged cell that extends into this row.
fn row_cells<'t>(
    row: Node<'t>,
    above: &mut HashMap<usize, String>,
    inside: &mut Vec<Inline<'t>>,
    tables: &mut Vec<Node<'t>>,
) -> Vec<String> {
    /// Maximum number of columns that one cell may span; larger values in the file are reduced to this.
    const MAX_SPANNED_COLUMNS: usize = 63;
    let number = |node: Option<Node<'_>>, name: &str, most: usize| {
        node.and_then(|it| child_value(it, name)?.parse::<usize>().ok()).unwrap_or(0).min(most)
    };
    let mut column = number(row.child("trPr"), "gridBefore", MAX_SPANNED_COLUMNS);
    let mut texts = vec![String::new(); column];
    let mut cells = Vec::new();
    collect_named(row, "tc", &mut cells);
    for cell in cells {
        let properties = cell.child("tcPr");
        let mut text = cell_text(cell, inside, tables);
        match properties.and_then(|it| it.child("vMerge")) {
            Some(merge) if merge.attr("val").is_none_or(|it| it != "restart") => {
                if text.trim().is_empty() {
                    text = merged_text(above.get(&column));
                }
            }
            Some(_) => {
                above.insert(column, text.clone());
            }
            None => {
                above.remove(&column);
            }
        }
        texts.push(text);
        column += number(properties, "gridSpan", MAX_SPANNED_COLUMNS).max(1);
    }
    texts
}

/// Returns the text of a cell. Collects the cell's anchored objects and nested tables, to be added after the whole table.
fn cell_text<'t>(cell: Node<'t>, inside: &mut Vec<Inline<'t>>, tables: &mut Vec<Node<'t>>) -> String {
    let mut text = String::new();
    for child in cell.children() {
        match child.name() {
            "p" => {
                let mut inline = Inline::parse(child);
                text.push_str(&std::mem::take(&mut inline.text));
                text.push('\n');
                inside.push(inline);
            }
            "tbl" => tables.push(child),
            "" | "tcPr" | "del" | "moveFrom" | "sdtPr" => {}
            _ => text.push_str(&cell_text(child, inside, tables)),
        }
    }
    text
}

/// Returns the text of a header, footer, note or comment, one paragraph per line.
fn plain_text(node: Node<'_>) -> String {
    let mut text = String::new();
    for child in node.children() {
        match child.name() {
            "p" => {
                let inline = Inline::parse(child);
                text.push_str(inline.text.trim());
                text.push('\n');
                inline.boxes.into_iter().for_each(|it| text.push_str(&plain_text(it)));
            }
            "" | "pPr" | "sdtPr" | "del" | "moveFrom" => {}
            "AlternateContent" => {
                if let Some(child) = child.child("Choice").or_else(|| child.child("Fallback")) {
                    text.push_str(&plain_text(child));
                }
            }
            _ => text.push_str(&plain_text(child)),
        }
    }
    text.trim().to_string()
}

#[cfg(test)]
mod tests;
