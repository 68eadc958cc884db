//! The proof that events still arrive, and that all before a moment have arrived.
//!
//! A few bytes of memory are watched by the same queue as the folders. To change them is an event like any other, behind
//! all that happened before: when it comes out at the other end, everything before it has. It touches no file of the user
//! and no disk.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tokio::sync::oneshot;

/// Told when everything that happened before it was asked for has been handed on and taken up; dropped when it cannot be.
pub type Barrier = oneshot::Sender<()>;

/// The bytes, and who waits for them.
pub(super) struct Pulse {
    memory: OwnedFd,
    state: Mutex<State>,
    /// Counts whatever the watching thread does, so that one who works for long is not taken for dead.
    work: AtomicU64,
}

struct State {
    /// Whether a change of the bytes is on its way. There is one at most: a second could not be told from it.
    on_its_way: bool,
    /// Who waits for that one.
    aboard: Vec<Barrier>,
    /// Who came later, and waits for the next.
    waiting: Vec<Barrier>,
    /// When the last one arrived.
    felt: Instant,
}

impl Pulse {
    pub(super) fn new() -> io::Result<Pulse> {
        let memory = memfd_create(c"vic-pulse", MemfdFlags::CLOEXEC)?;
        let state = State { on_its_way: false, aboard: Vec::new(), waiting: Vec::new(), felt: Instant::now() };
        Ok(Pulse { memory, state: Mutex::new(state), work: AtomicU64::new(0) })
    }

    /// The path by which the bytes can be watched.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.memory.as_raw_fd()).into()
    }

    /// Sends an event through the queue, for somebody or only to see whether it arrives.
    pub(super) fn beat(&self, barrier: Option<Barrier>) {
        let mut state = self.lock();
        state.waiting.extend(barrier);
        if !state.on_its_way {
            self.send(&mut state);
        }
    }

    /// The event has arrived: returns who waited for it.
    pub(super) fn felt(&self) -> Vec<Barrier> {
        let mut state = self.lock();
        state.felt = Instant::now();
        state.on_its_way = false;
        let aboard = std::mem::take(&mut state.aboard);
        if !state.waiting.is_empty() {
            self.send(&mut state);
        }
        aboard
    }

    /// Events were lost, perhaps the one on its way: returns everybody who waits. The caller has to watch the bytes anew, so
    /// that the old event, should it still come, is not taken for a new one.
    pub(super) fn lost(&self) -> Vec<Barrier> {
        let mut state = self.lock();
        state.on_its_way = false;
        let mut all = std::mem::take(&mut state.aboard);
        all.append(&mut state.waiting);
        all
    }

    /// Notes that the watching thread did something.
    pub(super) fn worked(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes whenever the watching thread does something.
    pub(super) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// How long ago the last event arrived.
    pub(super) fn age(&self) -> Duration {
        self.lock().felt.elapsed()
    }

    fn send(&self, state: &mut State) {
        state.on_its_way = true;
        let mut waiting = std::mem::take(&mut state.waiting);
        state.aboard.append(&mut waiting);
        // Truncation to the length that it has is a change all the same. Should it fail, nothing arrives, and the watcher
        // counts as dead.
        let _failed = ftruncate(&self.memory, 0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warehouse::watch::inotify::Inotify;

    fn next(kernel: &Inotify) {
        kernel.read(|_| false).unwrap();
    }

    #[test]
    fn who_comes_while_an_event_is_on_its_way_waits_for_the_next() {
        let (kernel, pulse) = (Inotify::open().unwrap(), Pulse::new().unwrap());
        kernel.watch_link(&pulse.path()).unwrap();
        let (first, mut first_told) = oneshot::channel();
        let (second, mut second_told) = oneshot::channel();
        pulse.beat(Some(first));
        pulse.beat(Some(second));
        next(&kernel);
        let mut served = pulse.felt();
        assert_eq!(served.len(), 1);
        served.pop().unwrap().send(()).unwrap();
        assert!(first_told.try_recv().is_ok() && second_told.try_recv().is_err());
        next(&kernel);
        assert_eq!(pulse.felt().len(), 1);
        pulse.beat(None);
        next(&kernel);
        assert_eq!(pulse.felt().len(), 0);
    }

    #[test]
    fn when_events_were_lost_nobody_is_forgotten() {
        let pulse = Pulse::new().unwrap();
        pulse.beat(Some(oneshot::channel().0));
        pulse.beat(Some(oneshot::channel().0));
        assert_eq!(pulse.lost().len(), 2);
        assert_eq!(pulse.felt().len(), 0);
    }
}
