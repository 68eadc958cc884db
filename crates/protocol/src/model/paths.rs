//! Formats file paths for people and programs, and parses them.
//!
//! A UTF-8 path is printed unchanged. Any other path has no lossless text form and is printed as a `file://` URL.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::error::{Error, Result};
use crate::model::Root;

/// Separator between an archive and its member.
pub const MEMBER_SEPARATOR: &str = "!/";

/// Characters that are not escaped in the path of a URL.
const UNESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'!');

/// Maximum number of candidates that an error names.
const MAX_CANDIDATES: usize = 8;

/// Formats an absolute path; [`parse_path`] parses it.
pub fn display_path(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) => text.into(),
        None => format!("file://{}", percent_encode(path.as_os_str().as_bytes(), UNESCAPED)).into(),
    }
}

/// Formats a file or an archive member as a path `below` its root, or as an absolute URL if that is not UTF-8.
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

/// Parses a path: a `file://` URL of this machine, or the path itself.
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

/// Resolves a path relative to a root, as hits print it, to the one absolute path for which `exists` returns true.
///
/// # Errors
/// `InvalidArgument` when it exists in several roots (the message lists them), and for a path with `..`.
pub fn resolve_in_roots(roots: &[Root], name: &Path, exists: impl Fn(&Path) -> bool) -> Result<Option<PathBuf>> {
    if name.components().any(|it| it == Component::ParentDir) {
        return Err(Error::invalid(format!("`{}` leads upwards: name the path whole", name.display())));
    }
    // Hits print paths relative to the outermost root.
    let is_outermost = |it: &&Root| !roots.iter().any(|root| root.path != it.path && it.path.starts_with(&root.path));
    let all = roots.iter().filter(is_outermost).map(|it| it.path.join(name));
    let mut found: Vec<PathBuf> = all.filter(|it| exists(it)).collect();
    found.sort();
    found.dedup();
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let more = found.len().saturating_sub(MAX_CANDIDATES);
    let mut told: Vec<String> = found.iter().take(MAX_CANDIDATES).map(|it| format!("`{}`", display_path(it))).collect();
    told.extend((more > 0).then(|| format!("{more} more")));
    let text = format!("`{}` is in {} roots: {}", name.display(), found.len(), told.join(", "));
    Err(Error::invalid(text).hint("name one of them"))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn relative_path_resolves_to_existing_file() {
        let root = |id, path: &str| Root { id, path: path.into(), available: true, problem: String::new() };
        let roots = [root(1, "/a"), root(2, "/b"), root(3, "/b/c")];
        let find = |name: &str, there: &[&str]| {
            resolve_in_roots(&roots, Path::new(name), |it| there.contains(&it.to_str().unwrap()))
        };
        assert_eq!(find("x.md", &["/b/x.md"]).unwrap(), Some("/b/x.md".into()));
        assert_eq!(find("x.md", &[]).unwrap(), None);
        let error = find("x.md", &["/b/x.md", "/a/x.md"]).unwrap_err();
        assert!(error.message.contains("in 2 roots: `/a/x.md`, `/b/x.md`"), "{error}");
        assert!(find("../x.md", &["/a/../x.md"]).is_err());
    }
}
