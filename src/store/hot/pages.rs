//! Large pages for large tables.
//!
//! A scan of a million rows, and above all a look at some of them here and there, finds each row on a page of its own: with
//! pages of 4 KiB the processor then spends as long on where the page lies as on what stands there.

/// A large page of most processors.
const LARGE_PAGE: usize = 2 << 20;

/// Asks the system to lay the room of these items on large pages, as far as it spans any. Only the speed depends on it, and
/// a system that has none, or gives none, says so to nobody.
#[cfg(target_os = "linux")]
pub(super) fn prefer_large<T>(items: &Vec<T>) {
    let from = items.as_ptr().addr();
    let first = from.next_multiple_of(LARGE_PAGE);
    let end = (from + items.capacity() * size_of::<T>()) / LARGE_PAGE * LARGE_PAGE;
    if end > first {
        let start = items.as_ptr().cast_mut().wrapping_byte_add(first - from).cast();
        #[expect(unsafe_code, reason = "no library in use has this call")]
        // SAFETY: the range lies within the allocation, and the advice changes neither what stands there nor who may read it.
        unsafe {
            libc::madvise(start, end - first, libc::MADV_HUGEPAGE)
        };
    }
}

/// Other systems decide by themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn prefer_large<T>(_items: &Vec<T>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_there_stays_and_so_does_what_is_too_small_for_a_large_page() {
        for count in [0, 1, 3 * LARGE_PAGE / 8 + 5] {
            let mut items: Vec<u64> = Vec::with_capacity(count);
            items.extend(0..count as u64 / 2);
            prefer_large(&items);
            items.extend(count as u64 / 2..count as u64);
            assert!(items.iter().copied().eq(0..count as u64));
        }
    }
}
