//! What the workers of a random workload do.

use super::plan::{Act, Plan};
use super::{Failure, Scenario};
use crate::cluster::{Called, Cluster, Wait};
use crate::dice::Dice;
use crate::history::{History, RecordId};
use crate::lanes;
use crate::reach::Marker;
use crate::registers::{ReadId, Registers};
use intendant_core::{Element, Key, random};
use intendant_wire::{AccessKind, OpId};

/// Moves of keys that a worker may have outstanding if it waits for each access.
const MOVES_MAX: usize = 4;

/// How a key of a call is recorded.
#[derive(Clone, Copy)]
enum Note {
    Push(RecordId),
    Pull(RecordId),
    Set,
    Read(ReadId),
}

/// An operation that is under way.
struct Flight {
    op: OpId,
    keys: Vec<Key>,
    /// Per key; empty if keys only move.
    notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// It will wake.
    No,
    For(OpId),
    ForAll,
    /// For room for its next call.
    Room,
    Over,
}

struct Program {
    calls_left: u64,
    flights: Vec<Flight>,
    next: Option<Plan>,
    waiting: Waiting,
}

/// The programs of all workers, and what they saw.
pub(super) struct Programs<E> {
    scenario: Scenario,
    dice: Dice,
    programs: Vec<Program>,
    pub(super) history: History,
    pub(super) registers: Registers,
    /// Keys with lanes, without the range of huge values.
    small_keys: u64,
    /// Workers that are not done.
    left: usize,
    values: Vec<E>,
    lanes: Vec<u32>,
}

impl<E: Element> Programs<E> {
    pub(super) fn new(scenario: &Scenario, cluster: &mut Cluster<E>) -> Self {
        let workers = scenario.all_workers();
        let programs = (0..workers as u64)
            .map(|worker| Program {
                calls_left: scenario.calls / workers as u64
                    + u64::from(worker < scenario.calls % workers as u64),
                flights: Vec::new(),
                next: None,
                waiting: Waiting::No,
            })
            .collect();
        (0..workers).for_each(|worker| cluster.wake(worker, 0));
        Self {
            dice: Dice::new(random::stream(scenario.seed, &[2])),
            programs,
            history: History::new(workers),
            registers: Registers::default(),
            small_keys: scenario.lanes[..2].iter().map(|(keys, _)| keys).sum(),
            left: workers,
            values: Vec::new(),
            lanes: vec![0; workers],
            scenario: scenario.clone(),
        }
    }

    pub(super) fn all_done(&self) -> bool {
        self.left == 0
    }

    /// Who waits for what, in words.
    pub(super) fn waiting(&self) -> String {
        let waiting = self.programs.iter().enumerate().filter(|(_, p)| p.waiting != Waiting::Over);
        let each: Vec<String> =
            waiting.map(|(worker, p)| format!("worker {worker} waits: {:?}", p.waiting)).collect();
        each.join(", ")
    }

    /// A worker goes on.
    pub(super) fn step(&mut self, cluster: &mut Cluster<E>, worker: usize) -> Result<(), Failure> {
        let program = &mut self.programs[worker];
        program.waiting = Waiting::No;
        let plan = match program.next.take() {
            Some(plan) => plan,
            None if program.calls_left == 0 => {
                self.settle(cluster, worker, Waiting::ForAll);
                return Ok(());
            }
            None => {
                program.calls_left -= 1;
                Plan::draw(&mut self.dice, &self.scenario, self.small_keys)
            }
        };
        if !cluster.admits(worker, &plan.keys) {
            cluster.reach().mark(Marker::AdmissionWaited);
            let program = &mut self.programs[worker];
            (program.next, program.waiting) = (Some(plan), Waiting::Room);
            return Ok(());
        }
        self.call(cluster, worker, plan)
    }

    fn call(&mut self, cluster: &mut Cluster<E>, worker: usize, plan: Plan) -> Result<(), Failure> {
        match plan.act {
            Act::Access(kind) => self.access(cluster, worker, kind, plan.keys),
            Act::Localize { wait } => self.localize(cluster, worker, plan.keys, wait),
            Act::IfLocal => self.pull_if_local(cluster, worker, &plan.keys),
            Act::Order(to) => {
                let owner = cluster.owner(plan.keys[0]).index();
                cluster.order(owner * self.scenario.workers, &plan.keys, to);
                cluster.wake(worker, 0);
                Ok(())
            }
        }
    }

    fn pull_if_local(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: &[Key],
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let (values, here) = cluster.pull_if_local(worker, keys)?;
        let mut at = 0;
        for (key, here) in keys.iter().zip(here) {
            let end = at + cluster.layout().len(*key);
            if here {
                let note = self.note_pull(worker, *key, now_ns);
                self.learn(cluster, worker, &[*key], &[note], &values[at..end])?;
            }
            at = end;
        }
        cluster.wake(worker, 0);
        Ok(())
    }

    fn localize(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: Vec<Key>,
        wait: bool,
    ) -> Result<(), Failure> {
        let Called { op, .. } = cluster.localize(worker, &keys)?;
        let Some(op) = op else {
            cluster.wake(worker, 0);
            return Ok(());
        };
        let flights = &mut self.programs[worker].flights;
        flights.push(Flight { op, keys, notes: Vec::new() });
        let crowded = flights.len() >= self.scenario.in_flight_max.max(MOVES_MAX);
        let waiting = if wait || crowded { Waiting::For(op) } else { Waiting::No };
        self.settle(cluster, worker, waiting);
        Ok(())
    }

    fn note_pull(&mut self, worker: usize, key: Key, now_ns: Option<u64>) -> Note {
        if self.scenario.registers().contains(&key.0) {
            Note::Read(self.registers.pull(worker, key))
        } else {
            Note::Pull(self.history.pull(worker, key, now_ns))
        }
    }

    fn access(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        kind: AccessKind,
        keys: Vec<Key>,
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let workers = self.scenario.all_workers();
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let mut notes = Vec::with_capacity(keys.len());
        for key in &keys {
            let len = cluster.layout().len(*key);
            notes.push(match kind {
                AccessKind::Pull => self.note_pull(worker, *key, now_ns),
                AccessKind::Push => {
                    lanes::push(worker, workers, len, &mut values);
                    Note::Push(self.history.push(worker, *key, now_ns))
                }
                AccessKind::Set => {
                    let tag = self.registers.set(worker, *key);
                    values.resize(values.len() + len, E::from_f64(f64::from(tag)));
                    Note::Set
                }
            });
        }
        let blocking = self.scenario.in_flight_max == 0;
        let called = match kind {
            AccessKind::Pull => {
                cluster.pull(worker, &keys, if blocking { Wait::Blocking } else { Wait::Later })
            }
            AccessKind::Push => cluster.push(worker, &keys, &values),
            AccessKind::Set => cluster.set(worker, &keys, &values),
        };
        self.values = values;
        let Called { op, values } = called?;
        let Some(op) = op else {
            self.learn(cluster, worker, &keys, &notes, &values)?;
            cluster.wake(worker, 0);
            return Ok(());
        };
        let flights = &mut self.programs[worker].flights;
        let mut others = flights.iter().filter(|flight| !flight.notes.is_empty());
        if others.clone().next().is_some() {
            cluster.reach().mark(Marker::AsyncOverlap);
        }
        if others.any(|flight| flight.keys.iter().any(|key| keys.contains(key))) {
            cluster.reach().mark(Marker::KeyOverlap);
        }
        flights.push(Flight { op, keys, notes });
        if cluster.is_done(worker, op) {
            // A pull that was served at once, but keeps its values until the worker asks.
            self.land(cluster, worker, op)?;
        }
        let flights = &self.programs[worker].flights;
        let oldest = flights.first().map_or(Waiting::No, |flight| Waiting::For(flight.op));
        let next = if blocking {
            Waiting::For(op)
        } else if flights.len() >= self.scenario.in_flight_max {
            oldest
        } else {
            match self.dice.below(16) {
                0 => Waiting::ForAll,
                1 => oldest,
                _ => Waiting::No,
            }
        };
        self.settle(cluster, worker, next);
        Ok(())
    }

    /// An operation is done.
    pub(super) fn answered(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        op: OpId,
    ) -> Result<(), Failure> {
        self.land(cluster, worker, op)?;
        match self.programs[worker].waiting {
            Waiting::Room => {
                self.programs[worker].waiting = Waiting::No;
                cluster.wake(worker, 0);
            }
            Waiting::For(waiting) if waiting == op => self.settle(cluster, worker, Waiting::No),
            Waiting::ForAll => self.settle(cluster, worker, Waiting::ForAll),
            Waiting::For(_) | Waiting::No | Waiting::Over => {}
        }
        Ok(())
    }

    /// Lets the worker wait, or go on if there is nothing to wait for.
    fn settle(&mut self, cluster: &mut Cluster<E>, worker: usize, waiting: Waiting) {
        let program = &mut self.programs[worker];
        let waits = match waiting {
            Waiting::For(op) => program.flights.iter().any(|flight| flight.op == op),
            Waiting::ForAll | Waiting::Room => !program.flights.is_empty(),
            Waiting::No | Waiting::Over => false,
        };
        if waits {
            program.waiting = waiting;
        } else if program.calls_left == 0 && program.next.is_none() && program.flights.is_empty() {
            program.waiting = Waiting::Over;
            self.left -= 1;
        } else {
            program.waiting = Waiting::No;
            cluster.wake(worker, 0);
        }
    }

    /// Takes what an operation brought.
    fn land(&mut self, cluster: &mut Cluster<E>, worker: usize, op: OpId) -> Result<(), Failure> {
        let flights = &mut self.programs[worker].flights;
        let at = flights.iter().position(|flight| flight.op == op).expect("operations are answered once");
        let Flight { keys, notes, .. } = flights.remove(at);
        let values = cluster.take_pulled(worker, op).unwrap_or_default();
        self.learn(cluster, worker, &keys, &notes, &values)
    }

    fn learn(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: &[Key],
        notes: &[Note],
        values: &[E],
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let mut at = 0;
        for (key, note) in keys.iter().zip(notes) {
            let len = cluster.layout().len(*key);
            match note {
                Note::Push(id) => self.history.pushed(*id, now_ns),
                Note::Set => {}
                Note::Pull(id) => {
                    lanes::read(*key, &values[at..at + len], &mut self.lanes)?;
                    self.history.pulled(*id, &self.lanes, now_ns);
                    let lanes = &self.lanes;
                    cluster.note(|| format!("worker {worker} saw {key:?} {lanes:?}"));
                }
                Note::Read(id) => self.registers.pulled(*id, &values[at..at + len])?,
            }
            at += len;
        }
        Ok(())
    }

    /// A value after everything has come to rest.
    pub(super) fn ended(&mut self, key: Key, value: &[E]) -> Result<(), Failure> {
        if self.scenario.registers().contains(&key.0) {
            return Ok(self.registers.ended(key, value)?);
        }
        lanes::read(key, value, &mut self.lanes)?;
        self.history.ended(key, &self.lanes);
        Ok(())
    }
}
