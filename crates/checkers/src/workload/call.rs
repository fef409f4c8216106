//! Random calls: draws what a worker does next.

use super::Scenario;
use intendant_core::{Key, NodeId};
use intendant_sim::Dice;
use intendant_techniques::{Initiator, Replicas};
use intendant_wire::AccessKind;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// The worker pulls, pushes or sets the keys.
    Access(AccessKind),
    /// The worker localizes the keys, and waits for them or not.
    Localize { wait: bool },
    /// The worker pulls the keys that are local.
    IfLocal,
    /// The owner of the first key relocates the keys to this node.
    Relocate(NodeId),
    /// The owner of the first key relocates the keys to a holder of a replica; without a holder, to this
    /// node.
    Promote(NodeId),
    /// The worker's node acquires replicas of the keys (`true`), or drops them.
    Replicate(bool),
    /// The worker signals intent for the keys.
    Intend,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) kind: CallKind,
    pub(super) keys: Vec<Key>,
}

impl Call {
    /// Draws a call. Most calls access few hot keys, spread over the ranges. Keys below `small_keys` have
    /// short values.
    pub(super) fn draw(dice: &mut Dice, scenario: &Scenario, small_keys: u64) -> Self {
        let count = dice.between(1, scenario.call_keys_max);
        let kind = Self::draw_kind(dice, scenario);
        let registers = scenario.registers();
        if dice.once_in(8) {
            let kind = if let CallKind::Access(_) = kind {
                CallKind::Access(dice.pick(&[AccessKind::Pull, AccessKind::Set]))
            } else {
                kind
            };
            let one = |_| Key(dice.between(registers.start, registers.end - 1));
            return Self { kind, keys: (0..count.min(2)).map(one).collect() };
        }
        if scenario.huge && dice.once_in(40) {
            let huge = scenario.lanes[2].0;
            return Self { kind, keys: (0..4).map(|_| Key(small_keys + dice.below(huge))).collect() };
        }
        let moves = !matches!(kind, CallKind::Access(_) | CallKind::IfLocal);
        if moves && dice.once_in(8) {
            // Any keys, and many of them, so that many move together.
            let all = registers.end - if scenario.huge { scenario.lanes[2].0 } else { 0 };
            let keys = (0..count + 8).map(|_| dice.below(all));
            let skip = |at| if at < small_keys { at } else { at - small_keys + registers.start };
            return Self { kind, keys: keys.map(|at| Key(skip(at))).collect() };
        }
        let hot = scenario.hot_keys.min(small_keys);
        let one = |dice: &mut Dice| if dice.once_in(3) { dice.below(small_keys) } else { dice.below(hot) };
        let spread = |at: u64| Key((at * 7 + scenario.seed) % small_keys);
        Self { kind, keys: (0..count).map(|_| spread(one(dice))).collect() }
    }

    fn draw_kind(dice: &mut Dice, scenario: &Scenario) -> CallKind {
        let access = if dice.once_in(2) { AccessKind::Pull } else { AccessKind::Push };
        let copies = scenario.policy.replicas.is_some() || scenario.policy.static_replicas.is_some();
        if let Some(settings) = scenario.intents {
            return match dice.below(16) {
                15 => CallKind::IfLocal,
                face if face < settings.in_16 => CallKind::Intend,
                _ => CallKind::Access(access),
            };
        }
        let Some(initiator) = scenario.policy.relocation else {
            return if copies && dice.once_in(16) { CallKind::IfLocal } else { CallKind::Access(access) };
        };
        let face = dice.below(16);
        match initiator {
            _ if face == 15 => CallKind::IfLocal,
            _ if face >= scenario.moves_in_16 => CallKind::Access(access),
            Initiator::Owner if matches!(scenario.policy.replicas, Some(Replicas::Directed { .. })) => {
                let to = NodeId(dice.below(scenario.nodes as u64) as u16);
                match dice.below(10) {
                    0 => CallKind::Relocate(to),
                    1..=2 => CallKind::Promote(to),
                    3..=6 => CallKind::Replicate(true),
                    _ => CallKind::Replicate(false),
                }
            }
            Initiator::Requester => CallKind::Localize { wait: dice.once_in(2) },
            Initiator::Owner => CallKind::Relocate(NodeId(dice.below(scenario.nodes as u64) as u16)),
        }
    }
}
