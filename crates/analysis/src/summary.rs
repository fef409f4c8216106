//! A run in numbers.

use crate::align::Alignment;
use crate::allocation::{Allocation, Causes, Wait};
use crate::node::NodeInfo;
use crate::record::{KINDS, kind_index};
use crate::replay::Inconsistencies;
use crate::run::{Problem, stamped};
use crate::track::{owner_of, switch_of};
use intendant_core::Histogram;
use intendant_trace::{Mark, What};
use serde::Serialize;
use std::collections::BTreeMap;

/// Statistics of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Durations {
    /// The number of durations.
    pub count: u64,
    /// Their mean, in microseconds.
    pub mean_us: f64,
    /// The 99 % quantile, in microseconds, accurate within an eighth.
    pub p99_us: f64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

/// Bytes that a node has sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The sender.
    pub from: u16,
    /// The receiver.
    pub to: u16,
    /// Bytes.
    pub bytes: u64,
}

/// A milestone of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Marked {
    /// Its number.
    pub number: u64,
    /// When the last node reached it, in microseconds of the run's clock.
    pub at_us: u64,
}

/// How the selected keys were managed, in numbers of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Management {
    /// Keys that never moved and had no replicas.
    pub stayed: u64,
    /// Keys that moved and had no replicas.
    pub relocated: u64,
    /// Keys that had replicas and never moved.
    pub replicated: u64,
    /// Keys that moved and had replicas.
    pub both: u64,
    /// Keys that are replicated on all nodes throughout the run.
    pub static_replicas: u64,
}

/// Shares of the total time of all selected keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roles {
    /// At one node, without replicas.
    pub alone: f64,
    /// At one node, with at least one replica.
    pub with_replicas: f64,
    /// On the way, or not known.
    pub moving: f64,
    /// The mean number of replicas of a key.
    pub replicas: f64,
}

/// How up to date the copies at a node are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Staleness {
    /// The node.
    pub node: u16,
    /// How often the node sent, received or agreed on updates of copies, in turns of its channels.
    pub rounds: u64,
    /// The number of values in all these rounds.
    pub values: u64,
    /// The time between two rounds.
    pub pause: Durations,
    /// The last clock that all its workers have reached; `None` if the trace has none.
    pub clock: Option<u32>,
    /// By how many clocks it was at most behind the most advanced node.
    pub clocks_behind_max: u32,
}

/// A run in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The task.
    pub task: String,
    /// The technique.
    pub technique: String,
    /// Further settings.
    pub settings: Vec<(String, String)>,
    /// Which keys were traced.
    pub filter: String,
    /// Keys of the model.
    pub keys: u64,
    /// Keys that were traced and are selected.
    pub traced_keys: u64,
    /// Those of them that have events.
    pub active_keys: u64,
    /// The first event, in microseconds of the run's clock.
    pub from_us: u64,
    /// The last event.
    pub to_us: u64,
    /// All nodes of the cluster, with the offsets of their clocks and the numbers of lost events.
    pub nodes: Vec<NodeInfo>,
    /// How the clocks were aligned.
    pub alignment: Alignment,
    /// The problems with the traces.
    pub problems: Vec<Problem>,
    /// Events that contradict each other.
    pub inconsistencies: Inconsistencies,
    /// Events by kind and node. Kinds without events are left out.
    pub events: Vec<Kinds>,
    /// Arrivals of keys at another node.
    pub relocations: u64,
    /// Replicas that were set up.
    pub replicas: u64,
    /// Accesses of a node that had asked for the key, which was gone again.
    pub conflicts: u64,
    /// Accesses that another node served.
    pub remote: Durations,
    /// Accesses that waited for a key, or a copy, on its way.
    pub waited: Durations,
    /// The time from asking for a key to its arrival.
    pub relocation: Durations,
    /// The reasons why accesses of both kinds waited, in descending order of frequency.
    pub causes: Vec<Causes>,
    /// The number of accesses whose causes were searched: all, or as many as possible, evenly spread.
    pub causes_of: u64,
    /// The longest accesses of both kinds, with their causes.
    pub longest: Vec<Wait>,
    /// Bytes between nodes. Links without traffic are left out.
    pub links: Vec<Link>,
    /// Ends of epochs.
    pub epochs: Vec<Marked>,
    /// Checkpoints.
    pub checkpoints: Vec<Marked>,
    /// How keys were managed.
    pub management: Management,
    /// Shares of the time of all keys.
    pub roles: Roles,
    /// How up to date the copies are, by node.
    pub staleness: Vec<Staleness>,
}

/// Events of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// Its name, as in merged files.
    pub kind: &'static str,
    /// The number of events of all nodes.
    pub count: u64,
    /// The number of events by node.
    pub by_node: Vec<u64>,
}

impl Summary {
    /// Bytes over all links.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.links.iter().fold(0, |sum, link| sum.saturating_add(link.bytes))
    }

    /// The mean time of an epoch without the first one, in microseconds; if there is only one epoch, its
    /// time. `None` without epochs.
    #[must_use]
    pub fn epoch_us(&self) -> Option<u64> {
        let (first, last) = (self.epochs.first()?, self.epochs.last()?);
        // A hostile trace may have its epochs in any order.
        let between = last.at_us.saturating_sub(first.at_us).checked_div(self.epochs.len() as u64 - 1);
        Some(between.unwrap_or(first.at_us.saturating_sub(self.from_us)))
    }

    /// Summarises an allocation, with the `waits` accesses that waited longest.
    #[must_use]
    pub fn of(allocation: &Allocation, waits: usize) -> Self {
        let run = allocation.run();
        let header = run.header();
        let (from_us, to_us) = run.span_us();
        let mut counter = Counter::new(header.nodes);
        for record in run.records() {
            let is_seen = !record.has_key() || allocation.keys().contains(record.key);
            if let Some(event) = stamped(*record).filter(|_| is_seen) {
                counter.count(kind_index(*record), event.at_us, event.node.0, &event.what);
            }
        }
        let (management, roles) = manage(allocation);
        let (causes, causes_of) = allocation.causes();
        let kinds = KINDS.iter().zip(counter.kinds).map(|(kind, by_node)| Kinds {
            kind: kind.name,
            count: by_node.iter().sum(),
            by_node,
        });
        let link = |((from, to), bytes): ((u16, u16), u64)| Link { from, to, bytes };
        let marked = |(number, at_us): (u64, u64)| Marked { number, at_us };
        let events: Vec<Kinds> = kinds.filter(|kinds| kinds.count > 0).collect();
        let count_of =
            |name: &str| events.iter().find(|kinds| kinds.kind == name).map_or(0, |kinds| kinds.count);
        Self {
            task: header.task.clone(),
            technique: header.technique.clone(),
            settings: header.settings.clone(),
            filter: header.filter.clone(),
            keys: header.keys(),
            traced_keys: allocation.keys().len(),
            active_keys: allocation.active().len() as u64,
            from_us,
            to_us,
            nodes: run.nodes().to_vec(),
            alignment: run.alignment().clone(),
            problems: run.problems(),
            inconsistencies: *allocation.inconsistencies(),
            relocations: count_of("arrived"),
            replicas: count_of("replica_set_up"),
            conflicts: count_of("conflict"),
            events,
            remote: counter.remote.end(),
            waited: counter.waited.end(),
            relocation: counter.relocation.end(),
            causes,
            causes_of,
            longest: allocation.longest_waits(waits),
            links: counter.links.into_iter().map(link).collect(),
            epochs: counter.epochs.into_iter().map(marked).collect(),
            checkpoints: counter.checkpoints.into_iter().map(marked).collect(),
            management,
            roles,
            staleness: counter.rounds.into_iter().map(Rounds::end).collect(),
        }
    }
}

/// Durations that are being counted.
#[derive(Default)]
struct Timed {
    histogram: Histogram,
    max_us: u64,
}

impl Timed {
    fn add(&mut self, us: u64) {
        self.histogram.record(us);
        self.max_us = self.max_us.max(us);
    }

    fn end(self) -> Durations {
        let count = self.histogram.count();
        // The middle of a bucket may be above the longest duration.
        let p99_us = self.histogram.quantile_us(0.99).min(self.max_us as f64);
        Durations { count, mean_us: self.histogram.mean_us(), p99_us, max_us: self.max_us }
    }
}

/// The rounds and clocks of a node.
#[derive(Default)]
struct Rounds {
    staleness: Staleness,
    last_us: Option<u64>,
    pause: Timed,
}

impl Rounds {
    fn end(self) -> Staleness {
        Staleness { pause: self.pause.end(), ..self.staleness }
    }
}

/// Numbers of events.
struct Counter {
    /// By kind and node.
    kinds: Vec<Vec<u64>>,
    remote: Timed,
    waited: Timed,
    relocation: Timed,
    links: BTreeMap<(u16, u16), u64>,
    epochs: BTreeMap<u64, u64>,
    checkpoints: BTreeMap<u64, u64>,
    rounds: Vec<Rounds>,
    clock_max: u32,
}

impl Counter {
    fn new(nodes: u16) -> Self {
        let rounds =
            |node| Rounds { staleness: Staleness { node, ..Staleness::default() }, ..Rounds::default() };
        Self {
            kinds: vec![vec![0; nodes.into()]; KINDS.len()],
            remote: Timed::default(),
            waited: Timed::default(),
            relocation: Timed::default(),
            links: BTreeMap::new(),
            epochs: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            rounds: (0..nodes).map(rounds).collect(),
            clock_max: 0,
        }
    }

    fn count(&mut self, kind: Option<usize>, at_us: u64, node: u16, what: &What) {
        if let Some(count) = kind.and_then(|kind| self.kinds[kind].get_mut(usize::from(node))) {
            *count += 1;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are only counted")]
        match what {
            What::Remote { after, .. } => self.remote.add(*after),
            What::Waited { after, .. } => self.waited.add(*after),
            What::Arrived { after, .. } if *after > 0 => self.relocation.add(*after),
            What::Sent { to, bytes } => {
                let total = self.links.entry((node, to.0)).or_default();
                *total = total.saturating_add(*bytes);
            }
            What::Marked { mark, number } => {
                let marks = match mark {
                    Mark::Epoch => &mut self.epochs,
                    Mark::Checkpoint => &mut self.checkpoints,
                };
                let last = marks.entry(*number).or_default();
                *last = (*last).max(at_us);
            }
            What::Synced { values } => {
                let Some(rounds) = self.rounds.get_mut(usize::from(node)) else { return };
                rounds.staleness.rounds += 1;
                rounds.staleness.values = rounds.staleness.values.saturating_add(*values);
                if let Some(last) = rounds.last_us.replace(at_us) {
                    rounds.pause.add(at_us - last);
                }
            }
            What::Clock { clock } => {
                self.clock_max = self.clock_max.max(*clock);
                let Some(rounds) = self.rounds.get_mut(usize::from(node)) else { return };
                let before = rounds.staleness.clock.replace(*clock);
                // Until now, the node was at its previous clock.
                let behind = self.clock_max - before.unwrap_or(0).min(self.clock_max);
                let most = &mut rounds.staleness.clocks_behind_max;
                *most = (*most).max(behind.min(self.clock_max.saturating_sub(1)));
            }
            _ => {}
        }
    }
}

/// How the keys were managed, and in which roles they spent their time.
fn manage(allocation: &Allocation) -> (Management, Roles) {
    let run = allocation.run();
    let mut management = Management::default();
    let (start, end) = run.span_us();
    let all_us = (end - start) as f64;
    let (mut moving, mut with_replicas, mut replicas) = (0.0, 0.0, 0.0);
    for (at, key) in allocation.active().iter().enumerate() {
        if run.is_static_replica(*key) {
            continue;
        }
        let ((times, codes), (set_at, set)) = (allocation.owners.of(at), allocation.replicas.of(at));
        let moved = !times.is_empty();
        match (moved, !set.is_empty()) {
            (false, false) => {}
            (true, false) => management.relocated += 1,
            (false, true) => management.replicated += 1,
            (true, true) => management.both += 1,
        }
        let (mut owner, mut since) = (run.home(*key), start);
        for (time, code) in times.iter().zip(codes) {
            moving += if owner.is_none() { (time - since) as f64 } else { 0.0 };
            (owner, since) = (owner_of(*code), *time);
        }
        moving += if owner.is_none() { (end - since) as f64 } else { 0.0 };
        let (mut count, mut since) = (0u32, start);
        for (time, code) in set_at.iter().zip(set) {
            let us = (time - since) as f64;
            with_replicas += if count > 0 { us } else { 0.0 };
            replicas += f64::from(count) * us;
            count = if switch_of(*code).1 { count + 1 } else { count.saturating_sub(1) };
            since = *time;
        }
        let us = (end - since) as f64;
        with_replicas += if count > 0 { us } else { 0.0 };
        replicas += f64::from(count) * us;
    }
    let others = f64::from(run.header().nodes) - 1.0;
    let keys = allocation.keys();
    management.static_replicas = run.static_replicas().iter_ranges().map(|range| keys.count_in(range)).sum();
    let managed = management.relocated + management.replicated + management.both + management.static_replicas;
    management.stayed = keys.len().saturating_sub(managed);
    let all = keys.len() as f64 * all_us;
    if all == 0.0 {
        return (management, Roles::default());
    }
    let fixed = management.static_replicas as f64 * all_us;
    let (moving, with_replicas) = (moving / all, (with_replicas + fixed) / all);
    // A key may have replicas while it is on its way: such times count twice.
    let alone = (1.0 - moving - with_replicas).max(0.0);
    (management, Roles { alone, with_replicas, moving, replicas: (replicas + others * fixed) / all })
}
