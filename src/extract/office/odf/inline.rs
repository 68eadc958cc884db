//! The text of one OpenDocument paragraph, and the objects anchored in it: frames, notes, comments.

use crate::extract::xml_tree::Node;

/// Maximum number of spaces taken from one `text:s` element, which stands for several spaces.
const MAX_SPACES: usize = 64;

/// The text of a paragraph, and the objects anchored in it.
#[derive(Debug, Default)]
pub(super) struct Inline<'t> {
    pub(super) text: String,
    /// Bodies of the footnotes and endnotes that the paragraph refers to.
    pub(super) notes: Vec<Node<'t>>,
    /// Comments on the paragraph.
    pub(super) comments: Vec<Node<'t>>,
    /// Frames and shapes anchored in the paragraph.
    pub(super) frames: Vec<Node<'t>>,
}

impl<'t> Inline<'t> {
    /// Collects the content of a paragraph or heading.
    pub(super) fn parse(paragraph: Node<'t>) -> Inline<'t> {
        let mut inline = Inline::default();
        inline.collect(paragraph);
        inline
    }

    fn collect(&mut self, node: Node<'t>) {
        for child in node.children() {
            if let Some(text) = child.as_text() {
                self.push_collapsed(text);
                continue;
            }
            match child.name() {
                "s" => {
                    let count = child.attr("c").and_then(|it| it.parse().ok()).unwrap_or(1usize);
                    self.text.extend(std::iter::repeat_n(' ', count.min(MAX_SPACES)));
                }
                "tab" => self.text.push('\t'),
                "line-break" => self.text.push('\n'),
                "note" => self.notes.extend(child.child("note-body")),
                "annotation" => self.comments.push(child),
                // Skips page numbers too: the file holds only placeholders for them, because they depend on the layout.
                "annotation-end" | "tracked-changes" | "ruby-text" | "page-number" | "page-count" => {}
                "frame" | "custom-shape" | "rect" | "line" | "g" | "caption" | "ellipse" | "polygon" | "text-box" => {
                    self.frames.push(child);
                }
                _ => self.collect(child),
            }
        }
    }

    /// Adds text, with consecutive white space collapsed to one space, as OpenDocument prescribes.
    fn push_collapsed(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                ' ' | '\t' | '\r' | '\n' if self.text.ends_with([' ', '\n', '\t']) => {}
                ' ' | '\t' | '\r' | '\n' => self.text.push(' '),
                character => self.text.push(character),
            }
        }
    }
}
