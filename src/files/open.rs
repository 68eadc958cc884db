//! The only access to the content of user files: below their root, through no symbolic link, regular files only, never
//! blocking. [`Folder`] reads the metadata of entries under the same rules.

use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::files::stat::FileStat;
use crate::files::unresponsive;
use crate::model::{ContentHash, ExtractFailure, MAX_FILE_BYTES, Reason};

/// Number of bytes per read when a file is hashed: large enough for the full speed of BLAKE3, small enough for many
/// threads.
const HASH_BUFFER: usize = 1 << 20;

/// Why a file was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenProblem {
    /// The file no longer exists; the next event or walk will report that.
    Gone,
    /// The file exists but cannot be read; the catalog must record this reason.
    Bad(ExtractFailure),
}

/// Opens a regular file for reading. No component of `relative` may be a symbolic link or lead out of `root`; a FIFO,
/// socket or device is refused without blocking.
///
/// # Errors
/// [`OpenProblem::Gone`] when there is no such file or its disk is known to be unresponsive, otherwise the reason to
/// record.
pub fn open_beneath(root: &Path, relative: &Path) -> Result<File, OpenProblem> {
    if unresponsive::is_unresponsive_beneath(root, relative) {
        Err(OpenProblem::Gone)
    } else {
        open_unchecked(root, relative)
    }
}

fn open_unchecked(root: &Path, relative: &Path) -> Result<File, OpenProblem> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = File::from(resolve(root, relative, flags).map_err(to_open_problem)?);
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(bad_file(Reason::NotRegular, "")),
        Err(error) => Err(bad_file(Reason::Io, &error.to_string())),
    }
}

/// Why an ignore file was not read although it exists.
pub(super) enum ReadRefusal {
    /// The path is not a regular file but a file of this type, such as a named pipe.
    Type(FileType),
    /// The operating system refused to open or read the file with this error.
    Refused(io::Error),
}

/// Reads at most `most` bytes of an ignore file; the flag tells whether the file is longer. Symbolic links are
/// followed. Returns `None` if the file does not exist. Anything but a regular file is not even opened.
pub(super) fn read_regular(path: &Path, most: u64) -> Result<Option<(Vec<u8>, bool)>, ReadRefusal> {
    let is_absent = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(libc::ELOOP)
    };
    let check = |looked: io::Result<Metadata>| match looked {
        Ok(it) if !it.is_file() => Err(ReadRefusal::Type(it.file_type())),
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(ReadRefusal::Refused(error)),
    };
    if !check(path.metadata())? {
        return Ok(None);
    }
    // Opens without blocking and checks the type again, because the file may have been replaced by a pipe or device
    // meanwhile.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if is_absent(&error.into()) => return Ok(None),
        Err(error) => return Err(ReadRefusal::Refused(error.into())),
    };
    check(file.metadata())?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(ReadRefusal::Refused)?;
    let is_cut = bytes.len() as u64 > most;
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(Some((bytes, is_cut)))
}

/// A folder that is held open. Lookups relative to it stay below it, even if the file system changes.
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens a root; its path may contain symbolic links.
    pub(super) fn root(root: &Path) -> io::Result<Folder> {
        Ok(Folder(open_root(root)?))
    }

    /// Opens a folder below this one, through no symbolic link. Returns `ELOOP` if the path or a part of it is a symbolic
    /// link or a file.
    pub(super) fn beneath(&self, relative: &Path) -> io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match resolve_in(self.0.as_fd(), relative, flags) {
            // Returns `ELOOP` for "not a directory" too, because this is how `O_DIRECTORY` with `O_NOFOLLOW` reports a
            // symbolic link to a folder.
            Err(Errno::NOTDIR) => Err(Errno::LOOP.into()),
            opened => Ok(Folder(opened?)),
        }
    }

    /// Returns the metadata of an entry below this folder, through no symbolic link; a link itself is not followed.
    pub(super) fn metadata(&self, relative: &Path) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(resolve_in(self.0.as_fd(), relative, flags)?).metadata()
    }

    /// Returns the status of the entry of that name without following a link: with one `statx` call if the kernel supports
    /// it.
    pub(super) fn status(&self, name: &OsStr) -> io::Result<FileStat> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{AtFlags, StatxFlags, statx};
            let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
            match statx(&self.0, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
                // Falls back to `fstat`: kernels before 4.11 lack `statx`, and some sandboxes forbid calls they do not
                // know.
                Err(Errno::NOSYS | Errno::PERM) => {}
                told => return Ok(FileStat::from(&told?)),
            }
        }
        Ok(FileStat::from(&self.metadata(Path::new(name))?))
    }

    /// Returns whether the path still leads to this folder.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        match (fstat(&self.0), rustix::fs::stat(path)) {
            (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }
}

/// Returns the BLAKE3 hash of all bytes of `file`, independent of its cursor.
///
/// # Errors
/// When the file cannot be read; `FileTooLarge` if it is larger than [`MAX_FILE_BYTES`]: hashing a disk image, or a file
/// that grows for ever, would take too long.
pub fn hash(file: &File) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    let length = file.metadata()?.len();
    if length > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut buffer = vec![0; HASH_BUFFER.min(usize::try_from(length).unwrap_or(HASH_BUFFER).max(4096))];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            _ if offset > MAX_FILE_BYTES => return Err(io::ErrorKind::FileTooLarge.into()),
            Ok(0) => return Ok(ContentHash(*hasher.finalize().as_bytes())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Size and modification time of a file, to detect writes. A rename changes neither, in contrast to the status-change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentStamp {
    size: u64,
    modified: (i64, i64),
}

impl ContentStamp {
    /// Returns the stamp of an open file; `None` if the file system does not provide its metadata.
    pub fn new(file: &File) -> Option<ContentStamp> {
        let found = file.metadata().ok()?;
        Some(ContentStamp { size: found.len(), modified: (found.mtime(), found.mtime_nsec()) })
    }
}

/// Returns whether the file begins with the signature of a zip archive; false if it cannot be read.
///
/// Only walks may call this function, under their watchdog: it ignores the list of unresponsive paths, so that its
/// answer is never wrong, but it may block.
pub(crate) fn begins_like_zip(root: &Path, relative: &Path) -> bool {
    let mut magic = [0; 4];
    match open_unchecked(root, relative) {
        Ok(file) => file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"PK\x03\x04",
        Err(_) => false,
    }
}

fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn resolve(root: &Path, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve_in(open_root(root)?.as_fd(), relative, flags)
}

/// Opens `relative` below `root`: with one `openat2` call if the kernel supports it, otherwise component by component.
fn resolve_in(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    if relative.as_os_str().is_empty() {
        return openat(root, c".", flags, Mode::empty());
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(root, relative, flags, Mode::empty(), beneath) {
            // Continues below without `openat2`, because kernels before 5.6 lack it and some sandboxes forbid calls
            // they do not know.
            Err(Errno::NOSYS | Errno::PERM) => {}
            // Continues below too: the kernel gives up when a rename happens at the same time, but opening component by
            // component does not.
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    resolve_by_component(root, relative, flags)
}

fn resolve_by_component(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder: Option<OwnedFd> = None;
    let mut components = relative.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        let here = folder.as_ref().map_or(root, |it| it.as_fd());
        if components.peek().is_none() {
            return openat(here, name, flags, Mode::empty());
        }
        let next = openat(here, name, folder_flags, Mode::empty()).map_err(|error| match error {
            // Returns `ELOOP` for "not a directory" too, because this is how `O_DIRECTORY` with `O_NOFOLLOW` reports a
            // symbolic link to a folder.
            Errno::NOTDIR => Errno::LOOP,
            other => other,
        })?;
        folder = Some(next);
    }
    Err(Errno::NOENT)
}

fn to_open_problem(error: Errno) -> OpenProblem {
    match error {
        Errno::NOENT | Errno::NOTDIR => OpenProblem::Gone,
        Errno::LOOP | Errno::XDEV => bad_file(Reason::Symlink, ""),
        Errno::NXIO | Errno::NODEV | Errno::ISDIR => bad_file(Reason::NotRegular, ""),
        Errno::ACCESS | Errno::PERM => bad_file(Reason::PermissionDenied, ""),
        other => bad_file(Reason::Io, &io::Error::from(other).to_string()),
    }
}

fn bad_file(reason: Reason, detail: &str) -> OpenProblem {
    OpenProblem::Bad(ExtractFailure { reason, detail: detail.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    type Opener = fn(&Path, &Path) -> Result<OwnedFd, Errno>;

    fn open_by_component(root: &Path, relative: &Path) -> Result<OwnedFd, Errno> {
        let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        resolve_by_component(root.as_fd(), relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)
    }

    fn open_by_openat2(root: &Path, relative: &Path) -> Result<OwnedFd, Errno> {
        resolve(root, relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)
    }

    /// Creates a root with a plain file, links that lead out of it or stay within it, and a secret file beside the root.
    fn root() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(dir.path().join("outside"), "secret").unwrap();
        std::fs::write(root.join("sub/plain"), "text").unwrap();
        symlink(dir.path().join("outside"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        symlink("sub", root.join("inside")).unwrap();
        dir
    }

    #[test]
    fn open_never_leaves_root() {
        let dir = root();
        let root = dir.path().join("root");
        for opener in [open_by_openat2 as Opener, open_by_component as Opener] {
            assert!(opener(&root, Path::new("sub/plain")).is_ok());
            for path in ["link", "up/outside", "inside/plain"] {
                let error = opener(&root, Path::new(path)).unwrap_err();
                assert_eq!(to_open_problem(error), bad_file(Reason::Symlink, ""), "{path}");
            }
            for path in ["../outside", "sub/../../outside", "/etc/passwd"] {
                assert!(opener(&root, Path::new(path)).is_err(), "{path}");
            }
            assert_eq!(to_open_problem(opener(&root, Path::new("missing")).unwrap_err()), OpenProblem::Gone);
        }
    }

    #[test]
    fn folder_lookup_follows_no_links() {
        let dir = root();
        let root = Folder::root(&dir.path().join("root")).unwrap();
        let error = |result: io::Result<Metadata>| result.unwrap_err().raw_os_error();
        assert_eq!(root.beneath(Path::new("sub")).unwrap().metadata(Path::new("plain")).unwrap().len(), 4);
        assert!(root.metadata(Path::new("link")).unwrap().is_symlink());
        for path in ["up", "inside", "up/root", "link", "sub/plain"] {
            let opened = root.beneath(Path::new(path)).map(|_| ());
            assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ELOOP), "{path}");
        }
        assert_eq!(error(root.metadata(Path::new("up/outside"))), Some(libc::ELOOP));
        assert_eq!(error(root.metadata(Path::new("missing"))), Some(libc::ENOENT));
        assert_eq!(error(root.metadata(Path::new("../outside"))), Some(libc::EXDEV));
    }

    #[test]
    fn is_at_detects_replaced_folder() {
        let dir = root();
        let path = dir.path().join("root");
        let held = Folder::root(&path).unwrap();
        assert!(held.is_at(&path));
        std::fs::rename(&path, dir.path().join("aside")).unwrap();
        assert!(!held.is_at(&path));
        std::fs::create_dir(&path).unwrap();
        assert!(!held.is_at(&path));
    }

    // Case A10
    #[test]
    fn fifo_is_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(CWD, dir.path().join("fifo"), Mode::RWXU).unwrap();
        assert_eq!(open_beneath(dir.path(), Path::new("fifo")).unwrap_err(), bad_file(Reason::NotRegular, ""));
        assert_eq!(open_beneath(dir.path(), Path::new("")).unwrap_err(), bad_file(Reason::NotRegular, ""));
    }

    #[test]
    fn hash_covers_all_bytes_at_any_cursor() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..3 * HASH_BUFFER + 17).map(|it| (it % 251) as u8).collect();
        std::fs::write(dir.path().join("f"), &bytes).unwrap();
        let mut file = open_beneath(dir.path(), Path::new("f")).unwrap();
        file.read_exact(&mut [0; 100]).unwrap();
        assert_eq!(hash(&file).unwrap(), ContentHash(*blake3::hash(&bytes).as_bytes()));
    }

    #[test]
    fn stamp_changes_on_write_but_not_on_rename() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        let stamp = ContentStamp::new(&file);
        let moved = dir.path().join("b.txt");
        std::fs::rename(&path, &moved).unwrap();
        assert!(stamp.is_some() && ContentStamp::new(&file) == stamp);
        std::fs::write(&moved, "after, and longer").unwrap();
        assert_ne!(ContentStamp::new(&file), stamp);
    }

    #[test]
    fn hash_of_oversized_file_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(hash(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        file.set_len(5).unwrap();
        assert_eq!(hash(&file).unwrap(), ContentHash(*blake3::hash(&[0; 5]).as_bytes()));
    }
}
