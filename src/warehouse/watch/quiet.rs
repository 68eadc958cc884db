//! Events until their place is quiet. Pure: time is handed in.
//!
//! Only where something happened is kept, not what: what became of a place is for the disk to say. Renames are the
//! exception, because nothing else tells that two places are one file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A place has to be quiet for this long: editors write a file in several steps, and a result is due within 2 s.
pub(super) const QUIET: Duration = Duration::from_millis(500);

/// A place that is never quiet, such as a log, is looked at this often.
const PATIENCE: Duration = Duration::from_secs(5);

/// Places that wait.
#[derive(Default)]
pub(super) struct Quiet {
    places: HashMap<PathBuf, Seen>,
    /// In the order in which they happened.
    renames: Vec<Rename>,
}

struct Seen {
    first: Instant,
    last: Instant,
}

struct Rename {
    from: PathBuf,
    to: PathBuf,
    at: Instant,
}

/// What happened at a place that is quiet now. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    Renamed { from: PathBuf, to: PathBuf },
    Touched(PathBuf),
}

impl Quiet {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.renames.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() + self.renames.len()
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.renames.clear();
    }

    /// Notes that something happened at a place.
    pub(super) fn touch(&mut self, path: PathBuf, now: Instant) {
        self.places.entry(path).or_insert(Seen { first: now, last: now }).last = now;
    }

    /// Notes that a file or folder moved: what waited at or below its old place waits at the new one.
    pub(super) fn rename(&mut self, from: &Path, to: &Path, now: Instant) {
        self.places.remove(from);
        self.places.remove(to);
        let below: Vec<PathBuf> = self.places.keys().filter(|it| it.starts_with(from)).cloned().collect();
        for path in below {
            if let (Some(seen), Some(moved)) = (self.places.remove(&path), moved(&path, from, to)) {
                self.places.insert(moved, seen);
            }
        }
        let mut is_new = true;
        for rename in &mut self.renames {
            if rename.to == from {
                is_new = false;
                rename.at = now;
            } else if let Some(earlier) = moved(&rename.from, from, to).filter(|_| rename.from != from) {
                rename.from = earlier;
            }
            if let Some(place) = moved(&rename.to, from, to) {
                rename.to = place;
            }
        }
        if is_new {
            self.renames.push(Rename { from: from.into(), to: to.into(), at: now });
        }
        let back: Vec<PathBuf> = self.renames.extract_if(.., |it| it.from == it.to).map(|it| it.to).collect();
        back.into_iter().for_each(|it| self.touch(it, now));
    }

    /// Puts the roots in the place of all that waits below them.
    pub(super) fn gather(&mut self, roots: &[PathBuf], now: Instant) {
        let places = self.places.drain().map(|it| it.0).chain(self.renames.drain(..).map(|it| it.to));
        let places: Vec<PathBuf> = places.collect();
        for root in roots.iter().filter(|root| places.iter().any(|it| it.starts_with(root))) {
            self.touch(root.clone(), now);
        }
    }

    /// Takes out what is quiet: renames first, parents before what lies below them.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Happening> {
        let is_quiet = |last: Instant| now.saturating_duration_since(last) >= QUIET;
        let renames = self.renames.extract_if(.., |it| is_quiet(it.at));
        let mut due: Vec<Happening> = renames.map(|it| Happening::Renamed { from: it.from, to: it.to }).collect();
        let places = self
            .places
            .extract_if(|_, seen| is_quiet(seen.last) || now.saturating_duration_since(seen.first) >= PATIENCE);
        let mut places: Vec<PathBuf> = places.map(|it| it.0).collect();
        places.sort_unstable();
        due.extend(places.into_iter().map(Happening::Touched));
        due
    }
}

/// Where a path at or below `from` is after the move.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `events` ("a" is touched, "a>b" is a rename), 10 ms apart, and gives what is due when all is quiet.
    fn check(events: &[&str], expected: &[&str]) {
        let (mut quiet, begin) = (Quiet::default(), Instant::now());
        for (number, event) in events.iter().enumerate() {
            let now = begin + Duration::from_millis(10 * number as u64);
            match event.split_once('>') {
                Some((from, to)) => quiet.rename(Path::new(from), Path::new(to), now),
                None => quiet.touch(event.into(), now),
            }
            assert_eq!(quiet.due(now), []);
        }
        let due = quiet.due(begin + 2 * QUIET);
        let said: Vec<String> = due
            .iter()
            .map(|it| match it {
                Happening::Renamed { from, to } => format!("{}>{}", from.display(), to.display()),
                Happening::Touched(path) => path.display().to_string(),
            })
            .collect();
        assert_eq!(said, expected, "{events:?}");
        assert!(quiet.is_empty());
    }

    #[test]
    fn each_place_is_told_once_and_renames_come_first() {
        check(&["b", "a", "b", "b"], &["a", "b"]);
        check(&["x", "a", "b", "a>b"], &["a>b", "x"]);
        check(&["a>b", "b"], &["a>b", "b"]);
    }

    #[test]
    fn what_happened_before_a_rename_is_told_of_the_new_place() {
        check(&["d", "d/x", "d.txt", "d>e"], &["d>e", "d.txt", "e/x"]);
        check(&["a>b", "b>c"], &["a>c"]);
        check(&["a>b", "b>a"], &["a"]);
        check(&["d/x>d/y", "d>e"], &["e/x>e/y", "d>e"]);
        check(&["d>e", "e/x>e/y"], &["d>e", "e/x>e/y"]);
    }

    #[test]
    fn a_place_that_is_never_quiet_is_told_from_time_to_time() {
        let (mut quiet, begin) = (Quiet::default(), Instant::now());
        let mut told = 0;
        for tenths in 0..200 {
            let now = begin + Duration::from_millis(100 * tenths);
            quiet.touch("log".into(), now);
            told += quiet.due(now).len();
        }
        assert_eq!(told, 3);
    }

    #[test]
    fn too_many_places_are_one_place_for_each_root_that_they_lie_in() {
        let (mut quiet, now) = (Quiet::default(), Instant::now());
        (0..100).for_each(|it| quiet.touch(format!("/a/{it}").into(), now));
        quiet.gather(&["/a".into(), "/b".into()], now);
        assert_eq!(quiet.due(now + QUIET), [Happening::Touched("/a".into())]);
    }
}
