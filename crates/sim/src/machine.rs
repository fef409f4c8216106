//! The machines: what work takes a worker's and a channel's thread.
//!
//! Times are linear in calls, keys, bytes and arithmetic. Threads have cores of their own, unless there are
//! more of them than cores. Arithmetic may run at a small dimension and be *charged* at a larger one
//! ([`Charge`]): what a run costs then is what it would cost with values of the charged length, while what it
//! computes stays cheap.
//!
//! Absent on purpose: caches, memory bandwidth that threads share, and the operating system's scheduler.

use serde::Deserialize;

/// What work takes a node of the cluster. Every node has the same machine.
///
/// From a file ([`Machine::from_toml`]), all of these fields are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Cores of a node; 0 means that every thread has one of its own.
    pub cores: usize,
    /// A worker's call (pull, push, localize), besides its keys.
    pub call_ns: u64,
    /// A key of a worker's call: finding it, latching it, missing caches.
    pub key_ns: u64,
    /// A byte of a value that a worker copies out of the store, adds to it, or copies to or from a channel,
    /// picoseconds.
    pub byte_ps: u64,
    /// A multiply-add of a training step, picoseconds.
    pub multiply_add_ps: u64,
    /// A batch that a loader prepares. Loaders have cores of their own.
    pub prepare_ns: u64,
    /// Waking a thread that sleeps: a channel without inputs, a worker that waits.
    pub wake_ns: u64,
    /// An input of a channel (a frame, a worker's submission), besides its keys.
    pub input_ns: u64,
    /// A key of an input.
    pub input_key_ns: u64,
    /// A frame that a channel sends.
    pub send_ns: u64,
    /// A byte that a channel receives or sends, picoseconds.
    pub channel_byte_ps: u64,
}

impl Machine {
    /// Work takes no time.
    #[must_use]
    pub const fn infinitely_fast() -> Self {
        Self {
            cores: 0,
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

    /// What a call with `keys` and `bytes` (charged) takes the worker.
    pub(crate) const fn call(&self, keys: u64, bytes: u64) -> u64 {
        self.call_ns + keys * self.key_ns + self.copy(bytes)
    }

    /// What copying `bytes` (charged) takes a worker.
    pub(crate) const fn copy(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.byte_ps) / 1_000
    }

    /// What an input with `keys` that came in `bytes` (charged; 0 from workers) takes a channel.
    pub(crate) const fn input(&self, keys: u64, bytes: u64) -> u64 {
        self.input_ns + keys * self.input_key_ns + bytes.saturating_mul(self.channel_byte_ps) / 1_000
    }

    /// What sending a frame of `bytes` (charged) takes a channel.
    pub(crate) const fn send(&self, bytes: u64) -> u64 {
        self.send_ns + bytes.saturating_mul(self.channel_byte_ps) / 1_000
    }

    /// How nodes with so many workers and channels share their cores.
    pub(crate) fn sharing(&self, workers: usize, channels: usize) -> Sharing {
        if self.cores == 0 {
            return Sharing { work: 1.0, steal: 0.0 };
        }
        let (cores, workers, channels) = (self.cores as f64, workers.max(1) as f64, channels.max(1) as f64);
        let overdraft = ((workers + channels - cores) / channels).clamp(0.0, 1.0);
        Sharing { work: (workers / cores).max(1.0), steal: overdraft / cores.min(workers) }
    }
}

/// What threads of a node cost each other when there are more of them than cores: an approximation of fair
/// shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sharing {
    /// How much longer a worker's work takes because of the other workers.
    pub(crate) work: f64,
    /// Part of a channel's work by which each worker is delayed.
    pub(crate) steal: f64,
}

/// How much longer values count than they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Thousandths of a byte that a byte of a value counts as, on the network and in memory. Keys and headers
    /// count as they are.
    pub values_milli: u64,
    /// Thousandths of a multiply-add that one counts as.
    pub compute_milli: u64,
}

impl Charge {
    /// Values count as what they are.
    pub const ACTUAL: Self = Self { values_milli: 1_000, compute_milli: 1_000 };

    /// Values count `values`-fold, arithmetic `compute`-fold, to the thousandth. Arithmetic that is linear in
    /// the length of values has the same factor.
    #[must_use]
    pub fn new(values: f64, compute: f64) -> Self {
        let milli = |factor: f64| (factor * 1e3).round() as u64;
        Self { values_milli: milli(values), compute_milli: milli(compute) }
    }

    /// The charged length of `bytes` of values.
    pub(crate) const fn bytes(&self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.values_milli) / 1_000
    }

    /// What a number of multiply-adds counts as.
    pub(crate) const fn multiply_adds(&self, number: u64) -> u64 {
        // Rounded up: in whole numbers, even the smallest step should take something.
        number.saturating_mul(self.compute_milli).div_ceil(1_000)
    }
}

/// `ns`, so much longer. Exact for a factor of 1.
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
        // Eight workers on four cores: half as fast, and what the channel takes, four running workers lack.
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
