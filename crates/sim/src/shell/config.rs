//! What a simulated run is to do.

use crate::bound::Staleness;
use crate::delays::Delays;
use crate::faults::Faults;
use crate::machine::Charge;
use crate::presets;
use crate::spread::Spread;
use intendant_checkpoint::Folder;
use intendant_core::{KeyOrder, random};
use intendant_engine::ClusterSettings;
use intendant_sampling::Sampler;
use intendant_task::{LookAhead, Schedule};
use intendant_techniques::Technique;
use intendant_trace::Filter;
use std::num::NonZeroUsize;

/// Configuration of a simulated training run: cluster, machines, network and faults.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    /// Number of nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers: usize,
    /// Channels per node.
    pub channels: usize,
    /// Shards per store, a power of two.
    pub shards: usize,
    /// How keys are assigned to homes.
    pub key_order: KeyOrder,
    /// The technique, and how nodes manage parameters.
    pub cluster: ClusterSettings,
    /// Upper bound of the keys of an operation on those rows of a batch, trained in place, that are not at
    /// the worker's node. If there are more, the worker pulls part after part, and pushes as many parts.
    /// `None` is one operation for all of them.
    pub operation_keys_max: Option<NonZeroUsize>,
    /// The distributions to sample from; `None` uses those that the task registered, unchanged.
    pub sampler: Option<Sampler>,
    /// Upper bound of the value bytes that a worker may have outstanding.
    pub outstanding_bytes_max: usize,
    /// How far a loader may run ahead; it is always allowed one batch.
    pub look_ahead: LookAhead,
    /// Epochs, and what workers do in them.
    pub schedule: Schedule,
    /// The machines and the network.
    pub delays: Delays,
    /// How differently long the arithmetic of batches takes.
    pub unevenness: Unevenness,
    /// Faults and the intervals in which they are active.
    pub faults: Faults,
    /// How checkpoints are made, if at all. [`Schedule::meets`] goes with it.
    pub cuts: Option<CutConfig>,
    /// What is recorded, if anything: see [`Observer::traces`](super::Observer::traces).
    pub trace: Option<Filter>,
    /// What reads must see in the bounds of what is sent (`EpochOutcome::bounds`); each takes some time.
    pub bounds: Vec<Staleness>,
    /// Seed of random homes.
    pub layout_seed: u64,
    /// Seed of delays and of the order of simultaneous events. It does not affect the task's own randomness.
    pub seed: u64,
    /// Upper bound of events; a run that exceeds it fails.
    pub events_max: u64,
}

/// By how much longer the arithmetic of a batch takes than it should, at random: on real machines other
/// programs run, and caches, clocks and memory differ from moment to moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unevenness(f64);

impl Unevenness {
    /// All batches take as long as they should.
    pub const NONE: Self = Self(1.0);

    /// Batches take up to `most` times as long as they should, evenly distributed.
    ///
    /// # Panics
    /// If `most` is less than 1 or not finite.
    #[must_use]
    pub fn up_to(most: f64) -> Self {
        assert!(most >= 1.0 && most.is_finite(), "batches that take {most} times as long");
        Self(most)
    }

    /// The factor of one batch.
    pub(super) fn longer(self, seed: u64, batch: &[u64]) -> f64 {
        if self == Self::NONE {
            return 1.0;
        }
        let part = random::stream(random::stream(seed, batch), &[UNEVENNESS]) >> 11;
        1.0 + (self.0 - 1.0) * part as f64 / (1u64 << 53) as f64
    }
}

/// Name of the use of the seed.
const UNEVENNESS: u64 = 17;

impl TaskConfig {
    /// The machines and the network of Lapse [thesis §3.3.1], static allocation.
    ///
    /// # Panics
    /// Never: the presets exist.
    #[must_use]
    pub fn new(nodes: usize, workers: usize, schedule: Schedule) -> Self {
        let machine = presets::machine("xeon-e5-2640v2").expect("a preset");
        let network = presets::network("10gbe").expect("a preset");
        Self {
            nodes,
            workers,
            channels: 1,
            shards: 64,
            key_order: KeyOrder::Random,
            cluster: ClusterSettings::new(Technique::Classic),
            operation_keys_max: None,
            sampler: None,
            outstanding_bytes_max: intendant_core::limits::OUTSTANDING_BYTES_DEFAULT,
            look_ahead: LookAhead { batches: 4, keys: 0 },
            schedule,
            delays: Delays::of(machine, network, Charge::ACTUAL),
            unevenness: Unevenness::NONE,
            faults: Faults::none(),
            cuts: None,
            trace: None,
            bounds: Vec::new(),
            layout_seed: 0,
            seed: 0,
            events_max: u64::MAX,
        }
    }

    pub(super) fn operation_keys(&self) -> usize {
        self.operation_keys_max.map_or(usize::MAX, NonZeroUsize::get)
    }
}

/// How a simulated run makes checkpoints.
#[derive(Clone, Debug)]
pub struct CutConfig {
    /// Where to, if parts are written at all. The files are real.
    pub folder: Option<Folder>,
    /// Virtual seconds between two cuts.
    pub seconds: f64,
    /// Checkpoints that are kept.
    pub kept: usize,
    /// Upper bound of the bytes of a part of the copy that a node makes of its values.
    pub copy_bytes_max: u32,
    /// Until a node's part is durable.
    pub write: Spread,
    /// Until a manifest is durable.
    pub commit: Spread,
    /// One of so many things that are written is refused; 0 for none.
    pub refuses: u64,
    /// How long other nodes live when one has died.
    pub linger: Spread,
    /// Whether nodes hold copies of each other's values: the first meeting makes a cut.
    pub copies: bool,
    /// From when on, ns, node 0 asks for another number of nodes, and for how many; the run then ends at a
    /// cut, as [`TaskFailure::Regrouped`](super::TaskFailure::Regrouped).
    pub regroup: Option<(u64, u16)>,
}
