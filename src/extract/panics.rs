//! Where a reader panicked, without what it said: messages of panics quote the text that they stumbled over.

use std::cell::RefCell;

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes the place of every panic of this process from now on, and keeps it silent.
pub(crate) fn note_places() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|it| format!(" at {}:{}", short(it.file()), it.line()));
        PLACE.with(|it| *it.borrow_mut() = place);
    }));
}

/// Returns where the last panic of this thread happened, ` at FILE:LINE`; empty where nobody took note.
pub(crate) fn place() -> String {
    PLACE.with(|it| it.borrow_mut().take()).unwrap_or_default()
}

/// The crate and the file in it: where crates lie on the machine that built them is nobody's business.
fn short(file: &str) -> &str {
    let start = file.rfind("/src/").map(|at| file[..at].rfind('/').map_or(0, |it| it + 1));
    &file[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_crate_and_the_file_in_it() {
        assert_eq!(short("/home/a/.cargo/registry/src/x/cfb-0.15.0/src/lib.rs"), "cfb-0.15.0/src/lib.rs");
        assert_eq!(short("src/extract/html.rs"), "src/extract/html.rs");
    }
}
