//! The primitives that latch, slab and shards are built from. The model checker compiles latch, slab and
//! shards against another file of this shape.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// Blocks of a slab's first table if their number is not known.
pub(crate) const FIRST_BLOCKS: usize = 64;

/// An `UnsafeCell` whose accesses the model checker sees.
#[derive(Default)]
pub(crate) struct TrackedUnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> TrackedUnsafeCell<T> {
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
        act(self.0.get())
    }
}

/// Attempts that only tell the processor to relax. They take as long as the copy of a value of a few
/// kilobytes.
const SPINS: u32 = 100;
/// Attempts that offer the core to another thread.
const YIELDS: u32 = 10;
/// A holder that has lost its core gets it back after a time slice, milliseconds away; parking longer gains
/// nothing.
const PARK_MICROS_MAX: u64 = 1_000;

/// Waits a little before attempt `attempt + 1`.
pub(crate) fn relax(attempt: u32) {
    if attempt < SPINS {
        std::hint::spin_loop();
    } else if attempt < SPINS + YIELDS {
        std::thread::yield_now();
    } else {
        let micros = 20u64 << (attempt - SPINS - YIELDS).min(6);
        std::thread::park_timeout(std::time::Duration::from_micros(micros.min(PARK_MICROS_MAX)));
    }
}

/// Accesses with latches after which a thread is favoured. Becoming favoured costs a look at each latch, and
/// ending the favour costs a system call. Both take microseconds, less than a twentieth of the time of this
/// many accesses.
pub(crate) const LATCHED: u32 = 4096;

/// Comes after a sequentially consistent exchange, and before sequentially consistent loads, which need no
/// fence between them. The model checker supports sequential consistency only for fences.
#[inline(always)]
pub(crate) fn fence_after_exchange() {}

/// Pairs with [`heavy_fence`] of another thread as if both were sequentially consistent fences.
#[inline(always)]
pub(crate) fn light_fence() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(target_os = "linux")]
mod heavy {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

    /// Whether the system has a [`heavy_fence`]; registers the process for it.
    pub(crate) fn has_heavy_fence() -> bool {
        membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// Every running thread of the process executes a fence before this function returns. The other threads
    /// executed one when they last stopped.
    pub(crate) fn heavy_fence() {
        membarrier(MembarrierCommand::PrivateExpedited).expect("the process is registered");
    }
}

#[cfg(not(target_os = "linux"))]
mod heavy {
    pub(crate) fn has_heavy_fence() -> bool {
        false
    }

    pub(crate) fn heavy_fence() {
        unreachable!("no thread is favoured without such a fence");
    }
}

pub(crate) use heavy::{has_heavy_fence, heavy_fence};
