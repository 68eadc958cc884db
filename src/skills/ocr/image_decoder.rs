//! Decodes image files into pixels: upright as a viewer shows them, on white background, with limits on size and memory.
//!
//! The size of an image is checked before its pixels are decoded. Formats that `row_decoder` decodes row by row are never
//! in memory as a whole; other formats are, until the image is shrunk.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits, RgbImage};

use crate::model::{ExtractFailure, Reason};
use crate::skills::ocr::decoder_limits::{MAX_DECODER_BYTES, MAX_SIDE, check_size, failure};
use crate::skills::ocr::row_decoder;

/// Maximum number of pixels of a progressive JPEG; a larger one is rejected, because its coefficients take up to six bytes
/// per pixel in addition to the pixels.
const MAX_PROGRESSIVE_PIXELS: u64 = 32_000_000;
/// Maximum number of pages of one TIFF file; further pages are ignored. Real files are faxes of some dozens of pages, and a
/// longer chain of pages is a loop.
const MAX_PAGES: u32 = 2_000;

/// Returns the number of pages of an image file: 1, unless it is a TIFF with more.
pub fn page_count(bytes: &[u8]) -> u32 {
    page_offsets(bytes).map_or(1, |offsets| (offsets.len() as u32).max(1))
}

/// Decodes one page (0-based) of an image file: rotated by its EXIF orientation, on white background, 8 bits per channel,
/// the longest side at most 4,000 pixels.
///
/// # Errors
/// [`Reason::UnsupportedType`] for formats that vic does not support, [`Reason::TooLarge`] for more than 100 million
/// pixels, [`Reason::Damaged`] for everything else.
pub fn decode_page(bytes: &[u8], page: u32) -> Result<RgbImage, ExtractFailure> {
    if let Some((picture, orientation)) = row_decoder::decode_rows(bytes, page)? {
        let mut picture = DynamicImage::from(picture);
        picture.apply_orientation(orientation);
        return Ok(picture.into_rgb8());
    }
    if page == 0 {
        return decode_whole(bytes);
    }
    let offset = page_offsets(bytes).and_then(|offsets| offsets.get(page as usize).copied());
    let offset = offset.ok_or_else(|| failure(Reason::Damaged, format!("the file has no page {}", page + 1)))?;
    // Changes the file header to point to the requested page, because the decoder reads only the page to which it points.
    let mut copy = bytes.to_vec();
    let head = if bytes[0] == b'I' { offset.to_le_bytes() } else { offset.to_be_bytes() };
    copy[4..8].copy_from_slice(&head);
    decode_whole(&copy)
}

/// Decodes the first page as a whole, and then shrinks it.
pub(super) fn decode_whole(bytes: &[u8]) -> Result<RgbImage, ExtractFailure> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| failure(Reason::Damaged, error.to_string()))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| to_failure(&error))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    if u64::from(width) * u64::from(height) > MAX_PROGRESSIVE_PIXELS && is_progressive_jpeg(bytes) {
        return Err(failure(Reason::TooLarge, format!("the progressive JPEG has {width} x {height} pixels, too many")));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|error| to_failure(&error))?;
    if width.max(height) > MAX_SIDE {
        // Shrinks before the conversion to colour: a large bilevel page then takes a third of the memory.
        picture = picture.thumbnail(MAX_SIDE, MAX_SIDE);
    }
    picture.apply_orientation(orientation);
    Ok(blend_on_white(picture))
}

/// Returns whether a file is a progressive JPEG.
fn is_progressive_jpeg(bytes: &[u8]) -> bool {
    let mut rest = bytes.strip_prefix(b"\xFF\xD8").unwrap_or_default();
    // Skips segments, each a marker and the length of its content, until a marker shows the type of the JPEG.
    while let [0xFF, marker, high, low, ..] = *rest {
        match marker {
            0xC2 | 0xC6 | 0xCA | 0xCE => return true,
            0xC0..=0xCF if ![0xC4, 0xC8, 0xCC].contains(&marker) => return false,
            0xFF => rest = &rest[1..],
            _ => rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default(),
        }
    }
    false
}

/// Blends a transparent image with white.
fn blend_on_white(picture: DynamicImage) -> RgbImage {
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

fn to_failure(error: &ImageError) -> ExtractFailure {
    let reason = match error {
        ImageError::Unsupported(_) => Reason::UnsupportedType,
        ImageError::Limits(_) => Reason::TooLarge,
        _ => Reason::Damaged,
    };
    failure(reason, error.to_string())
}

/// Returns the byte offset of each page's directory in a TIFF file; `None` for other files.
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

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageFormat, Luma, Rgba};

    fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn check(picture: impl Into<DynamicImage>, format: ImageFormat, expect: [u8; 3]) {
        let decoded = decode_page(&encoded(&picture.into(), format), 0).unwrap();
        assert_eq!(decoded.get_pixel(0, 0).0, expect);
    }

    #[test]
    fn transparency_is_white_and_depth_is_8_bits() {
        check(image::RgbaImage::from_pixel(2, 2, Rgba([0, 0, 0, 0])), ImageFormat::Png, [255; 3]);
        check(image::RgbaImage::from_pixel(2, 2, Rgba([255, 0, 0, 128])), ImageFormat::Png, [255, 127, 127]);
        check(image::ImageBuffer::from_pixel(2, 2, Luma([0x80FFu16])), ImageFormat::Png, [128; 3]);
        check(image::GrayImage::from_pixel(2, 2, Luma([7])), ImageFormat::Bmp, [7; 3]);
    }

    #[test]
    fn photo_is_rotated_by_exif_orientation() {
        let field =
            exif::Field { tag: exif::Tag::Orientation, ifd_num: exif::In::PRIMARY, value: exif::Value::Short(vec![6]) };
        let mut writer = exif::experimental::Writer::new();
        writer.push_field(&field);
        let mut tiff = Cursor::new(Vec::new());
        writer.write(&mut tiff, false).unwrap();
        let jpeg = encoded(&image::RgbImage::new(30, 20).into(), ImageFormat::Jpeg);
        let segment = [b"Exif\0\0".as_slice(), tiff.get_ref()].concat();
        let length = (segment.len() as u16 + 2).to_be_bytes();
        let bytes = [&jpeg[..2], &[0xFF, 0xE1], &length, &segment, &jpeg[2..]].concat();
        assert_eq!(decode_page(&bytes, 0).unwrap().dimensions(), (20, 30));
    }

    // Case C7
    #[test]
    fn oversized_picture_is_refused_before_decoding() {
        // Changes the header of a PNG to 60,000 x 60,000 pixels, with a valid checksum.
        let mut bytes = encoded(&image::GrayImage::new(1, 1).into(), ImageFormat::Png);
        bytes[16..20].copy_from_slice(&60_000u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&60_000u32.to_be_bytes());
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.sum().to_be_bytes());
        assert_eq!(decode_page(&bytes, 0).unwrap_err().reason, Reason::TooLarge);
    }

    #[test]
    fn progressive_jpeg_has_lower_pixel_limit() {
        let jpeg = encoded(&image::RgbImage::new(16, 16).into(), ImageFormat::Jpeg);
        assert!(
            !is_progressive_jpeg(&jpeg) && !is_progressive_jpeg(b"\xFF\xD8\xFF") && !is_progressive_jpeg(b"no picture")
        );
        let frame = jpeg.windows(2).position(|it| it == [0xFF, 0xC0]).unwrap();
        let of_passes = |side: u16| {
            let mut bytes = jpeg.clone();
            bytes[frame + 1] = 0xC2;
            bytes[frame + 5..frame + 9].copy_from_slice(&[side.to_be_bytes(); 2].concat());
            decode_page(&bytes, 0).err()
        };
        assert!(is_progressive_jpeg(&[&jpeg[..frame], &[0xFF, 0xFF, 0xC2, 0, 8]].concat()));
        let failed = of_passes(6_000).unwrap();
        assert!(failed.reason == Reason::TooLarge && failed.detail.contains("progressive"), "{failed:?}");
        assert!(of_passes(5_000).is_none_or(|it| it.reason != Reason::TooLarge));
    }

    #[test]
    fn invalid_image_is_damaged_or_unsupported() {
        let whole = encoded(&image::GrayImage::new(9, 9).into(), ImageFormat::Png);
        assert_eq!(decode_page(&whole[..40], 0).unwrap_err().reason, Reason::Damaged);
        assert_eq!(decode_page(b"no picture", 0).unwrap_err().reason, Reason::UnsupportedType);
        assert_eq!(decode_page(b"", 3).unwrap_err().reason, Reason::Damaged);
        assert_eq!((page_count(b""), page_count(b"no picture"), page_count(&whole)), (1, 1, 1));
    }

    #[test]
    fn cyclic_page_chain_ends() {
        // A TIFF with a single directory, at byte 8, that has no entries and names itself as the next directory.
        let bytes = b"II*\0\x08\0\0\0\0\0\x08\0\0\0";
        assert_eq!(page_count(bytes), 1);
        assert!(decode_page(bytes, 0).is_err());
    }
}
