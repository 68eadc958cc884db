//! Memory limits: of a worker, which grow with the file, and of what the sink inflates within them.

/// Memory for a file of up to [`SMALL_FILE_BYTES`]: the text of a document, its tree and its inflated parts. Valid files of
/// that size, with 50 MiB of XML or a million cells, need less. Including libraries and code, the process grows by at most
/// 256 MiB.
pub(super) const MIN_MEMORY_BYTES: u64 = 240 << 20;
/// See [`MIN_MEMORY_BYTES`].
pub(super) const SMALL_FILE_BYTES: u64 = 10 << 20;
/// Additional memory per byte beyond a small file: a reader may hold this many copies or forms of it.
pub(super) const MEMORY_PER_BYTE: u64 = 4;

/// Maximum output of a compressed stream in a small file; it is held in memory in one piece.
pub(super) const MAX_STREAM_BYTES: u64 = 192 << 20;
/// Maximum growth of a buffer in one step.
pub(super) const MAX_BUFFER_STEP: usize = 16 << 20;
/// Additional output allowed per byte beyond a small file. The file itself is in memory too, see [`MEMORY_PER_BYTE`].
pub(super) const STREAM_PER_BYTE: u64 = MEMORY_PER_BYTE - 1;
// File and stream must fit into the memory that a worker may use for a small file.
const _: () = assert!(SMALL_FILE_BYTES + MAX_STREAM_BYTES + MAX_BUFFER_STEP as u64 <= MIN_MEMORY_BYTES);
