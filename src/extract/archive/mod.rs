//! Reader of archives: zip, tar, gzip and their combinations, read member by member up to the nesting limit.
//!
//! Members are inflated in memory; nothing is written to disk, so a member name cannot act as a path. The caller passes the
//! function that reads a member by its type.

use std::io::{Cursor, Read};

use flate2::read::{GzDecoder, MultiGzDecoder};
use zip::ZipArchive;

use crate::extract::zip_container::{check_method, zip_failure};
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{ExtractFailure, FileState, Reason};

/// Function that reads one archive member by its type; the caller of the archive reader provides it.
pub(crate) type ReadMember<'a> = dyn FnMut(Input<'_>, &mut Sink) -> ReadResult + 'a;

/// Adds the text of all members of an archive to the sink; the archive format is detected by content.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
    match input.bytes {
        [0x1f, 0x8b, ..] => read_gzip(input, sink, member),
        [b'P', b'K', ..] => read_zip(input, sink, member),
        bytes if is_tar(bytes) => read_tar(input, sink, member),
        _ => Err(new_failure(Reason::Damaged, "the file is not a zip, tar or gzip archive")),
    }
}

/// Returns whether a tar archive begins with these bytes.
pub(crate) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Result of reading the members of one archive.
struct Outcome {
    /// Number of blocks in the sink before the archive was read.
    blocks: usize,
    read: u32,
    /// The failure to report if no member could be read: an exceeded limit, or else the first failure.
    failure: Option<ExtractFailure>,
    /// Whether a member was skipped only because vic does not extract its type, e.g. a program.
    has_unsupported: bool,
    stopped: bool,
}

impl Outcome {
    fn new(sink: &mut Sink) -> Outcome {
        let blocks = sink.document().blocks.len();
        Outcome { blocks, read: 0, failure: None, has_unsupported: false, stopped: false }
    }

    /// Reads one member. A failure is recorded as a problem. The reading of the archive stops when a limit of the whole
    /// file is reached.
    fn read_member(
        &mut self,
        name: &str,
        sink: &mut Sink,
        bytes: impl FnOnce(&mut Sink) -> ReadResult<Vec<u8>>,
        member: &mut ReadMember<'_>,
    ) {
        sink.record_name(name);
        if let Err(failed) = sink.enter_member(name) {
            return self.record_failure(name, failed, sink);
        }
        if !sink.leads_to_member() {
            // Does not even inflate a member that is not wanted.
            return sink.leave_member();
        }
        let short = name.rsplit('/').next().unwrap_or(name);
        let unpacked = bytes(sink);
        let is_unpacked = unpacked.is_ok();
        let result = unpacked.and_then(|bytes| member(Input { bytes: &bytes, name: short }, sink));
        sink.leave_member();
        match result {
            Ok(()) => self.read += 1,
            // An unsupported compression method counts as a failure: the member could not be inflated, so that its type is
            // unknown.
            Err(failed) if !is_unpacked && failed.reason == Reason::UnsupportedType => {
                sink.record_problem(format!("member `{name}`: {}", failed.detail));
                self.failure.get_or_insert(failed);
            }
            Err(failed) => self.record_failure(name, failed, sink),
        }
        if sink.is_full() {
            sink.mark_truncated();
            self.stopped = true;
        }
    }

    fn record_failure(&mut self, name: &str, failed: ExtractFailure, sink: &mut Sink) {
        if failed.reason.state() != FileState::Failed {
            self.has_unsupported = true;
            return;
        }
        sink.record_problem(format!("member `{name}`: {}", failed.detail));
        if failed.reason == Reason::DecompressionLimit {
            // Skips a single oversized member, but stops once the whole file reaches its limit on inflated bytes or on
            // members.
            self.stopped = sink.remaining_inflate_bytes() == 0 || !sink.may_enter_member();
            sink.mark_truncated();
            self.failure = Some(failed);
        } else {
            self.failure.get_or_insert(failed);
        }
    }

    /// Returns the recorded failure if no member could be read and none was skipped only because of its type.
    fn finish(self, sink: &mut Sink) -> ReadResult {
        let nothing = self.read == 0 && !self.has_unsupported && sink.document().blocks.len() == self.blocks;
        match self.failure {
            Some(failed) if nothing => Err(failed),
            _ => Ok(()),
        }
    }
}

fn read_zip(input: Input<'_>, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
    let mut archive = ZipArchive::new(Cursor::new(input.bytes)).map_err(|error| zip_failure(&error))?;
    let mut outcome = Outcome::new(sink);
    for place in 0..archive.len() {
        if outcome.stopped {
            break;
        }
        let name = match archive.by_index_data(place) {
            Ok(entry) if entry.is_dir() || entry.is_symlink() => continue,
            Ok(entry) => entry.name().map(|it| it.into_owned()).unwrap_or_else(|_| lossy_name(entry.name_raw())),
            Err(_) => format!("member {}", place + 1),
        };
        if is_byproduct(&name) {
            continue;
        }
        let bytes = |sink: &mut Sink| {
            let file = archive.by_index(place).map_err(|error| zip_failure(&error))?;
            let compressed = file.compressed_size();
            check_method(file.compression()).and_then(|()| sink.inflate_entry(file, compressed))
        };
        outcome.read_member(&name, sink, bytes, member);
    }
    outcome.finish(sink)
}

fn read_tar(input: Input<'_>, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
    let mut archive = tar::Archive::new(Cursor::new(input.bytes));
    let damaged = |error: std::io::Error| new_failure(Reason::Damaged, format!("tar archive: {error}"));
    let mut outcome = Outcome::new(sink);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                sink.record_problem(format!("the archive is damaged: {error}"));
                outcome.failure.get_or_insert_with(|| damaged(error));
                break;
            }
        };
        let name = lossy_name(&entry.path_bytes());
        if !entry.header().entry_type().is_file() || is_byproduct(&name) {
            continue;
        }
        outcome.read_member(&name, sink, |sink| sink.read_uncompressed(entry.by_ref()), member);
        if outcome.stopped {
            break;
        }
    }
    outcome.finish(sink)
}

/// Reads a gzip file, which may hold a tar archive. Its only member is named like the file, without `.gz`.
fn read_gzip(input: Input<'_>, sink: &mut Sink, member: &mut ReadMember<'_>) -> ReadResult {
    let lower = input.name.to_lowercase();
    let stem = |end: &str| input.name.get(..input.name.len() - end.len()).unwrap_or(input.name).to_string();
    let name = match lower.as_str() {
        it if it.ends_with(".tgz") => stem(".tgz") + ".tar",
        it if it.ends_with(".gz") => stem(".gz"),
        _ => input.name.to_string(),
    };
    let bytes = inflate_gzip(input.bytes, sink)?;
    if is_tar(&bytes) {
        return read_tar(Input { bytes: &bytes, name: &name }, sink, member);
    }
    let mut outcome = Outcome::new(sink);
    outcome.read_member(&name, sink, |_| Ok(bytes), member);
    outcome.finish(sink)
}

fn inflate_gzip(bytes: &[u8], sink: &mut Sink) -> ReadResult<Vec<u8>> {
    let compressed = bytes.len() as u64;
    match sink.inflate_stream(MultiGzDecoder::new(bytes), compressed) {
        // Reads only the first gzip stream, because files often have garbage after it.
        Err(failed) if failed.reason == Reason::Damaged => {
            sink.inflate_stream(GzDecoder::new(bytes), compressed).map_err(|_| failed)
        }
        result => result,
    }
}

/// Returns whether a member holds only data of the operating system that created the archive, e.g. `.DS_Store`.
fn is_byproduct(name: &str) -> bool {
    name.starts_with("__MACOSX/") || name.ends_with(".DS_Store") || name.is_empty()
}

fn lossy_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests;
