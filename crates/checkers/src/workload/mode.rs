//! The mode of a set of runs: what all its runs have in common, and the reach markers that the set must
//! reach.

use intendant_core::Tick;
use intendant_engine::Storage;
use intendant_sim::reach::Marker;
use intendant_techniques::{Choice, Initiator, Location, Order, Policy, Replicas, StaticReplicas, Technique};
use std::fmt;

/// What all runs of a set have in common. Options that are `None` are drawn from each run's seed, such that
/// its history is sequentially consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The technique.
    pub technique: Technique,
    /// Whether owners relocate keys at random, instead of the technique's initiator.
    pub by_owners: bool,
    /// Whether, in addition, nodes acquire and drop replicas at random.
    pub hub: bool,
    /// Number of nodes. If drawn, 3 to 5, or 2 to 9 with static replicas.
    pub nodes: Option<usize>,
    /// Calls of all workers together.
    pub calls: u64,
    /// Whether workers make calls while operations are outstanding.
    pub asynchronous: Option<bool>,
    /// Order of a worker's operations on a key.
    pub order: Option<Order>,
    /// Dense or sparse stores.
    pub storage: Option<Storage>,
    /// Whether nodes cache locations. Where keys do not move: whether nodes start with cached locations that
    /// are mostly wrong.
    pub caches: Option<bool>,
    /// How nodes find keys, where they move on request; `None` for their homes.
    pub location: Option<Location>,
    /// The staleness bound, for techniques with one.
    pub staleness: Option<u32>,
    /// Whether static replicas are synchronised only when workers ask for it.
    pub asked: Option<bool>,
    /// Whether a random plan of faults slows connections and nodes down and partitions the network.
    pub faults: Option<bool>,
}

impl Mode {
    /// The mode of a technique with all options drawn.
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
            location: None,
            staleness: None,
            asked: None,
            faults: None,
        }
    }

    /// Nodes acquire and drop replicas at random, of keys that owners relocate at random.
    #[must_use]
    pub const fn hub() -> Self {
        Self { by_owners: true, hub: true, ..Self::new(Technique::Lapse) }
    }

    /// Which node initiates relocations.
    #[must_use]
    pub const fn relocation(&self) -> Option<Initiator> {
        if self.by_owners { Some(Initiator::Owner) } else { self.technique.policy().relocation }
    }

    /// When replicas are acquired and how they are synchronised; `None` without replicas. `every` is the pace
    /// of directed replicas.
    pub(super) fn replicas(&self, every: Tick) -> Option<Replicas> {
        match self.technique.policy().replicas {
            _ if self.hub => Some(Replicas::Directed { every }),
            Some(Replicas::Directed { .. }) => Some(Replicas::Directed { every }),
            other => other,
        }
    }

    /// The rule for intents; `None` if they are ignored.
    pub(super) fn choice(&self) -> Option<Choice> {
        self.technique.policy().intents.filter(|_| !self.hub).map(|intents| intents.choice)
    }

    /// Whether keys may have static replicas.
    pub(super) const fn has_static_replicas(&self) -> bool {
        self.technique.policy().static_replicas.is_some()
    }

    /// Whether keys may have several copies.
    pub(super) const fn has_copies(&self) -> bool {
        self.hub || self.has_static_replicas() || self.technique.policy().replicas.is_some()
    }

    /// Whether operations on a key may take different ways even without caches.
    pub(super) fn takes_ways(&self) -> bool {
        self.location.is_some_and(|location| !location.keeps_order())
    }

    /// The policy of a run.
    pub(super) fn policy(&self, order: Order, caches: bool, every: Tick) -> Policy {
        let own = self.technique.policy();
        let mixed = Policy { relocation: self.relocation(), replicas: self.replicas(every), ..own };
        mixed.located(self.location).with(Some(order), Some(caches))
    }

    /// The markers that a set of runs in this mode must reach, each with the number of runs that suffices for
    /// it.
    pub fn expected(&self) -> Vec<(Marker, u64)> {
        let expected = Marker::ALL.iter().filter_map(|marker| {
            let (runs, expected) = self.expects(*marker);
            expected.then_some((*marker, runs))
        });
        expected.collect()
    }

    /// The number of runs after which `marker` must have been reached, and whether it is expected at all.
    fn expects(&self, marker: Marker) -> (u64, bool) {
        let several = |nodes| self.nodes.is_none_or(|n| n >= nodes);
        let maybe = |choice: Option<bool>| choice != Some(false);
        let requesters = self.relocation() == Some(Initiator::Requester) && several(2);
        let owners = self.relocation() == Some(Initiator::Owner) && several(2);
        let moves = requesters || owners;
        let location = self.location.unwrap_or(self.technique.policy().location);
        let is_home = matches!(location, Location::Home { .. });
        let caches = maybe(self.caches) && is_home;
        let (broadcast, elsewhere) = (location == Location::BroadcastOperations, !is_home);
        // Asynchronous workers with unchained operations: with caches, their histories are inconsistent, so
        // no caches are drawn.
        let unchained = self.asynchronous == Some(true) && self.order == Some(Order::Fifo);
        let caches = caches && !(moves && unchained && self.caches.is_none());
        // Whether requests take several ways, and are forwarded.
        let ways = caches || elsewhere && !broadcast;
        let policy = self.technique.policy();
        let (lazy, eager) =
            (policy.replicas == Some(Replicas::Lazy), policy.replicas == Some(Replicas::Eager));
        let clocked = (lazy || eager) && !self.hub && several(2);
        let choice = self.choice().filter(|_| several(2));
        let (by_intent, everywhere) = (choice.is_some(), choice == Some(Choice::Everywhere));
        let homes = policy.homes_decide();
        // Whether replicas are acquired and dropped, other than by clocks.
        let comes = (self.hub || by_intent && choice != Some(Choice::Relocate)) && several(2);
        let goes = comes && !everywhere;
        // Whether keys with replicas move.
        let hub = goes && owners;
        let static_replicas = self.has_static_replicas() && several(2);
        // With full replication, every access is local.
        let remote = several(2) && policy.static_replicas != Some(StaticReplicas::All);
        let overlap = maybe(self.asynchronous) && remote;
        let chains = match self.order {
            Some(Order::Fifo) => self.hub || by_intent || clocked,
            None => !(static_replicas && self.asynchronous == Some(false)),
            Some(Order::Chain) => true,
        };
        // Keys that are replicated as well move more rarely.
        let rarely = if self.has_copies() { 5 } else { 1 };
        // By intents, keys move where they are needed, and stay there.
        let seldom = if by_intent { 50 } else { rarely };
        match marker {
            Marker::LocalServed => (20, true),
            Marker::Lent => (50, true),
            Marker::LentReplica => (100, comes || clocked),
            Marker::LentNotYet => (200, moves && overlap),
            Marker::RemoteServed | Marker::MixedCall | Marker::DuplicateKey => (50, remote),
            Marker::SeveralChannels => (50, remote),
            Marker::CrowdedChannel | Marker::CrowdedConnection => (50, several(2)),
            Marker::RunSent => (100, remote && !clocked),
            // Calls have few keys, and are seldom repeated. Compressed are long values only.
            Marker::Compressed => (2_000, remote && !self.has_copies() && !broadcast),
            // A list that is worth remembering has four keys. Where calls are chained each of them is another
            // key, and such lists do not repeat in small runs.
            Marker::ListReused => {
                let fifo = self.order != Some(Order::Chain);
                (2_000, remote && fifo && !self.has_copies() && !broadcast)
            }
            Marker::HeldBack => (100, comes),
            Marker::SeveralLengths | Marker::SetServed => (50, true),
            Marker::SeveralOwners => (50, remote && several(3)),
            Marker::ForwardedOnce => (
                50,
                !broadcast && (moves || caches && !clocked && !static_replicas && !by_intent) && several(3),
            ),
            Marker::Chained => (100, chains && remote),
            Marker::AsyncOverlap | Marker::KeyOverlap => (50, overlap),
            Marker::AdmissionWaited => (100, overlap),
            Marker::SparseMaterialised => (50, self.storage != Some(Storage::Dense)),
            Marker::SnapshotParts => (50, several(2)),
            Marker::DoublePrecision => (200, true),
            Marker::Combined => (100, self.has_copies()),
            // Not where workers push the same keys too often: see `replicas::precision`.
            Marker::Rounded => (100, comes && self.calls <= 200),
            Marker::Ruled => (100, true),
            Marker::RuledAtClocks => (100, clocked),
            // Runs that crash are another workload: `crate::restart`.
            Marker::CutCommitted
            | Marker::Crashed
            | Marker::CrashedInCut
            | Marker::CrashedBeforeManifest
            | Marker::ResumedWithin
            | Marker::ResumedElsewhere
            | Marker::ResumedAtStart
            | Marker::WentOn
            | Marker::WentOnWithin
            | Marker::WentOnWithoutSeveral
            | Marker::WentOnWithAll
            | Marker::LostWhileEntering
            | Marker::LoadedFromAnother
            | Marker::Unloaded
            | Marker::Joined
            | Marker::Left
            | Marker::CannotGoOn
            | Marker::ViewFollowed
            | Marker::JoinedView
            | Marker::ViewSpoilt
            | Marker::ViewVoid
            | Marker::LeftView
            | Marker::NodesDivided
            | Marker::PassedOver
            | Marker::SearchStuck => (1, false),
            // So are one-sided operations: `crate::lapser`.
            Marker::TornRead
            | Marker::StaleRead
            | Marker::TornLook
            | Marker::Reread
            | Marker::HintLost
            | Marker::HintMerged
            | Marker::HintInVain
            | Marker::LateLook
            | Marker::HintOfSeveral
            | Marker::SetWaited
            | Marker::Prefetched
            | Marker::DiedInside
            | Marker::ProducerLost
            | Marker::GotAfterLoss
            | Marker::GetBeyond => (1, false),
            // Few runs with copies have values that are long enough.
            Marker::SplitFrame => (2_000, remote && !self.has_copies() && !broadcast),
            Marker::SplitHandOver => (5_000, moves && !self.has_copies()),
            // Under static allocation, a deferred key is still at another node when its channel handles it.
            Marker::InboxRace => (rarely * 100, moves),
            Marker::QueueServed => (100, true),
            // A request is forwarded twice if a cached location is wrong, or the home does not know the owner
            // yet.
            Marker::ForwardedAgain => {
                (rarely * 100, (requesters && ways && !static_replicas || owners) && several(3))
            }
            Marker::Relocated | Marker::SeveralMoved => (50, moves),
            Marker::ConflictSeen | Marker::Queued | Marker::WantedTwice => (50, requesters),
            Marker::Conflicted => (50, requesters && location.has_homes()),
            // Between two nodes, all messages take the same connection as the key.
            Marker::QueuedForOther | Marker::DepartureQueued => (rarely * 50, requesters && several(3)),
            Marker::WantedBack => (rarely * 100, requesters && location.has_homes() && several(3)),
            // Without caches, all requests of a node take the way of its localize messages: over the home.
            Marker::CameHome => {
                (rarely * 200, (requesters && ways && !static_replicas || owners) && several(3))
            }
            Marker::CacheHit | Marker::CacheStale => {
                (rarely * 100, moves && (caches || elsewhere) && several(3))
            }
            // One location comes from the owner directly, the other from the next owner: one connection may
            // be faster.
            Marker::OldNews => (rarely * 500, moves && caches && several(3) && maybe(self.asynchronous)),
            Marker::HomeBehind => (rarely * 50, owners),
            Marker::OrderTooLate => (rarely * 50, owners && !by_intent),
            // A home that decides receives the notice of one owner before it decides on the next.
            Marker::MovedLate => (seldom * 100, owners && !homes && several(3)),
            Marker::IfLocalHit | Marker::IfLocalMiss => (50, moves),
            // A key that goes to all nodes at its first intent has no mirrors.
            Marker::WindowRead => (if by_intent { 500 } else { 100 }, remote && !clocked && !everywhere),
            Marker::ReplicaSetUp => (20, comes || clocked),
            Marker::ReplicaDropped => (50, goes || clocked && lazy),
            Marker::ReplicaRevived => (100, goes || clocked && lazy),
            Marker::ReplicaClosed => (100, comes || clocked),
            Marker::Promoted | Marker::PromotedUnsent | Marker::HoldersMoved => (100, hub),
            Marker::PromotedUnmerged => (500, hub),
            // The key must have moved over a third node, faster than the acknowledgement. Owners that decide
            // by intents move keys directly to their holders, after the messages to these.
            Marker::PromotedMerged => (10_000, self.hub && several(3) && maybe(self.asynchronous)),
            Marker::GhostCameHome | Marker::ForwardedSync => (500, hub && several(3)),
            Marker::GhostDelta => (seldom * 100, hub && several(3)),
            // A node must have requested, dropped and requested a replica again, while the key moved twice.
            Marker::ZombieRefused => (1_000, self.hub && several(3)),
            Marker::StaleDropped => (1_000, hub && several(3)),
            Marker::RefreshBeforeAnswer => (500, comes),
            Marker::AcknowledgedBare => (50, comes || clocked),
            Marker::EarlyAsk => (500, clocked && lazy && self.staleness.is_none_or(|s| s < 5)),
            Marker::LazyDrop => (100, clocked && lazy),
            Marker::EagerNews => (20, clocked && eager),
            Marker::ParkedRead => (50, clocked && self.staleness.is_none_or(|s| s < 5)),
            Marker::ResumeLifted => (100, clocked && several(3)),
            Marker::Agreed => (20, static_replicas),
            // Between 2 and 9 nodes are drawn; most of these numbers are not powers of two.
            Marker::Folded => (200, static_replicas && self.nodes.is_none_or(|n| !n.is_power_of_two())),
            // Where workers must ask, no node starts a round on a message of another.
            Marker::RoundCalled => (200, static_replicas && self.asked != Some(true)),
            Marker::EarlyReduce => (500, static_replicas && self.nodes.is_none_or(|n| n >= 4)),
            Marker::SplitReduce => (5_000, static_replicas),
            Marker::Synchronized => (50, static_replicas),
            Marker::Clipped => (200, static_replicas),
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
            Marker::BroadcastAgain | Marker::BroadcastDecided => (200, broadcast && several(3)),
            Marker::Faulty => (50, maybe(self.faults)),
        }
    }
}

impl fmt::Display for Mode {
    /// As options of `cargo xtask sim`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { technique, by_owners, hub, nodes, calls, asynchronous, order, storage, caches, .. } =
            *self;
        let Self { location, staleness, asked, faults, .. } = *self;
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
            write!(f, " --storage {storage}")?;
        }
        let on = |switch| if switch { "on" } else { "off" };
        if let Some(caches) = caches {
            write!(f, " --caches {}", on(caches))?;
        }
        if let Some(location) = location {
            write!(f, " --location {location}")?;
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
