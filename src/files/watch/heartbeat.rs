//! Heartbeat and barrier: proves that events still arrive, and that all events before a moment have arrived.
//!
//! The queue of the folders also watches a few bytes of memory. Changing them adds an event behind everything that happened
//! before: when it arrives, all earlier events have arrived. This touches no user file and no disk.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tokio::sync::oneshot;

/// Signalled when everything that happened before it is handed on and processed; dropped when that is impossible.
pub type Barrier = oneshot::Sender<()>;

/// The bytes, and the barriers that wait for their event.
pub(super) struct Heartbeat {
    memory: OwnedFd,
    state: Mutex<State>,
    /// Counts the activity of the watching thread, so that a thread with long work does not count as dead.
    work: AtomicU64,
}

struct State {
    /// Whether an event of the bytes is on its way: at most one, because two could not be told apart.
    is_in_flight: bool,
    /// Barriers that wait for the event on its way.
    in_flight: Vec<Barrier>,
    /// Barriers that wait for the next event.
    waiting: Vec<Barrier>,
    /// When the last event arrived.
    last_arrival: Instant,
}

impl Heartbeat {
    pub(super) fn new() -> io::Result<Heartbeat> {
        let memory = memfd_create(c"vic-pulse", MemfdFlags::CLOEXEC)?;
        let state =
            State { is_in_flight: false, in_flight: Vec::new(), waiting: Vec::new(), last_arrival: Instant::now() };
        Ok(Heartbeat { memory, state: Mutex::new(state), work: AtomicU64::new(0) })
    }

    /// Returns the path by which the bytes can be watched.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.memory.as_raw_fd()).into()
    }

    /// Sends an event through the queue, for a barrier or only as a heartbeat.
    pub(super) fn beat(&self, barrier: Option<Barrier>) {
        let mut state = self.lock();
        state.waiting.extend(barrier);
        if !state.is_in_flight {
            self.send(&mut state);
        }
    }

    /// Handles the arrival of the event; returns the barriers that waited for it.
    pub(super) fn arrived(&self) -> Vec<Barrier> {
        let mut state = self.lock();
        state.last_arrival = Instant::now();
        state.is_in_flight = false;
        let aboard = std::mem::take(&mut state.in_flight);
        if !state.waiting.is_empty() {
            self.send(&mut state);
        }
        aboard
    }

    /// Handles lost events, perhaps also the one on its way; returns all barriers. The caller has to renew the watch of the
    /// bytes, so that the old event, if it still arrives, is not taken for a new one.
    pub(super) fn reset_after_loss(&self) -> Vec<Barrier> {
        let mut state = self.lock();
        state.is_in_flight = false;
        let mut all = std::mem::take(&mut state.in_flight);
        all.append(&mut state.waiting);
        all
    }

    /// Records activity of the watching thread.
    pub(super) fn note_activity(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the activity counter of the watching thread.
    pub(super) fn activity(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Returns the time since the last event.
    pub(super) fn age(&self) -> Duration {
        self.lock().last_arrival.elapsed()
    }

    fn send(&self, state: &mut State) {
        state.is_in_flight = true;
        let mut waiting = std::mem::take(&mut state.waiting);
        state.in_flight.append(&mut waiting);
        // Truncation to the current length causes an event too. If it fails, nothing arrives, and the watcher counts as
        // dead.
        let _failed = ftruncate(&self.memory, 0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::watch::inotify::Inotify;

    fn next(kernel: &Inotify) {
        kernel.read(|_| false).unwrap();
    }

    #[test]
    fn barrier_during_flight_waits_for_next_event() {
        let (kernel, pulse) = (Inotify::open().unwrap(), Heartbeat::new().unwrap());
        kernel.watch_link(&pulse.path()).unwrap();
        let (first, mut first_told) = oneshot::channel();
        let (second, mut second_told) = oneshot::channel();
        pulse.beat(Some(first));
        pulse.beat(Some(second));
        next(&kernel);
        let mut served = pulse.arrived();
        assert_eq!(served.len(), 1);
        served.pop().unwrap().send(()).unwrap();
        assert!(first_told.try_recv().is_ok() && second_told.try_recv().is_err());
        next(&kernel);
        assert_eq!(pulse.arrived().len(), 1);
        pulse.beat(None);
        next(&kernel);
        assert_eq!(pulse.arrived().len(), 0);
    }

    #[test]
    fn lost_events_return_all_barriers() {
        let pulse = Heartbeat::new().unwrap();
        pulse.beat(Some(oneshot::channel().0));
        pulse.beat(Some(oneshot::channel().0));
        assert_eq!(pulse.reset_after_loss().len(), 2);
        assert_eq!(pulse.arrived().len(), 0);
    }
}
