//! Walks roots, or parts of them, and applies the differences to the catalog.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::{Catalog, DeletionPolicy, ROOT_HINT, ScanOutcome, ScanPass, WalkResult};
use crate::error::{Error, ErrorCode, Result};
use crate::files::{PlaceWalker, Rules, WalkProblem, WalkReport, WalkToken, ignored_files, unresponsive};
use crate::index::blocking_tasks::{blocking, blocking_with_timeout};
use crate::index::maintenance::purge;
use crate::index::tables::TableWriter;
use crate::model::{FileId, FoundFile, Root};

/// Maximum files deleted from the store in one commit.
const DELETE_BATCH: usize = 5_000;

/// Maximum time to check whether removed files still exist on disk.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Compares a root, or a part of it, with the catalog and applies the differences. A root that cannot be read is marked
/// as unavailable and keeps its files.
pub(crate) fn scan(
    catalog: &Catalog,
    rules: &Rules,
    root: &Root,
    within: Option<&Path>,
    accept_losses: bool,
    leash: &WalkToken,
) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
    let first = walk_and_apply(catalog, rules, root, within, accept_losses, leash, ScanPass::First)?;
    // If the first walk would delete files, a second one decides: a file that was moved during a walk may have been
    // missed at both paths.
    let done = match first {
        Some(done) => Some(done),
        None => {
            leash.restart();
            walk_and_apply(catalog, rules, root, within, accept_losses, leash, ScanPass::Second)?
        }
    };
    done.ok_or_else(|| Error::internal("the second walk of a root returned no decision"))
}

/// Walks a root and applies the result to the catalog. Returns `None`, without changes, if the first walk would delete
/// files.
fn walk_and_apply(
    catalog: &Catalog,
    rules: &Rules,
    root: &Root,
    within: Option<&Path>,
    accept_losses: bool,
    leash: &WalkToken,
    look: ScanPass,
) -> Result<Option<(ScanOutcome, Vec<WalkProblem>)>> {
    let (mut found, report) = walk(catalog, &mut PlaceWalker::new(&root.path, rules), root, within, leash)?;
    let is_whole = within.is_none_or(|it| it.as_os_str().is_empty());
    // Only the second walk checks whether rules exclude the missing files, because the first walk deletes nothing.
    let left_out = match look {
        ScanPass::Second if is_whole && !accept_losses => excluded_files(catalog, rules, root, &mut found, leash)?,
        ScanPass::First | ScanPass::Second => HashSet::new(),
    };
    begin_apply(leash)?;
    let is_away = |path: &Path, device: u64| is_away(&root.path, path, device);
    let belief = if accept_losses { DeletionPolicy::All } else { DeletionPolicy::Cautious(&is_away) };
    let (unreadable, complete) = (&report.unreadable[..], report.complete);
    let walked = WalkResult { root: root.id, within, found, unreadable, complete, ignored: left_out };
    let outcome = catalog.apply_walk(walked, belief, look)?;
    Ok(outcome.map(|it| (it, report.problems)))
}

/// Returns the files in the catalog that a full walk did not find because a rule excludes them.
fn excluded_files(
    catalog: &Catalog,
    rules: &Rules,
    root: &Root,
    found: &mut [FoundFile],
    leash: &WalkToken,
) -> Result<HashSet<PathBuf>> {
    // Reports progress at each step, so that the watchdog does not abandon the walk.
    let missing = catalog.missing_from(root.id, found, &|| {
        leash.advance();
    })?;
    let left_out = ignored_files(&root.path, rules, missing, leash)?;
    if leash.is_stopped() { Err(cancelled()) } else { Ok(left_out) }
}

fn walk(
    catalog: &Catalog,
    looks: &mut PlaceWalker<'_>,
    root: &Root,
    within: Option<&Path>,
    leash: &WalkToken,
) -> Result<(Vec<FoundFile>, WalkReport)> {
    let mut found = Vec::new();
    let report = match looks.walk(within, leash, |file| found.push(file)) {
        Ok(report) => report,
        Err(error) => {
            catalog.mark_unavailable(root.id, &error.message)?;
            return Err(error.hint(ROOT_HINT));
        }
    };
    if leash.is_stopped() {
        return Err(cancelled());
    }
    Ok((found, report))
}

/// Compares many paths of a root with the catalog, and applies the differences in one commit. Returns each path with
/// the problems of its walk.
pub(crate) fn scan_paths(
    catalog: &Catalog,
    rules: &Rules,
    root: &Root,
    places: Vec<PathBuf>,
    leash: &WalkToken,
) -> Result<Vec<(PathBuf, Vec<WalkProblem>)>> {
    let mut reports = Vec::with_capacity(places.len());
    let mut all_found = Vec::with_capacity(places.len());
    let mut looks = PlaceWalker::new(&root.path, rules);
    for place in &places {
        let (found, report) = walk(catalog, &mut looks, root, Some(place), leash)?;
        all_found.push(found);
        reports.push(report);
    }
    begin_apply(leash)?;
    let walks = places.iter().zip(all_found).zip(&reports).map(|((place, found), report)| WalkResult {
        root: root.id,
        within: Some(place),
        found,
        unreadable: &report.unreadable,
        complete: report.complete,
        ignored: HashSet::new(),
    });
    let is_away = |path: &Path, device: u64| is_away(&root.path, path, device);
    let outcomes = catalog.apply_walks(walks.collect(), DeletionPolicy::Cautious(&is_away), ScanPass::First)?;
    let mut seen = Vec::with_capacity(places.len());
    for ((place, report), outcome) in places.into_iter().zip(reports).zip(outcomes) {
        let problems = match outcome {
            Some(_) => report.problems,
            None => {
                leash.restart();
                walk_and_apply(catalog, rules, root, Some(&place), false, leash, ScanPass::Second)?
                    .map_or(Vec::new(), |it| it.1)
            }
        };
        seen.push((place, problems));
    }
    Ok(seen)
}

/// Marks the point from which a walk can no longer be cancelled. Fails if it was cancelled before.
fn begin_apply(leash: &WalkToken) -> Result<()> {
    if leash.begin_apply() { Ok(()) } else { Err(cancelled()) }
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the scan was cancelled")
}

/// Returns whether the file system that held a missing file is not mounted now: the nearest existing ancestor is on
/// another file system or does not respond. A missing file of the root's own file system counts as deleted.
fn is_away(root: &Path, file: &Path, device: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    if unresponsive::is_unresponsive_beneath(root, file) {
        return true;
    }
    let device_of = |path: &Path| path.symlink_metadata().ok().map(|it| it.dev());
    if device_of(root) == Some(device) {
        return false;
    }
    let above = file.ancestors().skip(1).find_map(|it| device_of(&root.join(it)));
    above.is_some_and(|it| it != device)
}

/// Deletes removed files (those with a tombstone in the catalog) from the store, then removes their tombstones.
pub(crate) async fn delete_tombstoned(catalog: &Catalog, table: &TableWriter) -> Result<u64> {
    let mut buried = 0;
    loop {
        let reader = catalog.clone();
        let dead = blocking(move || reader.tombstones(DELETE_BATCH)).await?;
        if dead.is_empty() {
            return Ok(buried);
        }
        // Requests the purge before the rows are deleted, so that a crash in between cannot lose the request.
        if any_excluded(catalog, table, &dead).await? {
            let asked = catalog.clone();
            blocking(move || purge::request(&asked)).await?;
        }
        table.delete(&dead).await?;
        buried += dead.len() as u64;
        let writer = catalog.clone();
        blocking(move || writer.forget(&dead)).await?;
    }
}

/// Returns whether any removed file was excluded rather than deleted: it still exists on disk, or its root was removed.
/// A file that cannot be checked counts as excluded, so that its text is purged.
async fn any_excluded(catalog: &Catalog, table: &TableWriter, removed: &[FileId]) -> Result<bool> {
    let (reader, stored, ids) = (catalog.clone(), table.clone(), removed.to_vec());
    let places = blocking(move || reader.paths_of_removed(&ids, &|it| stored.has_file(it))).await?;
    match places {
        Some(places) => Ok(any_exists(places).await),
        None => Ok(true),
    }
}

/// Returns whether any file at these paths was excluded rather than deleted: it is still on disk, but the catalog lacks
/// it or records that a rule skips it.
pub(in crate::index) async fn any_excluded_at(catalog: &Catalog, places: Vec<PathBuf>) -> Result<bool> {
    let reader = catalog.clone();
    let places = blocking(move || {
        let mut left = Vec::with_capacity(places.len());
        for place in places {
            if reader.record_by_path(&place)?.is_none_or(|it| it.found.skip.is_some()) {
                left.push(place);
            }
        }
        Ok(left)
    });
    Ok(any_exists(places.await?).await)
}

async fn any_exists(places: Vec<PathBuf>) -> bool {
    let is_there = |it: &PathBuf| unresponsive::is_unresponsive(it) || it.symlink_metadata().is_ok();
    blocking_with_timeout(CHECK_TIMEOUT, move || Ok(places.iter().any(is_there))).await.unwrap_or(true)
}

/// Splits an absolute path into the root that contains it and the path relative to that root.
pub(crate) fn split_root<'a>(roots: &'a [Root], path: &Path) -> Option<(&'a Root, PathBuf)> {
    roots.iter().find_map(|root| Some((root, path.strip_prefix(&root.path).ok()?.to_path_buf())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{FileStamp, IndexedMark};
    use crate::config::WalkConfig;
    use crate::model::{ContentHash, FileKind};

    /// A folder with 60 files to exclude and 40 others, and its catalog.
    struct Scene {
        dir: tempfile::TempDir,
        catalog: Catalog,
        root: Root,
    }

    impl Scene {
        fn new(folder: &str) -> Scene {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap().join(folder);
            for (part, files) in [("archive", 60), ("notes", 40)] {
                std::fs::create_dir_all(path.join(part)).unwrap();
                (0..files).for_each(|it| std::fs::write(path.join(part).join(format!("{it}.md")), part).unwrap());
            }
            let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
            let root = catalog.add_root(&path).unwrap();
            Scene { dir, catalog, root }
        }

        fn look(&self, ignore: &[&str]) -> ScanOutcome {
            let ignore = ignore.iter().map(|it| it.to_string()).collect();
            let config =
                WalkConfig { ignore, include_hidden: false, max_file_bytes: 99, watch: false, rescan_seconds: 9 };
            let rules = Rules::new(&config).unwrap();
            scan(&self.catalog, &rules, &self.root, None, false, &WalkToken::default()).unwrap().0
        }

        /// Marks every file as indexed.
        fn index(&self) {
            let pending = self.catalog.next_pending(0, 200).unwrap();
            let mark = |it| IndexedMark {
                file: FileStamp::new(it),
                hash: ContentHash([7; 32]),
                kind: FileKind::Text,
                media_type: String::new(),
                chunks: 1,
                detail: String::new(),
                awaiting: 0,
                contents: Default::default(),
                language: None,
            };
            self.catalog.mark_indexed(&pending.iter().map(mark).collect::<Vec<_>>()).unwrap();
        }

        /// Returns the number of known files and of tombstones, whether the root is available, and its problem.
        fn state(&self) -> (u64, usize, bool, String) {
            let root = self.catalog.roots().unwrap().remove(0);
            let gone = self.catalog.tombstones(200).unwrap().len();
            (self.catalog.coverage(None).unwrap().found, gone, root.available, root.problem)
        }
    }

    // Case E14
    #[test]
    fn excluded_files_are_removed_whatever_their_share() {
        for is_read in [false, true] {
            let scene = Scene::new("root");
            assert_eq!(scene.look(&[]).added, 100);
            if is_read {
                scene.index();
            }
            std::fs::write(scene.root.path.join(".vicignore"), "archive/\n").unwrap();
            let outcome = scene.look(&[]);
            assert_eq!((outcome.unchanged, outcome.removed), (40, 60));
            assert_eq!(scene.state(), (40, 60, true, String::new()));
            assert_eq!(scene.look(&["*.md"]).removed, 40, "nothing is left of it");
            assert_eq!(scene.state(), (0, 100, true, String::new()));
        }
    }

    // Case E14
    #[test]
    fn missing_files_need_proof_even_beside_excluded_ones() {
        let scene = Scene::new("root");
        scene.look(&[]);
        scene.index();
        std::fs::write(scene.root.path.join(".vicignore"), "archive/\n").unwrap();
        let aside = scene.dir.path().join("aside");
        std::fs::rename(scene.root.path.join("notes"), &aside).unwrap();
        assert_eq!(scene.look(&[]).removed, 60, "the excluded files are removed");
        let (found, _, is_there, problem) = scene.state();
        assert_eq!((found, is_there), (40, false));
        assert!(problem.contains("40 files"), "{problem}");
        std::fs::rename(&aside, scene.root.path.join("notes")).unwrap();
        assert_eq!(scene.look(&[]).unchanged, 40);
        assert_eq!(scene.state(), (40, 60, true, String::new()));
    }

    #[tokio::test]
    async fn forgotten_files_that_exist_unread_count_as_excluded() {
        let scene = Scene::new("root");
        let place = |it: &str| vec![scene.root.path.join(it)];
        scene.look(&[]);
        let left_out = async |it: &str| any_excluded_at(&scene.catalog, place(it)).await.unwrap();
        assert!(!left_out("archive/0.md").await, "it is there to be read");
        std::fs::write(scene.root.path.join("archive/1.md"), "").unwrap();
        scene.look(&["0.md"]);
        assert!(left_out("archive/0.md").await && left_out("archive/1.md").await);
        std::fs::remove_file(scene.root.path.join("archive/0.md")).unwrap();
        assert!(!left_out("archive/0.md").await, "it is deleted");
    }

    // Case E14
    #[test]
    fn nested_root_hidden_by_outer_rules_is_excluded() {
        let scene = Scene::new("above/.hidden");
        scene.look(&[]);
        scene.index();
        let above = scene.root.path.parent().unwrap();
        std::fs::write(above.join("seen.md"), "seen").unwrap();
        let scene = Scene { root: scene.catalog.add_root(above).unwrap(), ..scene };
        let outcome = scene.look(&[]);
        assert_eq!((outcome.added, outcome.removed), (1, 100));
        assert_eq!(scene.state(), (1, 100, true, String::new()));
    }

    // Case A12
    #[test]
    fn file_below_unresponsive_path_is_not_deleted() {
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().unwrap();
        let (mount, device) = (root.path().join("mount"), root.path().metadata().unwrap().dev());
        std::fs::create_dir(&mount).unwrap();
        let away = |path: &str, device: u64| is_away(root.path(), Path::new(path), device);
        assert!(!away("mount/a.txt", device) && away("mount/a.txt", device + 1));
        unresponsive::set_unresponsive(&mount, true);
        assert!(away("mount/a.txt", device) && !away("a.txt", device));
        unresponsive::set_unresponsive(&mount, false);
        assert!(!away("mount/a.txt", device));
    }
}
