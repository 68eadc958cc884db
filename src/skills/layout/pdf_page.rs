//! Converts a PDF page into pieces of text, drawn lines and form fields, in the coordinates of the displayed page.

use pdfium_render::prelude::*;

use crate::extract::clean_text;
use crate::model::Region;
use crate::skills::layout::page::{Field, FieldKind, Page, Piece, Rule};
use crate::skills::layout::reading_order::{WIDE_GAP, join_pieces};

/// Maximum number of letters read on a page; further letters are ignored. A crafted page has millions.
const MAX_LETTERS: usize = 100_000;
/// Maximum number of page objects (texts, paths, images) searched for drawn lines and images; further ones are ignored.
const MAX_OBJECTS: usize = 20_000;
/// Maximum number of drawn lines kept; further lines are ignored. The densest table has fewer, and this many are few enough
/// to compare all pairs.
const MAX_RULES: usize = 4_000;
/// Maximum number of annotations and form fields read; further ones are ignored.
const MAX_FIELDS: usize = 2_000;
/// A box up to this thick, in points, counts as a line.
const MAX_LINE_THICKNESS: f32 = 2.5;
/// Minimum length of a drawn line, in points; shorter lines are strokes of a drawing.
const MIN_RULE_LENGTH: f32 = 8.0;

/// Maps the coordinates of the PDF to those of the displayed page.
struct View {
    left: f32,
    bottom: f32,
    width: f32,
    height: f32,
    quarter_turns: u8,
}

/// Reads the pieces of text, drawn lines and form fields of a page.
pub(in crate::skills) fn read_page(page: &PdfPage<'_>) -> Page {
    let view = View::new(page);
    let turned = view.quarter_turns % 2 == 1;
    let (width, height) = if turned { (view.height, view.width) } else { (view.width, view.height) };
    let pieces = page.text().map(|text| read_pieces(&text, &view)).unwrap_or_default();
    Page {
        width,
        height,
        pieces,
        rules: read_rules(page, &view),
        fields: read_fields(page, &view),
        quarter_turns: 0,
        measured: true,
    }
}

/// Returns whether a page has a text layer.
pub(in crate::skills) fn has_text(page: &PdfPage<'_>) -> bool {
    page.text().is_ok_and(|text| {
        text.chars().iter().take(MAX_LETTERS).filter_map(|it| it.unicode_char()).any(|it| !it.is_whitespace())
    })
}

/// Returns whether a page shows an image, or a form object that may contain one.
pub(in crate::skills) fn has_picture(page: &PdfPage<'_>) -> bool {
    let mut objects = page.objects().iter().take(MAX_OBJECTS);
    objects.any(|it| matches!(it.object_type(), PdfPageObjectType::Image | PdfPageObjectType::XObjectForm))
}

impl View {
    fn new(page: &PdfPage<'_>) -> View {
        let quarter_turns = match page.rotation() {
            Ok(PdfPageRenderRotation::Degrees90) => 1,
            Ok(PdfPageRenderRotation::Degrees180) => 2,
            Ok(PdfPageRenderRotation::Degrees270) => 3,
            _ => 0,
        };
        let (shown_width, shown_height) = (page.width().value, page.height().value);
        let (width, height) =
            if quarter_turns % 2 == 1 { (shown_height, shown_width) } else { (shown_width, shown_height) };
        let (left, bottom) =
            page.boundaries().bounding().map_or((0.0, 0.0), |it| (it.bounds.left().value, it.bounds.bottom().value));
        View { left, bottom, width, height, quarter_turns }
    }

    fn point(&self, x: f32, y: f32) -> (f32, f32) {
        let (right, up) = (x - self.left, y - self.bottom);
        match self.quarter_turns {
            0 => (right, self.height - up),
            1 => (up, right),
            2 => (self.width - right, up),
            _ => (self.height - up, self.width - right),
        }
    }

    fn to_piece(&self, rect: &PdfRect) -> Piece {
        let (x1, y1) = self.point(rect.left().value, rect.bottom().value);
        let (x2, y2) = self.point(rect.right().value, rect.top().value);
        let (left, right, top, bottom) = (x1.min(x2), x1.max(x2), y1.min(y2), y1.max(y2));
        Piece { text: String::new(), left, top, right, bottom, size: bottom - top }
    }
}

/// Returns the words of the text layer with their places as fractions of the page, at most `most` words.
pub(in crate::skills) fn read_words(page: &PdfPage<'_>, most: usize) -> Vec<(String, Region)> {
    let view = View::new(page);
    let Ok(text) = page.text() else { return Vec::new() };
    let (mut words, mut open) = (Vec::new(), None::<Piece>);
    for letter in text.chars().iter().take(MAX_LETTERS) {
        let value = letter.unicode_char().filter(|it| !it.is_whitespace());
        let place = letter.loose_bounds().ok().map(|it| view.to_piece(&it));
        let (Some(value), Some(mut place)) = (value, place) else {
            words.extend(open.take());
            continue;
        };
        match &mut open {
            Some(word) if continues_piece(word, &place) => {
                word.text.push(value);
                word.cover(&place);
            }
            _ => {
                place.text.push(value);
                words.extend(open.replace(place));
            }
        }
        if words.len() >= most {
            break;
        }
    }
    words.extend(open);
    let turned = view.quarter_turns % 2 == 1;
    let (width, height) = if turned { (view.height, view.width) } else { (view.width, view.height) };
    let fraction = |at: f32, whole: f32| (at / whole.max(1.0)).clamp(0.0, 1.0);
    let region = |it: &Piece| Region {
        left: fraction(it.left, width),
        top: fraction(it.top, height),
        right: fraction(it.right, width),
        bottom: fraction(it.bottom, height),
    };
    words.into_iter().map(|it| (clean_text(&it.text), region(&it))).collect()
}

/// Groups letters into pieces, in the order of the file, and joins lines that the file draws in several steps.
fn read_pieces(text: &PdfPageText<'_>, view: &View) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open: Option<Piece> = None;
    for letter in text.chars().iter().take(MAX_LETTERS) {
        let Some(value) = letter.unicode_char() else { continue };
        if matches!(value, '\r' | '\n') {
            pieces.extend(open.take());
            continue;
        }
        if value.is_whitespace() {
            if let Some(piece) = &mut open {
                piece.text.push(' ');
            }
            continue;
        }
        let Ok(bounds) = letter.loose_bounds() else { continue };
        let mut place = view.to_piece(&bounds);
        let size = letter.scaled_font_size().value;
        place.size = if size > 0.5 { size } else { place.height() };
        match &mut open {
            Some(piece) if continues_piece(piece, &place) => {
                piece.text.push(value);
                piece.cover(&place);
            }
            _ => {
                place.text.push(value);
                pieces.extend(open.replace(place));
            }
        }
    }
    pieces.extend(open);
    for piece in &mut pieces {
        piece.text = clean_text(&piece.text).replace(['\n', '\t'], " ");
    }
    join_pieces(pieces)
}

/// Returns whether a letter continues a piece: at the same height, to the right of the piece, without a wide gap.
fn continues_piece(piece: &Piece, letter: &Piece) -> bool {
    let gap = letter.left - piece.right;
    let same_line = (letter.middle() - piece.middle()).abs() < 0.4 * piece.height().max(letter.height());
    same_line && gap < WIDE_GAP * piece.size && gap > -1.5 * piece.size
}

fn read_rules(page: &PdfPage<'_>, view: &View) -> Vec<Rule> {
    let mut rules = Vec::new();
    for object in page.objects().iter().take(MAX_OBJECTS) {
        if rules.len() >= MAX_RULES {
            break;
        }
        let Some(path) = object.as_path_object() else { continue };
        let Ok(bounds) = object.bounds() else { continue };
        let area = view.to_piece(&bounds.to_rect());
        if is_line(&area) {
            rules.push(Rule { left: area.left, top: area.top, right: area.right, bottom: area.bottom });
        } else if path.is_stroked().unwrap_or(false) {
            rules.extend(path_edges(path, view).into_iter().take(MAX_RULES - rules.len()));
        }
    }
    rules
}

fn is_line(area: &Piece) -> bool {
    let (width, height) = (area.right - area.left, area.bottom - area.top);
    width.min(height) <= MAX_LINE_THICKNESS && width.max(height) >= MIN_RULE_LENGTH
}

/// Returns the vertical and horizontal strokes of a path as drawn lines.
fn path_edges(path: &PdfPagePathObject<'_>, view: &View) -> Vec<Rule> {
    let Ok(matrix) = path.matrix() else { return Vec::new() };
    let mut edges = Vec::new();
    let (mut start, mut last) = (None, None);
    for segment in path.segments().transform(matrix).iter().take(MAX_RULES) {
        let (x, y) = segment.point();
        let point = view.point(x.value, y.value);
        match segment.segment_type() {
            PdfPathSegmentType::MoveTo => start = Some(point),
            PdfPathSegmentType::LineTo => edges.extend(last.and_then(|from| to_rule(from, point))),
            _ => {}
        }
        last = Some(point);
        if segment.is_close() {
            edges.extend(start.and_then(|to| to_rule(point, to)));
        }
    }
    edges
}

fn to_rule(from: (f32, f32), to: (f32, f32)) -> Option<Rule> {
    let area = Piece {
        left: from.0.min(to.0),
        top: from.1.min(to.1),
        right: from.0.max(to.0),
        bottom: from.1.max(to.1),
        ..Piece::default()
    };
    is_line(&area).then_some(Rule { left: area.left, top: area.top, right: area.right, bottom: area.bottom })
}

/// Returns form fields with values, signature fields, and notes that users put on the page.
fn read_fields(page: &PdfPage<'_>, view: &View) -> Vec<Field> {
    let mut fields = Vec::new();
    for annotation in page.annotations().iter().take(MAX_FIELDS) {
        let Ok(bounds) = annotation.bounds() else { continue };
        let place = view.to_piece(&bounds);
        let found = match annotation.as_form_field() {
            Some(field) => form_field(field),
            None => annotation_text(&annotation),
        };
        if let Some((kind, name, value)) = found {
            fields.push(Field {
                kind,
                name: short_field_name(&name),
                value: clean_text(&value).trim().to_string(),
                place,
            });
        }
    }
    fields.retain(|it| it.kind == FieldKind::Signature || !it.value.is_empty());
    fields
}

fn form_field(field: &PdfFormField<'_>) -> Option<(FieldKind, String, String)> {
    let name = field.name().unwrap_or_default();
    let value = match field {
        PdfFormField::Text(it) => it.value(),
        PdfFormField::ComboBox(it) => it.value(),
        PdfFormField::ListBox(it) => it.value(),
        PdfFormField::Checkbox(it) => it.is_checked().ok().filter(|it| *it).map(|_| "checked".to_string()),
        PdfFormField::RadioButton(it) => it.is_checked().ok().filter(|it| *it).and_then(|_| it.group_value()),
        PdfFormField::Signature(_) => return Some((FieldKind::Signature, name, String::new())),
        _ => None,
    };
    Some((FieldKind::Value, name, value?))
}

/// Returns the text of an annotation that a user put on the page.
fn annotation_text(annotation: &PdfPageAnnotation<'_>) -> Option<(FieldKind, String, String)> {
    let name = match annotation.annotation_type() {
        PdfPageAnnotationType::FreeText => "text on the page",
        PdfPageAnnotationType::Stamp => "stamp",
        PdfPageAnnotationType::Text => "note",
        _ => return None,
    };
    Some((FieldKind::Value, name.to_string(), annotation.contents()?))
}

/// Shortens a field name: `form1[0].#subform[2].GivenName[0]` becomes `GivenName`.
fn short_field_name(name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.split('[').next().unwrap_or(last).trim().to_string()
}
