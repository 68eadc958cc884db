//! Reader of image files: extracts the text of their metadata (EXIF). Pixels are not decoded here; a skill does OCR.

use std::io::Cursor;

use exif::{Exif, In, Tag, Value};

use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// The EXIF fields whose values are extracted, with the labels under which they appear in the text.
const FIELDS: [(&str, Tag); 8] = [
    ("description", Tag::ImageDescription),
    ("comment", Tag::UserComment),
    ("artist", Tag::Artist),
    ("copyright", Tag::Copyright),
    ("camera maker", Tag::Make),
    ("camera", Tag::Model),
    ("lens", Tag::LensModel),
    ("taken", Tag::DateTimeOriginal),
];

/// Limit in bytes on the memory allocated to read the header of an image, e.g. for its color profile.
const MAX_HEADER_ALLOC: u64 = 16 << 20;

/// Adds the metadata of an image to the sink. An image without textual metadata gives no blocks.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    if has_excessive_tiff_count(input.bytes) == Some(true) {
        return Err(new_failure(
            Reason::Damaged,
            "the TIFF is damaged: a field claims more values than the file has bytes",
        ));
    }
    let dimensions = dimensions(input.bytes);
    let most = sink.limits().pixels;
    if let Some(Ok((width, height))) = dimensions
        && u64::from(width) * u64::from(height) > most
    {
        let millions = most / 1_000_000;
        return Err(new_failure(
            Reason::TooLarge,
            format!("the image has {width} x {height} pixels, more than {millions} million"),
        ));
    }
    if let Some(Err(error)) = &dimensions
        && !matches!(error, image::ImageError::Unsupported(_))
    {
        return Err(new_failure(Reason::Damaged, format!("the file is not a readable image: {error}")));
    }
    let Ok(exif) = exif::Reader::new().read_from_container(&mut Cursor::new(input.bytes)) else {
        return Ok(());
    };
    let mut lines: Vec<String> =
        FIELDS.iter().filter_map(|(key, tag)| Some(format!("{key}: {}", field_text(&exif, *tag)?))).collect();
    lines.extend(gps_coordinates(&exif).map(|place| format!("place: {place}")));
    if let (false, Some(Ok((width, height)))) = (lines.is_empty(), dimensions) {
        lines.push(format!("size: {width} x {height}"));
    }
    sink.push(BlockKind::Metadata, &lines.join("\n"), Anchor::default());
    Ok(())
}

/// Returns width and height of an image; `None` if the format is unknown.
fn dimensions(bytes: &[u8]) -> Option<image::ImageResult<(u32, u32)>> {
    let mut reader = image::ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    reader.format()?;
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_HEADER_ALLOC);
    reader.limits(limits);
    Some(reader.into_dimensions())
}

/// Tags of the TIFF fields that the decoder reads before it knows the image size: those of the baseline specification.
const CHECKED_TIFF_TAGS: std::ops::RangeInclusive<u64> = 254..=532;

/// A TIFF field may claim at most as many values as the file has bytes, or this many if the file has fewer bytes.
const MIN_TIFF_VALUE_LIMIT: u64 = 1 << 20;

/// Returns whether a field of a TIFF claims more values than the file can hold; `None` if the file is not a TIFF. Such
/// files must be rejected, because the decoder allocates 32 bytes per claimed value before it applies any limit.
fn has_excessive_tiff_count(bytes: &[u8]) -> Option<bool> {
    let is_little = bytes.starts_with(b"II");
    if !is_little && !bytes.starts_with(b"MM") {
        return None;
    }
    let number = |at: usize, size: usize| {
        let part = bytes.get(at..at.checked_add(size)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if is_little { part.iter().rev().fold(0, add) } else { part.iter().fold(0, add) })
    };
    // `place` is where the file header holds the offset of the directory. The others are sizes in bytes: `width` is that of
    // an offset or a value count, `head` that of the field count at the start of the directory, and `field` that of one
    // field. All are larger in BigTIFF (version 43) than in TIFF (version 42).
    let (place, width, head, field) = match number(2, 2)? {
        42 => (4, 4, 2, 12),
        43 => (8, 8, 8, 20),
        _ => return None,
    };
    let directory = usize::try_from(number(place, width)?).ok()?;
    let fields = number(directory, head)?;
    let first = directory.checked_add(head)?;
    let read = |it: u64| {
        let at = first.checked_add(usize::try_from(it).ok()?.checked_mul(field)?)?;
        Some((number(at, 2)?, number(at.checked_add(4)?, width)?))
    };
    let most = MIN_TIFF_VALUE_LIMIT.max(bytes.len() as u64);
    Some((0..fields).map_while(read).any(|(tag, count)| CHECKED_TIFF_TAGS.contains(&tag) && count > most))
}

/// Returns an EXIF field as text, without padding and control characters; `None` if it is missing or empty.
fn field_text(exif: &Exif, tag: Tag) -> Option<String> {
    let field = exif.get_field(tag, In::PRIMARY)?;
    let text = match &field.value {
        Value::Ascii(parts) if tag != Tag::DateTimeOriginal => {
            parts.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>().join(" ")
        }
        // An EXIF user comment begins with eight bytes that name its encoding.
        Value::Undefined(bytes, _) => match bytes.split_at_checked(8)? {
            (b"UNICODE\0", text) => utf16(text, exif.little_endian()),
            (_, text) => String::from_utf8_lossy(text).into_owned(),
        },
        _ => field.display_value().to_string(),
    };
    let text: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn utf16(bytes: &[u8], little_endian: bool) -> String {
    let encoding = if little_endian { encoding_rs::UTF_16LE } else { encoding_rs::UTF_16BE };
    encoding.decode(bytes).0.into_owned()
}

/// Returns the latitude and longitude of a photo in degrees; `None` if the EXIF data have no GPS position.
fn gps_coordinates(exif: &Exif) -> Option<String> {
    let degrees = |tag, reference, negative: &[u8]| {
        let Value::Rational(parts) = &exif.get_field(tag, In::PRIMARY)?.value else { return None };
        let value: f64 = parts.iter().zip([1.0, 60.0, 3600.0]).map(|(it, unit)| it.to_f64() / unit).sum();
        let sign = match &exif.get_field(reference, In::PRIMARY)?.value {
            Value::Ascii(name) if name.first().is_some_and(|it| it.starts_with(negative)) => -1.0,
            _ => 1.0,
        };
        value.is_finite().then_some(value * sign)
    };
    let latitude = degrees(Tag::GPSLatitude, Tag::GPSLatitudeRef, b"S")?;
    let longitude = degrees(Tag::GPSLongitude, Tag::GPSLongitudeRef, b"W")?;
    Some(format!("{latitude:.5}, {longitude:.5}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(bytes: &[u8]) -> ReadResult<Document> {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes, name: "a.png" }, &mut sink)?;
        Ok(sink.into_document())
    }

    fn png() -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image::RgbImage::new(3, 2).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn image_without_metadata_has_no_blocks() {
        assert!(extract(&png()).unwrap().blocks.is_empty());
    }

    #[test]
    fn exif_text_becomes_metadata() {
        let field = exif::Field {
            tag: Tag::ImageDescription,
            ifd_num: In::PRIMARY,
            value: Value::Ascii(vec![b"A boat\0\0".to_vec()]),
        };
        let mut writer = exif::experimental::Writer::new();
        writer.push_field(&field);
        let mut tiff = Cursor::new(Vec::new());
        writer.write(&mut tiff, false).unwrap();
        let mut jpeg = Cursor::new(Vec::new());
        image::RgbImage::new(3, 2).write_to(&mut jpeg, image::ImageFormat::Jpeg).unwrap();
        let segment = [b"Exif\0\0".as_slice(), tiff.get_ref()].concat();
        let length = (segment.len() as u16 + 2).to_be_bytes();
        let bytes = [&jpeg.get_ref()[..2], &[0xFF, 0xE1], &length, &segment, &jpeg.get_ref()[2..]].concat();
        assert_eq!(extract(&bytes).unwrap().text(), "description: A boat\nsize: 3 x 2");
    }

    // Case C7
    #[test]
    fn image_over_pixel_limit_is_rejected_by_header() {
        let mut bytes = png();
        // Overwrites the size: a PNG holds the width at byte 16, the height at byte 20, and their checksum at byte 29.
        for at in [16, 20] {
            bytes[at..at + 4].copy_from_slice(&50_000u32.to_be_bytes());
        }
        let mut checksum = flate2::Crc::new();
        checksum.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&checksum.sum().to_be_bytes());
        let failed = extract(&bytes).unwrap_err();
        assert_eq!(failed.reason, Reason::TooLarge);
        assert!(failed.detail.contains("50000 x 50000"), "{}", failed.detail);
    }

    #[test]
    fn tiff_with_excessive_value_count_is_damaged() {
        let mut tiff = Cursor::new(Vec::new());
        image::RgbImage::new(3, 2).write_to(&mut tiff, image::ImageFormat::Tiff).unwrap();
        let mut bytes = tiff.into_inner();
        assert!(extract(&bytes).unwrap().blocks.is_empty());
        assert_eq!(has_excessive_tiff_count(&bytes), Some(false));
        let directory = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        bytes[directory + 2 + 4 + 12..][..4].copy_from_slice(&8_000_000u32.to_le_bytes());
        let failed = extract(&bytes).unwrap_err();
        assert!(failed.reason == Reason::Damaged && failed.detail.contains("claims"), "{}", failed.detail);
        // A BigTIFF whose directory has one field that claims 2^40 values.
        let wide = [&b"II\x2b\0\x08\0\0\0"[..], &16u64.to_le_bytes(), &1u64.to_le_bytes(), &[2, 1, 3, 0]].concat();
        assert_eq!(
            has_excessive_tiff_count(&[wide, (1u64 << 40).to_le_bytes().to_vec(), vec![0; 8]].concat()),
            Some(true)
        );
        assert_eq!((has_excessive_tiff_count(&png()), has_excessive_tiff_count(b"MM")), (None, None));
    }

    #[test]
    fn image_over_header_memory_limit_is_read() {
        use image::ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
        let large = image::RgbImage::new(3_000, 2_500);
        assert!(large.len() as u64 > MAX_HEADER_ALLOC);
        for format in [Bmp, Gif, Jpeg, Png, Tiff, WebP] {
            let mut bytes = Cursor::new(Vec::new());
            large.write_to(&mut bytes, format).unwrap();
            assert!(extract(bytes.get_ref()).is_ok(), "{format:?}");
        }
    }

    #[test]
    fn truncated_image_is_damaged() {
        assert_eq!(extract(&png()[..12]).unwrap_err().reason, Reason::Damaged);
    }
}
