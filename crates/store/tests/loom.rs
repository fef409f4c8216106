//! The latch and the shards under loom: every interleaving of a few threads. The sources are compiled a
//! second time, against loom's primitives, so that neither a feature nor a flag of the build can leave the
//! real ones instrumented.

mod sync {
    pub(crate) use loom::cell::UnsafeCell as TrackedUnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

    pub(crate) const FIRST_BLOCKS: usize = 1;
    pub(crate) const LATCHED: u32 = 1;

    /// Loom supports sequential consistency only for fences.
    pub(crate) fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(crate) use fence as fence_after_exchange;
    pub(crate) use fence as light_fence;
    pub(crate) use fence as heavy_fence;

    pub(crate) fn has_heavy_fence() -> bool {
        true
    }

    pub(crate) fn relax(_attempt: u32) {
        loom::thread::yield_now();
    }
}

#[expect(unreachable_pub, reason = "the modules are public in their crate, but not here")]
#[path = "../src/bias.rs"]
mod bias;
#[expect(unreachable_pub, reason = "the modules are public in their crate, but not here")]
#[path = "../src/latch.rs"]
mod latch;
#[path = "../src/memory.rs"]
mod memory;
#[path = "../src/noted.rs"]
mod noted;
#[path = "../src/prefetch.rs"]
mod prefetch;
#[allow(dead_code, unreachable_pub, reason = "the test uses a part of what the crate offers")]
#[path = "../src/row.rs"]
mod row;
#[path = "../src/slab.rs"]
mod slab;
#[allow(dead_code, unreachable_pub, reason = "the test uses a part of what the crate offers")]
#[path = "../src/store.rs"]
mod store;

use intendant_core::{Key, Layout};
use latch::Latch;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ops::ControlFlow;
use store::Store;

struct Shared {
    latch: Latch,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is only accessed with the latch held; loom reports an access without it.
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
    bounded(|| {
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

/// A thread that spins while the holder is preempted makes schedules unbounded. Three preemptions suffice to
/// find every error of two compare-and-swaps and a store.
fn bounded(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

/// One shard with two keys, whose values have two elements.
fn one_shard(sparse: bool) -> Arc<Store<u32, f32>> {
    let layout =
        std::sync::Arc::new(Layout::builder().range("k", 2, 2).shards(1).build().expect("a valid layout"));
    Arc::new(if sparse { Store::sparse(layout) } else { Store::dense(layout) })
}

/// Adds one to state and value; makes the value if it is not there.
fn count(store: &Store<u32, f32>, key: Key) {
    store.prefetch_slot(key);
    store.prefetch_value(key);
    store.prefetch_slab(key);
    store.prefetch_place(key);
    let mut entry = store.latch(key);
    let state = entry.state() + 1;
    match entry.value_mut() {
        Some(value) => value.iter_mut().for_each(|v| *v += 1.0),
        None => entry.allocate().fill(state as f32),
    }
    *entry.state_mut() = state;
}

#[test]
fn accesses_to_a_key_are_atomic_while_its_value_comes_and_goes() {
    for sparse in [false, true] {
        bounded(move || {
            let store = one_shard(sparse);
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                count(&other, Key(0));
                other.latch(Key(0)).release();
                count(&other, Key(1));
            });
            count(&store, Key(0));
            let value = store.latch(Key(0)).value().map(<[f32]>::to_vec);
            if let Some(value) = value {
                assert_eq!(value[0], value[1], "a torn value");
            }
            thread.join().expect("the thread ends");
            let entry = store.latch(Key(0));
            assert_eq!(entry.state(), 2, "an access was lost");
            // The value is gone if the release came last. Otherwise it was made with the last state, or
            // counted up to it.
            assert!(entry.value().is_none_or(|v| v == [2.0, 2.0]), "{:?}", entry.value());
            drop(entry);
            assert_eq!(store.latch(Key(1)).value(), Some(&[1.0, 1.0][..]));
        });
    }
}

/// Two threads need the same block at the same time, before it exists, for values in different shards. (Loom
/// does not see the contents of the block: this test is about its address.)
#[test]
fn shards_that_need_the_same_block_find_their_values_in_it() {
    for sparse in [false, true] {
        bounded(move || {
            let layout = Layout::builder().range("k", 40, 2).shards(2).build().expect("a valid layout");
            let layout = std::sync::Arc::new(layout);
            let store: Store<u32, f32> = if sparse { Store::sparse(layout) } else { Store::dense(layout) };
            let store = Arc::new(store);
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || other.latch(Key(0)).allocate().fill(1.0));
            store.latch(Key(1)).allocate().fill(2.0);
            assert_eq!(store.latch(Key(1)).value(), Some(&[2.0, 2.0][..]));
            thread.join().expect("the thread ends");
            assert_eq!(store.latch(Key(0)).value(), Some(&[1.0, 1.0][..]));
            assert_eq!(store.latch(Key(1)).value(), Some(&[2.0, 2.0][..]));
        });
    }
}

/// Each value fills a block, and the values are in different shards: two threads need the same table at the
/// same time, before it exists.
#[test]
fn shards_that_need_the_same_table_find_their_values_in_it() {
    const LEN: usize = 16_384;
    bounded(|| {
        let layout = Layout::builder().range("k", 4, LEN).shards(2).build().expect("a valid layout");
        let store = Arc::new(Store::<u32, f32>::sparse(std::sync::Arc::new(layout)));
        for key in [0, 1] {
            store.latch(Key(key)).allocate()[LEN - 1] = key as f32;
        }
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || other.latch(Key(2)).overwrite().fill(2.0));
        store.latch(Key(3)).overwrite().fill(3.0);
        assert_eq!(store.latch(Key(3)).value().expect("just made")[7], 3.0);
        thread.join().expect("the thread ends");
        for key in 0..4 {
            assert_eq!(store.latch(Key(key)).value().expect("it was made")[LEN - 1], key as f32);
        }
    });
}

#[test]
fn a_scan_sees_whole_values() {
    for sparse in [false, true] {
        bounded(move || {
            let store = one_shard(sparse);
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || (0..2).for_each(|key| count(&other, Key(key))));
            let resume = store.scan(0, 0..2, |_, state, value| {
                assert_eq!(value, [*state as f32; 2]);
                ControlFlow::Continue(())
            });
            assert_eq!(resume, None);
            thread.join().expect("the thread ends");
            assert_eq!(store.held(), 2);
        });
    }
}

/// The test has only two threads: a third thread that spins for the latch makes endless schedules, in which
/// the other two yield to each other. `tests/it/model.rs` has more, on real threads.
#[test]
fn noted_keys_are_taken_once_while_others_are_noted() {
    bounded(|| {
        let store = one_shard(false);
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            other.latch(Key(0)).note();
            other.latch(Key(1)).note();
        });
        let mut taken = Vec::new();
        store.latch(Key(1)).note();
        if store.has_noted(0) {
            store.take_noted(0, &mut taken);
            assert!(
                taken.contains(&Key(1)),
                "the own hint is seen, and stands for a key that is on the list"
            );
        }
        assert!(!taken.is_empty());
        store.take_noted(0, &mut taken);
        thread.join().expect("the thread ends");
        let (hint, before) = (store.has_noted(0), taken.len());
        store.take_noted(0, &mut taken);
        assert_eq!(hint, taken.len() > before, "after all stores, the hint is exact");
        assert!(!store.has_noted(0));
        let first = taken.iter().position(|key| *key == Key(0));
        let last = taken.iter().rposition(|key| *key == Key(1));
        assert!(first < last, "the thread noted 0 before 1: {taken:?}");
        taken.sort_unstable();
        assert_eq!(taken, [Key(0), Key(1), Key(1)]);
    });
}

#[test]
fn a_key_that_changes_after_it_was_taken_is_noted_again() {
    bounded(|| {
        let store = one_shard(false);
        let other = Arc::clone(&store);
        // The state says whether the key is noted, and the value says how often it has changed.
        store.latch(Key(0)).allocate().fill(0.0);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                let mut entry = other.latch(Key(0));
                if let Some(value) = entry.value_mut() {
                    value[0] += 1.0;
                }
                if entry.state() == 0 {
                    *entry.state_mut() = 1;
                    entry.note();
                }
            }
        });
        let mut seen = 0.0;
        let mut look = |store: &Store<u32, f32>| {
            let mut taken = Vec::new();
            store.take_noted(0, &mut taken);
            assert!(taken.len() <= 1, "the state says when the key is on the list");
            for key in taken {
                let mut entry = store.latch(key);
                *entry.state_mut() = 0;
                let value = entry.value().expect("no thread releases it")[0];
                assert!(value > seen, "noted without a change");
                seen = value;
            }
        };
        look(&store);
        thread.join().expect("the thread ends");
        look(&store);
        assert!((seen - 2.0).abs() < f32::EPSILON, "a change was not noted: {seen}");
    });
}

/// Adds one to the state of a key and notes it, as the favoured thread of the store.
fn count_favoured(store: &Store<u32, f32>, favour: &bias::Favour, key: Key) {
    let mut entry = store.latch_favoured(favour, key);
    let state = entry.state() + 1;
    entry.note();
    *entry.state_mut() = state;
}

/// The favoured thread enters with a latch, becomes favoured, and enters without one, while another thread
/// takes latches. Loom reports an error if both threads use the list of noted keys at once, or if one does
/// not see the writes of the other. (With a third thread that waits, schedules are endless;
/// `tests/it/favour.rs` has three threads.)
#[test]
fn a_favoured_thread_and_holders_of_latches_exclude_each_other() {
    bounded(|| {
        let store = one_shard(false);
        let other = Arc::clone(&store);
        let favour = store.favour().expect("it is the first");
        assert!(store.favour().is_none(), "there is one");
        let thread = thread::spawn(move || {
            for key in [0, 1] {
                let mut entry = other.latch(Key(key));
                entry.note();
                *entry.state_mut() += 1;
            }
        });
        (0..3).for_each(|_| count_favoured(&store, &favour, Key(0)));
        thread.join().expect("the thread ends");
        let mut taken = Vec::new();
        store.take_noted(0, &mut taken);
        assert_eq!(taken.len(), 5, "a key was noted beside another");
        assert_eq!([0, 1].map(|key| store.latch(Key(key)).state()), [4, 1], "an access was lost");
    });
}
