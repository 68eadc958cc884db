//! Lets a test pass, with a message, on a machine that lacks what the test needs.

use std::io::Write;

/// Returns whether a test can proceed (`is_possible`). If not, reports on standard error that the test proves nothing here
/// because of `missing`; the test should then return, and so pass. With `VIC_TESTS_MUST_PROVE=1` the test fails instead.
pub(crate) fn can_prove(is_possible: bool, missing: &str) -> bool {
    if !is_possible {
        #[expect(clippy::disallowed_methods, reason = "a variable of the tests, not a setting")]
        let must_prove = std::env::var_os("VIC_TESTS_MUST_PROVE").is_some_and(|it| !it.is_empty());
        assert!(!must_prove, "cannot prove: {missing}");
        let test = std::thread::current().name().unwrap_or("a test").to_string();
        // Writes to standard error directly, because the test harness hides the output of macros in passing tests.
        std::io::stderr().write_all(format!("\nNOT PROVEN: {test}: {missing}\n").as_bytes()).unwrap();
    }
    is_possible
}
