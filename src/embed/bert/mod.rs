//! vic's own encoder for models of the BERT family, on the processor, in 8 bit integers.
//!
//! Why, when there is ONNX Runtime: this one knows that a text comes alone, so it needs no padding and no mask; it makes
//! bytes with a scale for each token instead of one for all; and it leaves nothing between two products but one walk over
//! the row. A text's vector depends on the text alone, to the last bit.
//!
//! ```text
//!             embeddings
//!                 |  norm: numbers, and the same as bytes
//!   +-> project (bytes x bytes) -> heads: queries, keys, values as bytes
//!   |        attention: shares of each query over all keys, products with the values
//!   |   mix -> add_norm
//!   +-- widen -> gelu -> narrow -> add_norm          once for each layer
//! ```
//!
//! [`kernels`] is the arithmetic, [`linear`] and [`network`] the weights, [`attention`] and [`pass`] the flow. Start
//! reading in [`pass`]. Models of another shape, and processors without the instructions, are left to ONNX Runtime: see
//! [`Shape::obstacle`] and [`Processor::fastest`]. Nothing here reads a file.

mod attention;
mod kernels;
mod linear;
mod network;
mod pass;

#[cfg(test)]
mod tests;

pub(crate) use network::{Network, Shape};
pub(crate) use pass::Pass;

/// Goes up with every change that moves vectors, so that old and new ones are never compared.
pub(crate) const VERSION: u32 = 1;

/// A kind of processor that the encoder can run on.
#[derive(Clone, Copy)]
pub(crate) struct Processor(&'static dyn kernels::Kernels);

impl Processor {
    /// Returns what this machine has, if it is fast here.
    pub(crate) fn fastest() -> Option<Processor> {
        kernels::fastest().map(Processor)
    }

    /// Returns what every machine has: slow, and what the fast ones are compared with.
    pub(crate) fn plain() -> Processor {
        Processor(kernels::plain())
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }
}
