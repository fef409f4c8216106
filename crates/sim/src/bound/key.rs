//! The bound of one key.

/// Times are those of the caller's clock.
type Time = u64;

/// A write, by epoch and time.
type Written = (u32, Time);

/// What a node has done with the key.
#[derive(Clone, Debug)]
struct NodeTrace {
    node: u16,
    /// The earliest write of another node that the node need not have received yet.
    missing: Option<Written>,
    /// Its latest write of this epoch.
    wrote: Option<Time>,
    /// It wrote in the last epoch with writes before this one.
    wrote_before: bool,
}

/// The accesses of one key. See the module for what is counted, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyTrace {
    /// In the order of their first accesses.
    nodes: Vec<NodeTrace>,
    first_write: Option<Written>,
    /// Times by which nodes must have received the value in this epoch: the latest ones, ascending.
    arrivals: Vec<Time>,
    /// How many transfers these are.
    arrived: u32,
    /// The last epoch with writes would cost one transfer more if each of its writers had to send.
    spared: bool,
    /// A node has been excused from receiving what that epoch wrote.
    excused: bool,
}

impl KeyTrace {
    fn position(&mut self, node: u16) -> usize {
        if let Some(at) = self.nodes.iter().position(|trace| trace.node == node) {
            return at;
        }
        // All earlier writes are those of other nodes.
        self.nodes.push(NodeTrace { node, missing: self.first_write, wrote: None, wrote_before: false });
        self.nodes.len() - 1
    }

    /// `node` reads the key in epoch `epoch`. A write of this epoch may be `staleness` old before a read must
    /// see it; `None`: reads need not see it. Returns how many transfers it adds.
    pub(super) fn read(&mut self, node: u16, epoch: u32, at: Time, staleness: Option<Time>) -> u32 {
        let position = self.position(node);
        let trace = &mut self.nodes[position];
        let Some((since, time)) = trace.missing else { return 0 };
        let is_earlier = since < epoch;
        let is_old = staleness.is_some_and(|staleness| time.saturating_add(staleness) < at);
        if !is_earlier && !is_old {
            return 0;
        }
        trace.missing = None;
        let may_be_excused = is_earlier && (trace.wrote_before || !self.spared);
        // At most one per writer is matched, and later ones can be matched with more writers.
        if self.arrivals.len() > self.nodes.len() {
            self.arrivals.remove(0);
        }
        self.arrivals.push(at);
        if may_be_excused && !self.excused {
            self.excused = true;
            return 0;
        }
        self.arrived += 1;
        1
    }

    /// `node` writes the key.
    pub(super) fn write(&mut self, node: u16, epoch: u32, at: Time) {
        let position = self.position(node);
        let written = (epoch, at);
        for (other, trace) in self.nodes.iter_mut().enumerate() {
            if other != position && trace.missing.is_none() {
                trace.missing = Some(written);
            }
        }
        self.nodes[position].wrote = Some(at);
        self.first_write.get_or_insert(written);
    }

    /// The epoch ends: one node gets all writes. Returns how many transfers this adds.
    pub(super) fn end_epoch(&mut self) -> u32 {
        let mut sent: Vec<Time> = self.nodes.iter().filter_map(|trace| trace.wrote).collect();
        let arrivals = std::mem::take(&mut self.arrivals);
        let arrived = std::mem::take(&mut self.arrived);
        if sent.is_empty() {
            return 0;
        }
        sent.sort_unstable();
        let mut matched = 0;
        for arrival in arrivals {
            matched += usize::from(sent.get(matched).is_some_and(|sent| *sent <= arrival));
        }
        let matched = (matched as u32).min(arrived);
        // One writer may be where the value stays.
        let senders = sent.len() as u32;
        let more = |senders: u32| senders - matched.min(senders);
        self.spared = more(senders) > more(senders - 1);
        self.excused = false;
        for trace in &mut self.nodes {
            trace.wrote_before = trace.wrote.take().is_some();
        }
        more(senders - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        Read(u16),
        /// Without having read.
        Write(u16),
        Update(u16),
        EndEpoch,
    }

    /// Which writes a node knows, as bits, by node.
    type Known = Vec<u8>;

    /// Every way to keep nodes informed, up to the present step: what the nodes know, and the least number of
    /// transfers for that.
    #[derive(Clone)]
    struct Optimum {
        ways: BTreeMap<Known, u32>,
        /// Node, epoch and time of each write.
        writes: Vec<(u16, u32, Time)>,
    }

    impl Optimum {
        fn new(nodes: usize) -> Self {
            Self { ways: BTreeMap::from([(vec![0; nodes], 0)]), writes: Vec::new() }
        }

        fn least(&self) -> u32 {
            *self.ways.values().min().expect("all can be sent to all")
        }

        /// Adds all that transfers between nodes can lead to, and keeps what `suffices`. A transfer that is
        /// made later informs no less, so transfers before steps that need something are enough.
        fn transfer(&mut self, suffices: impl Fn(&Known) -> bool) {
            let mut open: Vec<(Known, u32)> = self.ways.iter().map(|(k, c)| (k.clone(), *c)).collect();
            while let Some((known, cost)) = open.pop() {
                if self.ways[&known] < cost {
                    continue;
                }
                for from in 0..known.len() {
                    for to in 0..known.len() {
                        let mut next = known.clone();
                        next[to] |= known[from];
                        let best = self.ways.entry(next.clone()).or_insert(u32::MAX);
                        if cost + 1 < *best {
                            *best = cost + 1;
                            open.push((next, cost + 1));
                        }
                    }
                }
            }
            self.ways.retain(|known, _| suffices(known));
        }

        fn step(&mut self, step: Step, epoch: u32, at: Time, staleness: Option<Time>) {
            if let Step::Read(node) | Step::Update(node) = step {
                let must = |written: &(u16, u32, Time)| {
                    written.1 < epoch || staleness.is_some_and(|staleness| written.2 + staleness < at)
                };
                let needed = bits(self.writes.iter().map(|written| written.0 != node && must(written)));
                self.transfer(|known| known[usize::from(node)] & needed == needed);
            }
            if let Step::Write(node) | Step::Update(node) = step {
                let bit = 1 << self.writes.len();
                self.writes.push((node, epoch, at));
                let ways = std::mem::take(&mut self.ways).into_iter();
                self.ways = ways
                    .map(|(mut known, cost)| {
                        known[usize::from(node)] |= bit;
                        (known, cost)
                    })
                    .collect();
            }
            if step == Step::EndEpoch {
                let all = bits(self.writes.iter().map(|_| true));
                self.transfer(|known| known.contains(&all));
            }
        }
    }

    fn bits(set: impl Iterator<Item = bool>) -> u8 {
        set.enumerate().map(|(at, is_set)| u8::from(is_set) << at).sum()
    }

    /// A run so far.
    #[derive(Clone)]
    struct Run {
        trace: KeyTrace,
        bound: u32,
        optimum: Optimum,
        steps: Vec<Step>,
        epoch: u32,
    }

    impl Run {
        fn new(nodes: usize) -> Self {
            let (trace, optimum) = (KeyTrace::default(), Optimum::new(nodes));
            Self { trace, bound: 0, optimum, steps: Vec::new(), epoch: 0 }
        }

        fn step(&mut self, step: Step, staleness: Option<Time>) {
            let at = self.steps.len() as Time;
            if let Step::Read(node) | Step::Update(node) = step {
                self.bound += self.trace.read(node, self.epoch, at, staleness);
            }
            if let Step::Write(node) | Step::Update(node) = step {
                self.trace.write(node, self.epoch, at);
            }
            if step == Step::EndEpoch {
                self.bound += self.trace.end_epoch();
            }
            self.optimum.step(step, self.epoch, at, staleness);
            self.epoch += u32::from(step == Step::EndEpoch);
            self.steps.push(step);
        }
    }

    /// Compares all continuations of a run. Returns in how many the bound is the optimum, and how many there
    /// are.
    fn compare(run: &Run, nodes: u16, more: usize, staleness: Option<Time>) -> (u64, u64) {
        let mut ended = run.clone();
        ended.step(Step::EndEpoch, staleness);
        let (bound, least) = (ended.bound, ended.optimum.least());
        assert!(bound <= least, "{:?} at {staleness:?}: {bound} > {least}", ended.steps);
        assert!(run.bound <= run.optimum.least(), "{:?} at {staleness:?}", run.steps);
        let mut counts = (u64::from(bound == least), 1);
        if more == 0 {
            return counts;
        }
        let steps = (0..nodes).flat_map(|node| [Step::Read(node), Step::Write(node), Step::Update(node)]);
        for step in steps.chain([Step::EndEpoch]) {
            let mut next = run.clone();
            next.step(step, staleness);
            let (tight, all) = compare(&next, nodes, more - 1, staleness);
            counts = (counts.0 + tight, counts.1 + all);
        }
        counts
    }

    #[test]
    fn the_bound_is_never_above_the_optimum() {
        for (nodes, steps) in [(2, 5), (3, 4)] {
            for staleness in [None, Some(0), Some(1), Some(3)] {
                let (tight, all) = compare(&Run::new(nodes), nodes as u16, steps, staleness);
                assert!(tight * 10 > all * 9, "reached in {tight} of {all} traces at {staleness:?}");
            }
        }
    }
}
