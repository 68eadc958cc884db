//! Paragraph styles of a Word document: which are headings, which are lists.

use std::collections::HashMap;

use crate::extract::docx::numbering::ListPlace;
use crate::extract::ooxml::heading_by_name;
use crate::extract::xml_tree::Node;

/// What a style says of its paragraphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// Heading level, 1 to 6.
    pub(super) heading: Option<u8>,
    /// Whether they are code.
    pub(super) code: bool,
    /// Whether they are somebody's words.
    pub(super) quote: bool,
    /// The list its paragraphs are in.
    pub(super) list: Option<ListPlace>,
}

/// Names of styles for code, of Word and of the programs that write for it.
const CODE: &[&str] = &[
    "source code",
    "code",
    "code block",
    "html preformatted",
    "preformatted text",
    "macro text",
    "listing",
    "verbatim",
];

/// Names of styles for quotations. Word writes the names of its own in English, and their ids in the language of whoever
/// wrote; other programs write the names of theirs.
const QUOTES: &[&str] = &[
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

/// All paragraph styles by their id.
#[derive(Debug, Default)]
pub(super) struct Styles {
    by_id: HashMap<String, Style>,
}

impl Styles {
    /// Reads `styles.xml`.
    pub(super) fn read(top: Node<'_>) -> Styles {
        let mut by_id = HashMap::new();
        for node in top.descendants().filter(|it| it.name() == "style") {
            let Some(id) = node.attr("styleId") else { continue };
            let properties = node.child("pPr");
            let style = Style {
                name: value(node, "name").unwrap_or_default().to_lowercase(),
                based_on: value(node, "basedOn"),
                outline: properties.and_then(outline_level),
                list: properties.map(list_place).unwrap_or_default(),
            };
            by_id.insert(id, style);
        }
        Styles { by_id }
    }

    /// Returns the role of a style: its own settings first, then those of the styles it is based on.
    pub(super) fn role(&self, id: &str) -> Role {
        /// Chains are a handful long; a loop must end.
        const LONGEST_CHAIN: usize = 16;
        let mut role = Role::default();
        let mut heading = None;
        let mut list = PartialPlace::default();
        let mut next = Some(id);
        for _ in 0..LONGEST_CHAIN {
            let Some(style) = next.and_then(|id| self.by_id.get(id)) else { break };
            heading = heading.or(style.outline).or_else(|| heading_by_name(&style.name));
            list = list.or(style.list);
            role.code |= CODE.contains(&style.name.as_str());
            role.quote |= QUOTES.contains(&style.name.as_str());
            next = style.based_on.as_deref();
        }
        if self.by_id.is_empty() {
            let id = id.to_lowercase();
            heading = heading_by_name(&id);
            // An id is the name without its spaces.
            role.quote = QUOTES.iter().any(|it| it.replace(' ', "") == id);
        }
        role.heading = heading.filter(|it| *it < 10).map(|it| it.min(6));
        role.list = list.place();
        role
    }
}

/// Returns the outline level of paragraph properties, from 1; 10 is running text by its own statement.
pub(super) fn outline_level(properties: Node<'_>) -> Option<u8> {
    Some(value(properties, "outlineLvl")?.parse::<u8>().ok()?.min(9) + 1)
}

/// What one place says of the list; the list and the level may be said in different places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartialPlace {
    id: Option<u32>,
    level: Option<usize>,
}

impl PartialPlace {
    /// Fills in what is not said from a place further away.
    pub(super) fn or(self, other: PartialPlace) -> PartialPlace {
        PartialPlace { id: self.id.or(other.id), level: self.level.or(other.level) }
    }

    /// Returns the list, if it is in one; number 0 takes it out.
    pub(super) fn place(self) -> Option<ListPlace> {
        let id = self.id.filter(|it| *it != 0)?;
        Some(ListPlace { id, level: self.level })
    }
}

impl From<Option<ListPlace>> for PartialPlace {
    fn from(place: Option<ListPlace>) -> PartialPlace {
        PartialPlace { id: place.map(|it| it.id), level: place.and_then(|it| it.level) }
    }
}

/// Returns what paragraph properties say of the list.
pub(super) fn list_place(properties: Node<'_>) -> PartialPlace {
    let number = |name: &str| value(properties.child("numPr")?, name)?.parse::<u32>().ok();
    PartialPlace { id: number("numId"), level: number("ilvl").map(|it| it as usize) }
}

/// Returns the `val` of a child.
pub(super) fn value(node: Node<'_>, name: &str) -> Option<String> {
    node.child(name)?.attr("val")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::xml_tree::Tree;

    fn check(styles: &str, id: &str, heading: Option<u8>, list: bool) {
        let xml = format!("<w:styles>{styles}</w:styles>");
        let tree = Tree::parse(&xml);
        let role = Styles::read(tree.top()).role(id);
        assert_eq!((role.heading, role.list.is_some()), (heading, list), "{id}");
    }

    #[test]
    fn levels_come_from_outline_name_and_ancestors() {
        let styles = r#"
            <w:style w:styleId="a"><w:name w:val="mine"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
            <w:style w:styleId="b"><w:name w:val="mine too"/><w:basedOn w:val="a"/></w:style>
            <w:style w:styleId="c"><w:name w:val="Überschrift 2"/></w:style>
            <w:style w:styleId="d"><w:basedOn w:val="a"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
            <w:style w:styleId="e"><w:basedOn w:val="e"/></w:style>
            <w:style w:styleId="f"><w:name w:val="heading 9"/><w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>"#;
        check(styles, "a", Some(3), false);
        check(styles, "b", Some(3), false);
        check(styles, "c", Some(2), false);
        check(styles, "d", None, false);
        check(styles, "e", None, false);
        check(styles, "f", Some(6), true);
        check(styles, "missing", None, false);
    }

    #[test]
    fn quotations_are_known_by_the_name_of_their_style_whatever_its_id() {
        let styles = r#"<w:styles>
            <w:style w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
            <w:style w:styleId="IntensivesZitat"><w:name w:val="Intense Quote"/></w:style>
            <w:style w:styleId="P7"><w:name w:val="Quotations"/></w:style>
            <w:style w:styleId="mine"><w:name w:val="My own"/><w:basedOn w:val="Zitat"/></w:style>
            <w:style w:styleId="Quote"><w:name w:val="Price quote"/></w:style></w:styles>"#;
        let tree = Tree::parse(styles);
        let styles = Styles::read(tree.top());
        let quoted = ["Zitat", "IntensivesZitat", "P7", "mine", "Quote"].map(|it| styles.role(it).quote);
        assert_eq!(quoted, [true, true, true, true, false]);
        // Without styles the id is all there is.
        assert_eq!(["IntenseQuote", "Zitat", "Normal"].map(|it| Styles::default().role(it).quote), [true, true, false]);
    }
}
