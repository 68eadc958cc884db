//! Metadata of a file from an `lstat` or `statx` call.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The metadata of an entry, read without opening it.
pub(super) struct FileStat {
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Space on disk, in units of 512 bytes.
    pub(super) blocks: u64,
    pub(super) modified_ns: i64,
    pub(super) changed_ns: i64,
    pub(super) created_ns: Option<i64>,
    pub(super) inode: u64,
    pub(super) device: u64,
    pub(super) uid: u32,
}

impl FileStat {
    pub(super) fn kind(&self) -> rustix::fs::FileType {
        rustix::fs::FileType::from_raw_mode(self.mode)
    }
}

impl From<&Metadata> for FileStat {
    fn from(metadata: &Metadata) -> FileStat {
        FileStat {
            mode: metadata.mode(),
            size: metadata.len(),
            blocks: metadata.blocks(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            created_ns: metadata.created().ok().and_then(since_epoch),
            inode: metadata.ino(),
            device: metadata.dev(),
            uid: metadata.uid(),
        }
    }
}

#[cfg(target_os = "linux")]
impl From<&rustix::fs::Statx> for FileStat {
    fn from(told: &rustix::fs::Statx) -> FileStat {
        let time = |it: rustix::fs::StatxTimestamp| nanoseconds(it.tv_sec, i64::from(it.tv_nsec));
        let knows_birth = told.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
        FileStat {
            mode: u32::from(told.stx_mode),
            size: told.stx_size,
            blocks: told.stx_blocks,
            modified_ns: time(told.stx_mtime),
            changed_ns: time(told.stx_ctime),
            created_ns: (knows_birth && told.stx_btime.tv_sec >= 0).then(|| time(told.stx_btime)),
            inode: told.stx_ino,
            device: rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor),
            uid: told.stx_uid,
        }
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

fn since_epoch(time: std::time::SystemTime) -> Option<i64> {
    let elapsed = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(elapsed.as_nanos()).ok()
}
