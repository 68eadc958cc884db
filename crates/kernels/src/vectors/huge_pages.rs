//! Huge memory pages for large arrays.
//!
//! A scan of a million rows, and above all random access to them, touches a new page for each row. With 4 KiB pages, the
//! processor spends as much time on address translation as on the data.

/// Size of a huge page on most processors, in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// Asks the operating system to use huge pages for the memory of these items, if it spans any huge page. Ignores
/// failures, because they only make access slower.
#[cfg(target_os = "linux")]
pub(crate) fn advise_huge_pages<T>(items: &Vec<T>) {
    let from = items.as_ptr().addr();
    let first = from.next_multiple_of(HUGE_PAGE);
    let end = (from + items.capacity() * size_of::<T>()) / HUGE_PAGE * HUGE_PAGE;
    if end > first {
        let start = items.as_ptr().cast_mut().wrapping_byte_add(first - from).cast();
        // SAFETY: the range lies within the allocation, and the advice changes neither its content nor its permissions.
        unsafe { libc::madvise(start, end - first, libc::MADV_HUGEPAGE) };
    }
}

/// Does nothing: other systems choose the page size themselves.
#[cfg(not(target_os = "linux"))]
pub(crate) fn advise_huge_pages<T>(_items: &Vec<T>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_page_advice_keeps_content() {
        for count in [0, 1, 3 * HUGE_PAGE / 8 + 5] {
            let mut items: Vec<u64> = Vec::with_capacity(count);
            items.extend(0..count as u64 / 2);
            advise_huge_pages(&items);
            items.extend(count as u64 / 2..count as u64);
            assert!(items.iter().copied().eq(0..count as u64));
        }
    }
}
