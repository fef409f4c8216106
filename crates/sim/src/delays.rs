//! Durations of simulated steps: random parts, and the models of network and machine.

use crate::machine::{Charge, Machine};
use crate::network::Network;
use crate::spread::Spread;

/// Durations of the steps of an access: random parts, and what network and machine add for the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// A worker's pause before its next call.
    pub worker: Spread,
    /// From a worker's call to the channel's inbox.
    pub enqueue: Spread,
    /// A channel's time per input in addition to the input's work ([`Machine`]). A channel handles one input
    /// at a time.
    pub turn: Spread,
    /// From a channel to the worker's completion queue.
    pub deliver: Spread,
    /// From the arrival in the completion queue until the worker takes the completion.
    pub intake: Spread,
    /// The network between nodes.
    pub network: Network,
    /// The machine of every node.
    pub machine: Machine,
    /// Factors by which values and arithmetic are charged.
    pub charge: Charge,
    /// Whether workers are processes of their own, which exchange messages with the channels of their node,
    /// as in PS-Lite [thesis §3.3.2]. A worker's submission and its completion then each cost a frame:
    /// sending it and receiving it, bytes included, but no network. The submission costs an input of the
    /// channel besides, as if the thread that receives frames handed it over.
    /// [`LocalAccess::Queue`](intendant_engine::LocalAccess) goes with it.
    pub ipc: bool,
}

impl Delays {
    /// Delays of equal machines on a network. The random parts are small; they keep workers out of lockstep.
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
            ipc: false,
        }
    }
}
