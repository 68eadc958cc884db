//! Converts errors of LanceDB to vic's errors, with a code and a hint.

use std::error::Error as StdError;
use std::path::Path;

use crate::error::{Error, ErrorCode, Result};

/// Converts the result of a table operation; an error gets the action and the directory in its message.
pub(super) trait StoreContext<T> {
    /// Converts the error to `cannot <action> the index in <dir>: <error>`, with the matching code.
    fn on(self, action: &str, dir: &Path) -> Result<T>;
}

impl<T> StoreContext<T> for lancedb::Result<T> {
    fn on(self, action: &str, dir: &Path) -> Result<T> {
        self.map_err(|error| explain(&error, action, dir))
    }
}

/// Marks the error as damage of the table. Used where an existing table cannot be opened or read, because the library
/// may report damage as any kind of error. Errors of the operating system (full disk, permissions, unresponsive disk,
/// too many open files) keep their code.
pub(super) fn mark_damaged(error: lancedb::Error) -> lancedb::Error {
    lancedb::Error::TableCorrupted { name: String::new(), source: Box::new(error) }
}

/// Returns whether the error means a damaged table rather than an error of the operating system.
pub(super) fn is_damage(error: &lancedb::Error) -> bool {
    code(error, true) == ErrorCode::DataLoss
}

fn explain(error: &lancedb::Error, action: &str, dir: &Path) -> Error {
    let dir = dir.display();
    let message = format!("cannot {action} the index in `{dir}`: {}", first_line(error));
    match code(error, matches!(error, lancedb::Error::TableCorrupted { .. })) {
        ErrorCode::StorageFull => Error::new(ErrorCode::StorageFull, message)
            .hint("free some disk space, or point VIC_DB_PATH at a larger disk"),
        ErrorCode::DataLoss => Error::new(ErrorCode::DataLoss, message).hint(format!(
            "restart the daemon: it renames damaged parts and indexes their files again; if that does not help, \
             move `{dir}` away first"
        )),
        ErrorCode::PermissionDenied => {
            Error::new(ErrorCode::PermissionDenied, message).hint(format!("check the permissions of `{dir}`"))
        }
        ErrorCode::Unavailable => Error::new(ErrorCode::Unavailable, message)
            .hint("nothing was changed: the system refused to read or write the index; see `dmesg`, then restart vic"),
        code => Error::new(code, message),
    }
}

/// Returns the first line of an error: further lines of the library's messages repeat it and name source locations.
fn first_line(error: &lancedb::Error) -> String {
    without_location(error.to_string().lines().next().unwrap_or_default()).to_owned()
}

/// Cuts off every trailing source location in the library, such as `, /some/where/file.rs:12:34`.
fn without_location(line: &str) -> &str {
    match line.rsplit_once(", ") {
        Some((message, place)) if place.contains(".rs:") && !place.contains(' ') => without_location(message),
        Some(_) | None => line,
    }
}

fn code(error: &lancedb::Error, damaged: bool) -> ErrorCode {
    let mut text = String::new();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && let Some(code) = io.raw_os_error().and_then(os_code)
        {
            return code;
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    code_of_text(&text, damaged)
}

/// Returns the code of an OS error. Returns `None` for missing files and files of the wrong type, which may be damage.
fn os_code(number: i32) -> Option<ErrorCode> {
    match number {
        libc::ENOENT | libc::ENOTDIR | libc::EISDIR => None,
        libc::ENOSPC | libc::EDQUOT => Some(ErrorCode::StorageFull),
        libc::EACCES | libc::EPERM | libc::EROFS => Some(ErrorCode::PermissionDenied),
        _ => Some(ErrorCode::Unavailable),
    }
}

/// Finds the code in the text of an error, because some lower layers return errors as text only: `... (os error 28)`.
fn code_of_text(text: &str, damaged: bool) -> ErrorCode {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| text.contains(it));
    let number =
        text.split("os error ").nth(1).map(|it| it.chars().take_while(char::is_ascii_digit).collect::<String>());
    if let Some(code) = number.and_then(|it| it.parse().ok()).and_then(os_code) {
        code
    } else if has(&["no space left", "disk quota exceeded"]) {
        ErrorCode::StorageFull
    } else if has(&["permission denied"]) {
        ErrorCode::PermissionDenied
    } else if damaged
        || has(&[
            "corrupt",
            "not found",
            "unexpected eof",
            "fill whole buffer",
            "invalid magic",
            "out of range",
            "no such file",
        ])
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
    fn source_locations_are_cut_from_messages() {
        assert_eq!(
            without_location("no space left (os error 28), /x/lance/src/commit.rs:1663:50"),
            "no space left (os error 28)"
        );
        assert_eq!(
            without_location("Input/output error (os error 5), /x/object_writer.rs:767:17, /x/write.rs:1:2"),
            "Input/output error (os error 5)"
        );
        assert_eq!(without_location("cannot read a, b"), "cannot read a, b");
    }

    #[test]
    fn disk_full_and_damage_get_different_codes() {
        let check = |message: &str, code: ErrorCode| {
            let error = lancedb::Error::Runtime { message: message.into() };
            let error = explain(&error, "write", Path::new("/x"));
            assert_eq!(error.code, code, "{message}");
            assert_eq!(error.hint.is_some(), code != ErrorCode::Internal);
            assert!(error.message.contains("`/x`"));
        };
        check("io: No space left on device (os error 28)", ErrorCode::StorageFull);
        check("file is corrupt", ErrorCode::DataLoss);
        check("Permission denied (os error 13)", ErrorCode::PermissionDenied);
        check("the manifest was not found (os error 2)", ErrorCode::DataLoss);
        check("Generic LocalFileSystem error: failed to fill whole buffer", ErrorCode::DataLoss);
        check("Input/output error (os error 5)", ErrorCode::Unavailable);
        check("corrupt file: Too many open files (os error 24)", ErrorCode::Unavailable);
        check("anything", ErrorCode::Internal);
    }
}
