//! Writes a PDF of one page: boxes, lines, text in standard fonts, pictures.

use std::fmt::Write;

use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;

use crate::extract::{Area, Geometry, Rgb};
use crate::skills::slides::fonts::{FONTS, Font};
use crate::skills::slides::text_layout::{Glyph, PlacedLine};

/// JPEG quality of the pictures: the picture of the whole page is encoded once more.
const JPEG_QUALITY: u8 = 90;

/// Distance of the control points of a quarter of a circle, relative to its radius.
const CIRCLE: f32 = 0.552_284_8;

/// A page that is being written. Places are in points from the top left corner.
pub(super) struct PdfPage {
    width: f32,
    height: f32,
    content: String,
    /// Width, height and JPEG of each picture.
    pictures: Vec<(u32, u32, Vec<u8>)>,
}

impl PdfPage {
    pub(super) fn new(width: f32, height: f32) -> PdfPage {
        PdfPage { width, height, content: String::new(), pictures: Vec::new() }
    }

    /// Adds operators to the content of the page.
    fn add(&mut self, operators: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        self.content.write_fmt(operators).ok();
        self.content.push('\n');
    }

    /// Draws a filled form.
    pub(super) fn fill(&mut self, area: Area, geometry: Geometry, colour: Rgb) {
        let [red, green, blue] = shares(colour);
        self.add(format_args!("{red} {green} {blue} rg"));
        self.outline(area, geometry);
        self.add(format_args!("f"));
    }

    /// Draws the line of a form.
    pub(super) fn stroke(&mut self, area: Area, geometry: Geometry, colour: Rgb, width: f32) {
        let [red, green, blue] = shares(colour);
        self.add(format_args!("{red} {green} {blue} RG {width:.2} w"));
        self.outline(area, geometry);
        self.add(format_args!("S"));
    }

    fn outline(&mut self, area: Area, geometry: Geometry) {
        let Area { left, top, width, height } = area;
        let (right, upper, lower) = (left + width, self.height - top, self.height - top - height);
        match geometry {
            Geometry::Rectangle => self.add(format_args!("{left:.2} {lower:.2} {width:.2} {height:.2} re")),
            Geometry::FallingLine => self.add(format_args!("{left:.2} {upper:.2} m {right:.2} {lower:.2} l")),
            Geometry::RisingLine => self.add(format_args!("{left:.2} {lower:.2} m {right:.2} {upper:.2} l")),
            Geometry::Ellipse => self.ellipse(left + width / 2.0, (upper + lower) / 2.0, width / 2.0, height / 2.0),
        }
    }

    fn ellipse(&mut self, x: f32, y: f32, across: f32, up: f32) {
        let (near, high) = (across * CIRCLE, up * CIRCLE);
        self.add(format_args!("{:.2} {y:.2} m", x + across));
        for [x1, y1, x2, y2, x3, y3] in [
            [across, high, near, up, 0.0, up],
            [-near, up, -across, high, -across, 0.0],
            [-across, -high, -near, -up, 0.0, -up],
            [near, -up, across, -high, across, 0.0],
        ] {
            let points = (x + x1, y + y1, x + x2, y + y2, x + x3, y + y3);
            self.add(format_args!(
                "{:.2} {:.2} {:.2} {:.2} {:.2} {:.2} c",
                points.0, points.1, points.2, points.3, points.4, points.5
            ));
        }
    }

    /// Draws a line of text; `ink` returns the colour of letters for the one that the file states.
    pub(super) fn text(&mut self, line: &PlacedLine, ink: impl Fn(Option<Rgb>) -> Rgb) {
        let y = self.height - line.baseline;
        let mut left = line.left;
        self.add(format_args!("BT"));
        let is_alike = |a: &Glyph, b: &Glyph| (a.letter.font, a.size, a.colour) == (b.letter.font, b.size, b.colour);
        for run in line.glyphs.chunk_by(is_alike) {
            let Glyph { letter, size, colour } = run[0];
            let [red, green, blue] = shares(ink(colour));
            let font = font_number(letter.font);
            let codes = run.iter().fold(String::new(), |text, it| text + &format!("{:02X}", it.letter.code));
            self.add(format_args!(
                "{red} {green} {blue} rg /F{font} {size:.2} Tf 1 0 0 1 {left:.2} {y:.2} Tm <{codes}> Tj"
            ));
            left += run.iter().map(Glyph::width).sum::<f32>();
        }
        self.add(format_args!("ET"));
    }

    /// Draws a picture.
    pub(super) fn picture(&mut self, picture: &RgbImage, area: Area) -> Result<(), String> {
        let mut jpeg = Vec::new();
        let encoded = picture.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY));
        encoded.map_err(|error| error.to_string())?;
        let number = self.pictures.len();
        self.pictures.push((picture.width(), picture.height(), jpeg));
        let (width, height, left) = (area.width, area.height, area.left);
        let lower = self.height - area.top - height;
        self.add(format_args!("q {width:.2} 0 0 {height:.2} {left:.2} {lower:.2} cm /P{number} Do Q"));
        Ok(())
    }

    /// Returns the bytes of the PDF.
    pub(super) fn finish(self) -> Vec<u8> {
        let first_picture = 5 + FONTS.len();
        let fonts =
            FONTS.iter().enumerate().fold(String::new(), |text, (at, _)| text + &format!("/F{at} {} 0 R ", 5 + at));
        let pictures = (0..self.pictures.len())
            .fold(String::new(), |text, at| text + &format!("/P{at} {} 0 R ", first_picture + at));
        let page = format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {:.2} {:.2}]/Contents 4 0 R/Resources<</Font<<{fonts}>>/XObject<<{pictures}>>>>>>",
            self.width, self.height
        );
        let mut objects = vec![
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
            page.into_bytes(),
            stream("", self.content.as_bytes()),
        ];
        objects.extend(FONTS.iter().map(|(font, name)| {
            let is_latin = matches!(font, Font::Regular | Font::Bold);
            let encoding = if is_latin { "/Encoding/WinAnsiEncoding" } else { "" };
            format!("<</Type/Font/Subtype/Type1/BaseFont/{name}{encoding}>>").into_bytes()
        }));
        objects.extend(self.pictures.iter().map(|(width, height, jpeg)| {
            let kind = "/Type/XObject/Subtype/Image/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode";
            stream(&format!("{kind}/Width {width}/Height {height}"), jpeg)
        }));
        join_objects(&objects)
    }
}

fn font_number(font: Font) -> usize {
    FONTS.iter().position(|it| it.0 == font).unwrap_or(0)
}

/// Returns the channels of a colour as shares of the whole.
fn shares(colour: Rgb) -> [String; 3] {
    colour.map(|it| format!("{:.3}", f32::from(it) / 255.0))
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<<{dictionary}/Length {}>>stream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

/// Joins numbered objects to a PDF; the first is the catalog.
fn join_objects(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(objects) {
        table += &format!("{:010} 00000 n \n", file.len());
        file.extend(format!("{number} 0 obj\n").bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    let size = objects.len() + 1;
    file.extend(table.bytes());
    file.extend(format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n").bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_objects_points_to_them() {
        let mut page = PdfPage::new(100.0, 50.0);
        page.fill(Area { left: 1.0, top: 2.0, width: 3.0, height: 4.0 }, Geometry::Rectangle, [255, 0, 0]);
        page.picture(&RgbImage::new(2, 2), Area { width: 10.0, height: 10.0, ..Area::default() }).unwrap();
        let file = page.finish();
        let text = String::from_utf8_lossy(&file).into_owned();
        assert!(text.contains("1.000 0.000 0.000 rg\n1.00 44.00 3.00 4.00 re\nf"), "{text}");
        let places =
            (1..=9).map(|number| memchr::memmem::find(&file, format!("\n{number} 0 obj").as_bytes()).unwrap() + 1);
        for place in places {
            assert!(text.contains(&format!("{place:010} 00000 n ")), "{place}");
        }
        let start = memchr::memmem::rfind(&file, b"xref\n0 10").unwrap();
        assert!(text.ends_with(&format!("startxref\n{start}\n%%EOF\n")), "{text}");
    }

    #[test]
    fn text_is_written_in_codes_of_its_font() {
        let letter = |font, code| Glyph {
            letter: crate::skills::slides::fonts::Letter { font, code, width: 500 },
            size: 10.0,
            colour: None,
        };
        let glyphs = vec![letter(Font::Regular, b'('), letter(Font::Regular, b'A'), letter(Font::Symbol, 0xAE)];
        let mut page = PdfPage::new(100.0, 50.0);
        page.text(&PlacedLine { left: 5.0, baseline: 20.0, glyphs }, |_| [0; 3]);
        let file = String::from_utf8(page.finish()).unwrap();
        assert!(file.contains("/F0 10.00 Tf 1 0 0 1 5.00 30.00 Tm <2841> Tj"), "{file}");
        assert!(file.contains("/F2 10.00 Tf 1 0 0 1 15.00 30.00 Tm <AE> Tj"), "{file}");
    }
}
