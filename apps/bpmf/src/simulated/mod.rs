//! `--simulate`: the chain on several nodes in virtual time.
//!
//! Each node is a [`Block`] with the production protocol of Lapser, or with an exchange by hand. The
//! arithmetic and its results are real. The network is [`OneSided`]; `costs` has the durations. Start at
//! [`Cluster`]. `member` is one node, `lapser` and `by_hand` are the ways in which nodes exchange items,
//! `thread` is the state that they share with the node, `chain` is the program.
//!
//! A node sets a row as soon as it has drawn it, like the source's program, so that a push overlaps with the
//! drawing of later rows.

mod by_hand;
mod chain;
mod costs;
mod lapser;
mod member;
mod thread;

use crate::exchange::Exchange;
use crate::items::Items;
use crate::plan::usage;
use bpmf::{Block, BpmfError, Item, Model};
use by_hand::ByHand;
pub(crate) use chain::SimulatedChain;
use costs::Costs;
use intendant_lapser::{Declaration, Directory, Settings};
use intendant_segment::Segment;
use intendant_sim::Spread;
use intendant_sim::onesided::{OneSided, OneSidedConfig};
use intendant_train::{Exchanged, Simulation, TrainError, VirtualTime};
use lapser::Lapser;
use member::{Member, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thread::Own;

/// Default for the maximum number of gets that a node has begun: the depth of a queue of one-sided
/// operations.
const GETS_MAX: usize = 64;

/// Inputs of nodes between two checks of whether the run is to stop.
const INPUTS_PER_LOOK: u64 = 4096;

/// The nodes of a chain on a simulated network.
pub(crate) struct Cluster {
    network: OneSided<Own>,
    members: Vec<Member>,
    /// Iterations that all nodes have ended.
    iterations: u32,
}

impl Cluster {
    /// A chain of `nodes` blocks that exchange their items by `exchange`.
    ///
    /// # Errors
    /// If the model cannot be divided into this many blocks, or there is not enough memory.
    pub(crate) fn new(
        model: &Arc<Model>,
        nodes: usize,
        exchange: Exchange,
        simulation: &Simulation,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let count = u32::try_from(nodes).unwrap_or(u32::MAX);
        let blocks = (0..count).map(|index| Block::new(Arc::clone(model), index, count));
        let blocks = blocks.collect::<Result<Vec<_>, BpmfError>>().map_err(usage)?;
        let items = Items::new(model, nodes, exchange);
        let declarations: Vec<Declaration> = blocks.iter().map(|block| items.of_block(block)).collect();
        let settings =
            Settings { head_words: by_hand::HEAD_WORDS, ..Settings::new(crate::link::variant(exchange)) };
        let directory = Arc::new(Directory::new(settings, &declarations).map_err(TrainError::usage)?);
        let costs = Costs::new(model, simulation);
        let gets = simulation.operation_keys.map_or(GETS_MAX, usize::from);
        let (mut members, mut segments) = (Vec::new(), Vec::new());
        let produced: Vec<Vec<Item>> = blocks.iter().map(Block::produced).collect();
        let produced = Arc::new(produced);
        for (rank, block) in blocks.into_iter().enumerate() {
            let words = directory.words(rank).unwrap_or(0);
            let segment = Segment::new(words).map_err(TrainError::usage)?;
            let way = if exchange.has_slack() {
                Way::Lapser(Box::new(Lapser::new(&directory, rank, &segment, model, gets)?))
            } else {
                Way::ByHand(Box::new(ByHand::new(
                    &directory,
                    rank,
                    exchange,
                    model,
                    &produced,
                    costs.clone(),
                )))
            };
            members.push(Member::new(rank, block, way, costs.clone()));
            segments.push(segment);
        }
        let config = OneSidedConfig {
            network: simulation.delays.network,
            // The network's latency includes it.
            line: Spread::fixed(0),
            hints_lost_once_in: 0,
            detect: Spread::fixed(0),
            seed,
            trace: false,
        };
        let mut network = OneSided::new(config, segments);
        for member in &mut members {
            member.start(&mut network);
        }
        Ok(Self { network, members, iterations: 0 })
    }

    /// The blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.members.iter().map(Member::block)
    }

    /// Continues until all nodes have ended the next iteration. No node can draw rows of a later iteration
    /// before that, because these need hyperparameters, which need the statistics of all nodes.
    ///
    /// # Errors
    /// If the chain diverges.
    pub(crate) fn iterate(&mut self, stop: &AtomicBool) -> Result<(), TrainError> {
        let goal = self.iterations + 1;
        let mut inputs = 0u64;
        while self.members.iter().any(|member| member.iterations < goal) {
            inputs += 1;
            if inputs.is_multiple_of(INPUTS_PER_LOOK) && stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some(step) = self.network.next() else {
                return Err(TrainError::Stopped(format!(
                    "the simulated nodes wait for each other in iteration {goal}"
                )));
            };
            self.members[step.node].step(step.input, &mut self.network)?;
        }
        self.iterations = goal;
        Ok(())
    }

    /// The exchanges of all nodes so far; `None` if there is only one node.
    pub(crate) fn exchanged(&self) -> Option<Exchanged> {
        let nodes = self.members.len();
        let mut all = Exchanged::default();
        let mut busy_ns = 0;
        for member in &self.members {
            let (done, stats) = (member.done(), member.stats());
            busy_ns += done.compute_ns;
            all.sets += stats.sets;
            all.gets += stats.gets;
            all.gets_waited += stats.gets - stats.gets_at_once;
            all.writes += done.writes;
            all.written_bytes += done.written_bytes;
            all.reads += done.reads;
            all.read_bytes += done.read_bytes;
            all.torn += stats.torn_reads + stats.torn_looks;
            all.stale += stats.stale_reads;
        }
        all.seconds = (self.ended_ns() as f64 - busy_ns as f64 / nodes as f64) / 1e9;
        (nodes > 1).then_some(all)
    }

    /// The time at which the last node ended its last iteration.
    fn ended_ns(&self) -> u64 {
        self.members.iter().map(|member| member.ended_ns).max().unwrap_or(0)
    }

    /// The time and traffic of all iterations so far.
    pub(crate) fn time(&self) -> VirtualTime {
        let mut all = VirtualTime {
            virtual_ns: self.ended_ns(),
            events: self.network.events(),
            nic_busy_ns: (0..self.members.len()).map(|node| self.network.load(node).0.busy_ns).sum(),
            ..VirtualTime::default()
        };
        for done in self.members.iter().map(Member::done) {
            all.compute_ns += done.compute_ns;
            all.operations += done.writes + done.reads;
            all.bytes += done.written_bytes + done.read_bytes;
        }
        all
    }
}
