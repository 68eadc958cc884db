use crate::extract::office::docx::*;
use crate::extract::zip_container::tests::{failure_reason, format_blocks, read_document, with_damaged_part, zipped};
use crate::model::{Document, ExtractLimits, Reason};

const STYLES: &str = r#"<w:styles><w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style>
    <w:style w:styleId="C"><w:name w:val="Source Code"/></w:style><w:style w:styleId="L"><w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style></w:styles>"#;

const NUMBERING: &str = r#"<w:numbering><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/>
    <w:numFmt w:val="decimal"/><w:lvlText w:val="%1)"/></w:lvl></w:abstractNum><w:num w:numId="4"><w:abstractNumId w:val="0"/></w:num>
    </w:numbering>"#;

fn document(body: &str) -> Document {
    let main = format!("<w:document><w:body>{body}</w:body></w:document>");
    let rel = |id: &str, target: &str| {
        format!(
            r#"<Relationship Id="{id}" Type="http://purl.oclc.org/ooxml/officeDocument/relationships/{id}" Target="{target}"/>"#
        )
    };
    let rels: String = ["styles", "numbering", "footnotes", "comments", "header", "footer"]
        .iter()
        .map(|it| rel(it, &format!("{it}.xml")))
        .collect();
    let bytes = zipped(&[
        ("word/document.xml", &main),
        ("word/_rels/document.xml.rels", &format!("<Relationships>{rels}</Relationships>")),
        ("word/styles.xml", STYLES),
        ("word/numbering.xml", NUMBERING),
        (
            "word/footnotes.xml",
            r#"<f><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote><w:footnote w:id="2"><w:p><w:r><w:t>note</w:t></w:r></w:p></w:footnote></f>"#,
        ),
        (
            "word/comments.xml",
            r#"<c><w:comment w:id="5" w:author="Ann"><w:p><w:r><w:t>why</w:t></w:r></w:p></w:comment></c>"#,
        ),
        ("word/header.xml", "<h><w:p><w:r><w:t>Same</w:t></w:r></w:p></h>"),
        ("word/footer.xml", "<h><w:p><w:r><w:t>Same</w:t></w:r></w:p></h>"),
    ]);
    read_document(read, &bytes)
}

/// Checks the blocks of a document with this body; `blocks` omits the header that every test document has.
fn assert_blocks(body: &str, blocks: &str) {
    assert_eq!(format_blocks(&document(body)), format!("{blocks}\np Same").trim_start());
}

fn paragraph_xml(properties: &str, text: &str) -> String {
    format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r></w:p>")
}

#[test]
fn headings_and_lists_follow_style_or_setting() {
    let body = [
        paragraph_xml(r#"<w:pStyle w:val="H2"/>"#, "Head"),
        paragraph_xml(r#"<w:outlineLvl w:val="0"/>"#, "Top"),
        paragraph_xml(r#"<w:pStyle w:val="H2"/><w:outlineLvl w:val="9"/>"#, "text"),
        paragraph_xml(r#"<w:pStyle w:val="L"/>"#, "item"),
        paragraph_xml(r#"<w:pStyle w:val="C"/>"#, "  x = 1"),
        paragraph_xml(r#"<w:pStyle w:val="L"/><w:numPr><w:numId w:val="0"/></w:numPr>"#, "none"),
    ];
    assert_blocks(&body.concat(), "2 Head\n1 Top\np text\n- item\nc   x = 1\np none");
}

#[test]
fn list_numbers_are_included() {
    let numbered = r#"<w:numPr><w:ilvl w:val="0"/><w:numId w:val="4"/></w:numPr>"#;
    let heading = format!(r#"<w:pStyle w:val="H2"/>{numbered}"#);
    assert_blocks(
        &[paragraph_xml(numbered, "one"), paragraph_xml(numbered, ""), paragraph_xml(&heading, "two")].concat(),
        "- 1) one\n2 2) two",
    );
}

#[test]
fn deleted_text_is_excluded_and_inserted_text_included() {
    assert_blocks(
        "<w:p><w:r><w:t>a</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>b</w:t></w:r></w:ins>\
         <w:moveFrom><w:r><w:t>gone</w:t></w:r></w:moveFrom><w:r><w:instrText>PAGE</w:instrText><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t>\
         <w:softHyphen/><w:noBreakHyphen/><w:t xml:space=\"preserve\"> &amp;</w:t></w:r></w:p>",
        "p ab\tc / d\u{2011} &",
    );
}

#[test]
fn text_box_is_read_once() {
    let text_box = |text: &str| format!("<w:txbxContent>{}</w:txbxContent>", paragraph_xml("", text));
    let body = format!(
        "<w:p><w:r><w:t>before</w:t></w:r><w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx>{}</wps:txbx></w:drawing></mc:Choice>\
         <mc:Fallback><w:pict><v:textbox>{}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r><w:r><w:t> after</w:t></w:r></w:p>",
        text_box("boxed"),
        text_box("boxed")
    );
    assert_blocks(&body, "p before after\np boxed");
    assert_blocks(
        &format!("<w:p><w:r><w:pict><v:textbox>{}</v:textbox></w:pict></w:r></w:p>", text_box("old")),
        "p old",
    );
}

#[test]
fn notes_and_comments_follow_their_paragraph() {
    assert_blocks(
        "<w:p><w:r><w:t>a</w:t><w:footnoteReference w:id=\"2\"/><w:commentReference w:id=\"5\"/></w:r></w:p><w:p><w:r><w:t>b</w:t></w:r></w:p>",
        "p a\np note\np Ann: why\np b",
    );
}

#[test]
fn nested_table_follows_its_table() {
    let cell = |inside: &str| format!("<w:tc>{inside}</w:tc>");
    let nested =
        format!("<w:tbl><w:tr>{}{}</w:tr></w:tbl>", cell(&paragraph_xml("", "n1")), cell(&paragraph_xml("", "n2")));
    let body = format!(
        "<w:tbl><w:tr>{}{}</w:tr><w:sdt><w:sdtContent><w:tr>{}{}</w:tr></w:sdtContent></w:sdt><w:tr><w:trPr><w:del/></w:trPr>{}</w:tr></w:tbl>",
        cell(&(paragraph_xml("", "a") + &paragraph_xml("", "b"))),
        cell(&(nested + &paragraph_xml("", "c"))),
        cell(&format!("<w:tcPr><w:vMerge/></w:tcPr>{}", paragraph_xml("", ""))),
        cell(&paragraph_xml("", "d")),
        cell(&paragraph_xml("", "deleted"))
    );
    assert_blocks(&body, "t a b | c /  | d\nt n1 | n2");

    assert_blocks(
        &format!("<w:tbl><w:tr>{}</w:tr></w:tbl>", cell(&paragraph_xml("<w:outlineLvl w:val=\"1\"/>", "framed"))),
        "2 framed",
    );
}

#[test]
fn merged_cell_is_repeated_in_spanned_rows() {
    let cell =
        |properties: &str, text: &str| format!("<w:tc><w:tcPr>{properties}</w:tcPr>{}</w:tc>", paragraph_xml("", text));
    let body = format!(
        "<w:tbl><w:tr>{}{}{}</w:tr><w:tr>{}{}</w:tr><w:tr><w:trPr><w:gridBefore w:val=\"1\"/></w:trPr>{}{}</w:tr></w:tbl>",
        cell("", "a"),
        cell("", "b"),
        cell("<w:vMerge w:val=\"restart\"/>", "down"),
        cell("<w:gridSpan w:val=\"2\"/>", "wide"),
        cell("<w:vMerge/>", ""),
        cell("", "late"),
        cell("", "end")
    );
    assert_blocks(&body, "t a | b | down / wide | down /  | late | end");
}

#[test]
fn content_controls_links_and_equations_are_read() {
    assert_blocks(
        "<w:sdt><w:sdtPr><w:alias w:val=\"x\"/></w:sdtPr><w:sdtContent><w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink>\
         <w:fldSimple><w:r><w:t> 7</w:t></w:r></w:fldSimple></w:p></w:sdtContent></w:sdt>\
         <m:oMathPara><m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath></m:oMathPara>",
        "p link 7\np a/b",
    );
}

#[test]
fn truncated_document_keeps_its_text() {
    let bytes = zipped(&[(
        "word/document.xml",
        "<w:document><w:body><w:p><w:r><w:t>kept</w:t></w:r></w:p><w:p><w:r><w:t>half",
    )]);
    let document = read_document(read, &bytes);
    assert_eq!(format_blocks(&document), "p kept\np half");
    assert_eq!(document.problems.len(), 1);
}

// Case C1
#[test]
fn zip_bomb_and_deep_nesting_are_rejected() {
    let reason = |xml: &str, limits: ExtractLimits| {
        let bytes = zipped(&[("word/document.xml", xml)]);
        read(Input { bytes: &bytes, name: "a.docx" }, &mut Sink::new(limits)).unwrap_err().reason
    };
    let small = ExtractLimits { inflated_bytes: 1000, ..ExtractLimits::default() };
    assert_eq!(reason(&" ".repeat(2000), small), Reason::DecompressionLimit);
    let deep = format!("{}{}", "<w:tbl><w:tr><w:tc>".repeat(2000), "</w:tc></w:tr></w:tbl>".repeat(2000));
    assert_eq!(reason(&deep, ExtractLimits::default()), Reason::TooDeep);
}

#[test]
fn other_zip_is_reported_as_damaged() {
    let bytes = zipped(&[("a.txt", "x")]);
    let failed = read(Input { bytes: &bytes, name: "a.docx" }, &mut Sink::new(ExtractLimits::default())).unwrap_err();
    assert_eq!(failed.reason, Reason::Damaged);
}

// Case C11
#[test]
fn damaged_body_is_reported_despite_metadata() {
    let bytes = zipped(&[
        ("word/document.xml", "<w:document><w:body><w:p><w:r><w:t>some text</w:t></w:r></w:p></w:body></w:document>"),
        ("docProps/core.xml", "<c><dc:title>Title</dc:title></c>"),
    ]);
    assert_eq!(format_blocks(&read_document(read, &bytes)), "m title: Title\np some text");
    assert_eq!(failure_reason(read, &with_damaged_part(bytes, "word/document.xml")), Reason::Damaged);
}
