//! What waits for a key to arrive.

use crate::channel::effects::Access;
use bytes::Bytes;
use intendant_core::{NodeId, Tick};
use intendant_wire::Origin;
use std::collections::VecDeque;

/// Something that waits for a key to arrive.
pub(crate) enum Waiting {
    /// An access.
    Access { access: Access, operand: Bytes, since: Tick },
    /// A worker that wants the key here.
    Localize { origin: Origin, position: u32 },
    /// The next owner.
    Departure { to: NodeId, counter: u32 },
}

/// A worker that asked for a key, and when.
#[derive(Clone, Copy)]
pub(crate) struct LocalizeRequest {
    pub(crate) origin: Origin,
    pub(crate) position: u32,
    pub(crate) at: Tick,
}

/// An arriving key. It may have to arrive more than once.
#[derive(Default)]
pub(crate) struct Arrival {
    /// The first request. Usually it is the only thing that waits.
    first: Option<LocalizeRequest>,
    rest: Option<Box<Rest>>,
}

/// What waits behind the first request.
#[derive(Default)]
struct Rest {
    /// In the order in which it is served.
    queue: VecDeque<Waiting>,
    /// When workers asked: one entry for each arrival to come.
    asked: VecDeque<Tick>,
}

impl Arrival {
    /// A key that a worker has just asked for.
    pub(crate) fn new(first: LocalizeRequest) -> Self {
        Self { first: Some(first), rest: None }
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Queues `waiting` behind everything else.
    pub(crate) fn queue(&mut self, waiting: Waiting) {
        self.rest().queue.push_back(waiting);
    }

    /// A worker asks for the key once more: it will arrive once more.
    pub(crate) fn ask_again(&mut self, LocalizeRequest { origin, position, at }: LocalizeRequest) {
        self.rest().asked.push_back(at);
        self.queue(Waiting::Localize { origin, position });
    }

    /// The time of the request that this arrival answers. Call it before [`Arrival::next`].
    pub(crate) fn asked_at(&mut self) -> Option<Tick> {
        match self.first {
            Some(LocalizeRequest { at, .. }) => Some(at),
            None => self.rest.as_mut()?.asked.pop_front(),
        }
    }

    /// Takes what is served next.
    pub(crate) fn next(&mut self) -> Option<Waiting> {
        match self.first.take() {
            Some(LocalizeRequest { origin, position, .. }) => Some(Waiting::Localize { origin, position }),
            None => self.rest.as_mut()?.queue.pop_front(),
        }
    }

    /// Whether nothing waits, and the key is not expected again.
    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.queue.is_empty() && rest.asked.is_empty())
    }
}
