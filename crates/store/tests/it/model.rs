//! Both kinds of store, compared with a plain map and used by several threads.

use intendant_core::{Initialiser, Key, Layout};
use intendant_store::{Flat, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
enum Step {
    State(u64, u32),
    Allocate(u64, f64),
    Overwrite(u64, f64),
    Add(u64, f64),
    Release(u64),
    Remove(u64),
    Check(u64),
    Note(u64),
    Take(usize),
}

const KEYS: u64 = 300;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS;
    let step = prop_oneof![
        (key.clone(), any::<u32>()).prop_map(|(k, s)| Step::State(k, s)),
        (key.clone(), -1e3..1e3).prop_map(|(k, v)| Step::Allocate(k, v)),
        (key.clone(), -1e3..1e3).prop_map(|(k, v)| Step::Overwrite(k, v)),
        (key.clone(), -1e3..1e3).prop_map(|(k, v)| Step::Add(k, v)),
        key.clone().prop_map(Step::Release),
        key.clone().prop_map(Step::Remove),
        key.clone().prop_map(Step::Check),
        key.prop_map(Step::Note),
        any::<usize>().prop_map(Step::Take),
    ];
    proptest::collection::vec(step, 0..400)
}

fn layout(shards: usize) -> Arc<Layout> {
    // With these lengths, a block has several values, a few, or one.
    let builder =
        Layout::builder().range("a", 100, 3).range("b", 150, 700).range("c", 50, 8192).shards(shards);
    Arc::new(builder.build().expect("a valid layout"))
}

type Model = BTreeMap<u64, (u32, Option<Vec<f64>>)>;

fn run(store: &Store<u32, f64>, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::new();
    let shards = store.layout().shards();
    let mut noted: Vec<Vec<Key>> = vec![Vec::new(); shards];
    for step in steps {
        match step {
            Step::State(k, s) => {
                *store.latch(Key(*k)).state_mut() = *s;
                model.entry(*k).or_default().0 = *s;
            }
            Step::Allocate(k, v) => {
                let mut entry = store.latch(Key(*k));
                let value = entry.allocate();
                prop_assert!(value.iter().all(|x| *x == 0.0), "a fresh value is not zero");
                value.fill(*v);
                model.entry(*k).or_default().1 = Some(value.to_vec());
            }
            Step::Overwrite(k, v) => {
                let mut entry = store.latch(Key(*k));
                entry.overwrite().fill(*v);
                model.entry(*k).or_default().1 = entry.value().map(<[f64]>::to_vec);
                prop_assert!(entry.value().is_some_and(|value| value.iter().all(|x| x == v)));
            }
            Step::Add(k, v) => {
                let mut entry = store.latch(Key(*k));
                let expected = model.entry(*k).or_default();
                prop_assert_eq!(entry.value().is_some(), expected.1.is_some());
                if let (Some(value), Some(expected)) = (entry.value_mut(), &mut expected.1) {
                    value.iter_mut().for_each(|x| *x += v);
                    expected.iter_mut().for_each(|x| *x += v);
                }
            }
            Step::Release(k) => {
                store.latch(Key(*k)).release();
                model.entry(*k).or_default().1 = None;
            }
            Step::Remove(k) => {
                store.latch(Key(*k)).remove();
                model.remove(k);
            }
            Step::Check(k) => {
                let entry = store.latch(Key(*k));
                prop_assert_eq!(entry.key(), Key(*k));
                let expected = model.get(k).cloned().unwrap_or_default();
                prop_assert_eq!(entry.state(), expected.0);
                prop_assert_eq!(entry.value(), expected.1.as_deref());
            }
            Step::Note(k) => {
                store.latch(Key(*k)).note();
                noted[store.layout().shard(Key(*k))].push(Key(*k));
            }
            Step::Take(shard) => {
                let shard = shard % shards;
                prop_assert_eq!(store.has_noted(shard), !noted[shard].is_empty());
                let mut taken = vec![Key(u64::MAX)];
                store.take_noted(shard, &mut taken);
                prop_assert_eq!(taken.remove(0), Key(u64::MAX));
                prop_assert_eq!(taken, std::mem::take(&mut noted[shard]));
                prop_assert!(!store.has_noted(shard));
            }
        }
        store.prefetch_slot(Key(KEYS - 1));
        store.prefetch_value(Key(KEYS - 1));
        store.prefetch_slab(Key(KEYS - 1));
        store.prefetch_place(Key(KEYS - 1));
    }
    let held: BTreeMap<u64, (u32, Vec<f64>)> =
        model.into_iter().filter_map(|(k, (s, v))| v.map(|v| (k, (s, v)))).collect();
    for (shard, expected) in noted.into_iter().enumerate() {
        prop_assert_eq!(store.has_noted(shard), !expected.is_empty());
        let mut taken = Vec::new();
        store.take_noted(shard, &mut taken);
        prop_assert_eq!(taken, expected);
    }
    prop_assert_eq!(store.held(), held.len());
    // Scans in portions of one key see the same as one scan.
    for portion in [1, usize::MAX] {
        let mut seen = BTreeMap::new();
        for shard in 0..store.layout().shards() {
            let mut from = Some(0);
            while let Some(at) = from {
                let mut left = portion;
                from = store.scan(shard, at..usize::MAX, |key, state, value| {
                    assert!(seen.insert(key.0, (*state, value.to_vec())).is_none(), "{key:?} seen twice");
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
            }
        }
        prop_assert_eq!(&seen, &held);
    }
    Ok(())
}

proptest! {
    #[test]
    fn stores_behave_like_a_map(steps in steps(), bits in 0u32..5) {
        run(&Store::dense(layout(1 << bits)), &steps)?;
        run(&Store::sparse(layout(1 << bits)), &steps)?;
    }
}

/// A sparse store does not know how many blocks it will have. Here it has so many that it adds three tables.
#[test]
fn values_stay_where_they_are_while_the_store_grows() {
    const MANY: u64 = 400;
    let layout = Layout::builder().range("k", MANY, 8192).shards(4).build().expect("a valid layout");
    let store = Store::<u32, f64>::sparse(Arc::new(layout));
    let address = |key: u64| store.latch(Key(key)).value().expect("it was made").as_ptr();
    let mut addresses = Vec::new();
    for key in 0..MANY {
        store.latch(Key(key)).allocate().fill(key as f64);
        addresses.push(address(key));
    }
    for key in 0..MANY {
        assert_eq!(address(key), addresses[key as usize]);
        assert!(store.latch(Key(key)).value().is_some_and(|value| value.iter().all(|x| *x == key as f64)));
    }
}

#[test]
fn threads_lose_no_update_while_keys_come_and_go() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 20_000;
    for store in [Store::<u32, f64>::dense(layout(8)), Store::sparse(layout(8))] {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &store;
                scope.spawn(move || {
                    let mut word = thread;
                    for _ in 0..ROUNDS {
                        word = intendant_core::random::mix(word);
                        let key = Key(word % KEYS);
                        store.prefetch_slot(key);
                        store.prefetch_value(key);
                        // State and value count the same accesses; the value disappears and comes back.
                        let mut entry = store.latch(key);
                        let count = entry.state();
                        match entry.value_mut() {
                            Some(value) => value.iter_mut().for_each(|x| *x += 1.0),
                            None => entry.allocate().fill(f64::from(count) + 1.0),
                        }
                        *entry.state_mut() = count + 1;
                        let value = entry.value().expect("just written");
                        assert!(value.iter().all(|x| *x == f64::from(count) + 1.0), "torn value at {key:?}");
                        if word >> 60 == 0 {
                            entry.release();
                        }
                    }
                });
            }
        });
        let total: u64 = (0..KEYS).map(|key| u64::from(store.latch(Key(key)).state())).sum();
        assert_eq!(total, THREADS * ROUNDS);
    }
}

#[test]
fn a_key_that_was_changed_is_noted_or_was_looked_at_since() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 20_000;
    // The state: changes of the key, times two, plus whether it is noted.
    let change = |store: &Store<u32, f64>, key| {
        let mut entry = store.latch(key);
        let state = entry.state() + 2;
        *entry.state_mut() = state | 1;
        if state & 1 == 0 {
            entry.note();
        }
    };
    for store in [Store::<u32, f64>::dense(layout(4)), Store::sparse(layout(4))] {
        let running = AtomicU64::new(THREADS);
        let mut seen = vec![0; KEYS as usize];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, running) = (&store, &running);
                scope.spawn(move || {
                    let mut word = thread;
                    for _ in 0..ROUNDS {
                        word = intendant_core::random::mix(word);
                        change(store, Key(word % KEYS));
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            let mut done = false;
            while !done {
                // Acquire: pairs with the Release above; a thread that sees that the last thread has finished
                // sees all hints.
                done = running.load(Ordering::Acquire) == 0;
                for shard in 0..store.layout().shards() {
                    if !store.has_noted(shard) {
                        continue;
                    }
                    let mut taken = Vec::new();
                    store.take_noted(shard, &mut taken);
                    assert!(!taken.is_empty(), "only this thread takes");
                    for key in taken {
                        assert_eq!(store.layout().shard(key), shard);
                        let mut entry = store.latch(key);
                        let state = entry.state();
                        assert_eq!(state & 1, 1, "{key:?} was noted twice");
                        *entry.state_mut() = state & !1;
                        seen[key.0 as usize] = state >> 1;
                    }
                }
            }
        });
        assert_eq!(
            seen.iter().map(|n| u64::from(*n)).sum::<u64>(),
            THREADS * ROUNDS,
            "a change was not seen"
        );
    }
}

#[test]
fn memory_follows_what_is_held() {
    let store: Store<u32, f64> = Store::sparse(layout(1));
    for round in 0..5 {
        for key in 0..KEYS {
            store.latch(Key(key)).allocate().fill(round as f64);
        }
        assert_eq!(store.held() as u64, KEYS);
        for key in 0..KEYS {
            store.latch(Key(key)).remove();
        }
        assert_eq!(store.held(), 0);
    }
}

#[test]
#[should_panic(expected = "k300 is outside of the layout")]
fn a_key_outside_of_the_layout_is_a_bug_of_the_caller() {
    let _ = Store::<u32, f64>::dense(layout(4)).latch(Key(KEYS));
}

#[test]
fn the_flat_array_reads_adds_and_sets_rows() {
    let init: Initialiser<f64> = Arc::new(|key, value| value.fill(key.0 as f64));
    let flat = Flat::new(layout(4), &init);
    let (mut short, mut long) = ([0.0; 3], vec![0.0; 8192]);
    flat.read(Key(99), &mut short);
    assert_eq!(short, [99.0; 3]);
    flat.prefetch(Key(299));
    flat.add(Key(299), &vec![1.0; 8192]);
    flat.read(Key(299), &mut long);
    assert!(long.iter().all(|x| *x == 300.0));
    flat.set(Key(0), &[4.0, 5.0, 6.0]);
    flat.read(Key(0), &mut short);
    assert_eq!(short, [4.0, 5.0, 6.0]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| flat.add(Key(1), &[1.0; 3])));
        }
    });
    flat.read(Key(1), &mut short);
    assert_eq!(short, [40_001.0; 3]);
}

#[test]
fn the_only_one_who_has_the_flat_array_needs_no_latch() {
    let init: Initialiser<f64> = Arc::new(|key, value| value.fill(key.0 as f64));
    let uniform = Layout::builder().range("a", 7, 3).range("b", 5, 3).build().unwrap();
    for (layout, keys) in [(layout(4), KEYS), (Arc::new(uniform), 12)] {
        let mut flat = Flat::new(Arc::clone(&layout), &init);
        for key in (0..keys).map(Key) {
            let mut row = flat.lend_alone(key);
            assert!(row.len() == layout.len(key) && row.iter().all(|x| *x == key.0 as f64));
            row.iter_mut().for_each(|x| *x *= 2.0);
        }
        for key in (0..keys).map(Key) {
            let mut value = vec![0.0; layout.len(key)];
            flat.read(key, &mut value);
            assert!(value.iter().all(|x| *x == 2.0 * key.0 as f64), "{key:?}");
        }
    }
}

#[test]
fn what_a_dense_store_holds_can_be_seen_without_a_latch() {
    let store = Store::<u32, f64>::dense(layout(4));
    store.latch(Key(3)).allocate();
    let entry = store.latch(Key(7));
    assert!(store.seems_held(Key(3)) && !store.seems_held(Key(7)));
    drop(entry);
    store.latch(Key(3)).remove();
    assert!(!store.seems_held(Key(3)));
    assert!(Store::<u32, f64>::sparse(layout(4)).seems_held(Key(3)), "one has to look");
}
