//! OCR: reads text in images with the PP-OCR detection and recognition networks, through ONNX Runtime.
//!
//! [`image_decoder::decode_page`] turns a file into pixels, [`Ocr::read`] pixels into lines, [`OcrPage::to_blocks`] lines
//! into blocks. The page may be turned, upside down, slightly skewed, white on black, or empty. This module does not
//! depend on files, PDF or the index, and contacts no server. Start with `orientation` and `reading_order`.
//!
//! The network knows Latin letters with European accents, Chinese and Japanese, and Greek without accents. It does not
//! know Cyrillic, Arabic, Hebrew and Vietnamese: such pages yield little more than digits and punctuation.

mod detect;
mod reading_order;
mod ocr_page;
mod decoder_limits;
pub mod image_decoder;
mod recognize;
mod row_decoder;
mod canvas;
mod text_box;
mod orientation;

use std::borrow::Cow;
use std::path::Path;

use image::{RgbImage, imageops};

pub use crate::skills::ocr::ocr_page::{OcrLine, OcrPage};

use crate::config::EmbedDevice;
use crate::embed::onnx::runtime::Runtime;
use crate::error::{Error, Result};
use crate::skills::ocr::detect::Detector;
use crate::skills::ocr::recognize::Recognizer;

/// Name of the networks in the model catalog.
pub const MODEL: &str = "ppocr";
/// File name of the detection network.
pub const DETECTION_FILE: &str = "det.onnx";
/// File name of the recognition network.
pub const RECOGNITION_FILE: &str = "rec.onnx";

/// Longest side of an image that is processed, in pixels; larger images are shrunk.
const MAX_SIDE: u32 = 4_000;

/// The loaded OCR networks. They process one page at a time and take a few hundred MB of memory.
pub struct Ocr {
    detector: Detector,
    recognizer: Recognizer,
}

impl Ocr {
    /// Loads the networks from the folder `models` ([`DETECTION_FILE`] and [`RECOGNITION_FILE`]) with the ONNX Runtime
    /// library at `runtime_library`. A page is read by `threads` threads, at least one.
    ///
    /// # Errors
    /// When a file is missing or unsuitable ([`crate::error::ErrorCode::FailedPrecondition`]).
    pub fn load(runtime_library: &Path, models: &Path, threads: usize) -> Result<Ocr> {
        let threads = threads.max(1);
        let runtime = Runtime::load(runtime_library, EmbedDevice::Cpu)?;
        let open = |file: &str, threads: usize| {
            runtime
                .session_in_arena(&models.join(file), threads)
                .map_err(|error: Error| error.hint(format!("run `vic models pull {MODEL}`")))
        };
        let detector = Detector::new(open(DETECTION_FILE, threads)?)?;
        let readers = (0..threads).map(|_| open(RECOGNITION_FILE, 1)).collect::<Result<Vec<_>>>()?;
        Ok(Ocr { detector, recognizer: Recognizer::new(readers)? })
    }

    /// Reads the text of a page. An empty page has no lines.
    ///
    /// # Errors
    /// When the networks fail, which no image should cause.
    pub fn read(&mut self, picture: &RgbImage) -> Result<OcrPage> {
        let longer = picture.width().max(picture.height());
        if picture.width() == 0 || picture.height() == 0 {
            return Ok(OcrPage::default());
        }
        let working = if longer > MAX_SIDE {
            let shrunk = |side: u32| (u64::from(side) * u64::from(MAX_SIDE) / u64::from(longer)).max(1) as u32;
            Cow::Owned(imageops::thumbnail(picture, shrunk(picture.width()), shrunk(picture.height())))
        } else {
            Cow::Borrowed(picture)
        };
        let pieces = orientation::read_page(&mut self.detector, &mut self.recognizer, &working)?;
        let mut page = ocr_page::assemble_page(pieces, working.width(), working.height());
        (page.width, page.height) = (picture.width(), picture.height());
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
