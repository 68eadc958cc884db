//! Heartbeat and barrier: the heartbeat proves that events still arrive, a barrier that all earlier events have
//! arrived.
//!
//! The event queue of the watched folders also watches a file of vic. A change of this file adds an event to the end of
//! the queue: when this event arrives, all earlier events have arrived.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use vic_watch::Beat;

/// Signalled once all earlier changes are delivered and processed; dropped if that becomes impossible.
pub type Barrier = oneshot::Sender<()>;

/// The heartbeat of an event queue, and the barriers that wait for its event.
pub(super) struct Heartbeat {
    send: Beat,
    state: Mutex<State>,
    /// Counts the activity of the watching thread, so that a thread that is busy for long does not count as dead.
    work: AtomicU64,
}

struct State {
    /// True while a heartbeat event is in the queue. At most one may be there, because two would be indistinguishable.
    is_in_flight: bool,
    /// Barriers that wait for the event in the queue.
    in_flight: Vec<Barrier>,
    /// Barriers that wait for the next heartbeat event.
    waiting: Vec<Barrier>,
    /// When the last heartbeat event arrived.
    last_arrival: Instant,
}

impl Heartbeat {
    /// Creates a heartbeat with the function that causes its event.
    pub(super) fn new(send: Beat) -> Heartbeat {
        let state =
            State { is_in_flight: false, in_flight: Vec::new(), waiting: Vec::new(), last_arrival: Instant::now() };
        Heartbeat { send, state: Mutex::new(state), work: AtomicU64::new(0) }
    }

    /// Causes a heartbeat event, for a barrier or only as a sign of life.
    pub(super) fn beat(&self, barrier: Option<Barrier>) {
        let mut state = self.lock();
        state.waiting.extend(barrier);
        if !state.is_in_flight {
            self.send(&mut state);
        }
    }

    /// Handles the arrival of the heartbeat event; returns the barriers that waited for it.
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

    /// Handles a loss of events, which may include the heartbeat event; returns all barriers. The caller has to watch
    /// the heartbeat with a new descriptor, so that the old event, if it still arrives, is not taken for a new one.
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

    /// Returns the time since the last heartbeat event arrived.
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
