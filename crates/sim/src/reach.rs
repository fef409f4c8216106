//! Reach markers: counters of situations. A set of runs proves nothing about a situation that none of them
//! has reached, so each set has markers that it must reach.

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
    /// The fast path served a whole call.
    LocalServed = "local_served",
    /// Another node answered a part of a call.
    RemoteServed = "remote_served",
    /// The fast path served some keys of a call and deferred others.
    MixedCall = "mixed_call",
    /// One call deferred keys with different homes.
    SeveralOwners = "several_owners",
    /// One call was split over several channels.
    SeveralChannels = "several_channels",
    /// One call had values of different lengths.
    SeveralLengths = "several_lengths",
    /// A key occurred twice in a call and was deferred.
    DuplicateKey = "duplicate_key",
    /// A request was forwarded once.
    ForwardedOnce = "forwarded_once",
    /// A request was forwarded more than once.
    ForwardedAgain = "forwarded_again",
    /// An operation waited in its channel for the worker's outstanding operation on the same key.
    Chained = "chained",
    /// The fast path deferred a key that the channel could serve without a message.
    InboxRace = "inbox_race",
    /// A channel served a worker that accesses all values through queues.
    QueueServed = "queue_served",
    /// A request was split over several frames because of its length.
    SplitFrame = "split_frame",
    /// A worker had several operations outstanding.
    AsyncOverlap = "async_overlap",
    /// A worker had several operations on one key outstanding.
    KeyOverlap = "key_overlap",
    /// A call waited because too many bytes were outstanding.
    AdmissionWaited = "admission_waited",
    /// A sparse store created a value at its first access.
    SparseMaterialised = "sparse_materialised",
    /// A worker changed a row in place.
    Lent = "lent",
    /// A worker changed a replica in place.
    LentReplica = "lent_replica",
    /// A worker was not lent a row of a key that its node owned, because of its own outstanding operation or
    /// of its clock.
    LentNotYet = "lent_not_yet",
    /// A worker issued a set.
    SetServed = "set_served",
    /// Several frames were in flight on one connection.
    CrowdedConnection = "crowded_connection",
    /// Keys or positions of a frame were a progression.
    RunSent = "run_sent",
    /// A frame referred to a list that its connection had carried before.
    ListReused = "list_reused",
    /// A frame was compressed.
    Compressed = "compressed",
    /// A round held the updates of a replica back because they were not significant.
    HeldBack = "held_back",
    /// A channel had inputs from several sources to choose from.
    CrowdedChannel = "crowded_channel",
    /// Another node sent a snapshot in more than one part.
    SnapshotParts = "snapshot_parts",
    /// A key arrived at a new owner.
    Relocated = "relocated",
    /// Several keys arrived in one frame.
    SeveralMoved = "several_moved",
    /// Keys handed over to one node were split over several frames because of their length.
    SplitHandOver = "split_hand_over",
    /// A home decided to relocate a key before its previous relocation had ended.
    Conflicted = "conflicted",
    /// A worker accessed a key that its node had localized and another node had taken since.
    ConflictSeen = "conflict_seen",
    /// An access waited for its key to arrive.
    Queued = "queued",
    /// An access of another node waited for its key to arrive.
    QueuedForOther = "queued_for_other",
    /// A node was ordered to hand a key over before it had arrived.
    DepartureQueued = "departure_queued",
    /// A worker localized a key that was to leave its node directly after arriving.
    WantedBack = "wanted_back",
    /// A worker localized a key that was already on its way to the node.
    WantedTwice = "wanted_twice",
    /// A request was forwarded to the node that issued it.
    CameHome = "came_home",
    /// A request went to a cached location, and the key was there.
    CacheHit = "cache_hit",
    /// A request went to a cached location, and the key was gone.
    CacheStale = "cache_stale",
    /// A node received a location older than the one that it knew.
    OldNews = "old_news",
    /// A former owner forwarded a request of the home, which had not heard of the relocation yet.
    HomeBehind = "home_behind",
    /// A home received a notice of an owner, and knew a later one.
    MovedLate = "moved_late",
    /// A node's decision to relocate a key came after it had lost the key.
    OrderTooLate = "order_too_late",
    /// A worker read a key in the window of another node.
    WindowRead = "window_read",
    /// `pull_if_local` read a key.
    IfLocalHit = "if_local_hit",
    /// `pull_if_local` skipped a key.
    IfLocalMiss = "if_local_miss",
    /// A replica was set up.
    ReplicaSetUp = "replica_set_up",
    /// A holder dropped a replica.
    ReplicaDropped = "replica_dropped",
    /// A holder asked again for a replica that it was about to drop.
    ReplicaRevived = "replica_revived",
    /// A holder dropped a replica because a worker overwrites the value.
    ReplicaClosed = "replica_closed",
    /// The main copy arrived at a holder without a delta in flight.
    Promoted = "promoted",
    /// The main copy arrived at a holder with unsent updates.
    PromotedUnsent = "promoted_unsent",
    /// The main copy arrived at a holder whose delta in flight had been merged.
    PromotedMerged = "promoted_merged",
    /// The main copy arrived at a holder whose delta in flight had not been merged.
    PromotedUnmerged = "promoted_unmerged",
    /// A delta reached an owner after the registration had ended.
    GhostDelta = "ghost_delta",
    /// A holder's message reached the holder itself, which had become the owner.
    GhostCameHome = "ghost_came_home",
    /// A holder's message was forwarded because the key had moved.
    ForwardedSync = "forwarded_sync",
    /// A key with registered holders moved.
    HoldersMoved = "holders_moved",
    /// A replica was set up at a node that did not want it any more.
    ZombieRefused = "zombie_refused",
    /// An owner refreshed a holder directly before it answered a worker of that node.
    RefreshBeforeAnswer = "refresh_before_answer",
    /// An owner acknowledged a delta without sending a value.
    AcknowledgedBare = "acknowledged_bare",
    /// A holder received the end of a registration after the next one had begun.
    StaleDropped = "stale_dropped",
    /// A holder asked for a clock that had not come yet.
    EarlyAsk = "early_ask",
    /// A read waited for the staleness bound.
    ParkedRead = "parked_read",
    /// A holder dropped a replica because it was too old (`ssp`).
    LazyDrop = "lazy_drop",
    /// An owner notified holders that the global clock had advanced (`essp`).
    EagerNews = "eager_news",
    /// A node left a meeting while another node counted as resting.
    ResumeLifted = "resume_lifted",
    /// A node completed a round of an all-reduce.
    Agreed = "agreed",
    /// A node contributed to an all-reduce through a partner node.
    Folded = "folded",
    /// A message of an all-reduce arrived before the previous round had ended.
    EarlyReduce = "early_reduce",
    /// A message of another node started a round.
    RoundCalled = "round_called",
    /// A message of an all-reduce was split over several frames because of its length.
    SplitReduce = "split_reduce",
    /// A worker waited for the synchronisation of static replicas.
    Synchronized = "synchronized",
    /// An intent began at its start clock.
    IntentBegan = "intent_began",
    /// An intent began before its start clock.
    IntentEarly = "intent_early",
    /// An intent began after its start clock.
    IntentLate = "intent_late",
    /// An intent began for a key with active intent on the node.
    IntentExtended = "intent_extended",
    /// An intent ended before its channel saw it.
    IntentPast = "intent_past",
    /// An intent had an empty window.
    IntentEmpty = "intent_empty",
    /// An active intent ended.
    IntentEnded = "intent_ended",
    /// A channel fell asleep after an intent round.
    Slept = "slept",
    /// An intent signal woke a channel.
    WokenBySignal = "woken_by_signal",
    /// A worker's clock woke a channel.
    WokenByClock = "woken_by_clock",
    /// A loader signalled an intent while the cluster rested.
    AnnouncedAtRest = "announced_at_rest",
    /// A channel that was held while the cluster rested continued.
    Resumed = "resumed",
    /// An owner handed a key over to the node whose request it handled.
    RelocatedByIntent = "relocated_by_intent",
    /// An owner handed a key over to the last holder after another holder had dropped its replica.
    RelocatedByDrop = "relocated_by_drop",
    /// An owner handed a key over to the only holder when its own intent ended.
    RelocatedByExpiry = "relocated_by_expiry",
    /// A home that owned a key handed it over to the only node with intent.
    SentByHome = "sent_by_home",
    /// An owner handed a key over on an order of its home.
    SentByOrder = "sent_by_order",
    /// An owner handed a key over on an order of its home while it had active intent itself, which the home
    /// did not know yet.
    LostWanted = "lost_wanted",
    /// All workers met while they had calls left.
    Met = "met",
    /// The cluster rested while workers had calls left.
    RestedBetween = "rested_between",
    /// A final value lacks a part of its updates because they were clipped.
    Clipped = "clipped",
    /// A broadcast reached no owner, and its node sent it again.
    BroadcastAgain = "broadcast_again",
    /// A broadcast reached the owner of a key, and an earlier owner had decided it.
    BroadcastDecided = "broadcast_decided",
    /// The run had a plan of faults.
    Faulty = "faulty",
    /// Elements were `f64`.
    DoublePrecision = "double_precision",
    /// Updates of several copies were combined by the rule of AdaGrad.
    Combined = "combined",
    /// Elements of deltas and of values for replicas were bfloat16.
    Rounded = "rounded",
    /// Pushes were applied by a rule.
    Ruled = "ruled",
    /// The sum of pushes was applied by a rule at clocks.
    RuledAtClocks = "ruled_at_clocks",
    /// A checkpoint was committed.
    CutCommitted = "cut_committed",
    /// A node died.
    Crashed = "crashed",
    /// A node died while its cluster came to rest for a cut, or copied it.
    CrashedInCut = "crashed_in_cut",
    /// A node died after a part of a cut was written, and before its manifest was.
    CrashedBeforeManifest = "crashed_before_manifest",
    /// A run started again in the middle of an epoch.
    ResumedWithin = "resumed_within",
    /// The same, with another number of nodes or workers.
    ResumedElsewhere = "resumed_elsewhere",
    /// A run started again from its beginning, as there was no checkpoint yet.
    ResumedAtStart = "resumed_at_start",
    /// A run with copies went on without a node that was lost.
    WentOn = "went_on",
    /// It went on in the middle of an epoch.
    WentOnWithin = "went_on_within",
    /// It went on without several nodes that were lost at once.
    WentOnWithoutSeveral = "went_on_without_several",
    /// Nodes of a run with copies lost their connections, and it went on with all of them.
    WentOnWithAll = "went_on_with_all",
    /// A node was lost while the next view began.
    LostWhileEntering = "lost_while_entering",
    /// A process died that a node of the next view asked for a part, and another one sent the part.
    LoadedFromAnother = "loaded_from_another",
    /// A view did not begin because all processes died that held a part.
    Unloaded = "unloaded",
    /// Nodes joined a run.
    Joined = "joined",
    /// Nodes left a run.
    Left = "left",
    /// Too many nodes were lost for a run to go on.
    CannotGoOn = "cannot_go_on",
    /// A process entered a view that follows another one.
    ViewFollowed = "view_followed",
    /// A process joined with a view.
    JoinedView = "joined_view",
    /// A view did not begin because of a process that joined.
    ViewSpoilt = "view_spoilt",
    /// A view was chosen that no process entered.
    ViewVoid = "view_void",
    /// A process left a run that went on.
    LeftView = "left_view",
    /// Some processes did not reach others for a while.
    NodesDivided = "nodes_divided",
    /// A process that joined with a view that did not begin ended.
    PassedOver = "passed_over",
    /// The processes that were left could not go on.
    SearchStuck = "search_stuck",
    /// A one-sided read had an image that was torn.
    TornRead = "torn_read",
    /// A one-sided read had an image that was older than what a get needed.
    StaleRead = "stale_read",
    /// A node looked at a pushed value that was torn.
    TornLook = "torn_look",
    /// A node began a one-sided read of a value again.
    Reread = "reread",
    /// A hint was lost.
    HintLost = "hint_lost",
    /// A hint was merged with an equal one that waited for the same node.
    HintMerged = "hint_merged",
    /// After a hint, no get had its value: it was for another item, or too old.
    HintInVain = "hint_in_vain",
    /// A get had its value when its node looked without a hint.
    LateLook = "late_look",
    /// One hint announced several items.
    HintOfSeveral = "hint_of_several",
    /// A set waited until the item's previous value was written to all consumers.
    SetWaited = "set_waited",
    /// Values were prefetched.
    Prefetched = "prefetched",
    /// A node ended while its one-sided operation, or one on its memory, had been executed partly.
    DiedInside = "died_inside",
    /// A get failed because the producer of its item was gone.
    ProducerLost = "producer_lost",
    /// A get of an item of a node that was gone had its value.
    GotAfterLoss = "got_after_loss",
    /// A get failed because the producer of its item had finished with an older value.
    GetBeyond = "get_beyond",
}

/// Counts of all markers.
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
    /// Counts `marker`.
    #[inline]
    pub fn mark(&mut self, marker: Marker) {
        self.counts[marker as usize] += 1;
    }

    /// The count of `marker`.
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
    /// The markers that were reached, with their counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = Marker::ALL.iter().filter(|marker| self.count(**marker) > 0);
        for (at, marker) in reached.enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}={}", marker.name(), self.count(*marker))?;
        }
        Ok(())
    }
}
