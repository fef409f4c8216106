//! Finding keys that are elsewhere, with strategies in which nodes do not simply send accesses to a home or
//! to a known owner. See [`intendant_techniques::location`].
//!
//! [`Locations`] owns the accesses that wait until a home has said where their key is (*location request*).
//! It also owns the numbers of broadcasts, and this node's own broadcasts that wait for an answer (*broadcast
//! operations*). The flows that also involve other mechanisms are in `channel/location.rs`.

use crate::channel::core::{Core, Hash};
use crate::channel::effects::{Access, Effect, Output};
use crate::error::ProtocolError;
use crate::input::Action;
use crate::outgoing::requests::Route;
use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_techniques::Location;
use intendant_techniques::location::{Broadcasts, Void};
use intendant_wire::{Localize, Locate, Message, OpId};
use std::ops::Range;

/// An access of this node's worker that is broadcast and not answered yet.
struct Sent {
    access: Access,
    operand: Bytes,
    /// The number of the broadcast; `None` until it leaves at the end of the turn.
    number: Option<u32>,
}

/// What waits until its key is found.
pub(crate) struct Locations {
    /// Accesses of this node's workers to keys whose homes have been asked where they are.
    located_later: HashMap<Key, Vec<(Access, Bytes)>, Hash>,
    broadcasts: Broadcasts,
    /// Broadcast accesses without an answer, in the order in which they were made.
    sent: HashMap<Key, Vec<Sent>, Hash>,
    /// Keys that this node asks all others for, each with the number of its latest broadcast.
    asked: HashMap<Key, u32, Hash>,
}

impl Locations {
    pub(crate) fn new<E: Element>(core: &Core<E>) -> Self {
        let broadcasts = Broadcasts::new(core.node(), core.shared.layout().nodes());
        Self {
            located_later: HashMap::default(),
            broadcasts,
            sent: HashMap::default(),
            asked: HashMap::default(),
        }
    }

    /// Keeps an access until the home of `key` has said where the key is, and asks the home unless that has
    /// been done.
    pub(crate) fn locate<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        key: Key,
        access: Access,
        operand: Bytes,
    ) {
        match self.located_later.entry(key) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push((access, operand)),
            Entry::Vacant(new) => {
                new.insert(vec![(access, operand)]);
                out.outgoing.location.locate(core.shared.directory().home(key), key);
            }
        }
    }

    /// A node asks for the locations of keys whose home is here.
    ///
    /// # Errors
    /// If the node may not ask, or should know a location.
    pub(crate) fn on_locate<E: Element>(
        &self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        locate: &Locate,
    ) -> Result<(), ProtocolError> {
        check_location(core, Location::Request, "asks where keys are")?;
        core.check_keys(&locate.keys)?;
        for (at, key) in locate.keys.iter().copied().enumerate() {
            core.shared.ahead().slots(&locate.keys, at);
            core.check_home(key, "asks for the location of")?;
            let (entry, role) = core.shared.latch(key);
            let state = entry.state();
            // The next owner may be the home itself.
            let owner = state.hint().filter(|_| !role.is_owner()).unwrap_or(core.node());
            if owner == from {
                return Err(ProtocolError::AsksForOwnKey(key));
            }
            out.outgoing.location.located(from, owner, key);
        }
        Ok(())
    }

    /// `from`, the home of `key`, says that the key is at `at`. Returns the accesses that waited for this.
    ///
    /// # Errors
    /// If no access waits for this location, `from` is not the home, or `at` is impossible.
    pub(crate) fn located<E: Element>(
        &mut self,
        core: &Core<E>,
        from: NodeId,
        at: NodeId,
        key: Key,
    ) -> Result<Vec<(Access, Bytes)>, ProtocolError> {
        let exists = at.index() < core.shared.layout().nodes() && at != core.node();
        let waiting = self.located_later.remove(&key).filter(|_| core.shared.directory().home(key) == from);
        waiting.filter(|_| exists).ok_or(ProtocolError::LocatesUnasked { key, at })
    }

    /// Broadcasts an access to `key` at the end of the turn, and keeps it until it is answered.
    pub(crate) fn broadcast<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        key: Key,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) {
        let Access { origin, kind, position, .. } = access;
        let sent = Sent { access, operand: values.slice(operand.clone()), number: None };
        self.sent.entry(key).or_default().push(sent);
        let route = Route { to: core.node(), origin, kind, hops: 0 };
        let bytes = core.operand_bytes(kind, key);
        out.outgoing.location.requests.add(route, key, position, values, operand, bytes);
    }

    /// Sends the broadcasts of the turn. They leave after its hand-overs, which therefore do not count them.
    pub(crate) fn send<E: Element>(&mut self, core: &Core<E>, out: &mut Output) {
        let keys = out.outgoing.location.take_wanted();
        if !keys.is_empty() {
            let number = self.broadcasts.send();
            keys.iter().for_each(|key| {
                self.asked.insert(*key, number);
            });
            let localize = Localize { requester: core.node(), hops: 0, keys };
            to_all(core, out, &Message::Localize(localize));
        }
        let mut actions = Vec::new();
        out.outgoing.location.requests.flush(&mut actions);
        for action in actions {
            let Action::Send { message: Message::Request(request), .. } = action else { continue };
            let number = self.broadcasts.send();
            for (key, position) in request.keys.iter().zip(&request.positions) {
                let of_key = self.sent.get_mut(key).into_iter().flatten();
                let mut unsent = of_key.filter(|sent| sent.number.is_none());
                let own = |s: &&mut Sent| (s.access.origin, s.access.position) == (request.origin, *position);
                if let Some(sent) = unsent.find(own) {
                    sent.number = Some(number);
                }
            }
            to_all(core, out, &Message::Request(request));
        }
    }

    /// Whether broadcasts of this node wait for answers. If not, [`Locations::answered`] has nothing to do.
    pub(crate) fn awaits_answers(&self) -> bool {
        !self.sent.is_empty()
    }

    /// An owner has answered positions of an operation of this node's worker, of these keys.
    pub(crate) fn answered(&mut self, worker: WorkerId, op: OpId, keys: &[Key], positions: &[u32]) {
        for (key, position) in keys.iter().zip(positions) {
            let Entry::Occupied(mut of_key) = self.sent.entry(*key) else { continue };
            of_key.get_mut().retain(|Sent { access, .. }| {
                (access.origin.worker, access.origin.op, access.position) != (worker, op, *position)
            });
            if of_key.get().is_empty() {
                of_key.remove();
            }
        }
    }

    /// Numbers a broadcast of `from` that has arrived.
    pub(crate) fn receive(&mut self, from: NodeId) -> u32 {
        self.broadcasts.receive(from)
    }

    /// Whether an earlier owner of `key` has decided broadcast `number` of `from`.
    pub(crate) fn is_decided(&self, from: NodeId, key: Key, number: u32) -> bool {
        self.broadcasts.is_decided(from, key, number)
    }

    /// Notes that this node has handled broadcast `number` of `from`.
    pub(crate) fn handled(&mut self, from: NodeId, number: u32) {
        self.broadcasts.handled(from, number);
    }

    /// Per node, the number of its broadcasts that `key`, which leaves this node, has been through.
    pub(crate) fn decided(&self, key: Key) -> Vec<u32> {
        self.broadcasts.decided(key)
    }

    /// Checks what a hand-over says of broadcasts.
    ///
    /// # Errors
    /// If it is impossible.
    pub(crate) fn check_decided<E: Element>(
        &self,
        core: &Core<E>,
        decided: &[u32],
    ) -> Result<(), ProtocolError> {
        let broadcast = core.policy().location == Location::BroadcastOperations;
        let plausible = if broadcast { self.broadcasts.is_plausible(decided) } else { decided.is_empty() };
        if plausible { Ok(()) } else { Err(ProtocolError::Broadcasts { found: decided.len() }) }
    }

    /// `key`, for which this node asked, has arrived. It has been through `decided` broadcasts of each node.
    /// Starts this node's void broadcasts again, and tells other nodes about theirs.
    pub(crate) fn arrived(&mut self, out: &mut Output, here: NodeId, key: Key, decided: &[u32]) {
        self.asked.remove(&key);
        for void in self.broadcasts.arrive(key, decided) {
            if void.node == here {
                self.restart(out, key, void);
            } else {
                out.outgoing.location.void(key, void);
            }
        }
    }

    /// Starts those of this node's broadcasts about `key` again that `void` names.
    pub(crate) fn restart(&mut self, out: &mut Output, key: Key, void: Void) {
        if self.asked.get(&key).is_some_and(|number| void.contains(*number)) {
            out.outgoing.location.want(key);
        }
        let Entry::Occupied(mut of_key) = self.sent.entry(key) else { return };
        let is_void = |sent: &mut Sent| sent.number.is_some_and(|number| void.contains(number));
        for Sent { access, operand, .. } in of_key.get_mut().extract_if(.., is_void) {
            out.effects.push(Effect::Resume { key, access, operand });
        }
        if of_key.get().is_empty() {
            of_key.remove();
        }
    }
}

/// Sends `message` to all other nodes.
fn to_all<E: Element>(core: &Core<E>, out: &mut Output, message: &Message) {
    let nodes = (0..core.shared.layout().nodes()).map(|node| NodeId(node as u16));
    let others = nodes.filter(|node| *node != core.node());
    out.actions.extend(others.map(|to| Action::Send { to, message: message.clone() }));
}

/// Checks that the technique finds keys by `location`.
///
/// # Errors
/// If it finds them in another way.
pub(crate) fn check_location<E: Element>(
    core: &Core<E>,
    location: Location,
    what: &'static str,
) -> Result<(), ProtocolError> {
    if core.policy().location == location { Ok(()) } else { Err(core.not_in_technique(what)) }
}
