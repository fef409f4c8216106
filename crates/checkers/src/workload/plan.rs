//! What a worker does next: drawn call by call.

use super::Scenario;
use intendant_core::{Key, NodeId};
use intendant_sim::Dice;
use intendant_techniques::{Initiator, Replicas};
use intendant_wire::AccessKind;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It accesses values.
    Access(AccessKind),
    /// It moves keys to the worker's node, and the worker waits for them or does not.
    Localize { wait: bool },
    /// It reads what is here.
    IfLocal,
    /// The node that has the first key shall move the keys to this one.
    Order(NodeId),
    /// The owner of the first key shall move the keys to a holder of a replica; if there is none, to this
    /// node.
    Promote(NodeId),
    /// The worker's node wants replicas of the keys, or does not want them any more.
    Replicate(bool),
    /// The worker announces that it will use the keys.
    Intend,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) act: Act,
    pub(super) keys: Vec<Key>,
}

impl Plan {
    /// The next call of some worker. Most calls are for few hot keys, spread over the ranges; `small_keys` do
    /// not have huge values.
    pub(super) fn draw(dice: &mut Dice, scenario: &Scenario, small_keys: u64) -> Self {
        let count = dice.between(1, scenario.call_keys_max);
        let act = Self::draw_act(dice, scenario);
        let registers = scenario.registers();
        if dice.once_in(8) {
            let act = if let Act::Access(_) = act {
                Act::Access(dice.pick(&[AccessKind::Pull, AccessKind::Set]))
            } else {
                act
            };
            let one = |_| Key(dice.between(registers.start, registers.end - 1));
            return Self { act, keys: (0..count.min(2)).map(one).collect() };
        }
        if scenario.huge && dice.once_in(40) {
            let huge = scenario.lanes[2].0;
            return Self { act, keys: (0..4).map(|_| Key(small_keys + dice.below(huge))).collect() };
        }
        let moves = !matches!(act, Act::Access(_) | Act::IfLocal);
        if moves && dice.once_in(8) {
            // Whatever there is, so that many keys travel together.
            let all = registers.end - if scenario.huge { scenario.lanes[2].0 } else { 0 };
            let keys = (0..count + 8).map(|_| dice.below(all));
            let skip = |at| if at < small_keys { at } else { at - small_keys + registers.start };
            return Self { act, keys: keys.map(|at| Key(skip(at))).collect() };
        }
        let hot = scenario.hot_keys.min(small_keys);
        let one = |dice: &mut Dice| if dice.once_in(3) { dice.below(small_keys) } else { dice.below(hot) };
        let spread = |at: u64| Key((at * 7 + scenario.seed) % small_keys);
        Self { act, keys: (0..count).map(|_| spread(one(dice))).collect() }
    }

    fn draw_act(dice: &mut Dice, scenario: &Scenario) -> Act {
        let access = if dice.once_in(2) { AccessKind::Pull } else { AccessKind::Push };
        let copies = scenario.policy.replicas.is_some() || scenario.policy.static_replicas.is_some();
        if let Some(announcing) = scenario.intents {
            return match dice.below(16) {
                15 => Act::IfLocal,
                face if face < announcing.in_16 => Act::Intend,
                _ => Act::Access(access),
            };
        }
        let Some(initiator) = scenario.policy.relocation else {
            return if copies && dice.once_in(16) { Act::IfLocal } else { Act::Access(access) };
        };
        let face = dice.below(16);
        match initiator {
            _ if face == 15 => Act::IfLocal,
            _ if face >= scenario.moves_in_16 => Act::Access(access),
            Initiator::Owner if matches!(scenario.policy.replicas, Some(Replicas::Directed { .. })) => {
                let to = NodeId(dice.below(scenario.nodes as u64) as u16);
                match dice.below(10) {
                    0 => Act::Order(to),
                    1..=2 => Act::Promote(to),
                    3..=6 => Act::Replicate(true),
                    _ => Act::Replicate(false),
                }
            }
            Initiator::Requester => Act::Localize { wait: dice.once_in(2) },
            Initiator::Owner => Act::Order(NodeId(dice.below(scenario.nodes as u64) as u16)),
        }
    }
}
