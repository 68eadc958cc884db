//! Is the file still what the index says? Asked for every hit before it is shown.

use std::io::{Read, Seek, SeekFrom};

use crate::model::{Anchor, FileRecord};
use crate::warehouse;

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
    let Ok(now) = warehouse::stat(&record.root, &record.found.path) else { return Standing::Gone };
    if now.size != record.found.size || now.modified_ns != record.found.modified_ns {
        return Standing::Changed;
    }
    let (true, None, Some(start)) = (anchor.verbatim, &anchor.member, anchor.byte_start) else {
        return Standing::Unchanged;
    };
    match read_at(record, start, passage.len()) {
        Some(bytes) if bytes == passage.as_bytes() => Standing::Verified,
        Some(_) | None => Standing::Changed,
    }
}

fn read_at(record: &FileRecord, start: u64, length: usize) -> Option<Vec<u8>> {
    let mut file = warehouse::open_beneath(&record.root, &record.found.path).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
