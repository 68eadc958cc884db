//! Lists and renames the versions of a table on disk. Each is one manifest file, named by its number. Damaged ones are
//! renamed, never deleted.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};

/// Number of digits of a version number in a file name. Names count down from the largest number, so that the newest
/// version sorts first.
const COUNT_DOWN_DIGITS: usize = 20;

/// Suffix of a renamed manifest whose version was never recorded as durable.
const UNSYNCED: &str = "unsynced";
/// Suffix of a renamed manifest whose version is damaged.
const CORRUPT: &str = "corrupt";

/// One version of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manifest {
    pub(super) version: u64,
    pub(super) path: PathBuf,
}

/// Returns the versions of a table, oldest first; empty if the folder does not exist.
///
/// # Errors
/// The folder cannot be read, which does not count as damage.
pub(super) fn list(table_dir: &Path) -> Result<Vec<Manifest>> {
    let folder = versions_folder(table_dir);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).io_context("read", &folder),
    };
    let mut manifests = Vec::new();
    for entry in entries {
        let path = entry.io_context("read", &folder)?.path();
        manifests.extend(parse_version(&path).map(|version| Manifest { version, path }));
    }
    manifests.sort();
    Ok(manifests)
}

/// Quarantines (renames) the versions above this number, newest first. Returns how many were renamed.
///
/// # Errors
/// A file cannot be renamed.
pub(super) fn quarantine_unsynced(table_dir: &Path, synced: u64) -> Result<usize> {
    let unsynced: Vec<Manifest> = list(table_dir)?.into_iter().filter(|it| it.version > synced).collect();
    for it in unsynced.iter().rev() {
        rename(&it.path, &unused_path(&it.path, UNSYNCED))?;
    }
    if !unsynced.is_empty() {
        // Removes the file in which the library records the newest version, because it may name a version that was
        // renamed.
        drop_hint(table_dir)?;
        sync_folder(table_dir)?;
    }
    Ok(unsynced.len())
}

/// Quarantines (renames) the manifest of a damaged version. Returns its new path.
///
/// # Errors
/// The file cannot be renamed.
pub(super) fn quarantine_corrupt(table_dir: &Path, manifest: &Manifest) -> Result<PathBuf> {
    let aside = unused_path(&manifest.path, CORRUPT);
    rename(&manifest.path, &aside)?;
    drop_hint(table_dir)?;
    sync_folder(table_dir)?;
    Ok(aside)
}

/// Quarantines (renames) the folder of the whole table. Returns its new path.
///
/// # Errors
/// The folder cannot be renamed.
pub(super) fn quarantine_table(table_dir: &Path) -> Result<PathBuf> {
    let aside = unused_path(table_dir, "damaged");
    rename(table_dir, &aside)?;
    if let Some(dir) = table_dir.parent() {
        File::open(dir).and_then(|it| it.sync_all()).io_context("sync", dir)?;
    }
    Ok(aside)
}

/// Gives a quarantined manifest its name back.
///
/// # Errors
/// The file cannot be renamed.
pub(super) fn restore(manifest: &Manifest, aside: &Path) -> Result<()> {
    rename(aside, &manifest.path)
}

/// Returns whether any version was quarantined because of damage.
pub(super) fn has_corrupt(table_dir: &Path) -> bool {
    let mark = format!(".{CORRUPT}");
    leftovers(table_dir).iter().any(|it| it.to_string_lossy().contains(&mark))
}

/// Returns the paths of quarantined manifests and of temporary files that a crash left: none will be read again.
pub(super) fn leftovers(table_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(versions_folder(table_dir)).into_iter().flatten().flatten();
    let mut left: Vec<PathBuf> = entries.map(|it| it.path()).filter(|it| is_leftover(it)).collect();
    left.sort();
    left
}

fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = [UNSYNCED, CORRUPT].iter().any(|it| name.contains(&format!(".{it}")));
    // The library writes a temporary file `name#1` and links it to its final name.
    aside || name.contains('#') || name.starts_with(".tmp")
}

fn versions_folder(table_dir: &Path) -> PathBuf {
    table_dir.join("_versions")
}

fn parse_version(path: &Path) -> Option<u64> {
    if path.extension()? != "manifest" {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    let number: u64 = stem.parse().ok()?;
    Some(if stem.len() == COUNT_DOWN_DIGITS { u64::MAX - number } else { number })
}

/// Returns the first unused path of `name.why`, `name.why-2` and so on.
fn unused_path(path: &Path, why: &str) -> PathBuf {
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { format!(".{why}") } else { format!(".{why}-{number}") });
        PathBuf::from(name)
    };
    (1..).map(name).find(|it| it.symlink_metadata().is_err()).unwrap_or_else(|| name(0))
}

/// Removes the file in which the library records the newest version. Without it, the library lists the versions.
fn drop_hint(table_dir: &Path) -> Result<()> {
    let hint = versions_folder(table_dir).join("latest_version_hint.json");
    match std::fs::remove_file(&hint) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).io_context("remove", &hint),
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).io_context("move aside", from)
}

fn sync_folder(table_dir: &Path) -> Result<()> {
    let folder = versions_folder(table_dir);
    File::open(&folder).and_then(|it| it.sync_all()).io_context("sync", &folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_quarantined_under_unique_names() {
        let dir = tempfile::tempdir().unwrap();
        let versions = dir.path().join("_versions");
        std::fs::create_dir(&versions).unwrap();
        for version in [1, 2, 3u64] {
            std::fs::write(versions.join(format!("{:020}.manifest", u64::MAX - version)), version.to_string()).unwrap();
        }
        std::fs::write(versions.join("other.txt"), "").unwrap();
        let numbers = || list(dir.path()).unwrap().iter().map(|it| it.version).collect::<Vec<_>>();
        assert_eq!(numbers(), [1, 2, 3]);
        assert_eq!(quarantine_unsynced(dir.path(), 2).unwrap(), 1);
        assert_eq!(numbers(), [1, 2]);
        std::fs::write(versions.join(format!("{:020}.manifest", u64::MAX - 3)), "again").unwrap();
        assert_eq!(quarantine_unsynced(dir.path(), 2).unwrap(), 1);
        let second = list(dir.path()).unwrap().pop().unwrap();
        let aside = quarantine_corrupt(dir.path(), &second).unwrap();
        assert_eq!(numbers(), [1]);
        assert_eq!(leftovers(dir.path()).len(), 3);
        restore(&second, &aside).unwrap();
        assert_eq!(numbers(), [1, 2]);
        assert!(list(&dir.path().join("missing")).unwrap().is_empty());
    }
}
