//! Parses a location in a file, e.g. `page 3, lines 7-9`, from text: the inverse of [`Anchor::place`].

use crate::error::{Error, Result};
use crate::model::{Anchor, MEMBER_SEPARATOR};

/// Separator between the parts of a location, and between a path and a location after it.
const PLACE_SEPARATOR: &str = ", ";

/// Maximum number of ways that are tried to split a text into a path and a location.
const MAX_SPLITS: usize = 16;

/// A part of a file, or the whole file if no field is set. All fields that are set apply together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Only this page or slide: `3`, or a range `3-5`.
    pub page: Option<String>,
    /// Only this line: `12`, or a range `12-20`.
    pub lines: Option<String>,
    /// Only the sheet with this name.
    pub sheet: Option<String>,
    /// Only this cell, `B2`, or range, `B2:D9`.
    pub cell: Option<String>,
    /// Only this part of a message or notebook (`body`, `attachment: plan.pdf`, `cell 7`), or symbol of source code.
    pub part: Option<String>,
    /// Only this archive member; levels of nested archives are joined by `!/`.
    pub member: Option<String>,
}

impl Place {
    /// Returns whether no field is set, which means the whole file.
    pub fn is_whole(&self) -> bool {
        *self == Place::default()
    }

    /// Fills the fields that are not set from `other`.
    #[must_use]
    pub fn or(self, other: Place) -> Place {
        Place {
            page: self.page.or(other.page),
            lines: self.lines.or(other.lines),
            sheet: self.sheet.or(other.sheet),
            cell: self.cell.or(other.cell),
            part: self.part.or(other.part),
            member: self.member.or(other.member),
        }
    }

    /// Parses the location that hits show after a path, e.g. `page 3, lines 7-9`. Unknown text becomes [`Place::part`].
    /// Returns `None` for an empty text.
    pub fn parse(text: &str) -> Option<Place> {
        let mut place = Place::default();
        let mut parts = Vec::new();
        for said in text.split(PLACE_SEPARATOR).map(str::trim).filter(|it| !it.is_empty()) {
            let after = |words: [&str; 2]| {
                let number = words.into_iter().find_map(|it| said.strip_prefix(it)?.strip_prefix(' '))?;
                parse_span("", number).is_ok().then(|| number.to_string())
            };
            if let Some(pages) = after(["page", "pages"]) {
                place.page = Some(pages);
            } else if let Some(lines) = after(["line", "lines"]) {
                place.lines = Some(lines);
            } else if let Some(sheet) = said.strip_prefix("sheet ") {
                place.sheet = Some(sheet.to_string());
            } else if parse_cells(said).is_some() {
                place.cell = Some(said.to_string());
            } else if !is_region(said) {
                parts.push(said);
            }
        }
        if !parts.is_empty() {
            place.part = Some(parts.join(PLACE_SEPARATOR));
        }
        (!place.is_whole()).then_some(place)
    }
}

/// Returns the possible splits of a text into a path and a location, in the order to try: the whole text as a path, and a
/// path with a location as hits show it: `lease.pdf, page 3`, `lease.pdf  page 3  0.735 L1`, `plan.md:12`, `plan.md:12-14`.
pub fn split_path_and_place(text: &str) -> impl Iterator<Item = (&str, Place)> {
    let separators = [PLACE_SEPARATOR, "  ", ":"];
    let mut cuts: Vec<(usize, &str)> =
        separators.iter().flat_map(|it| text.match_indices(it).take(MAX_SPLITS)).collect();
    cuts.sort_unstable();
    let placed = cuts.into_iter().filter_map(|(at, separator)| {
        let (path, said) = (&text[..at], text[at + separator.len()..].split("  ").next()?.trim());
        let place = match separator {
            // Parse `path:line` as grep prints it; without a line number after it, a colon is part of the file name.
            ":" if parse_span("", said).is_ok() => Place { lines: Some(said.to_string()), ..Place::default() },
            ":" => Place::parse(said).filter(|it| it.part.is_none())?,
            _ => Place::parse(said)?,
        };
        (!path.is_empty()).then_some((path, place))
    });
    // Try first to split paths of archive members that end in an unambiguous location (a page, line, sheet or cell).
    // Other text after `archive!/` is more likely a member's name than a location.
    let is_surely = |it: &(&str, Place)| it.1.part.is_none() && it.0.contains(MEMBER_SEPARATOR);
    let (surely, perhaps): (Vec<_>, Vec<_>) = placed.take(MAX_SPLITS).partition(is_surely);
    surely.into_iter().chain(std::iter::once((text, Place::default()))).chain(perhaps)
}

/// Parses a number `3` or a range `3-5`, counted from 1.
///
/// # Errors
/// `InvalidArgument` that names `field`, for any other text.
pub fn parse_span(field: &str, text: &str) -> Result<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err(Error::invalid(format!("`{text}` is not a number or a range: use e.g. `3` or `3-5`")).field(field)),
    }
}

/// Parses a cell `B2` or a range `B2:D9` into its first and last (row, column), counted from 0.
pub fn parse_cells(text: &str) -> Option<((u32, u32), (u32, u32))> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let (first, last) = (parse_cell(first)?, parse_cell(last)?);
    (first.0 <= last.0 && first.1 <= last.1).then_some((first, last))
}

fn parse_cell(text: &str) -> Option<(u32, u32)> {
    /// Maximum number of letters (column) and digits (row) of a cell: enough for the largest sheets.
    const MAX_LETTERS_AND_DIGITS: (usize, usize) = (3, 7);
    let digits = text.find(|it: char| !it.is_ascii_uppercase())?;
    let (letters, number) = text.split_at(digits);
    let is_number = number.len() <= MAX_LETTERS_AND_DIGITS.1 && number.bytes().all(|it| it.is_ascii_digit());
    if !(1..=MAX_LETTERS_AND_DIGITS.0).contains(&letters.len()) || !is_number {
        return None;
    }
    let column = letters.bytes().fold(0, |column, it| column * 26 + u32::from(it - b'A') + 1);
    Some((number.parse::<u32>().ok()?.checked_sub(1)?, column - 1))
}

/// Returns whether the text is a page region in the form that [`Anchor::place`] prints.
fn is_region(text: &str) -> bool {
    const WORDS: [&str; 5] = ["top", "bottom", "left", "right", "centre"];
    !text.is_empty() && text.split(' ').all(|it| WORDS.contains(&it))
}

impl Anchor {
    /// Returns whether `name` is the part or the symbol of this anchor, or both in the form that [`Anchor::place`] prints.
    pub fn is_part(&self, name: &str) -> bool {
        let both = || Some(format!("{}{PLACE_SEPARATOR}{}", self.part.as_ref()?, self.symbol.as_ref()?));
        [self.part.as_deref(), self.symbol.as_deref(), both().as_deref()].contains(&Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Region;

    #[test]
    fn anchor_place_round_trips() {
        let anchor = Anchor { page: Some(3), line_start: Some(7), line_end: Some(9), ..Anchor::default() };
        let place = Place::parse(&anchor.place()).unwrap();
        assert_eq!((place.page.as_deref(), place.lines.as_deref()), (Some("3"), Some("7-9")));
        let region = Region { left: 0.0, top: 0.0, right: 0.1, bottom: 0.1 };
        let anchor = Anchor { region: Some(region), line_start: None, line_end: None, ..anchor };
        assert_eq!(Place::parse(&anchor.place()), Some(Place { page: Some("3".into()), ..Place::default() }));
        let (sheet, cell) = (Some("Q1 2025".to_string()), Some("B2:D9".to_string()));
        let anchor = Anchor { sheet: sheet.clone(), cell: cell.clone(), ..Anchor::default() };
        assert_eq!(Place::parse(&anchor.place()), Some(Place { sheet, cell, ..Place::default() }));
        let part = Some("message 3, attachment: plan.pdf".to_string());
        let anchor = Anchor { part: part.clone(), page: Some(2), ..Anchor::default() };
        let place = Place::parse(&anchor.place()).unwrap();
        assert_eq!(place, Place { part, page: Some("2".into()), ..Place::default() });
        assert!(anchor.is_part(place.part.as_ref().unwrap()) && !anchor.is_part("message 3"));
        assert_eq!(Place::parse(""), None);
    }

    #[test]
    fn namings_try_whole_path_before_path_with_place() {
        let check = |text: &str, path: &str, place: Place| {
            let found: Vec<_> = split_path_and_place(text).collect();
            let (whole, placed) = ((text, Place::default()), (path, place));
            let first = if path.contains(MEMBER_SEPARATOR) { &placed } else { &whole };
            assert!(found[0] == *first && found.contains(&whole) && found.contains(&placed), "{text}: {found:?}");
        };
        let lines = |it: &str| Place { lines: Some(it.into()), ..Place::default() };
        let page = Place { page: Some("3".into()), ..Place::default() };
        check("Archive/x.zip!/note.md, lines 3-7", "Archive/x.zip!/note.md", lines("3-7"));
        check("a, b.pdf, page 3", "a, b.pdf", page.clone());
        check("a.pdf  page 3  0.735 L1", "a.pdf", page.clone());
        check("a.pdf:page 3", "a.pdf", page);
        check("a:b.md:12", "a:b.md", lines("12"));
        check("a.md:12-14", "a.md", lines("12-14"));
        check(
            "x.ods, sheet A, B2",
            "x.ods",
            Place { sheet: Some("A".into()), cell: Some("B2".into()), ..Place::default() },
        );
        assert_eq!(split_path_and_place("C:notes.md").count(), 1);
        assert!(split_path_and_place(&"a, ".repeat(10_000)).count() <= 1 + MAX_SPLITS);
    }

    #[test]
    fn span_and_cells_parse_valid_and_reject_invalid() {
        assert_eq!((parse_span("", "3").unwrap(), parse_span("", "3-5").unwrap()), ((3, 3), (3, 5)));
        for wrong in ["", "0", "5-3", "a", "3-", "-3", "3-5-7", "99999999999"] {
            assert_eq!(parse_span("lines", wrong).unwrap_err().field.as_deref(), Some("lines"), "{wrong}");
        }
        assert_eq!(parse_cells("B2:D9"), Some(((1, 1), (8, 3))));
        assert_eq!(parse_cells("AA10"), Some(((9, 26), (9, 26))));
        for wrong in ["", "B", "2", "B0", "b2", "D9:B2", "ABCD1", "B2:"] {
            assert_eq!(parse_cells(wrong), None, "{wrong}");
        }
    }
}
