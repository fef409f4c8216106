//! What all runs of a set have in common, and what they must reach.

use crate::reach::Marker;
use intendant_engine::Storage;
use intendant_techniques::{Initiator, Order, Policy, Technique};
use std::fmt;

/// What all runs of a set have in common. What is `None` is drawn from each run's seed, so that its history is sequentially
/// consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The technique.
    pub technique: Technique,
    /// Whether owners move keys as they like, instead of what the technique decides.
    pub by_owners: bool,
    /// Number of nodes; drawn are 3 to 5.
    pub nodes: Option<usize>,
    /// Calls of all workers together.
    pub calls: u64,
    /// Whether workers go on while operations are outstanding.
    pub asynchronous: Option<bool>,
    /// Order of a worker's operations on a key.
    pub order: Option<Order>,
    /// Dense or sparse stores.
    pub storage: Option<Storage>,
    /// Whether nodes remember where keys were. Where keys do not move: whether they start with ideas, mostly wrong, of where
    /// keys are.
    pub caches: Option<bool>,
    /// Whether connections and machines are slow at times, and nodes cut off from each other.
    pub faults: Option<bool>,
}

impl Mode {
    /// Everything drawn.
    #[must_use]
    pub const fn new(technique: Technique) -> Self {
        Self {
            technique,
            by_owners: false,
            nodes: None,
            calls: 200,
            asynchronous: None,
            order: None,
            storage: None,
            caches: None,
            faults: None,
        }
    }

    /// Who moves keys.
    #[must_use]
    pub const fn relocation(&self) -> Option<Initiator> {
        if self.by_owners { Some(Initiator::Owner) } else { self.technique.policy().relocation }
    }

    /// The policy of a run.
    pub(super) fn policy(&self, order: Order, caches: bool) -> Policy {
        Policy { relocation: self.relocation(), ..self.technique.policy().with(Some(order), Some(caches)) }
    }

    /// The markers that runs in this mode must reach, with the number of runs that is enough for it.
    pub fn expected(&self) -> Vec<(Marker, u64)> {
        let expected = Marker::ALL.iter().filter_map(|marker| {
            let (runs, expected) = self.expects(*marker);
            expected.then_some((*marker, runs))
        });
        expected.collect()
    }

    fn expects(&self, marker: Marker) -> (u64, bool) {
        let several = |nodes| self.nodes.is_none_or(|n| n >= nodes);
        let maybe = |choice: Option<bool>| choice != Some(false);
        let requesters = self.relocation() == Some(Initiator::Requester) && several(2);
        let owners = self.relocation() == Some(Initiator::Owner) && several(2);
        let moves = requesters || owners;
        let caches = maybe(self.caches);
        // Asynchronous workers whose operations are not chained: with caches, these histories are inconsistent.
        let unchained = self.asynchronous == Some(true) && self.order == Some(Order::Fifo);
        let caches = caches && !(moves && unchained && self.caches.is_none());
        let overlap = maybe(self.asynchronous) && several(2);
        match marker {
            Marker::LocalServed => (20, true),
            Marker::RemoteServed | Marker::MixedCall | Marker::DuplicateKey => (20, several(2)),
            Marker::SeveralChannels | Marker::CrowdedChannel | Marker::CrowdedConnection => (50, several(2)),
            Marker::SeveralLengths | Marker::SetServed => (50, true),
            Marker::SeveralOwners => (50, several(3)),
            Marker::ForwardedOnce => (50, moves && several(3) || caches && several(3)),
            Marker::Chained => (50, self.order != Some(Order::Fifo) && several(2)),
            Marker::AsyncOverlap | Marker::KeyOverlap => (50, overlap),
            Marker::AdmissionWaited => (100, overlap),
            Marker::SparseMaterialised => (50, self.storage != Some(Storage::Dense)),
            Marker::SnapshotParts => (50, several(2)),
            Marker::DoublePrecision => (200, true),
            Marker::SplitFrame => (2_000, several(2)),
            Marker::SplitHandOver => (5_000, moves),
            // Under static allocation, a key that was deferred is still elsewhere when its channel looks.
            Marker::InboxRace => (100, moves),
            // A request is forwarded twice if a cache leads astray, or a home does not know yet.
            Marker::ForwardedAgain => (100, (requesters && caches || owners) && several(3)),
            Marker::Relocated | Marker::SeveralMoved => (20, moves),
            Marker::Conflicted | Marker::ConflictSeen | Marker::Queued | Marker::WantedTwice => {
                (50, requesters)
            }
            // Between two nodes, everything takes the same connection as the key.
            Marker::QueuedForOther | Marker::DepartureQueued => (50, requesters && several(3)),
            Marker::WantedBack => (100, requesters && several(3)),
            // Without caches all requests of a node take the way of its wishes to have the key: over the home.
            Marker::CameHome => (200, (requesters && caches || owners) && several(3)),
            Marker::CacheHit | Marker::CacheStale => (50, moves && caches && several(3)),
            // News from an owner comes directly, other news from whoever has the key next: one connection may be faster.
            Marker::OldNews => (500, moves && caches && several(3) && maybe(self.asynchronous)),
            Marker::HomeBehind | Marker::OrderTooLate => (50, owners),
            Marker::MovedLate => (100, owners && several(3)),
            Marker::IfLocalHit | Marker::IfLocalMiss => (20, moves),
            Marker::Faulty => (50, maybe(self.faults)),
        }
    }
}

impl fmt::Display for Mode {
    /// As on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { technique, by_owners, nodes, calls, asynchronous, order, storage, caches, faults } = *self;
        write!(f, "--technique {technique}")?;
        if by_owners {
            write!(f, " --initiator owner")?;
        }
        if let Some(nodes) = nodes {
            write!(f, " --nodes {nodes}")?;
        }
        write!(f, " --ops {calls}")?;
        if let Some(asynchronous) = asynchronous {
            write!(f, " --mode {}", if asynchronous { "async" } else { "sync" })?;
        }
        if let Some(order) = order {
            write!(f, " --order {order}")?;
        }
        if let Some(storage) = storage {
            write!(f, " --storage {}", if storage == Storage::Dense { "dense" } else { "sparse" })?;
        }
        let on = |switch| if switch { "on" } else { "off" };
        if let Some(caches) = caches {
            write!(f, " --caches {}", on(caches))?;
        }
        faults.map_or(Ok(()), |faults| write!(f, " --faults {}", on(faults)))
    }
}
