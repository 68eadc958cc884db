//! Errors of the table's library in our terms.

use std::error::Error as StdError;
use std::path::Path;

use crate::error::{Error, ErrorCode, Result};

/// Names the action and the directory of a failed operation on a table.
pub(super) trait StoreContext<T> {
    /// Turns the error into `cannot <action> the index in <dir>: <error>`, with the code that fits.
    fn on(self, action: &str, dir: &Path) -> Result<T>;
}

impl<T> StoreContext<T> for lancedb::Result<T> {
    fn on(self, action: &str, dir: &Path) -> Result<T> {
        self.map_err(|error| explain(&error, action, dir))
    }
}

fn explain(error: &lancedb::Error, action: &str, dir: &Path) -> Error {
    let dir = dir.display();
    let message = format!("cannot {action} the index in `{dir}`: {}", first_line(error));
    match code(error) {
        ErrorCode::ResourceExhausted => Error::new(ErrorCode::ResourceExhausted, message)
            .hint("free some disk space, or point VIC_DB_PATH at a larger disk"),
        ErrorCode::DataLoss => Error::new(ErrorCode::DataLoss, message)
            .hint(format!("stop the daemon, move `{dir}` away, then run `vic index --full`")),
        ErrorCode::PermissionDenied => {
            Error::new(ErrorCode::PermissionDenied, message).hint(format!("check the permissions of `{dir}`"))
        }
        code => Error::new(code, message),
    }
}

/// The library's messages carry source locations and repeat themselves; the first line says it.
fn first_line(error: &lancedb::Error) -> String {
    without_location(error.to_string().lines().next().unwrap_or_default()).to_owned()
}

/// Cuts `, /some/where/file.rs:12:34` off the end: the place in the library's source where the error was made.
fn without_location(line: &str) -> &str {
    match line.rsplit_once(", ") {
        Some((message, place)) if place.contains(".rs:") && !place.contains(' ') => message,
        Some(_) | None => line,
    }
}

fn code(error: &lancedb::Error) -> ErrorCode {
    let damaged = matches!(error, lancedb::Error::TableCorrupted { .. });
    let mut text = String::new();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && let Some(code) = io_code(io.kind())
        {
            return code;
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    code_of_text(&text, damaged)
}

fn io_code(kind: std::io::ErrorKind) -> Option<ErrorCode> {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(ErrorCode::ResourceExhausted),
        ErrorKind::PermissionDenied => Some(ErrorCode::PermissionDenied),
        _ => None,
    }
}

/// Some layers below pass errors on as text only.
fn code_of_text(text: &str, damaged: bool) -> ErrorCode {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| text.contains(it));
    if has(&["no space left", "disk quota exceeded", "os error 28", "os error 122"]) {
        ErrorCode::ResourceExhausted
    } else if has(&["permission denied"]) {
        ErrorCode::PermissionDenied
    } else if damaged
        || has(&["corrupt", "not found", "unexpected eof", "invalid magic", "out of range", "no such file"])
    {
        ErrorCode::DataLoss
    } else {
        ErrorCode::Internal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_keeps_its_source_locations_to_itself() {
        assert_eq!(
            without_location("no space left (os error 28), /x/lance/src/commit.rs:1663:50"),
            "no space left (os error 28)"
        );
        assert_eq!(without_location("cannot read a, b"), "cannot read a, b");
    }

    #[test]
    fn a_full_disk_and_damage_are_told_apart() {
        let check = |message: &str, code: ErrorCode| {
            let error = lancedb::Error::Runtime { message: message.into() };
            let error = explain(&error, "write", Path::new("/x"));
            assert_eq!(error.code, code, "{message}");
            assert_eq!(error.hint.is_some(), code != ErrorCode::Internal);
            assert!(error.message.contains("`/x`"));
        };
        check("io: No space left on device (os error 28)", ErrorCode::ResourceExhausted);
        check("file is corrupt", ErrorCode::DataLoss);
        check("Permission denied (os error 13)", ErrorCode::PermissionDenied);
        check("anything", ErrorCode::Internal);
    }
}
