//! Debouncer: holds back the events of a path until no more arrive for a while. The current time is a parameter.
//!
//! The debouncer stores only the paths, because the watcher later reads the state of each path from the disk. There are
//! two exceptions: renames, because only the event shows that two paths are one file, and whether a written file is
//! still open, because an incomplete file should not be read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Events of a path are held back until none arrived for this long, because editors write a file in several steps. A
/// change must be reported within 2 s.
pub(super) const QUIET_TIME: Duration = Duration::from_millis(500);

/// As [`QUIET_TIME`], for a file that was written and not closed yet, because programs pause while they write.
const QUIET_TIME_OPEN: Duration = Duration::from_secs(1);

/// A path with continuous events, such as a log, is reported this often.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The paths and renames that are held back.
#[derive(Default)]
pub(super) struct Debouncer {
    places: HashMap<PathBuf, PlaceState>,
    /// Renames, in the order of their events.
    renames: Vec<Rename>,
}

struct PlaceState {
    first: Instant,
    last: Instant,
    /// True if the file was written and has not been closed since.
    open: bool,
}

/// What an event says about writing to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    /// The event is not about writing.
    Unknown,
    /// The file was written; more writes may follow.
    Open,
    /// The file was closed after it was written.
    Closed,
}

struct Rename {
    from: PathBuf,
    to: PathBuf,
    at: Instant,
}

/// A path or rename whose events are no longer held back. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QuietEvent {
    Renamed { from: PathBuf, to: PathBuf },
    Touched(PathBuf),
}

impl Debouncer {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.renames.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() + self.renames.len()
    }

    /// Records an event at a path.
    pub(super) fn touch(&mut self, path: PathBuf, writing: WriteState, now: Instant) {
        let seen = self.places.entry(path).or_insert(PlaceState { first: now, last: now, open: false });
        seen.last = now;
        match writing {
            WriteState::Unknown => (),
            WriteState::Open => seen.open = true,
            WriteState::Closed => seen.open = false,
        }
    }

    /// Records that a file or folder moved: held-back events at or below the old path move to the new path.
    pub(super) fn rename(&mut self, from: &Path, to: &Path, now: Instant) {
        self.places.remove(from);
        self.places.remove(to);
        let below: Vec<PathBuf> = self.places.keys().filter(|it| is_within(it, from)).cloned().collect();
        for path in below {
            if let (Some(seen), Some(moved)) = (self.places.remove(&path), path_after_move(&path, from, to)) {
                self.places.insert(moved, seen);
            }
        }
        let mut is_new = true;
        for rename in &mut self.renames {
            if rename.to == from {
                is_new = false;
                rename.at = now;
            } else if let Some(earlier) = path_after_move(&rename.from, from, to).filter(|_| rename.from != from) {
                rename.from = earlier;
            }
            if let Some(place) = path_after_move(&rename.to, from, to) {
                rename.to = place;
            }
        }
        if is_new {
            self.renames.push(Rename { from: from.into(), to: to.into(), at: now });
        } else {
            // Reports `from` too, because the earlier rename to this path may have replaced another file there.
            self.touch(from.into(), WriteState::Unknown, now);
        }
        let back: Vec<PathBuf> = self.renames.extract_if(.., |it| it.from == it.to).map(|it| it.to).collect();
        back.into_iter().for_each(|it| self.touch(it, WriteState::Unknown, now));
    }

    /// Replaces held-back paths by their folders, the deepest first, until at most `most` remain. Roots are never merged
    /// into their parents, because a root that seems deleted may only be unmounted.
    pub(super) fn merge_into_folders(&mut self, roots: &[PathBuf], most: usize, now: Instant) {
        if self.renames.len() > most {
            let renamed: Vec<PathBuf> = self.renames.drain(..).flat_map(|it| [it.from, it.to]).collect();
            renamed.into_iter().for_each(|it| self.touch(it, WriteState::Unknown, now));
        }
        let depth = |path: &Path| path.components().count();
        while self.places.len() > most {
            let deepest = self.places.keys().filter(|it| !roots.contains(it)).map(|it| depth(it)).max();
            let Some(deepest) = deepest else { return };
            let places: Vec<PathBuf> =
                self.places.keys().filter(|it| depth(it) == deepest && !roots.contains(it)).cloned().collect();
            for place in places {
                self.places.remove(&place);
                self.touch(place.parent().unwrap_or(&place).to_path_buf(), WriteState::Unknown, now);
            }
        }
    }

    /// Removes and returns the events that were held back long enough: renames first, then paths, parents before their
    /// children.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<QuietEvent> {
        let is_quiet = |last: Instant, limit: Duration| now.saturating_duration_since(last) >= limit;
        let renames = self.renames.extract_if(.., |it| is_quiet(it.at, QUIET_TIME)).collect();
        let places = self.places.extract_if(|_, seen| {
            is_quiet(seen.last, if seen.open { QUIET_TIME_OPEN } else { QUIET_TIME }) || is_quiet(seen.first, MAX_DELAY)
        });
        sort_events(renames, places.map(|it| it.0).collect())
    }

    /// Removes and returns all events, even recent ones, because a caller waits for a barrier.
    pub(super) fn take_all(&mut self) -> Vec<QuietEvent> {
        let renames = std::mem::take(&mut self.renames);
        sort_events(renames, self.places.drain().map(|it| it.0).collect())
    }
}

fn sort_events(renames: Vec<Rename>, mut places: Vec<PathBuf>) -> Vec<QuietEvent> {
    places.sort_unstable();
    let renames = renames.into_iter().map(|it| QuietEvent::Renamed { from: it.from, to: it.to });
    renames.chain(places.into_iter().map(QuietEvent::Touched)).collect()
}

/// Returns whether a path is `folder` or lies below it. Compares bytes first, which rejects most paths without
/// splitting them into components: thousands of renames are compared with each other.
fn is_within(path: &Path, folder: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(folder.as_os_str().as_encoded_bytes()) && path.starts_with(folder)
}

/// Returns the new path of a file at or below `from` after the move; `None` for other paths.
fn path_after_move(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = is_within(path, from).then(|| path.strip_prefix(from).ok())??;
    Some(if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `events` 10 ms apart ("a" is touched, "a>b" is a rename), and checks what is reported in the end.
    fn check(events: &[&str], expected: &[&str]) {
        let (mut quiet, begin) = (Debouncer::default(), Instant::now());
        for (number, event) in events.iter().enumerate() {
            let now = begin + Duration::from_millis(10 * number as u64);
            match event.split_once('>') {
                Some((from, to)) => quiet.rename(Path::new(from), Path::new(to), now),
                None => quiet.touch(event.into(), WriteState::Unknown, now),
            }
            assert_eq!(quiet.take_due(now), []);
        }
        let due = quiet.take_due(begin + 2 * QUIET_TIME);
        let said: Vec<String> = due
            .iter()
            .map(|it| match it {
                QuietEvent::Renamed { from, to } => format!("{}>{}", from.display(), to.display()),
                QuietEvent::Touched(path) => path.display().to_string(),
            })
            .collect();
        assert_eq!(said, expected, "{events:?}");
        assert!(quiet.is_empty());
    }

    #[test]
    fn each_place_is_reported_once_after_renames() {
        check(&["b", "a", "b", "b"], &["a", "b"]);
        check(&["x", "a", "b", "a>b"], &["a>b", "x"]);
        check(&["a>b", "b"], &["a>b", "b"]);
    }

    #[test]
    fn events_before_rename_move_to_new_place() {
        check(&["d", "d/x", "d.txt", "d>e"], &["d>e", "d.txt", "e/x"]);
        check(&["a>b", "b>c"], &["a>c", "b"]);
        check(&["a>b", "b>a"], &["a", "b"]);
        check(&["d/x>d/y", "d>e"], &["e/x>e/y", "d>e"]);
        check(&["d>e", "e/x>e/y"], &["d>e", "e/x>e/y"]);
    }

    // Case A7
    #[test]
    fn busy_place_is_reported_periodically() {
        let (mut quiet, begin) = (Debouncer::default(), Instant::now());
        let mut told = 0;
        for tenths in 0..200 {
            let now = begin + Duration::from_millis(100 * tenths);
            quiet.touch("log".into(), WriteState::Open, now);
            told += quiet.take_due(now).len();
        }
        assert_eq!(told, 3);
    }

    #[test]
    fn open_file_is_reported_on_close_or_longer_quiet() {
        let check = |events: &[(u64, WriteState)], expected: u64| {
            let (mut quiet, begin) = (Debouncer::default(), Instant::now());
            let told = (0..100).find(|tenth| {
                let now = begin + Duration::from_millis(100 * tenth);
                let now_told = !quiet.take_due(now).is_empty();
                events.iter().filter(|it| it.0 == *tenth).for_each(|it| quiet.touch("f".into(), it.1, now));
                now_told
            });
            assert_eq!(told, Some(expected), "{events:?}");
        };
        let (open, closed) = (WriteState::Open, WriteState::Closed);
        // The file is truncated, then written with pauses of 0.8 s, which must not count as the end of writing.
        check(&[(0, open), (8, open), (16, open), (17, closed)], 22);
        check(&[(0, open)], 10);
        check(&[(0, WriteState::Unknown)], 5);
        check(&[(0, open), (1, WriteState::Unknown), (2, closed)], 7);
    }

    #[test]
    fn all_returns_everything_at_once() {
        let (mut quiet, now) = (Debouncer::default(), Instant::now());
        quiet.touch("b".into(), WriteState::Open, now);
        quiet.rename(Path::new("c"), Path::new("d"), now);
        let renamed = QuietEvent::Renamed { from: "c".into(), to: "d".into() };
        assert_eq!(quiet.take_all(), [renamed, QuietEvent::Touched("b".into())]);
        assert!(quiet.is_empty());
    }

    #[test]
    fn too_many_places_merge_into_folders() {
        let check = |most: usize, expected: &[&str]| {
            let (mut quiet, now) = (Debouncer::default(), Instant::now());
            (0..100).for_each(|it| quiet.touch(format!("/a/deep/er/{it}").into(), WriteState::Unknown, now));
            (0..3).for_each(|it| quiet.touch(format!("/a/{it}").into(), WriteState::Unknown, now));
            (0..2).for_each(|it| quiet.rename(Path::new(&format!("/a/x/{it}")), Path::new(&format!("/a/y/{it}")), now));
            quiet.merge_into_folders(&["/a".into(), "/b".into()], most, now);
            let due = quiet.take_due(now + QUIET_TIME);
            let touched: Vec<&str> = due
                .iter()
                .filter_map(|it| if let QuietEvent::Touched(path) = it { path.to_str() } else { None })
                .collect();
            assert_eq!(touched, expected);
            assert_eq!(due.len() - touched.len(), if most < 2 { 0 } else { 2 }, "few renames are kept");
        };
        check(10, &["/a/0", "/a/1", "/a/2", "/a/deep/er"]);
        check(1, &["/a"]);
    }
}
