//! Latches biased towards one thread [Kawachiya et al., OOPSLA'02].
//!
//! Taking a latch costs a locked instruction: the processor finishes all earlier work before it, and begins
//! no later load. So a worker that takes a latch per row waits for each row separately. A store can therefore
//! favour one thread: as long as no other thread comes, the favoured thread enters without a latch, and only
//! sets a flag that says that it is inside. A thread that has taken a latch checks whether another thread is
//! favoured, and revokes the favour: it waits until the favoured thread is outside. From then on, that thread
//! takes latches as well. After [`LATCHED`] accesses with latches, it is favoured again.
//!
//! | state | the favoured thread | another thread, with its latch |
//! | --- | --- | --- |
//! | `OFF` | takes latches | goes on |
//! | `STARTING` | looks whether all latches are free | makes it `OFF` |
//! | `ON` | enters without a latch | makes it `ENDING`, waits for the favoured thread, makes it `OFF` |
//! | `ENDING` | takes latches | waits until it is `OFF` |
//!
//! Memory order. Each side writes one variable and then reads the other's, and at least one side must see the
//! other's write.
//! - `STARTING` against latches: all four accesses are `SeqCst`. Either the other thread sees `STARTING`, or
//!   the favoured thread sees that the latch is held. (A thread that comes later sees `ON` for the same
//!   reason.)
//! - `inside` against `ENDING`: the favoured thread has no fence, only one for the compiler. The other thread
//!   makes the system execute a fence on all cores that run threads of the process ([`heavy_fence`]). Either
//!   the favoured thread sees `ENDING` when it looks, or the other thread sees `inside`.

use crate::latch::LatchGuard;
use crate::sync::{
    AtomicBool, AtomicU8, LATCHED, Ordering, fence_after_exchange, has_heavy_fence, heavy_fence, light_fence,
    relax,
};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

const OFF: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;
const ENDING: u8 = 3;

const OUTSIDE: u8 = LatchGuard::FREE;
const INSIDE: u8 = LatchGuard::HELD;

/// Numbers the stores, so that a store can tell its favoured thread from that of another store.
static STORES: AtomicU64 = AtomicU64::new(0);

#[repr(align(64))]
struct Line<T>(T);

/// Which thread a store favours.
pub(crate) struct Bias {
    store: u64,
    given: AtomicBool,
    /// Read at each access, seldom written.
    state: Line<AtomicU8>,
    /// Written at each access of the favoured thread.
    inside: Line<AtomicU8>,
}

/// The right to enter a store without latches while no other thread enters it: see
/// [`Store::favour`](crate::Store::favour). It belongs to one thread at a time.
#[derive(Debug)]
pub struct Favour {
    store: u64,
    /// How many accesses with latches remain before the next attempt; 0 while there is no need for latches.
    latched: Cell<u32>,
}

impl Bias {
    pub(crate) fn new() -> Self {
        // Relaxed: nothing but the number matters.
        let store = STORES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let [state, inside] = [OFF, OUTSIDE].map(|value| Line(AtomicU8::new(value)));
        Self { store, given: AtomicBool::new(false), state, inside }
    }

    /// Gives the right, once. Returns `None` after that, and if the system has no fence for it.
    pub(crate) fn give(&self) -> Option<Favour> {
        // Relaxed: no read depends on the answer.
        let free = has_heavy_fence() && !self.given.swap(true, Ordering::Relaxed);
        free.then(|| Favour { store: self.store, latched: Cell::new(LATCHED) })
    }

    /// Enters without a latch, if the holder of `favour` is favoured.
    ///
    /// # Panics
    /// If it is inside already.
    #[inline(always)]
    pub(crate) fn enter(&self, favour: &Favour) -> Option<LatchGuard<'_>> {
        if favour.latched.get() != 0 || favour.store != self.store {
            return None;
        }
        // Acquire: if the favour came from another thread while a row was lent, that thread wrote it last.
        assert!(self.inside.0.load(Ordering::Acquire) == OUTSIDE, "a thread must not hold two rows at once");
        // Relaxed: see the memory order above.
        self.inside.0.store(INSIDE, Ordering::Relaxed);
        light_fence();
        // Acquire: accesses stay behind it. This thread saw the writes of threads with latches when it became
        // favoured.
        if self.state.0.load(Ordering::Acquire) == ON {
            return Some(LatchGuard::of(&self.inside.0));
        }
        self.leave(favour);
        None
    }

    #[cold]
    fn leave(&self, favour: &Favour) {
        // Release: pairs with the Acquire in `revoke`.
        self.inside.0.store(OUTSIDE, Ordering::Release);
        favour.latched.set(LATCHED);
    }

    /// Counts an access with a latch by the holder of `favour`. After enough such accesses, and if `are_free`
    /// says that all latches are free, the holder is favoured from now on. Returns whether it is. The holder
    /// has no latch during the call.
    pub(crate) fn count(&self, favour: &Favour, are_free: impl FnOnce() -> bool) -> bool {
        if favour.store != self.store {
            return false;
        }
        favour.latched.set(favour.latched.get().saturating_sub(1));
        if favour.latched.get() > 0 {
            return false;
        }
        let state = &self.state.0;
        // SeqCst: see the memory order above.
        if state.compare_exchange(OFF, STARTING, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            fence_after_exchange();
            let to = if are_free() { ON } else { OFF };
            // Only this thread changes `STARTING` to `ON`. The exchange fails if another thread has come
            // meanwhile. AcqRel: as for a latch.
            let on = state.compare_exchange(STARTING, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if on && to == ON {
                return true;
            }
        }
        favour.latched.set(LATCHED);
        false
    }

    /// Waits until no thread is favoured. A thread calls this when it has just taken a latch.
    #[inline(always)]
    pub(crate) fn end(&self) {
        fence_after_exchange();
        // SeqCst: see the memory order above. It also acquires what the favoured thread wrote.
        if self.state.0.load(Ordering::SeqCst) != OFF {
            self.revoke();
        }
    }

    #[cold]
    fn revoke(&self) {
        let state = &self.state.0;
        // SeqCst: see the memory order above. It also acquires what the favoured thread wrote.
        let change = |from, to| state.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the Release below.
            match state.load(Ordering::Acquire) {
                OFF => return,
                STARTING if change(STARTING, OFF) => return,
                ON if change(ON, ENDING) => {
                    heavy_fence();
                    // Acquire: pairs with the Release of the guard, and of `leave`.
                    while self.inside.0.load(Ordering::Acquire) != OUTSIDE {
                        relax(attempt);
                        attempt = attempt.saturating_add(1);
                    }
                    // Release: passes the writes of the favoured thread on to other threads.
                    state.store(OFF, Ordering::Release);
                    return;
                }
                ENDING => {
                    relax(attempt);
                    attempt = attempt.saturating_add(1);
                }
                // The state has just changed.
                _ => {}
            }
        }
    }
}
