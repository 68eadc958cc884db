//! Looks after roots and watcher, every few seconds, with a few system calls each time.
//!
//! Events do not tell of everything: a root whose parent was renamed, a volume that was mounted or taken away, another
//! folder in the place of the root, a watcher that has died. What cannot be watched is walked from here.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::error::{Error, ErrorCode, Result};
use crate::index::{Inner, blocking, watching};
use crate::machine;
use crate::model::{Root, RootId};
use crate::warehouse::{Leash, silence};

/// How often it looks.
const TICK: Duration = Duration::from_secs(5);

/// The longest that a root may take to answer: a network mount whose server is away never does.
const ANSWER: Duration = Duration::from_secs(4);

/// A root that is walked again and again rests so many times as long as the last walk took.
const REST: u32 = 20;

/// Looks, for as long as the daemon lives.
async fn follow(mut guard: Guard) {
    let inner = guard.inner.clone();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.shutdown.cancelled() => return,
            _ = ticks.tick() => guard.look_at_all().await,
        }
    }
}

struct Guard {
    inner: Arc<Inner>,
    roots: HashMap<RootId, Post>,
    /// Whether it looks for the first time: nothing is watched yet.
    is_start: bool,
    /// Roots of which a walk that had been given up came back.
    returned: Vec<RootId>,
}

/// What is remembered of a root.
#[derive(Default)]
struct Post {
    seen: Option<Sight>,
    /// A look that has not come back.
    look: Option<JoinHandle<Sight>>,
    /// When it was walked from here, and how long that took.
    walked: Option<(Instant, Duration)>,
}

/// A root at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// It cannot be read, and why.
    Away(String),
    /// There is nothing in it.
    Empty,
    /// It is this folder, with these mounts in it.
    Here { identity: (u64, u64), mounts: Vec<String> },
}

impl Guard {
    async fn look_at_all(&mut self) {
        if let Err(error) = self.look().await
            && error.code != ErrorCode::Cancelled
        {
            warn!(%error, "cannot look after the roots");
        }
    }

    async fn look(&mut self) -> Result<()> {
        let inner = self.inner.clone();
        if inner.config.background.pause_on_battery {
            let battery = blocking(|| Ok(machine::on_battery(Path::new(machine::POWER_SUPPLIES)))).await?;
            inner.gate.set_battery(battery);
        }
        let watching = inner.watching.clone();
        let replaced = blocking(move || Ok(watching.tend())).await?;
        let roots = inner.roots().await?;
        self.roots.retain(|id, _| roots.iter().any(|it| it.id == *id));
        self.returned = inner.returned();
        // All at once: those that do not answer are waited for together.
        roots.iter().for_each(|it| self.begin_look(it));
        let until = tokio::time::Instant::now() + ANSWER;
        for root in &roots {
            let sight = self.sight(root, until).await;
            if let Err(error) = self.act(root, sight, replaced).await {
                warn!(%error, root = %root.path.display(), "cannot look after a root");
            }
        }
        Ok(())
    }

    /// Has a root looked at. One that has not answered is waited for again: each new look would hold another thread.
    fn begin_look(&mut self, root: &Root) {
        let post = self.roots.entry(root.id).or_default();
        let path = root.path.clone();
        post.look.get_or_insert_with(|| tokio::task::spawn_blocking(move || look_at(&path)));
    }

    /// What was seen of a root; one that does not answer in time is away until it does.
    async fn sight(&mut self, root: &Root, until: tokio::time::Instant) -> Sight {
        let post = self.roots.entry(root.id).or_default();
        let Some(look) = &mut post.look else { return Sight::Away("nobody looked".into()) };
        let Ok(seen) = tokio::time::timeout_at(until, look).await else {
            silence::note(&root.path, true);
            return Sight::Away(format!("`{}` does not answer", root.path.display()));
        };
        post.look = None;
        silence::note(&root.path, false);
        seen.unwrap_or_else(|error| Sight::Away(error.to_string()))
    }

    async fn act(&mut self, root: &Root, sight: Sight, replaced: bool) -> Result<()> {
        let inner = self.inner.clone();
        let post = self.roots.entry(root.id).or_default();
        let before = post.seen.replace(sight.clone());
        let is_news = before.as_ref().is_some_and(|it| *it != sight);
        match sight {
            Sight::Away(why) if root.available => {
                let (catalog, id) = (inner.catalog.clone(), root.id);
                let sentence =
                    format!("{why}; mount it, or `vic roots remove` it; nothing of it was deleted from the index");
                blocking(move || catalog.set_root_state(id, false, &sentence)).await?;
                inner.unwatch(root.id).await;
                Ok(())
            }
            Sight::Away(_) => Ok(()),
            // The walk knows whether that is new, and says so.
            Sight::Empty if root.available && !self.is_start && (is_news || before.is_none()) => self.walk(root).await,
            Sight::Empty => Ok(()),
            // Another walk would be lost at the same place.
            Sight::Here { .. } if inner.is_stuck(root.id) => Ok(()),
            Sight::Here { .. } => {
                let was_whole = inner.watching.is_whole(root.id);
                if is_news || replaced {
                    inner.unwatch(root.id).await;
                }
                // One that is away by its catalog may be back at any moment.
                let poll = Duration::from_secs(if root.available { inner.config.background.poll_seconds } else { 0 });
                let due = post.walked.is_none_or(|(at, took)| at.elapsed() >= poll.max(took * REST));
                let is_late = !root.available || !inner.watching.tells_all(root.id);
                let is_back = self.returned.contains(&root.id);
                // The folder went and came back between two looks: it is the one that was seen before, and unwatched.
                let is_unseen = inner.watching.has_lost_sight(root.id);
                let is_time = is_news || replaced || is_unseen || is_back || (is_late && due);
                if !is_time {
                    return Ok(());
                }
                inner.watch(root).await;
                // A job walks every root at the start, and one that is new.
                let is_walked = self.is_start || (before.is_none() && was_whole);
                if is_walked { Ok(()) } else { self.walk(root).await }
            }
        }
    }

    async fn walk(&mut self, root: &Root) -> Result<()> {
        let begun = Instant::now();
        let outcome = watching::look_everywhere(&self.inner, root).await;
        self.roots.entry(root.id).or_default().walked = Some((Instant::now(), begun.elapsed()));
        outcome
    }
}

fn look_at(path: &Path) -> Sight {
    let read = || -> std::io::Result<Sight> {
        let metadata = path.metadata()?;
        if path.read_dir()?.next().transpose()?.is_none() {
            return Ok(Sight::Empty);
        }
        Ok(Sight::Here { identity: (metadata.dev(), metadata.ino()), mounts: mounts_below(path) })
    };
    read().unwrap_or_else(|error| Sight::Away(Error::io("read", path, &error).message))
}

/// What is mounted at or below a folder: number and place of each.
fn mounts_below(path: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = |line: &str| -> Option<String> {
        let mut fields = line.split(' ');
        let (number, place) = (fields.next()?, fields.nth(3)?);
        // Spaces and the like are written in octal.
        let readable = place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
        Path::new(&readable).starts_with(path).then(|| format!("{number} {place}"))
    };
    table.lines().filter_map(place).collect()
}

impl Inner {
    /// Watches a root, or what is not watched of it yet, and notes what stands in the way.
    pub(crate) async fn watch(&self, root: &Root) {
        let (watching, watched) = (self.watching.clone(), root.clone());
        let is_new = !watching.is_whole(root.id);
        if is_new {
            self.walks.forget(root.id);
        }
        let leash = Arc::new(Leash::default());
        let held = leash.clone();
        let ensured = blocking(move || Ok(watching.ensure(&watched, &held))).await;
        let problem = ensured.unwrap_or_else(|error| Some(error.message));
        if leash.steps() > 0 && Arc::strong_count(&leash) > 1 {
            self.leave(root, &leash);
        }
        if is_new {
            self.walks.watched(root.id);
        }
        self.note(&format!("watch {}", root.path.display()), problem);
    }

    /// Stops watching a root: its watches died with it, or nobody asks any more.
    pub(crate) async fn unwatch(&self, id: RootId) {
        let watching = self.watching.clone();
        let stopped = blocking(move || {
            watching.remove(id);
            Ok(())
        });
        if let Err(error) = stopped.await {
            warn!(%error, "cannot stop watching a root");
        }
    }

    /// Watches every root and reconciles it at start and from then on at intervals.
    pub(crate) async fn keep_fresh(self: Arc<Inner>) {
        let mut guard = Guard { inner: self.clone(), roots: HashMap::new(), is_start: true, returned: Vec::new() };
        guard.look_at_all().await;
        guard.is_start = false;
        tokio::spawn(follow(guard));
        let mut ticks = tokio::time::interval(Duration::from_secs(self.config.walk.rescan_seconds.max(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                _ = ticks.tick() => (),
            }
            self.reconcile_roots().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_here_empty_or_away_and_another_folder_in_its_place_is_another_sight() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        assert!(matches!(look_at(&root), Sight::Away(why) if why.contains("root")));
        std::fs::create_dir(&root).unwrap();
        assert_eq!(look_at(&root), Sight::Empty);
        std::fs::write(root.join("a"), "x").unwrap();
        let here = look_at(&root);
        assert!(matches!(here, Sight::Here { .. }));
        assert_eq!(look_at(&root), here);
        std::fs::rename(&root, dir.path().join("aside")).unwrap();
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a"), "x").unwrap();
        assert_ne!(look_at(&root), here);
    }

    #[test]
    fn mounts_are_found_below_a_folder_and_not_beside_it() {
        assert!(mounts_below(Path::new("/proc")).iter().any(|it| it.ends_with(" /proc")));
        assert_eq!(mounts_below(Path::new("/pro")), Vec::<String>::new());
    }
}
