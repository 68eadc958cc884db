//! Bytes of an image file to pixels: with limits before decoding, upright as a viewer shows it, on white paper.
//!
//! Nothing here looks for text. The extent of an image is known and checked before its pixels are decoded.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits, RgbImage};

use crate::model::{ExtractFailure, Reason};

/// More pixels than that are not decoded: an A3 page at 600 dpi has 70 million.
const MAX_PIXELS: u64 = 100_000_000;
/// Memory that a decoder may take; a page of that many pixels in full colour fits.
const MAX_DECODER_BYTES: u64 = 320 << 20;
/// The longest side that is kept, in pixels: A4 at 340 dpi. Small print is legible far below that.
const MAX_SIDE: u32 = 4_000;
/// Pages of one TIFF file that are counted. Real ones are faxes of some dozens; a longer chain is a loop.
const MAX_PAGES: u32 = 2_000;

/// Returns the number of pages of an image file: 1, unless it is a TIFF with more.
pub fn pages(bytes: &[u8]) -> u32 {
    page_offsets(bytes).map_or(1, |offsets| (offsets.len() as u32).max(1))
}

/// Decodes one page (0-based) of an image file: turned as its EXIF says, transparency on white, 8 bits a channel, the
/// longest side at most 4,000 pixels.
///
/// # Errors
/// [`Reason::UnsupportedType`] for formats that are not compiled in, [`Reason::TooLarge`] for more than 100 million
/// pixels, [`Reason::Damaged`] for everything else.
pub fn decode(bytes: &[u8], page: u32) -> Result<RgbImage, ExtractFailure> {
    if page == 0 {
        return decode_first(bytes);
    }
    let offset = page_offsets(bytes).and_then(|offsets| offsets.get(page as usize).copied());
    let offset = offset.ok_or_else(|| failure(Reason::Damaged, format!("there is no page {}", page + 1)))?;
    // The decoder knows the first page only: the one that the head of the file points to.
    let mut copy = bytes.to_vec();
    let head = if bytes[0] == b'I' { offset.to_le_bytes() } else { offset.to_be_bytes() };
    copy[4..8].copy_from_slice(&head);
    decode_first(&copy)
}

fn decode_first(bytes: &[u8]) -> Result<RgbImage, ExtractFailure> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| failure(Reason::Damaged, error.to_string()))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| refused(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(failure(Reason::TooLarge, format!("the image has {width} x {height} pixels")));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|error| refused(&error))?;
    if width.max(height) > MAX_SIDE {
        // Before the conversion to colour: a large page in black and white takes a third of the memory.
        picture = picture.thumbnail(MAX_SIDE, MAX_SIDE);
    }
    picture.apply_orientation(orientation);
    Ok(on_white(picture))
}

/// Lays the image on white paper where it is transparent.
fn on_white(picture: DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8();
    }
    let picture = picture.into_rgba8();
    let mut paper = RgbImage::new(picture.width(), picture.height());
    for (to, from) in paper.pixels_mut().zip(picture.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        to.0 = [red, green, blue].map(|it| ((it * alpha + 255 * (255 - alpha) + 127) / 255) as u8);
    }
    paper
}

fn refused(error: &ImageError) -> ExtractFailure {
    let reason = match error {
        ImageError::Unsupported(_) => Reason::UnsupportedType,
        ImageError::Limits(_) => Reason::TooLarge,
        _ => Reason::Damaged,
    };
    failure(reason, error.to_string())
}

fn failure(reason: Reason, detail: String) -> ExtractFailure {
    ExtractFailure { reason, detail }
}

/// Returns where the directory of each page of a TIFF begins; `None` for other files.
fn page_offsets(bytes: &[u8]) -> Option<Vec<u32>> {
    let little = match bytes.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let pair: [u8; 2] = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let long = |at: usize| {
        let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    };
    let mut offsets: Vec<u32> = Vec::new();
    let mut next = long(4)?;
    while next != 0 && offsets.len() < MAX_PAGES as usize && !offsets.contains(&next) {
        let Some(entries) = short(next as usize) else { break };
        offsets.push(next);
        next = long(next as usize + 2 + 12 * usize::from(entries)).unwrap_or(0);
    }
    Some(offsets)
}
