//! Simplified pictures of slides: a slide becomes a page of a PDF, which the PDF library draws like every other page, so that
//! the places of words are known too.
//!
//! Only the standard fonts are available in the jail. A slide with characters that they lack has no picture.

mod fonts;
mod pdf_writer;
mod text_layout;

use std::time::{Duration, Instant};

use image::RgbImage;
use image::imageops::FilterType;

use crate::extract::{Area, CroppedPicture, Geometry, Input, Rgb, Shape, SkillInput, Slide, new_failure, read_slide};
use crate::model::{ExtractFailure, Reason};
use crate::skills::ocr::image_decoder;
use crate::skills::slides::pdf_writer::PdfPage;
use crate::skills::slides::text_layout::place_text;

/// Largest side of a picture on a slide in pixels, at which it is sharp on a slide as wide as the screen.
const MAX_PICTURE_SIDE: u32 = 1_600;

/// Share of the time of a job in which pictures are decoded; later ones are shown as empty boxes.
const PICTURE_TIME: f32 = 0.5;

/// Colour of the box in place of a picture that cannot be drawn.
const NO_PICTURE: Rgb = [226; 3];

/// Two colours with a lower contrast cannot be told apart in a text, as where a colour is misread.
const MIN_CONTRAST: f32 = 1.7;

const BLACK: Rgb = [0; 3];
const WHITE: Rgb = [255; 3];

/// Composes a slide as a PDF of one page; returns the number of slides too.
pub(super) fn compose(input: &SkillInput<'_>, number: u32) -> Result<(u32, Vec<u8>), ExtractFailure> {
    let slide = read_slide(Input { bytes: input.bytes, name: input.name }, number, input.limits)?;
    let end = Instant::now() + Duration::from_secs_f32(input.job.soft_seconds() * PICTURE_TIME);
    Ok((slide.pages, to_pdf(&slide, end)?))
}

/// Draws a slide as a PDF. Pictures are decoded until `end`.
fn to_pdf(slide: &Slide, end: Instant) -> Result<Vec<u8>, ExtractFailure> {
    let mut page = PdfPage::new(slide.width, slide.height);
    let whole = Area { width: slide.width, height: slide.height, ..Area::default() };
    page.fill(whole, Geometry::Rectangle, slide.background);
    for (place, shape) in slide.shapes.iter().enumerate() {
        if let Some(colour) = shape.fill {
            page.fill(shape.area, shape.geometry, colour);
        }
        if let Some(picture) = &shape.picture {
            draw_picture(&mut page, slide, picture, shape.area, end);
        }
        if let Some(line) = shape.line {
            page.stroke(shape.area, shape.geometry, line.colour, line.width);
        }
        draw_text(&mut page, slide, place)?;
    }
    Ok(page.finish())
}

fn draw_text(page: &mut PdfPage, slide: &Slide, place: usize) -> Result<(), ExtractFailure> {
    let shape = &slide.shapes[place];
    let Some(text) = &shape.text else { return Ok(()) };
    let behind = backdrop(slide, place);
    let lines = place_text(text, shape.area).map_err(|character| {
        let code = u32::from(character);
        new_failure(Reason::UnsupportedType, format!("the standard fonts do not have `{character}` (U+{code:04X})"))
    })?;
    for line in &lines {
        page.text(line, |stated| ink(stated, behind));
    }
    Ok(())
}

/// Returns the colour behind the text of a shape; `None` if it is a picture.
fn backdrop(slide: &Slide, place: usize) -> Option<Rgb> {
    let area = slide.shapes[place].area;
    let is_behind = |it: &&Shape| it.area.has_middle_of(&area) && (it.fill.is_some() || it.picture.is_some());
    match slide.shapes[..=place].iter().rev().find(is_behind) {
        Some(shape) if shape.picture.is_some() => None,
        Some(shape) => shape.fill,
        None => Some(slide.background),
    }
}

/// Returns the colour of letters: the one that the file states, if it can be read on what is behind, or else black or white.
fn ink(stated: Option<Rgb>, behind: Option<Rgb>) -> Rgb {
    let Some(behind) = behind else { return stated.unwrap_or(BLACK) };
    let stated = stated.filter(|it| contrast(*it, behind) >= MIN_CONTRAST);
    stated.unwrap_or(if contrast(BLACK, behind) >= contrast(WHITE, behind) { BLACK } else { WHITE })
}

/// Returns the contrast of two colours as WCAG defines it: 1 to 21.
fn contrast(one: Rgb, other: Rgb) -> f32 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: Rgb) -> f32 {
    let linear = |it: u8| {
        let share = f32::from(it) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Draws a picture, or an empty box if it cannot be read or there is no time left.
fn draw_picture(page: &mut PdfPage, slide: &Slide, shown: &CroppedPicture, area: Area, end: Instant) {
    let bytes = shown.index.and_then(|it| slide.pictures.get(it)).filter(|_| Instant::now() < end);
    let picture = bytes.and_then(|it| image_decoder::decode_page(it, 0).ok());
    let picture = picture.map(|it| shrink(crop(it, shown.crop)));
    let is_drawn = picture.is_some_and(|it| page.picture(&it, area).is_ok());
    if !is_drawn {
        page.fill(area, Geometry::Rectangle, NO_PICTURE);
    }
}

fn crop(picture: RgbImage, [left, top, right, bottom]: [f32; 4]) -> RgbImage {
    let (width, height) = (picture.width() as f32, picture.height() as f32);
    let side = |whole: f32, before: f32, after: f32| (whole * (1.0 - before - after)).round().clamp(1.0, whole) as u32;
    let (x, y) = ((width * left) as u32, (height * top) as u32);
    let (wide, high) = (side(width, left, right), side(height, top, bottom));
    if (wide, high) == picture.dimensions() {
        return picture;
    }
    image::imageops::crop_imm(&picture, x, y, wide, high).to_image()
}

fn shrink(picture: RgbImage) -> RgbImage {
    let side = picture.width().max(picture.height());
    if side <= MAX_PICTURE_SIDE {
        return picture;
    }
    let scaled = |it: u32| (u64::from(it) * u64::from(MAX_PICTURE_SIDE) / u64::from(side)).max(1) as u32;
    image::imageops::resize(&picture, scaled(picture.width()), scaled(picture.height()), FilterType::Triangle)
}

#[cfg(test)]
mod tests;
