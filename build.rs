//! Sets `cfg(unoptimised)` in builds without optimisation.

#[expect(clippy::disallowed_methods, reason = "cargo hands its settings over in the environment")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Without inlining the kernels are slow, and no other setting reports that.
    println!("cargo:rustc-check-cfg=cfg(unoptimised)");
    if std::env::var_os("OPT_LEVEL").is_some_and(|it| it == "0") {
        println!("cargo:rustc-cfg=unoptimised");
    }
}
