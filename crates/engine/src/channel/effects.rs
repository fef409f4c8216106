//! Effects: work for after the handler, in another mechanism or in the same one.
//!
//! A handler borrows the [`Core`](super::core::Core), its own state and an [`Output`]. It calls no other
//! mechanism. If its work has consequences elsewhere, it raises an [`Effect`]. The channel processes effects
//! at the end of the input, and before the next key if order matters. It takes them in the order in which
//! they were raised, depth first (`Channel::hand_on`).
//!
//! Effects run after the handler that raised them. Work that must follow an effect must therefore be an
//! effect itself.

use super::core::Core;
use crate::events::{Events, traced};
use crate::input::Action;
use crate::node::note_for_clock;
use crate::outgoing::Outgoing;
use crate::stats::ManagementStats;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, Tick, Timing};
use intendant_store::Entry;
use intendant_techniques::{SlotState, access};
use intendant_trace::{Cause, What};
use intendant_wire::{AccessKind, Origin};

/// An access to one key, apart from its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) origin: Origin,
    pub(crate) kind: AccessKind,
    /// How often it has been forwarded.
    pub(crate) hops: u8,
    /// The position of the key in the worker's call.
    pub(crate) position: u32,
    /// The worker's clock; 0 for another node's worker.
    pub(crate) clock: u32,
    /// A pull may read a copy only if it contains all updates up to this clock; 0 for another node's worker.
    pub(crate) need: u32,
    /// Whether the key was not here, or too old, when this node first handled the access. With
    /// [`LocalAccess::Shared`](crate::LocalAccess), the worker's thread looks first.
    pub(crate) late: bool,
    /// When this node first handled the access.
    pub(crate) since: Tick,
}

impl Access {
    /// Whether a worker of `here` made the access and no node has forwarded it.
    pub(crate) fn is_own(&self, here: NodeId) -> bool {
        self.origin.node == here && self.hops == 0
    }

    /// Marks the access as late: it has to wait for a key or for a fresher copy.
    pub(crate) fn late(self) -> Self {
        Self { late: true, ..self }
    }

    /// Whether the access changes the value.
    pub(crate) fn writes(&self) -> bool {
        self.kind != AccessKind::Pull
    }
}

/// Work for after the handler that raises it.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Continues an access that waited for a replica. Raised by replication; the role of the key decides
    /// which mechanism handles it.
    Resume { key: Key, access: Access, operand: Bytes },
    /// Continues the reads that wait for a fresher copy of `key`: the copy may be fresher now, or has been
    /// dropped. Raised and handled by replication.
    Unpark { key: Key },
    /// The replica of `key` has been renewed, and the accesses that waited for it have continued. Raised and
    /// handled by replication.
    ReplicaRenewed { key: Key },
    /// The dropped replica of `key` is wanted again. Raised and handled by replication.
    ReplicaWanted { key: Key },
    /// The slot of `key` holds nothing but the location of the key. From replication to relocation, which
    /// bounds the number of such slots.
    SlotRemembers { key: Key },
    /// An owner has answered a request made at `since`. From replication to intents: the length of a round
    /// follows this time.
    OwnerAnswered { since: Tick },
    /// This node wants a replica of a key whose home it is, and homes decide. From replication to the part of
    /// intents that acts at homes.
    AskHome { key: Key, generation: u32, need: u32 },
    /// The owned `key` moves to `to`, by its home's decision. From the part of intents that acts at homes to
    /// relocation and replication.
    Move { key: Key, to: NodeId, cause: Cause },
}

/// What a channel's turn produces: messages, actions, effects, counts and events.
#[derive(Default)]
pub(crate) struct Output {
    /// Messages of the turn, grouped by destination.
    pub(crate) outgoing: Outgoing,
    /// What the caller of the channel has to do. Grouped messages are appended at the end of the turn.
    pub(crate) actions: Vec<Action>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) stats: ManagementStats,
    pub(crate) events: Events,
}

impl Output {
    /// Serves an access to a key whose value is here, and answers it. `counter` is the relocation counter for
    /// the answer, if nodes remember locations.
    pub(crate) fn serve<E: Element>(
        &mut self,
        core: &Core<E>,
        counter: Option<u32>,
        entry: &mut Entry<'_, SlotState, E>,
        access: &Access,
        operand: &[u8],
    ) {
        if core.has_rules {
            self.serve_by_rule(core, counter, entry, access, operand);
        } else {
            self.serve_plainly(core, counter, entry, access, operand);
        }
    }

    /// [`Output::serve`] in a layout without rules. This is the path that all mechanisms share.
    #[inline(always)]
    pub(crate) fn serve_plainly<E: Element>(
        &mut self,
        core: &Core<E>,
        counter: Option<u32>,
        entry: &mut Entry<'_, SlotState, E>,
        access: &Access,
        operand: &[u8],
    ) {
        let Access { origin, kind, position, late, .. } = *access;
        let value = entry.value_mut().expect("a served key must have a value");
        self.outgoing.replies.served(origin, kind, position, late, counter, |read| {
            access::apply(kind, value, operand, read);
        });
        self.count(core, entry.key(), access);
    }

    /// Counts an access that was served.
    #[inline(always)]
    fn count<E: Element>(&mut self, core: &Core<E>, key: Key, access: &Access) {
        let Access { origin, kind, hops, late, since, .. } = *access;
        if origin.node != core.node() {
            self.stats.served(hops);
        } else if late {
            let after = core.now.0.saturating_sub(since.0);
            self.events.note(core.now, key, What::Waited { access: traced(kind), after });
        }
    }

    /// [`Output::serve`] in a layout with rules.
    #[cold]
    #[inline(never)]
    fn serve_by_rule<E: Element>(
        &mut self,
        core: &Core<E>,
        counter: Option<u32>,
        entry: &mut Entry<'_, SlotState, E>,
        access: &Access,
        operand: &[u8],
    ) {
        let Access { origin, kind, position, late, .. } = *access;
        let (rule, pends) = (core.shared.layout().rule(entry.key()), entry.state().role.tells());
        let value = entry.value_mut().expect("a served key must have a value");
        self.outgoing.replies.served(origin, kind, position, late, counter, |read| match rule {
            Some(rule) => access::apply_by_rule(rule, kind, value, operand, pends, read),
            None => access::apply(kind, value, operand, read),
        });
        let at_clock = rule.is_some_and(|rule| rule.timing() == Timing::Clock);
        if at_clock && kind == AccessKind::Push && !pends {
            note_for_clock(entry);
        }
        self.count(core, entry.key(), access);
    }
}
