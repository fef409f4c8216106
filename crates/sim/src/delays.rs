//! How long things take.

use crate::dice::Dice;
use crate::machine::{Charge, Machine};
use crate::network::Network;

/// A random duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// At least.
    pub min_ns: u64,
    /// At most, outside of the tail.
    pub max_ns: u64,
    /// One duration in so many is stretched sixteenfold; 0 means none.
    pub tail_once_in: u64,
}

impl Spread {
    /// Always `ns`.
    #[must_use]
    pub const fn fixed(ns: u64) -> Self {
        Self { min_ns: ns, max_ns: ns, tail_once_in: 0 }
    }

    /// Evenly between `min_ns` and `max_ns`.
    #[must_use]
    pub const fn even(min_ns: u64, max_ns: u64) -> Self {
        Self { min_ns, max_ns, tail_once_in: 0 }
    }

    #[inline]
    pub(crate) fn draw(self, dice: &mut Dice) -> u64 {
        if self.max_ns == self.min_ns && self.tail_once_in == 0 {
            return self.min_ns;
        }
        let ns = dice.between(self.min_ns, self.max_ns);
        if self.tail_once_in > 0 && dice.once_in(self.tail_once_in) { ns * 16 } else { ns }
    }
}

/// How long each step of an access takes: random parts, and what the network and the machines add according
/// to the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// A worker's pause before its next call.
    pub worker: Spread,
    /// From the worker to the channel's inbox.
    pub enqueue: Spread,
    /// What a channel needs for an input, besides the work that is in it ([`Machine`]). It takes one input at
    /// a time.
    pub turn: Spread,
    /// From the channel to the worker's queue.
    pub deliver: Spread,
    /// Until the worker takes a completion from its queue.
    pub intake: Spread,
    /// Between nodes.
    pub network: Network,
    /// Within a node.
    pub machine: Machine,
    /// How much longer values count than they are.
    pub charge: Charge,
}

impl Delays {
    /// Machines of one kind on a network. The random parts are small: they keep workers from marching in
    /// step.
    #[must_use]
    pub const fn of(machine: Machine, network: Network, charge: Charge) -> Self {
        Self {
            worker: Spread::even(0, machine.call_ns),
            enqueue: Spread::even(0, machine.call_ns),
            turn: Spread::fixed(0),
            deliver: Spread::even(0, machine.call_ns),
            intake: Spread::even(machine.wake_ns / 2, machine.wake_ns + machine.wake_ns / 2),
            network,
            machine,
            charge,
        }
    }
}
