//! Generates image seeds, with text where the format can contain text.

use std::io::Cursor;

use exif::{Field, In, Tag, Value};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ImageEncoder, ImageFormat, RgbImage};

use crate::support::seeds::SENTENCE;
use crate::support::seeds::Seed;
use crate::support::seeds::seed;

pub(super) fn pictures() -> Vec<Seed> {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    };
    let bare = |name, format| {
        let mut bytes = Cursor::new(Vec::new());
        picture().write_to(&mut bytes, format).unwrap();
        Seed { expected_text: "", ..seed(name, bytes.into_inner()) }
    };
    vec![
        seed("bird.png", written(&|it| write_with_exif(PngEncoder::new(it)))),
        seed("bird.jpg", written(&|it| write_with_exif(JpegEncoder::new(it)))),
        seed("bird.webp", written(&|it| write_with_exif(WebPEncoder::new_lossless(it)))),
        seed("bird.tiff", exif_data(true)),
        seed("bird.heic", heif()),
        bare("bird.gif", ImageFormat::Gif),
        bare("bird.bmp", ImageFormat::Bmp),
    ]
}

fn picture() -> RgbImage {
    RgbImage::from_fn(9, 7, |x, y| image::Rgb([x as u8 * 20, y as u8 * 20, 99]))
}

/// Writes the image with Exif metadata.
fn write_with_exif(mut encoder: impl ImageEncoder) {
    encoder.set_exif_metadata(exif_data(false)).unwrap();
    let (width, height) = picture().dimensions();
    encoder.write_image(&picture(), width, height, image::ExtendedColorType::Rgb8).unwrap();
}

/// Returns Exif metadata as a camera writes it. With `with_picture`, the bytes are a TIFF image.
fn exif_data(with_picture: bool) -> Vec<u8> {
    let short = |tag, number| Field { tag, ifd_num: In::PRIMARY, value: Value::Short(vec![number]) };
    let place = |all: [u32; 3]| Value::Rational(all.map(|num| exif::Rational { num, denom: 1 }).to_vec());
    let ascii = |text: &str| Value::Ascii(vec![text.as_bytes().to_vec()]);
    let mut fields: Vec<Field> = [
        (Tag::ImageDescription, ascii(SENTENCE)),
        (Tag::Model, ascii("Box 1")),
        (Tag::UserComment, Value::Undefined(b"ASCII\0\0\0why".to_vec(), 0)),
        (Tag::DateTimeOriginal, ascii("2020:01:01 08:00:00")),
        (Tag::GPSLatitudeRef, ascii("N")),
        (Tag::GPSLatitude, place([53, 33, 0])),
        (Tag::GPSLongitudeRef, ascii("E")),
        (Tag::GPSLongitude, place([9, 59, 0])),
    ]
    .into_iter()
    .map(|(tag, value)| Field { tag, ifd_num: In::PRIMARY, value })
    .collect();
    if with_picture {
        let sizes = [(Tag::ImageWidth, 4), (Tag::ImageLength, 2), (Tag::RowsPerStrip, 2), (Tag::BitsPerSample, 8)];
        let kinds = [(Tag::Compression, 1), (Tag::PhotometricInterpretation, 1), (Tag::SamplesPerPixel, 1)];
        fields.extend(sizes.into_iter().chain(kinds).map(|(tag, number)| short(tag, number)));
    }
    let mut writer = exif::experimental::Writer::new();
    fields.iter().for_each(|it| writer.push_field(it));
    let strips: [&[u8]; 1] = [&[7; 8]];
    if with_picture {
        writer.set_strips(&strips, In::PRIMARY);
    }
    let mut bytes = Cursor::new(Vec::new());
    writer.write(&mut bytes, true).unwrap();
    bytes.into_inner()
}

/// Returns a HEIF file with Exif data but without a coded image.
fn heif() -> Vec<u8> {
    let made = |kind: &[u8], parts: &[&[u8]]| {
        let body = parts.concat();
        [&(body.len() as u32 + 8).to_be_bytes()[..], kind, &body].concat()
    };
    let data = [&[0; 4][..], &exif_data(false)].concat();
    let entry = made(b"infe", &[&[2, 0, 0, 0], &[0, 1], &[0, 0], b"Exif", &[0]]);
    let items = made(b"iinf", &[&[0; 4], &[0, 1], &entry]);
    // The Exif item with id 1 is in the data box, at offset 0, with this length.
    let size = (data.len() as u32).to_be_bytes();
    let places = made(b"iloc", &[&[1, 0, 0, 0], &[0x44, 0], &[0, 1], &[0, 1, 0, 1, 0, 0, 0, 1], &[0; 4], &size]);
    let meta = made(b"meta", &[&[0; 4], &items, &places, &made(b"idat", &[&data])]);
    [made(b"ftyp", &[b"heic", &[0; 4], b"mif1", b"heic"]), meta].concat()
}
