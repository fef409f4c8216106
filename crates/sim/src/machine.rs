//! The machine model: how long work takes on a worker's or a channel's thread.
//!
//! Times are linear in calls, keys, bytes and multiply-adds. Each thread has a core of its own, unless there
//! are more threads than cores, or nodes share cores. A run may compute with short values and be *charged*
//! for long ones ([`Charge`]): its virtual time and traffic are those of the charged length.
//!
//! The model has no caches, no memory bandwidth that threads share, and no scheduler of the operating system.

use intendant_engine::LookTimer;
use serde::{Deserialize, Serialize};

/// Durations of the work of a node. All nodes have the same machine.
///
/// A file ([`crate::presets::machine_of`]) must set all fields but `nodes_per_core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Cores per node; 0 gives every thread a core of its own.
    pub cores: usize,
    /// Nodes that share a core on which all their threads run, loaders included, as processes of one host
    /// that are pinned: node `n` of `N` has core `n` modulo `N / nodes_per_core`, rounded up. 0: nodes do not
    /// share cores.
    #[serde(default)]
    pub nodes_per_core: usize,
    /// A call of a worker (pull, push, localize), without its keys.
    pub call_ns: u64,
    /// Each key of a worker's call: lookup, latch, cache misses.
    pub key_ns: u64,
    /// Each byte of a value that a worker copies out of the store, adds to it, or exchanges with a channel,
    /// picoseconds.
    pub byte_ps: u64,
    /// Each multiply-add of a training step, picoseconds.
    pub multiply_add_ps: u64,
    /// Preparing a batch in a loader. Loaders have cores of their own, unless nodes share cores.
    pub prepare_ns: u64,
    /// Waking a sleeping thread: a channel without inputs, a worker that waits.
    pub wake_ns: u64,
    /// An input of a channel (a frame, a worker's submission), without its keys.
    pub input_ns: u64,
    /// Each key of an input.
    pub input_key_ns: u64,
    /// Each frame that a channel sends.
    pub send_ns: u64,
    /// Each byte that a channel receives or sends, picoseconds.
    pub channel_byte_ps: u64,
}

impl Machine {
    /// A machine on which work takes no time.
    #[must_use]
    pub const fn infinitely_fast() -> Self {
        Self {
            cores: 0,
            nodes_per_core: 0,
            call_ns: 0,
            key_ns: 0,
            byte_ps: 0,
            multiply_add_ps: 0,
            prepare_ns: 0,
            wake_ns: 0,
            input_ns: 0,
            input_key_ns: 0,
            send_ns: 0,
            channel_byte_ps: 0,
        }
    }

    /// Duration of a worker's call with `keys` and charged `bytes`.
    pub(crate) const fn call(&self, keys: u64, bytes: u64) -> u64 {
        self.call_ns + keys * self.key_ns + self.copy(bytes)
    }

    /// Duration of copying charged `bytes` on a worker.
    pub(crate) const fn copy(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.byte_ps) / 1_000
    }

    /// Duration of a channel's input with `keys` that arrived in charged `bytes` (0 for inputs from workers).
    pub(crate) const fn input(&self, keys: u64, bytes: u64) -> u64 {
        self.input_ns + keys * self.input_key_ns + bytes.saturating_mul(self.channel_byte_ps) / 1_000
    }

    /// Duration of an access with `keys` that a worker of the node hands over through a queue, if the channel
    /// answers it from its own values: it costs what a call costs, because no frame is received or sent.
    pub(crate) const fn queued(&self, keys: u64) -> u64 {
        self.call_ns + keys * self.input_key_ns
    }

    /// What such an access takes longer if the channel has to ask another node.
    pub(crate) const fn queued_elsewhere(&self) -> u64 {
        self.input_ns.saturating_sub(self.call_ns)
    }

    /// Duration of sending a frame of charged `bytes`.
    pub(crate) const fn send(&self, bytes: u64) -> u64 {
        self.send_ns + bytes.saturating_mul(self.channel_byte_ps) / 1_000
    }

    /// How `workers` and `channels` of a node share its cores.
    pub(crate) fn sharing(&self, workers: usize, channels: usize) -> Sharing {
        if self.cores == 0 {
            return Sharing { work: 1.0, steal: 0.0 };
        }
        let (cores, workers, channels) = (self.cores as f64, workers.max(1) as f64, channels.max(1) as f64);
        let overdraft = ((workers + channels - cores) / channels).clamp(0.0, 1.0);
        Sharing { work: (workers / cores).max(1.0), steal: overdraft / cores.min(workers) }
    }
}

impl Machine {
    /// The timer of the looks of a channel, on a node with `threads` workers and channels.
    pub(crate) fn look_timer(&self, threads: usize) -> LookTimer {
        let cores = match (self.cores, self.nodes_per_core) {
            (0, 0) => usize::MAX,
            (0, _) => 1,
            (cores, _) => cores,
        };
        LookTimer::new(threads > cores)
    }
}

/// Slowdown of a node's threads when there are more threads than cores: an approximation of fair shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sharing {
    /// Factor by which the other workers slow a worker down.
    pub(crate) work: f64,
    /// Fraction of a channel's work by which each worker is delayed.
    pub(crate) steal: f64,
}

/// Factors by which values and arithmetic are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Charge per byte of a value, in thousandths of a byte, on the network and in memory. Keys and headers
    /// are charged as they are.
    pub values_milli: u64,
    /// Charge per multiply-add, in thousandths.
    pub compute_milli: u64,
}

impl Charge {
    /// No scaling: values and arithmetic are charged as they are.
    pub const ACTUAL: Self = Self { values_milli: 1_000, compute_milli: 1_000 };

    /// Charges values by the factor `values` and arithmetic by the factor `compute`, rounded to thousandths.
    /// Arithmetic that is linear in the length of values needs the same factor.
    #[must_use]
    pub fn new(values: f64, compute: f64) -> Self {
        let milli = |factor: f64| (factor * 1e3).round() as u64;
        Self { values_milli: milli(values), compute_milli: milli(compute) }
    }

    /// Length of values whose charged length is `bytes`, at least 1.
    pub(crate) fn uncharged(&self, bytes: usize) -> usize {
        ((bytes as u64).saturating_mul(1_000) / self.values_milli.max(1)).max(1) as usize
    }

    /// Charged length of `bytes` of values.
    pub(crate) const fn bytes(&self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.values_milli) / 1_000
    }

    /// Charged number of multiply-adds.
    pub(crate) const fn multiply_adds(&self, number: u64) -> u64 {
        // Rounded up, so that the smallest step costs at least one.
        number.saturating_mul(self.compute_milli).div_ceil(1_000)
    }
}

/// `ns` times `factor`. Exact for a factor of 1.
pub(crate) fn scaled(ns: u64, factor: f64) -> u64 {
    if factor == 1.0 { ns } else { (ns as f64 * factor).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_cores_only_if_there_are_too_few() {
        let sharing = |cores, workers, channels| {
            Machine { cores, ..Machine::infinitely_fast() }.sharing(workers, channels)
        };
        let own = Sharing { work: 1.0, steal: 0.0 };
        assert_eq!(sharing(0, 64, 4), own);
        assert_eq!(sharing(16, 4, 1), own);
        // Eight workers on four cores: each runs at half speed, and the four running workers lose the
        // channel's work.
        assert_eq!(sharing(4, 8, 1), Sharing { work: 2.0, steal: 0.25 });
        // One of four channels has no core of its own.
        assert_eq!(sharing(35, 32, 4), Sharing { work: 1.0, steal: 0.25 / 32.0 });
    }

    #[test]
    fn charges_are_proportional() {
        let charge = Charge::new(62.5, 2.5);
        assert_eq!((charge.bytes(1_024), charge.multiply_adds(3)), (64_000, 8));
        assert_eq!((Charge::ACTUAL.bytes(77), Charge::ACTUAL.multiply_adds(3)), (77, 3));
        let machine = Machine { call_ns: 100, key_ns: 10, byte_ps: 250, ..Machine::infinitely_fast() };
        assert_eq!(machine.call(3, 64_000), 100 + 30 + 16_000);
    }
}
