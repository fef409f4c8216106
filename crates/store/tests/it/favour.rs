//! The favoured thread of a store against threads with latches, on real threads.

use intendant_core::{Key, Layout};
use intendant_store::{Favour, Lends, Store};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// More accesses than a thread makes with latches before it is favoured.
const MANY: u64 = 10_000;

fn store(keys: u64) -> Store<u32, f64> {
    let store =
        Store::dense(Arc::new(Layout::builder().range("k", keys, 2).build().expect("a valid layout")));
    (0..keys).for_each(|key| store.latch(Key(key)).allocate().fill(0.0));
    store
}

/// Adds one to both elements of a value.
fn add(store: &Store<u32, f64>, favour: Option<&Favour>, key: u64) {
    let mut entry = match favour {
        Some(favour) => store.latch_favoured(favour, Key(key)),
        None => store.latch(Key(key)),
    };
    entry.value_mut().expect("held").iter_mut().for_each(|x| *x += 1.0);
}

/// Lends every value, and counts the loans in the state.
struct Counted;

impl Lends<u32> for Counted {
    fn lends(self, state: &mut u32) -> bool {
        *state += 1;
        true
    }
}

/// Lends no value.
struct Refused;

impl Lends<u32> for Refused {
    fn lends(self, _: &mut u32) -> bool {
        false
    }
}

/// As [`add`], in few instructions if possible. Returns whether that was possible.
fn add_lent(store: &Store<u32, f64>, favour: &Favour, key: u64) -> bool {
    match store.lend_favoured(favour, Key(key), Counted) {
        Some(mut row) => {
            row.iter_mut().for_each(|x| *x += 1.0);
            true
        }
        None => {
            add(store, Some(favour), key);
            false
        }
    }
}

#[test]
fn what_is_not_lent_leaves_the_thread_outside() {
    let store = store(3);
    let Some(favour) = store.favour() else { return };
    assert!(store.lend_favoured(&favour, Key(0), Counted).is_none(), "it is not favoured yet");
    (0..MANY).for_each(|_| add(&store, Some(&favour), 0));
    store.latch_favoured(&favour, Key(2)).release();
    // Each call that enters would panic if an earlier call had left the thread inside.
    assert!(store.lend_favoured(&favour, Key(0), Refused).is_none());
    assert!(store.lend_favoured(&favour, Key(2), Counted).is_none(), "it has no value");
    assert!(store.lend_favoured(&favour, Key(3), Counted).is_none(), "there is no such key");
    drop(store.lend_favoured(&favour, Key(1), Counted).expect("it has a value"));
    assert_eq!(store.latch(Key(1)).state(), 1);
    assert!(store.lend_favoured(&favour, Key(1), Counted).is_none(), "another access took a latch");
}

/// Systems without the fence give no favour, and there is nothing to test.
#[test]
fn no_update_is_lost_and_no_value_torn() {
    const KEYS: u64 = 8;
    for others in [1, 2] {
        let store = store(KEYS);
        let Some(favour) = store.favour() else { return };
        let done = AtomicBool::new(false);
        let by_others: u64 = std::thread::scope(|scope| {
            let one = |first: u64| {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    let mut added = 0;
                    while !done.load(Ordering::Relaxed) {
                        for nth in 0..50 {
                            add(store, None, (first + nth) % KEYS);
                            added += 1;
                        }
                        let whole = |_: Key, _: &u32, value: &[f64]| {
                            assert_eq!(value[0].to_bits(), value[1].to_bits(), "a torn value");
                            ControlFlow::Continue(())
                        };
                        store.scan(first as usize, 0..1, whole);
                        // This is long enough for the other thread to be favoured again.
                        std::thread::park_timeout(Duration::from_micros(300));
                    }
                    added
                })
            };
            let threads: Vec<_> = (0..others).map(one).collect();
            let lent = (0..200 * MANY).filter(|nth| add_lent(&store, &favour, nth % KEYS)).count();
            assert!(lent > 0, "it was never favoured");
            let counted: u32 = (0..KEYS).map(|key| store.latch(Key(key)).state()).sum();
            assert_eq!(counted as usize, lent, "a change of a state was lost");
            done.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        let sum: f64 = (0..KEYS).map(|key| store.latch(Key(key)).value().expect("held")[0]).sum();
        assert_eq!(sum as u64, 200 * MANY + by_others, "an update was lost");
    }
}

/// A favoured thread has no latch, so that a thread with a latch of any shard waits for it.
#[test]
fn a_thread_is_favoured_after_many_accesses_and_until_another_one_comes() {
    let store = store(2);
    let Some(favour) = store.favour() else { return };
    assert!(store.favour().is_none(), "the right is given once");
    let waits = || {
        let came = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let entry = store.latch_favoured(&favour, Key(0));
            scope.spawn(|| {
                drop(store.latch(Key(1)));
                came.store(true, Ordering::Relaxed);
            });
            for _ in 0..200 {
                if came.load(Ordering::Relaxed) {
                    return false;
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            drop(entry);
            true
        })
    };
    assert!(!waits(), "a thread that is not favoured has the latch of one shard");
    (0..MANY).for_each(|_| add(&store, Some(&favour), 0));
    assert!(waits(), "a favoured thread has no latch");
    assert!(!waits(), "the other thread has ended the favour");
}

/// The right belongs to one store, and has no effect in another one.
#[test]
fn another_store_takes_latches() {
    let stores = [store(1), store(1)];
    let Some(favour) = stores[0].favour() else { return };
    (0..MANY).for_each(|_| add(&stores[0], Some(&favour), 0));
    let held = stores[0].latch_favoured(&favour, Key(0));
    add(&stores[1], Some(&favour), 0);
    assert_eq!(stores[1].latch(Key(0)).value(), Some(&[1.0, 1.0][..]));
    drop(held);
}
