//! The nodes of a chain: a block on each, and the items that they exchange through Lapser.
//!
//! Beside the items of the library, nodes exchange sums of their results, at whose keys the library has none:
//! node 0 gets them after each iteration. The techniques to compare with use items of their own, to meet and
//! to write all rows of a step at once.

use intendant::control::MonotonicClock;
use intendant::lapser::{self, AnyWindow, Get, Lobby, Process, Want, Way};
use intendant_bpmf::{Block, Forecast, Item, Model, Posterior, Produced, Side, Sums};
use intendant_metrics::process;
use intendant_train::{Costs, Exchange, Exchanged, TrainError};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// This node among the others.
pub(crate) struct Link {
    process: Process<AnyWindow>,
    exchange: Exchange,
    model: Arc<Model>,
    nodes: Vec<Part>,
    /// How often the nodes have met.
    met: u64,
    /// How often sums were told, by [`What`].
    told: [u64; 2],
    /// Sums of the last evaluation, and its iteration.
    evaluated: Option<(u32, Vec<(u32, Sums)>)>,
    /// Time of setting and getting.
    busy_ns: u64,
    /// CPU time of this process when the chain began.
    cpu_start_ns: u64,
    clock: MonotonicClock,
    /// What all nodes have done, as far as this node knows.
    costs: Costs,
}

/// What all nodes know of one.
#[derive(Clone, Debug)]
struct Part {
    /// Its rows of both sides.
    rows: [Range<u32>; 2],
    /// Parts of the tree of sums that it has.
    sums: usize,
}

/// Sums that nodes tell.
#[derive(Clone, Copy)]
enum What {
    /// Of training entries, after each iteration.
    Epoch = 0,
    /// Of held-out entries.
    Test = 1,
}

/// Numbers of a node's costs, with which its sums begin.
const COSTS: usize = 11;
/// Numbers of one part of the sums.
const SUMS: usize = 8;
/// Numbers of a forecast.
const FORECAST: usize = 7;

impl Part {
    fn words(&self) -> usize {
        COSTS + SUMS * self.sums
    }

    fn to_bytes(&self) -> Vec<u8> {
        let [u, v] = &self.rows;
        let words = [u.start, u.end, v.start, v.end, self.sums as u32];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// All nodes run the same version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else { return None };
        let [a, b, c, d, sums] = <[_; 5]>::try_from(words).ok()?.map(u32::from_le_bytes);
        Some(Self { rows: [a..b, c..d], sums: sums as usize })
    }
}

impl Link {
    /// Starts to exchange items. `block` is that of this node.
    pub(crate) fn start(
        lobby: Lobby,
        way: Way,
        exchange: Exchange,
        model: &Arc<Model>,
        block: &Block,
    ) -> Result<Self, TrainError> {
        let rank = lobby.rank().index();
        let rows = Side::BOTH.map(|side| {
            let mut rows = block.produced().into_iter().filter_map(move |item| match item {
                Item::Row(of, row) if of == side => Some(row),
                Item::Row(..) | Item::Statistics(..) | Item::Hyperparameters(_) => None,
            });
            let first = rows.next().unwrap_or(0);
            first..rows.next_back().map_or(first, |last| last + 1).max(first)
        });
        let own = Part { rows, sums: block.sums(false).len() };
        let nodes = lobby.gather("bpmf:parts", &own.to_bytes())?;
        let nodes = nodes.iter().enumerate().map(|(node, bytes)| Part::from_bytes(bytes).ok_or(node));
        let nodes = nodes.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
        let keys = Keys { model, nodes: nodes.len() as u64 };
        let declared = declare(exchange, model, block, &nodes, keys, rank);
        let process = lobby.start_by(way, exchange.variant(), declared)?;
        let mut link = Self {
            process,
            exchange,
            model: Arc::clone(model),
            nodes,
            met: 0,
            told: [0; 2],
            evaluated: None,
            busy_ns: 0,
            cpu_start_ns: process::cpu_ns(),
            clock: MonotonicClock::start(),
            costs: Costs { cpu_ns: 0, exchanged: Some(Exchanged::default()) },
        };
        link.send(block, &block.begin(), true)?;
        Ok(link)
    }

    pub(crate) fn aborter(&self) -> intendant::Aborter {
        self.process.aborter()
    }

    pub(crate) fn costs(&self) -> Costs {
        self.costs
    }

    fn rank(&self) -> usize {
        self.process.rank().index()
    }

    fn keys(&self) -> Keys<'_> {
        Keys { model: &self.model, nodes: self.nodes.len() as u64 }
    }

    /// Runs a part of the exchange, and counts its time.
    fn timed<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, TrainError>) -> Result<T, TrainError> {
        let start = self.clock.now();
        let done = act(self);
        self.busy_ns += 1_000 * (self.clock.now().0 - start.0);
        done
    }

    /// Gets what the next step of the block needs.
    pub(crate) fn receive(&mut self, block: &mut Block) -> Result<(), TrainError> {
        self.timed(|link| {
            let mut needs = block.needs();
            if link.exchange == Exchange::AllGather {
                let of_row = |need: &mut intendant_bpmf::Need| match need.item {
                    Item::Row(side, _) => Some((side, need.clock)),
                    Item::Statistics(..) | Item::Hyperparameters(_) => None,
                };
                if let Some((side, clock)) = needs.iter_mut().find_map(of_row) {
                    let rows = needs.extract_if(.., |need| matches!(need.item, Item::Row(..)));
                    let rows: Vec<u32> = rows
                        .filter_map(|need| match need.item {
                            Item::Row(_, row) => Some(row),
                            Item::Statistics(..) | Item::Hyperparameters(_) => None,
                        })
                        .collect();
                    link.receive_all(block, side, clock, &rows)?;
                }
            }
            let get = |need: &intendant_bpmf::Need| {
                // A value of clock 0 is none.
                let (slack, least) = (need.slack, need.least());
                Get { key: link.model.key(need.item), clock: least + slack, slack }
            };
            let wants: Vec<Get> = needs.iter().map(get).collect();
            let (mut value, mut refused) = (Vec::new(), None);
            link.process.get_all(&wants, |at, _, words| {
                value.clear();
                value.extend(words.iter().map(|word| f64::from_bits(*word)));
                if let Err(error) = block.put(needs[at].item, &value) {
                    refused.get_or_insert(error);
                }
            })?;
            refused.map_or(Ok(()), |error| Err(TrainError::Stopped(error.to_string())))
        })
    }

    /// Gets all rows of a side, and keeps `rows` of them, which ascend.
    fn receive_all(
        &mut self,
        block: &mut Block,
        side: Side,
        clock: u64,
        rows: &[u32],
    ) -> Result<(), TrainError> {
        let rank = self.rank();
        let of = |part: &Part| part.rows[side as usize].clone();
        let others: Vec<usize> = (0..self.nodes.len())
            .filter(|node| *node != rank && !of(&self.nodes[*node]).is_empty())
            .collect();
        let wants: Vec<Get> =
            others.iter().map(|node| Get { key: self.keys().rows(side, *node), clock, slack: 0 }).collect();
        let factors = self.model.config().rank;
        let (nodes, mut value, mut refused) = (&self.nodes, Vec::new(), None);
        self.process.get_all(&wants, |at, _, words| {
            let has = of(&nodes[others[at]]);
            let from = rows.partition_point(|row| *row < has.start);
            for row in rows[from..].iter().take_while(|row| has.contains(row)) {
                let at = (row - has.start) as usize * factors;
                value.clear();
                value.extend(words[at..at + factors].iter().map(|word| f64::from_bits(*word)));
                if let Err(error) = block.put(Item::Row(side, *row), &value) {
                    refused.get_or_insert(error);
                }
            }
        })?;
        refused.map_or(Ok(()), |error| Err(TrainError::Stopped(error.to_string())))
    }

    /// Sets what a step of the block has produced. The nodes meet if the technique says so and they all have
    /// made this step (`meets`).
    pub(crate) fn send(&mut self, block: &Block, produced: &Produced, meets: bool) -> Result<(), TrainError> {
        self.timed(|link| {
            let (mut value, mut words) = (Vec::new(), Vec::new());
            let mut all: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
            for item in &produced.items {
                value.clear();
                block.value(*item, &mut value);
                match item {
                    Item::Row(side, _) if link.exchange == Exchange::AllGather => {
                        all[*side as usize].extend(value.iter().map(|number| number.to_bits()));
                    }
                    Item::Row(..) | Item::Statistics(..) | Item::Hyperparameters(_) => {
                        words.clear();
                        words.extend(value.iter().map(|number| number.to_bits()));
                        link.process.set(link.model.key(*item), produced.clock, &words)?;
                    }
                }
            }
            for (side, all) in Side::BOTH.into_iter().zip(all).filter(|(_, all)| !all.is_empty()) {
                let key = link.keys().rows(side, link.rank());
                link.process.set(key, produced.clock, &all)?;
            }
            if meets && !link.exchange.has_slack() { link.meet() } else { Ok(()) }
        })
    }

    /// Waits until all nodes have come so far.
    fn meet(&mut self) -> Result<(), TrainError> {
        self.met += 1;
        let (rank, met, keys) = (self.rank(), self.met, self.keys());
        let key = keys.meeting(rank);
        let others = (0..self.nodes.len()).filter(|node| *node != rank);
        let wants: Vec<Get> =
            others.map(|node| Get { key: keys.meeting(node), clock: met, slack: 0 }).collect();
        self.process.set(key, met, &[met])?;
        Ok(self.process.get_all(&wants, |_, _, _| ())?)
    }

    /// Sums of training entries after an iteration, of all nodes at node 0.
    pub(crate) fn epoch_sums(&mut self, block: &Block) -> Result<Vec<(u32, Sums)>, TrainError> {
        self.timed(|link| link.tell(What::Epoch, block.sums(false)))
    }

    /// Sums of held-out entries, of all nodes at node 0. Those of the same iteration are told once: else one
    /// node might set new ones before node 0 has got those before.
    pub(crate) fn test_sums(&mut self, block: &Block) -> Result<Vec<(u32, Sums)>, TrainError> {
        let iteration = if block.step().is_some() { block.iteration() } else { u32::MAX };
        if let Some((_, sums)) = self.evaluated.as_ref().filter(|(at, _)| *at == iteration) {
            return Ok(sums.clone());
        }
        let sums = self.timed(|link| link.tell(What::Test, block.sums(true)))?;
        self.evaluated = Some((iteration, sums.clone()));
        Ok(sums)
    }

    /// Tells node 0 the sums of this node; there, adds those of all others.
    fn tell(&mut self, what: What, own: Vec<(u32, Sums)>) -> Result<Vec<(u32, Sums)>, TrainError> {
        self.told[what as usize] += 1;
        let (clock, rank) = (self.told[what as usize], self.rank());
        let costs = self.own_costs();
        if rank != 0 {
            let mut words = costs.to_vec();
            for (node, sums) in own {
                let Sums { examples, loss, tested, squares, sizes, covered, widths } = sums;
                let numbers = [examples, loss, tested, squares, sizes, covered, widths];
                words.push(node.into());
                words.extend(numbers.map(f64::to_bits));
            }
            let key = self.keys().sums(what, rank);
            self.process.set(key, clock, &words)?;
            return Ok(Vec::new());
        }
        let keys = self.keys();
        let wants: Vec<Get> =
            (1..self.nodes.len()).map(|node| Get { key: keys.sums(what, node), clock, slack: 0 }).collect();
        let (mut all, mut sum, mut cpu_ns) = (own, costs.map(u128::from), 0);
        self.process.get_all(&wants, |_, _, words| {
            let (costs, parts) = words.split_at(COSTS.min(words.len()));
            sum.iter_mut().zip(costs).for_each(|(sum, word)| *sum += u128::from(*word));
            cpu_ns += costs.first().copied().unwrap_or(0);
            for part in parts.as_chunks::<SUMS>().0 {
                let [node, numbers @ ..] = *part;
                let [examples, loss, tested, squares, sizes, covered, widths] = numbers.map(f64::from_bits);
                let sums = Sums { examples, loss, tested, squares, sizes, covered, widths };
                all.push((node as u32, sums));
            }
        })?;
        let [_, sets, gets, gets_waited, writes, written_bytes, reads, read_bytes, torn, stale, ns] =
            sum.map(|count| u64::try_from(count).unwrap_or(u64::MAX));
        let exchanged = Exchanged {
            sets,
            gets,
            gets_waited,
            writes,
            written_bytes,
            reads,
            read_bytes,
            torn,
            stale,
            seconds: ns as f64 / 1e9 / self.nodes.len() as f64,
        };
        self.costs = Costs { cpu_ns, exchanged: Some(exchanged) };
        Ok(all)
    }

    /// What this node has done so far.
    fn own_costs(&self) -> [u64; COSTS] {
        let (stats, traffic) = (self.process.stats(), self.process.traffic());
        [
            process::cpu_ns().saturating_sub(self.cpu_start_ns),
            stats.sets,
            stats.gets,
            stats.gets - stats.gets_at_once,
            stats.writes,
            traffic.written_bytes,
            stats.reads,
            traffic.read_bytes,
            stats.torn_reads + stats.torn_looks,
            stats.stale_reads,
            self.busy_ns,
        ]
    }

    /// Brings posteriors and forecasts of all nodes together; on other nodes than the first they are dropped.
    pub(crate) fn collect(&self, block: &Block) -> Result<Results, TrainError> {
        let payload = if self.rank() == 0 { Vec::new() } else { Results::of(block).to_bytes() };
        let mut all = Results::of(block);
        for (node, bytes) in self.process.gather("bpmf:results", &payload)?.iter().enumerate().skip(1) {
            let other = Results::from_bytes(bytes).ok_or(node).map_err(malformed)?;
            for (all, other) in all.posteriors.iter_mut().zip(other.posteriors) {
                all.means.extend(other.means);
                all.variances.extend(other.variances);
            }
            all.forecasts.extend(other.forecasts);
        }
        Ok(all)
    }

    pub(crate) fn finish(self) -> Result<(), TrainError> {
        Ok(self.process.finish()?)
    }
}

/// What a chain exports: posteriors of both sides, and forecasts, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results {
    pub(crate) posteriors: [Posterior; 2],
    pub(crate) forecasts: Vec<Forecast>,
}

impl Results {
    pub(crate) fn of(block: &Block) -> Self {
        Self {
            posteriors: Side::BOTH.map(|side| block.posterior(side)),
            forecasts: block.forecasts().collect(),
        }
    }

    /// Numbers of 64 bits: of each side the first row, how many means, means and variances; then forecasts.
    fn to_bytes(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for Posterior { first, means, variances } in &self.posteriors {
            words.extend([u64::from(*first), means.len() as u64]);
            words.extend(means.iter().chain(variances).map(|number| number.to_bits()));
        }
        for Forecast { row, column, value, mean, deviation, low, high } in &self.forecasts {
            words.extend([u64::from(*row), u64::from(*column)]);
            words.extend([value, mean, deviation, low, high].map(|number| number.to_bits()));
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let mut words: VecDeque<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut posterior = || {
            let (first, len) = (words.pop_front()?, usize::try_from(words.pop_front()?).ok()?);
            if words.len() / 2 < len {
                return None;
            }
            let mut numbers = || words.drain(..len).map(f64::from_bits).collect::<Vec<_>>();
            Some(Posterior { first: u32::try_from(first).ok()?, means: numbers(), variances: numbers() })
        };
        let posteriors = [posterior()?, posterior()?];
        let (forecasts, []) = words.make_contiguous().as_chunks::<FORECAST>() else { return None };
        let forecast = |[row, column, numbers @ ..]: [u64; FORECAST]| {
            let [value, mean, deviation, low, high] = numbers.map(f64::from_bits);
            let (row, column) = (u32::try_from(row).ok()?, u32::try_from(column).ok()?);
            Some(Forecast { row, column, value, mean, deviation, low, high })
        };
        Some(Self {
            posteriors,
            forecasts: forecasts.iter().map(|words| forecast(*words)).collect::<Option<_>>()?,
        })
    }
}

fn malformed(node: usize) -> TrainError {
    TrainError::Stopped(format!("node {node} has sent something else than what it computed: a bug"))
}

/// Keys beyond those of the library.
#[derive(Clone, Copy)]
struct Keys<'a> {
    model: &'a Model,
    nodes: u64,
}

impl Keys<'_> {
    fn at(self, kind: u64, node: usize) -> u64 {
        self.model.keys() + kind * self.nodes + node as u64
    }

    /// Sums of a node.
    fn sums(self, what: What, node: usize) -> u64 {
        self.at(what as u64, node)
    }

    /// How often a node has come to a meeting.
    fn meeting(self, node: usize) -> u64 {
        self.at(2, node)
    }

    /// All rows of a node of one side.
    fn rows(self, side: Side, node: usize) -> u64 {
        self.at(3 + side as u64, node)
    }
}

/// What node `rank` produces and consumes.
fn declare(
    exchange: Exchange,
    model: &Model,
    block: &Block,
    nodes: &[Part],
    keys: Keys<'_>,
    rank: usize,
) -> lapser::Declaration {
    let others = || (0..nodes.len()).filter(|node| *node != rank);
    let item = |item: Item| lapser::Item::new(model.key(item), model.words(item));
    let want = |item, slack| Want { item, slack };
    let is_row = |of: &Item| matches!(of, Item::Row(..));
    let mut declared = lapser::Declaration::default();
    let (rows, rest): (Vec<Item>, Vec<Item>) = block.produced().into_iter().partition(is_row);
    declared.produce.extend(rest.into_iter().map(item));
    let (wanted, rest): (Vec<Item>, Vec<Item>) = block.consumed().into_iter().partition(is_row);
    declared.consume.extend(rest.into_iter().map(|of| want(item(of), 0)));
    let all_rows = |node: usize, side: Side| {
        let words = nodes[node].rows[side as usize].len() * model.config().rank;
        (words > 0).then(|| lapser::Item::new(keys.rows(side, node), words))
    };
    match exchange {
        Exchange::AllGather => {
            declared.produce.extend(Side::BOTH.into_iter().filter_map(|side| all_rows(rank, side)));
            let all = others().flat_map(|node| Side::BOTH.map(|side| all_rows(node, side)));
            declared.consume.extend(all.flatten().map(|item| want(item, 0)));
        }
        Exchange::Broadcast => {
            declared.produce.extend(rows.into_iter().map(item));
            for side in Side::BOTH {
                let all = others().flat_map(|node| nodes[node].rows[side as usize].clone());
                declared.consume.extend(all.map(|row| want(item(Item::Row(side, row)), 0)));
            }
        }
        Exchange::LapserPush | Exchange::LapserPull | Exchange::LapserPushBySlack | Exchange::OneSided => {
            let slack = model.config().slack.into();
            declared.produce.extend(rows.into_iter().map(item));
            declared.consume.extend(wanted.into_iter().map(|of| want(item(of), slack)));
        }
    }
    for what in [What::Epoch, What::Test] {
        let sums = |node: usize| lapser::Item::new(keys.sums(what, node), nodes[node].words());
        match rank {
            0 => declared.consume.extend(others().map(|node| want(sums(node), 0))),
            _ => declared.produce.push(sums(rank)),
        }
    }
    if !exchange.has_slack() {
        let meeting = |node| lapser::Item::new(keys.meeting(node), 1);
        declared.produce.push(meeting(rank));
        declared.consume.extend(others().map(|node| want(meeting(node), 0)));
    }
    declared
}
