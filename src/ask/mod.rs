//! Plan to answer.

mod fuse;

pub use fuse::{Fused, Weights, fuse};
