//! Layout analysis of a page: structure from the positions of its words.
//!
//! `page` and [`mod@render`] call the PDF library. Everything else is pure geometry on [`Page`], which OCR pages use too:
//! `order` groups pieces into rows and columns; [`table`], `key_values`, [`signature`] and [`heading`] each find one kind of
//! structure; [`find_structure`] puts the results in reading order. Running text is ignored: extraction has it already.

mod heading;
mod reading_order;
mod pdf_page;
mod key_values;
mod render;
mod signature;
mod signer;
mod table;

use crate::model::{BlockKind, Region};

pub(super) use crate::skills::layout::pdf_page::{has_picture, has_text, read_page};
pub(super) use crate::skills::layout::render::render_page;

/// Words of one line without wide gaps. Lengths are in points, or in pixels of a picture, from the top left corner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    /// Its text, never empty.
    pub(super) text: String,
    /// Left edge.
    pub(super) left: f32,
    /// Upper edge.
    pub(super) top: f32,
    /// Right edge.
    pub(super) right: f32,
    /// Lower edge.
    pub(super) bottom: f32,
    /// Size of its letters.
    pub(super) size: f32,
}

/// A straight line, or the edge of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

/// Kind of a form field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// Holds a value.
    Value,
    /// Holds a signature, or is to be signed.
    Signature,
}

/// A form field that is filled in, or to be signed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) kind: FieldKind,
    /// Its name in the file.
    pub(super) name: String,
    /// Its value; empty for a signature field.
    pub(super) value: String,
    /// Its position; the text is empty.
    pub(super) place: Piece,
}

/// The positioned content of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) pieces: Vec<Piece>,
    pub(super) rules: Vec<Rule>,
    pub(super) fields: Vec<Field>,
    /// Clockwise quarter turns that made it upright.
    pub(super) quarter_turns: u8,
    /// Whether sizes come from the file rather than from a picture.
    pub(super) measured: bool,
}

/// A structure found on a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Structure {
    pub(super) kind: BlockKind,
    pub(super) text: String,
    pub(super) region: Region,
}

/// A find before sorting: its text and its pieces.
#[derive(Clone, Debug, PartialEq)]
struct StructureMatch {
    kind: BlockKind,
    text: String,
    /// The box around all its parts.
    area: Piece,
    /// Indices of its pieces in the page; no piece is part of two finds.
    pieces: Vec<usize>,
}

/// Finds tables, facts, form fields, signatures and headings, in reading order.
pub(super) fn find_structure(page: &Page) -> Vec<Structure> {
    let rows = reading_order::group_rows(&page.pieces);
    let mut taken = vec![false; page.pieces.len()];
    let mut finds = Vec::new();
    let mut add = |found: Vec<StructureMatch>, taken: &mut Vec<bool>| {
        found.iter().flat_map(|it| &it.pieces).for_each(|at| taken[*at] = true);
        finds.extend(found);
    };
    add(signature::find_signatures(page, &rows, &taken), &mut taken);
    add(table::find_tables(page, &rows, &taken), &mut taken);
    add(heading::find_headings(page, &rows, &taken), &mut taken);
    add(key_values::find_facts(page, &rows, &taken), &mut taken);
    add(key_values::form_values(page), &mut taken);
    let places: Vec<&Piece> = finds.iter().map(|it| &it.area).collect();
    let order = reading_order::reading_order(&places);
    order.into_iter().map(|at| page.to_structure(&finds[at])).collect()
}

impl Page {
    /// Converts a find; its region is a fraction of the displayed page.
    fn to_structure(&self, find: &StructureMatch) -> Structure {
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
    fn height(&self) -> f32 {
        self.bottom - self.top
    }

    fn middle(&self) -> f32 {
        (self.top + self.bottom) / 2.0
    }

    fn centre(&self) -> f32 {
        (self.left + self.right) / 2.0
    }

    /// Grows the box to cover another.
    fn cover(&mut self, other: &Piece) {
        self.left = self.left.min(other.left);
        self.top = self.top.min(other.top);
        self.right = self.right.max(other.right);
        self.bottom = self.bottom.max(other.bottom);
    }
}

/// Returns the box around these pieces, without text.
fn bounding_box<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Piece {
    let mut pieces = pieces.into_iter();
    let mut area = pieces.next().map(|it| Piece { text: String::new(), ..it.clone() }).unwrap_or_default();
    pieces.for_each(|it| area.cover(it));
    area
}

#[cfg(test)]
mod tests;
