//! Aligns the clocks of the nodes.
//!
//! The clock of each node starts at a moment of its own. Two kinds of events order moments of different
//! nodes: no node goes on after a meeting before all nodes have come, and no key arrives before it has left.
//! Each such pair bounds the difference of two offsets from one side. The tightest bounds, also along chains
//! of nodes, give an interval for each offset relative to the first node. The estimate is the middle of the
//! interval; the error is half its width.

use crate::record::{ARRIVED, CAME, LEFT, Record, WENT_ON};
use intendant_core::random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Clocks are read in whole microseconds, so the events of a pair may seem to be this much in the wrong
/// order.
const ROUNDING_US: i64 = 1;

/// The most comparisons of meetings, over all pairs of nodes. Further meetings add little information.
const COMPARED_MAX: usize = 1 << 27;

/// The most hand-overs that are matched.
const MOVES_MAX: usize = 1 << 21;

/// The largest offset (142 years). A real run has no larger one.
const OFFSET_MAX: i64 = 1 << 52;

/// Chains of bounds are no longer than this many nodes: meetings connect all nodes directly.
const CHAIN_MAX: usize = 64;

/// How the clocks of the nodes were aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// The information from which the offsets follow.
    pub method: Method,
    /// Meetings of at least two nodes that were used.
    pub meetings: u64,
    /// Hand-overs of keys that were used.
    pub moves: u64,
    /// By how many microseconds the bounds contradict each other because the clocks have drifted; 0 if they
    /// do not. The errors include this number.
    pub contradiction_us: u64,
}

/// The information from which offsets follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The run is simulated, or has one node: there is one clock.
    #[default]
    OneClock,
    /// The order of events of different nodes.
    Events,
    /// Wall clocks, at least for some nodes. The errors of these nodes are not known.
    WallClocks,
}

/// What is known about a node that takes part.
pub(crate) struct Clocked<'a> {
    pub(crate) node: u16,
    /// The wall-clock time at which the node's clock was 0; 0 if the run is simulated.
    pub(crate) epoch_us: u64,
    pub(crate) records: &'a [Record],
    /// Whether all its events are there, so that hand-overs can be matched by number.
    pub(crate) is_complete: bool,
}

/// The offset of a node, which is added to its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) us: i64,
    /// `None` if it is not known.
    pub(crate) error_us: Option<u64>,
}

/// Computes the offsets of all nodes relative to the first node, in the order of `nodes`.
pub(crate) fn align(nodes: &[Clocked<'_>]) -> (Vec<Offset>, Alignment) {
    let exact = Offset { us: 0, error_us: Some(0) };
    if nodes.len() < 2 || nodes.iter().all(|node| node.epoch_us == 0) {
        return (vec![exact; nodes.len()], Alignment::default());
    }
    let mut bounds = Bounds::new(nodes.len());
    let meetings = bounds.add_meetings(nodes);
    let moves = bounds.add_moves(nodes);
    let (slack, upper, lower) = bounds.solve();
    let wall = |at: usize| {
        let difference = i128::from(nodes[at].epoch_us) - i128::from(nodes[0].epoch_us);
        difference.clamp((-OFFSET_MAX).into(), OFFSET_MAX.into()) as i64
    };
    let mut method = Method::Events;
    let mut offset = |at: usize| match (lower[at], upper[at]) {
        _ if at == 0 => exact,
        (Some(low), Some(high)) => {
            let error = high.saturating_sub(low).max(0).unsigned_abs().div_ceil(2);
            let middle = low.saturating_add(high.saturating_sub(low).div_euclid(2));
            Offset { us: middle, error_us: Some(error.saturating_add(slack.unsigned_abs())) }
        }
        (low, high) => {
            method = Method::WallClocks;
            let us = wall(at).max(low.unwrap_or(-OFFSET_MAX)).min(high.unwrap_or(OFFSET_MAX));
            Offset { us, error_us: None }
        }
    };
    let offsets = (0..nodes.len()).map(&mut offset).collect();
    (offsets, Alignment { method, meetings, moves, contradiction_us: slack.unsigned_abs() })
}

/// A node at a meeting: when it came (the first time), and when it went on (the last time).
struct Presence {
    node: usize,
    came: Option<u64>,
    went_on: Option<u64>,
}

/// For each pair of nodes, an upper bound on the offset of the first minus the offset of the second.
struct Bounds {
    nodes: usize,
    /// By first and second node; `i64::MAX` if there is no bound.
    most: Vec<i64>,
}

impl Bounds {
    fn new(nodes: usize) -> Self {
        Self { nodes, most: vec![i64::MAX; nodes * nodes] }
    }

    /// Adds the bound that `earlier` at node `a` precedes `later` at node `b`.
    fn precedes(&mut self, (a, earlier): (usize, u64), (b, later): (usize, u64)) {
        let most = &mut self.most[a * self.nodes + b];
        *most = (*most).min(later as i64 - earlier as i64 + ROUNDING_US);
    }

    fn add_meetings(&mut self, nodes: &[Clocked<'_>]) -> u64 {
        let mut meetings: BTreeMap<u64, Vec<Presence>> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            for record in node.records {
                if record.kind != CAME && record.kind != WENT_ON {
                    continue;
                }
                let those = meetings.entry(record.detail).or_default();
                if those.last().is_none_or(|last| last.node != at) {
                    those.push(Presence { node: at, came: None, went_on: None });
                }
                let Some(Presence { came, went_on, .. }) = those.last_mut() else { continue };
                if record.kind == CAME {
                    *came = Some(came.map_or(record.at, |before| before.min(record.at)));
                } else {
                    *went_on = Some(went_on.map_or(record.at, |before| before.max(record.at)));
                }
            }
        }
        meetings.retain(|_, those| those.len() > 1);
        let each = (meetings.len() * nodes.len() * nodes.len()).div_ceil(COMPARED_MAX).max(1);
        let mut used = 0;
        for those in meetings.values().step_by(each) {
            used += 1;
            for a in those {
                for b in those.iter().filter(|b| b.node != a.node) {
                    if let (Some(came), Some(went_on)) = (a.came, b.went_on) {
                        self.precedes((a.node, came), (b.node, went_on));
                    }
                }
            }
        }
        used
    }

    /// Adds the bounds of hand-overs: when a key leaves one node for another the i-th time, it then arrives
    /// there the i-th time.
    fn add_moves(&mut self, nodes: &[Clocked<'_>]) -> u64 {
        if !nodes.iter().all(|node| node.is_complete) {
            return 0;
        }
        let places: BTreeMap<u16, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.node, at)).collect();
        let moving = |record: &&Record| record.kind == LEFT || record.kind == ARRIVED;
        let all: usize = nodes.iter().map(|node| node.records.iter().filter(moving).count()).sum();
        // If there are too many moves, all moves of some keys are used.
        let each = all.div_ceil(MOVES_MAX).max(1) as u64;
        // To be sorted by key, by pair of nodes, departures before arrivals, and by time.
        let mut moves = Vec::with_capacity(all.min(2 * MOVES_MAX));
        for (at, node) in nodes.iter().enumerate() {
            for record in node.records.iter().filter(moving) {
                let Some(peer) = places.get(&record.peer) else { continue };
                if random::stream(1, &[record.key]).is_multiple_of(each) {
                    let arrives = record.kind == ARRIVED;
                    let (from, to) = if arrives { (*peer, at) } else { (at, *peer) };
                    moves.push((record.key, from, to, arrives, record.at));
                }
            }
        }
        moves.sort_unstable();
        let mut used = 0;
        for same in moves.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
            let (left, arrived) = same.split_at(same.partition_point(|(.., arrives, _)| !arrives));
            // If a departure is missing, arrivals cannot be matched by number.
            if left.len() < arrived.len() || same[0].1 == same[0].2 {
                continue;
            }
            for (left, arrived) in left.iter().zip(arrived) {
                self.precedes((left.1, left.4), (left.2, arrived.4));
                used += 1;
            }
        }
        used
    }

    /// Returns the least slack with which the bounds agree, and the highest and the lowest offsets relative
    /// to the first node under this slack.
    fn solve(&self) -> (i64, Vec<Option<i64>>, Vec<Option<i64>>) {
        let agree = |slack| Some((self.farthest(slack, false)?, self.farthest(slack, true)?));
        let (mut too_little, mut enough) = (-1, 0);
        let mut solution = agree(0);
        while solution.is_none() && enough < OFFSET_MAX {
            too_little = enough;
            enough = (2 * enough).max(1);
            solution = agree(enough);
        }
        while enough - too_little > 1 && solution.is_some() && enough > 0 {
            let middle = too_little + (enough - too_little) / 2;
            match agree(middle) {
                None => too_little = middle,
                found => (enough, solution) = (middle, found),
            }
        }
        let none = || vec![None; self.nodes];
        let (upper, lower) = solution.unwrap_or_else(|| (none(), none()));
        (enough, upper, lower.into_iter().map(|bound| bound.map(|bound: i64| -bound)).collect())
    }

    /// The shortest paths from the first node, or to it; `None` if there are cycles of negative length.
    fn farthest(&self, slack: i64, back: bool) -> Option<Vec<Option<i64>>> {
        let mut found: Vec<Option<i64>> = vec![None; self.nodes];
        found[0] = Some(0);
        for _ in 0..=self.nodes.min(CHAIN_MAX) {
            let mut changed = false;
            for from in 0..self.nodes {
                let Some(so_far) = found[from] else { continue };
                for (to, found) in found.iter_mut().enumerate() {
                    let most = self.most[if back { from * self.nodes + to } else { to * self.nodes + from }];
                    if most == i64::MAX {
                        continue;
                    }
                    let bound = so_far.saturating_add(most).saturating_add(slack);
                    if found.is_none_or(|before| bound < before) {
                        (*found, changed) = (Some(bound), true);
                    }
                }
            }
            if found[0].is_some_and(|round| round < 0) {
                return None;
            }
            if !changed {
                return Some(found);
            }
        }
        None
    }
}
