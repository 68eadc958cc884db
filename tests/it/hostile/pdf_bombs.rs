//! PDF bombs with reference cycles, false numbers and expanding streams, and PDFs with external references.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use vic::model::{ExtractLimits, Reason};

use crate::hostile::bombs::Bomb;
use crate::hostile::bombs::bomb;
use crate::hostile::extract_with;
use crate::hostile::one_worker_pool;
use crate::hostile::worker_program;

const ROOT: &str = "<</Type/Catalog/Pages 2 0 R>>";
const PAGES: &str = "<</Type/Pages/Count 1/Kids[3 0 R]>>";
const PAGE: &str = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>";
/// A page that shows the text stream in object 4, with the font that the page defines.
const TEXT_PAGE: &str = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R\
    /Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>";

/// Object 4: a stream that draws three words.
const TEXT_CONTENT: &str = "<</Length 46>>stream\nBT /F 12 Tf 50 700 Td (The heron stands) Tj ET\nendstream";

const BAD_REASONS: &[Reason] =
    &[Reason::Damaged, Reason::NoText, Reason::Timeout, Reason::OutOfMemory, Reason::WorkerCrash, Reason::TooDeep];

/// Builds a PDF from objects and a trailer. `START` in the trailer becomes the offset of the cross-reference table.
pub(super) fn pdf<T: AsRef<[u8]>>(objects: &[T], trailer: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object.as_ref());
        bytes.extend(b"\nendobj\n");
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

pub(super) fn pdf_bombs() -> Vec<Bomb> {
    [cyclic_pdfs(), expanding_pdfs(), external_pdfs()].into_iter().flatten().collect()
}

fn cyclic_pdfs() -> Vec<Bomb> {
    let inline = "<</Length 40>>stream\nBI /W 60000 /H 60000 /BPC 8 ID xxxxxxxx EI\nendstream";
    let widths = b"%PDF-1.5\n1 0 obj\n<</Type/XRef/Size 9/W[2147483647 2147483647 2147483647]/Root 1 0 R/Length 3>>stream\nabc\nendstream\nendobj\nstartxref\n9\n%%EOF".to_vec();
    let arrays = format!("<</Length 300000>>stream\n{}\nendstream", "[".repeat(300_000));
    vec![
        bomb("loop.pdf", pdf(&[ROOT, PAGES, PAGE, "<<>>"], "/Size 5/Prev START"), BAD_REASONS),
        bomb("cycle.pdf", pdf(&[ROOT, "<</Type/Pages/Count 2/Kids[2 0 R 2 0 R]>>"], "/Size 3"), BAD_REASONS),
        bomb("size.pdf", pdf(&[ROOT, PAGES, PAGE, "<<>>"], "/Size 1000000000"), BAD_REASONS),
        bomb(
            "count.pdf",
            pdf(&[ROOT, "<</Type/Pages/Count 2147483647/Kids[3 0 R]>>", PAGE, "<<>>"], "/Size 5"),
            BAD_REASONS,
        ),
        bomb("arrays.pdf", pdf(&[ROOT, PAGES, PAGE, &arrays], "/Size 5"), BAD_REASONS),
        bomb("dicts.pdf", pdf(&[ROOT, PAGES, &"<</A".repeat(100_000)], "/Size 4"), BAD_REASONS),
        bomb("inline.pdf", pdf(&[ROOT, PAGES, PAGE, inline], "/Size 5"), BAD_REASONS),
        bomb("widths.pdf", widths, BAD_REASONS),
    ]
}

/// Returns a stream of `head` and `mib` MiB of `fill`, compressed `rounds` times.
fn compressed_stream(filters: &str, rounds: usize, head: &str, (fill, mib): (&str, usize)) -> Vec<u8> {
    let block = fill.repeat((1 << 20) / fill.len());
    let mut writer = ZlibEncoder::new(Vec::new(), Compression::best());
    writer.write_all(head.as_bytes()).unwrap();
    (0..mib).for_each(|_| writer.write_all(block.as_bytes()).unwrap());
    let mut packed = writer.finish().unwrap();
    for _ in 1..rounds {
        let mut writer = ZlibEncoder::new(Vec::new(), Compression::best());
        writer.write_all(&packed).unwrap();
        packed = writer.finish().unwrap();
    }
    let start = format!("<</Length {}/Filter[{filters}]>>stream\n", packed.len());
    [start.as_bytes(), &packed, b"\nendstream"].concat()
}

/// Returns a PDF page that draws `mib` MiB of letters from a few kilobytes.
fn pdf_with_letters(mib: usize) -> Vec<u8> {
    let line = format!("({}) Tj T*\n", "heron ".repeat(14));
    let content = compressed_stream("/FlateDecode", 1, "BT /F 1 Tf 1 TL 9 790 Td\n", (&line, mib));
    pdf(&[ROOT.as_bytes(), PAGES.as_bytes(), TEXT_PAGE.as_bytes(), &content], "/Size 5")
}

fn expanding_pdfs() -> Vec<Bomb> {
    let many = format!("<</Type/Pages/Count 1000000/Kids[{}]>>", "3 0 R ".repeat(1_000_000));
    let blanks = |filters: &str, rounds: usize| {
        let content = compressed_stream(filters, rounds, "", (" ", 1_536));
        pdf(&[ROOT.as_bytes(), PAGES.as_bytes(), PAGE.as_bytes(), &content], "/Size 5")
    };
    vec![
        bomb("million.pdf", pdf(&[ROOT, &many, PAGE, "<<>>"], "/Size 5"), BAD_REASONS),
        Bomb::truncated("written-million.pdf", pdf(&[ROOT, &many, TEXT_PAGE, TEXT_CONTENT], "/Size 5")),
        // The text of a page is held in memory as a whole, so a page with too many letters is refused.
        Bomb::containing("glyphs.pdf", pdf_with_letters(1), "heron heron"),
        bomb("more-glyphs.pdf", pdf_with_letters(100), BAD_REASONS),
        bomb("blanks.pdf", blanks("/FlateDecode", 1), BAD_REASONS),
        bomb("twice-packed.pdf", blanks("/FlateDecode/FlateDecode", 2), BAD_REASONS),
    ]
}

/// PDFs with external actions, and an encrypted PDF. Nothing may be executed, fetched or opened.
fn external_pdfs() -> Vec<Bomb> {
    let lock = "<</Filter/Standard/V 1/R 2/P -4/O<0000000000000000000000000000000000000000000000000000000000000000>\
        /U<1111111111111111111111111111111111111111111111111111111111111111>>>";
    let locked = pdf(&[ROOT, PAGES, PAGE, "<<>>", lock], "/Size 6/Encrypt 5 0 R/ID[<00><00>]");
    vec![
        Bomb::containing("script.pdf", pdf_with_references_to("http://127.0.0.1:9/x"), "The heron"),
        bomb("locked.pdf", locked, &[Reason::Encrypted]),
    ]
}

/// Returns a PDF that refers to `place` in every possible way: by script, open action, link into another document, form,
/// external attachment, and external image.
pub(super) fn pdf_with_references_to(place: &str) -> Vec<u8> {
    let link = |action: &str| format!("<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<<{action}>>>>");
    let links = [
        format!("/S/GoToR/F({place})/D[0/Fit]"),
        format!("/S/GoToE/F({place})/T<</R/C/N(a)>>"),
        format!("/S/URI/URI({place})"),
        format!("/S/Launch/F({place})"),
        format!("/S/SubmitForm/F<</FS/URL/F({place})>>/Flags 4"),
        format!("/S/ImportData/F({place})"),
    ];
    let page = format!(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/AA<</O<</S/URI/URI({place})>>>>\
         /Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</X 7 0 R>>>>/Annots[{}]>>",
        links.map(|it| link(&it)).concat()
    );
    let root = "<</Type/Catalog/Pages 2 0 R/OpenAction 5 0 R/Names<</EmbeddedFiles<</Names[(a)6 0 R]>>>>>>";
    let script = format!(
        "<</S/JavaScript/JS(app.launchURL\\('{place}'\\); this.submitForm\\('{place}'\\))/Next<</S/Launch/F({place})>>>>"
    );
    let attached = format!("<</Type/Filespec/FS/URL/F({place})/EF<</F 8 0 R>>>>");
    let picture = format!(
        "<</Type/XObject/Subtype/Image/Width 9/Height 9/BitsPerComponent 8/ColorSpace/DeviceGray/F<</FS/URL/F({place})>>/Length 0>>stream\n\nendstream"
    );
    let inside = "<</Type/EmbeddedFile/Length 4>>stream\nMZ\0\0\nendstream";
    pdf(&[root, PAGES, &page, TEXT_CONTENT, &script, &attached, &picture, inside], "/Size 9")
}

// Case C6
#[tokio::test]
async fn pdf_text_is_truncated_at_text_limit() {
    let pool = one_worker_pool(worker_program(), ExtractLimits { text_bytes: 100_000, ..ExtractLimits::default() });
    let many = format!("<</Type/Pages/Count 1000000/Kids[{}]>>", "3 0 R ".repeat(1_000_000));
    let content = format!("BT /F 1 Tf 1 TL 9 790 Td\n{} ET", "(heron heron heron) Tj T*\n".repeat(1_000));
    let content = format!("<</Length {}>>stream\n{content}\nendstream", content.len());
    let document = extract_with(&pool, "a.pdf", &pdf(&[ROOT, &many, TEXT_PAGE, &content], "/Size 5")).await.unwrap();
    assert!(document.truncated && document.pages == Some(1_000_000), "{:?}", document.pages);
    assert!((90_000..120_000).contains(&document.text().len()), "{} bytes", document.text().len());
}
