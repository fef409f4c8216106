//! Bounded staleness: workers advance their clocks at different speeds, meet, and read values whose age is
//! bounded.

use super::super::cluster::{Cluster, Seed, Setup};
use super::{is_complete, seeds};
use intendant_core::{ChannelId, Clock, Key, NodeId};
use intendant_engine::{Input, ManagementStats, ReplicationConfig, Storage};
use intendant_techniques::clocks::{NodeClock, RESTING};
use intendant_techniques::{Role, Technique};
use intendant_wire::{self as wire, ClockScope, Message};

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It works, and advances its clock so many times before the next meeting or the end.
    Work(usize),
    /// It waits in a meeting.
    Meeting,
    /// The meeting is over, and the worker has not left it.
    Leaving,
    Finished,
}

struct Run {
    c: Cluster,
    at: Vec<At>,
    /// Per worker, the number of meetings to come.
    meetings: Vec<usize>,
    /// Per worker, the chance that it goes on when it is its turn, in percent.
    speed: Vec<usize>,
    /// The most operations that a worker has under way.
    ahead: usize,
    bound: u32,
    /// Whether the next meeting waits for quiescence: workers come with no operation under way.
    quiet: bool,
    /// The clock with which workers leave the last meeting.
    latest: u32,
}

impl Run {
    fn new(seed: u64, technique: Technique) -> Self {
        let bound = [0, 1, 3][seed as usize % 3];
        let setup = Setup {
            nodes: 2 + seed as usize / 3 % 3,
            workers: 1 + seed as usize / 9 % 3,
            channels: 1 + seed as usize / 2 % 2,
            keys: 4,
            storage: if seed.is_multiple_of(2) { Storage::Dense } else { Storage::Sparse },
            policy: technique.policy(),
            replication: ReplicationConfig { staleness: bound, ..ReplicationConfig::default() },
        };
        let mut c = Cluster::new(setup, seed);
        let workers = c.workers.len();
        let ahead = [0, 2, 4][c.dice.below(3)];
        let meetings = c.dice.below(5);
        let speed = (0..workers).map(|_| [10, 40, 90][c.dice.below(3)]).collect();
        let at = (0..workers).map(|_| At::Work(c.dice.below(6))).collect();
        let quiet = c.dice.percent(30);
        Self { c, at, meetings: vec![meetings; workers], speed, ahead, bound, quiet, latest: 0 }
    }

    /// Returns how many replicas were dropped before the end.
    fn run(mut self, stats: &mut ManagementStats) -> u64 {
        let mut stuck = 0;
        for step in 0.. {
            if step % 60 == 0 {
                self.c.shift();
            }
            if self.at.iter().all(|at| *at == At::Finished) && !self.are_reporting() {
                break;
            }
            let me = self.c.dice.below(self.at.len());
            let went = match self.c.dice.below(3) {
                0 => self.step(me),
                1 => self.c.receive(me),
                _ => self.c.deliver_any(),
            };
            stuck = if went { 0 } else { stuck + 1 };
            if stuck > 1_000 {
                let clocks: Vec<_> = self.c.workers.iter().map(|worker| worker.clock).collect();
                panic!("no worker goes on: {:?} at clocks {clocks:?}", self.at);
            }
        }
        let ManagementStats { replica_drops, .. } = self.c.stats();
        self.check_quiet();
        stats.merge(&self.c.stats());
        replica_drops
    }

    /// The next step of a worker; false if the worker has to wait.
    fn step(&mut self, me: usize) -> bool {
        let under_way = self.c.workers[me].ahead();
        // Other workers may run between a worker's change of the clock and its reports to the channels.
        if let Some((channel, input)) = self.c.workers[me].unreported.pop_front() {
            self.c.submit(me, channel, input);
            self.meet();
            return true;
        }
        match self.at[me] {
            At::Work(_) if under_way > self.ahead => return false,
            At::Work(_) if !self.c.dice.percent(self.speed[me]) => {}
            At::Work(_) if self.c.dice.percent(75) => self.act(me),
            At::Work(left @ 1..) => {
                self.at[me] = At::Work(left - 1);
                let clock = self.c.workers[me].clock + 1;
                self.c.advance(me, clock);
            }
            // Before a meeting for quiescence and before the end, a worker waits for its operations.
            At::Work(0) if under_way > 0 && (self.quiet || self.meetings[me] == 0) => return false,
            At::Work(0) => {
                self.c.rest(me);
                self.at[me] = if self.meetings[me] == 0 { At::Finished } else { At::Meeting };
                self.meet();
            }
            At::Leaving => {
                self.at[me] = At::Work(self.c.dice.below(6));
                self.c.advance(me, self.latest);
            }
            At::Meeting | At::Finished => return false,
        }
        true
    }

    /// Whether a worker has not reported its clock to all channels.
    fn are_reporting(&self) -> bool {
        self.c.workers.iter().any(|worker| !worker.unreported.is_empty())
    }

    /// Ends the meeting if all workers have come.
    fn meet(&mut self) {
        if self.at.iter().any(|at| *at != At::Meeting) || self.are_reporting() {
            return;
        }
        if self.quiet {
            self.check_quiet();
        }
        self.latest = self.c.workers.iter().map(|worker| worker.clock).max().expect("workers");
        self.at.fill(At::Leaving);
        self.meetings.iter_mut().for_each(|left| *left -= 1);
        self.quiet = self.c.dice.percent(30);
    }

    /// Checks the cluster at quiescence. All workers are idle.
    fn check_quiet(&mut self) {
        self.c.drain();
        self.c.quiesce(60);
        self.c.check_end();
        self.c.check_staleness(self.bound);
        if self.c.setup.policy == Technique::Ssp.policy() {
            for key in (0..self.c.setup.keys).map(Key) {
                assert!((0..self.c.setup.nodes).all(|node| self.c.role(node, key) != Role::Replica));
            }
        }
    }

    fn act(&mut self, me: usize) {
        let keys = self.c.setup.keys as usize;
        let (key, other) = (Key(self.c.dice.below(keys) as u64), Key(self.c.dice.below(keys) as u64));
        match self.c.dice.below(12) {
            0..5 => self.c.pull(me, &[key, other]),
            5 => {
                self.c.pull_if_local(me, key);
            }
            6 if key == Key(0) => self.c.set(me, key),
            _ => self.c.push(me, key),
        }
    }
}

impl Cluster {
    fn advance(&mut self, me: usize, clock: u32) {
        self.watch.trace(|| format!("worker {me} advances to {clock}"));
        let worker = &mut self.workers[me];
        worker.clock = clock;
        let advanced = self.nodes[me / self.setup.workers].clocks().advance(&mut worker.local, Clock(clock));
        self.note_clock(me, advanced.clock);
    }

    fn rest(&mut self, me: usize) {
        self.watch.trace(|| format!("worker {me} rests"));
        let clock = self.nodes[me / self.setup.workers].clocks().rest(self.workers[me].local.worker());
        self.note_clock(me, clock);
    }

    /// The worker has to report the node's clock to each channel, if the clock has changed.
    fn note_clock(&mut self, me: usize, clock: Option<NodeClock>) {
        let channels = (0..self.setup.channels).map(|channel| ChannelId(channel as u16));
        let inputs = channels.filter_map(|channel| Some((channel, Input::Clock(clock?))));
        self.workers[me].unreported.extend(inputs);
    }

    /// Checks that a read at clock c contains every update of every worker from clocks before c − bound.
    fn check_staleness(&self, bound: u32) {
        for worker in &self.workers {
            for read in worker.reads.iter().filter(|read| !self.workers.iter().any(|w| w.has_set(read.key))) {
                let value = read.value.as_ref().expect("the read has ended");
                for (lane, writer) in self.workers.iter().enumerate() {
                    let least = writer.pushes_before(read.key, read.clock.saturating_sub(bound));
                    assert!(
                        value[lane] >= least as f32,
                        "{read:?} of {}: lane {lane} is below {least}",
                        worker.me()
                    );
                }
            }
        }
    }
}

/// The statistics of all runs, and how many replicas were dropped before their ends.
fn run(technique: Technique) -> (ManagementStats, u64) {
    let (mut stats, mut dropped) = (ManagementStats::default(), 0);
    for seed in seeds(1_000) {
        let _seed = Seed(seed);
        dropped += Run::new(seed, technique).run(&mut stats);
    }
    (stats, dropped)
}

#[test]
fn stale_synchronous_parallel() {
    let (ManagementStats { replica_setups, replica_drops, stale_reads, .. }, dropped) = run(Technique::Ssp);
    if !is_complete() {
        return;
    }
    assert_eq!(replica_setups, replica_drops, "all replicas are dropped in the end");
    assert!(
        dropped > replica_drops / 2,
        "only {dropped} of {replica_drops} were dropped because of their age"
    );
    assert!(
        replica_setups > 1_000 && stale_reads > 1_000,
        "{replica_setups} replicas, {stale_reads} reads waited"
    );
}

#[test]
fn eager_stale_synchronous_parallel() {
    let (ManagementStats { replica_setups, replica_drops, stale_reads, .. }, _) = run(Technique::Essp);
    if !is_complete() {
        return;
    }
    // Only sets end replicas.
    assert!(replica_drops < replica_setups / 2, "{replica_drops} of {replica_setups} replicas were dropped");
    assert!(
        replica_setups > 1_000 && stale_reads > 1_000,
        "{replica_setups} replicas, {stale_reads} reads waited"
    );
}

/// Three nodes at clock 5, in a meeting to which all workers have come. Whether a read of node 0 waits shows
/// which clock node 0 takes for the global clock.
fn owner_in_a_meeting() -> Cluster {
    let replication = ReplicationConfig { staleness: 0, ..ReplicationConfig::default() };
    let (storage, policy) = (Storage::Dense, Technique::Essp.policy());
    let setup = Setup { nodes: 3, workers: 1, channels: 1, keys: 3, storage, policy, replication };
    let mut c = Cluster::new(setup, 0);
    c.reach(5);
    c.hear(1, ClockScope::Node, 5);
    c.hear(2, ClockScope::Node, 5);
    assert!(c.pull_if_local(0, Key(0)), "all updates from before clock 5 are here");
    c.rest(0);
    c.report(0);
    c
}

impl Cluster {
    /// Queues the clocks that a worker has to report.
    fn submit_clocks(&mut self, me: usize) {
        while let Some((channel, input)) = self.workers[me].unreported.pop_front() {
            self.submit(me, channel, input);
        }
    }

    /// A worker's channels handle the clocks that it has to report.
    fn report(&mut self, me: usize) {
        while let Some((channel, input)) = self.workers[me].unreported.pop_front() {
            let place = self.places_of(me / self.setup.workers).start + channel.index();
            self.handle(place, input);
        }
    }

    /// Worker 0, of node 0, reaches a clock.
    fn reach(&mut self, clock: u32) {
        self.advance(0, clock);
        self.report(0);
    }

    /// Node 0 hears of the clock of another node.
    fn hear(&mut self, from: u16, scope: ClockScope, clock: u32) {
        let message = Message::Clock(wire::Clock { scope, clock });
        self.handle(0, Input::Message { from: NodeId(from), message });
    }
}

#[test]
fn a_node_that_has_left_a_meeting_without_a_new_clock_holds_up_reads() {
    let mut c = owner_in_a_meeting();
    c.hear(1, ClockScope::Node, RESTING);
    c.hear(2, ClockScope::Node, RESTING);
    c.hear(1, ClockScope::Resumed, 0);
    c.hear(2, ClockScope::Resumed, 0);
    c.hear(2, ClockScope::Node, 6);
    c.reach(5);
    c.reach(6);
    assert!(!c.pull_if_local(0, Key(0)), "node 1 works at clock 5");
    c.hear(1, ClockScope::Node, 6);
    assert!(c.pull_if_local(0, Key(0)));
}

#[test]
fn the_report_of_a_rest_after_the_end_of_its_meeting_has_no_effect() {
    let mut c = owner_in_a_meeting();
    c.hear(2, ClockScope::Node, RESTING);
    c.hear(2, ClockScope::Resumed, 0);
    c.hear(2, ClockScope::Node, 6);
    c.reach(6);
    c.hear(1, ClockScope::Node, RESTING);
    assert!(!c.pull_if_local(0, Key(0)), "node 1 rested in the meeting that node 2 has left");
    c.hear(1, ClockScope::Resumed, 0);
    c.hear(1, ClockScope::Node, 5);
    assert!(!c.pull_if_local(0, Key(0)));
    c.hear(1, ClockScope::Node, 6);
    assert!(c.pull_if_local(0, Key(0)));
}

#[test]
fn a_node_that_rests_in_the_next_meeting_stays_at_rest_when_others_leave_the_last_one() {
    let mut c = owner_in_a_meeting();
    c.hear(1, ClockScope::Node, RESTING);
    c.hear(2, ClockScope::Node, RESTING);
    c.hear(2, ClockScope::Resumed, 0);
    c.hear(2, ClockScope::Node, 6);
    c.hear(2, ClockScope::Node, RESTING);
    c.reach(8);
    c.hear(1, ClockScope::Resumed, 0);
    c.hear(1, ClockScope::Node, 5);
    assert!(!c.pull_if_local(0, Key(0)));
    c.hear(1, ClockScope::Node, 8);
    assert!(c.pull_if_local(0, Key(0)), "node 2 has no update to make before the next meeting");
}

/// The request of a worker with a later clock must not hide that of a worker with an earlier one.
#[test]
fn a_slow_reader_does_not_wait_for_the_clock_of_a_fast_one() {
    let replication = ReplicationConfig { staleness: 0, ..ReplicationConfig::default() };
    let (storage, policy) = (Storage::Dense, Technique::Ssp.policy());
    let setup = Setup { nodes: 2, workers: 2, channels: 1, keys: 2, storage, policy, replication };
    let mut c = Cluster::new(setup, 0);
    // Workers 2 and 3 of node 1 read a key of node 0 at clocks 2 and 1, while node 0 is at clock 0.
    for (me, clock) in [(2, 2), (3, 1)] {
        c.advance(me, clock);
        c.submit_clocks(me);
        c.deliver_all();
    }
    for me in [2, 3] {
        c.pull(me, &[Key(0)]);
        c.deliver_all();
    }
    assert_eq!((c.workers[2].inbox.len(), c.workers[3].inbox.len()), (0, 0));
    c.rest(0);
    c.rest(1);
    c.report(1);
    c.deliver_all();
    c.receive_all(3);
    assert_eq!((c.workers[2].ahead(), c.workers[3].ahead()), (1, 0));
}

/// Workers read the replica once and afterwards only push to it, so that it is too old for another read.
#[test]
fn a_holder_sends_the_updates_of_an_old_replica_once_per_clock() {
    let (storage, policy) = (Storage::Dense, Technique::Ssp.policy());
    let setup = Setup {
        nodes: 2,
        workers: 1,
        channels: 1,
        keys: 2,
        storage,
        policy,
        replication: ReplicationConfig::default(),
    };
    let mut c = Cluster::new(setup, 0);
    c.pull(1, &[Key(0)]);
    c.deliver_all();
    c.receive_all(1);
    assert_eq!(c.role(1, Key(0)), Role::Replica);
    let count = |c: &Cluster, what| c.watch.counts.get(what).copied().unwrap_or(0);
    let mut before = 0;
    for clock in 3..10 {
        c.advance(1, clock);
        c.submit_clocks(1);
        for _ in 0..50 {
            c.push(1, Key(0));
            c.deliver_any();
            c.receive_all(1);
        }
        let deltas = count(&c, "delta sent");
        assert!(deltas <= before + 1, "{} deltas at clock {clock}", deltas - before);
        before = deltas;
    }
    assert!(before > 3 && count(&c, "revived") == 0, "{:?}", c.watch.counts);
    c.rest(0);
    c.rest(1);
    c.report(0);
    c.submit_clocks(1);
    c.drain();
    c.quiesce(20);
    c.check_end();
}
