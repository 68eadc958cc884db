//! Watch backend for Linux: inotify, with only the events of changes to files.
//!
//! The `notify` library is not used here, because it also requests an event for every file that is opened: indexing opens
//! whole trees, which would fill the queue and lose the events of changes.
//!
//! The heartbeat is an event of a small file in memory (memfd) that the queue watches too: it touches no user file and no
//! disk.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;

use crate::{Descriptor, Event, EventKind, OpenBackend, Refusal, WatchBackend};

/// Size of the read buffer, in bytes: as many events as the kernel queues, or two thousand with names of maximum
/// length.
const BUFFER: usize = 512 << 10;

/// Minimum time between two reads of the queue. With thousands of events per second, waking a thread for each would cost
/// much CPU time, and slow down the program that makes the changes. The kernel keeps 16,384 events meanwhile.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(10);

/// An inotify instance, with the memory file of its heartbeat.
pub struct Inotify {
    queue: Arc<OwnedFd>,
    /// The memory file of the heartbeat; the next field is its watch.
    memory: Arc<OwnedFd>,
    heartbeat: Option<Descriptor>,
}

/// Opens an inotify instance that watches nothing yet.
///
/// # Errors
/// When the kernel allows no further instance, e.g. because of `fs.inotify.max_user_instances`.
pub fn open() -> io::Result<OpenBackend<Inotify>> {
    let queue = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
    let memory = Arc::new(memfd_create(c"vic-heartbeat", MemfdFlags::CLOEXEC)?);
    let (read, beat) = (queue.clone(), memory.clone());
    Ok(OpenBackend {
        backend: Inotify { queue, memory, heartbeat: None },
        reader: Box::new(move |each| read_events(&read, each)),
        // Truncates the file to its current length, which causes an event too. If this fails, no heartbeat arrives, and
        // the watcher counts as dead.
        beat: Box::new(move || {
            let _failed = ftruncate(&*beat, 0);
        }),
    })
}

/// Passes every event to `each` until that returns false. Blocks while the queue is empty.
fn read_events(queue: &OwnedFd, each: &mut dyn FnMut(Event) -> bool) -> io::Result<()> {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(queue, &mut buffer);
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
        let Some(kind) = event_kind(event.events()) else { continue };
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string());
        let is_folder = event.events().contains(ReadFlags::ISDIR);
        if !each(Event { watch: event.wd(), kind, is_folder, cookie: event.cookie(), name }) {
            return Ok(());
        }
    }
}

/// Returns the kind of an event, which has exactly one of these flags; `None` for other flags.
fn event_kind(flags: ReadFlags) -> Option<EventKind> {
    const KINDS: [(ReadFlags, EventKind); 12] = [
        (ReadFlags::QUEUE_OVERFLOW, EventKind::Overflow),
        (ReadFlags::IGNORED, EventKind::WatchEnded),
        (ReadFlags::CREATE, EventKind::Created),
        (ReadFlags::DELETE, EventKind::Deleted),
        (ReadFlags::MODIFY, EventKind::Written),
        (ReadFlags::CLOSE_WRITE, EventKind::Closed),
        (ReadFlags::ATTRIB, EventKind::AttributesChanged),
        (ReadFlags::MOVED_FROM, EventKind::MovedFrom),
        (ReadFlags::MOVED_TO, EventKind::MovedTo),
        (ReadFlags::DELETE_SELF, EventKind::FolderGone),
        (ReadFlags::MOVE_SELF, EventKind::FolderGone),
        (ReadFlags::UNMOUNT, EventKind::Unmounted),
    ];
    KINDS.iter().find(|it| flags.contains(it.0)).map(|it| it.1)
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
        // Does not follow a link that replaced a folder, and omits events of deleted files that are still open.
        let how = WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW | WatchFlags::EXCL_UNLINK;
        inotify::add_watch(&*self.queue, folder, changes | how).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Refusal::Gone,
            Errno::ACCESS | Errno::PERM => Refusal::Denied,
            Errno::NOSPC => Refusal::Limit,
            Errno::NAMETOOLONG => Refusal::PathTooLong,
            other => Refusal::Failed(io::Error::from(other).to_string()),
        })
    }

    fn unwatch(&mut self, watch: Descriptor) {
        // Ignores an error: the kernel has removed the watch already if the folder was deleted.
        let _gone = inotify::remove_watch(&*self.queue, watch);
    }

    fn remote(&self, folder: &Path) -> Option<&'static str> {
        rustix::fs::statfs(folder).ok().and_then(|it| remote_file_system(it.f_type))
    }

    fn watch_heartbeat(&mut self) -> io::Result<Descriptor> {
        if let Some(before) = self.heartbeat.take() {
            self.unwatch(before);
        }
        let link = format!("/proc/self/fd/{}", self.memory.as_raw_fd());
        let watch = inotify::add_watch(&*self.queue, link, WatchFlags::MODIFY)?;
        self.heartbeat = Some(watch);
        Ok(watch)
    }
}

/// Returns the name of a file system that several machines can write to, by its magic number in `statfs(2)`.
fn remote_file_system(number: i64) -> Option<&'static str> {
    // Keeps only 32 bits: the field is signed on some machines, and the numbers of Samba have their highest bit set.
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
        // The numbers of local file systems: ext4, tmpfs, btrfs, xfs, overlayfs.
        for local in [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630] {
            assert_eq!(remote_file_system(local), None);
        }
    }
}
