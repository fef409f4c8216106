//! One channel of a node: its state, and what it does with an input. What happens to accesses, relocations and snapshots is in
//! the modules of these names.

use crate::accesses::Access;
use crate::batch::Batch;
use crate::buffers::Room;
use crate::copies::CopyMessages;
use crate::decisions::Decisions;
use crate::error::Violation;
use crate::fixed::{FixedKeys, Start};
use crate::holding::Holding;
use crate::homes::Homes;
use crate::hubs::Hubs;
use crate::input::{Action, Completion, Input, Kind, SnapshotAsk, Submission};
use crate::intents::Intents;
use crate::moves::Moves;
use crate::quiesce::ChannelReport;
use crate::relocations::{Arrival, Departed};
use crate::replies::Replies;
use crate::shared::Shared;
use crate::staleness::Staleness;
use crate::stats::ManagementStats;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, NodeId, Tick, WorkerId};
use intendant_techniques::Replicas;
use intendant_wire::{AccessKind, Message, OpId, Origin, Response};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) type Hash = foldhash::fast::FixedState;

/// An operation that waits for answers.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    keys: Vec<Key>,
    /// Ascending; parallel to `keys`.
    positions: Vec<u32>,
    /// Whether the position has been answered.
    answered: Vec<bool>,
    left: usize,
}

/// An operation on one key that waits for the worker's outstanding one.
pub(crate) struct Link {
    pub(crate) op: OpId,
    pub(crate) kind: AccessKind,
    pub(crate) position: u32,
    pub(crate) operand: Bytes,
    pub(crate) clock: u32,
    pub(crate) need: u32,
}

/// One channel of a node.
pub struct Channel<E> {
    pub(crate) id: ChannelId,
    pub(crate) shared: Arc<Shared<E>>,
    /// Of the current input.
    pub(crate) now: Tick,
    pub(crate) pending: HashMap<(WorkerId, OpId), Pending, Hash>,
    pub(crate) snapshots: HashMap<(WorkerId, OpId), SnapshotAsk, Hash>,
    /// Per worker and key with an outstanding operation: the operations that wait for it. Only with
    /// [`intendant_techniques::Order::Chain`].
    pub(crate) chains: HashMap<(WorkerId, Key), VecDeque<Link>, Hash>,
    /// Keys that are on their way here, with what waits for them.
    pub(crate) arrivals: HashMap<Key, Arrival, Hash>,
    pub(crate) departed: Departed,
    pub(crate) replies: Replies,
    pub(crate) batch: Batch,
    pub(crate) moves: Moves,
    pub(crate) holding: Holding<E>,
    pub(crate) hubs: Hubs,
    pub(crate) copies: CopyMessages,
    pub(crate) staleness: Staleness,
    pub(crate) fixed: FixedKeys<E>,
    pub(crate) intents: Intents,
    pub(crate) homes: Homes,
    pub(crate) decisions: Decisions,
    /// Keys that workers have noted; empty between uses.
    pub(crate) noted: Vec<Key>,
    /// The value that a replica is told, for as long as that takes.
    pub(crate) news: Vec<E>,
    /// When the next round of deltas and news may start, and when its pace alone would let it.
    next_round: Tick,
    paced_round: Tick,
    pub(crate) stats: ManagementStats,
    sent: u64,
    received: u64,
}

impl<E: Element> Channel<E> {
    /// A channel at the start: before the first access of a worker, since static replicas are measured against what they are
    /// now.
    #[must_use]
    pub fn new(id: ChannelId, shared: Arc<Shared<E>>) -> Self {
        let fixed = FixedKeys::new(&shared, id);
        let staleness = Staleness::new(shared.layout().nodes());
        let intents = Intents::new(&shared);
        let watched = shared.copies().watched.iter().copied();
        let decisions = Decisions::new(watched.filter(|key| shared.layout().channel(*key) == id));
        Self {
            id,
            shared,
            holding: Holding::default(),
            hubs: Hubs::default(),
            copies: CopyMessages::default(),
            staleness,
            fixed,
            intents,
            homes: Homes::default(),
            decisions,
            noted: Vec::new(),
            news: Vec::new(),
            next_round: Tick(0),
            paced_round: Tick(0),
            now: Tick(0),
            pending: HashMap::default(),
            snapshots: HashMap::default(),
            chains: HashMap::default(),
            arrivals: HashMap::default(),
            departed: Departed::default(),
            replies: Replies::default(),
            batch: Batch::default(),
            moves: Moves::default(),
            stats: ManagementStats::default(),
            sent: 0,
            received: 0,
        }
    }

    /// The channel's id.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// What is outstanding, and what was sent and received: see [`crate::quiesce`].
    pub fn report(&self) -> ChannelReport {
        ChannelReport {
            outstanding: (self.pending.len()
                + self.snapshots.len()
                + self.arrivals.len()
                + self.unsettled()
                + self.holding.dirty.len()
                + self.hubs.unsent.len()
                + self.fixed.outstanding()
                + self.intents.outstanding()
                + usize::from(!self.staleness.is_settled())) as u64,
            sent: self.sent,
            received: self.received,
        }
    }

    /// What managing keys took so far.
    pub fn management(&self) -> &ManagementStats {
        &self.stats
    }

    /// Keys that are on their way here.
    pub fn arriving(&self) -> usize {
        self.arrivals.len()
    }

    /// Takes an input that happens at `now` and appends what has to be done to `actions`. Times are compared with each other and
    /// with those of workers' calls only. When a paced round of copies may start depends on them (see [`Channel::due`]), and
    /// statistics do; what an access does and who answers it does not. They should not go back: rounds would be late.
    ///
    /// # Errors
    /// If a peer broke the protocol; nothing of its message was applied beyond the offending key.
    pub fn handle(&mut self, now: Tick, input: Input, actions: &mut Vec<Action>) -> Result<(), Violation> {
        self.now = now;
        let first = actions.len();
        let here = self.shared.node();
        let (from, result) = match input {
            Input::Submit(submission) => (here, self.on_submit(submission, actions)),
            Input::Relocate { keys, to } => (here, self.on_order(&keys, to)),
            Input::Snapshot(ask) => {
                self.on_snapshot_ask(ask, actions);
                (here, Ok(()))
            }
            Input::Replicate { keys } => (here, self.on_replicate(&keys)),
            Input::Unreplicate { keys } => (here, self.on_unreplicate(&keys)),
            Input::Clock(clock) => {
                self.on_node_clock(clock);
                (here, Ok(()))
            }
            Input::Tick => (here, self.on_tick(actions)),
            Input::Wake => (here, self.on_wake()),
            Input::Settle => (here, self.on_settle(actions)),
            Input::Message { from, message } => {
                self.received += 1;
                (from, self.on_message(from, message, actions))
            }
        };
        let result = result.and_then(|()| self.finish(actions));
        self.sent += actions[first..].iter().filter(|a| matches!(a, Action::Send { .. })).count() as u64;
        result.map_err(|what| Violation { from, what })
    }

    /// Sends what has gathered, in an order that others rely on: a holder's copy has what its worker is told; what goes along
    /// the way of a key goes after the key; a clock comes after what was done before it.
    fn finish(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        loop {
            self.tell_owed();
            self.copies.flush_news(actions);
            self.answer(actions)?;
            if !self.publish(actions)? {
                break;
            }
        }
        self.moves.flush(actions);
        self.batch.flush(actions);
        self.tell_owed();
        self.copies.flush_news(actions);
        self.copies.flush_sync(actions);
        Ok(())
    }

    fn on_message(
        &mut self,
        from: NodeId,
        message: Message,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        match message {
            Message::Request(request) => self.on_request(&request),
            Message::Response(response) => self.on_response(from, response, actions),
            Message::SnapshotRequest(request) => self.on_snapshot_request(from, &request, actions),
            Message::SnapshotPart(part) => self.on_snapshot_part(part, actions),
            Message::Localize(localize) => self.on_localize(from, &localize),
            Message::Relocate(relocate) => self.on_relocate(from, &relocate),
            Message::HandOver(hand_over) => self.on_hand_over(from, &hand_over),
            Message::Moved(moved) => self.on_moved(from, &moved),
            Message::ReplicaRequest(sync) => self.on_sync(from, &sync),
            Message::ReplicaUpdate(news) => self.on_news(from, &news),
            Message::Clock(clock) => self.on_clock(from, &clock, actions),
            Message::Reduce(reduce) => self.on_reduce(from, reduce, actions),
            Message::IntentReport(signal) => self.on_signal(from, &signal),
        }
    }

    /// When [`Input::Tick`] is due; `None` if there is nothing to be done without an occasion.
    pub fn due(&self) -> Option<Tick> {
        match self.shared.policy().replicas {
            Some(Replicas::Directed { .. }) => {
                let copies =
                    (self.shared.policy().intents.is_none() || self.has_copies()).then_some(self.next_round);
                // The earlier of two that may not be.
                copies.into_iter().chain(self.intents.due()).min()
            }
            None | Some(Replicas::Lazy | Replicas::Eager) => self.fixed.due(self.shared.copies().pace),
        }
    }

    /// When the next round of deltas and news of directed replicas may start.
    pub fn next_round(&self) -> Tick {
        self.next_round
    }

    /// No such round before `earliest`: whoever runs the channel is short of time.
    pub fn postpone_round(&mut self, earliest: Tick) {
        self.next_round = self.next_round.max(earliest);
    }

    /// Such a round as soon as the pace of rounds allows, although it was postponed.
    pub fn hasten_round(&mut self) {
        self.next_round = self.next_round.min(self.paced_round);
    }

    /// Whether there are copies that workers may change without a word.
    fn has_copies(&self) -> bool {
        !self.holding.held.is_empty() || self.hub_count() > 0
    }

    fn on_tick(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        if self.intents.due().is_some_and(|due| self.now >= due) {
            self.act()?;
        }
        if let Some(Replicas::Directed { every }) = self.shared.policy().replicas
            && self.now >= self.next_round
        {
            self.paced_round = self.now.after(every.0);
            self.next_round = self.paced_round;
            self.round()?;
        }
        self.start_round(Start::Paced, actions)
    }

    fn on_settle(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        self.hold()?;
        match self.shared.policy().replicas {
            Some(Replicas::Directed { .. } | Replicas::Eager) => self.round()?,
            Some(Replicas::Lazy) => self.unwant_all()?,
            None => {}
        }
        self.start_round(Start::Now, actions)
    }

    /// Sends what workers here have added to replicas, and what holders of replicas elsewhere lack.
    fn round(&mut self) -> Result<(), String> {
        self.gather();
        let before = self.stats.synced_keys;
        let shared = Arc::clone(&self.shared);
        let keys = self.holding.dirty.take();
        for (at, key) in keys.iter().copied().enumerate() {
            shared.prefetch(&keys, at);
            if !self.carry_on(key)? {
                self.holding.dirty.insert(key);
            }
        }
        self.tell_all();
        self.stats.sync_rounds += u64::from(self.stats.synced_keys > before);
        Ok(())
    }

    fn on_submit(&mut self, submission: Submission, actions: &mut Vec<Action>) -> Result<(), String> {
        let Submission { worker, op, kind, keys, positions, values, issued, clock, need } = submission;
        let origin = Origin { node: self.shared.node(), worker, op };
        // Answers are given at the end of the input, when the operation is known to be pending.
        match kind {
            Kind::Access(kind) => {
                let access = Access { origin, kind, hops: 0, position: 0, clock, need };
                self.submit_accesses(access, &keys, &positions, &values)?;
            }
            Kind::Localize => self.submit_localize(origin, &keys, &positions, issued)?,
            Kind::Synchronize => self.submit_synchronize(worker, op),
        }
        let (left, answered) = (positions.len(), vec![false; positions.len()]);
        let pending = Pending { kind, left, answered, keys, positions };
        let previous = self.pending.insert((worker, op), pending);
        intendant_core::strict_assert!(previous.is_none(), "{worker:?} reuses {op:?}");
        if kind == Kind::Synchronize {
            // It may be the last one that the round waits for.
            self.start_round(Start::Paced, actions)?;
        }
        Ok(())
    }

    pub(crate) fn value_bytes(&self, key: Key) -> usize {
        self.shared.layout().len(key) * size_of::<E>()
    }

    /// What these keys and their values need.
    pub(crate) fn room(&self, keys: &[Key]) -> Room {
        Room { keys: keys.len(), bytes: keys.iter().map(|key| self.value_bytes(*key)).sum() }
    }

    /// Sends answers to other nodes, completes operations of this one, and goes on with what waited for them, as long as
    /// something comes of it.
    fn answer(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        loop {
            let answers = self.replies.take();
            if answers.is_empty() {
                return Ok(());
            }
            for (Origin { node, worker, op }, kind, answer) in answers {
                let (positions, values) = (answer.positions, self.replies.lend(answer.values));
                if node == self.shared.node() {
                    let keys = self.settle(worker, op, kind, &positions)?;
                    let completion = Completion { op, positions, values };
                    actions.push(Action::Complete { worker, completion });
                    if let Kind::Access(_) = kind {
                        self.release(worker, &keys)?;
                    }
                } else if let Kind::Access(kind) = kind {
                    let counters = answer.counters;
                    let response = Response { worker, op, kind, positions, counters, values };
                    actions.push(Action::Send { to: node, message: Message::Response(response) });
                }
            }
        }
    }

    /// Notes that positions of an operation have been answered and returns their keys.
    pub(crate) fn settle(
        &mut self,
        worker: WorkerId,
        op: OpId,
        kind: Kind,
        positions: &[u32],
    ) -> Result<Vec<Key>, String> {
        let Some(pending) = self.pending.get_mut(&(worker, op)) else {
            return Err(format!("it answered {op:?} of {worker:?}, which waits for nothing"));
        };
        if pending.kind != kind {
            return Err(format!("it answered {} {op:?} of {worker:?} as {kind}", pending.kind));
        }
        let mut keys = Vec::with_capacity(positions.len());
        let mut next = 0;
        for position in positions {
            match find(&pending.positions, next, position) {
                Ok(at) if !pending.answered[at] => {
                    (pending.answered[at], next) = (true, at + 1);
                    // What synchronizes has none.
                    keys.extend(pending.keys.get(at));
                }
                Ok(_) => {
                    return Err(format!("it answered position {position} of {op:?} of {worker:?} twice"));
                }
                Err(_) => {
                    return Err(format!(
                        "it answered position {position} of {op:?} of {worker:?}, not asked for"
                    ));
                }
            }
        }
        pending.left -= positions.len();
        if pending.left == 0 {
            self.pending.remove(&(worker, op));
        }
        Ok(keys)
    }
}

/// Where `position` is among ascending ones: mostly at `next`, behind the one that was looked for before.
fn find(positions: &[u32], next: usize, position: &u32) -> Result<usize, usize> {
    if positions.get(next) == Some(position) { Ok(next) } else { positions.binary_search(position) }
}
