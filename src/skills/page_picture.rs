//! The picture of a page for a preview: the worker draws a page of a PDF, or shrinks an image, and reads the words of the
//! page with their places.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, RgbImage};
use serde::{Deserialize, Serialize};

use crate::extract::{SkillInput, new_failure};
use crate::model::{Anchor, Block, BlockKind, Document, ExtractFailure, Reason, Redaction, Region};
use crate::secrets::Redactor;
use crate::skills::layout;
use crate::skills::ocr::image_decoder;
use crate::skills::pdf_file::{is_pdf, open_pdf};

/// Name of the job.
pub(crate) const PAGE_PICTURE: &str = "page_picture";

/// JPEG quality of the picture: text stays sharp.
const JPEG_QUALITY: u8 = 85;

/// Width of the picture in pixels if the job sets none.
const DEFAULT_WIDTH: u32 = 1_200;

/// Maximum number of words of a page.
const MAX_WORDS: usize = 20_000;

/// A page that a worker drew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DrawnPage {
    /// Number of pages of the file.
    pub(crate) pages: u32,
    /// Width of the page, in points or pixels.
    pub(crate) width: f32,
    /// Height of the page, in points or pixels.
    pub(crate) height: f32,
    /// The picture as JPEG in base64.
    jpeg: String,
    /// The words of the text layer with their places on the page.
    pub(crate) words: Vec<(String, Region)>,
}

impl DrawnPage {
    /// Returns the bytes of the picture.
    pub(crate) fn jpeg(&self) -> Vec<u8> {
        STANDARD.decode(&self.jpeg).unwrap_or_default()
    }

    /// Packs the page into a document, the only thing that a worker returns.
    fn pack(&self) -> Result<Document, ExtractFailure> {
        let text = serde_json::to_string(self).map_err(|error| new_failure(Reason::Damaged, error.to_string()))?;
        let block = Block { kind: BlockKind::Code, text, anchor: Anchor::default(), rows: Vec::new() };
        Ok(Document { blocks: vec![block], ..Document::default() })
    }

    /// Unpacks the page from the document of a worker.
    pub(crate) fn unpack(document: &Document) -> Option<DrawnPage> {
        serde_json::from_str(&document.blocks.first()?.text).ok()
    }
}

/// Runs the job in a worker.
pub(super) fn run(input: &SkillInput<'_>) -> Result<Document, ExtractFailure> {
    let number = input.job.pages.as_ref().and_then(|it| it.first().copied()).unwrap_or(1);
    let wanted_width = input.job.width.unwrap_or(DEFAULT_WIDTH);
    let no_page = |pages: u32| new_failure(Reason::Damaged, format!("the file has {pages} pages"));
    if !is_pdf(input) {
        let pages = image_decoder::page_count(input.bytes);
        if number == 0 || number > pages {
            return Err(no_page(pages));
        }
        let picture = image_decoder::decode_page(input.bytes, number - 1)?;
        let (width, height) = (picture.width() as f32, picture.height() as f32);
        let jpeg = encode(shrink(picture, wanted_width))?;
        return DrawnPage { pages, width, height, jpeg, words: Vec::new() }.pack();
    }
    let file = open_pdf(input)?;
    let pages = u32::try_from(file.pages().len()).unwrap_or(0);
    let page = i32::try_from(number).ok().filter(|it| *it > 0).and_then(|it| file.pages().get(it - 1).ok());
    let page = page.ok_or_else(|| no_page(pages))?;
    let picture = layout::render_page_at(&page, wanted_width).map_err(|error| new_failure(Reason::Damaged, error))?;
    let words = without_secrets(layout::read_words(&page, MAX_WORDS), input.limits.redaction);
    let (width, height) = (page.width().value, page.height().value);
    DrawnPage { pages, width, height, jpeg: encode(picture)?, words }.pack()
}

/// Leaves out words that hold a secret: otherwise a question could test which secret a page has.
fn without_secrets(mut words: Vec<(String, Region)>, redaction: Redaction) -> Vec<(String, Region)> {
    let mut redactor = Redactor::new(redaction);
    words.retain(|it| redactor.secret_ranges(&it.0).is_empty());
    words
}

fn shrink(picture: RgbImage, width: u32) -> RgbImage {
    if picture.width() <= width {
        return picture;
    }
    let height = (u64::from(picture.height()) * u64::from(width) / u64::from(picture.width())).max(1);
    let height = u32::try_from(height).unwrap_or(u32::MAX);
    DynamicImage::from(picture).resize_exact(width, height, FilterType::Triangle).into_rgb8()
}

fn encode(picture: RgbImage) -> Result<String, ExtractFailure> {
    let mut bytes = Vec::new();
    let encoded = picture.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY));
    encoded.map_err(|error| new_failure(Reason::Damaged, format!("the picture cannot be encoded: {error}")))?;
    Ok(STANDARD.encode(bytes))
}
