//! Watcher: reports changes below the roots between two walks.
//!
//! Events are hints, fast and cheap rather than complete: the receiver of a [`Change`] checks the disk again. Anything
//! that cannot be reported as single changes (queue overflow, changed ignore rules, a lagging receiver) becomes one
//! [`ChangeKind::Rescan`]. The watcher reads no content and keeps no list of files.
//!
//! One thread reads the event queue of the operating system ([`vic_watch`]). A second thread (`engine`) keeps every
//! visible folder watched (`watch_set`), debounces events (`debounce`), turns them into changes (`watched_root`) and
//! queues these for the receiver (`backlog`). A heartbeat through the event queue (`heartbeat`) shows that both threads
//! are alive.

mod backlog;
mod engine;
mod watch_set;
mod inotify_limits;
mod overflow;
mod heartbeat;
mod change;
mod debounce;
mod shared_state;
mod watched_root;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use vic_watch::{EventReader, OpenBackend, WatchBackend};

use crate::error::{IoContext, Result};
use crate::files::walk_watchdog::{CHECK_INTERVAL, StallDetector};
use crate::files::watch::backlog::Backlog;
use crate::files::watch::engine::{Engine, Message};
use crate::files::watch::heartbeat::Heartbeat;
use crate::files::{Rules, WalkToken};
use crate::machine::{self, IoClass};
use crate::model::RootId;

pub use crate::files::watch::change::{Batch, Change, ChangeKind};
pub use crate::files::watch::heartbeat::Barrier;
pub use crate::files::watch::shared_state::{WatchCounts, WatchProblem};

use crate::files::watch::shared_state::Shared;

/// Maximum number of events queued while new folders are being watched, as many as the kernel queues. Further events
/// are lost and cause a rescan.
const EVENT_QUEUE: usize = 16_384;

/// Pause before the next attempt to send a message to the watching thread while its queue is full.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Watches roots for changes until it is dropped.
pub struct Watcher {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
    backlog: Arc<Backlog>,
}

impl Watcher {
    /// Starts a watcher without any root. Changes come in batches, at most one every 100 ms. While `sender` is full,
    /// changes are queued in the watcher; too many become a [`ChangeKind::Rescan`].
    ///
    /// # Errors
    /// When the operating system allows no further watcher, e.g. because of `fs.inotify.max_user_instances`.
    pub fn start(rules: Rules, sender: Sender<Batch>) -> Result<Watcher> {
        let OpenBackend { mut backend, reader, beat } = vic_watch::open().map_err(inotify_limits::explain_refusal)?;
        let heartbeat = backend.watch_heartbeat().map_err(inotify_limits::explain_refusal)?;
        let backlog = Backlog::start(sender)?;
        let shared = Arc::new(Shared::new(Heartbeat::new(beat)));
        let (messages, inbox) = sync_channel(EVENT_QUEUE);
        let (events, state) = (messages.clone(), shared.clone());
        spawn("vic-events", move || read_events(reader, &events, &state))?;
        let (engine, changes) = (Engine::new(backend, rules, shared.clone()), backlog.clone());
        let end = EndGuard(shared.clone());
        spawn("vic-watch", move || {
            // Lowers the disk priority, because this thread reads the metadata of every changed path.
            machine::lower_priority(IoClass::LowestBestEffort);
            let _end = end;
            engine.run(&inbox, &changes, heartbeat);
        })?;
        Ok(Watcher { messages, shared, backlog })
    }

    /// Watches a root with all its visible folders; folders that are watched already stay so. Blocks while it lists the
    /// folders. [`Watcher::problem`] reports what cannot be watched, except unreadable folders, which the walk reports.
    ///
    /// # Errors
    /// When the root cannot be watched, with cause and hint. If a disk does not respond, the watching thread keeps its
    /// clone of `leash` until the disk responds. The step count of `leash` is then above 0.
    pub fn add(&self, root_id: RootId, path: &Path, leash: &Arc<WalkToken>) -> Result<(), WatchProblem> {
        let ended = || WatchProblem("watching has ended; restart the daemon".into());
        let (reply, answer) = sync_channel(1);
        let mut message = Message::Add { root_id, path: path.into(), leash: leash.clone(), reply };
        let mut movement = StallDetector::new(self.activity());
        self.check_progress(&mut movement)?;
        while let Err(refused) = self.messages.try_send(message) {
            let TrySendError::Full(back) = refused else { return Err(ended()) };
            self.check_progress(&mut movement)?;
            std::thread::sleep(RETRY_PAUSE);
            message = back;
        }
        loop {
            match answer.recv_timeout(CHECK_INTERVAL) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => self.check_progress(&mut movement)?,
            }
        }
    }

    /// Marks the watcher as dead when it makes no progress, because a thread blocked by one disk sees no events of
    /// other disks.
    fn check_progress(&self, movement: &mut StallDetector) -> Result<(), WatchProblem> {
        if movement.is_stalled(self.activity()) {
            self.shared.fail("a disk does not answer");
        }
        self.failure().map_or(Ok(()), |why| Err(WatchProblem(format!("the watcher is dead: {why}"))))
    }

    /// Stops watching a root; does nothing if the root is not watched.
    pub fn remove(&self, root_id: RootId) {
        // Does not wait for the thread: if it has ended, nothing is watched, and if its queue is full, waiting could
        // block forever.
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Remove(root_id)) {
            self.shared.fail("its message queue is full");
        }
        self.shared.states().remove(&root_id);
    }

    /// Returns whether every visible folder of a root is watched. If not, [`Watcher::add`] tries the missing folders
    /// again.
    pub fn is_fully_watched(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.is_complete)
    }

    /// Returns whether events report every change of a root: it is fully watched, and no other machine can write to it.
    pub fn reports_all_changes(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.is_complete && !it.is_remote)
    }

    /// Returns whether watching a root has ended because its folder was deleted, moved or unmounted; [`Watcher::add`]
    /// watches the root again.
    pub fn is_detached(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.is_detached)
    }

    /// Returns the problem of a watched root, e.g. too few inotify watches, or lost events.
    pub fn problem(&self, root_id: RootId) -> Option<WatchProblem> {
        let states = self.shared.states();
        let state = states.get(&root_id)?;
        if state.handled_losses < state.losses {
            return Some(WatchProblem(explain_loss()));
        }
        state.problem.clone()
    }

    /// Records that a root was walked because of a [`ChangeKind::Rescan`].
    pub fn note_rescan_done(&self, root_id: RootId) {
        if let Some(state) = self.shared.states().get_mut(&root_id) {
            state.handled_losses = state.requested_rescans;
        }
    }

    /// Adds a barrier, which is signalled once all changes that happened before this call were sent and processed.
    pub fn add_barrier(&self, barrier: Barrier) {
        self.shared.pulse.beat(Some(barrier));
    }

    /// Sends a heartbeat through the event queue.
    pub fn beat(&self) {
        self.shared.pulse.beat(None);
    }

    /// Returns a counter that changes with every heartbeat or other activity of the watching thread.
    pub fn activity(&self) -> u64 {
        self.shared.pulse.activity()
    }

    /// Returns the time since the last heartbeat arrived.
    pub fn heartbeat_age(&self) -> Duration {
        self.shared.pulse.age()
    }

    /// Returns why no more events arrive; `None` if the watcher works.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure().clone()
    }

    /// Ends the watching thread, to imitate its crash.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.messages.send(Message::Close).unwrap();
    }

    /// Returns the counters of all roots together.
    pub fn counts(&self) -> WatchCounts {
        *self.shared.counts()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.backlog.close();
        self.shared.closed.store(true, Ordering::Relaxed);
        // Drops pending barriers, because they can no longer be signalled; this ends the wait of their owners.
        drop(self.shared.pulse.reset_after_loss());
        // Ignores an error: the thread has already ended, or its queue is full and the thread ends when it checks
        // `closed`.
        let _ = self.messages.try_send(Message::Close);
        // Causes an event that wakes the reading thread, so that it checks `closed`.
        self.shared.pulse.beat(None);
    }
}

/// When dropped at the end of the watching thread, records that the thread has ended.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.fail("the watching thread has ended");
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
    spawned.map(drop).io_context("start a thread for", Path::new(name))
}

/// Sends events from the queue of the system to the watching thread. Blocks if that thread is busy; the system then
/// reports an overflow if its queue gets full.
fn read_events(reader: EventReader, messages: &SyncSender<Message>, shared: &Shared) {
    let outcome =
        reader(&mut |event| !shared.closed.load(Ordering::Relaxed) && messages.send(Message::Event(event)).is_ok());
    if let Err(error) = outcome {
        tracing::warn!("the queue of file events cannot be read: {error}");
        shared.fail(&format!("the queue of file events cannot be read: {error}"));
    }
}

fn explain_loss() -> String {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap_or_default();
    format!(
        "file events were lost: more than fs.inotify.max_queued_events ({}) came at once; every root is being walked once to \
         make up for them; if it happens often: sysctl fs.inotify.max_queued_events=131072",
        limit.trim()
    )
}

#[cfg(test)]
mod tests;
