//! Where memory comes from: for the daemon from jemalloc, for its workers from the system.
//!
//! A question allocates thousands of times on several threads: at 100,000 chunks it took 7.3 ms with the system's allocator
//! and takes 6.4 with this one, at the same size of the process. A worker holds one large buffer after the other under a
//! limit of memory: the system's allocator makes such a buffer longer where it lies, the other one copies it, and an archive
//! that inflates to 150 MiB did not fit any more.
#![expect(unsafe_code, reason = "an allocator is unsafe, and what runs before `main` cannot be named otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use tikv_jemallocator::Jemalloc;

/// The allocator of this program.
pub(crate) struct Allocator;

/// Set before anything is allocated, and never again: what one allocator gave, the other cannot take back.
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// The C library calls what stands here before the first line of Rust runs.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_ARGUMENTS: extern "C" fn(c_int, *const *const c_char) = look_at_arguments;

extern "C" fn look_at_arguments(count: c_int, arguments: *const *const c_char) {
    if count > 1 {
        // SAFETY: there are so many pointers, each to a text with a zero at its end.
        let first = unsafe { CStr::from_ptr(*arguments.add(1)) };
        IS_WORKER.store(first == c"worker", Ordering::Relaxed);
    }
}

/// Four heaps at most, however many cores there are: each keeps free memory of its own. What was free for a tenth of a second
/// goes back to the system: a question reads some MiB on whichever thread is at hand, and with a whole second a start with a
/// million files took 117 MiB more at its peak.
// SAFETY: the name is jemalloc's own, and what it expects there is a pointer to a text with a zero at its end.
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: Option<&'static c_char> = {
    let settings: &'static CStr = c"narenas:4,dirty_decay_ms:100,muzzy_decay_ms:0";
    // SAFETY: the pointer is that of a text which is never gone.
    Some(unsafe { &*settings.as_ptr() })
};

// SAFETY: each call goes on to an allocator as it came, and always to the same one.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match IS_WORKER.load(Ordering::Relaxed) {
            false => unsafe { Jemalloc.alloc(layout) },
            true => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match IS_WORKER.load(Ordering::Relaxed) {
            false => unsafe { Jemalloc.alloc_zeroed(layout) },
            true => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match IS_WORKER.load(Ordering::Relaxed) {
            false => unsafe { Jemalloc.dealloc(block, layout) },
            true => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match IS_WORKER.load(Ordering::Relaxed) {
            false => unsafe { Jemalloc.realloc(block, layout, size) },
            true => unsafe { System.realloc(block, layout, size) },
        }
    }
}
