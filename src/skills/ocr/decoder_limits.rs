//! Limits of image decoders, checked before any pixel is decoded.

use crate::model::{ExtractFailure, Reason};

/// Maximum number of pixels of an image to decode: an A3 page at 600 dpi has 70 million.
const MAX_PIXELS: u64 = 100_000_000;
/// Memory limit of a decoder in bytes; a page of [`MAX_PIXELS`] in full colour fits.
pub(super) const MAX_DECODER_BYTES: u64 = 320 << 20;
/// Maximum side of a decoded image, in pixels: A4 at 340 dpi. Small print is legible at much lower resolutions.
pub(super) const MAX_SIDE: u32 = 4_000;

/// Rejects images without pixels, and images with more than [`MAX_PIXELS`].
pub(super) fn check_size(width: u32, height: u32) -> Result<(), ExtractFailure> {
    match u64::from(width) * u64::from(height) {
        0 => Err(failure(Reason::Damaged, "the image has no pixels")),
        1..=MAX_PIXELS => Ok(()),
        _ => Err(failure(Reason::TooLarge, format!("the image has {width} x {height} pixels, too many"))),
    }
}

pub(super) fn failure(reason: Reason, detail: impl Into<String>) -> ExtractFailure {
    ExtractFailure { reason, detail: detail.into() }
}
