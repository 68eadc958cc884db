//! Files that use up their time limit, and those that are likely to: they wait until the others are read.
//!
//! A thousand files that hang, first in order, would hold every reader for hours. Such files come in kinds: the output
//! of one program, in one folder. After some of a kind have run out of time, the rest of it goes last.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{ExtractFailure, FileRecord, Reason, RootId};

/// So many of a kind are bad luck; more are a pattern.
const BAD_LUCK: u32 = 3;

/// Files of one folder with one extension.
type Kind = (RootId, PathBuf, String);

/// What one run has learnt about slow files.
#[derive(Default)]
pub(crate) struct Slow {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    timeouts: HashMap<Kind, u32>,
    /// Whether a file was put off since the last round began.
    put_off: bool,
    /// Whether it is their turn now.
    turn: bool,
}

impl Slow {
    /// Begins another round over the pending files.
    pub(crate) fn begin_round(&self) {
        self.state().put_off = false;
    }

    /// Says whether this file is to wait, and remembers that one does.
    pub(crate) fn puts_off(&self, file: &FileRecord) -> bool {
        self.puts_off_kind(&kind(file))
    }

    fn puts_off_kind(&self, kind: &Kind) -> bool {
        let mut state = self.state();
        let wait = !state.turn && state.timeouts.get(kind).is_some_and(|it| *it >= BAD_LUCK);
        state.put_off |= wait;
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

    /// Called when nothing else is left: it is their turn from now on. False when none waits.
    pub(crate) fn take_turn(&self) -> bool {
        let mut state = self.state();
        state.turn = std::mem::take(&mut state.put_off);
        state.turn
    }

    /// Counts and flags, whole at every moment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_kind_of_file_that_runs_out_of_time_goes_last_and_then_goes() {
        let slow = Slow::default();
        slow.note_timeout(kind("scans", "pdf"));
        slow.note_timeout(kind("scans", "pdf"));
        assert!(!slow.puts_off_kind(&kind("scans", "pdf")), "twice is bad luck");
        slow.note_timeout(kind("scans", "pdf"));
        assert!(slow.puts_off_kind(&kind("scans", "pdf")));
        for other in [kind("scans", "txt"), kind("letters", "pdf")] {
            assert!(!slow.puts_off_kind(&other), "{other:?}");
        }
        assert!(slow.take_turn());
        slow.begin_round();
        assert!(!slow.puts_off_kind(&kind("scans", "pdf")));
        assert!(!slow.take_turn(), "nothing waits any more");
    }
}
