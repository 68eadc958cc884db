//! A memory arena for ONNX Runtime that all networks of the process share and that returns memory to the system.
//!
//! The arena of a single session doubles as it grows and never shrinks: OCR of a page took 600 MiB instead of 430. Without
//! an arena, each tensor is allocated from the system, and a page takes three times as long. This arena allocates one
//! large chunk at a time; only its used pages take memory. It can release the chunk at the end of a run if no
//! long-lived data lies in it: see [`shrink_after_run`].

use std::sync::{Mutex, PoisonError};

use ort::AsPointer;
use ort::environment::Environment;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{NoSelectedOutputs, RunOptions};

/// Size of a chunk, in bytes: more than one run of a network needs, so that a single chunk suffices and no memory is
/// wasted between chunks.
const CHUNK_BYTES: usize = 256 << 20;
/// A free block is split if it is larger than the request by at least this many bytes.
const SPLIT_THRESHOLD_BYTES: usize = 16 << 20;

/// Whether this process has created the arena.
static CREATED: Mutex<bool> = Mutex::new(false);

/// Creates the arena of the ONNX Runtime environment, unless it exists. Sessions that use the allocators of the
/// environment allocate from it.
///
/// # Errors
/// When the ONNX Runtime library does not support these calls or settings.
pub fn ensure_created(environment: &Environment) -> ort::Result<()> {
    let mut is_made = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_made {
        register_arena(environment)?;
        *is_made = true;
    }
    Ok(())
}

fn register_arena(environment: &Environment) -> ort::Result<()> {
    let place = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Arena, MemoryType::Default)?;
    // Sets no size for the first chunk, so that this chunk, which is never released, has the library's minimum size.
    let settings = [
        (c"initial_growth_chunk_size_bytes", CHUNK_BYTES),
        (c"max_power_of_two_extend_bytes", CHUNK_BYTES),
        (c"max_dead_bytes_per_chunk", SPLIT_THRESHOLD_BYTES),
    ];
    let (keys, values) = (settings.map(|it| it.0.as_ptr()), settings.map(|it| it.1));
    let (api, mut made) = (ort::api(), std::ptr::null_mut());
    #[expect(unsafe_code, reason = "the bindings have no safe form of these three calls")]
    // SAFETY: there are as many keys as values. The library copies both and its own configuration before it returns;
    // the configuration is released once, by the library itself.
    unsafe {
        ort::Error::result_from_status((api.CreateArenaCfgV2)(keys.as_ptr(), values.as_ptr(), keys.len(), &mut made))?;
        let registered = (api.CreateAndRegisterAllocator)(environment.ptr().cast_mut(), place.ptr(), made);
        (api.ReleaseArenaCfg)(made);
        ort::Error::result_from_status(registered)
    }
}

/// Returns run options that make the arena release unused memory at the end of the run. The outputs of the run must be
/// allocated elsewhere, or their chunk could not be released.
///
/// # Errors
/// When the ONNX Runtime library does not know the option.
pub fn shrink_after_run() -> ort::Result<RunOptions<NoSelectedOutputs>> {
    let mut options = RunOptions::new()?;
    options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
    Ok(options)
}
