//! Paragraph styles of a Word document: detects headings, lists, code and quotations.

use std::collections::HashMap;

use crate::extract::office::ooxml::heading_by_name;
use crate::extract::xml_tree::Node;

/// The role of the paragraphs that have a style: heading, code, quotation or list item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// Heading level, 1 to 6.
    pub(super) heading: Option<u8>,
    /// Whether the paragraphs are code.
    pub(super) code: bool,
    /// Whether the paragraphs are quotations.
    pub(super) quote: bool,
    /// The list that the paragraphs belong to.
    pub(super) list: Option<ListPlace>,
}

/// Names of paragraph styles for code, from Word and from other programs that write docx files.
const CODE_STYLES: &[&str] = &[
    "source code",
    "code",
    "code block",
    "html preformatted",
    "preformatted text",
    "macro text",
    "listing",
    "verbatim",
];

/// Names of paragraph styles for quotations. Word stores the names of its built-in styles in English (and their ids in the
/// author's language), but other programs store localized names.
const QUOTE_STYLES: &[&str] = &[
    "quote",
    "intense quote",
    "block quote",
    "blockquote",
    "block quotation",
    "block text",
    "quotation",
    "quotations",
    "epigraph",
    "zitat",
    "intensives zitat",
    "citation",
    "citation intense",
    "cita",
    "cita destacada",
    "citazione",
    "citazione intensa",
    "citaat",
    "duidelijk citaat",
    "citação",
    "citação intensa",
    "citat",
    "starkt citat",
    "stærkt citat",
    "sitat",
    "sterkt sitat",
    "lainaus",
    "erottuva lainaus",
    "cytat",
    "cytat intensywny",
    "citát",
    "výrazný citát",
    "цитата",
    "выделенная цитата",
];

#[derive(Debug, Default)]
struct Style {
    name: String,
    based_on: Option<String>,
    outline: Option<u8>,
    list: PartialPlace,
}

/// All paragraph styles of a document by their id.
#[derive(Debug, Default)]
pub(super) struct Styles {
    by_id: HashMap<String, Style>,
}

impl Styles {
    /// Reads `styles.xml`.
    pub(super) fn parse(top: Node<'_>) -> Styles {
        let mut by_id = HashMap::new();
        for node in top.descendants().filter(|it| it.name() == "style") {
            let Some(id) = node.attr("styleId") else { continue };
            let properties = node.child("pPr");
            let style = Style {
                name: child_value(node, "name").unwrap_or_default().to_lowercase(),
                based_on: child_value(node, "basedOn"),
                outline: properties.and_then(outline_level),
                list: properties.map(list_place).unwrap_or_default(),
            };
            by_id.insert(id, style);
        }
        Styles { by_id }
    }

    /// Returns the role of a style. Its own settings override those of its base styles.
    pub(super) fn role(&self, id: &str) -> Role {
        /// Maximum number of base styles that are followed, to end loops; real chains are shorter.
        const LONGEST_CHAIN: usize = 16;
        let mut role = Role::default();
        let mut heading = None;
        let mut list = PartialPlace::default();
        let mut next = Some(id);
        for _ in 0..LONGEST_CHAIN {
            let Some(style) = next.and_then(|id| self.by_id.get(id)) else { break };
            heading = heading.or(style.outline).or_else(|| heading_by_name(&style.name));
            list = list.or(style.list);
            role.code |= CODE_STYLES.contains(&style.name.as_str());
            role.quote |= QUOTE_STYLES.contains(&style.name.as_str());
            next = style.based_on.as_deref();
        }
        if self.by_id.is_empty() {
            let id = id.to_lowercase();
            heading = heading_by_name(&id);
            // Compares names without spaces, because the id of a style is its name without spaces.
            role.quote = QUOTE_STYLES.iter().any(|it| it.replace(' ', "") == id);
        }
        role.heading = heading.filter(|it| *it < 10).map(|it| it.min(6));
        role.list = list.into_list_place();
        role
    }
}

/// Returns the outline level in paragraph properties, counted from 1; 10 is running text. Returns `None` if no level is
/// set.
pub(super) fn outline_level(properties: Node<'_>) -> Option<u8> {
    Some(child_value(properties, "outlineLvl")?.parse::<u8>().ok()?.min(9) + 1)
}

/// The list of a paragraph and, if known, its level in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListPlace {
    /// Id of the list (`w:numId`); 0 means no list.
    pub(super) id: u32,
    /// Level in the list, from 0; if `None`, the paragraph style decides.
    pub(super) level: Option<usize>,
}

/// The list settings of one style or paragraph. A missing value may come from a base style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartialPlace {
    id: Option<u32>,
    level: Option<usize>,
}

impl PartialPlace {
    /// Fills in missing values from `other`, the settings of a base style.
    pub(super) fn or(self, other: PartialPlace) -> PartialPlace {
        PartialPlace { id: self.id.or(other.id), level: self.level.or(other.level) }
    }

    /// Returns the list and level; `None` if there is no list id, or if it is 0, which takes the paragraph out of its list.
    pub(super) fn into_list_place(self) -> Option<ListPlace> {
        let id = self.id.filter(|it| *it != 0)?;
        Some(ListPlace { id, level: self.level })
    }
}

impl From<Option<ListPlace>> for PartialPlace {
    fn from(place: Option<ListPlace>) -> PartialPlace {
        PartialPlace { id: place.map(|it| it.id), level: place.and_then(|it| it.level) }
    }
}

/// Returns the list settings in paragraph properties (`w:pPr`).
pub(super) fn list_place(properties: Node<'_>) -> PartialPlace {
    let number = |name: &str| child_value(properties.child("numPr")?, name)?.parse::<u32>().ok();
    PartialPlace { id: number("numId"), level: number("ilvl").map(|it| it as usize) }
}

/// Returns the `val` attribute of the first child element called `name`.
pub(super) fn child_value(node: Node<'_>, name: &str) -> Option<String> {
    node.child(name)?.attr("val")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::xml_tree::Tree;

    fn assert_role(styles: &str, id: &str, heading: Option<u8>, list: bool) {
        let xml = format!("<w:styles>{styles}</w:styles>");
        let tree = Tree::parse(&xml);
        let role = Styles::parse(tree.top()).role(id);
        assert_eq!((role.heading, role.list.is_some()), (heading, list), "{id}");
    }

    #[test]
    fn heading_level_comes_from_outline_name_or_base_style() {
        let styles = r#"
            <w:style w:styleId="a"><w:name w:val="mine"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
            <w:style w:styleId="b"><w:name w:val="mine too"/><w:basedOn w:val="a"/></w:style>
            <w:style w:styleId="c"><w:name w:val="Überschrift 2"/></w:style>
            <w:style w:styleId="d"><w:basedOn w:val="a"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
            <w:style w:styleId="e"><w:basedOn w:val="e"/></w:style>
            <w:style w:styleId="f"><w:name w:val="heading 9"/><w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>"#;
        assert_role(styles, "a", Some(3), false);
        assert_role(styles, "b", Some(3), false);
        assert_role(styles, "c", Some(2), false);
        assert_role(styles, "d", None, false);
        assert_role(styles, "e", None, false);
        assert_role(styles, "f", Some(6), true);
        assert_role(styles, "missing", None, false);
    }

    #[test]
    fn quotation_is_detected_by_style_name() {
        let styles = r#"<w:styles>
            <w:style w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
            <w:style w:styleId="IntensivesZitat"><w:name w:val="Intense Quote"/></w:style>
            <w:style w:styleId="P7"><w:name w:val="Quotations"/></w:style>
            <w:style w:styleId="mine"><w:name w:val="My own"/><w:basedOn w:val="Zitat"/></w:style>
            <w:style w:styleId="Quote"><w:name w:val="Price quote"/></w:style></w:styles>"#;
        let tree = Tree::parse(styles);
        let styles = Styles::parse(tree.top());
        let quoted = ["Zitat", "IntensivesZitat", "P7", "mine", "Quote"].map(|it| styles.role(it).quote);
        assert_eq!(quoted, [true, true, true, true, false]);
        // Without a styles part, the role is derived from the style id alone.
        assert_eq!(["IntenseQuote", "Zitat", "Normal"].map(|it| Styles::default().role(it).quote), [true, true, false]);
    }
}
