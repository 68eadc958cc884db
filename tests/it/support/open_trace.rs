//! Records with inotify which files below a folder are opened, by any process.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Every open of a file below a folder since this value was created. Folders created later are not covered.
pub(crate) struct OpenTrace {
    queue: OwnedFd,
    folders: HashMap<i32, PathBuf>,
    seen: Vec<PathBuf>,
}

impl OpenTrace {
    pub(crate) fn watch_folder(folder: &Path) -> OpenTrace {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        let all = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
        let watch = |path: PathBuf| {
            // Also watches close events: inotify would otherwise merge two consecutive opens of one file.
            (inotify::add_watch(&queue, &path, WatchFlags::OPEN | WatchFlags::CLOSE).unwrap(), path)
        };
        let folders = all.filter(|it| it.file_type().is_dir()).map(|it| watch(it.into_path())).collect();
        OpenTrace { queue, folders, seen: Vec::new() }
    }

    /// Returns the files opened so far, one entry per open.
    pub(crate) fn opened(&mut self) -> &[PathBuf] {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4_096];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return &self.seen,
                Err(error) => panic!("{error}"),
            };
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "inotify events were lost");
            if event.events().contains(ReadFlags::OPEN) && !event.events().contains(ReadFlags::ISDIR) {
                let name = event.file_name().map_or(OsStr::new(""), |it| OsStr::from_bytes(it.to_bytes()));
                self.seen.push(self.folders[&event.wd()].join(name));
            }
        }
    }

    /// Returns how many times a file has been opened so far.
    pub(crate) fn count_of(&mut self, path: &Path) -> usize {
        self.opened().iter().filter(|it| *it == path).count()
    }
}
