//! Functions shared by the readers of Word, PowerPoint and Excel files (OOXML): relationships, properties, charts and
//! diagrams.
//!
//! Only the last segments of relationship types are compared, because strict and transitional documents use different URIs.

use crate::extract::table_text::one_line;
use crate::extract::xml_tree::{Node, Tree};
use crate::extract::zip_container::{Package, check_flaw, resolve_part};
use crate::extract::{ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// A relationship from a part of an OOXML package to another part, or to an external target.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// Id by which the part refers to the relationship.
    pub(crate) id: String,
    /// Last segment of the relationship type, e.g. `slide`.
    pub(crate) kind: String,
    /// Name of the target part, or the URI if it is external.
    pub(crate) target: String,
    /// Whether the target is outside the package.
    pub(crate) external: bool,
}

/// Returns the relationships of a part, or of the whole package if the name of the part is empty.
pub(crate) fn read_relations(package: &mut Package<'_>, part: &str, sink: &mut Sink) -> ReadResult<Vec<Relation>> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let path = resolve_part("", &format!("{folder}/_rels/{name}.rels"));
    let Some(xml) = package.read_xml(&path, sink)? else { return Ok(Vec::new()) };
    let tree = Tree::parse(&xml);
    check_flaw(tree.flaw.as_ref(), &path, sink)?;
    let relation = |node: Node<'_>| {
        let external = node.attr("TargetMode").is_some_and(|it| it == "External");
        let target = node.attr("Target")?;
        Some(Relation {
            id: node.attr("Id").unwrap_or_default(),
            kind: node.attr("Type")?.rsplit('/').next().unwrap_or_default().to_string(),
            target: if external { target } else { resolve_part(part, &target) },
            external,
        })
    };
    Ok(tree.top().descendants().filter(|it| it.name() == "Relationship").filter_map(relation).collect())
}

/// Returns the name of the main part: the part that the package refers to, or else the `usual` name. Fails if there is no
/// such part.
pub(crate) fn main_part(package: &mut Package<'_>, usual: &str, sink: &mut Sink) -> ReadResult<String> {
    let main = read_relations(package, "", sink)?.into_iter().find(|it| it.kind == "officeDocument");
    let name = main.map(|it| it.target).filter(|it| package.has(it)).unwrap_or_else(|| usual.to_string());
    match package.has(&name) {
        true => Ok(name),
        false => Err(new_failure(Reason::Damaged, format!("the package has no `{usual}`"))),
    }
}

/// Adds the document properties that an author can enter, such as title and keywords.
pub(crate) fn push_properties(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult {
    let Some(xml) = package.read_xml("docProps/core.xml", sink)? else { return Ok(()) };
    let tree = Tree::parse(&xml);
    let fields = ["title", "subject", "creator", "keywords", "description", "category"];
    let facts = fields.map(|field| {
        let label = if field == "creator" { "author" } else { field };
        (label, tree.top().find(field).map(Node::text).unwrap_or_default())
    });
    push_metadata(&facts, sink);
    Ok(())
}

/// Adds one metadata block with a line `key: value` for each value that is not empty, and sets the title of the document.
pub(crate) fn push_metadata(facts: &[(&str, String)], sink: &mut Sink) {
    /// Default titles that office programs fill in; they are ignored.
    const DEFAULT_TITLES: [&str; 5] =
        ["PowerPoint Presentation", "Slide 1", "Untitled", "Word Document", "Microsoft Word Document"];
    let mut lines = Vec::new();
    for (key, value) in facts {
        let value = one_line(value);
        if value.is_empty() || (*key == "title" && DEFAULT_TITLES.contains(&value.as_str())) {
            continue;
        }
        if *key == "title" {
            sink.set_title(&value);
        }
        lines.push(format!("{key}: {value}"));
    }
    sink.push(BlockKind::Metadata, &lines.join("\n"), Anchor::default());
}

/// Formats a comment with its author and date: `Ann (2024-02-29): text`. The date is copied from the file, without the
/// time.
pub(crate) fn comment_text(author: &str, moment: Option<String>, text: &str) -> String {
    let date = moment.and_then(|it| Some(format!(" ({})", it.get(..10)?))).unwrap_or_default();
    let who = format!("{author}{date}");
    if text.trim().is_empty() || who.trim().is_empty() { text.to_string() } else { format!("{}: {text}", who.trim()) }
}

/// Returns the heading level, 1 to 9, of a style name in lowercase, such as `heading 2` or `überschrift 2`; `None` if it is
/// not a heading style.
pub(crate) fn heading_by_name(name: &str) -> Option<u8> {
    const NAMES: [&str; 18] = [
        "heading",
        "überschrift",
        "titre",
        "título",
        "titulo",
        "titolo",
        "kop",
        "rubrik",
        "overskrift",
        "otsikko",
        "nagłówek",
        "nadpis",
        "címsor",
        "заголовок",
        "başlık",
        "标题",
        "見出し",
        "제목",
    ];
    if name == "title" {
        return Some(1);
    }
    let word = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let level: u8 = name[word.len()..].parse().ok().filter(|it| (1..=9).contains(it))?;
    NAMES.contains(&word.trim_end()).then_some(level)
}

/// Returns the text of a DrawingML paragraph, without slide numbers.
pub(crate) fn drawing_paragraph(paragraph: Node<'_>) -> String {
    let mut text = String::new();
    collect_drawing(paragraph, &mut text);
    text
}

fn collect_drawing(node: Node<'_>, text: &mut String) {
    for child in node.children() {
        match child.name() {
            "t" => text.push_str(&child.text()),
            "br" => text.push('\n'),
            "tab" => text.push('\t'),
            "fld" if child.attr("type").is_some_and(|it| it == "slidenum") => {}
            "pPr" | "rPr" | "endParaRPr" => {}
            "AlternateContent" => {
                if let Some(child) = child.child("Choice").or_else(|| child.child("Fallback")) {
                    collect_drawing(child, text);
                }
            }
            "" => {}
            _ => collect_drawing(child, text),
        }
    }
}

/// Returns the text of all DrawingML paragraphs below a node, one per line.
pub(crate) fn drawing_text(node: Node<'_>) -> String {
    let paragraphs = node.descendants().filter(|it| it.name() == "p").map(drawing_paragraph);
    paragraphs.filter(|it| !it.trim().is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a chart or diagram part: first the titles, then the values of each data series.
pub(crate) fn graphic_text(package: &mut Package<'_>, part: &str, sink: &mut Sink) -> ReadResult<String> {
    /// Maximum number of values that are extracted per data series; a workbook holds the complete data.
    const MAX_SERIES_VALUES: usize = 2_000;
    let Some(xml) = package.read_xml(part, sink)? else { return Ok(String::new()) };
    let tree = Tree::parse(&xml);
    check_flaw(tree.flaw.as_ref(), part, sink)?;
    let mut lines = vec![drawing_text(tree.top())];
    for series in tree.top().descendants().filter(|it| it.name() == "ser") {
        for role in series.children() {
            let values: Vec<String> = role
                .descendants()
                .filter(|it| it.name() == "v")
                .take(MAX_SERIES_VALUES)
                .map(|it| one_line(&it.text()))
                .collect();
            lines.push(values.join(" | "));
        }
    }
    // Removes repeated lines, because each data series of a chart repeats the categories.
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| !line.is_empty() && seen.insert(line.clone()));
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::zipped;
    use crate::model::ExtractLimits;

    #[test]
    fn properties_become_metadata_and_title() {
        let core = r#"<cp:coreProperties xmlns:dc="d" xmlns:cp="c"><dc:title>Plan  A</dc:title><dc:creator>Ann</dc:creator>
            <cp:revision>7</cp:revision><dc:subject/></cp:coreProperties>"#;
        let bytes = zipped(&[("docProps/core.xml", core)]);
        let mut sink = Sink::new(ExtractLimits::default());
        push_properties(&mut Package::open(&bytes, &sink).unwrap(), &mut sink).unwrap();
        let document = sink.into_document();
        assert_eq!(document.title.as_deref(), Some("Plan A"));
        assert_eq!(document.blocks[0].text, "title: Plan A\nauthor: Ann");
    }

    #[test]
    fn chart_yields_titles_and_values_once() {
        let chart = r#"<c:chartSpace><c:title><a:p><a:r><a:t>Ducks</a:t></a:r></a:p></c:title>
            <c:ser><c:tx><c:v>Fresh</c:v></c:tx><c:cat><c:v>2019</c:v><c:v>2020</c:v></c:cat><c:val><c:v>1</c:v></c:val></c:ser>
            <c:ser><c:tx><c:v>Salt</c:v></c:tx><c:cat><c:v>2019</c:v><c:v>2020</c:v></c:cat></c:ser></c:chartSpace>"#;
        let bytes = zipped(&[("c.xml", chart)]);
        let mut sink = Sink::new(ExtractLimits::default());
        let text = graphic_text(&mut Package::open(&bytes, &sink).unwrap(), "c.xml", &mut sink).unwrap();
        assert_eq!(text, "Ducks\nFresh\n2019 | 2020\n1\nSalt");
    }
}
