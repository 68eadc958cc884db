//! Sets the CPU priority of the daemon's session among the sessions of the machine.
//!
//! Many Linux kernels divide a core equally among the sessions that want it (`sched_autogroup`, see `man 7 sched`);
//! niceness counts only within a session. The daemon has a session of its own, so even at low thread priority it would take
//! half of each core from a terminal. Therefore vic lowers the priority of the session, and raises it while it computes an
//! answer.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Niceness of the session while no answer is pending: the same as that of an indexing thread.
const LOWERED: &str = "10";
const RAISED: &str = "0";

/// How long the session keeps the raised priority after an answer, because questions come in bursts.
const RAISED_FOR: Duration = Duration::from_secs(3);

/// Time until a rejected change is tried again: the kernel accepts one change every 0.1 s, over all sessions.
const KERNEL_RETRY: Duration = Duration::from_millis(150);

/// The kernel's file that sets the niceness of the session of this process.
const AUTOGROUP_FILE: &str = "/proc/self/autogroup";

/// Raises and lowers the CPU priority of this process's session.
pub struct AutogroupPriority {
    /// The file to write; `None` when the session is shared or the kernel has no autogroups, so the priority never changes.
    file: Option<PathBuf>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Number of answers in progress.
    pending: usize,
    /// When the last answer ended.
    answered: Option<Instant>,
    is_lowered: bool,
}

/// What `AutogroupPriority::run` does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Apply,
    Wait(Duration),
    Idle,
}

impl State {
    fn next_step(&self, now: Instant) -> Next {
        let stays = self.answered.map_or(Duration::ZERO, |it| RAISED_FOR.saturating_sub(now.duration_since(it)));
        match (self.pending, self.is_lowered) {
            (0, false) if stays.is_zero() => Next::Apply,
            (0, false) => Next::Wait(stays),
            (1.., true) => Next::Apply,
            (0, true) | (1.., false) => Next::Idle,
        }
    }
}

impl AutogroupPriority {
    /// Opens the session of this process. The priority of a session shared with the shell that started the process is never
    /// changed.
    pub fn of_this_process() -> AutogroupPriority {
        let leads = rustix::process::getsid(None).is_ok_and(|it| it == rustix::process::getpid());
        let file = PathBuf::from(AUTOGROUP_FILE);
        AutogroupPriority::with((leads && file.exists()).then_some(file))
    }

    fn with(file: Option<PathBuf>) -> AutogroupPriority {
        AutogroupPriority { file, state: Mutex::default(), changed: Notify::new() }
    }

    /// Raises the priority of the session at least until the returned guard drops.
    pub fn raise(self: &Arc<AutogroupPriority>) -> RaisedPriority {
        let next = self.with_state(|state| {
            state.pending += 1;
            self.advance(state)
        });
        if next != Next::Idle {
            self.changed.notify_one();
        }
        RaisedPriority(self.clone())
    }

    /// Lowers the priority of the session whenever no answer is pending. Returns only if the priority cannot be changed.
    pub async fn run(&self) {
        while self.file.is_some() {
            let next = self.with_state(|state| self.advance(state));
            match next {
                Next::Idle => self.changed.notified().await,
                Next::Wait(time) => tokio::time::sleep(time).await,
                Next::Apply => tokio::time::sleep(KERNEL_RETRY).await,
            }
        }
    }

    /// Changes the priority if due. Returns the next step, which is the same change again if the kernel rejected it.
    fn advance(&self, state: &mut State) -> Next {
        if state.next_step(Instant::now()) == Next::Apply && self.write_niceness(!state.is_lowered) {
            state.is_lowered = !state.is_lowered;
        }
        state.next_step(Instant::now())
    }

    fn write_niceness(&self, behind: bool) -> bool {
        // Opens without creating, because the file exists only where the kernel provides it.
        let open = |path: &PathBuf| std::fs::OpenOptions::new().write(true).truncate(true).open(path);
        let place = if behind { LOWERED } else { RAISED };
        let written = self.file.as_ref().map(|it| open(it)?.write_all(place.as_bytes()));
        // Only `WouldBlock` is tried again. Other errors would recur each time, so work goes on at the present priority.
        !matches!(written, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Guard for an answer in progress: keeps the priority raised until it is dropped.
pub struct RaisedPriority(Arc<AutogroupPriority>);

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        let waiting = self.0.with_state(|state| {
            state.pending -= 1;
            state.answered = Some(Instant::now());
            state.pending
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
    async fn session_priority_is_low_unless_answer_pending_or_recent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("autogroup");
        std::fs::write(&file, "").unwrap();
        let session = Arc::new(AutogroupPriority::with(Some(file.clone())));
        let place = || std::fs::read_to_string(&file).unwrap_or_default();
        let keeper = session.clone();
        tokio::spawn(async move { keeper.run().await });
        tokio::task::yield_now().await;
        assert_eq!(place(), LOWERED);
        let (one, another) = (session.raise(), session.raise());
        assert_eq!(place(), RAISED, "before the answer is computed");
        drop(one);
        tokio::task::yield_now().await;
        assert_eq!(
            session.with_state(|it| it.next_step(Instant::now() + 2 * RAISED_FOR)),
            Next::Idle,
            "another is pending"
        );
        drop(another);
        let answered = Instant::now();
        assert!(matches!(session.with_state(|it| it.next_step(answered)), Next::Wait(_)));
        assert_eq!(session.with_state(|it| it.next_step(answered + 2 * RAISED_FOR)), Next::Apply);
    }

    #[tokio::test]
    async fn shared_session_is_left_unchanged() {
        let session = Arc::new(AutogroupPriority::with(None));
        tokio::time::timeout(Duration::from_secs(10), session.run()).await.expect("there is nothing to do");
        drop(session.raise());
        assert!(!session.with_state(|it| it.is_lowered));
    }
}
