//! Decisions at homes [thesis Fig. 5.8a]: an ablation, in which the home of a key applies the rule instead of
//! the owner. See [`intendant_techniques::policy::ablations`].
//!
//! Nodes report to the home of a key when their intent for it becomes active and when it ends
//! ([`IntentReport`]); the owner does so, too. Nodes ask the home for replicas. The home applies the rule of
//! [`intendant_techniques::policy::adaptive`] to the reports, and orders the owner to hand the key over
//! ([`intendant_wire::Relocate`]). Hand-overs, registrations, deltas and drops do not differ.
//!
//! **One order at a time.** An owner obeys every order, and only orders move keys. Between an order and the
//! new owner's report the home gives no other order; at all other times it knows the owner. When the report
//! arrives, the home applies the rule again.
//!
//! **A node that gets the key needs no replica.** A report arrives before the request that follows it, on the
//! same connection. If the home has handed the key to the node meanwhile, or ordered its owner to do so, it
//! drops the request: the hand-over answers it.
//!
//! **An owner may lose a key for which it has intent again** if its report and the order have crossed. It
//! then asks for a replica.

use crate::channel::core::{Core, Hash};
use crate::channel::effects::{Effect, Output};
use crate::error::ProtocolError;
use hashbrown::HashMap;
use intendant_core::{Element, Key, NodeId};
use intendant_techniques::{Decider, SlotState};
use intendant_trace::{Cause, What};
use intendant_wire::IntentReport;

/// If homes decide: intents and orders for the channel's keys whose home is here.
#[derive(Default)]
pub(crate) struct Home {
    records: HashMap<Key, Record, Hash>,
}

/// Intents and the order for one key.
#[derive(Default)]
struct Record {
    /// Nodes with active intent, with the number of intents reported as begun and not as ended: 1 if nodes
    /// aggregate intents.
    wanted: Vec<(NodeId, u32)>,
    /// The next owner that the home has ordered, and the counter with which the key arrives there.
    ordered: Option<(NodeId, u32)>,
}

impl Home {
    /// Nodes that have reported active intent for a key, and the next owner that this home has ordered.
    pub(crate) fn reported(&self, key: Key) -> (Vec<NodeId>, Option<NodeId>) {
        self.records.get(&key).map_or_else(Default::default, |record| {
            let wanted = record.wanted.iter().map(|(node, _)| *node).collect();
            (wanted, record.ordered.map(|(to, _)| to))
        })
    }

    /// Reports to the home that an intent of this node for `key` has become active or has ended.
    ///
    /// # Panics
    /// If the intent ends and has not begun.
    pub(crate) fn report<E: Element>(&mut self, core: &Core<E>, out: &mut Output, key: Key, active: bool) {
        let home = core.shared.directory().home(key);
        if home == core.node() {
            let heard = self.hear(core, out, home, key, active);
            heard.expect("an intent of this node begins before it ends");
        } else {
            out.outgoing.relocation.report_intent(home, active, key);
        }
    }

    /// Checks another node's report of its intents.
    ///
    /// # Errors
    /// If the technique has no reports, or this node is not the home.
    pub(crate) fn check<E: Element>(core: &Core<E>, report: &IntentReport) -> Result<(), ProtocolError> {
        if !core.policy().homes_decide() {
            return Err(core.not_in_technique("reports intents to homes"));
        }
        for keys in [&report.begun, &report.over] {
            core.check_keys(keys)?;
            keys.iter().try_for_each(|key| core.check_home(*key, "reports its intent for"))?;
        }
        Ok(())
    }

    /// `node` reports that an intent for `key`, whose home is here, has become active or has ended.
    ///
    /// # Errors
    /// If it ends an intent that it has not reported.
    pub(crate) fn hear<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        node: NodeId,
        key: Key,
        active: bool,
    ) -> Result<(), ProtocolError> {
        let each = matches!(core.policy().intents, Some(intents) if intents.decider == Decider::HomeOfEach);
        let record = self.records.entry(key).or_default();
        match (record.wanted.iter().position(|(known, _)| *known == node), active) {
            (None, true) => record.wanted.push((node, 1)),
            (Some(at), true) => record.wanted[at].1 = record.wanted[at].1.saturating_add(u32::from(each)),
            (Some(at), false) if record.wanted[at].1 > 1 => record.wanted[at].1 -= 1,
            (Some(at), false) => {
                record.wanted.swap_remove(at);
            }
            // An aggregated intent has begun and ended in one round.
            (None, false) if !each => {}
            (None, false) => return Err(ProtocolError::UnknownIntent(key)),
        }
        self.judge(core, out, key);
        Ok(())
    }

    /// The rule: if one node has active intent, the key moves there.
    fn judge<E: Element>(&mut self, core: &Core<E>, out: &mut Output, key: Key) {
        let Some(record) = self.records.get_mut(&key) else { return };
        if record.ordered.is_some() {
            return;
        }
        let [(only, _)] = record.wanted[..] else {
            if record.wanted.is_empty() {
                self.records.remove(&key);
            }
            return;
        };
        let (entry, role) = core.shared.latch(key);
        let state = entry.state();
        drop(entry);
        if role.is_owner() {
            if only != core.node() {
                out.effects.push(Effect::Move { key, to: only, cause: Cause::Ordered });
            }
        } else if let Some(owner) = state.hint().filter(|owner| *owner != only) {
            let counter = state.counter.wrapping_add(1);
            record.ordered = Some((only, counter));
            out.outgoing.relocation.relocate(owner, only, key, counter);
            out.events.decided(core.now, key, What::Ordered { to: only });
        }
    }

    /// A key whose home is here has arrived at a new owner.
    pub(crate) fn arrived<E: Element>(&mut self, core: &Core<E>, out: &mut Output, key: Key, counter: u32) {
        if let Some(record) = self.records.get_mut(&key)
            && record.ordered.is_some_and(|(_, ordered)| ordered == counter)
        {
            record.ordered = None;
            self.judge(core, out, key);
        }
    }

    /// Whether a key whose home is here, with slot `state`, is at `node` or on its way there.
    pub(crate) fn comes_to(&self, key: Key, state: &SlotState, node: NodeId) -> bool {
        match self.records.get(&key).and_then(|record| record.ordered) {
            Some((to, _)) => to == node,
            None => state.hint() == Some(node),
        }
    }
}
