//! Generates Rust types from `proto/`, and the descriptor set that gRPC reflection serves. Does not need `protoc`.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts as environment variables")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    println!("cargo:rerun-if-changed=build.rs");
    let protos = ["vic/v1/vic.proto", "vic/v1/graph.proto", "vic/v1/llm.proto"];
    let descriptors = protox::compile(protos, ["../../proto"])?;
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    std::fs::write(out_dir.join("vic.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
