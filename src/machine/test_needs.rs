//! What a test needs of the machine that it runs on.

use std::io::Write;

/// Returns whether a test with this need proceeds. Without it the test shows nothing: it passes and reports that on standard
/// error, past the harness, which hides the output of passing tests. `VIC_TESTS_MUST_PROVE=1` makes it fail.
pub(crate) fn can_prove(is_possible: bool, missing: &str) -> bool {
    if !is_possible {
        let must_prove = std::env::var_os("VIC_TESTS_MUST_PROVE").is_some_and(|it| !it.is_empty());
        assert!(!must_prove, "cannot prove: {missing}");
        let test = std::thread::current().name().unwrap_or("a test").to_string();
        // Not with a macro: the harness captures the output of macros.
        std::io::stderr().write_all(format!("\nNOT PROVEN: {test}: {missing}\n").as_bytes()).unwrap();
    }
    is_possible
}
