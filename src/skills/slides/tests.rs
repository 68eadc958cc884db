use super::*;
use crate::extract::{Align, Paragraph, Run, TextBody};

const AREA: Area = Area { left: 10.0, top: 10.0, width: 200.0, height: 50.0 };

fn text(content: &str) -> TextBody {
    let run = Run { text: content.into(), size: 20.0, ..Run::default() };
    let paragraph = Paragraph { runs: vec![run], size: 20.0, ..Paragraph::default() };
    TextBody { wraps: true, scale: 1.0, anchor: Align::Start, paragraphs: vec![paragraph], ..TextBody::default() }
}

fn slide(shapes: Vec<Shape>, pictures: Vec<Vec<u8>>) -> Slide {
    Slide { pages: 1, width: 720.0, height: 540.0, background: WHITE, shapes, pictures }
}

fn content(slide: &Slide) -> String {
    let pdf = to_pdf(slide, Instant::now() + Duration::from_secs(60)).unwrap();
    String::from_utf8_lossy(&pdf).into_owned()
}

#[test]
fn shapes_are_drawn_with_text_that_can_be_read() {
    let dark = Shape { area: AREA, fill: Some([20; 3]), text: Some(text("Hi")), ..Shape::default() };
    let light = Shape { fill: None, area: Area { top: 300.0, ..AREA }, ..dark.clone() };
    let pdf = content(&slide(vec![dark, light], Vec::new()));
    assert!(pdf.contains("1.000 1.000 1.000 rg /F0 20.00 Tf"), "white on a dark box: {pdf}");
    assert!(pdf.contains("0.000 0.000 0.000 rg /F0 20.00 Tf"), "black on the white slide: {pdf}");
}

#[test]
fn stated_colour_is_kept_if_it_can_be_read() {
    assert_eq!(ink(Some([200, 0, 0]), Some(WHITE)), [200, 0, 0]);
    assert_eq!(ink(Some([250, 250, 240]), Some(WHITE)), BLACK);
    assert_eq!(ink(None, Some([0, 0, 90])), WHITE);
    assert_eq!(ink(Some(WHITE), None), WHITE);
    assert!((contrast(BLACK, WHITE) - 21.0).abs() < 0.01);
}

#[test]
fn picture_that_cannot_be_read_is_an_empty_box() {
    let mut png = Vec::new();
    let image = RgbImage::from_pixel(8, 4, image::Rgb([9, 9, 9]));
    image.write_to(&mut std::io::Cursor::new(&mut png), image::ImageFormat::Png).unwrap();
    let shape = |index| Shape {
        area: AREA,
        picture: Some(CroppedPicture { index, crop: [0.5, 0.0, 0.0, 0.0] }),
        ..Shape::default()
    };
    let pictures = vec![png, b"no picture".to_vec()];
    let pdf = content(&slide(vec![shape(Some(0))], pictures.clone()));
    assert!(pdf.contains("/P0 Do") && pdf.contains("/Width 4/Height 4"), "{pdf}");
    for index in [Some(1), None] {
        let pdf = content(&slide(vec![shape(index)], pictures.clone()));
        assert!(!pdf.contains(" Do") && pdf.contains("0.886 0.886 0.886 rg"), "{pdf}");
    }
}

#[test]
fn slide_with_letters_of_no_font_is_refused() {
    let shape = Shape { area: AREA, text: Some(text("計画")), ..Shape::default() };
    let failed = to_pdf(&slide(vec![shape], Vec::new()), Instant::now()).unwrap_err();
    assert_eq!(failed.reason, Reason::UnsupportedType);
    assert!(failed.detail.contains("U+8A08"), "{}", failed.detail);
}
