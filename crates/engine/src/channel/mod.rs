//! One channel of a node: the turn that processes an input.
//!
//! [`Channel`] owns the mechanisms and composes them. It also holds the open snapshots and the message
//! counts. This file has the *turn*, the processing of one input: which mechanism gets the input, how effects
//! are handed on, in which order messages leave. The other files:
//!
//! - `core`: what all mechanisms read.
//! - [`effects`][]: what a turn produces.
//! - [`accesses`][]: the path of an access.
//! - [`location`][]: the flows of finding keys.
//! - [`management`][]: the flows that involve several mechanisms.
//! - [`snapshot`][]: snapshots.
//! - [`inspect`][]: the queries of callers.

pub(crate) mod core;

pub(crate) mod effects;
pub(crate) mod snapshot;

mod accesses;
mod inspect;
mod location;
mod management;

pub use inspect::Explanation;

use self::core::Core;
use self::effects::{Effect, Output};
use self::snapshot::Snapshots;
use crate::access::Operations;
use crate::error::{ProtocolError, Violation};
use crate::events::Events;
use crate::input::{Action, Input, Kind, Submission, Work};
use crate::intent::Intents;
use crate::location::Locations;
use crate::node::Shared;
use crate::relocation::{self, Relocation};
use crate::replication::Replication;
use crate::static_replicas::{Start, StaticReplicas};
use intendant_core::{ChannelId, Element, NodeId, Tick};
use intendant_techniques::Location;
use intendant_trace::What;
use intendant_wire::{Message, Origin};
use std::mem;
use std::sync::Arc;

/// One channel of a node. It processes inputs one after the other, without I/O.
///
/// Besides [`Channel::new`], methods are of four kinds. [`Channel::handle`] processes an input and appends
/// actions. [`Channel::due`] says when the caller must pass [`Input::Tick`]; [`Channel::postpone_round`] and
/// [`Channel::hasten_round`] move that time, and [`Channel::next_round`] shows the caller whether a tick has
/// started a round. [`Channel::report`] and [`Channel::management`] report what is outstanding and what has
/// been counted. All others only inspect: they serve explanations and invariant checks.
///
/// The caller executes all actions of one call, in order, before it passes the next input.
pub struct Channel<E> {
    core: Core<E>,
    out: Output,
    operations: Operations,
    relocation: Relocation,
    locations: Locations,
    replication: Replication<E>,
    static_replicas: StaticReplicas<E>,
    intents: Intents,
    snapshots: Snapshots,
    /// Messages that this channel has sent and received; quiescence compares them.
    sent: u64,
    received: u64,
}

impl<E: Element> Channel<E> {
    /// Creates a channel. Call it before any worker's first access, because initial values become the bases
    /// of static replicas.
    #[must_use]
    #[inline(never)]
    pub fn new(id: ChannelId, shared: Arc<Shared<E>>) -> Self {
        let has_rules = shared.layout().has_rules();
        let core = Core { id, has_rules, shared, now: Tick(0) };
        let intents = Intents::new(&core);
        let watched = core.shared.replication().watched.iter().copied();
        let layout = core.shared.layout();
        let mut events = Events::new(id);
        if intents.are_used() {
            events.keep_decisions(watched.filter(|key| layout.channel(*key) == id));
        }
        Self {
            out: Output { events, ..Output::default() },
            operations: Operations::default(),
            relocation: Relocation::default(),
            locations: Locations::new(&core),
            replication: Replication::new(&core.shared),
            static_replicas: StaticReplicas::new(&core),
            intents,
            snapshots: Snapshots::default(),
            sent: 0,
            received: 0,
            core,
        }
    }

    /// Processes an input that happens at `now`, and appends what the caller has to do to `actions`.
    ///
    /// `now` should not decrease; otherwise rounds start late. The channel compares times with each other and
    /// with those of workers' calls. Times decide when rounds start (see [`Channel::due`]) and appear in
    /// statistics; they never decide what an access does.
    ///
    /// # Errors
    /// If a peer broke the protocol. The channel does not undo what it did for earlier keys of the message;
    /// the caller ends the run.
    ///
    /// # Panics
    /// If the caller asks for something that the technique does not do, or names keys of other channels.
    #[inline(never)]
    pub fn handle(&mut self, now: Tick, input: Input, actions: &mut Vec<Action>) -> Result<(), Violation> {
        self.core.now = now;
        let (first, synced) = (actions.len(), self.out.stats.synced_keys);
        mem::swap(&mut self.out.actions, actions);
        let from = if let Input::Message { from, .. } = &input { *from } else { self.core.node() };
        let result = self.dispatch(input).and_then(|()| self.finish());
        mem::swap(&mut self.out.actions, actions);
        if result.is_err() {
            self.out.effects.clear();
        }
        let values = self.out.stats.synced_keys - synced;
        if values > 0 {
            self.out.events.note_general(now, What::Synced { values });
        }
        assert!(self.out.effects.is_empty(), "effects are left: {:?}", self.out.effects);
        self.sent += actions[first..].iter().filter(|a| matches!(a, Action::Send { .. })).count() as u64;
        result.map_err(|what| Violation { from, what })
    }

    /// Passes the input to its mechanism, and hands the effects on.
    fn dispatch(&mut self, input: Input) -> Result<(), ProtocolError> {
        match input {
            Input::Submit(submission) => self.on_submit(submission)?,
            Input::Relocate { keys, to } => self.on_relocate_input(&keys, to),
            Input::Snapshot(ask) => self.snapshots.ask(&self.core, &mut self.out, ask),
            Input::Replicate { keys } => self.on_replicate(&keys)?,
            Input::Unreplicate { keys } => self.on_unreplicate(&keys),
            Input::Clock(clock) => self.replication.on_node_clock(&self.core, clock),
            Input::Tick => self.on_tick()?,
            Input::Wake => {
                if self.intents.wake(&self.core) {
                    self.act()?;
                }
            }
            Input::Settle => self.on_settle()?,
            Input::Message { from, message } => {
                self.received += 1;
                self.on_message(from, message)?;
            }
        }
        self.hand_on()
    }

    fn on_message(&mut self, from: NodeId, message: Message) -> Result<(), ProtocolError> {
        let (core, out) = (&self.core, &mut self.out);
        match message {
            Message::Request(request) if core.policy().location == Location::BroadcastOperations => {
                self.on_broadcast(from, &request)
            }
            Message::Request(request) => self.on_request(&request),
            Message::Response(response) => self.on_response(from, response),
            Message::SnapshotRequest(request) => snapshot::on_request(core, out, from, &request),
            Message::SnapshotPart(part) => self.snapshots.on_part(core, out, part),
            Message::Localize(localize) => self.on_localize(from, &localize),
            Message::Relocate(relocate) if core.policy().homes_decide() => self.obey(from, &relocate),
            Message::Relocate(relocate) => self.relocation.on_relocate(core, out, from, &relocate),
            Message::HandOver(hand_over) => self.on_hand_over(from, &hand_over),
            Message::Moved(moved) => {
                relocation::on_moved(core, from, &moved)?;
                self.arrived_elsewhere(&moved)
            }
            Message::ReplicaRequest(request) => self.on_replica_request(from, &request),
            Message::ReplicaUpdate(update) => self.on_replica_update(from, &update),
            Message::Clock(clock) => self.replication.on_clock(core, out, from, &clock),
            Message::Reduce(reduce) => self.static_replicas.on_reduce(core, out, from, reduce),
            Message::IntentReport(report) => self.on_intent_report(from, &report),
            Message::Locate(locate) => self.locations.on_locate(core, out, from, &locate),
            Message::Located(located) => self.on_located(from, &located),
            Message::Void(void) => self.on_void(&void),
        }
    }

    /// Hands effects on to their mechanisms, in the order in which they were raised, depth first.
    fn hand_on(&mut self) -> Result<(), ProtocolError> {
        if self.out.effects.is_empty() {
            return Ok(());
        }
        // A stack: the first effect is on top, and the effects that it raises are put above the others.
        self.out.effects.reverse();
        while let Some(effect) = self.out.effects.pop() {
            let others = self.out.effects.len();
            self.hand_to(effect)?;
            self.out.effects[others..].reverse();
        }
        Ok(())
    }

    /// Hands one effect on.
    fn hand_to(&mut self, effect: Effect) -> Result<(), ProtocolError> {
        let (core, out, replication) = (&self.core, &mut self.out, &mut self.replication);
        match effect {
            Effect::Resume { key, access, operand } => {
                let shared = Arc::clone(&core.shared);
                return self.access(&shared, access, key, &operand, 0..operand.len());
            }
            Effect::Unpark { key } => replication.staleness.resume_parked(out, key),
            Effect::ReplicaRenewed { key } => {
                replication.holder.renewed(core, out, &mut replication.staleness, key);
            }
            Effect::ReplicaWanted { key } => replication.holder.want(core, out, key, &core.state(key), 0),
            Effect::SlotRemembers { key } => self.relocation.remember(core, key),
            Effect::OwnerAnswered { since } => self.intents.owner_answered(core.now, since),
            Effect::AskHome { key, generation, need } => self.ask_home(key, generation, need),
            Effect::Move { key, to, cause } => self.move_key(key, to, cause),
        }
        Ok(())
    }

    /// Ends the turn: sends grouped messages, in an order on which other nodes rely. A holder gets the update
    /// before the answer to its worker; a message that follows a key leaves after the key; a clock leaves
    /// after the updates made before it.
    fn finish(&mut self) -> Result<(), ProtocolError> {
        loop {
            self.replication.update_owed(&self.core, &mut self.out);
            self.answer()?;
            if !self.publish()? {
                break;
            }
        }
        self.out.outgoing.flush(&mut self.out.actions);
        self.locations.send(&self.core, &mut self.out);
        self.replication.update_owed(&self.core, &mut self.out);
        self.out.outgoing.replication.flush_requests(&mut self.out.actions);
        Ok(())
    }

    /// Publishes clocks of this node's workers, and handles the effects of that. Returns whether it published
    /// one.
    fn publish(&mut self) -> Result<bool, ProtocolError> {
        let mut published = false;
        while self.replication.publish(&self.core, &mut self.out) {
            published = true;
            self.hand_on()?;
        }
        Ok(published)
    }

    /// Sends answers to other nodes, completes operations of this one, and continues the operations that
    /// waited for them, as long as there are any.
    fn answer(&mut self) -> Result<(), ProtocolError> {
        loop {
            let answers = self.out.outgoing.replies.take();
            if answers.is_empty() {
                return Ok(());
            }
            for (origin, kind, answer) in answers {
                self.send_answer(origin, kind, answer)?;
                self.hand_on()?;
            }
        }
    }

    fn on_submit(&mut self, submission: Submission) -> Result<(), ProtocolError> {
        let Submission { worker, op, work } = submission;
        let origin = Origin { node: self.core.node(), worker, op };
        match work {
            Work::Access { kind, keys, positions, values, clock, need } => {
                self.submit_accesses(origin, kind, &keys, &positions, &values, clock, need)?;
                self.operations.register(self.core.now, (worker, op), Kind::Access(kind), keys, positions);
            }
            Work::Localize { keys, positions, issued } => {
                let (core, out) = (&self.core, &mut self.out);
                self.relocation.submit_localize(core, out, origin, &keys, &positions, issued);
                self.operations.register(self.core.now, (worker, op), Kind::Localize, keys, positions);
            }
            Work::Synchronize { position } => {
                self.static_replicas.submit(worker, op);
                self.operations.register(
                    self.core.now,
                    (worker, op),
                    Kind::Synchronize,
                    Vec::new(),
                    vec![position],
                );
                // This worker may be the last one for which the round waits.
                self.static_replicas.start_round(&self.core, &mut self.out, Start::Paced);
            }
        }
        Ok(())
    }

    fn on_tick(&mut self) -> Result<(), ProtocolError> {
        if self.intents.due().is_some_and(|due| self.core.now >= due) {
            self.act()?;
        }
        self.replication.tick(&self.core, &mut self.out);
        self.hand_on()?;
        self.static_replicas.start_round(&self.core, &mut self.out, Start::Paced);
        Ok(())
    }

    fn on_settle(&mut self) -> Result<(), ProtocolError> {
        if self.intents.may_be_held(&self.core) {
            self.intent_round()?;
            self.intents.hold(&self.core);
        }
        self.replication.synchronize(&self.core, &mut self.out);
        self.hand_on()?;
        self.static_replicas.start_round(&self.core, &mut self.out, Start::Now);
        Ok(())
    }
}
