//! Interprets a path from a read request as a file, or as an archive member in the form `archive.zip!/member`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::model::MEMBER_SEPARATOR;

/// At most this many `!/` separators in one path are tried as the end of an archive's name, because each try costs a
/// lookup. Several occur if folders have names that end in `!`.
const MAX_SEPARATORS: usize = 8;

/// Path of a file, and the name of the archive member in it, if any.
pub(super) type FileAndMember = (PathBuf, Option<String>);

/// Returns the possible interpretations of a path in lookup order: first a plain file, because a folder name may end in
/// `!`; then a member of the outermost archive, because member names start there even for nested archives.
pub(super) fn candidates(name: &Path) -> impl Iterator<Item = FileAndMember> {
    let bytes = name.as_os_str().as_bytes();
    let places = memchr::memmem::find_iter(bytes, MEMBER_SEPARATOR).take(MAX_SEPARATORS);
    std::iter::once((name.to_path_buf(), None)).chain(places.filter_map(|at| split_at_separator(bytes, at)))
}

/// Returns the interpretation of a path that matches no known file: a member of the first archive named in it.
pub(super) fn default_candidate(name: &Path) -> FileAndMember {
    let bytes = name.as_os_str().as_bytes();
    let split = memchr::memmem::find(bytes, MEMBER_SEPARATOR.as_bytes()).and_then(|at| split_at_separator(bytes, at));
    split.unwrap_or_else(|| (name.to_path_buf(), None))
}

/// Splits a path into archive and member at the separator at byte `at`. Returns `None` if the member name is not UTF-8.
fn split_at_separator(name: &[u8], at: usize) -> Option<FileAndMember> {
    let member = std::str::from_utf8(&name[at + MEMBER_SEPARATOR.len()..]).ok()?;
    Some((PathBuf::from(OsStr::from_bytes(&name[..at])), Some(member.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, member: Option<&str>) -> FileAndMember {
        (path.into(), member.map(String::from))
    }

    fn check(name: &str, expected: &[(&str, Option<&str>)]) {
        let expected: Vec<FileAndMember> = expected.iter().map(|(path, member)| named(path, *member)).collect();
        assert_eq!(candidates(Path::new(name)).collect::<Vec<_>>(), expected, "{name}");
    }

    #[test]
    fn name_is_file_first_then_archive_member() {
        check("/w/a.md", &[("/w/a.md", None)]);
        assert_eq!(default_candidate(Path::new("/w/a.md")), named("/w/a.md", None));
        check("/w/a.zip!/b", &[("/w/a.zip!/b", None), ("/w/a.zip", Some("b"))]);
        let nested = "/m/Wham!/a.zip!/b.zip!/c";
        check(
            nested,
            &[
                (nested, None),
                ("/m/Wham", Some("a.zip!/b.zip!/c")),
                ("/m/Wham!/a.zip", Some("b.zip!/c")),
                ("/m/Wham!/a.zip!/b.zip", Some("c")),
            ],
        );
        assert_eq!(default_candidate(Path::new(nested)), named("/m/Wham", Some("a.zip!/b.zip!/c")));
    }

    #[test]
    fn lookups_per_name_are_bounded() {
        assert_eq!(candidates(Path::new(&"a!/".repeat(10_000))).count(), MAX_SEPARATORS + 1);
    }
}
