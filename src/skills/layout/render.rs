//! Renders a PDF page to an image for OCR.

use image::RgbImage;
use pdfium_render::prelude::{PdfPage, PdfRenderConfig};

/// Resolution at which small print is legible, in pixels per inch.
const DPI: f32 = 200.0;
/// Maximum number of pixels of a rendered page, because a page may claim any size.
const MAX_PIXELS: f32 = 12e6;
/// Points per inch.
const POINTS_PER_INCH: f32 = 72.0;

/// Renders a page as it is displayed, at a resolution for OCR.
pub(in crate::skills) fn render_page(page: &PdfPage<'_>) -> Result<RgbImage, String> {
    render_at(page, pixel_size(page.width().value, page.height().value, DPI / POINTS_PER_INCH))
}

/// Renders a page as it is displayed, about `width` pixels wide.
pub(in crate::skills) fn render_page_at(page: &PdfPage<'_>, width: u32) -> Result<RgbImage, String> {
    let points = page.width().value.max(1.0);
    render_at(page, pixel_size(points, page.height().value, width as f32 / points))
}

fn render_at(page: &PdfPage<'_>, (width, height): (i32, i32)) -> Result<RgbImage, String> {
    let config = PdfRenderConfig::new().set_target_size(width, height).render_form_data(true);
    let bitmap = page.render_with_config(&config).map_err(|error| format!("pdfium cannot draw the page: {error}"))?;
    let (width, height) = (bitmap.width().unsigned_abs(), bitmap.height().unsigned_abs());
    let bytes = bitmap.as_rgba_bytes();
    let (pixels, _) = bytes.as_chunks::<4>();
    let colours = pixels.iter().flat_map(|[red, green, blue, _]| [*red, *green, *blue]).collect();
    RgbImage::from_raw(width, height, colours).ok_or_else(|| "pdfium cannot draw the page: too few pixels".to_string())
}

/// Returns width and height in pixels of a page whose size is given in points, at `wanted` pixels per point or fewer.
fn pixel_size(width: f32, height: f32, wanted: f32) -> (i32, i32) {
    let (width, height) = (width.max(1.0), height.max(1.0));
    let scale = wanted.min((MAX_PIXELS / (width * height)).sqrt());
    // Limits each side too: a page 1 point high and very long has few pixels, but still a huge side.
    let side = |points: f32| (points * scale).round().clamp(1.0, 12_000.0) as i32;
    (side(width), side(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a4_page_is_rendered_at_200_dpi() {
        assert_eq!(pixel_size(595.0, 842.0, DPI / POINTS_PER_INCH), (1653, 2339));
    }

    #[test]
    fn extreme_page_sizes_stay_within_bounds() {
        for (width, height) in [(200_000.0, 200_000.0), (1e9, 1.0), (0.0, 0.0), (1.0, 1e7)] {
            let (x, y) = pixel_size(width, height, DPI / POINTS_PER_INCH);
            assert!(x >= 1 && y >= 1 && x <= 12_000 && y <= 12_000, "{x} x {y}");
            assert!(f64::from(x) * f64::from(y) <= 12.1e6, "{x} x {y}");
        }
    }
}
