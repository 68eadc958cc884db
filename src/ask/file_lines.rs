//! Reads whole lines of a file around an indexed piece of text, unless they contain a secret.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use crate::files;
use crate::model::{Anchor, FileRecord, Redaction};
use crate::secrets::{self, Redactor};

/// Maximum length of a shown line; longer lines are cut.
pub(super) const MAX_LINE_BYTES: usize = 4 << 10;

/// Reads the whole line around a piece of text. Returns the line and the offset of the piece in it. Returns `None` if the
/// piece is no longer at this location, or if the rest of the line is unreadable or contains a secret.
pub(super) fn read_whole_line(
    record: &FileRecord,
    anchor: &Anchor,
    text: &str,
    redaction: Redaction,
) -> Option<(String, usize)> {
    let (start, end) = (anchor.byte_start?, anchor.byte_end?);
    let mut file = files::open_beneath(&record.root, &record.found.path).ok()?;
    let from = start.saturating_sub(MAX_LINE_BYTES as u64);
    let bytes = read_range(&mut file, from..end + MAX_LINE_BYTES as u64)?;
    let (piece, after) = ((start - from) as usize, (end - from) as usize);
    if bytes.get(piece..after)? != text.as_bytes() {
        return None;
    }
    let first = bytes[..piece].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let last = bytes[after..].iter().position(|it| *it == b'\n').map_or(bytes.len(), |it| after + it);
    let line = std::str::from_utf8(&bytes[first..last]).ok()?.trim_end_matches('\r');
    let is_more = line.len() > after - piece;
    if is_more && redaction != Redaction::None && holds_secret(&mut file, from + first as u64, line, redaction)? {
        return None;
    }
    Some((line.to_string(), piece - first))
}

/// Returns whether a secret overlaps a line. Reads the bytes around the line too, because a private key may begin many
/// lines before it.
fn holds_secret(file: &mut File, start: u64, line: &str, redaction: Redaction) -> Option<bool> {
    let end = start + line.len() as u64;
    let from = start.saturating_sub(secrets::MAX_SECRET_BYTES as u64);
    let bytes = read_range(file, from..end + secrets::MAX_SECRET_BYTES as u64)?;
    // Decodes lossily, because the bytes read around the line may begin or end in the middle of a character.
    let before = String::from_utf8_lossy(bytes.get(..(start - from) as usize)?);
    let behind = String::from_utf8_lossy(bytes.get((end - from) as usize..)?);
    let shown = before.len()..before.len() + line.len();
    let places = Redactor::new(redaction).secret_ranges(&format!("{before}{line}{behind}"));
    Some(places.iter().any(|it| it.start < shown.end && it.end > shown.start))
}

/// Reads a byte range; returns fewer bytes if the file ends before the end of the range.
pub(super) fn read_range(file: &mut File, range: Range<u64>) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(range.start)).ok()?;
    let mut bytes = Vec::new();
    file.take(range.end - range.start).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
