//! Reach markers: situations that a set of runs must have been in, or its success says nothing.

use std::fmt;

macro_rules! markers {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A situation that a run can reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Marker {
            $($(#[$doc])* $name,)*
        }

        impl Marker {
            /// All markers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

markers! {
    /// A whole call was served by the worker itself.
    LocalServed = "local_served",
    /// A part of a call was answered by another node.
    RemoteServed = "remote_served",
    /// One call had keys served here and keys served elsewhere.
    MixedCall = "mixed_call",
    /// One call was answered by several nodes.
    SeveralOwners = "several_owners",
    /// One call was split over several channels.
    SeveralChannels = "several_channels",
    /// One call had values of different lengths.
    SeveralLengths = "several_lengths",
    /// A key occurred twice in a call and was deferred.
    DuplicateKey = "duplicate_key",
    /// A request went where a stale hint pointed and was forwarded.
    ForwardedOnce = "forwarded_once",
    /// A request was forwarded more than once.
    ForwardedAgain = "forwarded_again",
    /// An operation waited in its channel for the worker's outstanding one on the key.
    Chained = "chained",
    /// A key was deferred by the worker and served by the channel without a message.
    InboxRace = "inbox_race",
    /// A request was split over several frames because of its length.
    SplitFrame = "split_frame",
    /// A worker had several operations outstanding.
    AsyncOverlap = "async_overlap",
    /// A worker had several operations on one key outstanding.
    KeyOverlap = "key_overlap",
    /// A call waited because too many bytes were outstanding.
    AdmissionWaited = "admission_waited",
    /// A sparse store made a value when it was first touched.
    SparseMaterialised = "sparse_materialised",
    /// A value was overwritten.
    SetServed = "set_served",
    /// Several frames were under way on one connection.
    CrowdedConnection = "crowded_connection",
    /// A channel had inputs of several sources to choose from.
    CrowdedChannel = "crowded_channel",
    /// Snapshot parts came from other nodes, and not all at once.
    SnapshotParts = "snapshot_parts",
    /// A key arrived at a new owner.
    Relocated = "relocated",
    /// Several keys arrived in one frame.
    SeveralMoved = "several_moved",
    /// Keys left for one node in several frames because of their length.
    SplitHandOver = "split_hand_over",
    /// A node wanted a key that another one was about to get.
    Conflicted = "conflicted",
    /// A worker accessed a key that its node had localized, and another node has it.
    ConflictSeen = "conflict_seen",
    /// An access waited for its key to arrive.
    Queued = "queued",
    /// An access of another node did.
    QueuedForOther = "queued_for_other",
    /// A key was to leave before it had arrived.
    DepartureQueued = "departure_queued",
    /// A key was wanted back before it had arrived and left.
    WantedBack = "wanted_back",
    /// A key was wanted that was on its way already.
    WantedTwice = "wanted_twice",
    /// A request came back to its own node, where the key was or would be.
    CameHome = "came_home",
    /// A request went where the key was seen, and the key was there.
    CacheHit = "cache_hit",
    /// A request went where the key was seen, and the key was gone.
    CacheStale = "cache_stale",
    /// A node learnt where a key was, and knew better.
    OldNews = "old_news",
    /// An owner forwarded what the home had sent to it, because the home did not know yet that the key was
    /// gone.
    HomeBehind = "home_behind",
    /// A home was told of an owner, and knew of a later one.
    MovedLate = "moved_late",
    /// A node was to move a key that it did not own any more.
    OrderTooLate = "order_too_late",
    /// A key was pulled because it was here.
    IfLocalHit = "if_local_hit",
    /// A key was not pulled because it was not here.
    IfLocalMiss = "if_local_miss",
    /// A replica was set up.
    ReplicaSetUp = "replica_set_up",
    /// A replica was given up.
    ReplicaDropped = "replica_dropped",
    /// A replica that was about to be given up was asked for anew.
    ReplicaRevived = "replica_revived",
    /// A replica was given up because its value was to be overwritten.
    ReplicaClosed = "replica_closed",
    /// The main copy came to where a replica was.
    Promoted = "promoted",
    /// It had updates that had not been sent.
    PromotedUnsent = "promoted_unsent",
    /// A delta of it was in flight that had been merged.
    PromotedMerged = "promoted_merged",
    /// A delta of it was in flight that had not.
    PromotedUnmerged = "promoted_unmerged",
    /// A delta came to an owner when its registration was over.
    GhostDelta = "ghost_delta",
    /// A holder's message came to the holder, which owned the key by then.
    GhostCameHome = "ghost_came_home",
    /// A holder's message followed a key that had moved.
    ForwardedSync = "forwarded_sync",
    /// A key moved that had holders elsewhere.
    HoldersMoved = "holders_moved",
    /// A replica came to a node that did not want it any more.
    ZombieRefused = "zombie_refused",
    /// A holder was sent a newer value right before an answer to its worker.
    RefreshBeforeAnswer = "refresh_before_answer",
    /// A delta was acknowledged without a value.
    AcknowledgedBare = "acknowledged_bare",
    /// The end of a registration was heard of after the next one had begun.
    StaleDropped = "stale_dropped",
    /// A holder asked as of a clock that had not come.
    EarlyAsk = "early_ask",
    /// A read waited for the staleness bound.
    ParkedRead = "parked_read",
    /// A replica was given up because it was too old.
    LazyDrop = "lazy_drop",
    /// An owner told holders that the global clock had advanced.
    EagerNews = "eager_news",
    /// A node came from a meeting, and others were known to be in it still.
    ResumeLifted = "resume_lifted",
    /// All nodes agreed on static replicas after a round.
    Agreed = "agreed",
    /// A node contributed to an all-reduce through another one.
    Folded = "folded",
    /// A message of an all-reduce came before the round before it was over.
    EarlyReduce = "early_reduce",
    /// A node started an all-reduce because another one had.
    RoundCalled = "round_called",
    /// A message of an all-reduce was split over several frames because of its length.
    SplitReduce = "split_reduce",
    /// A worker waited for static replicas to be brought in step.
    Synchronized = "synchronized",
    /// An intent began when its worker came to its start.
    IntentBegan = "intent_began",
    /// An intent began before its start.
    IntentEarly = "intent_early",
    /// An intent began after its start.
    IntentLate = "intent_late",
    /// An intent began for a key that the node had active intent for.
    IntentExtended = "intent_extended",
    /// An intent was over before its node looked at it.
    IntentPast = "intent_past",
    /// An intent was for no clock at all.
    IntentEmpty = "intent_empty",
    /// An intent was over after it had begun.
    IntentEnded = "intent_ended",
    /// A channel went to sleep, because nothing happened that it waits for.
    Slept = "slept",
    /// A worker's announcement woke it.
    WokenBySignal = "woken_by_signal",
    /// A worker's clock woke it.
    WokenByClock = "woken_by_clock",
    /// Something was announced while the cluster rested.
    AnnouncedAtRest = "announced_at_rest",
    /// A channel that was held while the cluster rested went on.
    Resumed = "resumed",
    /// A key moved to the node that had just told its intent.
    RelocatedByIntent = "relocated_by_intent",
    /// A key moved because all other nodes had given their replicas up.
    RelocatedByDrop = "relocated_by_drop",
    /// A key moved because its owner's own intent was over.
    RelocatedByExpiry = "relocated_by_expiry",
    /// A home that owned a key handed it over to the node that alone wanted it.
    SentByHome = "sent_by_home",
    /// An owner handed a key over because its home had told it to.
    SentByOrder = "sent_by_order",
    /// It wanted the key itself, which the home had not heard of.
    LostWanted = "lost_wanted",
    /// All workers met while there was work left.
    Met = "met",
    /// The cluster came to rest while there was work left.
    RestedBetween = "rested_between",
    /// Updates were scaled down.
    Clipped = "clipped",
    /// Something was wrong with the network or the machines for some time.
    Faulty = "faulty",
    /// Elements were double precision.
    DoublePrecision = "double_precision",
}

/// How often each marker was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    counts: [u64; Marker::ALL.len()],
}

impl Default for Reach {
    fn default() -> Self {
        Self { counts: [0; Marker::ALL.len()] }
    }
}

impl Reach {
    /// Notes that `marker` was reached.
    #[inline]
    pub fn mark(&mut self, marker: Marker) {
        self.counts[marker as usize] += 1;
    }

    /// How often `marker` was reached.
    #[must_use]
    pub fn count(&self, marker: Marker) -> u64 {
        self.counts[marker as usize]
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }
}

impl fmt::Display for Reach {
    /// The markers that were reached, with how often.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = Marker::ALL.iter().filter(|marker| self.count(**marker) > 0);
        for (at, marker) in reached.enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}={}", marker.name(), self.count(*marker))?;
        }
        Ok(())
    }
}
