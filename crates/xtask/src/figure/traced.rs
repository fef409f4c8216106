//! Traces of runs: the numbers of keys that claims are about, and pictures of where keys were.
//!
//! A run with `trace` leaves a trace. Numbers about the keys of a range in the first epoch join the report of
//! the run as `/trace/…`:
//!
//! | pointer | number |
//! | --- | --- |
//! | `keys` | keys of the range that are traced |
//! | `relocations`, `replicas` | relocations and replicas that were set up, per key |
//! | `relocations_most` | relocations of the key with the most |
//! | `arrivals_most` | how often a key came to the same node, at most |
//! | `once` | share of keys and nodes for which the node had active intent exactly once |
//! | `in_order` | share of intents that ended at their node in the order in which they began |
//! | `early` | share of relocations in the first twentieth of the epoch |
//! | `replicated_keys` | share of the keys for which a replica was set up |
//! | `replicated` | share of time in which there is a replica, mean of the keys |
//! | `quantiles/Q/…` | the key at quantile Q of the time under intent: |
//! | … `relocations`, `replicas` | how many |
//! | … `copies` | mean number of nodes that have it |
//! | … `replicated`, `everywhere` | shares of time: there is a replica; all nodes have a copy |
//! | … `replica_life` | share of time for which a replica lives, mean of the replicas; 0 if there is none |

use super::config::{Figure, Run, TracePicture};
use super::picture::Picture;
use intendant_analysis::{Allocation, KeyHistory, Limits, Window, svg};
use intendant_trace::{Filter, Mark, What};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Spans of a key that are looked at.
const SPANS_MAX: usize = 1 << 20;

/// Moments of an epoch by which keys are sorted.
const MOMENTS: u64 = 32;

/// Width of the time in pictures.
const PIXELS: u32 = 900;

/// The trace of a run.
pub(crate) struct Traced {
    allocation: Allocation,
    /// The first epoch.
    epoch: Range<u64>,
    /// Keys of each range that are traced.
    ranges: BTreeMap<String, Vec<u64>>,
}

impl Traced {
    /// Reads the trace in a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let wrong = |error: String| format!("{}: {error}", folder.display());
        let run = intendant_analysis::Run::open(folder, Limits::default());
        let run = Arc::new(run.map_err(|error| wrong(error.to_string()))?);
        if let Some(problem) = run.problems().first() {
            return Err(wrong(problem.text.clone()));
        }
        let ends = |what: What| matches!(what, What::Marked { mark: Mark::Epoch, number: 1 });
        let end = run.events().find(|event| ends(event.what)).map(|event| event.at_us);
        let end = end.ok_or_else(|| wrong("the trace has no end of the first epoch".to_owned()))?;
        let (mut ranges, mut start) = (BTreeMap::new(), 0);
        for range in &run.header().ranges {
            let keys =
                (start..start + range.keys).filter(|key| run.filter().accepts(intendant_core::Key(*key)));
            ranges.insert(range.name.clone(), keys.collect());
            start += range.keys;
        }
        let allocation = Allocation::of(&run, &Filter::All);
        if *allocation.inconsistencies() != Default::default() {
            return Err(wrong(format!(
                "events do not fit to each other: {:?}",
                allocation.inconsistencies()
            )));
        }
        Ok(Self { epoch: run.span_us().0..end, allocation, ranges })
    }

    /// The numbers of a range, with those of keys at these quantiles.
    pub(crate) fn numbers(&self, range: &str, quantiles: &[f64]) -> Result<Value, String> {
        Ok(self.of_range(self.keys(range)?, quantiles))
    }

    fn keys(&self, range: &str) -> Result<&[u64], String> {
        let keys = self.ranges.get(range).filter(|keys| !keys.is_empty());
        keys.map(Vec::as_slice).ok_or_else(|| format!("the trace has no keys of a range '{range}'"))
    }

    fn of_range(&self, keys: &[u64], quantiles: &[f64]) -> Value {
        let nodes = self.allocation.run().header().nodes;
        let histories: Vec<OfKey> = keys.iter().map(|key| self.of_key(*key)).collect();
        let per_key = |of: fn(&OfKey) -> u64| {
            histories.iter().map(of).sum::<u64>() as f64 / histories.len().max(1) as f64
        };
        let most = |of: fn(&OfKey) -> u64| histories.iter().map(of).max().unwrap_or(0);
        let pairs = (histories.len() * usize::from(nodes)).max(1);
        let once: usize = histories.iter().map(|key| key.intents.values().filter(|n| **n == 1).count()).sum();
        let (in_order, intents) = (0..nodes)
            .map(|node| self.in_order(keys, node))
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let early: u64 = histories.iter().map(|key| key.early).sum();
        let relocations: u64 = histories.iter().map(|key| key.relocations).sum();
        let replicated: f64 = histories.iter().map(|key| key.replicated).sum();
        let mut numbers = json!({
            "keys": keys.len(),
            "relocations": per_key(|key| key.relocations),
            "replicas": per_key(|key| key.replicas),
            "relocations_most": most(|key| key.relocations),
            "arrivals_most": most(|key| key.arrivals_most),
            "once": once as f64 / pairs as f64,
            "in_order": in_order as f64 / (intents.max(1)) as f64,
            "early": early as f64 / relocations.max(1) as f64,
            "replicated_keys": per_key(|key| u64::from(key.replicas > 0)),
            "replicated": replicated / histories.len().max(1) as f64,
        });
        let of_quantile = |quantile: &f64| {
            let key = self.at_quantile(keys, *quantile)?;
            let at = keys.iter().position(|other| *other == key)?;
            let OfKey { relocations, replicas, copies, replicated, everywhere, replica_life, .. } =
                &histories[at];
            let numbers = json!({
                "key": key, "relocations": relocations, "replicas": replicas, "copies": copies,
                "replicated": replicated, "everywhere": everywhere, "replica_life": replica_life,
            });
            Some((quantile.to_string(), numbers))
        };
        numbers["quantiles"] = Value::Object(quantiles.iter().filter_map(of_quantile).collect::<Map<_, _>>());
        numbers
    }

    /// The key at a quantile of the time under intent, among equals of the number; 1 is the key that is used
    /// most.
    fn at_quantile(&self, keys: &[u64], quantile: f64) -> Option<u64> {
        let mut by_intent: Vec<(u64, u64)> =
            keys.iter().map(|key| (self.of_key(*key).intent_us, *key)).collect();
        by_intent.sort_unstable();
        let at = (quantile * by_intent.len() as f64) as usize;
        by_intent.get(at.min(by_intent.len().saturating_sub(1))).map(|(_, key)| *key)
    }

    fn of_key(&self, key: u64) -> OfKey {
        let history = self.allocation.history(key, SPANS_MAX);
        OfKey::new(&history, &self.epoch, usize::from(self.allocation.run().header().nodes))
    }

    /// The owners of a key at [`MOMENTS`] equal distances; -1 while it moves.
    fn owners(&self, key: u64) -> Vec<i32> {
        let length = self.epoch.end - self.epoch.start;
        let moment = |at: u64| self.epoch.start + length * (2 * at + 1) / (2 * MOMENTS);
        (0..MOMENTS).map(|at| self.allocation.moment(&[key], moment(at)).owners[0]).collect()
    }

    /// Of the intents of a node for some keys, in the order in which they began, how many ended no earlier
    /// than all before; and how many there are. Intents that began together are equal.
    fn in_order(&self, keys: &[u64], node: u16) -> (usize, usize) {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for key in keys {
            let intents = self.allocation.history(*key, SPANS_MAX).intents;
            spans.extend(
                intents.iter().filter(|span| span.node == node).map(|span| (span.from_us, span.to_us)),
            );
        }
        spans.sort_unstable();
        let mut count = 0;
        // The latest end of those that began earlier, and of those that begin now.
        let (mut before, mut now, mut began) = (0, 0, 0);
        for (from, to) in &spans {
            if *from > began {
                (before, began) = (before.max(now), *from);
            }
            count += usize::from(*to >= before);
            now = now.max(*to);
        }
        (count, spans.len())
    }

    /// Draws a picture into a folder, which must exist.
    pub(crate) fn draw(&self, range: &str, picture: &TracePicture, folder: &Path) -> Result<Picture, String> {
        let keys = self.keys(range)?;
        let to = self.epoch.start + ((self.epoch.end - self.epoch.start) as f64 * picture.until) as u64;
        let window = Window::new(self.epoch.start, to, PIXELS);
        let text = match picture.quantile {
            Some(quantile) => {
                let key = self.at_quantile(keys, quantile).ok_or("the range has no keys")?;
                svg::key(&self.allocation, key, window)
            }
            None => {
                let step = keys.len().div_ceil(picture.rows.max(1));
                let mut keys: Vec<u64> = keys.iter().step_by(step).copied().collect();
                if picture.sorted {
                    keys.sort_by_cached_key(|key| self.owners(*key));
                }
                let panel =
                    svg::Panel { title: &picture.title, allocation: &self.allocation, keys: &keys, window };
                svg::allocation(&[panel])
            }
        };
        let file = super::picture::file_name(&picture.title);
        let path = folder.join(format!("{file}.svg"));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Picture { file, alt: picture.title.clone() })
    }
}

/// The first epoch of a key.
#[derive(Debug, Default, PartialEq)]
struct OfKey {
    relocations: u64,
    /// Of these, how many were to the same node, at most.
    arrivals_most: u64,
    /// Of these, how many were in the first twentieth of the epoch.
    early: u64,
    replicas: u64,
    /// Time under intent, summed over nodes.
    intent_us: u64,
    /// By node, how often it had active intent.
    intents: BTreeMap<u16, u64>,
    /// Mean number of nodes that have the key.
    copies: f64,
    /// Share of time in which there is a replica.
    replicated: f64,
    /// Share of time in which every node has a copy.
    everywhere: f64,
    /// Mean share of time for which a replica lives.
    replica_life: f64,
}

impl OfKey {
    fn new(history: &KeyHistory, epoch: &Range<u64>, nodes: usize) -> Self {
        let length = (epoch.end - epoch.start).max(1);
        let early_until = epoch.start + length / 20;
        let mut of_key = Self::default();
        let mut arrivals: BTreeMap<u16, u64> = BTreeMap::new();
        for gap in history.gaps.iter().filter(|gap| gap.to_us < epoch.end) {
            of_key.relocations += 1;
            of_key.early += u64::from(gap.to_us <= early_until);
            *arrivals.entry(gap.to).or_default() += 1;
        }
        of_key.arrivals_most = arrivals.into_values().max().unwrap_or(0);
        let within = |from: u64, to: u64| to.min(epoch.end).saturating_sub(from.max(epoch.start));
        for span in history.intents.iter().filter(|span| span.from_us < epoch.end) {
            of_key.intent_us += within(span.from_us, span.to_us);
            *of_key.intents.entry(span.node).or_default() += 1;
        }
        // By time: how many replicas more, and how many nodes with a copy more.
        let mut changes: Vec<(u64, i64, i64)> = Vec::new();
        let mut lives_us = 0;
        for span in history.replicas.iter().filter(|span| span.from_us < epoch.end) {
            of_key.replicas += 1;
            lives_us += within(span.from_us, span.to_us);
            changes.extend([(span.from_us, 1, 1), (span.to_us, -1, -1)]);
        }
        for span in &history.ownership {
            changes.extend([(span.from_us, 0, 1), (span.to_us, 0, -1)]);
        }
        changes.sort_unstable();
        let (mut since, mut replicas, mut copies) = (epoch.start, 0, 0);
        let (mut sum, mut replicated, mut everywhere) = (0, 0, 0);
        for (at, more, held) in changes.into_iter().chain([(epoch.end, 0, 0)]) {
            let took = within(since, at);
            sum += took * u64::try_from(copies).unwrap_or(0);
            replicated += if replicas > 0 { took } else { 0 };
            everywhere += if copies == nodes as i64 { took } else { 0 };
            (since, replicas, copies) = (since.max(at), replicas + more, copies + held);
        }
        let share = |time: u64| time as f64 / length as f64;
        (of_key.copies, of_key.replicated, of_key.everywhere) =
            (share(sum), share(replicated), share(everywhere));
        of_key.replica_life = share(lives_us) / of_key.replicas.max(1) as f64;
        of_key
    }
}

/// What is computed from the trace of a run: a range, and quantiles of its keys.
pub(crate) fn wanted(figure: &Figure, run: &Run) -> Option<(String, Vec<f64>)> {
    let of_run = figure.pictures.iter().filter(|picture| picture.run == run.name);
    Some((run.trace.as_ref()?.range.clone(), of_run.filter_map(|picture| picture.quantile).collect()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick};
    use intendant_trace::{Cause, Event, Header, Writer};

    /// Two nodes, two keys that begin at node 0, an epoch of 1,000 µs. Node 1 gets key 0 at 30 and gives it
    /// back at 500, and has a replica of key 1 from 80 to 90 and from 100 to 600.
    pub(crate) fn write(folder: &Path) {
        let layout = Layout::builder().range("a", 3, 1).range("b", 3, 1).nodes(2).order(KeyOrder::Range);
        let layout = layout.build().expect("a layout");
        let of = |key: u64, home: u16| layout.home(Key(key)) == NodeId(home);
        assert!(of(0, 0) && of(1, 0), "keys of range a begin at node 0");
        let left = |to| What::Left { to: NodeId(to), cause: Cause::Asked };
        let arrived = |from| What::Arrived { from: NodeId(from), after: 5 };
        let node_0 = [
            (0, None, What::Clock { clock: 0 }),
            (20, Some(0), left(1)),
            (100, Some(0), What::IntentBegan),
            (110, Some(1), What::IntentBegan),
            (200, Some(0), What::IntentEnded),
            (300, Some(1), What::IntentEnded),
            (500, Some(0), arrived(1)),
            (1000, None, What::Marked { mark: Mark::Epoch, number: 1 }),
            (1500, Some(0), left(1)),
        ];
        let node_1 = [
            (30, Some(0), arrived(0)),
            (80, Some(1), What::ReplicaSetUp),
            (90, Some(1), What::ReplicaDropped),
            (100, Some(1), What::ReplicaSetUp),
            (150, Some(1), What::IntentBegan),
            (160, Some(0), What::IntentBegan),
            (170, Some(0), What::IntentEnded),
            (400, Some(1), What::IntentEnded),
            (490, Some(0), left(0)),
            (600, Some(1), What::ReplicaDropped),
            (1600, Some(0), arrived(0)),
        ];
        for (node, events) in [&node_0[..], &node_1[..]].into_iter().enumerate() {
            let header = Header { node: node as u16, run: 7, filter: "all".to_owned(), ..Header::default() };
            let path = folder.join(format!("node-{node}.trace"));
            let mut writer = Writer::create(&path, &header.of_layout(&layout)).expect("a file");
            let event = |(at, key, what): &(u64, Option<u64>, What)| Event {
                at: Tick(*at),
                channel: ChannelId(0),
                key: key.map(Key),
                what: *what,
            };
            writer.write(&events.iter().map(event).collect::<Vec<_>>(), 0).expect("written");
        }
    }

    #[test]
    fn numbers_are_those_of_the_first_epoch() {
        let folder = crate::process::target().join("tmp-traced");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        write(&folder);
        let traced = Traced::read(&folder).expect("a trace");
        let numbers = traced.numbers("a", &[0.0, 1.0]).expect("numbers");
        let at = |pointer: &str| numbers.pointer(pointer).and_then(Value::as_f64).expect("a number");
        let near = |pointer: &str, expected: f64| {
            assert!(
                (at(pointer) - expected).abs() < 1e-9,
                "{pointer}: {} instead of {expected}",
                at(pointer)
            );
        };
        near("/keys", 3.0);
        near("/relocations", 2.0 / 3.0);
        near("/replicas", 2.0 / 3.0);
        near("/replicated_keys", 1.0 / 3.0);
        near("/replicated", 0.51 / 3.0);
        near("/relocations_most", 2.0);
        near("/arrivals_most", 1.0);
        near("/early", 0.5);
        near("/once", 4.0 / 6.0);
        // At node 1, the intent for key 0 began later than that for key 1, and ended earlier.
        near("/in_order", 3.0 / 4.0);
        near("/quantiles/1/key", 1.0);
        near("/quantiles/1/copies", 1.51);
        near("/quantiles/1/replicated", 0.51);
        near("/quantiles/1/everywhere", 0.51);
        near("/quantiles/1/replica_life", 0.255);
        near("/quantiles/0/key", 2.0);
        near("/quantiles/0/copies", 1.0);
        near("/quantiles/0/replica_life", 0.0);
        let numbers = traced.numbers("b", &[]).expect("numbers");
        assert_eq!(numbers["relocations"], 0.0);
        assert!(traced.numbers("c", &[]).expect_err("refused").contains("no keys of a range 'c'"));
        let picture = |quantile| TracePicture {
            title: "Where keys are".to_owned(),
            run: "a".to_owned(),
            quantile,
            rows: 2,
            sorted: true,
            until: 1.0,
        };
        let moment_of = |at: usize| traced.owners(0)[at];
        assert_eq!((moment_of(0), moment_of(1), moment_of(31)), (0, 1, 0), "node 1 has key 0 from 30 to 500");
        for quantile in [None, Some(1.0)] {
            let drawn = traced.draw("a", &picture(quantile), &folder).expect("drawn");
            let text =
                std::fs::read_to_string(folder.join(format!("{}.svg", drawn.file))).expect("a picture");
            assert!(text.starts_with("<svg") && text.len() > 500, "{text}");
        }
    }
}
