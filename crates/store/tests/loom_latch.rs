//! The latch under loom: every interleaving of a few threads. The latch's source is compiled a second time, against loom's
//! primitives, so that neither a feature nor a flag of the build can leave the real one instrumented.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};

    pub(crate) fn relax(_attempt: u32) {
        loom::thread::yield_now();
    }
}

#[expect(unreachable_pub, reason = "the module is public in its crate, but not here")]
#[path = "../src/latch.rs"]
mod latch;

use latch::Latch;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Shared {
    latch: Latch,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is only accessed with the latch held; loom reports it if that is not so.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

fn add(shared: &Shared, times: u32) {
    for _ in 0..times {
        let _guard = shared.latch.lock();
        // SAFETY: the latch is held.
        shared.value.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn holders_exclude_each_other_and_see_each_others_writes() {
    // A thread that spins while the holder is preempted makes unbounded schedules; three preemptions find all that two
    // compare-and-swaps and a store can do wrong.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(Shared { latch: Latch::new(), value: UnsafeCell::new(0) });
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || add(&other, 2));
        add(&shared, 2);
        thread.join().expect("the thread ends");
        let _guard = shared.latch.lock();
        // SAFETY: the latch is held.
        shared.value.with(|value| assert_eq!(unsafe { *value }, 4));
    });
}

#[test]
fn try_lock_takes_only_a_free_latch() {
    loom::model(|| {
        let shared = Arc::new(Shared { latch: Latch::new(), value: UnsafeCell::new(0) });
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let Some(_guard) = other.latch.try_lock() else { return 0 };
            // SAFETY: the latch is held.
            other.value.with_mut(|value| unsafe { *value += 1 });
            1
        });
        let here = shared.latch.try_lock().map_or(0, |_guard| {
            // SAFETY: the latch is held.
            shared.value.with_mut(|value| unsafe { *value += 1 });
            1
        });
        let there: u32 = thread.join().expect("the thread ends");
        let _guard = shared.latch.lock();
        // SAFETY: the latch is held.
        shared.value.with(|value| assert_eq!(unsafe { *value }, here + there));
        assert!(here + there >= 1, "the first attempt finds the latch free");
    });
}
