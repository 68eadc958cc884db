//! The text of one Word paragraph, and the objects anchored in it: text boxes, notes, comments, graphics.

use crate::extract::xml_tree::Node;

/// The text of a paragraph, and the objects anchored in it.
#[derive(Debug, Default)]
pub(super) struct Inline<'t> {
    /// Text of the paragraph without text that is marked as deleted.
    pub(super) text: String,
    /// Text boxes anchored in the paragraph.
    pub(super) boxes: Vec<Node<'t>>,
    /// Ids of the footnotes (`f` and the number) and endnotes (`e` and the number) of the paragraph.
    pub(super) notes: Vec<String>,
    /// Ids of the comments on the paragraph.
    pub(super) comments: Vec<String>,
    /// Relationship ids of the charts and diagrams in the paragraph.
    pub(super) graphics: Vec<String>,
    /// Descriptions (alternative texts) of the images in the paragraph.
    pub(super) pictures: Vec<String>,
}

impl<'t> Inline<'t> {
    /// Collects the content of a paragraph.
    pub(super) fn parse(paragraph: Node<'t>) -> Inline<'t> {
        let mut inline = Inline::default();
        inline.collect(paragraph);
        inline
    }

    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.boxes.is_empty() && self.graphics.is_empty() && self.pictures.is_empty()
    }

    fn append(&mut self, other: Inline<'t>) {
        self.text.push_str(&other.text);
        self.boxes.extend(other.boxes);
        self.notes.extend(other.notes);
        self.comments.extend(other.comments);
        self.graphics.extend(other.graphics);
        self.pictures.extend(other.pictures);
    }

    fn collect(&mut self, node: Node<'t>) {
        for child in node.children() {
            self.collect_element(child);
        }
    }

    fn collect_element(&mut self, node: Node<'t>) {
        match node.name() {
            "t" => self.text.push_str(&node.text()),
            "tab" | "ptab" => self.text.push('\t'),
            "cr" => self.text.push('\n'),
            "br" => self.text.push(if node.attr("type").is_some_and(|it| it == "page") { ' ' } else { '\n' }),
            "noBreakHyphen" => self.text.push('\u{2011}'),
            "sym" => self.text.extend(symbol(node)),
            "footnoteReference" => self.notes.extend(node.attr("id").map(|id| format!("f{id}"))),
            "endnoteReference" => self.notes.extend(node.attr("id").map(|id| format!("e{id}"))),
            "commentReference" => self.comments.extend(node.attr("id")),
            "txbxContent" => self.boxes.push(node),
            "chart" => self.graphics.extend(node.prefixed_attr("id")),
            "relIds" => self.graphics.extend(node.prefixed_attr("dm")),
            "docPr" => self.pictures.extend(node.attr("descr").filter(|it| is_description(it))),
            "AlternateContent" => self.append(read_alternative(node)),
            // Separates denominators, exponents and indices of formulas from the text before them, e.g. `x^2`.
            "den" => self.collect_after('/', node),
            "sup" => self.collect_after('^', node),
            "sub" => self.collect_after('_', node),
            "" | "pPr" | "rPr" | "del" | "moveFrom" | "delText" | "instrText" | "delInstrText" | "sdtPr" | "tblPr"
            | "sectPr" | "softHyphen" => {}
            _ => self.collect(node),
        }
    }

    fn collect_after(&mut self, separator: char, node: Node<'t>) {
        self.text.push(separator);
        self.collect(node);
    }
}

/// Returns content that is stored in two forms, for newer programs (`Choice`) and for older ones (`Fallback`): the newer
/// form, or the older form if the newer one is empty.
fn read_alternative(node: Node<'_>) -> Inline<'_> {
    let mut inline = node.child("Choice").map(Inline::parse).unwrap_or_default();
    if inline.is_empty() {
        inline = node.child("Fallback").map(Inline::parse).unwrap_or_default();
    }
    inline
}

/// Returns the character of a `w:sym` element; `None` if it is a private-use code of a symbol font.
fn symbol(node: Node<'_>) -> Option<char> {
    let code = u32::from_str_radix(&node.attr("char")?, 16).ok()?;
    char::from_u32(code).filter(|_| !(0xE000..=0xF8FF).contains(&code))
}

/// Returns whether the description of an image is prose, which has a space, and not a file name or number.
pub(super) fn is_description(text: &str) -> bool {
    text.trim().contains(' ')
}
