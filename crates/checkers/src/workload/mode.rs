//! What all runs of a set have in common, and what they must reach.

use intendant_core::Tick;
use intendant_engine::Storage;
use intendant_sim::reach::Marker;
use intendant_techniques::{Choice, Initiator, Order, Policy, Replicas, Technique};
use std::fmt;

/// What all runs of a set have in common. What is `None` is drawn from each run's seed, so that its history
/// is sequentially consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The technique.
    pub technique: Technique,
    /// Whether owners move keys as they like, instead of what the technique decides.
    pub by_owners: bool,
    /// Whether, on top of that, replicas through the owner come and go at random.
    pub hub: bool,
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
    /// Whether nodes remember where keys were. Where keys do not move: whether they start with ideas, mostly
    /// wrong, of where keys are.
    pub caches: Option<bool>,
    /// The staleness bound, where there is one.
    pub staleness: Option<u32>,
    /// Whether static replicas are brought in step only when workers ask for it.
    pub asked: Option<bool>,
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
            hub: false,
            nodes: None,
            calls: 200,
            asynchronous: None,
            order: None,
            storage: None,
            caches: None,
            staleness: None,
            asked: None,
            faults: None,
        }
    }

    /// Replicas through the owner that come and go at random, of keys that owners move at random.
    #[must_use]
    pub const fn hub() -> Self {
        Self { by_owners: true, hub: true, ..Self::new(Technique::Lapse) }
    }

    /// Who moves keys.
    #[must_use]
    pub const fn relocation(&self) -> Option<Initiator> {
        if self.by_owners { Some(Initiator::Owner) } else { self.technique.policy().relocation }
    }

    /// Whether there are replicas through the owner: when they come, and how they are kept in step.
    pub(super) fn replicas(&self, every: Tick) -> Option<Replicas> {
        match self.technique.policy().replicas {
            _ if self.hub => Some(Replicas::Directed { every }),
            Some(Replicas::Directed { .. }) => Some(Replicas::Directed { every }),
            other => other,
        }
    }

    /// What owners make of intents, if they act on them.
    pub(super) fn choice(&self) -> Option<Choice> {
        self.technique.policy().intents.filter(|_| !self.hub).map(|intents| intents.choice)
    }

    /// Whether there are static replicas.
    pub(super) const fn has_fixed(&self) -> bool {
        self.technique.policy().static_replicas.is_some()
    }

    /// Whether there may be several copies of a key.
    pub(super) const fn has_copies(&self) -> bool {
        self.hub || self.has_fixed() || self.technique.policy().replicas.is_some()
    }

    /// The policy of a run.
    pub(super) fn policy(&self, order: Order, caches: bool, every: Tick) -> Policy {
        let own = self.technique.policy();
        let mixed = Policy { relocation: self.relocation(), replicas: self.replicas(every), ..own };
        mixed.with(Some(order), Some(caches))
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
        // Asynchronous workers whose operations are not chained: with caches, these histories are
        // inconsistent.
        let unchained = self.asynchronous == Some(true) && self.order == Some(Order::Fifo);
        let caches = caches && !(moves && unchained && self.caches.is_none());
        let (lazy, eager) = (self.technique == Technique::Ssp, self.technique == Technique::Essp);
        let clocked = (lazy || eager) && !self.hub && several(2);
        let choice = self.choice().filter(|_| several(2));
        let (by_intent, everywhere) = (choice.is_some(), choice == Some(Choice::Everywhere));
        let homes = self.technique.policy().homes_decide();
        // Whether replicas come and go, other than by clocks.
        let comes = (self.hub || by_intent && choice != Some(Choice::Relocate)) && several(2);
        let goes = comes && !everywhere;
        // Whether keys with replicas move.
        let hub = goes && owners;
        let fixed = self.has_fixed() && several(2);
        // With full replication, no access leaves its node.
        let remote = several(2) && self.technique != Technique::FullReplication;
        let overlap = maybe(self.asynchronous) && remote;
        let chains = match self.order {
            Some(Order::Fifo) => self.hub || by_intent || clocked,
            None => !(fixed && self.asynchronous == Some(false)),
            Some(Order::Chain) => true,
        };
        // Where keys are copied as well, they move more rarely.
        let rarely = if self.has_copies() { 5 } else { 1 };
        // By intents, they go where they are wanted, and stay.
        let seldom = if by_intent { 50 } else { rarely };
        match marker {
            Marker::LocalServed => (20, true),
            Marker::RemoteServed | Marker::MixedCall | Marker::DuplicateKey => (50, remote),
            Marker::SeveralChannels => (50, remote),
            Marker::CrowdedChannel | Marker::CrowdedConnection => (50, several(2)),
            Marker::SeveralLengths | Marker::SetServed => (50, true),
            Marker::SeveralOwners => (50, remote && several(3)),
            Marker::ForwardedOnce => {
                (50, (moves || caches && !clocked && !fixed && !by_intent) && several(3))
            }
            Marker::Chained => (100, chains && remote),
            Marker::AsyncOverlap | Marker::KeyOverlap => (50, overlap),
            Marker::AdmissionWaited => (100, overlap),
            Marker::SparseMaterialised => (50, self.storage != Some(Storage::Dense)),
            Marker::SnapshotParts => (50, several(2)),
            Marker::DoublePrecision => (200, true),
            // Few runs have values that long where there are copies.
            Marker::SplitFrame => (2_000, remote && !self.has_copies()),
            Marker::SplitHandOver => (5_000, moves && !self.has_copies()),
            // Under static allocation, a key that was deferred is still elsewhere when its channel looks.
            Marker::InboxRace => (rarely * 100, moves),
            // A request is forwarded twice if a cache leads astray, or a home does not know yet.
            Marker::ForwardedAgain => {
                (rarely * 100, (requesters && caches && !fixed || owners) && several(3))
            }
            Marker::Relocated | Marker::SeveralMoved => (50, moves),
            Marker::Conflicted | Marker::ConflictSeen | Marker::Queued | Marker::WantedTwice => {
                (50, requesters)
            }
            // Between two nodes, everything takes the same connection as the key.
            Marker::QueuedForOther | Marker::DepartureQueued => (rarely * 50, requesters && several(3)),
            Marker::WantedBack => (rarely * 100, requesters && several(3)),
            // Without caches all requests of a node take the way of its wishes to have the key: over the
            // home.
            Marker::CameHome => (rarely * 200, (requesters && caches && !fixed || owners) && several(3)),
            Marker::CacheHit | Marker::CacheStale => (rarely * 100, moves && caches && several(3)),
            // News from an owner comes directly, other news from the next owner: one connection may be
            // faster.
            Marker::OldNews => (rarely * 500, moves && caches && several(3) && maybe(self.asynchronous)),
            Marker::HomeBehind => (rarely * 50, owners),
            Marker::OrderTooLate => (rarely * 50, owners && !by_intent),
            // A home that decides is told of one owner before it makes the next.
            Marker::MovedLate => (seldom * 100, owners && !homes && several(3)),
            Marker::IfLocalHit | Marker::IfLocalMiss => (50, moves),
            Marker::ReplicaSetUp => (20, comes || clocked),
            Marker::ReplicaDropped => (50, goes || clocked && lazy),
            Marker::ReplicaRevived => (100, goes || clocked && lazy),
            Marker::ReplicaClosed => (100, comes || clocked),
            Marker::Promoted | Marker::PromotedUnsent | Marker::HoldersMoved => (100, hub),
            Marker::PromotedUnmerged => (500, hub),
            // The key must have gone over a third node, faster than the acknowledgement.
            // Who decides by intents moves keys straight to their holders, after what these were told.
            Marker::PromotedMerged => (10_000, self.hub && several(3) && maybe(self.asynchronous)),
            Marker::GhostCameHome | Marker::ForwardedSync => (500, hub && several(3)),
            Marker::GhostDelta => (seldom * 100, hub && several(3)),
            // A node must have wanted a copy, given it up, and wanted it again, while the key moved twice.
            Marker::ZombieRefused => (1_000, self.hub && several(3)),
            Marker::StaleDropped => (1_000, hub && several(3)),
            Marker::RefreshBeforeAnswer => (500, comes),
            Marker::AcknowledgedBare => (50, comes || clocked),
            Marker::EarlyAsk => (500, clocked && lazy && self.staleness.is_none_or(|s| s < 5)),
            Marker::LazyDrop => (100, clocked && lazy),
            Marker::EagerNews => (20, clocked && eager),
            Marker::ParkedRead => (50, clocked && self.staleness.is_none_or(|s| s < 5)),
            Marker::ResumeLifted => (100, clocked && several(3)),
            Marker::Agreed => (20, fixed),
            // At most 9 nodes are drawn, at least 3 of them in half of the runs.
            Marker::Folded => (200, fixed && self.nodes.is_none_or(|n| !n.is_power_of_two())),
            // Where workers must ask, no node starts a round for others.
            Marker::RoundCalled => (200, fixed && self.asked != Some(true)),
            Marker::EarlyReduce => (500, fixed && self.nodes.is_none_or(|n| n >= 4)),
            Marker::SplitReduce => (5_000, fixed),
            Marker::Synchronized => (50, fixed),
            Marker::Clipped => (200, fixed),
            Marker::Met | Marker::RestedBetween => (50, self.has_copies()),
            Marker::IntentBegan | Marker::IntentEarly | Marker::IntentLate | Marker::IntentExtended => {
                (50, by_intent)
            }
            Marker::IntentPast | Marker::IntentEmpty | Marker::IntentEnded => (50, by_intent),
            Marker::Slept | Marker::WokenBySignal | Marker::WokenByClock => (50, by_intent),
            Marker::AnnouncedAtRest | Marker::Resumed => (100, by_intent),
            Marker::RelocatedByIntent => (50, by_intent && owners && !homes),
            Marker::RelocatedByDrop | Marker::RelocatedByExpiry => (100, hub && by_intent && !homes),
            Marker::SentByHome | Marker::SentByOrder => (50, by_intent && homes),
            Marker::LostWanted => (500, by_intent && homes && several(3)),
            Marker::Faulty => (50, maybe(self.faults)),
        }
    }
}

impl fmt::Display for Mode {
    /// As on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { technique, by_owners, hub, nodes, calls, asynchronous, order, storage, caches, .. } =
            *self;
        let Self { staleness, asked, faults, .. } = *self;
        if hub {
            write!(f, "--technique hub")?;
        } else {
            write!(f, "--technique {technique}")?;
        }
        if by_owners && !hub {
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
        if let Some(staleness) = staleness {
            write!(f, " --staleness {staleness}")?;
        }
        if let Some(asked) = asked {
            write!(f, " --pace {}", if asked { "asked" } else { "every" })?;
        }
        faults.map_or(Ok(()), |faults| write!(f, " --faults {}", on(faults)))
    }
}
