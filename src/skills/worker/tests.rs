use crate::extract::SkillJob;
use crate::model::ExtractLimits;
use crate::skills::worker::*;

fn tools(with_ocr: bool) -> Tools {
    let cache = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    let runtime = crate::embed::models::ModelStore::new(vec![cache.clone()]).library("onnxruntime").unwrap();
    let ocr = OcrTools { runtime, models: cache.join("ppocr"), threads: 2 };
    Tools { pdfium: Some(cache.join("lib/libpdfium.so")), ocr: with_ocr.then_some(ocr) }
}

fn sample(path: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(path)).unwrap()
}

fn run(skill: &str, bytes: &[u8], name: &str, change: impl FnOnce(&mut SkillJob)) -> Outcome {
    crate::embed::disable_telemetry();
    let mut job = SkillJob { skill: skill.into(), seconds: 120, tools: tools(true), ..SkillJob::default() };
    change(&mut job);
    let handler = HANDLERS.iter().find(|it| it.name == skill).unwrap();
    (handler.run)(&SkillInput { bytes, name, job: &job, limits: &ExtractLimits::default() })
}

fn facts(document: &Document) -> Vec<(Option<u32>, &str)> {
    let facts = document.blocks.iter().filter(|it| it.kind == BlockKind::Metadata);
    facts.map(|it| (it.anchor.page, it.text.as_str())).collect()
}

#[test]
fn signers_of_contract_with_text_layer_are_found() {
    let document = run(PDF_LAYOUT, &sample("Contracts/supply-agreement-SA-2025-017.pdf"), "a.pdf", |_| {}).unwrap();
    let signed = facts(&document).into_iter().find(|it| it.1.starts_with("Signed by")).unwrap();
    assert_eq!(signed.0, Some(3));
    let names = "Signed by: Ada Quill, Managing Director; Jorun Salte, Chair\n";
    assert!(signed.1.starts_with(names), "{}", signed.1);
    let tables: Vec<&str> =
        document.blocks.iter().filter(|it| it.kind == BlockKind::Table).map(|it| it.text.as_str()).collect();
    assert!(tables.iter().any(|it| it.contains("Wall thickness | 6.5 mm | at least 6.2 mm")), "{tables:#?}");
    assert!(document.blocks.iter().all(|it| it.anchor.region.is_some()));
}

#[test]
fn signers_of_scanned_contract_have_page_and_region() {
    let document = run(PDF_LAYOUT, &sample("Contracts/idr-contract-scan.pdf"), "a.pdf", |_| {}).unwrap();
    let signed: Vec<&Block> = document.blocks.iter().filter(|it| it.text.starts_with("Signed by")).collect();
    let [signed] = signed[..] else { panic!("{:#?}", document.blocks) };
    let names = "Signed by: Henrike Dahl, Harbour Master, for the Larkmouth Harbour Office, 2 September 2025; \
                 Maren Oddy, Managing Director, for Brannock Marine Works Ltd, 4 September 2025\n";
    assert!(signed.text.starts_with(names), "{}", signed.text);
    let region = signed.anchor.region.unwrap();
    assert_eq!((signed.anchor.page, signed.kind), (Some(2), BlockKind::Metadata));
    assert!(region.left < 0.2 && region.right > 0.8 && region.top > 0.2 && region.bottom < 0.5, "{region:?}");
    assert!(document.text().contains("Contract sum: EUR 48,750"), "{}", document.text());
    assert_eq!(document.title.as_deref(), Some("IDR CONTRACT"));
}

#[test]
fn unread_pages_are_listed_without_models() {
    let bytes = sample("Contracts/idr-contract-scan.pdf");
    let document = run(PDF_LAYOUT, &bytes, "a.pdf", |job| job.tools = tools(false)).unwrap();
    assert_eq!((document.pages_without_text.as_slice(), document.blocks.len()), (&[1, 2][..], 0));
}

#[test]
fn time_limits_leave_pages_unread_and_listed() {
    let bytes = sample("Contracts/idr-contract-scan.pdf");
    let document = run(OCR_IMAGE, &bytes, "a.pdf", |job| job.seconds = 0).unwrap();
    assert!(document.truncated && document.pages_without_text == [1, 2]);
    let document = run(OCR_IMAGE, &bytes, "a.pdf", |job| job.rest_after = Some(0)).unwrap();
    assert!(document.truncated && document.pages_without_text == [2], "one page is always read");
}

#[test]
fn requested_pages_are_read_as_plain_paragraphs() {
    let bytes = sample("Contracts/idr-contract-scan.pdf");
    let document = run(OCR_IMAGE, &bytes, "a.pdf", |job| {
        job.pages = Some(vec![2, 77]);
        job.purpose = Purpose::UnreadText;
    });
    let document = document.unwrap();
    assert!(document.blocks.iter().all(|it| it.anchor.page == Some(2) && it.kind == BlockKind::Paragraph));
    assert!(document.text().contains("liability insurance"), "{}", document.text());
}

#[test]
fn photos_and_icons_are_not_indexed() {
    let photo = photo();
    assert!(!is_like_scan(&photo) && is_like_scan(&sample("Scans/piano-receipt.png")));
    let document = run(OCR_IMAGE, &photo, "a.jpg", |job| job.purpose = Purpose::UnreadText).unwrap();
    assert!(document.blocks.is_empty() && document.problems.is_empty());
    let mut icon = Cursor::new(Vec::new());
    RgbImage::new(199, 900).write_to(&mut icon, image::ImageFormat::Png).unwrap();
    assert!(!is_like_scan(icon.get_ref()));
}

/// Creates a JPEG that names a camera model in its EXIF data.
fn photo() -> Vec<u8> {
    let field = exif::Field {
        tag: exif::Tag::Model,
        ifd_num: exif::In::PRIMARY,
        value: exif::Value::Ascii(vec![b"Box 1".to_vec()]),
    };
    let mut writer = exif::experimental::Writer::new();
    writer.push_field(&field);
    let mut tiff = Cursor::new(Vec::new());
    writer.write(&mut tiff, false).unwrap();
    let mut jpeg = Cursor::new(Vec::new());
    RgbImage::new(300, 300).write_to(&mut jpeg, image::ImageFormat::Jpeg).unwrap();
    let segment = [b"Exif\0\0".as_slice(), tiff.get_ref()].concat();
    let length = (segment.len() as u16 + 2).to_be_bytes();
    [&jpeg.get_ref()[..2], &[0xFF, 0xE1], &length, &segment, &jpeg.get_ref()[2..]].concat()
}

#[test]
fn corrupt_input_is_reported_without_crash() {
    let failed = run(PDF_LAYOUT, b"%PDF-1.7\nnoise", "a.pdf", |_| {}).unwrap_err();
    assert_eq!(failed.reason, Reason::Damaged);
    let document = run(OCR_IMAGE, &sample("Scans/piano-receipt.png")[..500], "a.png", |_| {}).unwrap();
    assert_eq!((document.blocks.len(), document.problems.len()), (0, 1));
}

/// Creates a PDF with this many pages; each contains only a black image, on paper of `size` (in points).
fn scan(pages: usize, size: &str) -> Vec<u8> {
    let kids: Vec<String> = (0..pages).map(|it| format!("{} 0 R", it + 5)).collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_string(),
        format!("<</Type/Pages/Count {pages}/Kids[{}]>>", kids.join(" ")),
        "<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>stream\n0\nendstream".to_string(),
        "<</Length 27>>stream\nq 90 0 0 90 5 5 cm /I Do Q  \nendstream".to_string(),
    ];
    let page =
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size}]/Resources<</XObject<</I 3 0 R>>>>/Contents 4 0 R>>");
    objects.extend(std::iter::repeat_n(page, pages));
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip(&objects) {
        offsets.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
    }
    let (start, count) = (bytes.len(), objects.len() + 1);
    bytes.extend(format!("xref\n0 {count}\n0000000000 65535 f \n").bytes());
    bytes.extend(offsets.iter().flat_map(|it| format!("{it:010} 00000 n \n").into_bytes()));
    bytes.extend(format!("trailer<</Size {count}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF").bytes());
    bytes
}

#[test]
fn huge_page_is_rendered_small_and_has_no_text() {
    let document = run(PDF_LAYOUT, &scan(1, "200000 200000"), "a.pdf", |_| {}).unwrap();
    assert_eq!((document.blocks.len(), document.problems.len()), (0, 0), "{document:?}");
    assert!(document.pages_without_text.is_empty());
}

#[test]
fn all_scanned_pages_beyond_time_are_listed() {
    let bytes = scan(2_000, "100 100");
    let check = |seconds: u32, purpose: Purpose, asked: Option<Vec<u32>>| {
        let document = run(OCR_IMAGE, &bytes, "a.pdf", |job| {
            (job.seconds, job.purpose, job.pages) = (seconds, purpose, asked);
        });
        let document = document.unwrap();
        assert_eq!(document.truncated, !document.pages_without_text.is_empty());
        document.pages_without_text
    };
    let all: Vec<u32> = (1..=2_000).collect();
    for purpose in [Purpose::Question, Purpose::UnreadText, Purpose::EveryText] {
        assert_eq!(check(0, purpose, None), all, "{purpose:?}");
    }
    let left = check(1, Purpose::Question, None).len();
    assert!((1_900..=2_000).contains(&left), "{left}");
    assert!(check(120, Purpose::Question, Some(vec![2_000])).is_empty());
}

#[test]
fn question_reads_limited_pages_and_defers_rest() {
    let bytes = scan(700, "100 100");
    let left = |seconds: u32, asked: Option<Vec<u32>>| {
        let document = run(PDF_LAYOUT, &bytes, "a.pdf", |job| (job.seconds, job.pages) = (seconds, asked));
        document.unwrap().pages_without_text
    };
    let rest = left(1, None);
    assert!(rest.ends_with(&Vec::from_iter(501..=700)), "{rest:?}");
    assert!(left(120, Some(vec![501, 700])).is_empty());
}

#[test]
fn vision_gets_first_and_last_page_as_jpeg() {
    let document = run(VISION, &sample("Contracts/supply-agreement-SA-2025-017.pdf"), "a.pdf", |_| {}).unwrap();
    let pages: Vec<Option<u32>> = document.blocks.iter().map(|it| it.anchor.page).collect();
    assert_eq!(pages, [Some(1), Some(4)]);
    // `/9j/` is the Base64 encoding of the first bytes of a JPEG.
    assert!(document.blocks.iter().all(|it| it.text.starts_with("/9j/")));
}

#[test]
fn outside_in_orders_outermost_first() {
    assert_eq!(outside_in(vec![1, 2, 3, 4, 5]), [1, 5, 2, 4, 3]);
}
