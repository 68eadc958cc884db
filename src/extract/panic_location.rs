//! Records the source location of a reader's panic, but not its message, because panic messages may quote the text of the
//! file.

use std::cell::RefCell;

thread_local! {
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a silent panic hook that records the location of each panic.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|it| format!(" at {}:{}", shorten_path(it.file()), it.line()));
        LOCATION.with(|it| *it.borrow_mut() = place);
    }));
}

/// Returns the location of the last panic on this thread as ` at FILE:LINE`; empty if the hook is not installed.
pub(crate) fn take_location() -> String {
    LOCATION.with(|it| it.borrow_mut().take()).unwrap_or_default()
}

/// Shortens a path to the crate and the file in it, to hide directories of the build machine.
fn shorten_path(file: &str) -> &str {
    let start = file.rfind("/src/").map(|at| file[..at].rfind('/').map_or(0, |it| it + 1));
    &file[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_location_is_crate_and_file() {
        assert_eq!(shorten_path("/home/a/.cargo/registry/src/x/cfb-0.15.0/src/lib.rs"), "cfb-0.15.0/src/lib.rs");
        assert_eq!(shorten_path("src/extract/html.rs"), "src/extract/html.rs");
    }
}
