use crate::extract::office::rtf::*;
use crate::extract::zip_container::tests::{format_blocks, read_document};
use crate::model::ExtractLimits;

fn assert_blocks(rtf: &str, blocks: &str) {
    assert_eq!(format_blocks(&read_document(read, format!("{{\\rtf1\\ansi {rtf}}}").as_bytes())), blocks);
}

#[test]
fn characters_decode_from_code_page_unicode_and_names() {
    assert_blocks("\\ansicpg1251 \\'cf\\'f0\\'e8", "p При");
    assert_blocks("{\\fonttbl{\\f0\\fcharset0 Arial;}{\\f1\\fcharset128 MS;}}\\f1 \\'82\\'a0\\f0\\'e9", "p あé");
    assert_blocks("a\\u8212?b\\uc2\\u233 xxc{\\uc0\\u233 d}\\u-3840 ??e", "p a—bécéde");
    assert_blocks("\\uc0\\u-10179\\u-8704 \\emdash\\~\\{\\\\\\}", "p 😀—\u{a0}{\\}");
}

#[test]
fn headings_follow_style_and_outline() {
    assert_blocks(
        "{\\stylesheet{\\s0 Normal;}{\\s1\\b heading 1;}{\\s2\\outlinelevel2 Mine;}{\\*\\cs9 Char;}}\\pard\\s1 One\\par\
         \\pard\\s2 Three\\par\\pard text\\par\\pard\\outlinelevel0 Top\\par",
        "1 One\n3 Three\np text\n1 Top",
    );
}

#[test]
fn destinations_without_text_are_skipped() {
    assert_blocks(
        "{\\colortbl;\\red0;}{\\*\\generator X;}{\\pict\\pngblip 89504e47}{\\field{\\*\\fldinst HYPERLINK \"u\"}{\\fldrslt link}} \
         {\\v hidden}{\\deleted gone}{\\*\\unknown{\\deep x}}{\\upr{ansi}{\\*\\ud{uni}}}",
        "p link uni",
    );
}

#[test]
fn tables_become_rows() {
    assert_blocks(
        "before\\par\\trowd\\pard\\intbl a\\par b\\cell c\\cell\\row\\trowd\\pard\\intbl\\cell d\\cell\\row\\pard after\\par",
        "p before\nt a b | c /  | d\np after",
    );
}

#[test]
fn notes_follow_paragraph_and_metadata_comes_first() {
    assert_blocks(
        "{\\info{\\title T}{\\author A}{\\operator O}{\\creatim\\yr2020}}{\\header H\\par}text{\\super{\\footnote note\\par}} on\\par\
         {\\listtext\\bullet\\tab}item\\par{\\listtext 2.\\tab}next\\par",
        "m title: T / author: A\np text on\np note\n- item\n- 2. next\np H",
    );
}

#[test]
fn corrupt_rtf_keeps_text_before_damage() {
    let document = read_document(read, b"{\\rtf1 one\\par {\\b two");
    assert_eq!(format_blocks(&document), "p one\np two");
    assert_eq!(document.problems.len(), 1);
    assert_eq!(format_blocks(&read_document(read, b"{\\rtf1 a}}}}} b\\par")), "p a b");
}

#[test]
fn other_file_and_deep_nesting_are_rejected() {
    let reason = |bytes: &[u8]| {
        read(Input { bytes, name: "a.rtf" }, &mut Sink::new(ExtractLimits::default())).unwrap_err().reason
    };
    assert_eq!(reason(b"plain"), Reason::Damaged);
    assert_eq!(reason(("{\\rtf1".to_string() + &"{".repeat(100_000)).as_bytes()), Reason::TooDeep);
}

#[test]
fn large_paragraph_is_truncated_at_text_limit() {
    let bytes = format!("{{\\rtf1 {}\\par more\\par}}", "word ".repeat(100_000));
    let mut sink = Sink::new(ExtractLimits { text_bytes: 20_000, ..ExtractLimits::default() });
    read(Input { bytes: bytes.as_bytes(), name: "a.rtf" }, &mut sink).unwrap();
    let document = sink.into_document();
    assert!(document.truncated && document.text().len() <= 20_000, "{}", document.text().len());
}
