//! How up to date the replicas of a key were.

use crate::library::Loaded;
use intendant_analysis::Window;
use intendant_trace::What;

/// The synchronisation rounds of a node while it held a replica of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// How long it held a replica, in microseconds.
    held_us: u64,
    /// Number of intervals between rounds. The set-up of a replica and its end count like rounds.
    gaps: u64,
    longest_us: u64,
}

impl Rounds {
    /// The mean time between two rounds; `None` if there was no replica.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (self.gaps > 0).then(|| self.held_us as f64 / self.gaps as f64)
    }

    /// The longest time between two rounds.
    pub(super) fn longest_us(&self) -> Option<u64> {
        (self.gaps > 0).then_some(self.longest_us)
    }

    /// Adds a period in which the node held a replica. `rounds` are the times of all its rounds, in ascending
    /// order.
    fn add(&mut self, rounds: &[u64], from: u64, to: u64) {
        let first = rounds.partition_point(|at| *at < from);
        let within = rounds[first..].iter().copied().take_while(|at| *at <= to);
        let mut last = from;
        for at in within {
            self.count += 1;
            self.gaps += 1;
            self.longest_us = self.longest_us.max(at - last);
            last = at;
        }
        self.gaps += 1;
        self.longest_us = self.longest_us.max(to - last);
        // A hostile trace may claim two replicas of a key at one node.
        self.held_us = self.held_us.saturating_add(to - from);
    }
}

/// The rounds of each node while it held a replica of the key, within a window of time.
pub(super) fn of(run: &Loaded, key: u64, window: Window) -> Vec<Rounds> {
    let allocation = &run.allocation;
    let nodes = allocation.run().header().nodes;
    let mut found = vec![Rounds::default(); nodes.into()];
    let mut add = |node: u16, from: u64, to: u64| {
        let (from, to) = (from.max(window.from_us()), to.min(window.to_us()));
        let at = usize::from(node);
        if let (Some(rounds), Some(found), true) = (run.rounds.get(at), found.get_mut(at), from < to) {
            found.add(rounds, from, to);
        }
    };
    let end = window.to_us();
    if allocation.run().is_static_replica(key) {
        let owner = allocation.run().home(key);
        (0..nodes).filter(|node| Some(*node) != owner).for_each(|node| add(node, 0, end));
    }
    let mut since: Vec<Option<u64>> = vec![None; nodes.into()];
    for event in allocation.events_of(key).take_while(|event| event.at_us <= end) {
        let Some(since) = since.get_mut(usize::from(event.node.0)) else { continue };
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are not about replicas")]
        match event.what {
            What::ReplicaSetUp => *since = since.or(Some(event.at_us)),
            // A replica ends when it becomes the main copy.
            What::ReplicaDropped | What::Arrived { .. } => {
                if let Some(from) = since.take() {
                    add(event.node.0, from, event.at_us);
                }
            }
            _ => {}
        }
    }
    for (node, since) in (0..nodes).zip(since) {
        if let Some(from) = since {
            add(node, from, end);
        }
    }
    found
}
