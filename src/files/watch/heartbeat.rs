//! Heartbeat and barrier: proves that events still arrive, and that all events before a moment have arrived.
//!
//! The queue of the folders also watches a place of vic's own. A change there adds an event behind everything that happened
//! before: when it arrives, all earlier events have arrived.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use vic_watch::Beat;

/// Signalled when everything that happened before it is handed on and processed; dropped when that is impossible.
pub type Barrier = oneshot::Sender<()>;

/// The place, and the barriers that wait for their event.
pub(super) struct Heartbeat {
    send: Beat,
    state: Mutex<State>,
    /// Counts the activity of the watching thread, so that a thread with long work does not count as dead.
    work: AtomicU64,
}

struct State {
    /// Whether an event of the place is on its way: at most one, because two could not be told apart.
    is_in_flight: bool,
    /// Barriers that wait for the event on its way.
    in_flight: Vec<Barrier>,
    /// Barriers that wait for the next event.
    waiting: Vec<Barrier>,
    /// When the last event arrived.
    last_arrival: Instant,
}

impl Heartbeat {
    /// Makes a heartbeat with the function that causes an event.
    pub(super) fn new(send: Beat) -> Heartbeat {
        let state =
            State { is_in_flight: false, in_flight: Vec::new(), waiting: Vec::new(), last_arrival: Instant::now() };
        Heartbeat { send, state: Mutex::new(state), work: AtomicU64::new(0) }
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
    /// place, so that the old event, if it still arrives, is not taken for a new one.
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
        (self.send)();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn barrier_during_flight_waits_for_next_event() {
        let sent = Arc::new(AtomicU64::new(0));
        let count = sent.clone();
        let heartbeat = Heartbeat::new(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let (first, mut first_reached) = oneshot::channel();
        let (second, mut second_reached) = oneshot::channel();
        heartbeat.beat(Some(first));
        heartbeat.beat(Some(second));
        assert_eq!(sent.load(Ordering::Relaxed), 1);
        let mut served = heartbeat.arrived();
        assert_eq!((served.len(), sent.load(Ordering::Relaxed)), (1, 2));
        served.pop().unwrap().send(()).unwrap();
        assert!(first_reached.try_recv().is_ok() && second_reached.try_recv().is_err());
        assert_eq!((heartbeat.arrived().len(), sent.load(Ordering::Relaxed)), (1, 2));
        heartbeat.beat(None);
        assert_eq!((heartbeat.arrived().len(), sent.load(Ordering::Relaxed)), (0, 3));
    }

    #[test]
    fn lost_events_return_all_barriers() {
        let heartbeat = Heartbeat::new(Box::new(|| ()));
        heartbeat.beat(Some(oneshot::channel().0));
        heartbeat.beat(Some(oneshot::channel().0));
        assert_eq!(heartbeat.reset_after_loss().len(), 2);
        assert_eq!(heartbeat.arrived().len(), 0);
    }
}
