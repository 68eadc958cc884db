//! Checks whether a file on disk still holds the passage that the index has of it. Runs for every hit before it is shown.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::files::{self, OpenProblem};
use crate::model::{Anchor, FileRecord};

/// Timeout for checking all files of one answer on disk; a longer check fails with `Unavailable`. A fast disk allows a
/// thousand checks per second.
pub(super) const FILE_CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// Result of comparing an indexed passage with the file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CitationStatus {
    /// The passage was read from the file again and has the same letters and digits in the same order.
    Verified,
    /// Size and modification time of the file are unchanged, but the bytes could not be compared (not plain text).
    Unchanged,
    /// The file has another size or modification time than when it was indexed, or is not readable.
    Changed,
    /// The file no longer exists.
    Gone,
}

impl CitationStatus {
    /// Returns the name of the status in the metadata of a hit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CitationStatus::Verified => "verified",
            CitationStatus::Unchanged => "unchanged",
            CitationStatus::Changed => "changed",
            CitationStatus::Gone => "gone",
        }
    }
}

/// Compares size and modification time of the file with the index, then the passage with its bytes if it has a byte range.
pub(crate) fn check_passage(record: &FileRecord, anchor: &Anchor, passage: &str) -> CitationStatus {
    let mut file = match files::open_beneath(&record.root, &record.found.path) {
        Ok(file) => file,
        Err(OpenProblem::Gone) => return CitationStatus::Gone,
        Err(OpenProblem::Bad(_)) => return CitationStatus::Changed,
    };
    if !has_indexed_size_and_time(&file, record) {
        return CitationStatus::Changed;
    }
    let (None, Some(start), Some(end)) = (&anchor.member, anchor.byte_start, anchor.byte_end) else {
        return CitationStatus::Unchanged;
    };
    match read_at(&mut file, start, end.saturating_sub(start)) {
        Some(bytes) if same_letters(&String::from_utf8_lossy(&bytes), passage) => CitationStatus::Verified,
        // Not `Changed`, because the encoding, or markup between the letters, makes even unchanged bytes differ from the
        // passage.
        Some(_) | None => CitationStatus::Unchanged,
    }
}

/// Returns whether a quotation is still in the file. Verbatim text is searched for in its indexed byte range; for other
/// formats, the hash of the whole file must be the indexed one.
pub(crate) fn quote_is_current(record: &FileRecord, anchor: &Anchor, quote: &str) -> bool {
    let Ok(mut file) = files::open_beneath(&record.root, &record.found.path) else { return false };
    if let (true, None, Some(start), Some(end)) = (anchor.verbatim, &anchor.member, anchor.byte_start, anchor.byte_end)
    {
        return read_at(&mut file, start, end.saturating_sub(start))
            .is_some_and(|bytes| memchr::memmem::find(&bytes, quote.as_bytes()).is_some());
    }
    record.hash.as_ref().is_some_and(|hash| files::hash(&file).is_ok_and(|now| now == *hash))
}

/// Returns whether a passage is still in the file. If the file has changed, the passage is searched for as a quotation.
pub(crate) fn passage_is_current(record: &FileRecord, anchor: &Anchor, passage: &str) -> bool {
    match check_passage(record, anchor, passage) {
        CitationStatus::Verified | CitationStatus::Unchanged => true,
        // The change may be in another part of the file, so this searches for the passage itself.
        CitationStatus::Changed => !passage.trim().is_empty() && quote_is_current(record, anchor, passage.trim()),
        CitationStatus::Gone => false,
    }
}

fn has_indexed_size_and_time(file: &File, record: &FileRecord) -> bool {
    let Ok(now) = file.metadata() else { return false };
    let modified_ns = now.mtime().saturating_mul(1_000_000_000).saturating_add(now.mtime_nsec());
    now.len() == record.found.size && modified_ns == record.found.modified_ns
}

/// Compares letters and digits only, because a passage of several blocks lacks the markup between the blocks.
fn same_letters(file: &str, passage: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = char> + '_ {
        text.chars().filter(|it| it.is_alphanumeric())
    }
    letters(file).eq(letters(passage))
}

fn read_at(file: &mut File, start: u64, length: u64) -> Option<Vec<u8>> {
    /// Maximum number of bytes read; every chunk is shorter. Keeps a corrupt anchor from allocating a large buffer.
    const LONGEST: u64 = 1 << 20;
    let length = usize::try_from(length.min(LONGEST)).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_letters_ignores_markup_and_compares_letters() {
        assert!(same_letters("Intro.\n\n## Winter\n\n31 kg", "Intro.\n\nWinter\n31 kg"));
        assert!(!same_letters("31 kg", "13 kg"));
        assert!(!same_letters("31 kg more", "31 kg"));
    }
}
