//! Row-by-row decoder for PNG and TIFF, the formats of scanners and of large images.
//!
//! Interlaced PNGs, and planar or floating-point TIFFs, are decoded as a whole by `image_decoder`.

use std::io::{Cursor, Read, Seek};
use std::ops::Range;

use image::metadata::Orientation;
use image::{ImageFormat, RgbImage};
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use crate::model::{ExtractFailure, Reason};
use crate::skills::ocr::canvas::Canvas;
use crate::skills::ocr::decoder_limits::{MAX_DECODER_BYTES, MAX_SIDE, check_size, failure};

/// The image on white background, and its orientation; `None` if it has to be decoded as a whole.
type Outcome = Result<Option<(RgbImage, Orientation)>, ExtractFailure>;

/// Decodes a page of an image file row by row.
pub(super) fn decode_rows(bytes: &[u8], page: u32) -> Outcome {
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) if page == 0 => decode_png(bytes).map_err(|error| png_failure(&error))?,
        Ok(ImageFormat::Tiff) => decode_tiff(bytes, page).map_err(|error| tiff_failure(&error))?,
        _ => Ok(None),
    }
}

fn decode_png(bytes: &[u8]) -> Result<Outcome, png::DecodingError> {
    let limits = png::Limits { bytes: MAX_DECODER_BYTES as usize };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // Skips metadata chunks, which another parser reads.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let header = decoder.read_header_info()?;
    let (width, height, interlaced) = (header.width, header.height, header.interlaced);
    if let Err(refused) = check_size(width, height) {
        return Ok(Err(refused));
    }
    if interlaced {
        return Ok(Ok(None));
    }
    let mut reader = decoder.read_info()?;
    let exif = reader.info().exif_metadata.as_deref();
    let orientation = exif.and_then(Orientation::from_exif_chunk).unwrap_or(Orientation::NoTransforms);
    let mut sheet = Canvas::new(width, height, reader.output_color_type().0.samples(), MAX_SIDE);
    while let Some(row) = reader.next_row()? {
        sheet.add_row(row.data());
    }
    Ok(Ok(Some((sheet.finish(), orientation))))
}

fn png_failure(error: &png::DecodingError) -> ExtractFailure {
    let reason = match error {
        png::DecodingError::LimitsExceeded => Reason::TooLarge,
        _ => Reason::Damaged,
    };
    failure(reason, error.to_string())
}

/// Layout of interleaved integer samples: number of samples per pixel, and bits per sample.
#[derive(Clone, Copy)]
struct SampleLayout {
    count: usize,
    bits: u8,
}

fn decode_tiff(bytes: &[u8], page: u32) -> Result<Outcome, TiffError> {
    let mut limits = Limits::default();
    // Raises the buffer limits to the memory limit, because one strip may contain the whole page.
    (limits.decoding_buffer_size, limits.intermediate_buffer_size) =
        (MAX_DECODER_BYTES as usize, MAX_DECODER_BYTES as usize);
    let mut decoder = Decoder::new(Cursor::new(bytes))?.with_limits(limits);
    decoder.seek_to_image(page as usize)?;
    let (width, height) = decoder.dimensions()?;
    if let Err(refused) = check_size(width, height) {
        return Ok(Err(refused));
    }
    let Some(samples) = sample_layout(&mut decoder)? else { return Ok(Ok(None)) };
    // Does not rotate the image if the file has no valid orientation.
    let turned = decoder.find_tag_unsigned::<u8>(Tag::Orientation).ok().flatten();
    let orientation = turned.and_then(Orientation::from_exif).unwrap_or(Orientation::NoTransforms);
    let (part_width, part_height) = decoder.chunk_dimensions();
    if part_width == 0 || part_height == 0 {
        return Ok(Err(failure(Reason::Damaged, "the strips or tiles of the TIFF have a size of 0")));
    }
    let across = width.div_ceil(part_width);
    let mut sheet = Canvas::new(width, height, samples.count, MAX_SIDE);
    for band in 0..height.div_ceil(part_height) {
        add_band(&mut sheet, &mut decoder, band * across..(band + 1) * across, samples)?;
    }
    Ok(Ok(Some((sheet.finish(), orientation))))
}

fn sample_layout<R: Read + Seek>(decoder: &mut Decoder<R>) -> Result<Option<SampleLayout>, TiffError> {
    let (count, bits) = match decoder.colortype()? {
        ColorType::Gray(bits @ (1 | 8 | 16)) => (1, bits),
        ColorType::GrayA(bits @ (8 | 16)) => (2, bits),
        ColorType::RGB(bits @ (8 | 16)) => (3, bits),
        ColorType::RGBA(bits @ (8 | 16)) => (4, bits),
        _ => return Ok(None),
    };
    let in_planes = count > 1 && decoder.find_tag_unsigned::<u16>(Tag::PlanarConfiguration)? == Some(2);
    let kinds = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat)?.unwrap_or_default();
    Ok((!in_planes && kinds.iter().all(|it| *it == 1)).then_some(SampleLayout { count, bits }))
}

/// Adds the rows of one strip, or of one row of tiles, to the canvas.
fn add_band<R: Read + Seek>(
    sheet: &mut Canvas,
    decoder: &mut Decoder<R>,
    parts: Range<u32>,
    samples: SampleLayout,
) -> Result<(), TiffError> {
    let mut decoded = Vec::new();
    let mut height = u32::MAX;
    for number in parts {
        let pixels = decoder.read_chunk(number)?;
        let (width, rows) = decoder.chunk_data_dimensions(number);
        height = height.min(rows);
        decoded.push((pixels, width as usize));
    }
    let mut line = Vec::new();
    for row in 0..height as usize {
        line.clear();
        for (pixels, width) in &decoded {
            add_row(&mut line, pixels, row, width * samples.count, samples.bits);
        }
        sheet.add_row(&line);
    }
    Ok(())
}

/// Appends one row of a strip or tile, converted to 8 bits per sample.
fn add_row(line: &mut Vec<u8>, pixels: &DecodingResult, row: usize, count: usize, bits: u8) {
    match pixels {
        DecodingResult::U8(values) if bits == 1 => {
            let bytes = values.chunks_exact(count.div_ceil(8).max(1)).nth(row).unwrap_or_default();
            let white = |it: usize| bytes.get(it / 8).is_none_or(|byte| byte >> (7 - it % 8) & 1 == 1);
            line.extend((0..count).map(|it| if white(it) { 255 } else { 0 }));
        }
        DecodingResult::U8(values) => line.extend(values.chunks_exact(count.max(1)).nth(row).unwrap_or_default()),
        DecodingResult::U16(values) => {
            let values = values.chunks_exact(count.max(1)).nth(row).unwrap_or_default();
            line.extend(values.iter().map(|it| (it >> 8) as u8));
        }
        // Unreachable: `sample_layout` accepts no other sample types.
        _ => (),
    }
}

fn tiff_failure(error: &TiffError) -> ExtractFailure {
    let reason = match error {
        TiffError::LimitsExceeded => Reason::TooLarge,
        TiffError::UnsupportedError(_) => Reason::UnsupportedType,
        _ => Reason::Damaged,
    };
    failure(reason, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skills::ocr::image_decoder::decode_whole;
    use image::DynamicImage;

    /// Creates an image whose rows and columns are all different.
    fn distinct_pixels(width: u32, height: u32) -> DynamicImage {
        image::RgbaImage::from_fn(width, height, |x, y| {
            image::Rgba([(x * 7) as u8, (y * 11) as u8, (x * y) as u8, 255 - (x + y) as u8])
        })
        .into()
    }

    /// Checks that decoding row by row gives the same as decoding as a whole; 16-bit values may be rounded differently.
    fn check(picture: DynamicImage, format: ImageFormat) {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        let (read, _) = decode_rows(bytes.get_ref(), 0).unwrap().expect("it is read row by row");
        let expect = decode_whole(bytes.get_ref()).unwrap();
        assert_eq!(read.dimensions(), expect.dimensions());
        let most = read.as_raw().iter().zip(expect.as_raw()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(most <= Some(1), "{format:?}, {:?}: {most:?}", picture.color());
    }

    // Case C7
    #[test]
    fn row_decoder_equals_whole_decoder() {
        for format in [ImageFormat::Png, ImageFormat::Tiff] {
            let picture = distinct_pixels(61, 43);
            check(picture.to_luma8().into(), format);
            check(picture.to_luma16().into(), format);
            check(picture.to_rgb8().into(), format);
            check(picture.to_rgb16().into(), format);
            check(picture.to_rgba8().into(), format);
            check(picture.to_rgba16().into(), format);
        }
        check(distinct_pixels(61, 43).to_luma_alpha8().into(), ImageFormat::Png);
    }

    #[test]
    fn tiles_are_joined_into_rows() {
        let tile = |first: u8| DecodingResult::U8((0..6).map(|it| first + it).collect());
        let mut line = Vec::new();
        add_row(&mut line, &tile(10), 1, 3, 8);
        add_row(&mut line, &tile(20), 1, 3, 8);
        assert_eq!(line, [13, 14, 15, 23, 24, 25]);
        line.clear();
        add_row(&mut line, &DecodingResult::U8(vec![0, 0b1010_0000]), 1, 3, 1);
        assert_eq!(line, [255, 0, 255]);
        line.clear();
        add_row(&mut line, &DecodingResult::U16(vec![0x1234]), 0, 1, 16);
        add_row(&mut line, &DecodingResult::U16(vec![0x1234]), 7, 1, 16);
        assert_eq!(line, [0x12]);
    }
}
