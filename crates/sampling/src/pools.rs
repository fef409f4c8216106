//! Sample reuse: pools of independently drawn keys that all workers of a node share [thesis §4.3.4].
//!
//! A pool is *made* (its keys are drawn, and are to be moved to this node), *waits* in a queue, and is
//! *used*: its keys are drawn in a random order, then in another one, U times in all. A pool should be made
//! early enough for its keys to be here when it is used. The node measures how long that takes: a pool has
//! arrived when nearly all of its keys were seen here. In the source, a background thread makes pools. Here,
//! the thread that prepares samples makes them, which happens ahead of their use anyway.

use crate::{Distribution, Locality, Pooling};
use intendant_core::{Key, Tick, random};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Maximum number of waiting pools. Each takes some kilobytes; if this many are too few, the network does not
/// keep up anyway.
const WAITING_MAX: usize = 16;

/// A pool has arrived when all but one in this many of its keys were seen here: other nodes may want some of
/// them again and again.
const ARRIVED_ALL_BUT: usize = 16;

/// Keys that were drawn together.
struct Pool {
    keys: Vec<Key>,
    /// Traversals that have begun, and the position within the current one.
    pass: u32,
    next: usize,
    made: Tick,
    /// Keys that were not seen here yet; empty once the pool has arrived.
    unseen: Vec<Key>,
}

/// Counts of a node's pools, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolCounts {
    pub(crate) made: u64,
    pub(crate) late: u64,
}

/// The pools of one distribution at one node.
pub(crate) struct Pools {
    distribution: Distribution,
    pooling: Pooling,
    /// Names the randomness of this node and distribution.
    stream: u64,
    rng: Pcg64Mcg,
    /// The first pool is in use.
    pools: VecDeque<Pool>,
    counts: PoolCounts,
    /// Samples taken so far.
    taken: u64,
    /// When the last two pools were first used, and how many samples had been taken by then. The older pool
    /// is first.
    opened: [(Tick, u64); 2],
    /// How long pools took to arrive, in µs: an average in which the latest pool counts half.
    arrival_us: Option<f64>,
}

impl Pools {
    pub(crate) fn new(distribution: Distribution, pooling: Pooling, stream: u64) -> Self {
        Self {
            distribution,
            pooling,
            stream,
            rng: Pcg64Mcg::seed_from_u64(stream),
            pools: VecDeque::new(),
            counts: PoolCounts::default(),
            taken: 0,
            opened: [(Tick(0), 0); 2],
            arrival_us: None,
        }
    }

    pub(crate) fn counts(&self) -> PoolCounts {
        self.counts
    }

    /// Takes the next `samples`; appends keys of new pools, which are to be moved here, to `near`.
    pub(crate) fn take(
        &mut self,
        samples: usize,
        place: &impl Locality,
        keys: &mut VecDeque<Key>,
        near: &mut Vec<Key>,
    ) {
        let now = place.now();
        self.watch(place, now);
        for _ in 0..samples {
            let key = self.next(now, near);
            keys.push_back(key);
        }
        self.taken += samples as u64;
        let unused: u64 = self.pools.iter().map(|pool| pool.left(self.pooling)).sum();
        if (unused as f64) < self.wanted(samples, now) && self.pools.len() <= WAITING_MAX {
            self.make(now, near);
        }
    }

    /// How many unused samples should be ready: as many as are used in twice the time that a pool takes to
    /// arrive, and at least as many as one call asks for.
    fn wanted(&self, samples: usize, now: Tick) -> f64 {
        let (since, taken) = self.opened[0];
        let elapsed_us = now.0.saturating_sub(since.0).max(1) as f64;
        let per_us = (self.taken - taken) as f64 / elapsed_us;
        (2.0 * self.arrival_us.unwrap_or(0.0) * per_us).max(samples as f64)
    }

    /// Checks which keys have arrived, and learns how long it took.
    fn watch(&mut self, place: &impl Locality, now: Tick) {
        for pool in &mut self.pools {
            if pool.unseen.is_empty() {
                continue;
            }
            pool.unseen.retain(|key| !place.is_local(*key));
            if pool.unseen.len() <= pool.keys.len() / ARRIVED_ALL_BUT {
                pool.unseen = Vec::new();
                learn(&mut self.arrival_us, pool.made, now);
            }
        }
    }

    fn next(&mut self, now: Tick, near: &mut Vec<Key>) -> Key {
        if self.pools.is_empty() {
            // The first pool cannot be made early.
            self.counts.late += u64::from(self.counts.made > 0);
            self.make(now, near);
        }
        let pool = &mut self.pools[0];
        if pool.pass == 0 {
            self.opened = [self.opened[1], (now, self.taken)];
        }
        if pool.pass == 0 || pool.next == pool.keys.len() {
            pool.keys.shuffle(&mut self.rng);
            (pool.pass, pool.next) = (pool.pass + 1, 0);
        }
        let key = pool.keys[pool.next];
        pool.next += 1;
        if pool.left(self.pooling) == 0 {
            if !pool.unseen.is_empty() {
                // The pool took at least this long to arrive.
                learn(&mut self.arrival_us, pool.made, now);
            }
            self.pools.pop_front();
        }
        key
    }

    /// Draws the keys of another pool.
    fn make(&mut self, now: Tick, near: &mut Vec<Key>) {
        // A pool's keys depend on its number only, not on what else was drawn.
        let mut rng = Pcg64Mcg::seed_from_u64(random::stream(self.stream, &[self.counts.made]));
        let keys: Vec<Key> = (0..self.pooling.keys.get()).map(|_| self.distribution.draw(&mut rng)).collect();
        near.extend_from_slice(&keys);
        self.pools.push_back(Pool { unseen: keys.clone(), keys, pass: 0, next: 0, made: now });
        self.counts.made += 1;
    }
}

impl Pool {
    /// Samples that it still has.
    fn left(&self, pooling: Pooling) -> u64 {
        let begun = u64::from(self.pass.max(1)) * self.keys.len() as u64;
        let used = if self.pass == 0 { 0 } else { begun - (self.keys.len() - self.next) as u64 };
        pooling.samples() - used
    }
}

fn learn(arrival_us: &mut Option<f64>, made: Tick, now: Tick) {
    let took = now.0.saturating_sub(made.0) as f64;
    *arrival_us = Some(arrival_us.map_or(took, |before| f64::midpoint(before, took)));
}
