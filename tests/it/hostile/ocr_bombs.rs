//! Tests OCR and layout workers, which hold large neural networks in memory, with image and page bombs, with images at the
//! size limit, and with mutated images.
//!
//! The number of mutants is a twentieth of `VIC_MUTANTS`, because OCR of each takes as long as a page; see `mutants.rs`.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use image::{GrayImage, ImageFormat, RgbImage, imageops};
use vic::extract::{Purpose, SkillJob, Tools, WorkerPool};
use vic::model::{Document, ExtractFailure, ExtractLimits, Reason};
use vic::skills::{OCR_IMAGE, PDF_LAYOUT};

use crate::hostile::bombs::Bomb;
use crate::hostile::model_store;
use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Original;
use crate::hostile::mutants::keep_if_deadly;
use crate::hostile::mutants::mutant;
use crate::hostile::mutants::originals;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::hostile::pdf_bombs::pdf_bombs;
use crate::hostile::picture_bombs::picture_bombs;
use crate::hostile::worker_program;
use crate::support::capabilities::report_not_proven;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;

/// Maximum memory for a refused image, in MiB above the peak of the usual scan.
const REFUSED_EXTRA_MIB: u64 = 100;
/// Maximum excess over the worker memory limit, in MiB: the largest single allocation, which is noticed only afterwards.
const OVERSHOOT_MIB: u64 = 256;
/// Maximum memory for an image that is downscaled row by row, in MiB above the peak of the largest OCR page.
const ROW_DECODER_EXTRA_MIB: u64 = 64;
/// Maximum memory for an image that is decoded as a whole before it is downscaled, in MiB above the peak of the largest OCR
/// page.
const WHOLE_DECODER_EXTRA_MIB: u64 = 128;
/// Threads of a worker, as on a machine with many cores. Each thread takes memory.
const MAX_THREADS: usize = 4;
/// Time limit of one OCR or layout job on a bomb, in seconds.
const TIME_LIMIT_SECONDS: u32 = 10;
/// Maximum time until the job on a bomb ends, including the time to kill a worker that hangs.
const KILL_LIMIT: Duration = Duration::from_secs(12);
/// Side of the largest image that vic accepts for OCR, in pixels.
const LARGEST_SIDE: u32 = 9_999;
/// Side of the largest page image that OCR processes, in pixels. Larger images are downscaled.
const PAGE_SIDE: u32 = 4_000;

/// A pool of OCR workers with the settings of the daemon.
struct OcrWorkers {
    pool: WorkerPool,
    tools: Tools,
    /// Memory limit of a worker in MiB.
    max_mib: u64,
}

impl OcrWorkers {
    fn new() -> OcrWorkers {
        let mut settings = vic::skills::pool_settings(&model_store(), &ExtractLimits::default());
        settings.tools.ocr.as_mut().expect("`make models` fetches the networks").threads = MAX_THREADS;
        let (tools, max_mib) = (settings.tools.clone(), u64::from(settings.limits.memory_mib));
        OcrWorkers { pool: WorkerPool::new(worker_program().into(), settings), tools, max_mib }
    }

    /// Returns the job that the daemon would run on this file.
    fn job(&self, name: &str, seconds: u32) -> SkillJob {
        let skill = if name.ends_with(".pdf") { PDF_LAYOUT } else { OCR_IMAGE };
        SkillJob { skill: skill.into(), seconds, tools: self.tools.clone(), ..SkillJob::default() }
    }

    /// Runs a job on a file. Returns the outcome and the time.
    async fn run_job(&self, name: &str, bytes: &[u8], job: SkillJob) -> (Result<Document, ExtractFailure>, Duration) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let begun = Instant::now();
        let outcome = self.pool.run_skill(file, name, job).await;
        (outcome, begun.elapsed())
    }

    /// Runs OCR on a well-formed scan, which must succeed.
    async fn read_scan(&self) -> Document {
        let (outcome, took) = self.run_job("scan.png", &scan_bytes(), self.job("scan.png", 60)).await;
        let document = outcome.unwrap_or_else(|failed| panic!("{failed:?} after {took:?}"));
        assert!(document.problems.is_empty() && long_words(&document).len() > 10, "{document:?}");
        document
    }
}

fn scan_bytes() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/Scans/piano-receipt.png")).unwrap()
}

/// Returns the words of more than four letters in the extracted text.
fn long_words(document: &Document) -> Vec<String> {
    let text = document.text();
    text.split(|it: char| !it.is_alphabetic()).filter(|it| it.len() > 4).map(str::to_lowercase).collect()
}

fn outcome_text(outcome: &Result<Document, ExtractFailure>) -> String {
    match outcome {
        Ok(document) => format!("{} bytes {:.100?}", document.text().len(), document.problems),
        Err(failed) => failed.reason.name().to_string(),
    }
}

/// Returns whether the outcome is text or an accepted failure. For a refused image, the outcome is a document whose only
/// page has a problem.
fn is_contained(bomb: &Bomb, outcome: &Result<Document, ExtractFailure>) -> bool {
    let ends_of_workers = [Reason::WorkerCrash, Reason::Timeout, Reason::OutOfMemory, Reason::Io];
    match outcome {
        Ok(document) => {
            let text = document.text();
            let is_told = !document.problems.is_empty();
            let is_as_told = bomb.name.ends_with(".pdf") || bomb.allowed_reasons.is_empty() || is_told;
            is_as_told && text.len() < 20 << 20 && !text.contains("root:")
        }
        Err(failed) => bomb.allowed_reasons.contains(&failed.reason) || !ends_of_workers.contains(&failed.reason),
    }
}

/// Runs OCR on each bomb, and after each bomb on a normal scan. The peak memory may be at most `more_mib` MiB above that of
/// the first scan.
async fn check_bombs(what: &str, bombs: &[Bomb], more_mib: Option<u64>) {
    let lookers = OcrWorkers::new();
    lookers.read_scan().await;
    let most = more_mib.map_or(lookers.max_mib + OVERSHOOT_MIB, |it| lookers.pool.peak_mib() + it);
    let (mut wrong, mut slowest) = (Vec::new(), Duration::ZERO);
    for bomb in bombs {
        let (outcome, took) = lookers.run_job(bomb.name, &bomb.bytes, lookers.job(bomb.name, TIME_LIMIT_SECONDS)).await;
        println!(
            "{:16} {took:>9.1?}  {:>4} MiB so far  {}",
            bomb.name,
            lookers.pool.peak_mib(),
            outcome_text(&outcome)
        );
        if !is_contained(bomb, &outcome) || took > KILL_LIMIT {
            wrong.push(format!("{}: {outcome:.300?} in {took:?}", bomb.name));
        }
        slowest = slowest.max(took);
        lookers.read_scan().await;
    }
    let peak = lookers.pool.peak_mib();
    figure(what, format!("{}: at most {slowest:.1?}, {peak} MiB", bombs.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(peak <= most, "{peak} MiB exceed the limit of {most} MiB");
}

// Case C7
#[tokio::test]
async fn ocr_workers_survive_picture_and_page_bombs() {
    check_bombs("picture bombs, OCR", &picture_bombs(), Some(REFUSED_EXTRA_MIB)).await;
    check_bombs("page bombs, OCR and layout", &pdf_bombs(), None).await;
}

/// Returns the scan, magnified six times, in the corner of a white square of 100 million pixels.
fn large_scan() -> GrayImage {
    let scan = image::load_from_memory(&scan_bytes()).unwrap().into_luma8();
    let mut large = GrayImage::from_pixel(LARGEST_SIDE, LARGEST_SIDE, image::Luma([255]));
    let magnified = imageops::resize(&scan, scan.width() * 6, scan.height() * 6, imageops::FilterType::Nearest);
    imageops::replace(&mut large, &magnified, 0, 0);
    large
}

/// Encodes an image as PNG. `pixel` returns the bytes of a pixel for its shade of gray.
fn png<const N: usize>(large: &GrayImage, depth: png::BitDepth, pixel: impl Fn(u8) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, large.width(), large.height());
    let has_alpha = N == 4 || N == 8;
    encoder.set_color(if has_alpha { png::ColorType::Rgba } else { png::ColorType::Rgb });
    encoder.set_depth(depth);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().unwrap();
    // Writes row by row, so that the test process does not hold the full image either.
    let mut rows = writer.stream_writer().unwrap();
    for row in large.rows() {
        let row: Vec<u8> = row.flat_map(|it| pixel(it.0[0])).collect();
        rows.write_all(&row).unwrap();
    }
    rows.finish().unwrap();
    drop(writer);
    bytes
}

fn encoded(picture: impl Into<image::DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Runs OCR on an image that shows the words of the scan. Returns the peak memory, and an error if half of the words are
/// missing.
async fn read_large(name: &str, bytes: &[u8], expected: &[String]) -> (u64, Option<String>) {
    let lookers = OcrWorkers::new();
    let (outcome, took) = lookers.run_job(name, bytes, lookers.job(name, 120)).await;
    let (peak, kib) = (lookers.pool.peak_mib(), bytes.len() >> 10);
    figure(&format!("OCR of {name}, {kib} KiB"), format!("{peak} MiB in {took:.1?}"));
    let read = outcome.as_ref().map(long_words).unwrap_or_default();
    let known = expected.iter().filter(|it| read.contains(it)).count();
    let wrong = format!("{name}: {known} of {} words, {outcome:.300?}", expected.len());
    (peak, (known * 2 < expected.len()).then_some(wrong))
}

/// Creates an image on demand, because all images together would take much memory.
type MakePicture<'m> = &'m dyn Fn() -> Vec<u8>;

// Case C7
#[tokio::test]
async fn largest_pictures_are_read_within_memory_limit() {
    use png::BitDepth::{Eight, Sixteen};
    let (usual, large) = (OcrWorkers::new(), large_scan());
    let expected = long_words(&usual.read_scan().await);
    figure("OCR of a scan of 1.6 million pixels", format!("{} MiB", usual.pool.peak_mib()));
    let page = imageops::thumbnail(&large, PAGE_SIDE, PAGE_SIDE);
    let (as_page, wrong) = read_large("page.png", &png(&page, Eight, |it| [it; 3]), &expected).await;
    let mut all_wrong = Vec::from_iter(wrong);
    let shade = |x, y| image::Rgb([large.get_pixel(x, y).0[0]; 3]);
    let in_colour = || RgbImage::from_fn(large.width(), large.height(), shade);
    let made: [(&str, MakePicture, u64); 5] = [
        ("rgb.png", &|| png(&large, Eight, |it| [it; 3]), ROW_DECODER_EXTRA_MIB),
        ("rgba.png", &|| png(&large, Eight, |it| [it, it, it, 255 - it / 255]), ROW_DECODER_EXTRA_MIB),
        ("rgba16.png", &|| png(&large, Sixteen, |it| [it, it, it, it, it, it, 255, 255]), ROW_DECODER_EXTRA_MIB),
        ("grey.tiff", &|| encoded(large.clone(), ImageFormat::Tiff), ROW_DECODER_EXTRA_MIB),
        ("rgb.jpg", &|| encoded(in_colour(), ImageFormat::Jpeg), WHOLE_DECODER_EXTRA_MIB),
    ];
    for (name, make, more) in made {
        let bytes = make();
        let (peak, wrong) = read_large(name, &bytes, &expected).await;
        all_wrong.extend(wrong);
        // The file itself is always in memory, so its size is added to the limit.
        let file = bytes.len() as u64 >> 20;
        let most = (as_page + more).min(usual.max_mib) + file;
        if peak > most {
            all_wrong.push(format!("{name}: {peak} MiB exceed the limit of {most} MiB"));
        }
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}

// Case C17
#[tokio::test]
async fn mutated_pictures_and_pages_cost_at_most_a_worker() {
    let is_seen = |it: &Original| {
        let extension = it.name.rsplit('.').next().unwrap_or_default().to_lowercase();
        ["pdf", "png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff"].contains(&extension.as_str())
    };
    let originals: Vec<Original> = originals().into_iter().filter(is_seen).collect();
    if originals.is_empty() {
        report_not_proven("the folder of VIC_MUTANTS_FROM has no image and no PDF");
        return;
    }
    let count = (variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) / 20).max(60);
    let (lookers, mut outcomes, mut times) = (OcrWorkers::new(), BTreeMap::<String, u64>::new(), Vec::new());
    for number in 0..count {
        let mut dice = rng_of_mutant(number);
        let Original { name, bytes } = dice.pick(&originals);
        let bytes = mutant(bytes, &mut dice);
        let mut job = lookers.job(name, 20);
        if job.skill == PDF_LAYOUT && dice.index_below(2) == 0 {
            // Forces OCR of the page, because the layout job does not render pages with a text layer.
            job = SkillJob { skill: OCR_IMAGE.into(), purpose: Purpose::EveryText, pages: Some(vec![1]), ..job };
        }
        let (outcome, took) = lookers.run_job(name, &bytes, job).await;
        times.push(took);
        let came = match &outcome {
            Ok(document) if document.problems.is_empty() => "read",
            Ok(_) => "a page refused",
            Err(failed) => {
                keep_if_deadly(failed, number, name, &bytes);
                failed.reason.name()
            }
        };
        *outcomes.entry(came.to_string()).or_default() += 1;
    }
    lookers.read_scan().await;
    let (peak, slowest) = (lookers.pool.peak_mib(), percentile(&times, 100));
    figure("mutants read by OCR and layout", format!("{count}: {outcomes:?}; at most {peak} MiB, {slowest:.1?}"));
    let of = |name: &str| outcomes.get(name).copied().unwrap_or(0);
    let ends = of("worker_crash") + of("timeout") + of("out_of_memory");
    assert!(ends * 50 <= count + 49, "over 2 % crash or hang a worker: {outcomes:?}");
    assert!(of("read") * 4 > count, "{outcomes:?}");
    assert!(peak <= lookers.max_mib, "{peak} MiB");
}
