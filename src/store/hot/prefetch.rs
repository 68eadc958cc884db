//! Memory asked for before its turn.
//!
//! After a rest the tables lie in memory and not in the caches, and a scan waits for them more than it counts: a processor
//! guesses no further than to the end of a small page, and nothing of rows that lie far apart. Asked for in time, both cost
//! half of that.

/// Bytes that come from memory at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Asks memory for these items, without waiting. Other processors do as well as they can.
#[inline(always)]
pub(super) fn prefetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
    // From the start, and once more at the end: the first line may be cut.
    for offset in (0..size_of_val(items)).step_by(CACHE_LINE).chain(size_of_val(items).checked_sub(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it only hints, and the address lies within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().cast::<i8>().wrapping_add(offset)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}
