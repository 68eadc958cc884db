//! Vector arithmetic of vic, and a memory arena for ONNX Runtime. README.md lists what is unsafe and why.

#![allow(
    unsafe_code,
    reason = "vector instructions and the arena of ONNX Runtime have no safe form; README.md lists them"
)]

pub mod encoder;
pub mod matmul_tile;
pub mod onnx_arena;
pub mod vectors;
