//! Workloads for techniques that copy keys, and checks of what must hold in them.
//!
//! A value has an element for each worker, which counts that worker's pushes, one that counts all, and one to
//! which all workers add fractions. The counts are exact in any order of the updates. The sum in the last
//! element is not, so it differs between copies that were synchronised differently.

use intendant::{
    Error, Key, KeyOrder, KeyTechnique, Layout, NodeConfig, StaticReplicaPace, Storage, Technique, Tick,
    Worker,
};
use intendant_core::random::{mix, stream};
use std::sync::Arc;

pub(crate) const KEYS: u64 = 60;

/// A cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) technique: Technique,
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    pub(crate) channels: usize,
    pub(crate) storage: Storage,
    /// The pace of rounds of static replicas.
    pub(crate) pace: StaticReplicaPace,
    pub(crate) staleness: u32,
    /// With NuPS, one of this many keys is replicated.
    pub(crate) replicated: u64,
}

impl Setting {
    pub(crate) const fn new(technique: Technique) -> Self {
        Self {
            technique,
            nodes: 3,
            workers: 2,
            channels: 1,
            storage: Storage::Dense,
            // Rounds are far more frequent than in real runs, so that they happen while workers push.
            pace: StaticReplicaPace::Every(Tick(500)),
            staleness: 1,
            replicated: 3,
        }
    }

    /// Number of workers of all nodes.
    pub(crate) const fn all(&self) -> usize {
        self.nodes * self.workers
    }

    /// Whether staleness is bounded, by clocks.
    pub(crate) fn is_clocked(&self) -> bool {
        matches!(self.technique, Technique::Ssp | Technique::Essp)
    }

    pub(crate) fn layout(&self) -> Layout {
        let len = self.all() + 2;
        // Two lengths, so that offsets matter.
        let builder = Layout::builder().range("short", KEYS / 2, len).range("long", KEYS / 2, len + 40);
        builder.order(KeyOrder::Random).seed(3).shards(8).channels(self.channels).build().unwrap()
    }

    pub(crate) fn config(&self) -> NodeConfig<f32> {
        let all = self.all();
        let mut config = NodeConfig::new(self.layout(), Arc::new(move |key, value| initial(all, key, value)));
        (config.cluster.technique, config.workers, config.cluster.storage) =
            (self.technique, self.workers, self.storage);
        (config.cluster.replication.pace, config.cluster.replication.staleness) = (self.pace, self.staleness);
        for key in (0..KEYS).step_by(self.replicated as usize).map(Key) {
            config.set_technique(key, KeyTechnique::Replicate);
        }
        config
    }
}

/// Counts begin at 0; the fraction does not.
fn initial(all: usize, key: Key, value: &mut [f32]) {
    value.fill(0.0);
    value[all + 1] = 1.0 / (key.0 + 3) as f32;
}

/// A worker that counts what it does.
pub(crate) struct Pusher {
    pub(crate) me: usize,
    setting: Setting,
    layout: Layout,
    /// Number of its pushes, per key.
    pub(crate) made: Vec<u64>,
}

impl Pusher {
    pub(crate) fn new(setting: Setting, me: usize) -> Self {
        Self { me, setting, layout: setting.layout(), made: vec![0; KEYS as usize] }
    }

    pub(crate) fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.layout.len(*key)).sum()
    }

    /// One more push to each of `keys`.
    pub(crate) fn update(&mut self, keys: &[Key], word: u64) -> Vec<f32> {
        let all = self.setting.all();
        let mut update = Vec::new();
        for key in keys {
            let at = update.len();
            update.resize(at + self.layout.len(*key), 0.0);
            (update[at + self.me], update[at + all]) = (1.0, 1.0);
            // The fractions have very different sizes, so that hardly any sum is exact.
            update[at + all + 1] = (mix(word ^ key.0) % 1000) as f32 * 1e-4 + 1e-7;
            self.made[key.0 as usize] += 1;
        }
        update
    }

    /// The values that `worker` reads, key by key.
    pub(crate) fn read(&self, worker: &mut Worker<f32>, keys: &[Key]) -> Result<Vec<Vec<f32>>, Error> {
        let mut values = vec![0.0; self.elements(keys)];
        worker.pull(keys, &mut values)?;
        Ok(self.split(keys, &values))
    }

    /// This node's copies of those keys of which it has one.
    pub(crate) fn copies(&self, worker: &mut Worker<f32>) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        let mut values = vec![0.0; self.elements(&keys)];
        let here = worker.pull_if_local(&keys, &mut values)?;
        let values = self.split(&keys, &values).into_iter();
        Ok(here.iter().zip(values).map(|(here, value)| here.then_some(value)).collect())
    }

    fn split(&self, keys: &[Key], values: &[f32]) -> Vec<Vec<f32>> {
        let mut rest = values;
        let value = |key: &Key| {
            let (value, after) = rest.split_at(self.layout.len(*key));
            rest = after;
            value.to_vec()
        };
        keys.iter().map(value).collect()
    }

    /// Pushes and pulls at random, now and then with a later clock. Each value that a worker reads has all of
    /// its own pushes.
    pub(crate) fn work(&mut self, worker: &mut Worker<f32>, phase: u64, steps: u64) -> Result<(), Error> {
        let mut tickets = Vec::new();
        for step in 0..steps {
            let word = stream(phase, &[self.me as u64, step]);
            // Most calls access few keys, so that the workers' calls meet.
            let hot = |word: u64| Key(if word.is_multiple_of(4) { word / 4 % KEYS } else { word / 4 % 6 });
            let keys: Vec<Key> = (0..1 + word % 5).map(|i| hot(mix(word ^ mix(i)))).collect();
            match word >> 20 & 7 {
                0 => worker.localize(&keys)?,
                1 => drop(worker.localize_async(&keys)?),
                2 => worker.advance_clock(),
                _ => {}
            }
            let update = self.update(&keys, word);
            let ticket = worker.push_async(&keys, &update)?;
            match word >> 30 & 3 {
                0 => worker.wait(ticket)?,
                1 => drop(ticket),
                _ => tickets.push(ticket),
            }
            if word >> 40 & 1 == 0 {
                for (key, value) in keys.iter().zip(self.read(worker, &keys)?) {
                    let (own, made) = (value[self.me], self.made[key.0 as usize]);
                    assert_eq!(own, made as f32, "{:?}: worker {} reads {key:?}", self.setting, self.me);
                }
            }
            // Nodes outnumber the cores of small machines, so each yields to the others.
            std::thread::yield_now();
        }
        tickets.into_iter().try_for_each(|ticket| worker.wait(ticket))
    }

    /// Checks, after the cluster has come to rest, that the values that this worker reads, its node's copies
    /// and a snapshot are the same, and that they have exactly the pushes in `made`, which has all workers'
    /// counts per key. Returns the bits of all values.
    pub(crate) fn look(&self, worker: &mut Worker<f32>, made: &[Vec<u64>]) -> Result<Vec<u32>, Error> {
        let (setting, all) = (self.setting, self.setting.all());
        let copies = self.copies(worker)?;
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        let values = self.read(worker, &keys)?;
        let mut stored = vec![Vec::new(); KEYS as usize];
        worker.snapshot(0..KEYS, &mut |keys, values| {
            for (key, value) in keys.iter().zip(self.split(keys, values)) {
                assert!(stored[key.0 as usize].is_empty(), "{key:?} twice in a snapshot");
                stored[key.0 as usize] = value;
            }
        })?;
        let mut bits = Vec::new();
        for (key, value) in values.iter().enumerate() {
            for (lane, made) in made.iter().enumerate() {
                assert_eq!(
                    value[lane], made[key] as f32,
                    "{setting:?}: pushes of worker {lane} to key {key}"
                );
            }
            let total: u64 = made.iter().map(|made| made[key]).sum();
            assert_eq!(value[all], total as f32, "{setting:?}: all pushes to key {key}");
            assert_eq!(&stored[key], value, "{setting:?}: what is stored of key {key}");
            if let Some(copy) = &copies[key] {
                assert_eq!(copy, value, "{setting:?}: the copy of key {key}");
            }
            bits.extend(value.iter().map(|element| element.to_bits()));
        }
        // Checks that this node has the copies that it must have: of all keys, of some of them, or of the
        // keys that were read.
        let here = copies.iter().filter(|copy| copy.is_some()).count() as u64;
        let replicated = (0..KEYS).step_by(setting.replicated as usize);
        let expected = if setting.technique == Technique::FullReplication {
            here == KEYS
        } else if matches!(setting.technique, Technique::Nups | Technique::Bips) {
            replicated.into_iter().all(|key| copies[key as usize].is_some())
        } else {
            setting.technique != Technique::Essp || here > KEYS / setting.nodes as u64
        };
        assert!(expected || setting.nodes == 1, "{setting:?}: copies of {here} keys");
        Ok(bits)
    }
}

/// Packs counts into the payload of a meeting.
pub(crate) fn pack(made: &[u64]) -> Vec<u8> {
    made.iter().flat_map(|count| count.to_le_bytes()).collect()
}

pub(crate) fn unpack(payload: &[u8]) -> Vec<u64> {
    payload.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Works in phases, checks after each of them that all pushes are there and that all nodes have equal values,
/// and returns the bits at the end.
pub(crate) fn phases(
    worker: &mut Worker<f32>,
    setting: Setting,
    me: usize,
    steps: u64,
) -> Result<Vec<u32>, Error> {
    let mut pusher = Pusher::new(setting, me);
    let mut bits = Vec::new();
    for phase in 0..3 {
        // In one of the phases, one node has nothing to do.
        let idle = phase == 1 && me / setting.workers == 1;
        pusher.work(worker, phase, if idle { 0 } else { steps })?;
        worker.quiesce()?;
        let made: Vec<_> =
            worker.gather("made", pack(&pusher.made))?.iter().map(|made| unpack(made)).collect();
        bits = pusher.look(worker, &made)?;
        let told: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let all = worker.gather("bits", told)?;
        assert!(all.iter().all(|bits| *bits == all[0]), "{setting:?}: nodes have different values");
    }
    Ok(bits)
}

/// The keys to which a worker pushes at a clock, in the workload in which every worker knows all pushes.
fn pushed_at(worker: usize, clock: u32) -> [Key; 3] {
    let word = stream(11, &[worker as u64, clock.into()]);
    [0, 8, 16].map(|shift| Key((word >> shift) % 20))
}

/// Goes through `clocks` clocks without a meeting. Checks that each value read has the pushes of all workers
/// up to the staleness bound. Calls `each` before each clock.
pub(crate) fn bounded(
    worker: &mut Worker<f32>,
    setting: Setting,
    me: usize,
    clocks: u32,
    mut each: impl FnMut(u32),
) -> Result<(), Error> {
    let mut pusher = Pusher::new(setting, me);
    // The number of pushes of a worker to a key before a clock.
    let before = |other: usize, key: Key, clock: u32| -> usize {
        (0..clock).map(|clock| pushed_at(other, clock).iter().filter(|k| **k == key).count()).sum()
    };
    for clock in 0..clocks {
        each(clock);
        let update = pusher.update(&pushed_at(me, clock), clock.into());
        drop(worker.push_async(&pushed_at(me, clock), &update)?);
        worker.advance_clock();
        let keys = pushed_at(me, clock + 1);
        for (key, value) in keys.iter().zip(pusher.read(worker, &keys)?) {
            assert_eq!(
                value[me], pusher.made[key.0 as usize] as f32,
                "{setting:?}: worker {me} reads {key:?}"
            );
            for (other, found) in value[..setting.all()].iter().enumerate() {
                let promised = before(other, *key, (clock + 1).saturating_sub(setting.staleness));
                assert!(
                    *found >= promised as f32,
                    "{setting:?}: worker {me} reads {key:?} at clock {} with {found} of {promised} pushes of \
                     worker {other}",
                    clock + 1
                );
            }
        }
    }
    Ok(())
}
