//! The sources of `intendant-store`, compiled a second time: latches and slots are made of shuttle's
//! primitives, so that every use of them is a point where shuttle may let another thread run.
//!
//! This is a package of its own, with a name of its own, so that neither a feature nor a flag of a build can
//! put these primitives into shipped programs. It omits `Flat`, which the engine does not use.

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

    /// So small that slabs add tables.
    pub(crate) const FIRST_BLOCKS: usize = 1;

    /// A plain cell: shuttle checks orders of steps, and loom checks which memory each step may access.
    #[derive(Default)]
    pub(crate) struct TrackedUnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> TrackedUnsafeCell<T> {
        pub(crate) fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
            act(self.0.get())
        }
    }

    /// So small that a thread is favoured soon.
    pub(crate) const LATCHED: u32 = 2;

    /// Shuttle executes one step after the other: fences change nothing.
    pub(crate) fn fence_after_exchange() {}
    pub(crate) fn light_fence() {}
    pub(crate) fn heavy_fence() {}

    pub(crate) fn has_heavy_fence() -> bool {
        true
    }

    /// Shuttle decides how long the wait is.
    pub(crate) fn relax(_attempt: u32) {
        shuttle::thread::yield_now();
    }
}

#[path = "shipped/bias.rs"]
mod bias;
#[path = "shipped/latch.rs"]
mod latch;
#[path = "shipped/memory.rs"]
mod memory;
#[path = "shipped/noted.rs"]
mod noted;
#[path = "shipped/prefetch.rs"]
mod prefetch;
#[path = "shipped/row.rs"]
mod row;
#[path = "shipped/slab.rs"]
mod slab;
#[path = "shipped/store.rs"]
mod store;

/// As in the shipped store.
pub fn prefetch<T>(at: *const T) {
    prefetch::prefetch(at);
}

pub use bias::Favour;
pub use latch::{Latch, LatchGuard};
pub use row::{Mirror, Row};
pub use store::{Entry, Lends, Slot, Store};
