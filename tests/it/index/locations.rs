//! Tests that every sentence is found with its page, slide, frame, sheet and row, chapter, part and line, even where several
//! share a chunk. Generated documents of each format with known locations go through a real daemon.

mod documents;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::harness::World;
use crate::support::long_tests::figure;

/// The location of a sentence, with the fields that the format of the document defines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExpectedLocation {
    pub(crate) page: Option<u64>,
    pub(crate) sheet: Option<String>,
    pub(crate) row: Option<u64>,
    pub(crate) part: Option<String>,
    pub(crate) member: Option<String>,
    pub(crate) line: Option<u64>,
}

/// A generated document, with its sentences and their known locations.
pub(crate) struct TestDocument {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sentences: Vec<(String, ExpectedLocation)>,
    /// Sentences that are titles or headings of the document.
    pub(crate) headings: Vec<String>,
}

/// The phrase that all sentences contain, so that one search finds all.
pub(crate) const COMMON_PHRASE: &str = "keeps the letter of";

/// The first and the second varying word of a sentence. No two sentences of a document share both words.
const FIRST: [&str; 24] = [
    "heron", "walnut", "copper", "lantern", "meadow", "harbor", "violin", "marble", "pepper", "castle", "rocket",
    "garden", "silver", "window", "basket", "thunder", "blanket", "kettle", "falcon", "orchid", "pencil", "saddle",
    "tunnel", "velvet",
];
const SECOND: [&str; 17] = [
    "Oswald",
    "Bertram",
    "Cecilia",
    "Dorothea",
    "Emmerich",
    "Florence",
    "Gustav",
    "Hedwig",
    "Isidore",
    "Josephine",
    "Konrad",
    "Leopold",
    "Mathilda",
    "Norbert",
    "Ottilie",
    "Philippa",
    "Rudolf",
];

/// Returns the sentence with this number, which is unique in its document.
pub(crate) fn sentence(number: usize) -> String {
    format!("The {} {COMMON_PHRASE} {}.", FIRST[number % FIRST.len()], SECOND[number % SECOND.len()])
}

/// Returns the location in the anchor of a grep match or of a hit.
fn anchor_location(anchor: &Value, truth: &ExpectedLocation) -> ExpectedLocation {
    let number = |name: &str| anchor[name].as_u64();
    let text = |name: &str| anchor[name].as_str().map(String::from);
    let row = |cell: &str| {
        let ends: Vec<u64> =
            cell.split(':').map(|it| it.trim_start_matches(char::is_alphabetic).parse().unwrap()).collect();
        (ends[0] == ends[ends.len() - 1]).then_some(ends[0])
    };
    // Compares lines only for formats with lines. An anchor that spans several lines counts as having no line.
    let line = number("line_start").filter(|it| number("line_end") == Some(*it));
    ExpectedLocation {
        page: number("page"),
        sheet: text("sheet"),
        row: anchor["cell"].as_str().and_then(row),
        part: text("part"),
        member: text("member"),
        line: line.filter(|_| truth.line.is_some()),
    }
}

/// Starts a daemon and indexes these documents.
fn indexed_world(documents: &[TestDocument]) -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    for it in documents {
        world.write(it.name, &it.bytes);
    }
    world.index();
    world.wait_until("all documents are indexed with vectors", Duration::from_secs(120), |it| {
        let coverage = it.json(&["status"])["coverage"].clone();
        coverage["pending"] == 0 && coverage["awaiting_vectors"] == 0
    });
    let coverage = world.json(&["status"])["coverage"].clone();
    assert_eq!(coverage["indexed"].as_u64(), Some(documents.len() as u64), "{coverage:#}\n{}", world.log());
    world
}

/// Returns the name of the file in the path of a grep match or of a hit, without the archive member.
fn file_of(path: &str) -> &str {
    path.split("!/").next().unwrap_or(path)
}

/// Asserts that grep finds every sentence once, with its known location.
fn check_grep(world: &World, documents: &[TestDocument]) {
    let found = world.json(&["grep", "-F", COMMON_PHRASE, "--limit", "10000"]);
    let matches = found["matches"].as_array().unwrap();
    for document in documents {
        let own: Vec<&Value> =
            matches.iter().filter(|it| file_of(it["path"].as_str().unwrap()) == document.name).collect();
        let mut wrong = Vec::new();
        for (sentence, truth) in &document.sentences {
            let places: Vec<ExpectedLocation> = own
                .iter()
                .filter(|it| it["line"].as_str().unwrap().contains(sentence))
                .map(|it| anchor_location(&it["anchor"], truth))
                .collect();
            if places != [truth.clone()] {
                wrong.push(format!("{sentence} is at {truth:?}, not {places:?}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{}: {} of {}\n{}",
            document.name,
            wrong.len(),
            document.sentences.len(),
            wrong.join("\n")
        );
        figure("sentences with a correct location", format!("{}: {} of {0}", document.sentences.len(), document.name));
    }
}

/// Asks for every `step`-th sentence, and asserts that the hit and the quotes have the known locations.
fn check_ask(world: &World, documents: &[TestDocument], step: usize) {
    let mut wrong = Vec::new();
    for document in documents {
        let truths: HashMap<&str, &ExpectedLocation> =
            document.sentences.iter().map(|(it, truth)| (it.as_str(), truth)).collect();
        // Skips titles and headings, which are shown as context and never quoted.
        let asked = document.sentences.iter().step_by(step).filter(|(it, _)| !document.headings.contains(it));
        for (sentence, truth) in asked {
            let answer = world.json(&["ask", &format!("{sentence} path:{}", document.name)]);
            let hit = &answer["hits"][0];
            let excerpt = hit["excerpt"].as_str().unwrap_or_default().replace('\n', " ");
            if !excerpt.contains(sentence.as_str()) {
                wrong.push(format!("{}: {sentence} is not shown, but: {excerpt}", document.name));
            }
            let anchor = &hit["metadata"]["anchor"];
            let shown = truths.iter().filter(|(it, _)| excerpt.contains(**it));
            for (other, place) in shown {
                if anchor["page"].as_u64() != place.page || anchor["sheet"].as_str() != place.sheet.as_deref() {
                    wrong.push(format!("{}: {other} is shown at {anchor}", document.name));
                }
            }
            let summary = answer["answer_summary"].as_str().unwrap_or_default();
            let quoted = summary.lines().find(|it| it.contains(sentence.as_str()));
            let place = truth.page.map(|it| format!("page {it}"));
            let place =
                place.or_else(|| truth.sheet.as_ref().map(|it| format!("sheet {it}, A{}:", truth.row.unwrap())));
            let place = place.or_else(|| truth.part.clone()).or_else(|| truth.line.map(|it| format!("line {it}")));
            let place = format!(", {}", place.unwrap_or_default());
            let is_told = |line: &str| {
                let at = line.find(&place).map(|it| it + place.len());
                at.is_some_and(|it| !line[it..].starts_with(|it: char| it.is_ascii_digit() || it == '-'))
            };
            if !quoted.is_some_and(is_told) {
                wrong.push(format!("{}: {sentence} at {truth:?} is quoted as: {summary}", document.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns two documents of a format: one with many short pages that share a chunk, one with long pages of several chunks.
fn short_and_long(
    of: impl Fn(&'static str, &[usize]) -> TestDocument,
    short: &'static str,
    long: &'static str,
) -> [TestDocument; 2] {
    let alternating: Vec<usize> = (0..40).map(|it| 1 + it % 3).collect();
    [of(short, &alternating), of(long, &[60, 1, 2, 90, 1, 50])]
}

#[test]
fn pdf_sentences_map_to_pages() {
    let documents = short_and_long(documents::pdf, "short.pdf", "long.pdf");
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 9);
}

#[test]
fn presentation_sentences_map_to_slides() {
    let documents: Vec<TestDocument> = short_and_long(documents::pptx, "short.pptx", "long.pptx")
        .into_iter()
        .chain(short_and_long(documents::odp, "short.odp", "long.odp"))
        .collect();
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 17);
}

#[test]
fn spreadsheet_rows_map_to_sheet_and_cells() {
    let documents: Vec<TestDocument> = short_and_long(documents::xlsx, "short.xlsx", "long.xlsx")
        .into_iter()
        .chain(short_and_long(documents::ods, "short.ods", "long.ods"))
        .collect();
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 17);
}

#[test]
fn ebook_sentences_map_to_chapters() {
    let documents = short_and_long(documents::epub, "short.epub", "long.epub");
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 9);
}

#[test]
fn text_sentences_map_to_lines_and_parts() {
    let documents = [
        documents::markdown(),
        documents::text(),
        documents::csv(),
        documents::subtitles(),
        documents::notebook(),
        documents::mail(),
        documents::archive(),
    ];
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 11);
}

#[test]
fn tiff_sentences_map_to_pages() {
    let documents = [documents::tiff("fax.tiff", &[1, 2, 1, 3, 1, 1, 2, 1])];
    let world = indexed_world(&documents);
    check_grep(&world, &documents);
    check_ask(&world, &documents, 3);
}

/// Returns the path of the PDF library, with which tests render pages.
pub(crate) fn pdfium_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/cache/lib/libpdfium.so")
}
