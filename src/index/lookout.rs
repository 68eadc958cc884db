//! Looks whether roots answer, and what is mounted in them, every few seconds and whatever else is done: whoever opens a
//! file on a network mount whose server is away waits for ever.

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
use crate::index::{Inner, blocking};
use crate::model::{Root, RootId};
use crate::warehouse::silence;

/// How often it looks.
const TICK: Duration = Duration::from_secs(5);

/// The longest that a place may take to answer: a network mount whose server is away never does.
const ANSWER: Duration = Duration::from_secs(4);

/// What was seen of every root at one moment.
pub(super) type Sights = Arc<HashMap<RootId, Sight>>;

/// A root at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It cannot be read, and why.
    Away(String),
    /// There is nothing in it.
    Empty,
    /// It is this folder, with these mounts in it; of those, these do not answer. Also, how often one of all this has fallen
    /// silent so far: whoever does not look at every sight sees by that what was missed.
    Here { identity: (u64, u64), mounts: Vec<String>, silent: Vec<PathBuf>, falls: u64 },
}

/// Looks, for as long as the daemon lives.
pub(super) fn begin(inner: Arc<Inner>) -> watch::Receiver<Sights> {
    let (sender, sights) = watch::channel(Sights::default());
    tokio::spawn(async move {
        let mut lookout = Lookout::default();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            match lookout.look(&inner).await {
                Ok(seen) => drop(sender.send(Arc::new(seen))),
                Err(error) => warn!(%error, "cannot look whether the roots answer"),
            }
        }
    });
    sights
}

/// Looks that have not come back, and what does not answer.
#[derive(Default)]
struct Lookout {
    /// By place, and what is mounted there: another mount at a place is looked at anew.
    looks: HashMap<(PathBuf, u64), JoinHandle<Sight>>,
    silent: BTreeSet<PathBuf>,
    /// How often each has fallen silent.
    falls: BTreeMap<PathBuf, u64>,
}

impl Lookout {
    async fn look(&mut self, inner: &Inner) -> Result<HashMap<RootId, Sight>> {
        let roots = inner.roots().await?;
        let mounts = blocking(|| Ok(Mounts::now())).await?;
        let mut places: BTreeSet<&Path> = roots.iter().map(|it| it.path.as_path()).collect();
        places.extend(roots.iter().flat_map(|it| mounts.below(&it.path)).map(|it| it.place.as_path()));
        let seen = self.look_at_all(&places, &mounts, ANSWER).await;
        Ok(roots.iter().map(|root| (root.id, self.sight(root, &mounts, &seen))).collect())
    }

    /// Looks at all at once: those that do not answer are waited for together. Returns what was seen of those that do.
    async fn look_at_all(
        &mut self,
        places: &BTreeSet<&Path>,
        mounts: &Mounts,
        most: Duration,
    ) -> BTreeMap<PathBuf, Sight> {
        let keys: Vec<(PathBuf, u64)> = places.iter().map(|it| (it.to_path_buf(), mounts.holding(it))).collect();
        self.looks.retain(|it, _| keys.contains(it));
        for key in &keys {
            // One that has not answered is waited for again: each new look would hold another thread.
            let place = key.0.clone();
            let look = || tokio::task::spawn_blocking(move || look_at(&place));
            self.looks.entry(key.clone()).or_insert_with(look);
        }
        let until = tokio::time::Instant::now() + most;
        let (mut seen, mut silent) = (BTreeMap::new(), BTreeSet::new());
        for key in keys {
            let Some(look) = self.looks.get_mut(&key) else { continue };
            if let Ok(sight) = tokio::time::timeout_at(until, look).await {
                self.looks.remove(&key);
                seen.insert(key.0, sight.unwrap_or_else(|error| Sight::Away(error.to_string())));
            } else {
                silence::note(&key.0, true);
                silent.insert(key.0);
            }
        }
        self.silent.difference(&silent).for_each(|it| silence::note(it, false));
        silent.difference(&self.silent).for_each(|it| *self.falls.entry(it.clone()).or_default() += 1);
        self.silent = silent;
        seen
    }

    fn sight(&self, root: &Root, mounts: &Mounts, seen: &BTreeMap<PathBuf, Sight>) -> Sight {
        let no_answer = || Sight::Away(format!("`{}` does not answer", root.path.display()));
        match seen.get(&root.path).cloned().unwrap_or_else(no_answer) {
            Sight::Here { identity, .. } => Sight::Here {
                identity,
                mounts: mounts.at_or_below(&root.path),
                silent: self.silent.iter().filter(|it| it.starts_with(&root.path)).cloned().collect(),
                falls: self.falls.iter().filter(|it| it.0.starts_with(&root.path)).map(|it| it.1).sum(),
            },
            other => other,
        }
    }
}

fn look_at(path: &Path) -> Sight {
    let read = || -> std::io::Result<Sight> {
        let metadata = path.metadata()?;
        if path.read_dir()?.next().transpose()?.is_none() {
            return Ok(Sight::Empty);
        }
        let identity = (metadata.dev(), metadata.ino());
        Ok(Sight::Here { identity, mounts: Vec::new(), silent: Vec::new(), falls: 0 })
    };
    read().unwrap_or_else(|error| Sight::Away(Error::io("read", path, &error).message))
}

/// What is mounted, by the kernel's table, which is read without a look at any of it.
struct Mounts(Vec<Mount>);

struct Mount {
    number: u64,
    place: PathBuf,
    /// Whether something is mounted there only once somebody looks.
    is_automatic: bool,
}

impl Mounts {
    fn now() -> Mounts {
        Mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// The format is that of proc_pid_mountinfo(5).
    fn parse(table: &str) -> Mounts {
        let mount = |line: &str| -> Option<Mount> {
            let (ours, of_the_file_system) = line.split_once(" - ")?;
            let mut fields = ours.split(' ');
            let (number, place) = (fields.next()?.parse().ok()?, fields.nth(3)?);
            // Spaces and the like are written in octal.
            let place =
                place.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
            Some(Mount { number, place: place.into(), is_automatic: of_the_file_system.starts_with("autofs ") })
        };
        Mounts(table.lines().filter_map(mount).collect())
    }

    /// Those below a folder, at which may be looked.
    fn below(&self, folder: &Path) -> impl Iterator<Item = &Mount> {
        self.0.iter().filter(move |it| it.place.starts_with(folder) && it.place != folder && !it.is_automatic)
    }

    /// Number and place of each at or below a folder.
    fn at_or_below(&self, folder: &Path) -> Vec<String> {
        let within = self.0.iter().filter(|it| it.place.starts_with(folder));
        within.map(|it| format!("{} {}", it.number, it.place.display())).collect()
    }

    /// The number of the one that a path lies in: of several at a place, the last is seen.
    fn holding(&self, path: &Path) -> u64 {
        let above = self.0.iter().filter(|it| path.starts_with(&it.place));
        above.max_by_key(|it| it.place.components().count()).map_or(0, |it| it.number)
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
        let table = "21 1 0:19 / / rw - ext4 /dev/vda rw\n\
                     30 21 0:25 / /home/me/my\\040nas rw,nosuid shared:1 - nfs4 server:/ rw\n\
                     31 21 0:26 / /home/me/auto rw - autofs systemd-1 rw\n\
                     32 21 0:27 / /home/mean rw - tmpfs tmpfs rw\n\
                     33 30 0:28 / /home/me/my\\040nas rw - nfs4 other:/ rw\n\
                     nonsense";
        let mounts = Mounts::parse(table);
        let below = |it: &str| mounts.below(Path::new(it)).map(|it| it.number).collect::<Vec<_>>();
        assert_eq!((below("/home/me"), below("/home/me/my nas"), below("/home/m")), (vec![30, 33], vec![], vec![]));
        assert_eq!(mounts.at_or_below(Path::new("/home/me/auto")), ["31 /home/me/auto"]);
        let holding = |it: &str| mounts.holding(Path::new(it));
        assert_eq!((holding("/home/me"), holding("/home/me/my nas/a"), holding("/home/mean")), (21, 33, 32));
        assert!(Mounts::now().below(Path::new("/")).any(|it| it.place == Path::new("/proc")));
    }

    #[tokio::test]
    async fn places_that_do_not_answer_are_told_of_until_they_do_or_are_no_places_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let (place, none, soon) = (dir.path().join("place"), Mounts(Vec::new()), Duration::from_millis(500));
        let mut lookout = Lookout::default();
        let hang = || tokio::spawn(std::future::pending::<Sight>());
        lookout.looks.insert((place.clone(), 0), hang());
        let asked = BTreeSet::from([dir.path(), place.as_path()]);
        assert!(lookout.look_at_all(&asked, &none, soon).await.contains_key(dir.path()));
        assert!(silence::holds(&place.join("file")) && !silence::holds(dir.path()));
        lookout.look_at_all(&BTreeSet::new(), &none, soon).await;
        assert!(!silence::holds(&place));
        // Another look is begun where another file system is mounted.
        lookout.looks.insert((place.clone(), 7), hang());
        let asked = BTreeSet::from([place.as_path()]);
        assert!(lookout.look_at_all(&asked, &none, soon).await.contains_key(&place));
        assert!(!silence::holds(&place));
    }
}
