//! What is read aloud by its name: a file, or a member of an archive as `archive.zip!/member`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::model::INSIDE;

/// Where a name is taken apart at most: an archive below so many folders whose names end in `!`. Each is looked up.
const MOST_PLACES: usize = 8;

/// A file, and the member of it that is meant.
pub(super) type Named = (PathBuf, Option<String>);

/// What a name may mean, in the order in which it is looked for: a file as it stands, since the name of a folder may end
/// in `!`; else a member of the outermost archive, as the members of inner ones are named from there.
pub(super) fn meanings(name: &Path) -> impl Iterator<Item = Named> {
    let bytes = name.as_os_str().as_bytes();
    let places = memchr::memmem::find_iter(bytes, INSIDE).take(MOST_PLACES);
    std::iter::once((name.to_path_buf(), None)).chain(places.filter_map(|at| split(bytes, at)))
}

/// What a name means where no file is known of it: a member of whatever stands first.
pub(super) fn usual(name: &Path) -> Named {
    let bytes = name.as_os_str().as_bytes();
    let split = memchr::memmem::find(bytes, INSIDE.as_bytes()).and_then(|at| split(bytes, at));
    split.unwrap_or_else(|| (name.to_path_buf(), None))
}

/// Members have names in UTF-8.
fn split(name: &[u8], at: usize) -> Option<Named> {
    let member = std::str::from_utf8(&name[at + INSIDE.len()..]).ok()?;
    Some((PathBuf::from(OsStr::from_bytes(&name[..at])), Some(member.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, member: Option<&str>) -> Named {
        (path.into(), member.map(String::from))
    }

    fn check(name: &str, expected: &[(&str, Option<&str>)]) {
        let expected: Vec<Named> = expected.iter().map(|(path, member)| named(path, *member)).collect();
        assert_eq!(meanings(Path::new(name)).collect::<Vec<_>>(), expected, "{name}");
    }

    #[test]
    fn a_name_is_a_file_first_and_then_a_member_of_the_outermost_archive() {
        check("/w/a.md", &[("/w/a.md", None)]);
        assert_eq!(usual(Path::new("/w/a.md")), named("/w/a.md", None));
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
        assert_eq!(usual(Path::new(nested)), named("/m/Wham", Some("a.zip!/b.zip!/c")));
    }

    #[test]
    fn a_name_of_nothing_but_such_places_is_looked_up_a_few_times() {
        assert_eq!(meanings(Path::new(&"a!/".repeat(10_000))).count(), MOST_PLACES + 1);
    }
}
