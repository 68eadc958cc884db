use crate::extract::office::odf::*;
use crate::extract::zip_container::tests::{format_blocks, read_document, zipped};
use crate::model::ExtractLimits;

fn assert_blocks(body: &str, blocks: &str) {
    let content = format!("<office:document-content><office:body>{body}</office:body></office:document-content>");
    assert_eq!(format_blocks(&read_document(read, &zipped(&[("content.xml", &content)]))), blocks);
}

#[test]
fn headings_lists_and_spaces_are_kept() {
    assert_blocks(
        "<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>\
         <text:h text:outline-level=\"2\">Head</text:h><text:p>a<text:s text:c=\"2\"/>b\n  <text:span>c</text:span>\
         <text:line-break/>d</text:p><text:list><text:list-item><text:p>one</text:p><text:list><text:list-item>\
         <text:p>two</text:p></text:list-item></text:list></text:list-item></text:list></office:text>",
        "2 Head\np a  b c / d\n- one\n- two",
    );
}

#[test]
fn notes_comments_and_frames_follow_their_paragraph() {
    assert_blocks(
        "<office:text><text:p>text<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>note\
         </text:p></text:note-body></text:note><office:annotation><dc:creator>Ann</dc:creator><text:p>why</text:p>\
         </office:annotation><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame> on</text:p>\
         </office:text>",
        "p text on\np boxed\np note\np Ann: why",
    );
}

#[test]
fn quotation_is_detected_by_style_or_parent_style() {
    let content = "<d><office:automatic-styles><style:style style:name=\"P1\" style:parent-style-name=\"Quotations\"/>\
        </office:automatic-styles><office:body><office:text><text:p text:style-name=\"P1\">one</text:p>\
        <text:p text:style-name=\"Quotations\">two</text:p><text:p text:style-name=\"P2\">three</text:p></office:text>\
        </office:body></d>";
    let document = read_document(read, &zipped(&[("content.xml", content)]));
    let parts: Vec<_> = document.blocks.iter().map(|it| it.anchor.part.as_deref()).collect();
    assert_eq!(parts, [Some("quote"), Some("quote"), None]);
}

#[test]
fn table_keeps_rows_and_limits_repeated_cells() {
    assert_blocks(
        "<office:text><table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>a</text:p>\
         </table:table-cell><table:covered-table-cell/><table:table-cell><text:p>b</text:p><table:table><table:table-row>\
         <table:table-cell><text:p>nested</text:p></table:table-cell></table:table-row></table:table></table:table-cell>\
         <table:table-cell table:number-columns-repeated=\"4000000000\"/></table:table-row></table:table-header-rows>\
         </table:table></office:text>",
        "t a |  | b\nt nested",
    );
}

#[test]
fn sheet_has_cell_ranges_and_limits_repeated_rows() {
    let content = "<d><office:body><office:spreadsheet><table:table table:name=\"S\"><table:table-row \
        table:number-rows-repeated=\"3\"><table:table-cell table:number-columns-repeated=\"1000\"/></table:table-row>\
        <table:table-row table:number-rows-repeated=\"1048573\"><table:table-cell><text:p>x</text:p></table:table-cell>\
        </table:table-row></table:table></office:spreadsheet></office:body></d>";
    let document = read_document(read, &zipped(&[("content.xml", content)]));
    assert_eq!(document.blocks[1].anchor.cell.as_deref(), Some("A4:A19"));
}

#[test]
fn slides_become_pages_with_titles() {
    let content = "<d><office:body><office:presentation><draw:page><draw:frame presentation:class=\"title\"><draw:text-box>\
        <text:p>One</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>say</text:p>\
        </draw:text-box></draw:frame></presentation:notes></draw:page><draw:page><text:p>x</text:p></draw:page>\
        </office:presentation></office:body></d>";
    let document = read_document(read, &zipped(&[("content.xml", content)]));
    assert_eq!(format_blocks(&document), "1 One\np say\np x");
    let pages: Vec<_> = document.blocks.iter().map(|it| it.anchor.page).collect();
    assert_eq!(pages, [Some(1), Some(1), Some(2)]);
    assert_eq!(document.pages, Some(2));
    assert_eq!(document.blocks[1].anchor.part.as_deref(), Some("notes"));
}

#[test]
fn metadata_comes_first_and_headers_once() {
    let styles = "<s><office:master-styles><style:master-page><style:header><text:p>Top</text:p></style:header></style:master-page>\
        <style:master-page><style:header><text:p>Top</text:p></style:header></style:master-page></office:master-styles></s>";
    let bytes = zipped(&[
        ("content.xml", "<d><office:body><office:text><text:p>x</text:p></office:text></office:body></d>"),
        ("styles.xml", styles),
        (
            "meta.xml",
            "<d><office:meta><dc:title>T</dc:title><meta:keyword>k</meta:keyword><meta:keyword>l</meta:keyword></office:meta></d>",
        ),
    ]);
    assert_eq!(format_blocks(&read_document(read, &bytes)), "m title: T / keywords: k, l\np x\np Top");
}

#[test]
fn encrypted_document_is_reported() {
    let manifest = "<m><manifest:file-entry manifest:full-path=\"content.xml\"><manifest:encryption-data/></manifest:file-entry></m>";
    let bytes = zipped(&[("META-INF/manifest.xml", manifest), ("content.xml", "noise")]);
    let failed = read(Input { bytes: &bytes, name: "a.odt" }, &mut Sink::new(ExtractLimits::default())).unwrap_err();
    assert_eq!(failed.reason, Reason::Encrypted);
}

#[test]
fn flat_document_is_read() {
    let flat = "<office:document><office:body><office:text><text:p>flat</text:p></office:text></office:body></office:document>";
    assert_eq!(format_blocks(&read_document(read, flat.as_bytes())), "p flat");
}
