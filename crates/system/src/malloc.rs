//! Settings of the C library's allocator, which workers and C libraries use.

/// Makes the allocator return freed memory at once. By default it keeps such memory for reuse, which adds up over the
/// threads of an idle daemon. Call it before a second thread starts.
pub fn return_memory_early() {
    /// Allocations from this size on are mapped, and unmapped when freed.
    #[cfg(target_env = "gnu")]
    const MAPPED_FROM: libc::c_int = 256 << 10;
    /// Arenas shared by all threads; each keeps its own free lists.
    #[cfg(target_env = "gnu")]
    const HEAPS: libc::c_int = 2;
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` only sets numbers, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Returns the free memory of the allocator to the system.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only returns unused pages to the system, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
