//! Footer check: detects truncated files that the library wrote.
//!
//! The library writes the end of a file, ignores the result of that write, and renames the file to its final name
//! (lance-io 14.0.2, `LocalWriter::poll_shutdown`). On a full or failing disk a commit can thus succeed with truncated
//! files. New files are therefore checked before their commit counts. Each file type has its own footer.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use roaring::RoaringBitmap;
use walkdir::DirEntryExt;

use crate::error::{Error, Result};

/// A truncated file is reported as a full disk if fewer bytes than this are free, otherwise as a broken disk.
const FULL_DISK_BYTES: u64 = 4 << 20;

/// Remembers which files of a table were checked.
#[derive(Clone, Debug)]
pub(super) struct FooterCheck {
    table_dir: PathBuf,
    checked: Arc<Mutex<HashSet<FileKey>>>,
}

/// A file identified by path and inode, because the next version reuses the file names of an undone version.
type FileKey = (PathBuf, u64);

impl FooterCheck {
    /// Creates the check for a table that is new or was read completely. Files that exist already are not checked.
    pub(super) fn new(table_dir: &Path) -> FooterCheck {
        let known = commit_files(table_dir).into_iter().collect();
        FooterCheck { table_dir: table_dir.to_owned(), checked: Arc::new(Mutex::new(known)) }
    }

    /// Checks the files that are new since the last check.
    ///
    /// # Errors
    /// A file is truncated; the error is that of a full or broken disk, which the library ignored. The file is not
    /// checked again, because the caller undoes the commit, and then nothing needs the file.
    pub(super) async fn check(&self) -> Result<()> {
        let whole = self.clone();
        tokio::task::spawn_blocking(move || whole.check_now()).await.map_err(Error::internal)?
    }

    fn check_now(&self) -> Result<()> {
        let now = commit_files(&self.table_dir);
        let mut known = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let torn = now.iter().filter(|it| !known.contains(*it)).find(|it| !has_footer(&it.0)).cloned();
        *known = now.into_iter().collect();
        torn.map_or(Ok(()), |(it, _)| Err(Error::io("write", &it, &truncation_error(&self.table_dir))))
    }
}

/// Returns the error that likely truncated a file: a full disk or a broken one.
fn truncation_error(dir: &Path) -> std::io::Error {
    let room = rustix::fs::statvfs(dir).map_or(u64::MAX, |it| it.f_bavail * it.f_frsize);
    let errno = if room < FULL_DISK_BYTES { rustix::io::Errno::NOSPC } else { rustix::io::Errno::IO };
    errno.into()
}

/// Returns the files of all commits of a table.
fn commit_files(table_dir: &Path) -> Vec<FileKey> {
    let folders = ["data", "_deletions", "_indices", "_versions"].map(|it| table_dir.join(it));
    let entries = folders.iter().flat_map(|it| walkdir::WalkDir::new(it).into_iter().flatten());
    entries.filter(|it| it.file_type().is_file()).map(|it| (it.path().to_owned(), it.ino())).collect()
}

/// Returns whether a file has its footer. A file that vanished meanwhile counts as complete.
fn has_footer(path: &Path) -> bool {
    let ends = match path.extension().and_then(|it| it.to_str()) {
        Some("lance" | "idx" | "manifest") => ends_with(path, b"LANC"),
        Some("arrow") => ends_with(path, b"ARROW1"),
        Some("bin") => File::open(path).map(|it| RoaringBitmap::deserialize_from(BufReader::new(it)).is_ok()),
        _ => Ok(true),
    };
    ends.unwrap_or_else(|error| error.kind() == ErrorKind::NotFound)
}

fn ends_with(path: &Path, end: &[u8]) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if length < end.len() as u64 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-(end.len() as i64)))?;
    let mut found = Vec::with_capacity(end.len());
    file.read_to_end(&mut found)?;
    Ok(found == end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_file_is_reported_once_and_complete_files_pass() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("data/old.lance", b"torn long ago, and nothing needs it");
        let whole = FooterCheck::new(dir.path());
        let mut bits = Vec::new();
        RoaringBitmap::from_iter(0..20_000).serialize_into(&mut bits).unwrap();
        write("data/a.lance", b"rows LANC");
        write("_indices/1/b.idx", b"words LANC");
        write("_versions/7.manifest", b"version LANC");
        write("_deletions/1.arrow", b"gone ARROW1");
        write("_deletions/2.bin", &bits);
        write("_versions/latest_version_hint.json", b"{}");
        whole.check_now().unwrap();
        let torn: [(&str, &[u8]); 6] = [
            ("data/c.lance", b"rows LAN"),
            ("_indices/2/d.idx", b""),
            ("_versions/8.manifest", b"version"),
            ("_deletions/3.arrow", b""),
            ("_deletions/4.arrow", b"gone ARROW"),
            ("_deletions/5.bin", &bits[..bits.len() - 1]),
        ];
        for (name, bytes) in torn {
            write(name, bytes);
            let error = whole.check_now().unwrap_err();
            assert!(error.message.contains(name), "{name}: {error}");
            whole.check_now().unwrap();
        }
    }
}
