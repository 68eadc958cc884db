//! vic's own encoder for BERT embedding models: runs on the CPU only and computes with 8-bit integers.
//!
//! Its advantages over ONNX Runtime: a run has only one text, so there is no padding and no mask; activations are quantised
//! with a scale per token instead of one for all; between two matrix products it makes a single pass over each row. The
//! vector of a text depends on that text alone, bit for bit.
//!
//! ```text
//!             embeddings
//!                 |  norm: f32 rows and their bytes
//!   +-> project (bytes x bytes) -> heads: queries, keys, values as bytes
//!   |        attention: shares of each query over all keys, times the values
//!   |   mix -> add_norm
//!   +-- widen -> gelu -> narrow -> add_norm          once for each layer
//! ```
//!
//! [`vic_kernels::encoder`] does the arithmetic, [`linear`] and [`network`] hold the weights, [`attention`] and `forward`
//! run the layers. Start reading at `forward`. ONNX Runtime runs models of other shapes, and all models on processors
//! without fast kernels: see [`Shape::obstacle`] and [`ProcessorKernels::fastest`]. This module reads no files.

mod attention;

mod linear;
mod network;
mod forward;

#[cfg(test)]
mod tests;

use vic_kernels::encoder::{self, Kernels};

pub(crate) use crate::embed::bert::forward::ForwardPass;
pub(crate) use network::{Network, Shape};

/// Version of the computation. Increase it with every change that alters vectors, so that old and new vectors are never
/// compared.
pub(crate) const VERSION: u32 = 1;

/// The arithmetic functions (kernels) for one kind of processor.
#[derive(Clone, Copy)]
pub(crate) struct ProcessorKernels(&'static dyn Kernels);

impl ProcessorKernels {
    /// Returns the fast kernels for this machine; `None` if there are none for its processor.
    pub(crate) fn fastest() -> Option<ProcessorKernels> {
        encoder::fastest().map(ProcessorKernels)
    }

    /// Returns the portable kernels, which are slow and serve as the reference for the fast ones.
    pub(crate) fn plain() -> ProcessorKernels {
        ProcessorKernels(encoder::plain())
    }

    /// Returns the name of the kernels' instruction set.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }
}
