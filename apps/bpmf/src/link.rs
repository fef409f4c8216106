//! The nodes of a chain: a block on each, and the items that they exchange through Lapser ([`Items`]).

use crate::exchange::Exchange;
use crate::items::{COSTS, Items, SUMS, Section, What};
use crate::results::{self, Others, malformed};
use bpmf::{Block, Held, Item, Model, Produced, Side, Sums};
use intendant::control::MonotonicClock;
use intendant_lapser_process::{AnyWindow, Error, Get, Lobby, Process, Variant, Way};
use intendant_metrics::process;
use intendant_train::{Costs, Exchanged, TrainError};
use std::sync::Arc;

/// The variant of Lapser that carries the values. Exchanges for comparison use pushes.
pub(crate) const fn variant(exchange: Exchange) -> Variant {
    match exchange {
        Exchange::LapserPull => Variant::Pull,
        Exchange::LapserPushBySlack => Variant::PushBySlack,
        Exchange::LapserPush | Exchange::OneSided | Exchange::AllGather | Exchange::Broadcast => {
            Variant::Push
        }
    }
}

/// An error of the nodes.
pub(crate) fn failed(error: Error) -> TrainError {
    if let Error::Failed(failure) = error {
        return failure.into();
    }
    TrainError::Nodes { exit_code: error.exit_code(), source: error.into() }
}

/// This node, connected with the others.
pub(crate) struct Link {
    process: Process<AnyWindow>,
    exchange: Exchange,
    model: Arc<Model>,
    nodes: usize,
    /// Number of meetings so far.
    met: u64,
    /// Number of times that sums were sent, by [`What`].
    told: [u64; 3],
    /// Number of pieces of the results of each node that node 0 has taken.
    taken: Vec<u64>,
    /// Time spent in sets and gets.
    busy_ns: u64,
    /// CPU time of this process when the chain began.
    cpu_start_ns: u64,
    clock: MonotonicClock,
    /// The costs of all nodes, as far as this node knows them.
    costs: Costs,
}

impl Link {
    /// Starts to exchange items. `block` is the block of this node. With `exports`, node 0 can
    /// [`take`](Others::take) results.
    pub(crate) fn start(
        lobby: Lobby,
        way: Way,
        exchange: Exchange,
        model: &Arc<Model>,
        block: &Block,
        exports: bool,
    ) -> Result<Self, TrainError> {
        let nodes = lobby.nodes();
        let declared = Items::new(model, nodes, exchange).of_process(block, exports);
        let process = lobby.start_by(way, variant(exchange), declared).map_err(failed)?;
        let mut link = Self {
            process,
            exchange,
            model: Arc::clone(model),
            nodes,
            met: 0,
            told: [0; 3],
            taken: vec![0; nodes],
            busy_ns: 0,
            cpu_start_ns: process::cpu_ns(),
            clock: MonotonicClock::start(),
            costs: Costs { exchanged: Some(Exchanged::default()), ..Costs::default() },
        };
        link.send(block, &block.begin(), true)?;
        Ok(link)
    }

    /// Waits until every node has called this function with the same name; returns their payloads by rank.
    pub(crate) fn gather(&self, name: &str, payload: &[u8]) -> Result<Vec<Vec<u8>>, TrainError> {
        self.process.gather(name, payload).map_err(failed)
    }

    pub(crate) fn costs(&self) -> Costs {
        self.costs
    }

    fn rank(&self) -> usize {
        self.process.rank().index()
    }

    fn items(&self) -> Items<'_> {
        Items::new(&self.model, self.nodes, self.exchange)
    }

    /// Runs a part of the exchange, and measures its time.
    fn timed<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, TrainError>) -> Result<T, TrainError> {
        let start = self.clock.now();
        let done = act(self);
        self.busy_ns += 1_000 * (self.clock.now().0 - start.0);
        done
    }

    /// Gets the items that the next step of the block needs.
    pub(crate) fn receive(&mut self, block: &mut Block) -> Result<(), TrainError> {
        self.timed(|link| {
            let mut needs = block.needs();
            if link.exchange == Exchange::AllGather {
                let of_row = |need: &mut bpmf::Need| match need.item {
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
            let get = |need: &bpmf::Need| {
                // Clock 0 stands for no value.
                let (slack, least) = (need.slack, need.least());
                Get { key: link.model.key(need.item), clock: least + slack, slack }
            };
            let wants: Vec<Get> = needs.iter().map(get).collect();
            let (mut value, mut refused) = (Vec::new(), None);
            link.process
                .get_all(&wants, |at, _, words| {
                    value.clear();
                    value.extend(words.iter().map(|word| f64::from_bits(*word)));
                    if let Err(error) = block.put(needs[at].item, &value) {
                        refused.get_or_insert(error);
                    }
                })
                .map_err(failed)?;
            refused.map_or(Ok(()), |error| Err(TrainError::Stopped(error.to_string())))
        })
    }

    /// Gets all rows of a side, and keeps those in `rows`, which is in ascending order.
    fn receive_all(
        &mut self,
        block: &mut Block,
        side: Side,
        clock: u64,
        rows: &[u32],
    ) -> Result<(), TrainError> {
        let rank = self.rank();
        let items = Items::new(&self.model, self.nodes, self.exchange);
        let others = (0..self.nodes).filter(|node| *node != rank);
        let others: Vec<(usize, u64)> =
            others.filter_map(|node| Some((node, items.joined(side, node)?.key))).collect();
        let wants: Vec<Get> = others.iter().map(|(_, key)| Get { key: *key, clock, slack: 0 }).collect();
        let factors = self.model.config().rank;
        let (mut value, mut refused) = (Vec::new(), None);
        self.process
            .get_all(&wants, |at, _, words| {
                let has = items.rows_of(side, others[at].0);
                let from = rows.partition_point(|row| *row < has.start);
                for row in rows[from..].iter().take_while(|row| has.contains(row)) {
                    let at = (row - has.start) as usize * factors;
                    value.clear();
                    value.extend(words[at..at + factors].iter().map(|word| f64::from_bits(*word)));
                    if let Err(error) = block.put(Item::Row(side, *row), &value) {
                        refused.get_or_insert(error);
                    }
                }
            })
            .map_err(failed)?;
        refused.map_or(Ok(()), |error| Err(TrainError::Stopped(error.to_string())))
    }

    /// Sets the items that a step of the block has produced. Then the nodes meet, if the exchange requires it
    /// and all nodes have made this step (`meets`).
    pub(crate) fn send(&mut self, block: &Block, produced: &Produced, meets: bool) -> Result<(), TrainError> {
        self.timed(|link| {
            let joins = link.exchange == Exchange::AllGather;
            let is_joined = |item: &Item| joins && matches!(item, Item::Row(..));
            let (joined, each): (Vec<Item>, Vec<Item>) =
                produced.items.iter().partition(|item| is_joined(item));
            let mut value = Vec::new();
            let mut bits = |item: Item, words: &mut Vec<u64>| {
                value.clear();
                block.value(item, &mut value);
                words.extend(value.iter().map(|number| number.to_bits()));
            };
            let mut all: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
            for item in joined {
                if let Item::Row(side, _) = item {
                    bits(item, &mut all[side as usize]);
                }
            }
            let keys: Vec<u64> = each.iter().map(|item| link.model.key(*item)).collect();
            link.process.set_all(&keys, produced.clock, |at, words| bits(each[at], words)).map_err(failed)?;
            for (side, all) in Side::BOTH.into_iter().zip(all).filter(|(_, all)| !all.is_empty()) {
                if let Some(item) = link.items().joined(side, link.rank()) {
                    link.process.set(item.key, produced.clock, &all).map_err(failed)?;
                }
            }
            if meets && !link.exchange.has_slack() { link.meet() } else { Ok(()) }
        })
    }

    /// Waits until all nodes have come to this meeting.
    fn meet(&mut self) -> Result<(), TrainError> {
        self.met += 1;
        let (rank, met, items) = (self.rank(), self.met, self.items());
        let key = items.meeting(rank).key;
        let others = (0..self.nodes).filter(|node| *node != rank);
        let wants: Vec<Get> =
            others.map(|node| Get { key: items.meeting(node).key, clock: met, slack: 0 }).collect();
        self.process.set(key, met, &[met]).map_err(failed)?;
        self.process.get_all(&wants, |_, _, _| ()).map_err(failed)
    }

    /// Sums over training entries after an iteration; at node 0, those of all nodes.
    pub(crate) fn epoch_sums(&mut self, block: &Block) -> Result<Vec<(u32, Sums)>, TrainError> {
        self.timed(|link| link.tell(What::Epoch, block.sums(None)))
    }

    /// Sums over held-out entries; at node 0, those of all nodes. Those of the validation must be taken at
    /// most once in an iteration: no node reaches the next iteration before node 0 has received them.
    pub(crate) fn held_sums(
        &mut self,
        block: &Block,
        what: What,
        held: Held,
    ) -> Result<Vec<(u32, Sums)>, TrainError> {
        self.timed(|link| link.tell(what, block.sums(Some(held))))
    }

    /// Sends the sums of this node to node 0; at node 0, adds the sums of all others.
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
            let key = self.items().sums(what, rank).key;
            self.process.set(key, clock, &words).map_err(failed)?;
            return Ok(Vec::new());
        }
        let items = self.items();
        let wants: Vec<Get> =
            (1..self.nodes).map(|node| Get { key: items.sums(what, node).key, clock, slack: 0 }).collect();
        let (mut all, mut sum, mut cpu_ns) = (own, costs.map(u128::from), 0);
        self.process
            .get_all(&wants, |_, _, words| {
                let (costs, parts) = words.split_at(COSTS.min(words.len()));
                sum.iter_mut().zip(costs).for_each(|(sum, word)| *sum += u128::from(*word));
                cpu_ns += costs.first().copied().unwrap_or(0);
                for part in parts.as_chunks::<SUMS>().0 {
                    let [node, numbers @ ..] = *part;
                    let [examples, loss, tested, squares, sizes, covered, widths] =
                        numbers.map(f64::from_bits);
                    let sums = Sums { examples, loss, tested, squares, sizes, covered, widths };
                    all.push((node as u32, sums));
                }
            })
            .map_err(failed)?;
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
            seconds: ns as f64 / 1e9 / self.nodes as f64,
        };
        self.costs = Costs { cpu_ns, exchanged: Some(exchanged), simulated: None };
        Ok(all)
    }

    /// The costs of this node so far.
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

    /// Sends the results of this node to node 0, piece by piece, at the pace of node 0.
    pub(crate) fn send_results(&mut self, block: &Block) -> Result<(), TrainError> {
        let (model, rank) = (Arc::clone(&self.model), self.rank());
        let items = Items::new(&model, self.nodes, self.exchange);
        let Some(item) = items.pieces(rank) else { return Ok(()) };
        let taken = items.taken(rank).key;
        let mut clock = 0;
        for mut words in Section::ALL.into_iter().flat_map(|section| results::words(section, items, block)) {
            // The previous piece is no longer needed.
            self.process.get_all(&[Get { key: taken, clock, slack: 0 }], |_, _, _| ()).map_err(failed)?;
            clock += 1;
            words.resize(item.words, 0);
            self.process.set(item.key, clock, &words).map_err(failed)?;
        }
        // The node must not leave before node 0 has taken the last piece.
        self.process.get_all(&[Get { key: taken, clock, slack: 0 }], |_, _, _| ()).map_err(failed)
    }

    pub(crate) fn finish(self) -> Result<(), TrainError> {
        self.process.finish().map_err(failed)
    }
}

/// At node 0, the results of other nodes.
impl Others for Link {
    fn take(&mut self, node: usize, piece: &mut dyn FnMut(&[u64])) -> Result<(), TrainError> {
        self.taken[node] += 1;
        let (clock, items) = (self.taken[node], self.items());
        let item = items.pieces(node).ok_or_else(|| malformed(node))?;
        let taken = items.taken(node).key;
        self.process
            .get_all(&[Get { key: item.key, clock, slack: 0 }], |_, _, words| piece(words))
            .map_err(failed)?;
        self.process.set(taken, clock, &[clock]).map_err(failed)
    }
}
