//! Decides which files a run defers or skips: files that may have crashed the daemon, files likely to time out, and
//! files that change all the time.
//!
//! A file in progress when the daemon died may be the cause. Such suspects run after all other files, those with the
//! fewest attempts first. A daemon that is killed repeatedly right after its start thus tries each suspect in turn and
//! rejects none.
//!
//! A thousand files that time out would block every reader for hours if they came first. Such files usually share a
//! folder and an extension, because one program wrote them. After a few timeouts in such a group, its other files go
//! last.
//!
//! A file that changes after it was read is read once more. If it changes again, as log files do, it is skipped for a
//! while or until the next run. Waiting for such a file would never end, and would block every job behind it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roaring::RoaringTreemap;

use crate::model::{ExtractFailure, FileId, FileRecord, Reason, RootId};

/// After this many timeouts in a run, a group of files (one folder, one extension) counts as slow and goes last.
const SLOW_KIND_TIMEOUTS: u32 = 3;

/// How long a file that was read twice in one run is skipped. A run that takes hours then reads the file again.
const SKIP_TIME: Duration = Duration::from_secs(60);

/// Key of a group of files: root, folder and extension.
type FileGroup = (RootId, PathBuf, String);

/// Decides which files one run defers, and for how long.
#[derive(Default)]
pub(crate) struct Deferral {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    timeouts: HashMap<FileGroup, u32>,
    /// Maximum rank of the files that are extracted now; files of higher rank wait. The rank of a file is its number of
    /// attempts, at least 1 if its kind is slow to read.
    rank: u32,
    /// The lowest rank that was deferred since the round began.
    next_rank: Option<u32>,
    /// Files sent to be read in this run.
    sent: RoaringTreemap,
    /// Files sent more than once, with the time of the last send.
    sent_again: HashMap<FileId, Instant>,
    /// Whether a file was skipped because it keeps changing.
    has_skipped: bool,
}

impl Deferral {
    /// Begins another round over the pending files.
    pub(crate) fn begin_round(&self) {
        self.state().next_rank = None;
    }

    /// Begins another run over all pending files. The counts of timeouts are kept.
    pub(crate) fn begin_run(&self) {
        let mut state = self.state();
        let timeouts = std::mem::take(&mut state.timeouts);
        *state = State { timeouts, ..State::default() };
    }

    /// Returns whether this file is deferred. If so, records its rank.
    pub(crate) fn should_defer(&self, file: &FileRecord) -> bool {
        self.should_defer_rank(file.tries, &group_of(file))
    }

    /// Records that a file is sent to be read.
    pub(crate) fn note_sent(&self, file: FileId) {
        let mut state = self.state();
        if !state.sent.insert(file.unsigned_abs()) {
            state.sent_again.insert(file, Instant::now());
        }
    }

    /// Returns whether a file is skipped because it keeps changing. If so, records that files were skipped.
    pub(crate) fn should_skip(&self, file: FileId) -> bool {
        let mut state = self.state();
        let leaves = state.is_skipped(file, Instant::now());
        state.has_skipped |= leaves;
        leaves
    }

    /// Returns an upper bound of the number of skipped files.
    pub(crate) fn max_skipped(&self) -> usize {
        self.state().sent_again.len()
    }

    /// Removes from `files` those that are skipped because they keep changing.
    pub(crate) fn retain_unskipped(&self, files: &mut Vec<FileId>) {
        let (state, now) = (self.state(), Instant::now());
        files.retain(|it| !state.is_skipped(*it, now));
    }

    /// Returns whether files were skipped in this run: the next run takes them.
    pub(crate) fn has_skipped(&self) -> bool {
        self.state().has_skipped
    }

    /// Returns whether files of the same folder and extension timed out too often in this run.
    pub(crate) fn is_slow(&self, file: &FileRecord) -> bool {
        self.state().is_slow(&group_of(file))
    }

    fn should_defer_rank(&self, tries: u32, kind: &FileGroup) -> bool {
        let mut state = self.state();
        let rank = tries.max(state.is_slow(kind).into());
        let wait = rank > state.rank;
        if wait {
            state.next_rank = Some(state.next_rank.map_or(rank, |it| it.min(rank)));
        }
        wait
    }

    /// Records a failed read of a file, if it timed out.
    pub(crate) fn note_failure(&self, file: &FileRecord, failed: &ExtractFailure) {
        if failed.reason == Reason::Timeout {
            self.note_timeout(group_of(file));
        }
    }

    fn note_timeout(&self, kind: FileGroup) {
        *self.state().timeouts.entry(kind).or_default() += 1;
    }

    /// Admits the files of the lowest deferred rank. Called when no other file is left. Returns false if no file is
    /// deferred.
    pub(crate) fn next_rank(&self) -> bool {
        let mut state = self.state();
        let next = state.next_rank.take();
        state.rank = next.unwrap_or(0);
        next.is_some()
    }

    /// Locks the state. Ignores poisoning, because the state is consistent at every moment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_skipped(&self, file: FileId, now: Instant) -> bool {
        self.sent_again.get(&file).is_some_and(|it| now.saturating_duration_since(*it) < SKIP_TIME)
    }

    fn is_slow(&self, kind: &FileGroup) -> bool {
        self.timeouts.get(kind).is_some_and(|it| *it >= SLOW_KIND_TIMEOUTS)
    }
}

fn group_of(file: &FileRecord) -> FileGroup {
    let folder = file.found.path.parent().map(PathBuf::from).unwrap_or_default();
    (file.root_id, folder, file.extension.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(folder: &str, extension: &str) -> FileGroup {
        (1, folder.into(), extension.into())
    }

    #[test]
    fn changing_file_is_read_twice_then_skipped_for_a_while() {
        let waiting = Deferral::default();
        for _ in 0..2 {
            assert!(!waiting.should_skip(7));
            waiting.note_sent(7);
        }
        assert!(!waiting.should_skip(8) && !waiting.has_skipped());
        assert!(waiting.should_skip(7) && waiting.has_skipped());
        let mut files = vec![6, 7, 8];
        waiting.retain_unskipped(&mut files);
        assert_eq!((files, waiting.max_skipped()), (vec![6, 8], 1));
        assert!(!waiting.state().is_skipped(7, Instant::now() + SKIP_TIME), "for a while");
        waiting.begin_run();
        assert!(!waiting.should_skip(7) && !waiting.has_skipped());
    }

    // Case C13
    #[test]
    fn kind_with_timeouts_goes_last() {
        let waiting = Deferral::default();
        waiting.note_timeout(kind("scans", "pdf"));
        waiting.note_timeout(kind("scans", "pdf"));
        assert!(!waiting.should_defer_rank(0, &kind("scans", "pdf")), "two timeouts are below the limit");
        waiting.note_timeout(kind("scans", "pdf"));
        assert!(waiting.should_defer_rank(0, &kind("scans", "pdf")));
        for other in [kind("scans", "txt"), kind("letters", "pdf")] {
            assert!(!waiting.should_defer_rank(0, &other), "{other:?}");
        }
        assert!(waiting.next_rank());
        waiting.begin_round();
        assert!(!waiting.should_defer_rank(0, &kind("scans", "pdf")));
        assert!(!waiting.next_rank(), "nothing waits any more");
    }

    #[test]
    fn crash_suspects_go_last_fewest_attempts_first() {
        let (waiting, letter) = (Deferral::default(), kind("letters", "pdf"));
        let waits = |tries| waiting.should_defer_rank(tries, &letter);
        assert_eq!([4, 0, 2].map(waits), [true, false, true]);
        assert!(waiting.next_rank());
        waiting.begin_round();
        assert_eq!([4, 0, 2].map(waits), [true, false, false], "then the one that was tried twice");
        assert!(waiting.next_rank());
        waiting.begin_round();
        assert!(!waits(4));
        assert!(!waiting.next_rank() && waits(2), "another round begins with the others");
    }
}
