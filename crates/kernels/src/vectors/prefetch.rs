//! Memory prefetch.
//!
//! After an idle time the tables are in memory but not in the CPU caches, and a scan waits for memory more than it
//! computes. The hardware prefetcher stops at page boundaries and cannot predict scattered rows. Explicit prefetching
//! halves the cost of both.

/// Bytes per memory transfer.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Prefetches these items without waiting. No effect on other processors.
#[inline(always)]
pub(crate) fn prefetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (start, size) = (items.as_ptr().cast::<i8>(), size_of_val(items));
        // The slice may begin within a line: then its end is on one more.
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
