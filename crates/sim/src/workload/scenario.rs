//! What a run is like: partly asked for, partly drawn from the seed.

use crate::delays::Delays;
use crate::dice::Dice;
use crate::lanes;
use crate::reach::Marker;
use intendant_core::{KeyOrder, Layout, random};
use intendant_engine::Storage;
use intendant_techniques::{Order, Technique};
use std::fmt;
use std::ops::Range;

/// What all runs of a set have in common. What is `None` is drawn from each run's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The technique.
    pub technique: Technique,
    /// Number of nodes.
    pub nodes: usize,
    /// Calls of all workers together.
    pub calls: u64,
    /// Whether workers go on while operations are outstanding.
    pub asynchronous: Option<bool>,
    /// Order of a worker's operations on a key.
    pub order: Option<Order>,
    /// Dense or sparse stores.
    pub storage: Option<Storage>,
    /// Whether nodes have ideas, mostly stale, of where keys are.
    pub caches: Option<bool>,
}

impl Mode {
    /// Four nodes, everything else drawn.
    #[must_use]
    pub const fn new(technique: Technique) -> Self {
        Self { technique, nodes: 4, calls: 200, asynchronous: None, order: None, storage: None, caches: None }
    }

    /// The markers that runs in this mode must reach, with the number of runs that is enough for it.
    pub fn expected(&self) -> Vec<(Marker, u64)> {
        let mode = *self;
        let several = |nodes| mode.nodes >= nodes;
        let maybe = |choice: Option<bool>| choice != Some(false);
        let chain = mode.order != Some(Order::Fifo);
        let sparse = mode.storage != Some(Storage::Dense);
        let overlap = maybe(mode.asynchronous) && several(2);
        let expected = Marker::ALL.iter().filter_map(|marker| {
            let (runs, expected) = match marker {
                Marker::LocalServed => (20, true),
                Marker::RemoteServed | Marker::MixedCall | Marker::DuplicateKey => (20, several(2)),
                Marker::SeveralChannels | Marker::CrowdedChannel | Marker::CrowdedConnection => {
                    (50, several(2))
                }
                Marker::SeveralLengths | Marker::SetServed => (50, true),
                Marker::SeveralOwners => (50, several(3)),
                Marker::ForwardedOnce => (50, maybe(mode.caches) && several(3)),
                Marker::Chained => (50, chain && several(2)),
                Marker::AsyncOverlap | Marker::KeyOverlap => (50, overlap),
                Marker::AdmissionWaited => (100, overlap),
                Marker::SparseMaterialised => (50, sparse),
                Marker::SnapshotParts => (50, several(2)),
                Marker::DoublePrecision => (200, true),
                Marker::SplitFrame => (2_000, several(2)),
                // Nothing moves under static allocation: a key that was deferred is still elsewhere when its channel looks,
                // and a hint leads astray once.
                Marker::InboxRace | Marker::ForwardedAgain => (0, false),
            };
            expected.then_some((*marker, runs))
        });
        expected.collect()
    }
}

impl fmt::Display for Mode {
    /// As on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { technique, nodes, calls, .. } = self;
        write!(f, "--technique {technique} --nodes {nodes} --ops {calls}")?;
        if let Some(asynchronous) = self.asynchronous {
            write!(f, " --mode {}", if asynchronous { "async" } else { "sync" })?;
        }
        if let Some(order) = self.order {
            write!(f, " --order {order}")?;
        }
        if let Some(storage) = self.storage {
            write!(f, " --storage {}", if storage == Storage::Dense { "dense" } else { "sparse" })?;
        }
        if let Some(caches) = self.caches {
            write!(f, " --caches {}", if caches { "on" } else { "off" })?;
        }
        Ok(())
    }
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The technique.
    pub technique: Technique,
    /// Number of nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers: usize,
    /// Number of channels.
    pub channels: usize,
    /// Shards of a store.
    pub shards: usize,
    /// How homes are assigned.
    pub key_order: KeyOrder,
    /// Keys and elements of the ranges with version lanes.
    pub lanes: Vec<(u64, usize)>,
    /// Keys that are overwritten; they come last.
    pub registers: u64,
    /// How many of the keys with lanes get most of the calls.
    pub hot_keys: u64,
    /// Keys of a call at most.
    pub call_keys_max: u64,
    /// Calls of all workers together.
    pub calls: u64,
    /// Operations that a worker has outstanding at most; 0 if it waits for each.
    pub in_flight_max: usize,
    /// Bytes that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// Bytes of a snapshot part.
    pub snapshot_bytes_max: u32,
    /// Order of a worker's operations on a key.
    pub order: Order,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// Whether nodes have stale hints.
    pub caches: bool,
    /// Whether elements are `f64`.
    pub double: bool,
    /// Whether the last range with lanes has values so long that calls take several frames.
    pub huge: bool,
    /// How long things take.
    pub delays: Delays,
}

/// Two of these fill a frame (of `f32`).
const HUGE_ELEMENTS: usize = 140_000;

impl Scenario {
    /// The run that belongs to a seed.
    #[must_use]
    pub fn draw(mode: &Mode, seed: u64) -> Self {
        let mut dice = Dice::new(random::stream(seed, &[0]));
        let dice = &mut dice;
        let workers = dice.between(1, 3) as usize;
        let lanes_min = lanes::len_min(mode.nodes * workers);
        let mut lanes = vec![
            (dice.between(2, 24), lanes_min + dice.below(3) as usize),
            (dice.between(1, 8), 2 * lanes_min + dice.below(20) as usize),
        ];
        let huge = dice.once_in(100);
        if huge {
            lanes.push((2 * mode.nodes as u64, HUGE_ELEMENTS));
        }
        let asynchronous = dice.once_in(2);
        let order = dice.pick(&[Order::Fifo, Order::Chain]);
        let storage = dice.pick(&[Storage::Dense, Storage::Sparse]);
        let caches = dice.once_in(2);
        let in_flight = dice.pick(&[2, 3, 8]);
        Self {
            seed,
            technique: mode.technique,
            nodes: mode.nodes,
            workers,
            channels: dice.between(1, 3) as usize,
            shards: dice.pick(&[4, 8, 16]),
            key_order: dice.pick(&[KeyOrder::Random, KeyOrder::Range, KeyOrder::Hash]),
            hot_keys: dice.between(1, 3),
            call_keys_max: dice.pick(&[1, 3, 6]),
            lanes,
            registers: dice.between(1, 3),
            calls: mode.calls,
            in_flight_max: if mode.asynchronous.unwrap_or(asynchronous) { in_flight } else { 0 },
            outstanding_bytes_max: dice.pick(&[1, 400, 2_000, 64 << 20]),
            snapshot_bytes_max: dice.pick(&[1, 300, 1 << 20]),
            order: mode.order.unwrap_or(order),
            storage: mode.storage.unwrap_or(storage),
            caches: mode.caches.unwrap_or(caches),
            double: dice.once_in(8),
            huge,
            delays: Delays::wild(dice),
        }
    }

    /// Workers of all nodes, which is the number of lanes.
    #[must_use]
    pub fn all_workers(&self) -> usize {
        self.nodes * self.workers
    }

    /// The keys that are overwritten.
    #[must_use]
    pub fn registers(&self) -> Range<u64> {
        let start = self.lanes.iter().map(|(keys, _)| keys).sum();
        start..start + self.registers
    }

    /// The layout.
    ///
    /// # Panics
    /// If the mode asked for more nodes than there can be.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut builder = Layout::builder();
        for (at, (keys, len)) in self.lanes.iter().enumerate() {
            builder = builder.range(&format!("lanes{at}"), *keys, *len);
        }
        builder = builder.range("registers", self.registers, 3).nodes(self.nodes).channels(self.channels);
        let built = builder.shards(self.shards).order(self.key_order).seed(self.seed).build();
        built.unwrap_or_else(|error| panic!("a scenario within the limits: {error}"))
    }
}
