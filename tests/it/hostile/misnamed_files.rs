//! Tests misnamed files, files without content, huge lines, and text with control sequences for terminals.

use std::io::Write;
use std::time::{Duration, Instant};

use vic::model::{ExtractLimits, Reason};

use crate::hostile::bombs::MAX_MIB;
use crate::hostile::extract_with;
use crate::hostile::one_worker_pool;
use crate::hostile::worker_program;
use crate::support::harness::World;

/// The expected result of an extraction.
enum Expected {
    /// The extracted text contains these words.
    Text(&'static str),
    /// The extracted text is empty, or the file is refused as empty.
    Nothing,
    /// The file may be refused for these reasons, or a part of its content is extracted.
    Refused(&'static [Reason]),
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Returns a file that is a PDF by its signature, HTML by its content and a zip by its end.
fn polyglot() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("inside.txt", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"inside").unwrap();
    let zip = zip.finish().unwrap().into_inner();
    [b"%PDF-1.4\n<html><body><p>A page about herons.</p></body></html>\n".to_vec(), zip].concat()
}

fn odd_files() -> Vec<(&'static str, Vec<u8>, Expected)> {
    use Expected::{Nothing, Refused, Text};
    const NONE: &[Reason] = &[Reason::NoText, Reason::Damaged, Reason::Empty, Reason::UnsupportedType];
    let program = std::fs::read("/bin/sh").unwrap();
    let line = "one line of herons ".repeat(4 << 20 >> 4);
    vec![
        ("empty.txt", Vec::new(), Nothing),
        ("empty.pdf", Vec::new(), Refused(NONE)),
        ("empty.docx", Vec::new(), Refused(NONE)),
        ("one.txt", b"x".to_vec(), Text("x")),
        ("mark.txt", b"\xef\xbb\xbf".to_vec(), Nothing),
        ("marked.txt", b"\xef\xbb\xbfherons".to_vec(), Text("herons")),
        ("wide.txt", utf16("The heron stands in the reeds and waits."), Text("heron stands")),
        (
            "wide-reversed.txt",
            utf16("The heron stands in the reeds.").chunks(2).flat_map(|it| [it[1], it[0]]).collect(),
            Text("heron"),
        ),
        ("half.txt", b"herons \xf0\x9f\xa6".to_vec(), Text("herons")),
        ("line.txt", line.into_bytes(), Text("one line of herons")),
        ("page.pdf", b"<html><body><p>A page about herons.</p></body></html>".to_vec(), Text("herons")),
        ("words.docx", b"These are only words about herons.".to_vec(), Text("herons")),
        ("picture.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".to_vec(), Refused(NONE)),
        ("program.txt", program, Refused(NONE)),
        ("polyglot.pdf", polyglot(), Refused(NONE)),
        ("polyglot.zip", polyglot(), Refused(NONE)),
        ("polyglot.html", polyglot(), Refused(NONE)),
    ]
}

// Case C11
#[tokio::test]
async fn file_is_read_by_content_not_by_name() {
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    let mut wrong = Vec::new();
    for (name, bytes, becomes) in odd_files() {
        let begun = Instant::now();
        let outcome = extract_with(&pool, name, &bytes).await.map(|it| it.text());
        let took = begun.elapsed();
        let is_right = match (&outcome, becomes) {
            (Ok(text), Expected::Text(part)) => text.contains(part) && !text.contains(['\0', '\u{feff}']),
            (Ok(text), Expected::Nothing) => text.is_empty(),
            // A polyglot may be extracted as any of its formats, but every extracted word must be in the file.
            (Ok(text), Expected::Refused(_)) => {
                !text.contains('\0')
                    && text.split_whitespace().all(|word| bytes.windows(word.len()).any(|it| it == word.as_bytes()))
            }
            (Err(failed), Expected::Refused(reasons)) => reasons.contains(&failed.reason),
            (Err(failed), Expected::Nothing) => [Reason::NoText, Reason::Empty].contains(&failed.reason),
            (Err(_), Expected::Text(_)) => false,
        };
        if !is_right || took > Duration::from_secs(8) {
            wrong.push(format!("{name}: {outcome:.200?} in {took:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a file of `mib` MiB that is a single line.
fn one_line_file(mib: usize) -> std::fs::File {
    let (mut file, block) = (tempfile::tempfile().unwrap(), "herons ".repeat((1 << 20) / 7 + 1));
    (0..mib).for_each(|_| file.write_all(&block.as_bytes()[..1 << 20]).unwrap());
    file
}

// Case C11
#[tokio::test]
async fn huge_line_is_truncated_and_huge_file_refused() {
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    for name in ["line.txt", "line.json", "line.csv", "line.md", "line.html"] {
        let document = pool.extract(one_line_file(100), name).await;
        let is_cut =
            |it: &vic::model::Document| it.truncated && it.text().len() <= 11 << 20 && it.text().contains("herons");
        // HTML may also fail, because a page is parsed completely or not at all.
        assert!(document.as_ref().is_ok_and(is_cut) || name == "line.html", "{name}: {document:.300?}");
        assert!(pool.peak_mib() <= MAX_MIB, "{name}: {} MiB", pool.peak_mib());
    }
    assert_eq!(pool.extract(one_line_file(1 << 10), "line.txt").await.unwrap_err().reason, Reason::TooLarge);
    assert_eq!(extract_with(&pool, "good.txt", b"words").await.unwrap().text(), "words");
}

/// Invisible characters that control a terminal, the direction of text, or a model.
const CONTROL_CHARACTERS: [char; 6] = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{e0041}'];

// Case C15
#[test]
fn control_characters_are_escaped_in_all_output() {
    let world = World::new().start();
    let orders: String = CONTROL_CHARACTERS.iter().collect();
    let text = format!("The heron {orders}[2J stands {orders}]0;owned{orders} in the reeds.");
    let name = format!("heron{orders}[31m.md");
    let path = world.write(&name, &text);
    world.index();
    let path = path.display().to_string();
    for arguments in [
        &["ask", "heron reeds"][..],
        &["ask", "heron reeds", "--format", "json"],
        &["grep", "reeds"],
        &["files"],
        &["files", "--format", "json"],
        &["read", &path, "--format", "json"],
        &["status"],
        &["corpus", "ingest", &path],
    ] {
        let output = world.vic(arguments);
        let said = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        let obeyed: Vec<char> = CONTROL_CHARACTERS.into_iter().filter(|it| said.contains(*it)).collect();
        assert!(obeyed.is_empty(), "vic {arguments:?}: {obeyed:?} in {said:?}");
    }
    assert!(!world.log().contains(CONTROL_CHARACTERS), "{:?}", world.log());
    // The escaping must keep the text around the control characters.
    let answer = world.json(&["read", &path]);
    assert!(answer.to_string().contains("[2J stands"), "{answer:#}");
}
