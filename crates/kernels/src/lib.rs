//! The arithmetic of vic in vector instructions, and the memory that it runs in. See the README for what is unsafe and why.

#![allow(
    unsafe_code,
    reason = "vector instructions and the arena of ONNX Runtime have no safe form; README.md lists them"
)]

pub mod encoder;
pub mod matmul_tile;
pub mod onnx_arena;
pub mod vectors;
