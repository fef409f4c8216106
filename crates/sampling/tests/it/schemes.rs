//! How each scheme handles keys that are elsewhere, and when pools are made.

use crate::common::{Holds, keys, manager};
use intendant_core::{Key, Tick};
use intendant_sampling::{Distribution, Everything, Locality, Pooling, Scheme};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

fn pooling(keys: u32, uses: u32) -> Pooling {
    Pooling { keys: NonZeroU32::new(keys).unwrap(), uses: NonZeroU32::new(uses).unwrap() }
}

fn uniform(keys: u64) -> Distribution {
    Distribution::uniform(0..keys).unwrap()
}

proptest! {
    /// However handles divide a node's samples, each sequence of G·U samples has G draws, each exactly U
    /// times, once per traversal.
    #[test]
    fn every_key_of_a_pool_is_used_as_often(
        g in 1u32..30,
        u in 1u32..9,
        sizes in prop::collection::vec(0usize..40, 1..60),
    ) {
        let (manager, id) = manager(uniform(1_000_000_000), Scheme::Reuse(pooling(g, u)), 3, 0);
        let mut all: Vec<Key> = Vec::new();
        for size in sizes {
            all.extend(keys(&manager, id, size, 0, &Everything));
        }
        for pool in all.chunks_exact((g * u) as usize) {
            let passes: Vec<Vec<Key>> = pool.chunks_exact(g as usize).map(|pass| {
                let mut pass = pass.to_vec();
                pass.sort_unstable();
                pass
            }).collect();
            prop_assert!(passes.iter().all(|pass| *pass == passes[0]));
        }
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        prop_assert!(distinct.len() >= all.len() / u as usize);
    }

    /// Postponing changes only the order within a handle. Each sample is postponed at most once, whichever
    /// keys are local at which time.
    #[test]
    fn postponing_keeps_a_handles_samples(
        portions in prop::collection::vec(0usize..7, 1..9),
        local in prop::collection::vec(any::<bool>(), 97),
    ) {
        let (manager, id) = manager(uniform(20), Scheme::Postponing(pooling(5, 3)), 3, 0);
        let total = portions.iter().sum();
        let looks = Cell::new(0usize);
        let place = Holds(|_| {
            looks.set(looks.get() + 1);
            local[looks.get() % local.len()]
        });
        let mut handle = manager.prepare(id, total, 0, &place).unwrap();
        let mut ahead: Vec<Key> = handle.ahead().collect();
        looks.set(0);
        let (mut drawn, mut near) = (Vec::new(), Vec::new());
        for n in portions {
            manager.draw(&mut handle, n, &place, &mut drawn, &mut near).unwrap();
        }
        prop_assert!(looks.get() <= 2 * total);
        prop_assert_eq!(near.len() as u64, manager.stats().postponed);
        ahead.sort_unstable();
        drawn.sort_unstable();
        prop_assert_eq!(ahead, drawn);
    }
}

#[test]
fn what_is_not_here_is_postponed_and_moved_here() {
    let (manager, id) = manager(uniform(1_000), Scheme::Postponing(pooling(10, 1)), 3, 0);
    let absent = Cell::new(None);
    let place = Holds(|key| Some(key) != absent.get());
    let mut handle = manager.prepare(id, 4, 0, &place).unwrap();
    let ahead: Vec<Key> = handle.ahead().collect();
    absent.set(Some(ahead[0]));
    let (mut drawn, mut near) = (Vec::new(), Vec::new());
    manager.draw(&mut handle, 2, &place, &mut drawn, &mut near).unwrap();
    assert_eq!((drawn.as_slice(), near.as_slice()), (&ahead[1..3], &ahead[..1]));
    // The key did not come; no sample is postponed twice.
    manager.draw(&mut handle, 2, &place, &mut drawn, &mut near).unwrap();
    assert_eq!((drawn[2..].to_vec(), near.len()), (vec![ahead[3], ahead[0]], 1));
    let stats = manager.stats();
    assert_eq!((stats.drawn, stats.postponed, stats.strayed), (4, 1, 1));
}

#[test]
fn local_sampling_finds_what_is_here_if_anything_is() {
    const KEYS: u64 = 10_000;
    let (manager, id) = manager(uniform(KEYS), Scheme::Local, 3, 0);
    let half = Holds(|key: Key| key.0 % 2 == 1);
    assert!(keys(&manager, id, 1_000, 0, &half).iter().all(|key| key.0 % 2 == 1));
    let few = Holds(|key: Key| key.0.is_multiple_of(50));
    assert!(keys(&manager, id, 1_000, 1, &few).iter().all(|key| key.0.is_multiple_of(50)));
    assert_eq!(manager.stats().strayed, 0);
    let nothing = Holds(|_| false);
    let drawn = keys(&manager, id, 1_000, 2, &nothing);
    assert!(drawn.iter().all(|key| key.0 < KEYS));
    assert_eq!(manager.stats().strayed, 1_000);
}

/// One of four nodes, which owns one of `of` keys.
struct Owns {
    of: u64,
}

impl Locality for Owns {
    fn is_local(&self, key: Key) -> bool {
        key.0.is_multiple_of(self.of)
    }

    fn part(&self, key: Key) -> u32 {
        4 * u32::from(self.is_local(key))
    }

    fn nodes(&self) -> u32 {
        4
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}

/// A node counts the draws that it accepts. If it counted too few, it would underestimate its share, and draw
/// keys that are elsewhere.
#[test]
fn a_node_draws_elsewhere_what_its_share_lacks_and_no_more() {
    for (of, elsewhere) in [(4, 0.0), (8, 0.45), (20, 0.78)] {
        let (manager, id) = manager(uniform(10_000), Scheme::Local, 3, 0);
        let place = Owns { of };
        let (mut chosen, mut all) = (0, 0);
        for batch in 0..20_000 {
            let mut handle = manager.prepare(id, 20, batch, &place).unwrap();
            // At the start, the node assumes that it has its share.
            if batch >= 2_000 {
                (chosen, all) = (chosen + handle.ahead().count(), all + 20);
            }
            manager.draw(&mut handle, 20, &place, &mut Vec::new(), &mut Vec::new()).unwrap();
        }
        let fraction = chosen as f64 / f64::from(all);
        assert!((fraction - elsewhere).abs() < 0.01, "one of {of} keys: {fraction}, not {elsewhere}");
    }
}

#[test]
fn repurposing_takes_what_was_pulled_lately() {
    let (manager, id) = manager(Distribution::uniform(10..20).unwrap(), Scheme::Repurposing, 3, 0);
    assert!(manager.observes());
    assert!(keys(&manager, id, 100, 0, &Everything).iter().all(|key| (10..20).contains(&key.0)));
    // The scheme ignores keys of other ranges.
    manager.observe(&[Key(3), Key(12), Key(25), Key(17)]);
    let drawn = keys(&manager, id, 100, 1, &Everything);
    assert!(drawn.contains(&Key(12)) && drawn.contains(&Key(17)));
    assert!(drawn.iter().all(|key| [12, 17].contains(&key.0)));
    // Old keys are eventually forgotten.
    manager.observe(&[Key(13); 1_024]);
    assert_eq!(keys(&manager, id, 50, 2, &Everything), [Key(13); 50]);
}

/// A node to which keys come some time after the node asked for them, and which other nodes then take again.
struct Station {
    now: Cell<u64>,
    /// The time at which each key that is here leaves.
    here: RefCell<BTreeMap<Key, u64>>,
    coming: RefCell<VecDeque<(u64, Key)>>,
    delay_us: u64,
}

impl Station {
    fn new(delay_us: u64) -> Self {
        Self { now: Cell::new(0), here: RefCell::default(), coming: RefCell::default(), delay_us }
    }

    fn localize(&self, keys: impl Iterator<Item = Key>) {
        let at = self.now.get() + self.delay_us;
        let mut coming = self.coming.borrow_mut();
        coming.extend(keys.filter(|key| !self.is_local(*key)).map(|key| (at, key)));
    }

    fn pass(&self, us: u64, stay_us: u64) {
        self.now.set(self.now.get() + us);
        let (mut here, mut coming) = (self.here.borrow_mut(), self.coming.borrow_mut());
        while coming.front().is_some_and(|(at, _)| *at <= self.now.get()) {
            let (at, key) = coming.pop_front().unwrap();
            here.insert(key, at + stay_us);
        }
    }
}

impl Locality for Station {
    fn is_local(&self, key: Key) -> bool {
        self.here.borrow().get(&key).is_some_and(|until| *until > self.now.get())
    }

    fn part(&self, key: Key) -> u32 {
        self.is_local(key).into()
    }

    fn nodes(&self) -> u32 {
        1
    }

    fn now(&self) -> Tick {
        Tick(self.now.get())
    }
}

/// The results of a run after a warm-up.
struct Trained {
    /// The share of samples that are here when they are drawn.
    here: f64,
    /// Pools that were late.
    late: u64,
    /// Samples that are left in pools at the end.
    unused: u64,
}

/// Samples of a pool.
const POOL: u64 = 48 * 8;

/// Runs batches of 10 samples, one per 100 µs, while every key comes after `delay_us` and stays for
/// `stay_us`. One in `stray` keys never comes.
fn trained(delay_us: u64, stay_us: u64, stray: Option<u64>) -> Trained {
    let (manager, id) = manager(uniform(1 << 40), Scheme::Reuse(pooling(48, 8)), 3, 0);
    let station = Station::new(delay_us);
    let (mut here, mut all, mut late) = (0, 0, 0);
    for batch in 0..4_000 {
        let handle = manager.prepare(id, 10, 0, &station).unwrap();
        let comes = |key: &Key| stray.is_none_or(|stray| !key.0.is_multiple_of(stray));
        station.localize(handle.near().filter(comes));
        let mut handle = handle;
        let mut drawn = Vec::new();
        manager.draw(&mut handle, 10, &station, &mut drawn, &mut Vec::new()).unwrap();
        if batch == 1_000 {
            late = manager.stats().late_pools;
        }
        if batch >= 1_000 {
            here += drawn.iter().filter(|key| station.is_local(**key)).count();
            all += drawn.len();
        }
        station.pass(100, stay_us);
    }
    let stats = manager.stats();
    let unused = stats.pools * POOL - stats.drawn;
    assert!(unused <= 17 * POOL, "{unused}");
    Trained { here: f64::from(here as u32) / f64::from(all as u32), late: stats.late_pools - late, unused }
}

/// A pool lasts for 38 batches, of 100 µs each.
#[test]
fn pools_are_made_as_early_as_their_keys_need() {
    // The delays are longer than a pool lasts, shorter, or zero.
    for delay_us in [0, 300, 3_000, 10_000, 30_000] {
        let Trained { here, late, unused } = trained(delay_us, u64::MAX / 2, None);
        assert!(here == 1.0 && late == 0, "{delay_us} µs: {here} here, {late} late");
        // Pools have twice the samples that are used while a pool arrives, rounded up to whole pools, and are
        // made no earlier.
        let needed = 2 * delay_us / 10;
        assert!(unused <= needed + 2 * POOL, "{delay_us} µs: {unused} unused");
    }
    // One key in 50 never comes, so that most pools arrive without one or two of their keys.
    let Trained { late, unused, .. } = trained(300, u64::MAX / 2, Some(50));
    assert!(late == 0 && unused <= 3 * POOL, "{late} late, {unused} unused");
    // The delay needs more pools than may wait: samples are drawn all the same.
    let Trained { here, late, .. } = trained(1_000_000, u64::MAX / 2, None);
    assert!(here < 1.0 && late == 0, "{here} here, {late} late");
    // Keys leave before they have been used for the last time, and are fetched again.
    let Trained { here, .. } = trained(1_000, 3_000, None);
    assert!((0.3..1.0).contains(&here), "{here}");
}
