//! What is read aloud by its name: a file, or a member of an archive as `archive.zip!/member`.

use std::path::Path;

/// Where a name is taken apart at most: an archive below so many folders whose names end in `!`. Each is looked up.
const MOST_PLACES: usize = 8;

/// Between archive and member.
const INSIDE: &str = "!/";

/// A file, and the member of it that is meant.
pub(super) type Named<'a> = (&'a Path, Option<&'a str>);

/// What a name may mean, in the order in which it is looked for: a file as it stands, since the name of a folder may end
/// in `!`; else a member of the outermost archive, as the members of inner ones are named from there. A name that can mean
/// only one thing has none of these: there is nothing to look for.
pub(super) fn meanings(name: &str) -> impl Iterator<Item = Named<'_>> {
    let places = name.match_indices(INSIDE).take(MOST_PLACES);
    let inside = places.map(|(at, _)| (Path::new(&name[..at]), Some(&name[at + INSIDE.len()..])));
    name.contains(INSIDE).then_some((Path::new(name), None)).into_iter().chain(inside)
}

/// What a name means where no file is known of it: a member of whatever stands first.
pub(super) fn usual(name: &str) -> Named<'_> {
    match name.split_once(INSIDE) {
        Some((archive, member)) => (Path::new(archive), Some(member)),
        None => (Path::new(name), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &[(&str, Option<&str>)]) {
        let expected: Vec<Named<'_>> = expected.iter().map(|(path, member)| (Path::new(*path), *member)).collect();
        assert_eq!(meanings(name).collect::<Vec<_>>(), expected, "{name}");
    }

    #[test]
    fn a_name_is_a_file_first_and_then_a_member_of_the_outermost_archive() {
        check("/w/a.md", &[]);
        assert_eq!(usual("/w/a.md"), (Path::new("/w/a.md"), None));
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
        assert_eq!(usual(nested), (Path::new("/m/Wham"), Some("a.zip!/b.zip!/c")));
    }

    #[test]
    fn a_name_of_nothing_but_such_places_is_looked_up_a_few_times() {
        assert_eq!(meanings(&"a!/".repeat(10_000)).count(), MOST_PLACES + 1);
    }
}
