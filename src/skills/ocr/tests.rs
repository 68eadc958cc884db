//! Tests of the real OCR networks on drawn pages. The networks are in `models/cache`, which `make test` fills.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::*;
use crate::embed::disable_telemetry;
use crate::model::Region;

/// Loads the networks. Sets the environment once, before any test here loads the library.
fn load(threads: usize) -> Ocr {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(disable_telemetry);
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    let library = if cfg!(target_os = "macos") { "libonnxruntime.dylib" } else { "libonnxruntime.so" };
    Ocr::load(&cache.join("lib").join(library), &cache.join(MODEL), threads).expect("run `make models` first")
}

#[test]
fn empty_page_has_no_lines() {
    let page = read(&RgbImage::from_pixel(300, 200, image::Rgb([255; 3])));
    assert_eq!((page.lines.len(), page.width, page.height), (0, 300, 200));
    assert_eq!(read(&RgbImage::new(0, 0)), OcrPage::default());
}

/// Reads an image with networks shared by all tests.
fn read(picture: &RgbImage) -> OcrPage {
    static SHARED: OnceLock<Mutex<Ocr>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Mutex::new(load(2)));
    shared.lock().unwrap_or_else(PoisonError::into_inner).read(picture).unwrap()
}

const LETTER: [&str; 4] = [
    "The lamp of the north pier went out at",
    "ten past four. Nobody on the ferry saw it,",
    "but the keeper had it lit again by five,",
    "and wrote the gap into his ledger.",
];

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/skills/ocr/testdata").join(name)).unwrap()
}

fn image(name: &str) -> RgbImage {
    image_decoder::decode_page(&bytes(name), 0).unwrap()
}

fn check(picture: &RgbImage, rotation: u16, expect: &[&str]) -> OcrPage {
    let page = read(picture);
    let lines: Vec<&str> = page.lines.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(lines, expect);
    assert_eq!(page.rotation_degrees, rotation);
    assert_eq!((page.width, page.height), picture.dimensions());
    page
}

#[test]
fn page_is_read_in_every_orientation() {
    let letter = image("letter.png");
    check(&letter, 0, &LETTER);
    check(&imageops::rotate90(&letter), 270, &LETTER);
    check(&imageops::rotate180(&letter), 180, &LETTER);
    check(&imageops::rotate270(&letter), 90, &LETTER);
}

#[test]
fn skewed_page_is_read_line_by_line() {
    check(&image("skewed.png"), 0, &LETTER);
}

#[test]
fn white_on_black_page_is_read() {
    let mut letter = image("letter.png");
    imageops::invert(&mut letter);
    check(&letter, 0, &LETTER);
}

#[test]
fn picture_size_does_not_change_text() {
    let letter = image("letter.png");
    let (width, height) = letter.dimensions();
    check(&imageops::resize(&letter, width * 2 / 3, height * 2 / 3, imageops::FilterType::Triangle), 0, &LETTER);
    check(&imageops::resize(&letter, width * 8, height * 8, imageops::FilterType::Nearest), 0, &LETTER);
}

#[test]
fn columns_are_read_in_order_below_heading() {
    let expect = [
        "What the water did to the quay",
        "The first of the two",
        "columns tells of the",
        "tide, which came in",
        "higher than the marks",
        "on the wall could show.",
        "The second one tells",
        "of the people who had",
        "to carry their chairs",
        "to the attic and wait",
        "for the morning there.",
    ];
    let page = check(&image("columns.png"), 0, &expect);
    let blocks: Vec<u32> = page.lines.iter().map(|it| it.block).collect();
    assert_eq!(blocks, [0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}

#[test]
fn all_pages_of_bilevel_tiff_are_read() {
    let bytes = bytes("fax.tif");
    assert_eq!(image_decoder::page_count(&bytes), 2);
    check(&image_decoder::decode_page(&bytes, 0).unwrap(), 0, &["First page of the fax."]);
    check(&image_decoder::decode_page(&bytes, 1).unwrap(), 0, &["Second page of the fax."]);
    assert!(image_decoder::decode_page(&bytes, 2).is_err());
}

#[test]
fn regions_refer_to_original_picture() {
    let letter = image("letter.png");
    let upright = read(&letter).lines[0].region;
    assert!(upright.left < 0.1 && upright.right > 0.75 && upright.top > 0.1 && upright.bottom < 0.4, "{upright:?}");
    // If the page is upside down, the first line is at the bottom of the image.
    let turned = read(&imageops::rotate180(&letter)).lines[0].region;
    assert!(turned.left < 0.25 && turned.right > 0.9 && turned.top > 0.6 && turned.bottom < 0.9, "{turned:?}");
    // If the page is turned clockwise, the first line is at the right of the image.
    let turned = read(&imageops::rotate90(&letter)).lines[0].region;
    assert!(turned.left > 0.6 && turned.right < 0.9 && turned.top < 0.1 && turned.bottom > 0.75, "{turned:?}");
}

#[test]
fn thread_count_does_not_change_text() {
    let columns = image("columns.png");
    let one = load(1).read(&columns).unwrap();
    assert_eq!(read(&columns), one);
    assert_eq!(read(&columns), one);
}

#[test]
fn extreme_picture_shapes_do_not_crash() {
    for (width, height) in [(1, 1), (3, 900), (900, 2), (5_000, 3)] {
        let noise = RgbImage::from_fn(width, height, |x, y| image::Rgb([((x * 7919 + y * 104_729) % 251) as u8; 3]));
        let page = read(&noise);
        assert_eq!((page.width, page.height), (width, height));
    }
}

#[test]
fn blocks_are_paragraphs_with_rejoined_words() {
    let line = |text: &str, block: u32, top: f32| OcrLine {
        text: text.into(),
        confidence: 0.9,
        region: Region { left: 0.1, top, right: 0.9, bottom: top + 0.05 },
        block,
        parts: Vec::new(),
    };
    let lines = vec![
        line("A heading", 0, 0.1),
        line("which pupils remem-", 1, 0.2),
        line("bers, of the year 1952-", 1, 0.3),
        line("1953", 1, 0.4),
    ];
    let page = OcrPage { lines, ..OcrPage::default() };
    let blocks = page.to_blocks(Some(3));
    let texts: Vec<&str> = blocks.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts, ["A heading", "which pupils remembers, of the year 1952-\n1953"]);
    assert!(blocks.iter().all(|it| it.anchor.page == Some(3)));
    let region = Region { left: 0.1, top: 0.2, right: 0.9, bottom: 0.4 + 0.05 };
    assert_eq!(blocks[1].anchor.region, Some(region));
    assert_eq!(page.text(), "A heading\n\nwhich pupils remem-\nbers, of the year 1952-\n1953\n");
}

#[test]
fn words_have_their_share_of_the_width() {
    let region = Region { left: 0.2, top: 0.1, right: 0.9, bottom: 0.2 };
    let line =
        OcrLine { text: "ab cde".into(), confidence: 1.0, region, block: 0, parts: vec![("ab cde".into(), region)] };
    let mut page = OcrPage { lines: vec![line], ..OcrPage::default() };
    let places = |page: &OcrPage| -> Vec<(String, i32, i32)> {
        let sixtieths = |it: f32| (it * 60.0).round() as i32;
        page.words(3).into_iter().map(|it| (it.text, sixtieths(it.region.left), sixtieths(it.region.right))).collect()
    };
    assert_eq!(places(&page), [("ab".into(), 12, 26), ("cde".into(), 33, 54)]);
    page.rotation_degrees = 90;
    assert_eq!(places(&page), [("ab cde".into(), 12, 54)]);
}

#[test]
fn lines_without_letters_or_digits_are_dropped() {
    let piece = |text: &str, top: f32| orientation::TextPiece {
        slab: text_box::TextBox {
            centre: text_box::Point::new(50.0, top),
            direction: text_box::Point::new(1.0, 0.0),
            length: 80.0,
            height: 10.0,
        },
        reading: recognize::Recognition { text: text.into(), confidence: 0.9 },
    };
    let page =
        ocr_page::assemble_page(vec![piece("- - - -", 10.0), piece("Total 7.00", 40.0), piece(", .", 70.0)], 100, 100);
    assert_eq!(page.text(), "Total 7.00\n");
}
