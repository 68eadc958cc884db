//! Formats file paths for output, and parses them again.
//!
//! A UTF-8 path is printed unchanged. Any other path has no lossless text form and is printed as a `file://` URL.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Separator between the path of an archive and that of a member in it.
pub const MEMBER_SEPARATOR: &str = "!/";

/// ASCII characters that need no percent-encoding in the path of a URL.
const UNESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'!');

/// Formats an absolute path as text; [`parse_path`] converts it back.
pub fn display_path(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) => text.into(),
        None => format!("file://{}", percent_encode(path.as_os_str().as_bytes(), UNESCAPED)).into(),
    }
}

/// Formats a file or an archive member by its path `below` the root, or as an absolute URL if the path is not UTF-8.
pub fn display_relative(root: &Path, below: &Path, member: Option<&str>) -> String {
    let inside = |path: &OsStr| -> PathBuf {
        let mut all = path.to_os_string();
        if let Some(member) = member {
            all.push(MEMBER_SEPARATOR);
            all.push(member);
        }
        all.into()
    };
    match inside(below.as_os_str()).into_os_string().into_string() {
        Ok(text) => text,
        Err(_) => display_path(&inside(root.join(below).as_os_str())).into_owned(),
    }
}

/// Parses text as a path: either a `file://` URL of this machine, or the path itself.
pub fn parse_path(text: &str) -> PathBuf {
    let rest = ["file:///", "file://localhost/"].into_iter().find_map(|it| text.strip_prefix(it));
    match rest {
        Some(rest) => {
            let bytes: Vec<u8> = std::iter::once(b'/').chain(percent_decode_str(rest)).collect();
            PathBuf::from(std::ffi::OsString::from_vec(bytes))
        }
        None => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case A11
    #[test]
    fn printed_path_round_trips() {
        for bytes in
            [&b"/w/caf\xe9 #1?100%.txt"[..], b"/w/plain %41.txt", b"/w/\xff/a.zip!/m.md", "/w/größe".as_bytes()]
        {
            let path = Path::new(OsStr::from_bytes(bytes));
            let text = display_path(path);
            assert_eq!(parse_path(&text), path, "{text}");
            assert_eq!(text.starts_with("file:///"), path.to_str().is_none(), "{text}");
        }
        assert_eq!(parse_path("file://localhost/a%20b"), Path::new("/a b"));
        assert_eq!(parse_path("file://server/a"), Path::new("file://server/a"));
    }

    #[test]
    fn non_utf8_path_is_printed_as_absolute_url() {
        let (root, odd) = (Path::new("/w"), Path::new(OsStr::from_bytes(b"a\xe9.zip")));
        assert_eq!(display_relative(root, Path::new("a.zip"), Some("m 1.md")), "a.zip!/m 1.md");
        assert_eq!(display_relative(root, odd, None), "file:///w/a%E9.zip");
        assert_eq!(display_relative(root, odd, Some("m 1.md")), "file:///w/a%E9.zip!/m%201.md");
    }
}
