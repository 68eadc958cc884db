//! Layout analysis of a page: finds structure by the positions of words.
//!
//! `pdf_page` and [`mod@render`] call the PDF library. Everything else is pure geometry on [`Page`], which OCR results use
//! too: `reading_order` groups pieces of text into rows and columns; [`table`], `key_values`, [`signature`] and
//! [`heading`] each find one kind of structure; [`find_structure`] puts the results in reading order. Running text is
//! ignored: extraction returns it.

mod heading;
mod reading_order;
mod page;
mod pdf_page;
mod key_values;
mod render;
mod signature;
mod signer;
mod table;

pub(super) use crate::skills::layout::page::{Page, Piece, Structure};
pub(super) use crate::skills::layout::pdf_page::{has_picture, has_text, read_page, read_words};
pub(super) use crate::skills::layout::render::{render_page, render_page_at};

use crate::skills::layout::page::StructureMatch;

/// Finds tables, facts, form fields, signatures and headings on a page, in reading order.
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

#[cfg(test)]
mod tests;
