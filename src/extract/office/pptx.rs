//! Reader of PowerPoint presentations (pptx, pptm, ppsx): extracts the slides in presentation order, each with its notes
//! and comments.
//!
//! Shapes are added in the order of the file, which is the drawing order; their positions on the slide are ignored.

use std::collections::{HashMap, HashSet};

use crate::extract::office::ooxml::{self, Relation, comment_text, drawing_paragraph, drawing_text};
use crate::extract::table_text::{merged_text, one_line, table_row};
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::{Package, check_flaw};
use crate::extract::{Input, ReadResult, Sink};
use crate::model::{Anchor, Block, BlockKind};

/// Adds the slides of a presentation to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let mut package = Package::open(input.bytes, sink)?;
    let mark = sink.block_count();
    let main = ooxml::main_part(&mut package, "ppt/presentation.xml", sink)?;
    ooxml::push_properties(&mut package, sink)?;
    let slides = slide_parts(&mut package, &main, sink)?;
    sink.document().pages = Some(slides.len() as u32);
    let authors = comment_authors(&mut package, sink)?;
    let mut reader = Reader { package, sink, page: 0, part: None, authors, relations: Vec::new() };
    let mut layouts = Vec::new();
    for slide in slides {
        if reader.page >= reader.sink.limits().pages || reader.sink.is_full() {
            reader.sink.mark_truncated();
            break;
        }
        reader.page += 1;
        reader.push_slide(&slide)?;
        layouts.extend(reader.relations.iter().find(|it| it.kind == "slideLayout").map(|it| it.target.clone()));
    }
    // Checks for damaged slides before the text of the layouts is added, because that text belongs to no slide.
    let is_text = |it: &Block| !matches!(it.kind, BlockKind::Metadata | BlockKind::Heading(_));
    reader.package.check_damage(mark, is_text, reader.sink)?;
    reader.push_master_text(layouts)
}

/// Returns the part names of the slides in presentation order, or by number if the presentation does not list them.
pub(super) fn slide_parts(package: &mut Package<'_>, main: &str, sink: &mut Sink) -> ReadResult<Vec<String>> {
    let relations = ooxml::read_relations(package, main, sink)?;
    let mut slides = Vec::new();
    if let Some(xml) = package.read_xml(main, sink)? {
        let tree = Tree::parse(&xml);
        check_flaw(tree.flaw.as_ref(), main, sink)?;
        let ids = tree.top().descendants().filter(|it| it.name() == "sldId").filter_map(|it| it.prefixed_attr("id"));
        slides.extend(ids.filter_map(|id| relations.iter().find(|it| it.id == id)).map(|it| it.target.clone()));
    }
    if slides.is_empty() {
        let number = |name: &str| {
            name.to_lowercase().strip_prefix("ppt/slides/slide")?.strip_suffix(".xml")?.parse::<u32>().ok()
        };
        let mut numbered: Vec<(u32, String)> =
            package.names().into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
        numbered.sort_unstable();
        slides.extend(numbered.into_iter().map(|(_, name)| name));
    }
    Ok(slides)
}

fn comment_authors(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult<HashMap<String, String>> {
    let mut authors = HashMap::new();
    // Older and newer PowerPoint versions store the authors in different parts.
    for part in ["ppt/commentAuthors.xml", "ppt/authors.xml"] {
        let Some(xml) = package.read_xml(part, sink)? else { continue };
        let tree = Tree::parse(&xml);
        let people = tree.top().descendants().filter(|it| matches!(it.name(), "cmAuthor" | "author"));
        authors.extend(people.filter_map(|it| Some((it.attr("id")?, it.attr("name")?))));
    }
    Ok(authors)
}

struct Reader<'a, 's> {
    package: Package<'a>,
    sink: &'s mut Sink,
    /// Number of the current slide, from 1; 0 outside slides.
    page: u32,
    /// Part of the slide to which the current text belongs, e.g. `notes`; `None` for the slide itself.
    part: Option<&'static str>,
    /// Names of the comment authors, by author id.
    authors: HashMap<String, String>,
    /// Relationships of the current slide.
    relations: Vec<Relation>,
}

impl Reader<'_, '_> {
    fn push(&mut self, kind: BlockKind, text: &str) {
        let page = (self.page > 0).then_some(self.page);
        self.sink.push(kind, text, Anchor { page, part: self.part.map(str::to_string), ..Anchor::default() });
    }

    fn push_slide(&mut self, name: &str) -> ReadResult {
        self.relations = ooxml::read_relations(&mut self.package, name, self.sink)?;
        let Some(xml) = self.package.read_xml(name, self.sink)? else { return Ok(()) };
        let tree = Tree::parse(&xml);
        if let Some(shapes) = tree.top().find("spTree") {
            self.push_shapes(shapes)?;
        }
        check_flaw(tree.flaw.as_ref(), name, self.sink)?;
        for relation in self.relations.clone() {
            match relation.kind.as_str() {
                "notesSlide" => self.push_notes(&relation.target)?,
                "comments" => self.push_comments(&relation.target)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn push_shapes(&mut self, node: Node<'_>) -> ReadResult {
        for child in node.children() {
            match child.name() {
                "sp" | "cxnSp" => self.push_shape(child),
                "grpSp" => self.push_shapes(child)?,
                "graphicFrame" => self.push_frame(child)?,
                "pic" => self.push_picture(child),
                "AlternateContent" => {
                    // Takes the newer form of a shape (`Choice`) only if it has text or a chart. Otherwise it may hold
                    // unsupported content, such as ink.
                    let choice =
                        child.child("Choice").filter(|it| it.find("t").is_some() || it.find("chart").is_some());
                    if let Some(child) = choice.or_else(|| child.child("Fallback")) {
                        self.push_shapes(child)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn push_shape(&mut self, shape: Node<'_>) {
        let role = placeholder(shape);
        let Some(body) = shape.child("txBody") else { return };
        match role.as_deref() {
            Some("title" | "ctrTitle") => {
                let text = one_line(&drawing_text(body));
                self.sink.set_title(&text);
                self.push(BlockKind::Heading(1), &text);
            }
            Some("sldNum" | "dt") => {}
            role => {
                let outline = matches!(role, Some("body" | "obj"));
                self.push_paragraphs(body, outline);
            }
        }
    }

    /// Adds the paragraphs of a text body: as list items if they have a bullet or number, or if `outline` is set and there
    /// are several.
    fn push_paragraphs(&mut self, body: Node<'_>, outline: bool) {
        let several = body.children_named("p").nth(1).is_some();
        let mut number = 0u32;
        for paragraph in body.children_named("p") {
            let properties = paragraph.child("pPr");
            let has = |name: &str| properties.is_some_and(|it| it.child(name).is_some());
            let bullet = has("buChar") || has("buAutoNum") || has("buBlip") || (outline && several && !has("buNone"));
            let kind = if bullet { BlockKind::ListItem } else { BlockKind::Paragraph };
            let text = drawing_paragraph(paragraph);
            // Computes the numbers of items only for Arabic numbers on the first level, because slides rarely use others.
            let counted = properties.and_then(|it| it.child("buAutoNum")).filter(|_| !text.trim().is_empty());
            match counted.filter(|it| it.attr("type").is_some_and(|it| it.starts_with("arabic"))) {
                Some(counter) if properties.and_then(|it| it.attr("lvl")).is_none_or(|it| it == "0") => {
                    let start = counter.attr("startAt").and_then(|it| it.parse().ok()).unwrap_or(1);
                    number = if number == 0 { start } else { number.saturating_add(1) };
                    self.push(kind, &format!("{number}. {text}"));
                }
                _ => {
                    self.push(kind, &text);
                    number = if kind == BlockKind::Paragraph && !text.trim().is_empty() { 0 } else { number };
                }
            }
        }
    }

    fn push_picture(&mut self, picture: Node<'_>) {
        let description = picture.find("cNvPr").and_then(|it| it.attr("descr")).unwrap_or_default();
        // Skips a description that is a single word, because it is a file name.
        if description.trim().contains(' ') {
            self.push(BlockKind::Paragraph, &description);
        }
    }

    /// Adds the table, chart or diagram in a graphic frame.
    fn push_frame(&mut self, frame: Node<'_>) -> ReadResult {
        if let Some(table) = frame.find("tbl") {
            let mut above = Vec::new();
            let mut lines = Vec::new();
            for row in table.children_named("tr") {
                above = row
                    .children_named("tc")
                    .enumerate()
                    .map(|(column, cell)| cell_text(cell, above.get(column)))
                    .collect();
                lines.extend(table_row(&above));
            }
            self.push(BlockKind::Table, &lines.join("\n"));
            return Ok(());
        }
        let chart = frame.find("chart").and_then(|it| it.prefixed_attr("id"));
        let id = chart.or_else(|| frame.find("relIds").and_then(|it| it.prefixed_attr("dm")));
        if let Some(relation) = self.relations.iter().find(|it| Some(&it.id) == id.as_ref() && !it.external).cloned() {
            let text = ooxml::graphic_text(&mut self.package, &relation.target, self.sink)?;
            self.push(BlockKind::Paragraph, &text);
        }
        Ok(())
    }

    fn push_notes(&mut self, name: &str) -> ReadResult {
        let Some(xml) = self.package.read_xml(name, self.sink)? else { return Ok(()) };
        let tree = Tree::parse(&xml);
        self.part = Some("notes");
        for shape in tree.top().descendants().filter(|it| it.name() == "sp") {
            // Takes only the shape with the notes, because a notes page also holds the slide itself, its number and a date.
            if placeholder(shape).is_none_or(|it| it == "body" || it == "obj")
                && let Some(body) = shape.child("txBody")
            {
                self.push_paragraphs(body, false);
            }
        }
        self.part = None;
        Ok(())
    }

    fn push_comments(&mut self, name: &str) -> ReadResult {
        let Some(xml) = self.package.read_xml(name, self.sink)? else { return Ok(()) };
        let tree = Tree::parse(&xml);
        self.part = Some("comment");
        for comment in tree.top().descendants().filter(|it| matches!(it.name(), "cm" | "reply")) {
            // Handles both comment formats. Older comments hold plain text; newer comments hold a text body, and their
            // replies are descendants.
            let text = match (comment.child("text"), comment.child("txBody")) {
                (Some(text), _) => text.text(),
                (None, Some(body)) => drawing_text(body),
                (None, None) => continue,
            };
            let author = comment.attr("authorId").and_then(|id| self.authors.get(&id)).cloned().unwrap_or_default();
            let moment = comment.attr("dt").or_else(|| comment.attr("created"));
            self.push(BlockKind::Paragraph, &comment_text(&author, moment, &text));
        }
        self.part = None;
        Ok(())
    }

    /// Adds the fixed text (outside placeholders) that layouts and slide masters show on every slide. Equal texts are added
    /// once.
    fn push_master_text(&mut self, layouts: Vec<String>) -> ReadResult {
        self.page = 0;
        self.part = Some("master");
        let mut seen_parts = HashSet::new();
        let mut seen_texts = HashSet::new();
        let mut pending = layouts;
        while let Some(name) = pending.pop() {
            if !seen_parts.insert(name.clone()) {
                continue;
            }
            let relations = ooxml::read_relations(&mut self.package, &name, self.sink)?;
            pending.extend(relations.into_iter().filter(|it| it.kind == "slideMaster").map(|it| it.target));
            let Some(xml) = self.package.read_xml(&name, self.sink)? else { continue };
            let tree = Tree::parse(&xml);
            for shape in tree.top().descendants().filter(|it| it.name() == "sp") {
                let text = shape.child("txBody").map(drawing_text).unwrap_or_default();
                if shape.find("ph").is_none() && seen_texts.insert(text.clone()) {
                    self.push(BlockKind::Paragraph, &text);
                }
            }
        }
        Ok(())
    }
}

/// Returns the text of a table cell. `above` is the text of the cell above, which may be merged with it.
fn cell_text(cell: Node<'_>, above: Option<&String>) -> String {
    if cell.attr("vMerge").is_some() {
        return merged_text(above);
    }
    if cell.attr("hMerge").is_some() { String::new() } else { drawing_text(cell) }
}

/// Returns the role of a placeholder shape, e.g. `title`; `obj` if it states none. Returns `None` for other shapes.
fn placeholder(shape: Node<'_>) -> Option<String> {
    let node = shape.path(&["nvSpPr", "nvPr", "ph"])?;
    Some(node.attr("type").unwrap_or_else(|| "obj".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::{
        failure_reason, format_blocks, read_document, with_damaged_part, zipped,
    };
    use crate::model::Reason;

    fn shape(role: &str, paragraphs: &[&str]) -> String {
        let ph = if role.is_empty() { String::new() } else { format!(r#"<p:ph type="{role}"/>"#) };
        let text: String = paragraphs.iter().map(|it| format!("<a:p><a:r><a:t>{it}</a:t></a:r></a:p>")).collect();
        format!("<p:sp><p:nvSpPr><p:cNvPr/><p:nvPr>{ph}</p:nvPr></p:nvSpPr><p:txBody>{text}</p:txBody></p:sp>")
    }

    fn slide(shapes: &str) -> String {
        format!("<p:sld><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>")
    }

    fn rels(list: &[(&str, &str, &str)]) -> String {
        let one = |(id, kind, target): &(&str, &str, &str)| {
            format!(r#"<Relationship Id="{id}" Type="http://x/{kind}" Target="{target}"/>"#)
        };
        format!("<Relationships>{}</Relationships>", list.iter().map(one).collect::<String>())
    }

    #[test]
    fn slides_follow_presentation_order_with_notes() {
        let presentation = r#"<p:presentation><p:sldIdLst><p:sldId id="256" r:id="b"/><p:sldId id="257" r:id="a"/></p:sldIdLst></p:presentation>"#;
        let table = "<p:graphicFrame><a:tbl><a:tr><a:tc><a:txBody><a:p><a:t>x</a:t></a:p></a:txBody></a:tc>\
            <a:tc hMerge=\"1\"/><a:tc><a:txBody><a:p><a:t>y</a:t></a:p></a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>";
        let group = format!("<p:grpSp>{}</p:grpSp>", shape("", &["grouped"]));
        let bytes = zipped(&[
            ("ppt/presentation.xml", presentation),
            (
                "ppt/_rels/presentation.xml.rels",
                &rels(&[("a", "slide", "slides/s1.xml"), ("b", "slide", "slides/s2.xml")]),
            ),
            ("ppt/slides/s1.xml", &slide(&format!("{}{table}{group}", shape("title", &["Late"])))),
            ("ppt/slides/s2.xml", &slide(&format!("{}{}", shape("ctrTitle", &["First"]), shape("body", &["i", "ii"])))),
            ("ppt/slides/_rels/s2.xml.rels", &rels(&[("n", "notesSlide", "../n.xml"), ("c", "comments", "../c.xml")])),
            ("ppt/n.xml", &slide(&format!("{}{}", shape("sldNum", &["9"]), shape("body", &["say this"])))),
            (
                "ppt/c.xml",
                "<p:cmLst><p:cm authorId=\"7\" dt=\"2024-02-29T10:00:00\"><p:text>really?</p:text></p:cm></p:cmLst>",
            ),
            ("ppt/commentAuthors.xml", "<l><p:cmAuthor id=\"7\" name=\"Ann\"/></l>"),
        ]);
        let document = read_document(read, &bytes);
        assert_eq!(
            format_blocks(&document),
            "1 First\n- i\n- ii\np say this\np Ann (2024-02-29): really?\n1 Late\nt x |  | y\np grouped"
        );
        let places: Vec<_> = document.blocks.iter().map(|it| (it.anchor.page, it.anchor.part.as_deref())).collect();
        assert_eq!(places[0], (Some(1), None));
        assert_eq!(places[3], (Some(1), Some("notes")));
        assert_eq!(places[7], (Some(2), None));
        assert_eq!(document.pages, Some(2));
        assert_eq!(document.title.as_deref(), Some("First"));
    }

    #[test]
    fn presentation_without_readable_slides_is_damaged() {
        let one = slide(&format!("{}{}", shape("title", &["One"]), shape("body", &["first"])));
        let two = slide(&shape("title", &["Two"]));
        let bytes = zipped(&[
            ("ppt/presentation.xml", "<p/>"),
            ("ppt/slides/slide1.xml", &one),
            ("ppt/slides/slide2.xml", &two),
            ("docProps/core.xml", "<c><dc:title>Title</dc:title></c>"),
        ]);
        assert_eq!(format_blocks(&read_document(read, &bytes)), "m title: Title\n1 One\np first\n1 Two");
        assert_eq!(
            format_blocks(&read_document(read, &with_damaged_part(bytes.clone(), "ppt/slides/slide2.xml"))),
            "m title: Title\n1 One\np first"
        );
        assert_eq!(failure_reason(read, &with_damaged_part(bytes, "ppt/slides/slide1.xml")), Reason::Damaged);
    }
}
