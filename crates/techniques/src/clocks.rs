//! Clocks of bounded staleness [SSP; ESSP; thesis §2.2.3; Lapser §2.3].
//!
//! A worker advances its clock as it likes. With staleness bound s, a read at clock c contains every update
//! that any worker made up to its own clock c − s − 1.
//!
//! | actor | event | action |
//! | --- | --- | --- |
//! | worker | | advances its clock, enters a meeting (*rests*), returns from one |
//! | node | its slowest working worker reaches n | sends earlier updates, then *clock* n → all nodes |
//! | owner | *clock* of all nodes | *global clock* g := their minimum: has every update up to g − 1 |
//!
//! A node sends its clock on every channel. A copy whose value an owner sent at global clock g may be read at
//! clocks up to g + s.
//!
//! **Rest.** A worker that waits in a meeting, or has finished, makes no updates, so no worker waits for it.
//! All workers of all nodes take part in a meeting, and all leave it with the latest of their clocks. When
//! one node reports to an owner that it has *resumed* from a meeting, the owner treats the nodes that rest in
//! that meeting as working again, at the clock at which they last worked, until they report a newer one.
//! Otherwise fast nodes could run ahead of nodes whose message is still in flight. Nodes count the meetings
//! that they return from, so that a late message about one meeting does not end the rest of nodes that wait
//! in the next one.

use intendant_core::NodeId;

/// The clock of a node if none of its workers is working.
pub const RESTING: u32 = u32::MAX;

/// The clock of a node's workers, for its channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// A clock with a later serial supersedes one with an earlier serial, also if it arrives first.
    pub serial: u64,
    /// The clock of the slowest worker that is working, or [`RESTING`].
    pub clock: u32,
    /// How many meetings the workers have returned from.
    pub meetings: u32,
    /// The latest clock of any worker so far.
    pub latest: u32,
}

/// The clocks of a node's workers.
#[derive(Clone, Debug)]
pub struct WorkerClocks {
    workers: Vec<u32>,
    latest: u32,
    last: NodeClock,
}

impl WorkerClocks {
    /// All workers are working, at clock 0.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: vec![0; workers], latest: 0, last: NodeClock::default() }
    }

    /// Sets a worker's clock, [`RESTING`] while it rests. Returns the clock to tell the channels, if it
    /// changed.
    pub fn set(&mut self, worker: usize, clock: u32) -> Option<NodeClock> {
        let mut next = self.last;
        if std::mem::replace(&mut self.workers[worker], clock) == RESTING && clock != RESTING {
            // The others return from the same meeting with the same clock.
            for resting in self.workers.iter_mut().filter(|clock| **clock == RESTING) {
                *resting = clock;
            }
            next.meetings = next.meetings.wrapping_add(1);
        }
        next.clock = self.workers.iter().copied().min().unwrap_or(RESTING);
        if clock != RESTING {
            self.latest = self.latest.max(clock);
        }
        if next == self.last {
            return None;
        }
        (next.serial, next.latest) = (next.serial + 1, self.latest);
        self.last = next;
        Some(next)
    }
}

/// The last report of a node about its workers.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// Clock of the slowest worker when any of them worked last.
    worked: u32,
    /// Whether the node rests, by its last report.
    rests: bool,
    /// How many meetings the node has returned from.
    meetings: u32,
}

/// An owner's knowledge of the clocks of all nodes.
#[derive(Clone, Debug)]
pub struct GlobalClock {
    nodes: Vec<Standing>,
    global: u32,
    /// The latest clock of any node.
    latest: u32,
}

impl GlobalClock {
    /// All nodes are working, at clock 0.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes: vec![Standing::default(); nodes], global: 0, latest: 0 }
    }

    /// The global clock: the owner has every update made at earlier clocks.
    #[must_use]
    pub fn global(&self) -> u32 {
        self.global
    }

    /// The latest clock of any node.
    #[must_use]
    pub fn latest(&self) -> u32 {
        self.latest
    }

    /// Whether all nodes rest in the same meeting. Then all updates that any of them made have arrived.
    #[must_use]
    pub fn rests(&self) -> bool {
        let meetings = self.nodes.iter().map(|standing| standing.meetings).max().unwrap_or(0);
        self.nodes.iter().all(|standing| standing.rests && standing.meetings == meetings)
    }

    /// Notes that a node has reached `clock`, or rests. Returns whether the global clock has advanced.
    pub fn reach(&mut self, node: NodeId, clock: u32) -> bool {
        let standing = &mut self.nodes[node.index()];
        standing.rests = clock == RESTING;
        if !standing.rests {
            standing.worked = clock;
            self.latest = self.latest.max(clock);
        }
        let meetings = self.nodes.iter().map(|standing| standing.meetings).max().unwrap_or(0);
        // A node that rests in a meeting from which another has returned works again; its report is in
        // flight.
        let working = self.nodes.iter().filter(|standing| !standing.rests || standing.meetings < meetings);
        let global = working.map(|standing| standing.worked).min().unwrap_or(self.latest);
        let advanced = global > self.global;
        self.global = self.global.max(global);
        advanced
    }

    /// Notes that a node has returned from a meeting. The node reports its clock afterwards; until then its
    /// last clock counts.
    pub fn resume(&mut self, node: NodeId) {
        let standing = &mut self.nodes[node.index()];
        standing.meetings = standing.meetings.saturating_add(1);
        standing.rests = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_as_fast_as_its_slowest_working_worker() {
        let mut clocks = WorkerClocks::new(2);
        let told = |serial, clock, meetings, latest| Some(NodeClock { serial, clock, meetings, latest });
        assert_eq!(clocks.set(0, 1), None);
        assert_eq!(clocks.set(1, 2), told(1, 1, 0, 2));
        assert_eq!(clocks.set(0, RESTING), told(2, 2, 0, 2));
        assert_eq!(clocks.set(1, RESTING), told(3, RESTING, 0, 2));
        assert_eq!(clocks.set(0, 2), told(4, 2, 1, 2));
        assert_eq!(clocks.set(0, 3), None, "the other one is at 2, although it has not said so");
        assert_eq!(clocks.set(1, 2), None);
        assert_eq!(clocks.set(1, 3), told(5, 3, 1, 3));
    }

    #[test]
    fn the_global_clock_waits_for_all_that_work() {
        let mut global = GlobalClock::new(2);
        assert!(!global.reach(NodeId(0), 3));
        assert!(global.reach(NodeId(1), 2));
        assert_eq!(global.global(), 2);
        assert!(global.reach(NodeId(1), RESTING), "no node waits for it");
        assert_eq!(global.global(), 3);
        assert!(!global.reach(NodeId(0), RESTING));
        assert_eq!((global.global(), global.latest()), (3, 3));
    }

    #[test]
    fn no_node_runs_ahead_of_one_whose_return_is_not_known_yet() {
        let mut global = GlobalClock::new(2);
        global.reach(NodeId(1), 4);
        global.reach(NodeId(0), RESTING);
        assert_eq!(global.global(), 4);
        global.reach(NodeId(1), RESTING);
        global.resume(NodeId(0));
        assert!(!global.reach(NodeId(0), 6), "node 1 works, at clock 4 or later");
        global.resume(NodeId(1));
        assert!(global.reach(NodeId(1), 5));
        assert_eq!(global.global(), 5);
        assert!(global.reach(NodeId(1), 6));
    }

    #[test]
    fn a_node_that_has_returned_works_at_its_last_clock_until_it_reports_a_newer_one() {
        let mut global = GlobalClock::new(2);
        global.reach(NodeId(1), 4);
        global.reach(NodeId(0), RESTING);
        global.reach(NodeId(1), RESTING);
        global.resume(NodeId(0));
        global.resume(NodeId(1));
        assert!(!global.reach(NodeId(0), 6), "node 1 works, and its clock follows");
        assert_eq!(global.global(), 4);
        assert!(global.reach(NodeId(1), 5));
        assert_eq!(global.global(), 5);
    }

    #[test]
    fn a_rest_that_is_heard_late_is_one_in_a_meeting_that_is_over() {
        let mut global = GlobalClock::new(2);
        global.reach(NodeId(1), 4);
        global.resume(NodeId(0));
        assert!(global.reach(NodeId(0), 5));
        assert_eq!(global.global(), 4, "node 1 was not heard to rest");
        assert!(!global.reach(NodeId(1), RESTING), "it has come from that meeting with node 0");
        assert_eq!(global.global(), 4);
    }

    #[test]
    fn a_late_message_about_one_meeting_does_not_end_the_rest_in_the_next() {
        let mut global = GlobalClock::new(2);
        global.resume(NodeId(1));
        global.reach(NodeId(1), 3);
        global.reach(NodeId(1), RESTING);
        global.resume(NodeId(0));
        assert!(
            global.reach(NodeId(0), 7),
            "node 1 has come from that meeting before, and rests in the next"
        );
        assert_eq!(global.global(), 7);
    }
}
