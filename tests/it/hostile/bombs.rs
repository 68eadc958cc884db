//! Tests decompression and nesting bombs: each must be refused or truncated soon, within memory limits, with a reason.

use std::io::{Cursor, Write};
use std::time::{Duration, Instant};

use vic::extract::WorkerPool;
use vic::model::{Document, ExtractFailure, ExtractLimits, Reason};
use zip::write::SimpleFileOptions;

use super::archives::archive_bombs;
use super::{extract_with, one_worker_pool, worker_program};
use crate::hostile::pdf_bombs::pdf_bombs;
use crate::hostile::pdf_bombs::pdf_with_references_to;
use crate::hostile::picture_bombs::picture_bombs;
use crate::support::harness::World;
use crate::support::long_tests::figure;

/// Promised maximum time until a bomb is refused, for a release build on an idle machine.
const PROMISED_LIMIT: Duration = Duration::from_secs(2);
/// Maximum time until a bomb is refused on a machine that runs other tests at the same time.
const BUSY_LIMIT: Duration = Duration::from_secs(8);
/// Files that may take the full time limit, because they contain much text: a page with 100 MiB of letters.
const SLOW_FILES: [&str; 1] = ["more-glyphs.pdf"];
/// Maximum memory of a worker for any file, in MiB.
pub(super) const MAX_MIB: u64 = 512;
/// Maximum memory for a file of at most [`SMALL_FILE_BYTES`] bytes, in MiB above the peak of a worker for a usual small
/// file.
const SMALL_FILE_EXTRA_MIB: u64 = 256;
const SMALL_FILE_BYTES: usize = 10 << 20;

pub(super) struct Bomb {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Reasons with which the bomb may be refused. Empty if at least a part of its text must be extracted.
    pub(super) allowed_reasons: &'static [Reason],
    /// Whether the text must be truncated and marked as truncated.
    is_truncated: bool,
    /// Words that the extracted text must contain.
    expected_text: &'static str,
}

pub(super) fn bomb(name: &'static str, bytes: Vec<u8>, refused: &'static [Reason]) -> Bomb {
    Bomb { name, bytes, allowed_reasons: refused, is_truncated: false, expected_text: "" }
}

impl Bomb {
    /// Returns a bomb whose text must be extracted in part and marked as truncated.
    pub(super) fn truncated(name: &'static str, bytes: Vec<u8>) -> Bomb {
        Bomb { is_truncated: true, ..bomb(name, bytes, &[]) }
    }

    /// Returns a bomb whose extracted text must contain these words.
    pub(super) fn containing(name: &'static str, bytes: Vec<u8>, expected_text: &'static str) -> Bomb {
        Bomb { expected_text, ..bomb(name, bytes, &[]) }
    }
}

/// Zips these parts and a part `large`, which consists of `head` and `mib` MiB of repeated `fill`.
pub(super) fn zip_with_large_part(
    parts: &[(&str, &str)],
    (large, head, fill, mib): (&str, &str, &str, usize),
) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.start_file(large, SimpleFileOptions::default().large_file(true)).unwrap();
    writer.write_all(head.as_bytes()).unwrap();
    let block = fill.repeat((1 << 20) / fill.len());
    (0..mib).for_each(|_| writer.write_all(block.as_bytes()).unwrap());
    writer.finish().unwrap().into_inner()
}

pub(super) fn docx(body: &str) -> Vec<u8> {
    zip_with_large_part(&[("[Content_Types].xml", TYPES), ("_rels/.rels", ROOT)], ("word/document.xml", body, " ", 0))
}

const TYPES: &str = r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml"
    ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"#;
const ROOT: &str =
    r#"<Relationships><Relationship Id="r" Type="x/officeDocument" Target="word/document.xml"/></Relationships>"#;
const WORKBOOK: &str = r#"<workbook xmlns:r="r"><sheets><sheet name="A" sheetId="1" r:id="rId1"/></sheets></workbook>"#;

fn office_bombs() -> Vec<Bomb> {
    let sheet = [
        (
            "_rels/.rels",
            r#"<Relationships><Relationship Id="r" Type="x/officeDocument" Target="xl/workbook.xml"/></Relationships>"#,
        ),
        ("xl/workbook.xml", WORKBOOK),
        (
            "xl/_rels/workbook.xml.rels",
            r#"<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#,
        ),
    ];
    let limit = &[Reason::DecompressionLimit];
    let first = ["[Content_Types].xml", "_rels/.rels", "ppt/presentation.xml"].map(String::from);
    let empty: Vec<String> =
        first.into_iter().chain((0..100_000).map(|it| format!("ppt/slides/slide{it}.xml"))).collect();
    let empty: Vec<(&str, &str)> = empty.iter().map(|it| (it.as_str(), "")).collect();
    let tables = "<w:tbl><w:tr><w:tc>".repeat(8_000);
    let laughs: String =
        (1..10).map(|it| format!("<!ENTITY l{it} \"{}\">", format!("&l{};", it - 1).repeat(10))).collect();
    let laughs = format!(
        "<!DOCTYPE d [<!ENTITY l0 \"lol\">{laughs}]><w:document><w:body><w:p><w:r><w:t>ha &l9;</w:t></w:r></w:p></w:body></w:document>"
    );
    let outside = "<!DOCTYPE d [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><w:document><w:body><w:p><w:r><w:t>see &x;</w:t></w:r></w:p></w:body></w:document>";
    vec![
        bomb(
            "sheet.xlsx",
            zip_with_large_part(&sheet, ("xl/worksheets/sheet1.xml", "<worksheet><sheetData>", "<row/>", 512)),
            limit,
        ),
        bomb(
            "text.docx",
            zip_with_large_part(&[("_rels/.rels", ROOT)], ("word/document.xml", "<w:document>", "<w:p/>  ", 2_048)),
            limit,
        ),
        bomb("parts.pptx", zip_with_large_part(&empty, ("ppt/last.xml", "", " ", 0)), limit),
        bomb("tables.docx", docx(&format!("<w:document><w:body>{tables}")), &[Reason::TooDeep]),
        bomb("laughs.docx", docx(&laughs), &[]),
        bomb("outside.docx", docx(outside), &[]),
    ]
}

fn nesting_bombs() -> Vec<Bomb> {
    let deep = |open: &str| open.repeat(100_000).into_bytes();
    vec![
        bomb("deep.json", deep("[{\"a\":"), &[]),
        bomb("deep.html", deep("<div>"), &[]),
        bomb("inline.html", deep("<b><a>"), &[]),
        bomb("deep.md", deep("> "), &[]),
        bomb("list.md", deep("- "), &[]),
        bomb(
            "deep.xml",
            [b"<?xml version=\"1.0\"?>".to_vec(), deep("<a>")].concat(),
            &[Reason::TooDeep, Reason::NoText],
        ),
        bomb("deep.rtf", [b"{\\rtf1 ".to_vec(), deep("{")].concat(), &[Reason::TooDeep, Reason::NoText]),
        bomb("deep.ipynb", deep("["), &[]),
        bomb("deep.rs", deep("fn f(){("), &[]),
        bomb("deep.py", deep("("), &[]),
        bomb("deep.eml", b"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(20_000), &[]),
    ]
}

/// Returns drawings that would take too long to render. vic must not render them, only extract their words.
fn svg_bombs() -> Vec<Bomb> {
    const START: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" \
                         width=\"999999999\" height=\"999999999\"><text>The heron stands.</text>";
    let svg = |body: &str| [START, body, "</svg>"].concat().into_bytes();
    // Each group references the previous group ten times.
    let doubled: String = (1..30)
        .map(|it| format!("<g id=\"g{it}\">{}</g>", format!("<use href=\"#g{}\"/>", it - 1).repeat(10)))
        .collect();
    let blurs = "<feTurbulence numOctaves=\"999999\"/><feGaussianBlur stdDeviation=\"999999\"/>".repeat(1_000);
    vec![
        Bomb::containing("uses.svg", svg(&"<use xlink:href=\"#a\"/>".repeat(1_000_000)), "heron stands"),
        Bomb::containing("files.svg", svg(&"<use xlink:href=\"file:///etc/passwd\"/>".repeat(100_000)), "heron stands"),
        Bomb::containing("doubled.svg", svg(&format!("<g id=\"g0\"><path d=\"M0 0\"/></g>{doubled}")), "heron stands"),
        Bomb::containing(
            "filter.svg",
            svg(&format!(
                "<filter id=\"f\" width=\"9999999\" height=\"9999999\" filterRes=\"99999\">{blurs}</filter><rect filter=\"url(#f)\"/>"
            )),
            "heron stands",
        ),
    ]
}

fn is_contained(bomb: &Bomb, outcome: &Result<Document, ExtractFailure>) -> bool {
    match outcome {
        // The text must be bounded and must come from the file itself.
        Ok(document) => {
            let text = document.text();
            let refused_at_all =
                bomb.allowed_reasons.iter().all(|it| !matches!(it, Reason::DecompressionLimit | Reason::TooLarge));
            let as_told = document.truncated >= bomb.is_truncated && text.contains(bomb.expected_text);
            refused_at_all && as_told && text.len() < 20 << 20 && !text.contains("lollol") && !text.contains("root:")
        }
        Err(failed) => bomb.allowed_reasons.contains(&failed.reason),
    }
}

fn all_bombs() -> Vec<Bomb> {
    [office_bombs(), nesting_bombs(), svg_bombs(), archive_bombs(), picture_bombs(), pdf_bombs()]
        .into_iter()
        .flatten()
        .collect()
}

// Cases C1, C2, C3, C5, C6, C7, C8, C9
#[tokio::test]
async fn bombs_are_refused_soon_within_memory_limit() {
    let mut wrong = Vec::new();
    let must_prove = std::env::var("VIC_TESTS_MUST_PROVE").is_ok_and(|it| !it.is_empty());
    let soon = if must_prove { PROMISED_LIMIT } else { BUSY_LIMIT };
    let usual = {
        let pool = one_worker_pool(worker_program(), ExtractLimits::default());
        still_reads(&pool).await;
        extract_with(&pool, "good.pdf", &pdf_with_references_to("nowhere")).await.unwrap();
        pool.peak_mib()
    };
    let bombs = all_bombs();
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for bomb in &bombs {
        let pool = one_worker_pool(worker_program(), ExtractLimits::default());
        let begun = Instant::now();
        let outcome = extract_with(&pool, bomb.name, &bomb.bytes).await;
        let (took, peak) = (begun.elapsed(), pool.peak_mib());
        (slowest, largest) = (slowest.max(took), largest.max(peak));
        let came =
            outcome.as_ref().map_or_else(|it| it.reason.name().to_string(), |it| format!("{} bytes", it.text().len()));
        println!("{:16} {:>9} bytes  {:>6} ms  {peak:>4} MiB  {came}", bomb.name, bomb.bytes.len(), took.as_millis());
        let most =
            if bomb.bytes.len() <= SMALL_FILE_BYTES { MAX_MIB.min(usual + SMALL_FILE_EXTRA_MIB) } else { MAX_MIB };
        // Extraction of text may take the full time limit. A refusal may not: reaching the limit counts as late.
        let is_late = outcome.as_ref().is_err_and(|it| it.reason == Reason::Timeout || took > soon);
        let is_late = is_late && !SLOW_FILES.contains(&bomb.name);
        if !is_contained(bomb, &outcome) || is_late || peak > most {
            wrong.push(format!("{}: {outcome:.300?} in {took:?}, {peak} MiB", bomb.name));
        }
        still_reads(&pool).await;
    }
    let found = format!("{}: at most {largest} MiB ({usual} usually), {slowest:.1?}", bombs.len());
    figure("decompression bombs, each in its own reader", found);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn still_reads(pool: &WorkerPool) {
    assert_eq!(extract_with(pool, "good.txt", b"words").await.unwrap().text(), "words");
}

// Case C12
#[test]
fn bombs_leave_daemon_and_good_files_alone_without_retry() {
    let mut world = World::new().start();
    let bombs = all_bombs();
    for bomb in &bombs {
        world.write(&format!("a/{}", bomb.name), &bomb.bytes);
    }
    for number in 0..20 {
        world.write(&format!("b/good{number}.md"), format!("Note {number} tells of the lighthouse."));
    }
    let daemon = world.pid();
    world.index();
    let status = world.json(&["status"]);
    let of = |name: &str| status["coverage"][name].as_u64().unwrap();
    assert_eq!(of("found"), bombs.len() as u64 + 20, "{status:#}");
    assert_eq!((of("found"), 0), (of("indexed") + of("skipped") + of("failed"), of("pending")), "{status:#}");
    assert_eq!(status["pid"].as_u64(), Some(daemon.into()));
    assert!(world.paths(&["lighthouse", "--limit", "20"]).len() >= 20);
    // Later jobs and restarts must not retry files that have failed.
    for _ in 0..5 {
        world.index();
        assert!(world.terminate());
        world.spawn_and_wait();
    }
    world.index();
    for job in world.json(&["jobs"]).as_array().unwrap().iter().take(10) {
        assert_eq!(job["files_done"], 0, "{job:#}");
    }
}
