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
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (start, size) = (items.as_ptr().cast::<i8>(), size_of_val(items));
        // The first line may be cut: then the end lies on one more.
        for line in 0..size.div_ceil(CACHE_LINE) {
            // SAFETY: it only hints, within the slice, and reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * CACHE_LINE)) };
        }
        if let Some(last) = size.checked_sub(1) {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(last)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}
