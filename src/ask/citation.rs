//! Is the file still what the index says? Asked for every hit before it is shown.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use crate::model::{Anchor, FileRecord};
use crate::warehouse::{self, OpenProblem};

/// How a hit stands to the file as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The passage was read again at its place, byte for byte.
    Verified,
    /// The file is unchanged by size and time; its format keeps no bytes to compare.
    Unchanged,
    /// The file has changed since it was indexed.
    Changed,
    /// The file is gone.
    Gone,
}

impl Standing {
    /// Returns the word in the hit's metadata.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::Verified => "verified",
            Standing::Unchanged => "unchanged",
            Standing::Changed => "changed",
            Standing::Gone => "gone",
        }
    }
}

/// Looks at the file, and where its format allows reads the passage again.
pub(crate) fn check(record: &FileRecord, anchor: &Anchor, passage: &str) -> Standing {
    let mut file = match warehouse::open_beneath(&record.root, &record.found.path) {
        Ok(file) => file,
        Err(OpenProblem::Gone) => return Standing::Gone,
        Err(OpenProblem::Bad(_)) => return Standing::Changed,
    };
    if !is_as_indexed(&file, record) {
        return Standing::Changed;
    }
    let (true, None, Some(start)) = (anchor.verbatim, &anchor.member, anchor.byte_start) else {
        return Standing::Unchanged;
    };
    match read_at(&mut file, start, passage.len()) {
        Some(bytes) if bytes == passage.as_bytes() => Standing::Verified,
        Some(_) | None => Standing::Changed,
    }
}

fn is_as_indexed(file: &File, record: &FileRecord) -> bool {
    let Ok(now) = file.metadata() else { return false };
    let modified_ns = now.mtime().saturating_mul(1_000_000_000).saturating_add(now.mtime_nsec());
    now.len() == record.found.size && modified_ns == record.found.modified_ns
}

fn read_at(file: &mut File, start: u64, length: usize) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
