//! Hints to the memory system.

/// Prefetches the cache line at `at`. Any address is allowed, mapped or not.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it does not access memory in the sense of the language and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches the first lines of a value: the hardware fetches the lines behind them when it detects the run.
/// It does so too late if both halves are read at once, as AdaGrad does, so the limit is larger than most
/// values.
#[inline(always)]
pub(crate) fn prefetch_run(at: *const u8, bytes: usize) {
    const LINE: usize = 64;
    const BYTES_MAX: usize = 4096;
    let end = at.wrapping_add(bytes.min(BYTES_MAX));
    let mut at = at;
    while at < end {
        prefetch(at);
        at = at.wrapping_add(LINE);
    }
}
