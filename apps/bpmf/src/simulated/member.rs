//! One node: a thread that computes the steps of a block, and exchanges items before and after them.

use super::by_hand::ByHand;
use super::costs::Costs;
use super::lapser::Lapser;
use super::thread::{Done, Got, Own, Thread};
use bpmf::{Block, BpmfError, Item, Scratch, Side, Step};
use intendant_lapser::Stats;
use intendant_sim::onesided::{Input, OneSided};
use intendant_train::TrainError;
use std::collections::VecDeque;

/// How a node exchanges items.
pub(super) enum Way {
    Lapser(Box<Lapser>),
    ByHand(Box<ByHand>),
}

/// The activity of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It computes items and sends them to other nodes.
    Working,
    /// It waits until all nodes have come this far, if its way of exchange requires that.
    Meeting,
    /// It gets the items that the next step needs.
    Getting,
    Ended,
}

/// A part of a step: a computation, and the item that it produces.
struct Act {
    compute_ns: u64,
    item: Option<Item>,
}

/// A node.
pub(super) struct Member {
    thread: Thread,
    way: Way,
    scratch: Scratch,
    phase: Phase,
    /// The parts of the step that are left.
    acts: VecDeque<Act>,
    /// The item that is being computed.
    computed: Option<Item>,
    /// The clock of the items that the step produces.
    clock: u64,
    /// The step whose items are being sent; `None` at the start.
    given: Option<Step>,
    /// The number of iterations that the node has ended, and the time at which it ended the last one.
    pub(super) iterations: u32,
    pub(super) ended_ns: u64,
}

impl Member {
    pub(super) fn new(rank: usize, block: Block, way: Way, costs: Costs) -> Self {
        Self {
            thread: Thread { rank, block, costs, done: Done::default() },
            way,
            scratch: Scratch::new(),
            phase: Phase::Working,
            acts: VecDeque::new(),
            computed: None,
            clock: 1,
            given: None,
            iterations: 0,
            ended_ns: 0,
        }
    }

    pub(super) const fn block(&self) -> &Block {
        &self.thread.block
    }

    /// Begins with the items that have a value from the start.
    pub(super) fn start(&mut self, network: &mut OneSided<Own>) {
        let begin = self.thread.block.begin();
        self.clock = begin.clock;
        self.acts = begin.items.into_iter().map(|item| Act { compute_ns: 0, item: Some(item) }).collect();
        self.thread.go_later(network);
    }

    pub(super) const fn done(&self) -> Done {
        self.thread.done
    }

    /// The counts of Lapser, if the node uses it.
    pub(super) fn stats(&self) -> Stats {
        match &self.way {
            Way::Lapser(lapser) => lapser.stats(),
            Way::ByHand(_) => Stats::default(),
        }
    }

    /// Handles an input of the node, which is idle.
    pub(super) fn step(&mut self, input: Input<Own>, network: &mut OneSided<Own>) -> Result<(), TrainError> {
        let goes_on = match input {
            Input::Own(Own::Go) => true,
            Input::Own(Own::Look) | Input::Done(_) | Input::Hint { .. } => {
                network.computing(self.thread.rank, self.thread.costs.input_ns());
                match &mut self.way {
                    Way::Lapser(lapser) => lapser.learn(&mut self.thread, &input, network)?,
                    Way::ByHand(by_hand) => by_hand.learn(&input),
                }
            }
            // Nodes exist as long as the simulation.
            Input::Failed { node, .. } | Input::Closed(node) => {
                return Err(TrainError::Stopped(format!("simulated node {node} is gone")));
            }
        };
        if goes_on { self.go(network) } else { Ok(()) }
    }

    /// Does the thread's next action.
    fn go(&mut self, network: &mut OneSided<Own>) -> Result<(), TrainError> {
        match self.phase {
            Phase::Working => self.go_working(network),
            Phase::Meeting => {
                let met = match &mut self.way {
                    Way::Lapser(_) => true,
                    Way::ByHand(by_hand) => by_hand.meets(&mut self.thread, network),
                };
                if met {
                    self.next_step(network);
                }
                Ok(())
            }
            Phase::Getting => {
                let got = match &mut self.way {
                    Way::Lapser(lapser) => lapser.gets(&mut self.thread, network)?,
                    Way::ByHand(by_hand) => by_hand.gets(&mut self.thread, network)?,
                };
                match got {
                    Got::All => self.work(network)?,
                    Got::Some => self.thread.go_later(network),
                    Got::Waits => {}
                }
                Ok(())
            }
            Phase::Ended => Ok(()),
        }
    }

    /// Sends the item that was computed, and begins with the next one.
    fn go_working(&mut self, network: &mut OneSided<Own>) -> Result<(), TrainError> {
        if let Some(item) = self.computed.take() {
            let given = match &mut self.way {
                Way::Lapser(lapser) => lapser.set(&mut self.thread, item, self.clock, network)?,
                Way::ByHand(by_hand) => {
                    by_hand.set(&mut self.thread, item, network);
                    true
                }
            };
            if !given {
                // The thread continues when the set is answered.
                return Ok(());
            }
        }
        if let Some(act) = self.acts.pop_front() {
            self.thread.done.compute_ns += act.compute_ns;
            network.computing(self.thread.rank, act.compute_ns);
            self.computed = act.item;
            self.thread.go_later(network);
            return Ok(());
        }
        if self.given == Some(Step::Predict) {
            self.iterations += 1;
            self.ended_ns = network.now_ns();
        }
        match &mut self.way {
            Way::Lapser(_) => {}
            Way::ByHand(by_hand) => by_hand.end(self.given),
        }
        self.phase = Phase::Meeting;
        // After the activity for which the thread is charged.
        self.thread.go_later(network);
        Ok(())
    }

    fn next_step(&mut self, network: &mut OneSided<Own>) {
        let block = &self.thread.block;
        if block.step() == Some(Step::Rows(Side::Columns)) && self.given != Some(Step::Hyperparameters) {
            // A block that draws no hyperparameters meets the block that does.
            self.given = Some(Step::Hyperparameters);
            if let Way::ByHand(by_hand) = &mut self.way {
                by_hand.end(self.given);
                self.thread.go_later(network);
                return;
            }
        }
        if block.step().is_none() {
            self.phase = Phase::Ended;
            return;
        }
        let needs = block.needs();
        match &mut self.way {
            Way::Lapser(lapser) => lapser.begin(needs),
            Way::ByHand(by_hand) => by_hand.begin(needs),
        }
        self.phase = Phase::Getting;
        self.thread.go_later(network);
    }

    /// Computes the step. The results are known at once; the thread is then busy for the duration of the
    /// computation, item by item.
    fn work(&mut self, network: &mut OneSided<Own>) -> Result<(), TrainError> {
        let Thread { block, costs, .. } = &mut self.thread;
        let step = block.step();
        for task in block.work().map_err(|error| TrainError::Stopped(error.to_string()))? {
            let diverged = |error: BpmfError| TrainError::ProgramDiverged(error.into());
            task.run(&mut self.scratch).map_err(diverged)?;
        }
        let produced = block.finish();
        (self.clock, self.given) = (produced.clock, step);
        if step == Some(Step::Predict) {
            let predict_ns = |item: Item| match item {
                Item::Row(Side::Rows, row) => costs.predict_ns(row),
                Item::Row(Side::Columns, _) | Item::Statistics(..) | Item::Hyperparameters(_) => 0,
            };
            let compute_ns = block.produced().into_iter().map(predict_ns).sum();
            self.acts.push_back(Act { compute_ns, item: None });
        }
        let act = |item: Item| Act { compute_ns: costs.draw_ns(item), item: Some(item) };
        self.acts.extend(produced.items.into_iter().map(act));
        self.phase = Phase::Working;
        self.thread.go_later(network);
        Ok(())
    }
}
