//! Tests external references in documents: vic must not open a file or address that an entity, link or form refers to.

use std::net::TcpListener;

use vic::model::ExtractLimits;

use crate::hostile::bombs::docx;
use crate::hostile::extract_with;
use crate::hostile::one_worker_pool;
use crate::hostile::pdf_bombs::pdf;
use crate::hostile::pdf_bombs::pdf_with_references_to;
use crate::hostile::picture_bombs::jpeg_with_metadata;
use crate::hostile::worker_program;

/// Content of the file that the documents refer to. Must not appear in any extracted text.
const CANARY: &str = "bittern4711";

/// Returns XML that refers to an external file or address by an entity.
fn xml_with_entity(name: &str, place: &str, body: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><!DOCTYPE {name} [<!ENTITY % p SYSTEM \"{place}\"> %p; <!ENTITY x SYSTEM \"{place}\">]>{body}"
    )
}

/// Returns two XML texts: one expands an entity 10^10 times, the other repeats a long entity.
fn xml_expansions(name: &str, body: &str) -> [String; 2] {
    let tenfold: String =
        (1..11).map(|it| format!("<!ENTITY l{it} \"{}\">", format!("&l{};", it - 1).repeat(10))).collect();
    let long = "lol".repeat(30_000);
    [
        format!("<?xml version=\"1.0\"?><!DOCTYPE {name} [<!ENTITY l0 \"lol\">{tenfold}<!ENTITY x \"&l10;\">]>{body}"),
        format!(
            "<?xml version=\"1.0\"?><!DOCTYPE {name} [<!ENTITY x \"{long}\">]>{}",
            body.replace("&x;", &"&x;".repeat(9_000))
        ),
    ]
}

const WORD: &str = "<w:document><w:body><w:p><w:r><w:t>see &x;</w:t></w:r></w:p></w:body></w:document>";
const SVG: &str =
    "<svg xmlns:xlink=\"x\"><text>see &x;</text><image xlink:href=\"PLACE\"/><use href=\"PLACE#a\"/></svg>";
const XMP: &str = "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF><rdf:Description><dc:title>see &x;</dc:title></rdf:Description></rdf:RDF></x:xmpmeta>";
const XFA: &str = "<xdp:xdp xmlns:xdp=\"http://ns.adobe.com/xdp/\"><template><field><value><text>see &x;</text></value></field></template></xdp:xdp>";

/// Returns a PDF with an XML stream in its catalog, as metadata or as an XFA form.
fn pdf_with(key: &str, xml: &str) -> Vec<u8> {
    let named = match key {
        "XFA" => "/AcroForm<</Fields[]/XFA 5 0 R>>",
        _ => "/Metadata 5 0 R",
    };
    let root = format!("<</Type/Catalog/Pages 2 0 R{named}>>");
    let stream = format!("<</Type/Metadata/Subtype/XML/Length {}>>stream\n{xml}\nendstream", xml.len());
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>";
    pdf(
        &[root.as_str(), "<</Type/Pages/Count 1/Kids[3 0 R]>>", page, "<</Length 0>>stream\n\nendstream", &stream],
        "/Size 6",
    )
}

/// Returns one document of every format that is XML or contains XML, with the XML that `make` returns.
fn documents(make: &dyn Fn(&str, &str) -> String) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a.docx", docx(&make("w:document", WORD))),
        ("a.svg", make("svg", SVG).into_bytes()),
        ("a.xml", make("a", "<a>see &x;</a>").into_bytes()),
        ("a.html", make("html", "<html><body>see &x; <iframe src=\"PLACE\"></iframe></body></html>").into_bytes()),
        (
            "xmp.jpg",
            jpeg_with_metadata(
                &[b"http://ns.adobe.com/xap/1.0/\0".to_vec(), make("x:xmpmeta", XMP).into_bytes()].concat(),
            ),
        ),
        ("xmp.pdf", pdf_with("Metadata", &make("x:xmpmeta", XMP))),
        ("xfa.pdf", pdf_with("XFA", &make("xdp:xdp", XFA))),
    ]
}

// Cases C4, C6, C8
#[tokio::test]
async fn external_references_read_no_file_and_reach_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canary.txt");
    std::fs::write(&file, CANARY).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let places = [format!("file://{}", file.display()), format!("http://{}/canary", server.local_addr().unwrap())];
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    for place in &places {
        let reaching = [("reaching.pdf", pdf_with_references_to(place))];
        for (name, bytes) in documents(&|name, body| xml_with_entity(name, place, body).replace("PLACE", place))
            .into_iter()
            .chain(reaching)
        {
            let text = extract_with(&pool, name, &bytes).await.map(|it| it.text()).unwrap_or_default();
            assert!(!text.contains(CANARY), "{name} of {place}: {text}");
        }
    }
    let asked = server.accept().unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(extract_with(&pool, "good.txt", b"words").await.unwrap().text(), "words");
}

// Case C4
#[tokio::test]
async fn entity_expansion_does_not_multiply_text() {
    let pool = one_worker_pool(worker_program(), ExtractLimits { seconds: 20, ..ExtractLimits::default() });
    for which in 0..2 {
        // Skips JPEG for the long entity, because a metadata segment of a JPEG image holds at most 64 KiB.
        let documents = documents(&|name, body| xml_expansions(name, body)[which].clone());
        for (name, bytes) in documents.into_iter().filter(|(name, _)| which == 0 || !name.ends_with("jpg")) {
            let text = extract_with(&pool, name, &bytes).await.map(|it| it.text()).unwrap_or_default();
            // A format whose source is the extracted text may contain that source once.
            assert!(text.len() < 1 << 20, "{name}: {} bytes", text.len());
            assert!(pool.peak_mib() <= 512, "{name}: {} MiB", pool.peak_mib());
        }
    }
}
