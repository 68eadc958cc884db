//! Settings of the allocator of the C library, which worker processes and C libraries use.

/// Makes the allocator return freed memory to the system at once. By default it keeps such memory for reuse, which adds up
/// over the threads of an idle daemon. Call it before a second thread starts.
pub fn return_memory_early() {
    /// Allocations of this size in bytes or more get their own memory mapping, which is unmapped when they are freed.
    #[cfg(target_env = "gnu")]
    const MAPPED_FROM: libc::c_int = 256 << 10;
    /// Number of arenas that all threads share; each arena keeps its own free memory.
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

/// Returns the free memory of the allocator to the operating system.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` only returns unused pages to the system, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
