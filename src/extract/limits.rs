//! Limits on the memory that an extraction worker may use for a file, and on the compressed data that it may inflate.

/// Memory limit for a file of up to [`SMALL_FILE_BYTES`]: the text of a document, its parsed tree and its inflated parts.
/// Valid files of that size, with 50 MiB of XML or a million cells, need less. Including libraries and code, the process
/// grows by at most 256 MiB.
pub(super) const MIN_MEMORY_BYTES: u64 = 240 << 20;
/// Size up to which a file counts as small: larger files get more memory than [`MIN_MEMORY_BYTES`].
pub(super) const SMALL_FILE_BYTES: u64 = 10 << 20;
/// Additional memory in bytes for each byte of a file above [`SMALL_FILE_BYTES`]: a reader may hold this many copies of it.
pub(super) const MEMORY_PER_BYTE: u64 = 4;

/// Maximum inflated size of a compressed stream in a small file; the output is one buffer in memory.
pub(super) const MAX_STREAM_BYTES: u64 = 192 << 20;
/// Maximum number of bytes by which the buffer for inflated data grows at once.
pub(super) const MAX_BUFFER_STEP: usize = 16 << 20;
/// Additional inflated bytes for each byte of a file above [`SMALL_FILE_BYTES`]. The file itself takes the remaining one.
pub(super) const STREAM_PER_BYTE: u64 = MEMORY_PER_BYTE - 1;
// Checks that a small file and its inflated stream fit together into the memory that a worker may use for a small file.
const _: () = assert!(SMALL_FILE_BYTES + MAX_STREAM_BYTES + MAX_BUFFER_STEP as u64 <= MIN_MEMORY_BYTES);
