//! Arithmetic of the BERT encoder: products of 8-bit integers and the operations between them.
//!
//! Each kernel works on one row (one token) or, for [`Kernels::dot`], on a tile of rows. The result for a row depends only
//! on that row. [`mod@plain`] defines each kernel in simple Rust; [`avx512`] implements the same kernels with AVX-512.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod operands;
mod plain;

pub use crate::encoder::operands::*;

/// Returns the fastest kernels for this processor; `None` if it only supports the plain ones.
pub fn fastest() -> Option<&'static dyn Kernels> {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = avx512::Avx512::detect() {
        return Some(kernels);
    }
    None
}

/// Returns the kernels in plain Rust, which run on every processor.
pub fn plain() -> &'static dyn Kernels {
    &plain::Plain
}

#[cfg(test)]
mod tests;
