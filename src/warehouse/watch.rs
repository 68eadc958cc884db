//! Changes below the roots between two walks.
//!
//! Events are hints, made quick and cheap rather than complete: whoever gets a [`Change`] looks at the disk again. What
//! cannot be told in single changes (queue overflow, changed ignore rules, a receiver that lags) becomes one
//! [`ChangeKind::Rescan`]. Nothing here reads content or keeps a list of files.
//!
//! One thread takes the kernel's events off its queue (`inotify`), another does all the rest (`engine`): it keeps every
//! visible folder watched (`folders`), waits until a place is quiet (`quiet`), says what became of it (`root`) and hands
//! that on (`backlog`). A heartbeat through the same queue (`pulse`) shows that both are alive.

mod backlog;
mod engine;
mod folders;
mod inotify;
mod limits;
mod losses;
mod pulse;
mod quiet;
mod root;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::error::{Error, IoContext, Result};
use crate::machine::{self, Disk};
use crate::model::RootId;
use crate::warehouse::leash::{LOOK, Movement};
use crate::warehouse::watch::backlog::Backlog;
use crate::warehouse::watch::engine::{Engine, Message};
use crate::warehouse::watch::inotify::Inotify;
use crate::warehouse::watch::pulse::Pulse;
use crate::warehouse::{Leash, Rules};

pub use crate::warehouse::watch::pulse::Barrier;

/// Events that wait while new folders are being watched: as many as the kernel itself keeps. More are one rescan.
const EVENTS_AHEAD: usize = 16_384;

/// How soon it is tried again to tell the thread something while so many wait.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// What happened at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The root.
    pub root_id: RootId,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// This file or folder is new or different. A folder has to be walked: files may have come into it before it was
    /// watched.
    Touched(PathBuf),
    /// This file or folder is gone, with all below it.
    Removed(PathBuf),
    /// This file or folder has moved, with all below it. A [`ChangeKind::Touched`] of `to` follows.
    Renamed {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// Anything may have changed: walk the root, then say so with [`Watcher::made_up`].
    Rescan,
}

/// Changes that go together, and who waits until they have been taken up.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// To be told once all changes of this and earlier batches are taken up.
    pub barriers: Vec<Barrier>,
}

/// Why a root is not watched, or not everywhere, and the cure. It is still walked from time to time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProblem(
    /// One or two sentences for the status.
    pub String,
);

/// Counts of a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Folders that are watched.
    pub folders: u64,
    /// Folders that should be and cannot.
    pub missing: u64,
    /// How often the queue of events overflowed.
    pub overflows: u64,
    /// How often every root was walked because of that.
    pub rescans: u64,
}

/// Watches roots until it is dropped.
pub struct Watcher {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
    backlog: Arc<Backlog>,
}

/// What the thread tells, and everybody may ask.
struct Shared {
    states: Mutex<HashMap<RootId, RootState>>,
    counts: Mutex<WatchCounts>,
    pulse: Pulse,
    closed: AtomicBool,
    /// Why no more events come; none as long as they do.
    failure: Mutex<Option<String>>,
}

/// How it stands with a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RootState {
    /// Whether every visible folder is watched.
    whole: bool,
    /// Whether other machines may change it without a word.
    remote: bool,
    problem: Option<WatchProblem>,
    /// Whether its watch has ended with its folder.
    ended: bool,
    /// Losses of events so far, those for which a walk was asked, and those for which it was made.
    lost: u64,
    promised: u64,
    made_up: u64,
}

impl Watcher {
    /// Starts to watch nothing yet. Changes come in batches, at most one every 100 ms; when `sender` is full they gather
    /// here, and too many become a [`ChangeKind::Rescan`].
    ///
    /// # Errors
    /// When the operating system has no watch to give, e.g. `fs.inotify.max_user_instances`.
    pub fn start(rules: Rules, sender: Sender<Batch>) -> Result<Watcher> {
        let kernel = Inotify::open().map_err(limits::refused)?;
        let pulse = Pulse::new().map_err(Error::internal)?;
        let beats = kernel.watch_link(&pulse.path()).map_err(limits::refused)?;
        let backlog = Backlog::start(sender)?;
        let shared = Arc::new(Shared::new(pulse));
        let (messages, inbox) = sync_channel(EVENTS_AHEAD);
        let (queue, events, reader) = (kernel.clone(), messages.clone(), shared.clone());
        spawn("vic-events", move || read(&queue, &events, &reader))?;
        let (engine, handed_on) = (Engine::new(kernel, rules, shared.clone()), backlog.clone());
        let last = Last(shared.clone());
        spawn("vic-watch", move || {
            // It looks at each place where something happened, and what it tells goes on as far back.
            machine::step_back(Disk::Last);
            let _last = last;
            engine.run(&inbox, &handed_on, beats);
        })?;
        Ok(Watcher { messages, shared, backlog })
    }

    /// Watches a root with all its visible folders, or those of them that are not watched yet. Blocks as long as listing
    /// them takes. What cannot be watched of it [`Watcher::problem`] tells, save folders that may not be read: those the
    /// walk reports.
    ///
    /// # Errors
    /// With the cause and the cure; nothing of the root is watched then. Where a disk does not answer, whoever lists its folders
    /// holds on to `leash`, which has made a step, until it does.
    pub fn add(&self, root_id: RootId, path: &Path, leash: &Arc<Leash>) -> Result<(), WatchProblem> {
        let ended = || WatchProblem("watching has ended; restart the daemon".into());
        let (reply, answer) = sync_channel(1);
        let mut message = Message::Add { root_id, path: path.into(), leash: leash.clone(), reply };
        let mut movement = Movement::from(self.work());
        self.check_movement(&mut movement)?;
        while let Err(refused) = self.messages.try_send(message) {
            let TrySendError::Full(back) = refused else { return Err(ended()) };
            self.check_movement(&mut movement)?;
            std::thread::sleep(FULL_PAUSE);
            message = back;
        }
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => self.check_movement(&mut movement)?,
            }
        }
    }

    /// Whoever watches a disk that does not answer sees nothing of the others either.
    fn check_movement(&self, movement: &mut Movement) -> Result<(), WatchProblem> {
        if movement.has_ended(self.work()) {
            self.shared.fail("it waits for a disk that does not answer");
        }
        self.failure().map_or(Ok(()), |why| Err(WatchProblem(format!("the watcher is dead: {why}"))))
    }

    /// Stops watching a root; does nothing when it is not watched.
    pub fn remove(&self, root_id: RootId) {
        // Where the thread is gone, nothing is watched. Where it is behind, whoever waited might wait for ever.
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Remove(root_id)) {
            self.shared.fail("it is too far behind to be told anything");
        }
        self.shared.states().remove(&root_id);
    }

    /// Says whether every visible folder of a root is watched. If not, [`Watcher::add`] tries the missing ones again.
    pub fn is_whole(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.whole)
    }

    /// Says whether events tell of every change of a root: it is whole, and no other machine can write to it.
    pub fn tells_all(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.whole && !it.remote)
    }

    /// Says whether the watch of a root has ended with its folder, so that only whoever watches it again is told more.
    pub fn has_lost_sight(&self, root_id: RootId) -> bool {
        self.shared.states().get(&root_id).is_some_and(|it| it.ended)
    }

    /// Returns what is wrong with a watched root, e.g. more folders than the watch limit, or events that were lost.
    pub fn problem(&self, root_id: RootId) -> Option<WatchProblem> {
        let states = self.shared.states();
        let state = states.get(&root_id)?;
        if state.made_up < state.lost {
            return Some(WatchProblem(explain_loss()));
        }
        state.problem.clone()
    }

    /// Takes note that a root was walked after a [`ChangeKind::Rescan`].
    pub fn made_up(&self, root_id: RootId) {
        if let Some(state) = self.shared.states().get_mut(&root_id) {
            state.made_up = state.promised;
        }
    }

    /// Has somebody told when everything that has happened until now was handed on in batches before.
    pub fn reach(&self, barrier: Barrier) {
        self.shared.pulse.beat(Some(barrier));
    }

    /// Sends a heartbeat.
    pub fn beat(&self) {
        self.shared.pulse.beat(None);
    }

    /// Changes whenever the watching thread feels a heartbeat or does anything else.
    pub fn work(&self) -> u64 {
        self.shared.pulse.work()
    }

    /// How long ago a heartbeat was felt.
    pub fn pulse_age(&self) -> Duration {
        self.shared.pulse.age()
    }

    /// Returns why no more events come, where that is known at once.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure().clone()
    }

    /// Ends the watching thread, as a defect would.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.messages.send(Message::Close).unwrap();
    }

    /// Returns counts over all roots.
    pub fn counts(&self) -> WatchCounts {
        *self.shared.counts()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.backlog.close();
        self.shared.closed.store(true, Ordering::Relaxed);
        // Whoever still waits has waited in vain, and must not do so for ever.
        drop(self.shared.pulse.lost());
        // It fails when the thread has ended by itself; full, it ends when it comes to the mark.
        let _ = self.messages.try_send(Message::Close);
        // The thread that reads waits for an event.
        self.shared.pulse.beat(None);
    }
}

impl Shared {
    fn new(pulse: Pulse) -> Shared {
        Shared {
            states: Mutex::default(),
            counts: Mutex::default(),
            pulse,
            closed: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Notes why no more events come; whatever happened first is the cause.
    fn fail(&self, why: &str) {
        if !self.closed.load(Ordering::Relaxed) {
            self.failure().get_or_insert_with(|| why.to_string());
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A poisoned lock only means that a thread panicked: the states themselves are whole.
    fn states(&self) -> MutexGuard<'_, HashMap<RootId, RootState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, WatchCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped when the watching thread ends, in whatever way.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.fail("the watching thread has ended");
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
    spawned.map(drop).at("start a thread for", Path::new(name))
}

/// Takes events off the kernel's queue. It may wait for the other thread: what the kernel cannot keep meanwhile, it says.
fn read(kernel: &Inotify, messages: &SyncSender<Message>, shared: &Shared) {
    let outcome =
        kernel.read(|event| !shared.closed.load(Ordering::Relaxed) && messages.send(Message::Event(event)).is_ok());
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
