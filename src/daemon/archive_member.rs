//! Interprets a path to read: a file, or an archive member as `archive.zip!/member`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::model::MEMBER_SEPARATOR;

/// Most `!/` separators tried in one name, e.g. an archive below folders with names that end in `!`. Each costs a lookup.
const MAX_SEPARATORS: usize = 8;

/// A file, and the archive member in it.
pub(super) type FileAndMember = (PathBuf, Option<String>);

/// Returns the possible readings of a name in lookup order: first a plain file, because a folder name may end in `!`. Then
/// a member of the outermost archive, because members of inner archives are named from there.
pub(super) fn candidates(name: &Path) -> impl Iterator<Item = FileAndMember> {
    let bytes = name.as_os_str().as_bytes();
    let places = memchr::memmem::find_iter(bytes, MEMBER_SEPARATOR).take(MAX_SEPARATORS);
    std::iter::once((name.to_path_buf(), None)).chain(places.filter_map(|at| split_at_separator(bytes, at)))
}

/// Returns the reading of a name that matches no known file: a member of the first archive.
pub(super) fn default_candidate(name: &Path) -> FileAndMember {
    let bytes = name.as_os_str().as_bytes();
    let split = memchr::memmem::find(bytes, MEMBER_SEPARATOR.as_bytes()).and_then(|at| split_at_separator(bytes, at));
    split.unwrap_or_else(|| (name.to_path_buf(), None))
}

/// Splits at byte `at`; `None` unless the member name is UTF-8.
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
