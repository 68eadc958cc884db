//! The place of our session among the sessions of the machine.
//!
//! Many Linux kernels share a core out among the sessions that want it (`sched_autogroup`, see `man 7 sched`), in equal
//! parts: how nice a thread is counts within its session alone. The daemon has a session of its own, so however far its
//! threads step back, it would take half of each core from what is typed in a terminal. So the session as a whole stays
//! behind, and comes forward for as long as somebody waits for an answer.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// As far back as a thread that indexes.
const BEHIND: &str = "10";
const AHEAD: &str = "0";

/// How long the session stays ahead after an answer: who asks often asks again.
const STAY: Duration = Duration::from_secs(3);

/// The kernel takes a change every tenth of a second, of all sessions together.
const AGAIN: Duration = Duration::from_millis(150);

/// Where the place of a process's session is written.
const PLACE: &str = "/proc/self/autogroup";

/// The place of a session.
pub struct Session {
    /// None when the session is not ours alone, or there is no such thing.
    file: Option<PathBuf>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Who waits for an answer.
    waiting: usize,
    /// When the last one had it.
    answered: Option<Instant>,
    is_behind: bool,
}

/// What the session waits for before it changes its place.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Move,
    In(Duration),
    Change,
}

impl State {
    fn next(&self, now: Instant) -> Next {
        let stays = self.answered.map_or(Duration::ZERO, |it| STAY.saturating_sub(now.duration_since(it)));
        match (self.waiting, self.is_behind) {
            (0, false) if stays.is_zero() => Next::Move,
            (0, false) => Next::In(stays),
            (1.., true) => Next::Move,
            (0, true) | (1.., false) => Next::Change,
        }
    }
}

impl Session {
    /// That of this process. One that it shares, with the shell from which it was started, is let be.
    pub fn own() -> Session {
        let leads = rustix::process::getsid(None).is_ok_and(|it| it == rustix::process::getpid());
        let file = PathBuf::from(PLACE);
        Session::with((leads && file.exists()).then_some(file))
    }

    fn with(file: Option<PathBuf>) -> Session {
        Session { file, state: Mutex::default(), changed: Notify::new() }
    }

    /// Comes forward; the session stays there at least as long as what is returned lives.
    pub fn come_forward(self: &Arc<Session>) -> Ahead {
        let next = self.with_state(|state| {
            state.waiting += 1;
            self.step(state)
        });
        if next != Next::Change {
            self.changed.notify_one();
        }
        Ahead(self.clone())
    }

    /// Goes back whenever nobody waits for an answer; ends only where there is no such thing.
    pub async fn keep(&self) {
        while self.file.is_some() {
            let next = self.with_state(|state| self.step(state));
            match next {
                Next::Change => self.changed.notified().await,
                Next::In(time) => tokio::time::sleep(time).await,
                Next::Move => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Moves if it is time to; returns what comes next, which is the same move when the kernel did not take it.
    fn step(&self, state: &mut State) -> Next {
        if state.next(Instant::now()) == Next::Move && self.is_taken(!state.is_behind) {
            state.is_behind = !state.is_behind;
        }
        state.next(Instant::now())
    }

    fn is_taken(&self, behind: bool) -> bool {
        // Nothing is made where there is no such file: only what the kernel put there is written to.
        let open = |path: &PathBuf| std::fs::OpenOptions::new().write(true).truncate(true).open(path);
        let place = if behind { BEHIND } else { AHEAD };
        let written = self.file.as_ref().map(|it| open(it)?.write_all(place.as_bytes()));
        // Any other error would come back each time: to be impolite is no reason not to work.
        !matches!(written, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Somebody waits for an answer.
pub struct Ahead(Arc<Session>);

impl Drop for Ahead {
    fn drop(&mut self) {
        let waiting = self.0.with_state(|state| {
            state.waiting -= 1;
            state.answered = Some(Instant::now());
            state.waiting
        });
        if waiting == 0 {
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_is_behind_unless_somebody_waits_or_has_just_had_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("autogroup");
        std::fs::write(&file, "").unwrap();
        let session = Arc::new(Session::with(Some(file.clone())));
        let place = || std::fs::read_to_string(&file).unwrap_or_default();
        let keeper = session.clone();
        tokio::spawn(async move { keeper.keep().await });
        tokio::task::yield_now().await;
        assert_eq!(place(), BEHIND);
        let (one, another) = (session.come_forward(), session.come_forward());
        assert_eq!(place(), AHEAD, "before the answer is worked at");
        drop(one);
        tokio::task::yield_now().await;
        assert_eq!(session.with_state(|it| it.next(Instant::now() + 2 * STAY)), Next::Change, "another waits");
        drop(another);
        let answered = Instant::now();
        assert!(matches!(session.with_state(|it| it.next(answered)), Next::In(_)));
        assert_eq!(session.with_state(|it| it.next(answered + 2 * STAY)), Next::Move);
    }

    #[tokio::test]
    async fn a_session_that_is_not_ours_is_let_be() {
        let session = Arc::new(Session::with(None));
        session.keep().await;
        drop(session.come_forward());
    }
}
