//! Tells the code whether it is optimised.

#[expect(clippy::disallowed_methods, reason = "cargo hands its settings over in the environment")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Kernels are worth nothing in a build that inlines nothing, and no other setting tells the code.
    println!("cargo:rustc-check-cfg=cfg(unoptimised)");
    if std::env::var_os("OPT_LEVEL").is_some_and(|it| it == "0") {
        println!("cargo:rustc-cfg=unoptimised");
    }
}
