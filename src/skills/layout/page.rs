//! The input and output of layout analysis: a page with positioned words, lines and form fields, and the structures found.

use crate::model::{BlockKind, Region};

/// A piece of text: words of one line without wide gaps. Lengths are in points or image pixels, from the top left corner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::skills) struct Piece {
    /// The text, never empty.
    pub(in crate::skills) text: String,
    /// Left edge.
    pub(in crate::skills) left: f32,
    /// Upper edge.
    pub(in crate::skills) top: f32,
    /// Right edge.
    pub(in crate::skills) right: f32,
    /// Lower edge.
    pub(in crate::skills) bottom: f32,
    /// Size of the letters.
    pub(in crate::skills) size: f32,
}

/// A drawn straight line, or the edge of a drawn box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::skills) struct Rule {
    pub(in crate::skills) left: f32,
    pub(in crate::skills) top: f32,
    pub(in crate::skills) right: f32,
    pub(in crate::skills) bottom: f32,
}

/// Kind of a form field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::skills) enum FieldKind {
    /// A field with a value.
    Value,
    /// A signature field, signed or not.
    Signature,
}

/// A form field with a value, or a signature field.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::skills) struct Field {
    pub(in crate::skills) kind: FieldKind,
    /// Name of the field in the PDF.
    pub(in crate::skills) name: String,
    /// Value of the field; empty for a signature field.
    pub(in crate::skills) value: String,
    /// Position of the field; the text is empty.
    pub(in crate::skills) place: Piece,
}

/// The positioned content of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::skills) struct Page {
    pub(in crate::skills) width: f32,
    pub(in crate::skills) height: f32,
    pub(in crate::skills) pieces: Vec<Piece>,
    pub(in crate::skills) rules: Vec<Rule>,
    pub(in crate::skills) fields: Vec<Field>,
    /// Number of clockwise quarter turns that made the page upright.
    pub(in crate::skills) quarter_turns: u8,
    /// True if letter sizes come from a PDF; false if they are estimated from an image.
    pub(in crate::skills) measured: bool,
}

/// A structure found on a page: a table, a list of facts, a signature block or a heading.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::skills) struct Structure {
    pub(in crate::skills) kind: BlockKind,
    pub(in crate::skills) text: String,
    pub(in crate::skills) region: Region,
}

/// A structure before sorting: its text, and the pieces of text that it consists of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StructureMatch {
    pub(super) kind: BlockKind,
    pub(super) text: String,
    /// The box around all pieces.
    pub(super) area: Piece,
    /// Indices of the pieces in the page; no piece belongs to two structures.
    pub(super) pieces: Vec<usize>,
}

impl Page {
    /// Converts a match into a structure, whose region is given in fractions of the displayed page.
    pub(super) fn to_structure(&self, find: &StructureMatch) -> Structure {
        let fraction = |at: f32, whole: f32| if whole > 0.0 { (at / whole).clamp(0.0, 1.0) } else { 0.0 };
        let upright = Region {
            left: fraction(find.area.left, self.width),
            top: fraction(find.area.top, self.height),
            right: fraction(find.area.right, self.width),
            bottom: fraction(find.area.bottom, self.height),
        };
        let back = |it: Region| Region { left: it.top, top: 1.0 - it.right, right: it.bottom, bottom: 1.0 - it.left };
        let region = (0..self.quarter_turns).fold(upright, |it, _| back(it));
        Structure { kind: find.kind, text: find.text.clone(), region }
    }
}

impl Piece {
    pub(super) fn height(&self) -> f32 {
        self.bottom - self.top
    }

    pub(super) fn middle(&self) -> f32 {
        (self.top + self.bottom) / 2.0
    }

    pub(super) fn centre(&self) -> f32 {
        (self.left + self.right) / 2.0
    }

    /// Extends the box to cover another one.
    pub(super) fn cover(&mut self, other: &Piece) {
        self.left = self.left.min(other.left);
        self.top = self.top.min(other.top);
        self.right = self.right.max(other.right);
        self.bottom = self.bottom.max(other.bottom);
    }
}

/// Returns the box around these pieces, without text.
pub(super) fn bounding_box<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Piece {
    let mut pieces = pieces.into_iter();
    let mut area = pieces.next().map(|it| Piece { text: String::new(), ..it.clone() }).unwrap_or_default();
    pieces.for_each(|it| area.cover(it));
    area
}
