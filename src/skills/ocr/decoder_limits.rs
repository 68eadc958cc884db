//! Limits of image decoders, checked before pixels are decoded.

use crate::model::{ExtractFailure, Reason};

/// Largest number of pixels decoded: an A3 page at 600 dpi has 70 million.
const MAX_PIXELS: u64 = 100_000_000;
/// Memory limit of a decoder; a page of [`MAX_PIXELS`] in full colour fits.
pub(super) const MAX_DECODER_BYTES: u64 = 320 << 20;
/// Longest side of the result, in pixels: A4 at 340 dpi. Small print is legible far below that.
pub(super) const MAX_SIDE: u32 = 4_000;

/// Rejects images without pixels, or with too many.
pub(super) fn check_size(width: u32, height: u32) -> Result<(), ExtractFailure> {
    match u64::from(width) * u64::from(height) {
        0 => Err(failure(Reason::Damaged, "the image has no pixels")),
        1..=MAX_PIXELS => Ok(()),
        _ => Err(failure(Reason::TooLarge, format!("the image has {width} x {height} pixels"))),
    }
}

pub(super) fn failure(reason: Reason, detail: impl Into<String>) -> ExtractFailure {
    ExtractFailure { reason, detail: detail.into() }
}
