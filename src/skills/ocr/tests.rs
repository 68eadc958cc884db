//! Real networks on drawn pages. The networks are read from `models/cache`, which `make test` fills.

use std::path::Path;
use std::sync::OnceLock;

use super::*;
use crate::embed::disable_telemetry;

/// The environment is set once, before any test here loads the library.
fn load(threads: usize) -> Ocr {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(disable_telemetry);
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    let library = if cfg!(target_os = "macos") { "libonnxruntime.dylib" } else { "libonnxruntime.so" };
    Ocr::load(&cache.join("lib").join(library), &cache.join(MODEL), threads).expect("run `make models` first")
}

#[test]
fn an_empty_page_has_no_lines() {
    let page = load(1).read(&RgbImage::from_pixel(300, 200, image::Rgb([255; 3]))).unwrap();
    assert_eq!((page.lines.len(), page.width, page.height), (0, 300, 200));
    assert_eq!(load(1).read(&RgbImage::new(0, 0)).unwrap(), OcrPage::default());
}
