//! Limits on the memory that an extraction worker may use for a file, and on the compressed data that it may inflate.

/// Memory limit in bytes for a file of up to [`SMALL_FILE_BYTES`]. It covers the text of the document, its parsed tree and
/// its inflated parts. Valid files of that size, with 50 MiB of XML or a million cells, need less. With libraries and code,
/// the process grows by at most 256 MiB.
pub(super) const MIN_MEMORY_BYTES: u64 = 240 << 20;
/// Size up to which a file counts as small: larger files get more memory than [`MIN_MEMORY_BYTES`].
pub(super) const SMALL_FILE_BYTES: u64 = 10 << 20;
/// Additional memory in bytes per byte of a file above [`SMALL_FILE_BYTES`]: a reader may hold this many copies of a file.
pub(super) const MEMORY_PER_BYTE: u64 = 4;

/// Maximum size in bytes to which a compressed stream in a small file may inflate, into a single buffer in memory.
pub(super) const MAX_STREAM_BYTES: u64 = 192 << 20;
/// Maximum number of bytes by which the buffer for inflated data grows at once.
pub(super) const MAX_BUFFER_STEP: usize = 16 << 20;
/// Bytes by which [`MAX_STREAM_BYTES`] grows for each compressed byte above [`SMALL_FILE_BYTES`]: one less than
/// [`MEMORY_PER_BYTE`], because the file itself is in memory too.
pub(super) const STREAM_PER_BYTE: u64 = MEMORY_PER_BYTE - 1;
// Checks that a small file and its inflated stream fit together into the memory that a worker may use for a small file.
const _: () = assert!(SMALL_FILE_BYTES + MAX_STREAM_BYTES + MAX_BUFFER_STEP as u64 <= MIN_MEMORY_BYTES);
