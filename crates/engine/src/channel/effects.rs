//! Effects: what is to be done after a handler has returned, by another mechanism or by the same one.
//!
//! A handler borrows the [`Core`](super::core::Core), its own state and an [`Output`]. It calls no other
//! mechanism. What follows from its work is an [`Effect`]: the channel hands effects on before the
//! next key where order matters, and at the end of the input. It does so in the order in which they were
//! raised, each with all that it causes before the next one (`Channel::hand_on`).
//!
//! An effect happens after its handler, not in the middle of it. So what must follow an effect is an effect.

use crate::decisions::{Cause, Decisions};
use crate::input::Action;
use crate::outgoing::Outgoing;
use crate::stats::ManagementStats;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, Tick};
use intendant_store::Entry;
use intendant_techniques::{SlotState, access};
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
}

impl Access {
    /// Whether a worker of `here` made the access and no node has forwarded it.
    pub(crate) fn is_own(&self, here: NodeId) -> bool {
        self.origin.node == here && self.hops == 0
    }

    /// Whether the access changes the value.
    pub(crate) fn writes(&self) -> bool {
        self.kind != AccessKind::Pull
    }
}

/// What is to be done after the handler that raises it.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An access that waited for a replica goes on. Replication raises it; the role of the key decides.
    Resume { key: Key, access: Access, operand: Bytes },
    /// The copy of `key` may be fresher now, or gone: the reads that wait for that go on. Replication raises
    /// it for itself.
    Unpark { key: Key },
    /// The replica of `key` has been renewed, and the accesses that waited for it have gone on. Replication
    /// raises it for itself.
    ReplicaRenewed { key: Key },
    /// The dropped replica of `key` is wanted again. Replication raises it for itself.
    ReplicaWanted { key: Key },
    /// The slot of `key` only remembers where the key is. From replication to relocation, which bounds such
    /// slots.
    SlotRemembers { key: Key },
    /// An owner has answered what was asked at `since`. From replication to intents, whose rounds are as long
    /// as that takes.
    OwnerAnswered { since: Tick },
    /// This node wants a replica of a key whose home it is itself, and homes decide. From replication to the
    /// part of intents that acts at homes.
    AskHome { key: Key, generation: u32, need: u32 },
    /// The owned `key` moves to `to`, by its home's decision. From the part of intents that acts at homes to
    /// relocation and replication.
    Move { key: Key, to: NodeId, cause: Cause },
}

/// What a channel's turn produces: messages, actions, effects, counts and noted decisions.
#[derive(Default)]
pub(crate) struct Output {
    /// Messages of the turn, grouped by where they go.
    pub(crate) outgoing: Outgoing,
    /// What the caller of the channel has to do. Grouped messages join it at the end of the turn.
    pub(crate) actions: Vec<Action>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) stats: ManagementStats,
    pub(crate) decisions: Decisions,
}

impl Output {
    /// Serves an access to a key whose value is here, and answers it. This is the path that all mechanisms
    /// share; `counter` is the relocation counter for the answer, if nodes remember locations.
    #[inline(always)]
    pub(crate) fn serve<E: Element>(
        &mut self,
        here: NodeId,
        counter: Option<u32>,
        entry: &mut Entry<'_, SlotState, E>,
        access: &Access,
        operand: &[u8],
    ) {
        let Access { origin, kind, hops, position, .. } = *access;
        let value = entry.value_mut().expect("a served key must have a value");
        self.outgoing.replies.served(origin, kind, position, counter, |read| {
            access::apply(kind, value, operand, read);
        });
        if origin.node != here {
            self.stats.served(hops);
        }
    }
}
