//! Files that explode when they are opened: each is refused or cut, soon, within bounds of memory, and with a reason.

use std::io::{Cursor, Write};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use vic::extract::WorkerPool;
use vic::model::{Document, ExtractFailure, ExtractLimits, Reason};
use zip::write::SimpleFileOptions;

use super::pictures::pictures;
use super::{pool, read, worker};
use crate::harness::World;

/// From a file's first byte to its refusal. The promise is 2 s of a release build on a machine at rest.
const SOON: Duration = Duration::from_secs(8);
/// Memory of a worker, whatever it is given.
const MOST_MIB: u64 = 512;
/// The same for a file of at most [`SMALL`] bytes, beyond what a worker takes for a line of text.
const MORE_MIB: u64 = 256;
const SMALL: usize = 10 << 20;

pub(super) struct Bomb {
    name: &'static str,
    bytes: Vec<u8>,
    /// Reasons it may be refused for; none when it must be read, whole or in part.
    refused: &'static [Reason],
}

pub(super) fn bomb(name: &'static str, bytes: Vec<u8>, refused: &'static [Reason]) -> Bomb {
    Bomb { name, bytes, refused }
}

/// Zips parts, of which one ends in so many MiB of the same bytes.
fn container(parts: &[(&str, &str)], (large, head, fill, mib): (&str, &str, &str, usize)) -> Vec<u8> {
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
    container(&[("[Content_Types].xml", TYPES), ("_rels/.rels", ROOT)], ("word/document.xml", body, " ", 0))
}

const TYPES: &str = r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml"
    ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"#;
const ROOT: &str =
    r#"<Relationships><Relationship Id="r" Type="x/officeDocument" Target="word/document.xml"/></Relationships>"#;
const WORKBOOK: &str = r#"<workbook xmlns:r="r"><sheets><sheet name="A" sheetId="1" r:id="rId1"/></sheets></workbook>"#;

fn office() -> Vec<Bomb> {
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
            container(&sheet, ("xl/worksheets/sheet1.xml", "<worksheet><sheetData>", "<row/>", 512)),
            limit,
        ),
        bomb(
            "text.docx",
            container(&[("_rels/.rels", ROOT)], ("word/document.xml", "<w:document>", "<w:p/>  ", 2_048)),
            limit,
        ),
        bomb("parts.pptx", container(&empty, ("ppt/last.xml", "", " ", 0)), limit),
        bomb("tables.docx", docx(&format!("<w:document><w:body>{tables}")), &[Reason::TooDeep]),
        bomb("laughs.docx", docx(&laughs), &[]),
        bomb("outside.docx", docx(outside), &[]),
    ]
}

fn nested() -> Vec<Bomb> {
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
        bomb(
            "uses.svg",
            [b"<svg xmlns:xlink=\"x\">".to_vec(), b"<use xlink:href=\"file:///etc/passwd\"/>".repeat(100_000)].concat(),
            &[Reason::NoText],
        ),
    ]
}

fn packed() -> Vec<Bomb> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    (0..1_024).for_each(|_| gzip.write_all(&[b'0'; 1 << 20]).unwrap());
    let limit = &[Reason::DecompressionLimit];
    vec![
        // A stream may hold a whole archive, and is inflated in one piece: whichever bound comes first.
        bomb("zeros.gz", gzip.finish().unwrap(), &[Reason::DecompressionLimit, Reason::OutOfMemory]),
        bomb("overlap.zip", overlapping(), limit),
        bomb("matryoshka.zip", matryoshka(), &[Reason::TooDeep, Reason::DecompressionLimit]),
    ]
}

/// A zip of which 500 entries are one and the same compressed megabytes.
fn overlapping() -> Vec<u8> {
    let mut bytes = container(&[], ("a.txt", "", "word ", 60));
    let at = |sign: &[u8], bytes: &[u8]| bytes.windows(4).rposition(|it| it == sign).unwrap();
    let (central, end) = (at(b"PK\x01\x02", &bytes), at(b"PK\x05\x06", &bytes));
    let (record, mut tail) = (bytes[central..end].to_vec(), bytes[end..].to_vec());
    bytes.truncate(central);
    (0..500).for_each(|_| bytes.extend(&record));
    for place in [8, 10] {
        tail[place..place + 2].copy_from_slice(&500u16.to_le_bytes());
    }
    tail[12..16].copy_from_slice(&(500 * record.len() as u32).to_le_bytes());
    bytes.extend(tail);
    bytes
}

/// Zips in zips, six deep and ten wide, 10 MiB in each of the last.
fn matryoshka() -> Vec<u8> {
    let mut inner = container(&[], ("zeros.txt", "", "0", 10));
    for _ in 0..6 {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in 0..10 {
            writer.start_file(format!("{name}.zip"), SimpleFileOptions::default()).unwrap();
            writer.write_all(&inner).unwrap();
        }
        inner = writer.finish().unwrap().into_inner();
    }
    inner
}

/// A PDF of these objects, with a trailer.
pub(super) fn pdf(objects: &[&str], trailer: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
    }
    let start = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    places.iter().for_each(|it| bytes.extend(format!("{it:010} 00000 n \n").bytes()));
    bytes.extend(
        format!("trailer\n<</Root 1 0 R {}>>\nstartxref\n{start}\n%%EOF", trailer.replace("START", &start.to_string()))
            .bytes(),
    );
    bytes
}

fn documents() -> Vec<Bomb> {
    let root = "<</Type/Catalog/Pages 2 0 R>>";
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>";
    let pages = "<</Type/Pages/Count 1/Kids[3 0 R]>>";
    let bad =
        &[Reason::Damaged, Reason::NoText, Reason::Timeout, Reason::OutOfMemory, Reason::WorkerCrash, Reason::TooDeep];
    let many = format!("<</Type/Pages/Count 1000000/Kids[{}]>>", "3 0 R ".repeat(1_000_000));
    let inline = "<</Length 40>>stream\nBI /W 60000 /H 60000 /BPC 8 ID xxxxxxxx EI\nendstream";
    let widths = b"%PDF-1.5\n1 0 obj\n<</Type/XRef/Size 9/W[2147483647 2147483647 2147483647]/Root 1 0 R/Length 3>>stream\nabc\nendstream\nendobj\nstartxref\n9\n%%EOF".to_vec();
    // Nothing of it is run, fetched or opened: it is read as the one page that it has.
    let script = [
        "<</Type/Catalog/Pages 2 0 R/OpenAction 5 0 R/Names<</EmbeddedFiles<</Names[(a)6 0 R]>>>>>>",
        pages,
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Annots[<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/GoToR/F(http://127.0.0.1:9/x.pdf)/D[0/Fit]>>>>]>>",
        "<</Length 0>>stream\n\nendstream",
        "<</S/JavaScript/JS(app.launchURL\\('http://127.0.0.1:9/'\\))/Next<</S/Launch/F(/bin/sh)>>>>",
        "<</Type/Filespec/F(/etc/passwd)>>",
    ];
    let lock = "<</Filter/Standard/V 1/R 2/P -4/O<0000000000000000000000000000000000000000000000000000000000000000>\
        /U<1111111111111111111111111111111111111111111111111111111111111111>>>";
    let locked = &[Reason::Encrypted];
    let arrays = format!("<</Length 300000>>stream\n{}\nendstream", "[".repeat(300_000));
    vec![
        bomb("loop.pdf", pdf(&[root, pages, page, "<<>>"], "/Size 5/Prev START"), bad),
        bomb("cycle.pdf", pdf(&[root, "<</Type/Pages/Count 2/Kids[2 0 R 2 0 R]>>"], "/Size 3"), bad),
        bomb("size.pdf", pdf(&[root, pages, page, "<<>>"], "/Size 1000000000"), bad),
        bomb("count.pdf", pdf(&[root, "<</Type/Pages/Count 2147483647/Kids[3 0 R]>>", page, "<<>>"], "/Size 5"), bad),
        bomb("arrays.pdf", pdf(&[root, pages, page, &arrays], "/Size 5"), bad),
        bomb("dicts.pdf", pdf(&[root, pages, &"<</A".repeat(100_000)], "/Size 4"), bad),
        bomb("million.pdf", pdf(&[root, &many, page, "<<>>"], "/Size 5"), bad),
        bomb("inline.pdf", pdf(&[root, pages, page, inline], "/Size 5"), bad),
        bomb("widths.pdf", widths, bad),
        bomb("script.pdf", pdf(&script, "/Size 7"), &[]),
        bomb("locked.pdf", pdf(&[root, pages, page, "<<>>", lock], "/Size 6/Encrypt 5 0 R/ID[<00><00>]"), locked),
    ]
}

fn is_contained(bomb: &Bomb, outcome: &Result<Document, ExtractFailure>) -> bool {
    match outcome {
        // What is read must be what stands there, and bounded.
        Ok(document) => {
            let text = document.text();
            let refused_at_all =
                bomb.refused.iter().all(|it| !matches!(it, Reason::DecompressionLimit | Reason::TooLarge));
            refused_at_all && text.len() < 20 << 20 && !text.contains("lollol") && !text.contains("root:")
        }
        Err(failed) => bomb.refused.contains(&failed.reason),
    }
}

fn bombs() -> Vec<Bomb> {
    [office(), nested(), packed(), pictures(), documents()].into_iter().flatten().collect()
}

#[tokio::test]
async fn bombs_are_refused_soon_and_within_bounds_of_memory() {
    let mut wrong = Vec::new();
    let usual = {
        let pool = pool(worker(), ExtractLimits::default());
        still_reads(&pool).await;
        pool.peak_mib()
    };
    for bomb in bombs() {
        let pool = pool(worker(), ExtractLimits { seconds: 20, ..ExtractLimits::default() });
        let begun = Instant::now();
        let outcome = read(&pool, bomb.name, &bomb.bytes).await;
        let (took, peak) = (begun.elapsed(), pool.peak_mib());
        let came =
            outcome.as_ref().map_or_else(|it| it.reason.name().to_string(), |it| format!("{} bytes", it.text().len()));
        println!("{:16} {:>9} bytes  {:>6} ms  {peak:>4} MiB  {came}", bomb.name, bomb.bytes.len(), took.as_millis());
        let most = if bomb.bytes.len() <= SMALL { MOST_MIB.min(usual + MORE_MIB) } else { MOST_MIB };
        if !is_contained(&bomb, &outcome) || took > SOON || peak > most {
            wrong.push(format!("{}: {outcome:.300?} in {took:?}, {peak} MiB", bomb.name));
        }
        still_reads(&pool).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn still_reads(pool: &WorkerPool) {
    assert_eq!(read(pool, "good.txt", b"words").await.unwrap().text(), "words");
}

#[test]
fn bombs_cost_the_daemon_and_the_good_files_nothing_and_are_not_tried_again() {
    let mut world = World::new().start();
    let bombs = bombs();
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
    // Another run, and another daemon, leave alone what failed.
    world.index();
    assert!(world.terminate());
    world.spawn();
    world.index();
    for job in world.json(&["jobs"]).as_array().unwrap().iter().take(2) {
        assert_eq!(job["files_done"], 0, "{job:#}");
    }
}
