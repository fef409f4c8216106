//! Responsibility at the home (000, Fig 5.8 a): an ablation of the owner's. See [`intendant_techniques::policy::ablations`].
//!
//! Nodes tell the home of a key when intent for it becomes active and when it is over ([`Signal`]), the owner as well, and ask for replicas
//! by way of the home. To what it has been told the home applies the rule of [`intendant_techniques::policy::adaptive`], and orders the
//! owner to hand the key over ([`intendant_wire::Relocate`]). What becomes of a hand-over, of registrations, deltas and drops is the same.
//!
//! **One order at a time.** An owner obeys every order, and nobody else moves keys. So from the time when the new owner says that it has the key until the
//! next order, the home knows where it is; meanwhile, it waits, and applies the rule again afterwards.
//!
//! **Who asks and gets the key needs no copy.** A signal comes before the request that it leads to, on the same connection. If the key
//! has been sent to the node meanwhile, or ordered to it, the home lets the request fall: the hand-over answers it.
//!
//! **An owner may lose a key that it wants again**, because its signal and the order have crossed. It asks for a replica then.

use crate::channel::{Channel, Hash};
use crate::decisions::{Cause, DecisionKind};
use crate::shared::Shared;
use hashbrown::HashMap;
use intendant_core::{Element, Key, NodeId};
use intendant_store::Entry;
use intendant_techniques::{Decider, SlotState};
use intendant_wire::IntentReport;
use std::sync::Arc;

/// What a channel knows of keys whose home is here, where homes decide.
#[derive(Default)]
pub(crate) struct Homes {
    records: HashMap<Key, Record, Hash>,
}

/// What is known of a key.
#[derive(Default)]
struct Record {
    /// Nodes with active intent, with the number of intents that were told as active and not as over: 1 where they are aggregated.
    wanted: Vec<(NodeId, u32)>,
    /// Where its owner was told to hand it over to, and the counter with which it comes there.
    ordered: Option<(NodeId, u32)>,
}

impl<E: Element> Channel<E> {
    /// Nodes with active intent for a key whose home is here, as far as they have told, and where it has been ordered to. For invariant checks.
    pub fn told(&self, key: Key) -> (Vec<NodeId>, Option<NodeId>) {
        self.homes.records.get(&key).map_or_else(Default::default, |record| {
            let wanted = record.wanted.iter().map(|(node, _)| *node).collect();
            (wanted, record.ordered.map(|(to, _)| to))
        })
    }

    /// An intent of this node for `key` is active, or over: the home hears of it.
    pub(crate) fn signal(&mut self, shared: &Shared<E>, key: Key, active: bool) -> Result<(), String> {
        let home = shared.directory().home(key);
        if home == shared.node() {
            return self.hear(shared, home, key, active);
        }
        self.moves.signal(home, active, key);
        Ok(())
    }

    /// A node tells of its intents for keys whose home is here.
    pub(crate) fn on_signal(&mut self, from: NodeId, signal: &IntentReport) -> Result<(), String> {
        if !self.shared.policy().homes_decide() {
            let name = self.shared.policy().name;
            return Err(format!("it tells a home of its intents, which nobody does with technique {name}"));
        }
        let shared = Arc::clone(&self.shared);
        // Beginnings first: who has begun another intent for a key does not stop wanting it.
        for (keys, active) in [(&signal.begun, true), (&signal.over, false)] {
            self.check_keys(keys)?;
            for key in keys {
                if !shared.directory().is_home(*key) {
                    return Err(format!("it tells its intent for {key:?} to a node that is not its home"));
                }
                self.hear(&shared, from, *key, active)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, shared: &Shared<E>, node: NodeId, key: Key, active: bool) -> Result<(), String> {
        let each = self.intents.decider() == Some(Decider::HomeOfEach);
        let record = self.homes.records.entry(key).or_default();
        match (record.wanted.iter().position(|(known, _)| *known == node), active) {
            (None, true) => record.wanted.push((node, 1)),
            (Some(at), true) => record.wanted[at].1 = record.wanted[at].1.saturating_add(u32::from(each)),
            (Some(at), false) if record.wanted[at].1 > 1 => record.wanted[at].1 -= 1,
            (Some(at), false) => {
                record.wanted.swap_remove(at);
            }
            // Begun and over in one round.
            (None, false) if !each => {}
            (None, false) => return Err(format!("it ends an intent for {key:?} that it has not told")),
        }
        self.judge(shared, key);
        Ok(())
    }

    /// The rule: if one node has active intent, the key moves there.
    fn judge(&mut self, shared: &Shared<E>, key: Key) {
        let Some(record) = self.homes.records.get_mut(&key) else { return };
        if record.ordered.is_some() {
            return;
        }
        let [(only, _)] = record.wanted[..] else {
            if record.wanted.is_empty() {
                self.homes.records.remove(&key);
            }
            return;
        };
        let (mut entry, role) = shared.latch(key);
        if role.is_owner() {
            if only != shared.node() {
                self.note(key, DecisionKind::Moved(only, Cause::Told));
                self.move_to(shared, &mut entry, only);
            }
            return;
        }
        let state = entry.state();
        if let Some(owner) = state.hint().filter(|owner| *owner != only) {
            let counter = state.counter.wrapping_add(1);
            record.ordered = Some((only, counter));
            self.moves.relocate(owner, only, key, counter);
            self.note(key, DecisionKind::Ordered(only));
        }
    }

    /// The home has told this node to hand a key over.
    pub(crate) fn obey(
        &mut self,
        shared: &Shared<E>,
        mut entry: Entry<'_, SlotState, E>,
        to: NodeId,
        counter: u32,
    ) -> Result<(), String> {
        let (key, state) = (entry.key(), entry.state());
        if !state.role.is_owner() || state.counter.wrapping_add(1) != counter {
            return Err(format!(
                "it orders the relocation of {key:?} with counter {counter}, while it is {state:?} here"
            ));
        }
        self.note(key, DecisionKind::Moved(to, Cause::Told));
        self.move_to(shared, &mut entry, to);
        let state = entry.state();
        drop(entry);
        // The home had not heard of that.
        if self.intents.active(key) > 0 { self.want(key, &state, 0) } else { Ok(()) }
    }

    /// A key whose home is here has come to a new owner.
    pub(crate) fn arrived_at(&mut self, shared: &Shared<E>, key: Key, counter: u32) {
        if let Some(record) = self.homes.records.get_mut(&key)
            && record.ordered.is_some_and(|(_, ordered)| ordered == counter)
        {
            record.ordered = None;
            self.judge(shared, key);
        }
    }

    /// Whether a key whose home is here, in `state`, is on its way to `node`, or there.
    pub(crate) fn comes_to(&self, key: Key, state: &SlotState, node: NodeId) -> bool {
        match self.homes.records.get(&key).and_then(|record| record.ordered) {
            Some((to, _)) => to == node,
            None => state.hint() == Some(node),
        }
    }
}
