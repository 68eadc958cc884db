//! Memory that the networks of this process share, and give back.
//!
//! The arena that a session has of its own doubles as it grows and keeps what it ever took: to read a page took 600 MiB
//! where 430 do. Without any arena each tensor is fetched from the system and returned, and a page takes three times as
//! long. This one takes one large piece at a time, of which only what is used becomes resident, and a run can have the
//! piece go back when it ends, as long as nothing that stays lies in it: see [`ends_without_memory`].

use std::sync::{Mutex, PoisonError};

use ort::AsPointer;
use ort::environment::Environment;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{NoSelectedOutputs, RunOptions};

/// Bytes of a piece: more than a run takes, so that one is enough and nothing is lost at the seams of several.
const PIECE_BYTES: usize = 256 << 20;
/// A free part that is larger than what is asked for by this is divided.
const DIVIDED_FROM_BYTES: usize = 16 << 20;

/// Whether this process has one.
static MADE: Mutex<bool> = Mutex::new(false);

/// Makes the arena of the environment, unless there is one. Sessions that are opened with its allocators take their memory
/// from it.
///
/// # Errors
/// The library has none of these calls or settings.
pub(super) fn make(environment: &Environment) -> ort::Result<()> {
    let mut is_made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_made {
        register(environment)?;
        *is_made = true;
    }
    Ok(())
}

fn register(environment: &Environment) -> ort::Result<()> {
    let place = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Arena, MemoryType::Default)?;
    // The first piece is never given back, and is as small as the library makes it.
    let settings = [
        (c"initial_growth_chunk_size_bytes", PIECE_BYTES),
        (c"max_power_of_two_extend_bytes", PIECE_BYTES),
        (c"max_dead_bytes_per_chunk", DIVIDED_FROM_BYTES),
    ];
    let (keys, values) = (settings.map(|it| it.0.as_ptr()), settings.map(|it| it.1));
    let (api, mut made) = (ort::api(), std::ptr::null_mut());
    #[expect(unsafe_code, reason = "the bindings have no safe form of these three calls")]
    // SAFETY: there are as many keys as values; the library copies them, and what it made of them, before it returns; what
    // it made is released once, by the library itself.
    unsafe {
        ort::Error::result_from_status((api.CreateArenaCfgV2)(keys.as_ptr(), values.as_ptr(), keys.len(), &mut made))?;
        let registered = (api.CreateAndRegisterAllocator)(environment.ptr().cast_mut(), place.ptr(), made);
        (api.ReleaseArenaCfg)(made);
        ort::Error::result_from_status(registered)
    }
}

/// Options of a run at whose end the arena gives back what nothing lies in any more. What the run gives has to be put
/// elsewhere for that.
///
/// # Errors
/// The library does not know the option.
pub(crate) fn ends_without_memory() -> ort::Result<RunOptions<NoSelectedOutputs>> {
    let mut options = RunOptions::new()?;
    options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
    Ok(options)
}
