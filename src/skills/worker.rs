//! The skills as they run in a worker process: turn the pages of PDFs and images into a document.
//!
//! Every page first becomes text with positions: from the PDF if the page has a text layer, by OCR if it is an image. The
//! same search for tables, facts and signatures then runs on both, see [`crate::skills::layout::find_structure`]. Work
//! stops before the time is up and returns partial results; [`Document::pages_without_text`] lists the pages that were not
//! read.

use std::io::Cursor;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use image::RgbImage;
use pdfium_render::prelude::{PdfDocument, PdfDocumentMetadataTagType, PdfPage};

use crate::extract::{OcrTools, Purpose, SkillHandler, SkillInput, Tools, clean_text, new_failure, redact};
use crate::model::{Anchor, Block, BlockKind, Document, ExtractFailure, OCR_MODELS_UNAVAILABLE, Reason, Region};
use crate::skills::layout::{Page, Piece};
use crate::skills::ocr::{Ocr, OcrPage, image_decoder};
use crate::skills::page_picture::{self, PAGE_PICTURE};
use crate::skills::pdf_file::{is_pdf, open_pdf};
use crate::skills::vision::Picture;
use crate::skills::{OCR_IMAGE, PDF_LAYOUT, VISION, layout};

/// The skills that a worker can run.
pub const HANDLERS: &[SkillHandler] = &[
    SkillHandler { name: PDF_LAYOUT, prepare, run: run_layout },
    SkillHandler { name: OCR_IMAGE, prepare, run: run_ocr },
    SkillHandler { name: VISION, prepare: |_| {}, run: run_vision },
    SkillHandler { name: PAGE_PICTURE, prepare: |_| {}, run: page_picture::run },
];

/// Maximum number of pages processed for one question: a page takes some milliseconds, and a crafted file may claim to
/// have millions of pages. The next question continues with the other pages.
const MAX_PAGES: usize = 500;
/// Maximum number of pages of a PDF sent to a vision model: the first and the last, which show the title and the
/// signatures.
const MAX_VISION_PAGES: usize = 2;
/// Longest side of an image for a vision model, in pixels; models shrink larger ones.
const VISION_PICTURE_SIDE: u32 = 1_600;
/// JPEG quality of an image for a vision model, high enough that text stays sharp.
const VISION_JPEG_QUALITY: u8 = 85;
/// If OCR finds fewer letters in a whole file, drops them: they are specks or number plates, not the text of a
/// document.
const MIN_LETTERS: usize = 4;
/// A first line with more letters is not used as the title, because it is a sentence.
const MAX_TITLE_LETTERS: usize = 80;
/// Images with a shorter side, in pixels, are icons, lines and bullets, and are not read.
const MIN_IMAGE_SIDE: u32 = 200;

type Outcome = Result<Document, ExtractFailure>;

/// The OCR networks of this process, or why they could not be loaded. They are loaded once, before the sandbox forbids
/// opening files.
static OCR_ENGINE: Mutex<Option<Result<Ocr, ExtractFailure>>> = Mutex::new(None);

/// Loads the models before the first file. If that fails, the first job that needs them reports the error.
fn prepare(tools: &Tools) {
    if let Some(tools) = &tools.ocr {
        load_ocr(&mut lock_ocr(), tools).ok();
    }
}

fn lock_ocr() -> std::sync::MutexGuard<'static, Option<Result<Ocr, ExtractFailure>>> {
    OCR_ENGINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load_ocr<'a>(
    engine: &'a mut Option<Result<Ocr, ExtractFailure>>,
    tools: &OcrTools,
) -> Result<&'a mut Ocr, ExtractFailure> {
    let loaded = engine.get_or_insert_with(|| {
        let loaded = Ocr::load(&tools.runtime, &tools.models, tools.threads);
        loaded.map_err(|error| new_failure(Reason::UnsupportedType, format!("{OCR_MODELS_UNAVAILABLE}: {error}")))
    });
    loaded.as_mut().map_err(|failed| failed.clone())
}

/// The document under construction, with the time limits of the job.
struct DocumentBuilder<'a> {
    input: &'a SkillInput<'a>,
    document: Document,
    /// Numbers of the pages that are left for a later run for lack of time.
    deferred: Vec<u32>,
    end: Instant,
    /// Time after which no page is started, except the first page of the job.
    no_new_page_after: Option<Instant>,
    /// Whether a page was started; `no_new_page_after` applies only then.
    is_begun: bool,
}

/// A page that is an image, to be read by OCR.
enum Scan<'a> {
    Pdf(PdfPage<'a>),
    Image(&'a [u8]),
}

/// The skill `pdf_layout`: the structure of PDF pages, and the text of pages that are images.
fn run_layout(input: &SkillInput<'_>) -> Outcome {
    let file = open_pdf(input)?;
    let mut reading = DocumentBuilder::new(input);
    let pages = reading.set_page_count(&file);
    let (mut scans, mut late) = (Vec::new(), Vec::new());
    for number in reading.select_pages(pages) {
        if reading.is_late() {
            reading.document.truncated = true;
            late.push(number);
            continue;
        }
        let Ok(page) = file.pages().get(number as i32 - 1) else { continue };
        let seen = layout::read_page(&page);
        if seen.pieces.is_empty() && layout::has_picture(&page) {
            scans.push((number, Scan::Pdf(page)));
        } else {
            reading.add_structure(Some(number), layout::find_structure(&seen));
        }
    }
    reading.read_scans(scans)?;
    reading.document.pages_without_text.extend(late);
    reading.finish(pdf_title(&file))
}

/// The skill `ocr_image`: the text of image files and of PDF pages without a text layer.
fn run_ocr(input: &SkillInput<'_>) -> Outcome {
    let mut reading = DocumentBuilder::new(input);
    if !is_pdf(input) {
        let pages = image_decoder::page_count(input.bytes);
        if input.job.purpose == Purpose::UnreadText && !is_like_scan(input.bytes) {
            return reading.finish(None);
        }
        reading.document.pages = (pages > 1).then_some(pages);
        let scans = reading.select_pages(pages).into_iter().map(|number| (number, Scan::Image(input.bytes))).collect();
        reading.read_scans(scans)?;
        return reading.finish(None);
    }
    let file = open_pdf(input)?;
    let pages = reading.set_page_count(&file);
    let mut scans = Vec::new();
    for number in reading.select_pages(pages) {
        // Checks the time even before a page is opened, because that takes time too.
        if reading.is_late() {
            reading.document.truncated = true;
            reading.deferred.push(number);
            continue;
        }
        let Ok(page) = file.pages().get(number as i32 - 1) else { continue };
        let wanted =
            input.job.purpose == Purpose::EveryText || (!layout::has_text(&page) && layout::has_picture(&page));
        if wanted {
            scans.push((number, Scan::Pdf(page)));
        }
    }
    reading.read_scans(scans)?;
    reading.finish(None)
}

/// The worker's part of the skill `vision`: renders the pages that the model will see.
fn run_vision(input: &SkillInput<'_>) -> Outcome {
    if !is_pdf(input) {
        let picture = image_decoder::decode_page(input.bytes, 0)?;
        return Ok(Document { blocks: vec![vision_block(None, picture)?], ..Document::default() });
    }
    let file = open_pdf(input)?;
    let mut document = Document { pages: u32::try_from(file.pages().len()).ok(), ..Document::default() };
    let numbers = outside_in((1..=document.pages.unwrap_or(0)).collect());
    for number in numbers.into_iter().take(MAX_VISION_PAGES) {
        let Ok(page) = file.pages().get(number as i32 - 1) else { continue };
        match layout::render_page(&page) {
            Ok(picture) => document.blocks.push(vision_block(Some(number), picture)?),
            Err(error) => document.problems.push(format!("page {number} {error}")),
        }
    }
    Ok(document)
}

/// Shrinks an image for a vision model, and encodes it as a block.
fn vision_block(page: Option<u32>, picture: RgbImage) -> Result<Block, ExtractFailure> {
    let mut picture = image::DynamicImage::from(picture);
    if picture.width().max(picture.height()) > VISION_PICTURE_SIDE {
        picture = picture.thumbnail(VISION_PICTURE_SIDE, VISION_PICTURE_SIDE);
    }
    let mut bytes = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, VISION_JPEG_QUALITY);
    let encoded = picture.into_rgb8().write_with_encoder(encoder);
    encoded.map_err(|error| new_failure(Reason::Damaged, error.to_string()))?;
    Ok(Picture { page, bytes }.pack())
}

fn pdf_title(file: &PdfDocument<'_>) -> Option<String> {
    let tag = file.metadata().get(PdfDocumentMetadataTagType::Title)?;
    Some(clean_text(tag.value()).trim().to_string()).filter(|it| !it.is_empty())
}

/// Returns whether an image may be a scanned page: neither a camera photo nor an icon.
fn is_like_scan(bytes: &[u8]) -> bool {
    let reader = image::ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok();
    let Some((width, height)) = reader.and_then(|it| it.into_dimensions().ok()) else { return false };
    let exif = exif::Reader::new().read_from_container(&mut Cursor::new(bytes));
    let has = |tag| exif.as_ref().is_ok_and(|it| it.get_field(tag, exif::In::PRIMARY).is_some());
    let photo = has(exif::Tag::Make) || has(exif::Tag::Model);
    !photo && width.min(height) >= MIN_IMAGE_SIDE
}

impl<'a> DocumentBuilder<'a> {
    fn new(input: &'a SkillInput<'a>) -> DocumentBuilder<'a> {
        let time = Duration::from_secs_f32(input.job.soft_seconds());
        let now = Instant::now();
        let no_new_page_after = input.job.rest_after.map(|it| now + Duration::from_secs(it.into()));
        DocumentBuilder {
            input,
            document: Document::default(),
            deferred: Vec::new(),
            end: now + time,
            no_new_page_after,
            is_begun: false,
        }
    }

    fn is_late(&self) -> bool {
        let now = Instant::now();
        now >= self.end || (self.is_begun && self.no_new_page_after.is_some_and(|it| now >= it))
    }

    fn set_page_count(&mut self, file: &PdfDocument<'_>) -> u32 {
        let pages = u32::try_from(file.pages().len()).unwrap_or(0);
        self.document.pages = Some(pages);
        self.document.media_type = "application/pdf".to_string();
        pages
    }

    /// Returns the numbers of the pages to process, in order: the requested pages, or all.
    fn select_pages(&mut self, pages: u32) -> Vec<u32> {
        let most = self.input.limits.pages;
        let mut chosen: Vec<u32> = match &self.input.job.pages {
            Some(wanted) => wanted.iter().copied().filter(|it| (1..=pages).contains(it)).collect(),
            None => (1..=pages.min(most)).collect(),
        };
        if self.input.job.purpose == Purpose::Question {
            self.deferred = chosen.split_off(chosen.len().min(MAX_PAGES));
        }
        self.document.truncated |= pages > most || !self.deferred.is_empty();
        chosen
    }

    /// Reads pages that are images by OCR, as many as there is time for. For a question, reads the first and the last page
    /// first, which show the title and the signatures.
    fn read_scans(&mut self, mut scans: Vec<(u32, Scan<'_>)>) -> Result<(), ExtractFailure> {
        if scans.is_empty() {
            return Ok(());
        }
        if self.input.job.purpose == Purpose::Question {
            scans = outside_in(scans);
        }
        let mut engine = lock_ocr();
        let ocr = match &self.input.job.tools.ocr {
            Some(tools) => Some(load_ocr(&mut engine, tools)?),
            None => None,
        };
        let mut scans = scans.into_iter();
        if let Some(ocr) = ocr {
            while !self.is_late()
                && let Some((number, scan)) = scans.next()
            {
                self.is_begun = true;
                self.read_scan(ocr, number, &scan);
            }
            self.document.truncated |= scans.len() > 0;
        }
        self.document.pages_without_text.extend(scans.map(|(number, _)| number));
        Ok(())
    }

    /// Reads one image by OCR. If that fails, records a problem of this page only.
    fn read_scan(&mut self, ocr: &mut Ocr, number: u32, scan: &Scan<'_>) {
        let picture: Result<RgbImage, String> = match scan {
            Scan::Pdf(page) => layout::render_page(page),
            Scan::Image(bytes) => image_decoder::decode_page(bytes, number - 1)
                .map_err(|it| format!("{} {}", it.reason.name(), it.detail)),
        };
        let read = picture.and_then(|picture| ocr.read(&picture).map_err(|error| error.to_string()));
        let page = match scan {
            Scan::Image(_) if self.document.pages.is_none() => None,
            _ => Some(number),
        };
        match read {
            Ok(read) => self.add_ocr_page(page, &read),
            Err(error) => self.document.problems.push(format!("page {number} cannot be read: {}", error.trim())),
        }
    }

    fn add_ocr_page(&mut self, page: Option<u32>, read: &OcrPage) {
        self.document.blocks.extend(read.to_blocks(page));
        self.document.add_words(read.words(page.unwrap_or(1)));
        if self.input.job.purpose == Purpose::Question {
            self.add_structure(page, layout::find_structure(&to_layout_page(read)));
        }
    }

    fn add_structure(&mut self, page: Option<u32>, found: Vec<layout::Structure>) {
        self.document.blocks.extend(found.into_iter().map(|it| Block {
            kind: it.kind,
            text: it.text,
            anchor: Anchor { page, region: Some(it.region), ..Anchor::default() },
            rows: Vec::new(),
        }));
    }

    /// Sorts the pages, truncates the text to its limit, and sets the title: that of the file, or the first heading or
    /// line.
    fn finish(mut self, title: Option<String>) -> Outcome {
        let mut document = std::mem::take(&mut self.document);
        document.pages_without_text.append(&mut self.deferred);
        document.pages_without_text.sort_unstable();
        document.blocks.retain(|it| !it.text.trim().is_empty());
        let letters = document.blocks.iter().flat_map(|it| it.text.chars()).filter(|it| it.is_alphanumeric());
        let is_all = self.input.job.pages.is_none() && document.pages_without_text.is_empty();
        if is_all && self.input.job.purpose == Purpose::UnreadText && letters.take(MIN_LETTERS).count() < MIN_LETTERS {
            document.blocks.clear();
        }
        document.blocks.sort_by_key(|it| it.anchor.page);
        let mut bytes = 0;
        let kept = document.blocks.iter().take_while(|it| {
            bytes += it.text.len() as u64;
            bytes <= self.input.limits.text_bytes
        });
        let kept = kept.count();
        document.truncated |= kept < document.blocks.len();
        document.blocks.truncate(kept);
        let heading = || document.blocks.iter().find(|it| it.kind == BlockKind::Heading(1)).map(|it| it.text.clone());
        document.title = title.or_else(heading).or_else(|| first_line(&document));
        redact(document, self.input.limits.redaction)
    }
}

/// Returns the first line of running text, which on a scan is often the letterhead or the title.
fn first_line(document: &Document) -> Option<String> {
    let text = document.blocks.iter().find(|it| it.kind == BlockKind::Paragraph)?;
    let line = text.text.lines().next()?.trim();
    (line.chars().count() <= MAX_TITLE_LETTERS).then(|| line.to_string())
}

/// Orders items as first, last, second, second last and so on.
fn outside_in<T>(items: Vec<T>) -> Vec<T> {
    let mut items: std::collections::VecDeque<T> = items.into();
    let mut ordered = Vec::with_capacity(items.len());
    while let Some(first) = items.pop_front() {
        ordered.push(first);
        ordered.extend(items.pop_back());
    }
    ordered
}

/// Converts an OCR result into an upright [`Page`], because the search for structure expects lines that run to the right.
fn to_layout_page(read: &OcrPage) -> Page {
    let (width, height) = (read.width as f32, read.height as f32);
    let quarter = usize::from(read.rotation_degrees / 90);
    let (width, height) = if quarter % 2 == 0 { (width, height) } else { (height, width) };
    let mut pieces = Vec::new();
    for (text, region) in read.lines.iter().flat_map(|it| &it.parts) {
        let upright = (0..quarter).fold(*region, |it, _| turn_clockwise(it));
        let (top, bottom) = (upright.top * height, upright.bottom * height);
        pieces.push(Piece {
            text: text.clone(),
            left: upright.left * width,
            top,
            right: upright.right * width,
            bottom,
            // Estimates the letter size: the box includes a margin above the highest and below the lowest letter.
            size: (bottom - top) * 0.75,
        });
    }
    Page { width, height, pieces, quarter_turns: quarter as u8, measured: false, ..Page::default() }
}

/// Returns a region as it is after a clockwise quarter turn of the page.
fn turn_clockwise(it: Region) -> Region {
    Region { left: 1.0 - it.bottom, top: it.left, right: 1.0 - it.top, bottom: it.right }
}

#[cfg(test)]
mod tests;
