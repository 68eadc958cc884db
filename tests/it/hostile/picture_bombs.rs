//! Image bombs: small files that claim to be large in pixels, frames or metadata.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use vic::model::Reason;

use crate::hostile::bombs::Bomb;
use crate::hostile::bombs::bomb;

/// Returns `mib` MiB of zeros, compressed to a few kilobytes.
fn compressed_zeros(mib: usize) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    (0..mib).for_each(|_| packed.write_all(&[0; 1 << 20]).unwrap());
    packed.finish().unwrap()
}

/// Returns a PNG that claims `side` pixels per side, with an optional additional chunk before the image data.
fn png(side: u32, more: Option<(&[u8; 4], Vec<u8>)>) -> Vec<u8> {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(data);
        [&(data.len() as u32).to_be_bytes(), kind.as_slice(), data, &crc.sum().to_be_bytes()].concat()
    };
    let header = [&side.to_be_bytes()[..], &side.to_be_bytes(), &[8, 6, 0, 0, 0]].concat();
    let more = more.map(|(kind, data)| chunk(kind, &data)).unwrap_or_default();
    let start = [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), more].concat();
    [start, chunk(b"IDAT", &compressed_zeros(300)), chunk(b"IEND", b"")].concat()
}

/// Returns a PNG whose color profile inflates to a gigabyte.
fn png_with_large_profile() -> Vec<u8> {
    png(9, Some((b"iCCP", [b"colours\0\0".to_vec(), compressed_zeros(1_024)].concat())))
}

/// Returns a TIFF directory with 4,000 entries of 2^32 values each. Its next directory is itself.
fn endless_directory() -> Vec<u8> {
    let entry = [&270u16.to_le_bytes()[..], &2u16.to_le_bytes(), &u32::MAX.to_le_bytes(), &8u32.to_le_bytes()].concat();
    [b"II*\0\x08\0\0\0".to_vec(), 4_000u16.to_le_bytes().to_vec(), entry.repeat(4_000), 8u32.to_le_bytes().to_vec()]
        .concat()
}

const JPEG_START: &[u8] = b"\xff\xd8";
const JPEG_END: &[u8] = b"\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0\0\xff\xd9";

/// Returns the frame header of a JPEG with this side in pixels.
fn jpeg_frame_header(side: u16) -> Vec<u8> {
    let [high, low] = side.to_be_bytes();
    [b"\xff\xc0\0\x11\x08".as_slice(), &[high, low, high, low], b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01"].concat()
}

/// Returns a JPEG with this metadata segment.
pub(super) fn jpeg_with_metadata(beside: &[u8]) -> Vec<u8> {
    let length = (beside.len() as u16 + 2).to_be_bytes();
    [JPEG_START, b"\xff\xe1", &length, beside, &jpeg_frame_header(9), JPEG_END].concat()
}

/// Returns a WebP with a hundred thousand frames on a canvas with this side in pixels.
fn webp(side: u32) -> Vec<u8> {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let padding = vec![0; data.len() % 2];
        [kind.as_slice(), &(data.len() as u32).to_le_bytes(), data, &padding].concat()
    };
    let corner = (side - 1).to_le_bytes();
    let canvas = [&[2, 0, 0, 0][..], &corner[..3], &corner[..3]].concat();
    let pixels = chunk(b"VP8L", &[0x2f, 0, 0, 0, 0, 0x88, 0x88, 8]);
    let one = chunk(b"ANMF", &[&[0; 6][..], &corner[..3], &corner[..3], &[0; 4], &pixels].concat());
    let body = [b"WEBP".to_vec(), chunk(b"VP8X", &canvas), chunk(b"ANIM", &[0; 6]), one.repeat(100_000)].concat();
    chunk(b"RIFF", &body)
}

/// Returns a GIF with a hundred thousand frames.
fn gif() -> Vec<u8> {
    let frame = b"\x21\xf9\x04\0\0\0\0\0\x2c\0\0\0\0\xff\xff\xff\xff\0\x02\x01\x4c\0";
    [b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff".to_vec(), frame.repeat(100_000), b";".to_vec()].concat()
}

/// Returns a TIFF that claims 65,535 pixels per side.
fn tiff() -> Vec<u8> {
    let entry = |tag: u16, value: u32| {
        let (tag, kind, count) = (tag.to_le_bytes(), 4u16.to_le_bytes(), 1u32.to_le_bytes());
        [&tag[..], &kind, &count, &value.to_le_bytes()].concat()
    };
    let entries = [entry(256, 65_535), entry(257, 65_535), entry(259, 1), entry(262, 1), entry(273, 8), entry(279, 9)];
    [b"II*\0\x08\0\0\0\x06\0".to_vec(), entries.concat(), vec![0; 4]].concat()
}

pub(super) fn picture_bombs() -> Vec<Bomb> {
    let large = &[Reason::TooLarge];
    vec![
        bomb("square.png", png(50_000, None), large),
        bomb("square.tiff", tiff(), large),
        bomb(
            "square.jpg",
            [JPEG_START, &jpeg_frame_header(u16::MAX), JPEG_END].concat(),
            &[Reason::TooLarge, Reason::Damaged],
        ),
        bomb("frames.gif", gif(), large),
        bomb("frames.webp", webp(16_384), large),
        bomb("small.webp", webp(9), &[]),
        bomb("profile.png", png_with_large_profile(), &[]),
        bomb("endless.jpg", jpeg_with_metadata(&[b"Exif\0\0".to_vec(), endless_directory()].concat()), &[]),
        bomb("endless.tiff", endless_directory(), &[Reason::Damaged, Reason::TooLarge]),
    ]
}
