//! Files that wait in a run: those that may have ended the daemon, those that are likely to use up their time limit, and those
//! that change all the time.
//!
//! A file that was under way when the daemon died may be why. Such files wait until all others are read, and of them the
//! one that was tried least goes first: a daemon that is killed again and again right after its start then suspects each of
//! them in turn, and condemns none.
//!
//! A thousand files that hang, first in order, would hold every reader for hours. Such files come in kinds: the output
//! of one program, in one folder. After some of a kind have run out of time, the rest of it goes last.
//!
//! A file that changes after it was read is read once more. One that has changed again by then, as logs do, is left alone for a
//! while, or to the next run: a run that waited for it would have no end, and every job behind it would wait, too.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roaring::RoaringTreemap;

use crate::model::{ExtractFailure, FileId, FileRecord, Reason, RootId};

/// So many of a kind are bad luck; more are a pattern.
const BAD_LUCK: u32 = 3;

/// How long a file is left alone that was sent twice. A run that goes on for hours takes it again.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// Files of one folder with one extension.
type Kind = (RootId, PathBuf, String);

/// Which files wait in one run, and for how long.
#[derive(Default)]
pub(crate) struct Waiting {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    timeouts: HashMap<Kind, u32>,
    /// Whose turn it is: files of this rank and lower ones. Ranks are numbers of tries; what is likely to be slow has 1.
    turn: u32,
    /// The lowest rank that was put off since the last round began.
    put_off: Option<u32>,
    /// Files that were sent.
    sent: RoaringTreemap,
    /// Those that were sent again, and when that was last.
    sent_again: HashMap<FileId, Instant>,
    /// Whether one that is left alone was to be sent.
    has_left: bool,
}

impl Waiting {
    /// Begins another round over the pending files.
    pub(crate) fn begin_round(&self) {
        self.state().put_off = None;
    }

    /// Begins another run over all that is pending; what is known of slow files stays.
    pub(crate) fn begin_run(&self) {
        let mut state = self.state();
        let timeouts = std::mem::take(&mut state.timeouts);
        *state = State { timeouts, ..State::default() };
    }

    /// Says whether this file is to wait, and remembers that one does.
    pub(crate) fn puts_off(&self, file: &FileRecord) -> bool {
        self.puts_off_rank(file.tries, &kind(file))
    }

    /// Notes that a file is sent to be read.
    pub(crate) fn note_sent(&self, file: FileId) {
        let mut state = self.state();
        if !state.sent.insert(file.unsigned_abs()) {
            state.sent_again.insert(file, Instant::now());
        }
    }

    /// Says whether a file is left alone, and remembers that one is.
    pub(crate) fn leaves(&self, file: FileId) -> bool {
        let mut state = self.state();
        let leaves = state.is_left(file, Instant::now());
        state.has_left |= leaves;
        leaves
    }

    /// How many files are left alone at most.
    pub(crate) fn most_left(&self) -> usize {
        self.state().sent_again.len()
    }

    /// Drops the files that are left alone.
    pub(crate) fn without_left(&self, files: &mut Vec<FileId>) {
        let (state, now) = (self.state(), Instant::now());
        files.retain(|it| !state.is_left(*it, now));
    }

    /// Says whether files were left alone: they are for the next run.
    pub(crate) fn has_left(&self) -> bool {
        self.state().has_left
    }

    /// Says whether files of its kind have run out of time in this run.
    pub(crate) fn is_slow(&self, file: &FileRecord) -> bool {
        self.state().is_slow(&kind(file))
    }

    fn puts_off_rank(&self, tries: u32, kind: &Kind) -> bool {
        let mut state = self.state();
        let rank = tries.max(state.is_slow(kind).into());
        let wait = rank > state.turn;
        if wait {
            state.put_off = Some(state.put_off.map_or(rank, |it| it.min(rank)));
        }
        wait
    }

    /// Notes how reading a file failed.
    pub(crate) fn note(&self, file: &FileRecord, failed: &ExtractFailure) {
        if failed.reason == Reason::Timeout {
            self.note_timeout(kind(file));
        }
    }

    fn note_timeout(&self, kind: Kind) {
        *self.state().timeouts.entry(kind).or_default() += 1;
    }

    /// Called when nothing else is left: it is the turn of those that come next. False when none waits.
    pub(crate) fn take_turn(&self) -> bool {
        let mut state = self.state();
        let next = state.put_off.take();
        state.turn = next.unwrap_or(0);
        next.is_some()
    }

    /// Counts and flags, whole at every moment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_left(&self, file: FileId, now: Instant) -> bool {
        self.sent_again.get(&file).is_some_and(|it| now.saturating_duration_since(*it) < LEFT_ALONE)
    }

    fn is_slow(&self, kind: &Kind) -> bool {
        self.timeouts.get(kind).is_some_and(|it| *it >= BAD_LUCK)
    }
}

fn kind(file: &FileRecord) -> Kind {
    let folder = file.found.path.parent().map(PathBuf::from).unwrap_or_default();
    (file.root_id, folder, file.extension.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(folder: &str, extension: &str) -> Kind {
        (1, folder.into(), extension.into())
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_read_twice_and_left_alone_for_a_while_or_to_the_next_run() {
        let waiting = Waiting::default();
        for _ in 0..2 {
            assert!(!waiting.leaves(7));
            waiting.note_sent(7);
        }
        assert!(!waiting.leaves(8) && !waiting.has_left());
        assert!(waiting.leaves(7) && waiting.has_left());
        let mut files = vec![6, 7, 8];
        waiting.without_left(&mut files);
        assert_eq!((files, waiting.most_left()), (vec![6, 8], 1));
        assert!(!waiting.state().is_left(7, Instant::now() + LEFT_ALONE), "for a while");
        waiting.begin_run();
        assert!(!waiting.leaves(7) && !waiting.has_left());
    }

    #[test]
    fn a_kind_of_file_that_runs_out_of_time_goes_last_and_then_goes() {
        let waiting = Waiting::default();
        waiting.note_timeout(kind("scans", "pdf"));
        waiting.note_timeout(kind("scans", "pdf"));
        assert!(!waiting.puts_off_rank(0, &kind("scans", "pdf")), "twice is bad luck");
        waiting.note_timeout(kind("scans", "pdf"));
        assert!(waiting.puts_off_rank(0, &kind("scans", "pdf")));
        for other in [kind("scans", "txt"), kind("letters", "pdf")] {
            assert!(!waiting.puts_off_rank(0, &other), "{other:?}");
        }
        assert!(waiting.take_turn());
        waiting.begin_round();
        assert!(!waiting.puts_off_rank(0, &kind("scans", "pdf")));
        assert!(!waiting.take_turn(), "nothing waits any more");
    }

    #[test]
    fn what_may_have_ended_the_daemon_goes_last_and_what_was_tried_least_goes_first_of_it() {
        let (waiting, letter) = (Waiting::default(), kind("letters", "pdf"));
        let waits = |tries| waiting.puts_off_rank(tries, &letter);
        assert_eq!([4, 0, 2].map(waits), [true, false, true]);
        assert!(waiting.take_turn());
        waiting.begin_round();
        assert_eq!([4, 0, 2].map(waits), [true, false, false], "then the one that was tried twice");
        assert!(waiting.take_turn());
        waiting.begin_round();
        assert!(!waits(4));
        assert!(!waiting.take_turn() && waits(2), "another round begins with the others");
    }
}
