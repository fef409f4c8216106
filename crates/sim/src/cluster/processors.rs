//! The processors of all nodes: how long work takes on the threads of workers, loaders and channels, and
//! which of them wait for a core.

use crate::core::Core;
use crate::facility::Facility;
use crate::faults::Faults;
use crate::machine::{Machine, Sharing, scaled};

/// The processors of all nodes.
pub(super) struct Processors {
    faults: Faults,
    sharing: Sharing,
    /// The cores that nodes share; none if they do not.
    cores: Vec<Core>,
    wake_ns: u64,
}

impl Processors {
    /// Idle processors of `nodes` nodes with this many workers and channels each.
    pub(super) fn new(
        machine: &Machine,
        faults: Faults,
        nodes: usize,
        workers: usize,
        channels: usize,
    ) -> Self {
        let cores = match machine.nodes_per_core {
            0 => 0,
            share => nodes.div_ceil(share),
        };
        let sharing = machine.sharing(workers, channels);
        Self { faults, sharing, cores: vec![Core::default(); cores], wake_ns: machine.wake_ns }
    }

    /// Duration of `work_ns` on a thread of `node`, faults included, if it begins at `at_ns`.
    pub(super) fn at_pace(&self, at_ns: u64, node: usize, work_ns: u64) -> u64 {
        work_ns * self.faults.slowdown(at_ns, node)
    }

    /// The core that a node shares with others, or whose threads share it.
    fn core(&mut self, node: usize) -> Option<&mut Core> {
        let at = node.checked_rem(self.cores.len())?;
        self.cores.get_mut(at)
    }

    /// Delay of a worker by what the channels of its node do; `busy_ns` tells how long they were busy.
    pub(super) fn stolen_ns(&self, busy_ns: impl FnOnce() -> u64) -> u64 {
        if self.sharing.steal > 0.0 { scaled(busy_ns(), self.sharing.steal) } else { 0 }
    }

    /// A worker works from `start_ns` on; the channels of its node delay it by `stolen_ns`. Returns the
    /// duration of the work and its end.
    pub(super) fn work(&mut self, node: usize, start_ns: u64, work_ns: u64, stolen_ns: u64) -> (u64, u64) {
        let work_ns = scaled(self.at_pace(start_ns, node, work_ns), self.sharing.work);
        let end_ns = match self.core(node) {
            Some(core) => core.work(start_ns, work_ns),
            None => start_ns + work_ns + stolen_ns,
        };
        (work_ns, end_ns)
    }

    /// A loader works from `now_ns` on. Returns the end.
    pub(super) fn load(&mut self, node: usize, now_ns: u64, work_ns: u64) -> u64 {
        self.core(node).map_or(now_ns + work_ns, |core| core.work(now_ns, work_ns))
    }

    /// A channel's thread works on an input that came at `came_ns`, from `now_ns` on. Returns the end.
    pub(super) fn serve(
        &mut self,
        node: usize,
        thread: &mut Facility,
        (came_ns, now_ns): (u64, u64),
        work_ns: u64,
    ) -> u64 {
        let waking = thread.is_free(now_ns);
        let wake_ns = if waking { self.wake_ns } else { 0 };
        let mut from_ns = now_ns + wake_ns;
        if let Some(core) = self.core(node) {
            from_ns = core.channel_from(from_ns);
        }
        let (_, end_ns) = thread.serve(came_ns, from_ns, work_ns);
        if let Some(core) = self.core(node) {
            core.channel_worked(work_ns + wake_ns, end_ns);
        }
        end_ns
    }

    /// Prolongs what a channel's thread does by `work_ns`. Returns its new end.
    pub(super) fn prolong(&mut self, node: usize, thread: &mut Facility, work_ns: u64) -> u64 {
        let end_ns = thread.extend(work_ns);
        if let Some(core) = self.core(node) {
            core.channel_worked(work_ns, end_ns);
        }
        end_ns
    }
}
