//! Generates seeds in archive formats and in document formats that are archives.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::CompressionMethod::{Deflated, Stored};
use zip::write::SimpleFileOptions;

use crate::support::seeds::SENTENCE;
use crate::support::seeds::Seed;
use crate::support::seeds::seed;

pub(super) fn zipped() -> Vec<Seed> {
    let text = tarred();
    let drawing = format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><text>{SENTENCE}</text></svg>");
    vec![
        seed("letter.docx", word("document")),
        seed("letter.docm", word("document.macroEnabled")),
        seed("talk.pptx", slides()),
        seed("table.xlsx", workbook()),
        seed("table.xlsb", binary_workbook()),
        seed(
            "letter.odt",
            open_document("text", "<text:h text:outline-level=\"1\">Reeds</text:h><text:p>SENTENCE</text:p>"),
        ),
        seed(
            "table.ods",
            open_document(
                "spreadsheet",
                "<table:table table:name=\"Reeds\"><table:table-row><table:table-cell table:number-columns-repeated=\"2\"><text:p>SENTENCE</text:p></table:table-cell></table:table-row></table:table>",
            ),
        ),
        seed("talk.odp", open_document("presentation", TEXT_BOX_PAGE)),
        seed("drawing.odg", open_document("graphics", TEXT_BOX_PAGE)),
        seed("book.epub", book()),
        seed("pack.zip", zip(&[("in/a.txt", SENTENCE.as_bytes()), ("b.csv", b"a,b\n")])),
        seed("pack.tar", text.clone()),
        seed("pack.tgz", gzipped(&text)),
        seed("log.txt.gz", gzipped(SENTENCE.as_bytes())),
        seed("drawing.svgz", gzipped(drawing.as_bytes())),
    ]
}

/// Returns a zip archive with these files. A first file named `mimetype` is stored uncompressed.
pub(crate) fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        let method = if *name == "mimetype" { Stored } else { Deflated };
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn tarred() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in [("in/a.txt", SENTENCE), ("b.csv", "a,b\n1,2\n")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Returns an Office Open XML package: content types, relationships, and these parts.
pub(crate) fn office(main: &str, kind: &str, parts: &[(&str, &[u8])]) -> Vec<u8> {
    let types = format!(
        "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\"><Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/><Override PartName=\"/{main}\" ContentType=\"{kind}\"/></Types>"
    );
    let root = relations(&[("officeDocument", main), ("core-properties", "docProps/core.xml")]);
    let core =
        "<cp:coreProperties xmlns:dc=\"d\"><dc:title>Reeds</dc:title><dc:creator>Ann</dc:creator></cp:coreProperties>";
    let first = [("[Content_Types].xml", types.as_bytes()), ("_rels/.rels", root.as_bytes())];
    zip(&[&first, parts, &[("docProps/core.xml", core.as_bytes())]].concat())
}

/// Returns a relationships part with these types and targets, with the ids `rId1`, `rId2` and so on.
pub(crate) fn relations(all: &[(&str, &str)]) -> String {
    let line = |(number, (kind, target)): (usize, &(&str, &str))| {
        let number = number + 1;
        format!(
            "<Relationship Id=\"rId{number}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}\" Target=\"{target}\"/>"
        )
    };
    let lines: String = all.iter().enumerate().map(line).collect();
    format!(
        "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{lines}</Relationships>"
    )
}

fn word(kind: &str) -> Vec<u8> {
    let body = format!(
        "<w:document xmlns:w=\"w\"><w:body><w:p><w:pPr><w:pStyle w:val=\"H1\"/></w:pPr><w:r><w:t>Reeds</w:t></w:r></w:p><w:p><w:pPr><w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"1\"/></w:numPr></w:pPr><w:r><w:t>{SENTENCE}</w:t></w:r><w:r><w:footnoteReference w:id=\"2\"/></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"
    );
    let beside = relations(&[("styles", "styles.xml"), ("numbering", "numbering.xml"), ("footnotes", "footnotes.xml")]);
    let kind = format!("application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}.main+xml");
    office(
        "word/document.xml",
        &kind,
        &[
            ("word/document.xml", body.as_bytes()),
            ("word/_rels/document.xml.rels", beside.as_bytes()),
            ("word/styles.xml", b"<w:styles><w:style w:styleId=\"H1\"><w:name w:val=\"heading 1\"/></w:style></w:styles>"),
            (
                "word/numbering.xml",
                b"<w:numbering><w:abstractNum w:abstractNumId=\"0\"><w:lvl w:ilvl=\"0\"><w:start w:val=\"1\"/><w:numFmt w:val=\"decimal\"/><w:lvlText w:val=\"%1)\"/></w:lvl></w:abstractNum><w:num w:numId=\"1\"><w:abstractNumId w:val=\"0\"/></w:num></w:numbering>",
            ),
            (
                "word/footnotes.xml",
                b"<f><w:footnote w:id=\"2\"><w:p><w:r><w:t>note</w:t></w:r></w:p></w:footnote></f>",
            ),
            ("word/vbaProject.bin", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ],
    )
}

fn slides() -> Vec<u8> {
    let slide = format!(
        "<p:sld xmlns:p=\"p\" xmlns:a=\"a\"><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type=\"title\"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Reeds</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:txBody><a:p><a:r><a:t>{SENTENCE}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    );
    let list = "<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst><p:sldId id=\"256\" r:id=\"rId1\"/></p:sldIdLst></p:presentation>";
    office(
        "ppt/presentation.xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
        &[
            ("ppt/presentation.xml", list.as_bytes()),
            ("ppt/_rels/presentation.xml.rels", relations(&[("slide", "slides/slide1.xml")]).as_bytes()),
            ("ppt/slides/slide1.xml", slide.as_bytes()),
        ],
    )
}

fn workbook() -> Vec<u8> {
    let book = "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets><sheet name=\"Reeds\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>";
    let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData><row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c><c r=\"B1\"><f>1+1</f><v>2</v></c></row></sheetData></worksheet>";
    let strings = format!(
        "<sst xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" count=\"1\" uniqueCount=\"1\"><si><t>{SENTENCE}</t></si></sst>"
    );
    let beside = relations(&[("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml")]);
    office(
        "xl/workbook.xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
        &[
            ("xl/workbook.xml", book.as_bytes()),
            ("xl/_rels/workbook.xml.rels", beside.as_bytes()),
            ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
            ("xl/sharedStrings.xml", strings.as_bytes()),
        ],
    )
}

/// Returns a record of a binary workbook (xlsb): its type and length, with seven bits per byte, and its body.
fn record(kind: u16, body: &[u8]) -> Vec<u8> {
    let low = (kind & 0x7f) as u8;
    let kind = if kind < 0x80 { vec![low] } else { vec![low | 0x80, (kind >> 7) as u8] };
    assert!(body.len() < 0x80 * 0x80);
    let length = [(body.len() & 0x7f) as u8 | 0x80, (body.len() >> 7) as u8];
    [kind.as_slice(), &length, body].concat()
}

/// Returns a length-prefixed UTF-16 string of a binary workbook (xlsb).
fn wide_string(text: &str) -> Vec<u8> {
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    [&(units.len() as u32 / 2).to_le_bytes()[..], &units].concat()
}

fn le_bytes(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|it| it.to_le_bytes()).collect()
}

fn binary_workbook() -> Vec<u8> {
    let beside = relations(&[
        ("worksheet", "worksheets/sheet1.bin"),
        ("sharedStrings", "sharedStrings.bin"),
        ("styles", "styles.bin"),
    ]);
    let strings =
        [record(0x9f, &le_bytes(&[1, 1])), record(0x13, &[vec![0], wide_string(SENTENCE)].concat()), record(0xa0, &[])];
    let sheet = [le_bytes(&[0, 1]), wide_string("rId1"), wide_string("Reeds")].concat();
    let book = [
        record(0x83, &[]),
        record(0x99, &le_bytes(&[0, 0])),
        record(0x8f, &[]),
        record(0x9c, &sheet),
        record(0x90, &[]),
        record(0x9d, &[0; 26]),
        record(0x84, &[]),
    ];
    office(
        "xl/workbook.bin",
        "application/vnd.ms-excel.sheet.binary.macroEnabled.main",
        &[
            ("xl/workbook.bin", &book.concat()),
            ("xl/_rels/workbook.bin.rels", beside.as_bytes()),
            ("xl/worksheets/sheet1.bin", &cells()),
            ("xl/sharedStrings.bin", &strings.concat()),
            ("xl/styles.bin", &styles()),
        ],
    )
}

/// Returns the cells of one row: a shared string, a date, and the string result of a formula.
fn cells() -> Vec<u8> {
    let cells = [
        record(0x81, &[]),
        record(0x94, &le_bytes(&[0, 0, 0, 2])),
        record(0x91, &[]),
        record(0x00, &[0; 25]),
        record(0x07, &le_bytes(&[0, 0, 0])),
        record(0x05, &[le_bytes(&[1, 0]), 45_351f64.to_le_bytes().to_vec()].concat()),
        record(0x08, &[le_bytes(&[2, 0]), wide_string("made"), vec![0; 10]].concat()),
        record(0x92, &[]),
        record(0x82, &[]),
    ];
    cells.concat()
}

/// Returns the styles of a binary workbook: one date format.
fn styles() -> Vec<u8> {
    let styles = [
        record(0x116, &[]),
        record(0x267, &le_bytes(&[1])),
        record(0x2c, &[vec![164, 0], wide_string("yyyy-mm-dd")].concat()),
        record(0x268, &[]),
        record(0x269, &le_bytes(&[1])),
        record(0x2f, &[0xff, 0xff, 164, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        record(0x26a, &[]),
        record(0x117, &[]),
    ];
    styles.concat()
}

/// A page of an OpenDocument drawing with a text box.
const TEXT_BOX_PAGE: &str = "<draw:page draw:name=\"one\"><draw:frame presentation:class=\"title\"><draw:text-box><text:p>Reeds</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>SENTENCE</text:p></draw:text-box></draw:frame></draw:page>";

/// Returns an OpenDocument file of this kind with this body.
pub(crate) fn open_document(kind: &str, body: &str) -> Vec<u8> {
    let media_type = format!("application/vnd.oasis.opendocument.{kind}");
    let element = if kind == "graphics" { "drawing" } else { kind };
    let content = format!(
        "<office:document-content><office:automatic-styles><style:style style:name=\"P1\" style:parent-style-name=\"Quotations\"/></office:automatic-styles><office:body><office:{element}>{}</office:{element}></office:body></office:document-content>",
        body.replace("SENTENCE", SENTENCE)
    );
    let manifest = format!(
        "<manifest:manifest><manifest:file-entry manifest:full-path=\"/\" manifest:media-type=\"{media_type}\"/><manifest:file-entry manifest:full-path=\"content.xml\" manifest:media-type=\"text/xml\"/></manifest:manifest>"
    );
    zip(&[
        ("mimetype", media_type.as_bytes()),
        ("content.xml", content.as_bytes()),
        ("meta.xml", b"<office:document-meta><office:meta><dc:title>Reeds</dc:title></office:meta></office:document-meta>"),
        (
            "styles.xml",
            b"<office:document-styles><office:master-styles><style:master-page><style:header><text:p>Top</text:p></style:header></style:master-page></office:master-styles></office:document-styles>",
        ),
        ("META-INF/manifest.xml", manifest.as_bytes()),
    ])
}

fn book() -> Vec<u8> {
    let page = format!(
        "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>One</title></head><body><h1>One</h1><p>{SENTENCE}</p></body></html>"
    );
    zip(&[
        ("mimetype", b"application/epub+zip"),
        (
            "META-INF/container.xml",
            b"<container><rootfiles><rootfile full-path=\"book.opf\" media-type=\"application/oebps-package+xml\"/></rootfiles></container>",
        ),
        (
            "book.opf",
            b"<package><metadata><dc:title>Reeds</dc:title><dc:creator>Ann</dc:creator></metadata><manifest><item id=\"a\" href=\"a.xhtml\" media-type=\"application/xhtml+xml\"/></manifest><spine><itemref idref=\"a\"/></spine></package>",
        ),
        ("a.xhtml", page.as_bytes()),
    ])
}
