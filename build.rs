//! Sets `cfg(unoptimised)` in builds without optimisation.

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts as environment variables")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Tells the code that it was built without optimisation, because no built-in `cfg` does: without inlining, the vector
    // kernels are slow, and by default vic uses ONNX Runtime instead.
    println!("cargo:rustc-check-cfg=cfg(unoptimised)");
    if std::env::var_os("OPT_LEVEL").is_some_and(|it| it == "0") {
        println!("cargo:rustc-cfg=unoptimised");
    }
}
