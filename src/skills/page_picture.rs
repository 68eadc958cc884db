//! The picture of a page for a preview: the worker draws a page of a PDF or a slide, or shrinks an image, and reads the words
//! of the page with their places. The file may be a member of an archive, or an attachment of a mail.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, RgbImage};
use serde::{Deserialize, Serialize};

use crate::extract::{Input, SkillInput, has_slides, member_content, new_failure};
use crate::model::{Anchor, Block, BlockKind, Document, ExtractFailure, Reason, Redaction, Region};
use crate::secrets::Redactor;
use crate::skills::ocr::image_decoder;
use crate::skills::pdf_file::{is_pdf, open_pdf};
use crate::skills::{layout, slides};

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
    /// Whether the layout is simplified.
    pub(crate) simplified: bool,
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
    let Some(member) = &input.job.member else { return draw(input)?.pack() };
    let file = Input { bytes: input.bytes, name: input.name };
    let bytes = member_content(file, member, input.limits)?;
    let name = member.rsplit('/').next().unwrap_or(member);
    draw(&SkillInput { bytes: &bytes, name, job: input.job, limits: input.limits })?.pack()
}

fn draw(input: &SkillInput<'_>) -> Result<DrawnPage, ExtractFailure> {
    let number = input.job.pages.as_ref().and_then(|it| it.first().copied()).unwrap_or(1);
    if is_pdf(input) {
        return draw_pdf_page(input, number);
    }
    if !has_slides(input.name) {
        return draw_image(input, number);
    }
    let (pages, bytes) = slides::compose(input, number)?;
    let page = SkillInput { bytes: &bytes, name: "slide.pdf", job: input.job, limits: input.limits };
    Ok(DrawnPage { pages, simplified: true, ..draw_pdf_page(&page, 1)? })
}

fn draw_pdf_page(input: &SkillInput<'_>, number: u32) -> Result<DrawnPage, ExtractFailure> {
    let file = open_pdf(input)?;
    let pages = u32::try_from(file.pages().len()).unwrap_or(0);
    let page = i32::try_from(number).ok().filter(|it| *it > 0).and_then(|it| file.pages().get(it - 1).ok());
    let page = page.ok_or_else(|| no_page(pages))?;
    let picture = layout::render_page_at(&page, wanted_width(input));
    let picture = picture.map_err(|error| new_failure(Reason::Damaged, error))?;
    let words = without_secrets(layout::read_words(&page, MAX_WORDS), input.limits.redaction);
    let (width, height) = (page.width().value, page.height().value);
    Ok(DrawnPage { pages, width, height, jpeg: encode(picture)?, words, simplified: false })
}

fn draw_image(input: &SkillInput<'_>, number: u32) -> Result<DrawnPage, ExtractFailure> {
    let pages = image_decoder::page_count(input.bytes);
    if number == 0 || number > pages {
        return Err(no_page(pages));
    }
    let picture = image_decoder::decode_page(input.bytes, number - 1)?;
    let (width, height) = (picture.width() as f32, picture.height() as f32);
    let jpeg = encode(shrink(picture, wanted_width(input)))?;
    Ok(DrawnPage { pages, width, height, jpeg, words: Vec::new(), simplified: false })
}

fn wanted_width(input: &SkillInput<'_>) -> u32 {
    input.job.width.unwrap_or(DEFAULT_WIDTH)
}

fn no_page(pages: u32) -> ExtractFailure {
    new_failure(Reason::Damaged, format!("the file has {pages} pages"))
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
