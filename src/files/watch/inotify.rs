//! Kernel events: only those that can change a file.
//!
//! The usual library is not used, because it also requests an event for every open: reading a tree, as indexing does, would
//! fill the queue and lose the events that matter. Events carry a watch descriptor and not a path, so that the owner of the
//! descriptors decides what an event means after a folder has moved.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Bytes per read: about as many events as the kernel keeps, or two thousand with the longest names.
const BUFFER: usize = 512 << 10;

/// Shortest time between two reads of the queue. With thousands of events per second, waking a thread for each would cost
/// far more than it is worth, also for the program that makes the changes. The kernel keeps 16,384 events meanwhile.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(10);

/// A watch descriptor.
pub(super) type Descriptor = i32;

/// One event, as reported by the kernel.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The watch that it belongs to; -1 when the queue overflowed.
    pub(super) watch: Descriptor,
    /// The type of the event.
    pub(super) mask: ReadFlags,
    /// Equal for both halves of a rename; else 0.
    pub(super) cookie: u32,
    /// The entry of the watched folder; `None` for the folder itself.
    pub(super) name: Option<OsString>,
}

/// Why a folder is not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It no longer exists, or is no folder.
    Gone,
    /// It cannot be read for lack of permission.
    Denied,
    /// The limit of watches is reached.
    Limit,
    /// Its path is longer than the system supports: files in it cannot be opened either.
    PathTooLong,
    /// Anything else.
    Failed(String),
}

/// The watches of the operating system, each for one folder.
pub(super) trait WatchBackend {
    /// Watches a folder. A watched folder keeps its descriptor, even if its path has changed.
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal>;

    /// Stops a watch, if it exists.
    fn unwatch(&mut self, watch: Descriptor);

    /// Returns the type of the file system if other machines can change it without events.
    fn remote(&self, folder: &Path) -> Option<&'static str>;
}

/// One inotify instance with its queue.
#[derive(Clone)]
pub(super) struct Inotify(Arc<OwnedFd>);

impl Inotify {
    pub(super) fn open() -> io::Result<Inotify> {
        Ok(Inotify(Arc::new(inotify::init(CreateFlags::CLOEXEC)?)))
    }

    /// Watches something other than a folder, through a link in `/proc`.
    pub(super) fn watch_link(&self, link: &Path) -> io::Result<Descriptor> {
        Ok(inotify::add_watch(&*self.0, link, WatchFlags::MODIFY)?)
    }

    /// As [`Inotify::watch_link`], with a new descriptor.
    pub(super) fn renew_link(&mut self, watch: Descriptor, link: &Path) -> io::Result<Descriptor> {
        self.unwatch(watch);
        self.watch_link(link)
    }

    /// Passes every event to `each` until that returns false. Blocks.
    ///
    /// # Errors
    /// When the queue cannot be read; no more events will arrive.
    pub(super) fn read(&self, mut each: impl FnMut(Event) -> bool) -> io::Result<()> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&*self.0, &mut buffer);
        let mut next = Instant::now();
        loop {
            let is_new = reader.is_buffer_empty();
            if is_new {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if is_new {
                next = Instant::now() + MIN_READ_INTERVAL;
            }
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string());
            if !each(Event { watch: event.wd(), mask: event.events(), cookie: event.cookie(), name }) {
                return Ok(());
            }
        }
    }
}

impl WatchBackend for Inotify {
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal> {
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        // A link that replaces a folder is not followed, and events of deleted files that are still open are dropped.
        let how = WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW | WatchFlags::EXCL_UNLINK;
        inotify::add_watch(&*self.0, folder, changes | how).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Refusal::Gone,
            Errno::ACCESS | Errno::PERM => Refusal::Denied,
            Errno::NOSPC => Refusal::Limit,
            Errno::NAMETOOLONG => Refusal::PathTooLong,
            other => Refusal::Failed(io::Error::from(other).to_string()),
        })
    }

    fn unwatch(&mut self, watch: Descriptor) {
        // Fails when the folder is gone, and its watch with it.
        let _gone = inotify::remove_watch(&*self.0, watch);
    }

    fn remote(&self, folder: &Path) -> Option<&'static str> {
        rustix::fs::statfs(folder).ok().and_then(|it| remote_file_system(it.f_type))
    }
}

/// Returns the name of a file system that several machines can write to, by its number in `statfs(2)`.
fn remote_file_system(number: i64) -> Option<&'static str> {
    // The field is signed on some machines, and the numbers of Samba have their highest bit set.
    Some(match number & 0xFFFF_FFFF {
        0x6969 => "nfs",
        0x517B => "smb",
        0xFE53_4D42 => "smb2",
        0xFF53_4D42 => "cifs",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x00C3_6400 => "ceph",
        0x5346_414F | 0x6B41_4653 => "afs",
        0x7375_7245 => "coda",
        0x0BD0_0BD0 => "lustre",
        0x4750_4653 => "gpfs",
        0x7461_636F => "ocfs2",
        0x0116_1970 => "gfs2",
        0x786F_4256 => "vboxsf",
        0x7C7C_6673 => "prl_fs",
        0xBACB_ACBC => "vmhgfs",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_detected_by_number() {
        assert_eq!(remote_file_system(0x6969), Some("nfs"));
        assert_eq!(remote_file_system(i64::from(0xFF53_4D42_u32.cast_signed())), Some("cifs"));
        // ext4, tmpfs, btrfs, xfs, overlayfs
        for local in [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630] {
            assert_eq!(remote_file_system(local), None);
        }
    }

    #[test]
    fn writing_causes_events_and_reading_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.txt");
        std::fs::write(&file, "x").unwrap();
        let mut kernel = Inotify::open().unwrap();
        kernel.watch(dir.path()).unwrap();
        (0..100).for_each(|_| drop(std::fs::read(&file).unwrap()));
        std::fs::write(&file, "y").unwrap();
        let mut seen = Vec::new();
        kernel
            .read(|event| {
                seen.push(event.mask);
                event.mask != ReadFlags::CLOSE_WRITE
            })
            .unwrap();
        assert!(seen.iter().all(|it| [ReadFlags::MODIFY, ReadFlags::CLOSE_WRITE].contains(it)), "{seen:?}");
        assert_eq!(kernel.watch(&file), Err(Refusal::Gone));
        assert_eq!(kernel.watch(Path::new("/no/such/folder")), Err(Refusal::Gone));
    }
}
