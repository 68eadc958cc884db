//! A page as layout analysis sees it: positioned words, lines and form fields, and the structures found among them.

use crate::model::{BlockKind, Region};

/// Words of one line without wide gaps. Lengths are in points, or in pixels of a picture, from the top left corner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::skills) struct Piece {
    /// Its text, never empty.
    pub(in crate::skills) text: String,
    /// Left edge.
    pub(in crate::skills) left: f32,
    /// Upper edge.
    pub(in crate::skills) top: f32,
    /// Right edge.
    pub(in crate::skills) right: f32,
    /// Lower edge.
    pub(in crate::skills) bottom: f32,
    /// Size of its letters.
    pub(in crate::skills) size: f32,
}

/// A straight line, or the edge of a box.
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
    /// Holds a value.
    Value,
    /// Holds a signature, or is to be signed.
    Signature,
}

/// A form field that is filled in, or to be signed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::skills) struct Field {
    pub(in crate::skills) kind: FieldKind,
    /// Its name in the file.
    pub(in crate::skills) name: String,
    /// Its value; empty for a signature field.
    pub(in crate::skills) value: String,
    /// Its position; the text is empty.
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
    /// Clockwise quarter turns that made it upright.
    pub(in crate::skills) quarter_turns: u8,
    /// Whether sizes come from the file rather than from a picture.
    pub(in crate::skills) measured: bool,
}

/// A structure found on a page.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::skills) struct Structure {
    pub(in crate::skills) kind: BlockKind,
    pub(in crate::skills) text: String,
    pub(in crate::skills) region: Region,
}

/// A find before sorting: its text and its pieces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StructureMatch {
    pub(super) kind: BlockKind,
    pub(super) text: String,
    /// The box around all its parts.
    pub(super) area: Piece,
    /// Indices of its pieces in the page; no piece is part of two finds.
    pub(super) pieces: Vec<usize>,
}

impl Page {
    /// Converts a find; its region is a fraction of the displayed page.
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

    /// Grows the box to cover another.
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
