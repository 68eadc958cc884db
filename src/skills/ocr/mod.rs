//! Text in pictures: PP-OCR detection and recognition through ONNX Runtime.
//!
//! [`picture::decode`] makes pixels of a file, [`Ocr::read`] makes lines of pixels, [`OcrPage::to_blocks`] makes blocks
//! of lines. The page may lie on its side or upside down, lean a little, be white on black, or be empty. Nothing here
//! knows of files, PDF or the index, and nothing asks a person or a server. Start with [`turning`] and [`layout`].
//!
//! The network's alphabet is Latin with the accents of Europe, Chinese and Japanese, and Greek without accents. Cyrillic,
//! Arabic, Hebrew and Vietnamese are not in it: of such pages little more than digits and stops comes out.

mod detect;
mod layout;
mod page;
pub mod picture;
mod recognize;
mod rows;
mod sheet;
mod slab;
mod turning;

use std::borrow::Cow;
use std::path::Path;

use image::{RgbImage, imageops};

pub use page::{OcrLine, OcrPage};

use crate::config::EmbedDevice;
use crate::embed::onnx::runtime::Runtime;
use crate::error::{Error, Result};
use crate::skills::ocr::detect::Detector;
use crate::skills::ocr::recognize::Recognizer;

/// The entry of the model catalog that holds the networks.
pub const MODEL: &str = "ppocr";
/// File of the network that finds text.
pub const DETECTION_FILE: &str = "det.onnx";
/// File of the network that reads it.
pub const RECOGNITION_FILE: &str = "rec.onnx";

/// The longest side that is worked on, in pixels.
const MAX_SIDE: u32 = 4_000;

/// The networks, ready to read pages. One page at a time; memory is a few hundred MB.
pub struct Ocr {
    detector: Detector,
    recognizer: Recognizer,
}

impl Ocr {
    /// Loads the networks out of the folder `models` ([`DETECTION_FILE`] and [`RECOGNITION_FILE`]) into the ONNX Runtime
    /// library at `runtime_library`. A page is read by `threads` threads, at least one.
    ///
    /// # Errors
    /// A missing or unsuitable file ([`crate::error::ErrorCode::FailedPrecondition`]).
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

    /// Reads a page. An empty page has no lines.
    ///
    /// # Errors
    /// The networks fail, which no picture should make them do.
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
        let pieces = turning::read(&mut self.detector, &mut self.recognizer, &working)?;
        let mut page = page::assemble(pieces, working.width(), working.height());
        (page.width, page.height) = (picture.width(), picture.height());
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
