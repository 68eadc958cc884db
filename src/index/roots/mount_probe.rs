//! Probes every few seconds whether roots respond and which file systems are mounted in them. Without this, opening a
//! file on a network mount whose server is gone would block for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::error::{Error, Result};
use crate::files::unresponsive;
use crate::index::blocking_tasks::blocking;
use crate::index::state::IndexState;
use crate::model::{Root, RootId};

/// Interval between probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time to wait for a probe: a network mount whose server is gone never responds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

/// Status of every root at one moment.
pub(in crate::index) type RootStatuses = Arc<HashMap<RootId, RootStatus>>;

/// Status of a root at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) enum RootStatus {
    /// The root cannot be read, for this reason.
    Away(String),
    /// The root is an empty folder.
    Empty,
    /// The root is a folder with this device and inode number. `mounts` are the mounts in it, and `silent` are the
    /// paths in it that do not respond. `falls` counts how often any path stopped responding, so that a task
    /// that missed a status still notices the failure.
    Here { identity: (u64, u64), mounts: Vec<String>, silent: Vec<PathBuf>, falls: u64 },
}

/// Probes the roots until the daemon ends. Returns a receiver of their status.
pub(in crate::index) fn spawn_probe(inner: Arc<IndexState>) -> watch::Receiver<RootStatuses> {
    let (sender, sights) = watch::channel(RootStatuses::default());
    tokio::spawn(async move {
        let mut lookout = MountProbe::default();
        let mut ticks = tokio::time::interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            match lookout.probe_roots(&inner).await {
                Ok(seen) => drop(sender.send(Arc::new(seen))),
                Err(error) => warn!(%error, "cannot probe the roots"),
            }
        }
    });
    sights
}

/// Probes the roots and the mounts in them. Holds the probes that have not returned, and the paths that do not respond.
#[derive(Default)]
struct MountProbe {
    /// Key: path and mount id, so that a new mount at a path gets a new probe.
    pending: HashMap<(PathBuf, u64), JoinHandle<RootStatus>>,
    unresponsive: BTreeSet<PathBuf>,
    /// How often each path has stopped responding.
    failures: BTreeMap<PathBuf, u64>,
}

impl MountProbe {
    async fn probe_roots(&mut self, inner: &IndexState) -> Result<HashMap<RootId, RootStatus>> {
        let roots = inner.roots().await?;
        let mounts = blocking(|| Ok(Mounts::now())).await?;
        let mut places: BTreeSet<&Path> = roots.iter().map(|it| it.path.as_path()).collect();
        places.extend(roots.iter().flat_map(|it| mounts.below(&it.path)).map(|it| it.path.as_path()));
        let seen = self.probe_all(&places, &mounts, PROBE_TIMEOUT).await;
        Ok(roots.iter().map(|root| (root.id, self.status_of(root, &mounts, &seen))).collect())
    }

    /// Probes all paths concurrently with one timeout. Returns the status of the paths that respond in time.
    async fn probe_all(
        &mut self,
        places: &BTreeSet<&Path>,
        mounts: &Mounts,
        most: Duration,
    ) -> BTreeMap<PathBuf, RootStatus> {
        let keys: Vec<(PathBuf, u64)> =
            places.iter().map(|it| (it.to_path_buf(), mounts.id_of_mount_holding(it))).collect();
        self.pending.retain(|it, _| keys.contains(it));
        for key in &keys {
            // Waits for the probe of a path that is still pending, if there is one: a new probe would block another
            // thread.
            let place = key.0.clone();
            let look = || tokio::task::spawn_blocking(move || probe(&place));
            self.pending.entry(key.clone()).or_insert_with(look);
        }
        let until = tokio::time::Instant::now() + most;
        let (mut seen, mut silent) = (BTreeMap::new(), BTreeSet::new());
        for key in keys {
            let Some(look) = self.pending.get_mut(&key) else { continue };
            if let Ok(sight) = tokio::time::timeout_at(until, look).await {
                self.pending.remove(&key);
                seen.insert(key.0, sight.unwrap_or_else(|error| RootStatus::Away(error.to_string())));
            } else {
                unresponsive::set_unresponsive(&key.0, true);
                silent.insert(key.0);
            }
        }
        self.unresponsive.difference(&silent).for_each(|it| unresponsive::set_unresponsive(it, false));
        silent.difference(&self.unresponsive).for_each(|it| *self.failures.entry(it.clone()).or_default() += 1);
        self.unresponsive = silent;
        seen
    }

    fn status_of(&self, root: &Root, mounts: &Mounts, seen: &BTreeMap<PathBuf, RootStatus>) -> RootStatus {
        let no_answer = || RootStatus::Away(format!("`{}` does not answer", root.path.display()));
        match seen.get(&root.path).cloned().unwrap_or_else(no_answer) {
            RootStatus::Here { identity, .. } => RootStatus::Here {
                identity,
                mounts: mounts.at_or_below(&root.path),
                silent: self.unresponsive.iter().filter(|it| it.starts_with(&root.path)).cloned().collect(),
                falls: self.failures.iter().filter(|it| it.0.starts_with(&root.path)).map(|it| it.1).sum(),
            },
            other => other,
        }
    }
}

fn probe(path: &Path) -> RootStatus {
    let read = || -> std::io::Result<RootStatus> {
        let metadata = path.metadata()?;
        if path.read_dir()?.next().transpose()?.is_none() {
            return Ok(RootStatus::Empty);
        }
        let identity = (metadata.dev(), metadata.ino());
        Ok(RootStatus::Here { identity, mounts: Vec::new(), silent: Vec::new(), falls: 0 })
    };
    read().unwrap_or_else(|error| RootStatus::Away(Error::io("read", path, &error).message))
}

/// The mounts in the kernel's mount table, which is read without access to any of them.
struct Mounts(Vec<Mount>);

struct Mount {
    id: u64,
    path: PathBuf,
    /// Whether an automounter mounts the file system on first access.
    is_automatic: bool,
}

impl Mounts {
    fn now() -> Mounts {
        Mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Parses the mount table in the format of proc_pid_mountinfo(5).
    fn parse(table: &str) -> Mounts {
        let mount = |line: &str| -> Option<Mount> {
            let (ours, of_the_file_system) = line.split_once(" - ")?;
            let mut fields = ours.split(' ');
            let (number, place) = (fields.next()?.parse().ok()?, fields.nth(3)?);
            // Decodes the octal escapes of space, tab, newline and backslash.
            let place =
                place.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
            Some(Mount { id: number, path: place.into(), is_automatic: of_the_file_system.starts_with("autofs ") })
        };
        Mounts(table.lines().filter_map(mount).collect())
    }

    /// Returns the mounts below a folder that may be probed: all except automounts, which a probe would mount.
    fn below(&self, folder: &Path) -> impl Iterator<Item = &Mount> {
        self.0.iter().filter(move |it| it.path.starts_with(folder) && it.path != folder && !it.is_automatic)
    }

    /// Returns the id and path of each mount at or below a folder.
    fn at_or_below(&self, folder: &Path) -> Vec<String> {
        let within = self.0.iter().filter(|it| it.path.starts_with(folder));
        within.map(|it| format!("{} {}", it.id, it.path.display())).collect()
    }

    /// Returns the id of the mount that holds a path. If several are mounted at one path, the last is visible.
    fn id_of_mount_holding(&self, path: &Path) -> u64 {
        let above = self.0.iter().filter(|it| path.starts_with(&it.path));
        above.max_by_key(|it| it.path.components().count()).map_or(0, |it| it.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_status_distinguishes_here_empty_away_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        assert!(matches!(probe(&root), RootStatus::Away(why) if why.contains("root")));
        std::fs::create_dir(&root).unwrap();
        assert_eq!(probe(&root), RootStatus::Empty);
        std::fs::write(root.join("a"), "x").unwrap();
        let here = probe(&root);
        assert!(matches!(here, RootStatus::Here { .. }));
        assert_eq!(probe(&root), here);
        std::fs::rename(&root, dir.path().join("aside")).unwrap();
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a"), "x").unwrap();
        assert_ne!(probe(&root), here);
    }

    #[test]
    fn mounts_below_folder_exclude_its_siblings() {
        let table = "21 1 0:19 / / rw - ext4 /dev/vda rw\n\
                     30 21 0:25 / /home/me/my\\040nas rw,nosuid shared:1 - nfs4 server:/ rw\n\
                     31 21 0:26 / /home/me/auto rw - autofs systemd-1 rw\n\
                     32 21 0:27 / /home/mean rw - tmpfs tmpfs rw\n\
                     33 30 0:28 / /home/me/my\\040nas rw - nfs4 other:/ rw\n\
                     nonsense";
        let mounts = Mounts::parse(table);
        let below = |it: &str| mounts.below(Path::new(it)).map(|it| it.id).collect::<Vec<_>>();
        assert_eq!((below("/home/me"), below("/home/me/my nas"), below("/home/m")), (vec![30, 33], vec![], vec![]));
        assert_eq!(mounts.at_or_below(Path::new("/home/me/auto")), ["31 /home/me/auto"]);
        let holding = |it: &str| mounts.id_of_mount_holding(Path::new(it));
        assert_eq!((holding("/home/me"), holding("/home/me/my nas/a"), holding("/home/mean")), (21, 33, 32));
        assert!(Mounts::now().below(Path::new("/")).any(|it| it.path == Path::new("/proc")));
    }

    #[tokio::test]
    async fn unresponsive_paths_are_reported_until_they_respond() {
        let dir = tempfile::tempdir().unwrap();
        let (place, none, soon) = (dir.path().join("place"), Mounts(Vec::new()), Duration::from_millis(500));
        let mut lookout = MountProbe::default();
        let hang = || tokio::spawn(std::future::pending::<RootStatus>());
        lookout.pending.insert((place.clone(), 0), hang());
        let asked = BTreeSet::from([dir.path(), place.as_path()]);
        assert!(lookout.probe_all(&asked, &none, soon).await.contains_key(dir.path()));
        assert!(unresponsive::is_unresponsive(&place.join("file")) && !unresponsive::is_unresponsive(dir.path()));
        lookout.probe_all(&BTreeSet::new(), &none, soon).await;
        assert!(!unresponsive::is_unresponsive(&place));
        // A new mount at the path gets a new probe.
        lookout.pending.insert((place.clone(), 7), hang());
        let asked = BTreeSet::from([place.as_path()]);
        assert!(lookout.probe_all(&asked, &none, soon).await.contains_key(&place));
        assert!(!unresponsive::is_unresponsive(&place));
    }
}
