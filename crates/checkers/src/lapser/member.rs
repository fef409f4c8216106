//! A node of a run: its protocol, and the programs of its workers.

use super::scenario::NodeScenario;
use intendant_lapser::{FinishError, Node};
use intendant_sim::Dice;
use std::collections::{BTreeMap, BTreeSet};

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Set { key: u64, clock: u64 },
    Get { key: u64, clock: u64, slack: u64, prefetch: bool },
}

/// A worker and its program: iterations in which it sets its items and gets those that the node consumes.
#[derive(Debug)]
pub(super) struct Worker {
    /// Keys that it sets.
    sets: Vec<u64>,
    /// Iteration, from 1, and whether its first half is over.
    iteration: u64,
    second_half: bool,
    /// What is left of this half.
    tasks: Vec<Task>,
    /// Keys of others, with slacks, that it gets at the end with clocks that are never set.
    beyond: Vec<(u64, u64)>,
    /// Calls without an answer.
    pub(super) outstanding: usize,
    /// Whether it has an input scheduled.
    pub(super) woken: bool,
    pub(super) ended: bool,
}

impl Worker {
    pub(super) fn new(sets: Vec<u64>, beyond: Vec<(u64, u64)>) -> Self {
        Self {
            sets,
            beyond,
            iteration: 0,
            second_half: true,
            tasks: Vec::new(),
            outstanding: 0,
            woken: false,
            ended: false,
        }
    }

    /// The next task, of as many iterations, each of which sets items to as many clocks; `None` if calls are
    /// outstanding that it waits for, or the program is at its end.
    pub(super) fn next(
        &mut self,
        scenario: &NodeScenario,
        (iterations, clocks): (u64, u64),
        gets: &[(u64, u64)],
        dice: &mut Dice,
    ) -> Option<Task> {
        while self.tasks.is_empty() {
            // Each half needs the values of the one before.
            if self.outstanding > 0 {
                return None;
            }
            if !self.second_half {
                self.second_half = true;
            } else if self.iteration == iterations && !self.beyond.is_empty() {
                for (key, slack) in std::mem::take(&mut self.beyond) {
                    let clock = iterations * clocks + dice.between(1, 10);
                    let prefetch = dice.once_in(4);
                    self.tasks.push(Task::Get { key, clock, slack, prefetch });
                }
                continue;
            } else if self.iteration == iterations {
                self.ended = true;
                return None;
            } else {
                (self.iteration, self.second_half) = (self.iteration + 1, false);
            }
            self.tasks = self.draw(scenario, clocks, gets, dice);
        }
        self.tasks.pop()
    }

    /// Whether the tasks of a half are all done.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.outstanding == 0
    }

    /// The tasks of a half of an iteration, in random order.
    fn draw(&self, scenario: &NodeScenario, clocks: u64, gets: &[(u64, u64)], dice: &mut Dice) -> Vec<Task> {
        let mut tasks = Vec::new();
        if self.second_half == scenario.gets_first {
            let first = (self.iteration - 1) * clocks + 1;
            for key in &self.sets {
                tasks.extend((0..clocks).map(|_| Task::Set { key: *key, clock: first }));
            }
        } else {
            // Where gets come first, values of this iteration may need those that this node has not set yet.
            let clock = (self.iteration - u64::from(scenario.gets_first)) * clocks;
            for (key, slack) in gets {
                if !dice.once_in(scenario.gets_once_in) {
                    continue;
                }
                let once_in = scenario.prefetches_once_in;
                let prefetch = once_in > 0 && dice.once_in(once_in);
                tasks.push(Task::Get { key: *key, clock, slack: *slack, prefetch });
            }
        }
        for last in (1..tasks.len()).rev() {
            tasks.swap(last, dice.below(last as u64 + 1) as usize);
        }
        // The clocks of an item increase, and the last task comes first.
        let mut sets = BTreeMap::new();
        for task in tasks.iter_mut().rev() {
            if let Task::Set { key, clock } = task {
                let before = sets.entry(*key).or_insert(0);
                *clock += *before;
                *before += 1;
            }
        }
        tasks
    }
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Working,
    /// Its workers are at the end of their programs.
    Finishing,
    Finished(Result<(), FinishError>),
    /// A get has failed because another node is gone.
    Failed,
    /// It has died.
    Died,
}

/// A node.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) node: Node,
    pub(super) workers: Vec<Worker>,
    /// What its workers get: keys, each with the slack that the node has declared.
    pub(super) gets: Vec<(u64, u64)>,
    pub(super) state: State,
    /// When the next look at what gets wait for is scheduled.
    pub(super) timer_ns: Option<u64>,
    /// Nodes that it was told are gone.
    pub(super) lost: Vec<usize>,
    /// Calls so far.
    pub(super) calls: u64,
    /// The worker that sets its items in a batch.
    pub(super) batch: Option<usize>,
    /// Nodes to which a batch has written without a hint so far.
    pub(super) unhinted: BTreeSet<usize>,
}

impl Member {
    /// Another node is gone.
    pub(super) fn lose(&mut self, other: usize) {
        self.lost.push(other);
        self.unhinted.remove(&other);
    }

    /// Whether the node is gone without having finished in good order.
    pub(super) fn is_lost(&self) -> bool {
        match &self.state {
            State::Working | State::Finishing | State::Finished(Ok(())) => false,
            State::Finished(Err(_)) | State::Failed | State::Died => true,
        }
    }

    /// Whether nothing more will come of it.
    pub(super) fn has_ended(&self) -> bool {
        match &self.state {
            State::Working | State::Finishing => false,
            State::Finished(_) | State::Failed | State::Died => true,
        }
    }
}
