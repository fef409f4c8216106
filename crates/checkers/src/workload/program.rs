//! What the workers of a random workload do.

use super::intents::Announced;
use super::plan::{Act, Plan};
use super::{Failure, Scenario};
use crate::history::{History, RecordId, Summary};
use crate::lanes;
use crate::registers::{ReadId, Registers};
use crate::staleness::{Need, Staleness};
use intendant_core::{Element, Key, NodeId, random};
use intendant_sim::Dice;
use intendant_sim::cluster::{Called, Caller, Cluster, Wait};
use intendant_sim::reach::Marker;
use intendant_wire::{AccessKind, OpId};
use std::collections::BTreeMap;

/// Dust on the updates of a key with copies: below 1, a half, a quarter, and so on, so many sizes.
const DUST_SIZES: u64 = 12;

/// How a key of a call is recorded.
#[derive(Clone, Copy)]
pub(super) enum Note {
    Push(RecordId),
    Pull(RecordId, Need),
    Set,
    Read(ReadId),
    /// A pull of a value whose updates are scaled down.
    Scaled,
}

/// An operation that is under way.
pub(super) struct Flight {
    pub(super) op: OpId,
    pub(super) keys: Vec<Key>,
    /// Per key; empty if keys only move.
    pub(super) notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// It will wake.
    No,
    For(OpId),
    ForAll,
    Synchronised(OpId),
    /// For room for its next call.
    Room,
    /// For the others to come where it is.
    Others,
    /// It will wake, and come from a meeting.
    Return,
    Over,
}

pub(super) struct Program {
    pub(super) calls: u64,
    pub(super) calls_left: u64,
    pub(super) clock: u32,
    /// Stops that it has passed.
    pub(super) stops: usize,
    pub(super) flights: Vec<Flight>,
    pub(super) next: Option<Plan>,
    pub(super) waiting: Waiting,
}

/// The programs of all workers, and what they saw.
pub(super) struct Programs<E> {
    pub(super) scenario: Scenario,
    pub(super) dice: Dice,
    pub(super) programs: Vec<Program>,
    pub(super) history: History,
    pub(super) registers: Registers,
    pub(super) staleness: Staleness,
    /// Pushes per key and worker; only of keys whose updates are scaled down.
    pushes: BTreeMap<Key, Vec<u32>>,
    /// The staleness bound.
    pub(super) bound: u32,
    /// A key that goes over a node to a holder.
    pub(super) chased: Option<(Key, NodeId, NodeId)>,
    /// Keys with lanes, without the range of huge values.
    pub(super) small_keys: u64,
    /// By worker.
    pub(super) announced: Vec<Announced>,
    /// Workers that are not where the others wait.
    pub(super) left: usize,
    values: Vec<E>,
    lanes: Vec<u32>,
}

impl<E: Element> Programs<E> {
    pub(super) fn new(scenario: &Scenario, cluster: &mut Cluster<E>) -> Self {
        let workers = scenario.all_workers();
        let programs = (0..workers as u64)
            .map(|worker| {
                scenario.calls / workers as u64 + u64::from(worker < scenario.calls % workers as u64)
            })
            .map(|calls| Program {
                calls,
                calls_left: calls,
                clock: 0,
                stops: 0,
                flights: Vec::new(),
                next: None,
                waiting: Waiting::No,
            })
            .collect();
        (0..workers).for_each(|worker| cluster.wake(worker, 0));
        let loader_left = scenario.intents.map_or(0, |announcing| announcing.loader);
        if loader_left > 0 {
            (0..workers).for_each(|worker| cluster.wake_loader(worker, 0));
        }
        Self {
            dice: Dice::new(random::stream(scenario.seed, &[2])),
            programs,
            history: History::new(workers),
            registers: Registers::default(),
            staleness: Staleness::new(workers, scenario.is_clocked()),
            pushes: BTreeMap::new(),
            bound: scenario.copies.staleness,
            chased: None,
            announced: (0..workers).map(|_| Announced { loader_left, ..Announced::default() }).collect(),
            small_keys: scenario.lanes[..2].iter().map(|(keys, _)| keys).sum(),
            left: workers,
            values: Vec::new(),
            lanes: vec![0; workers],
            scenario: scenario.clone(),
        }
    }

    /// What workers saw makes sense. What holds in any order comes first.
    pub(super) fn check(&self) -> Result<Summary, Failure> {
        self.history.check_sums()?;
        self.registers.check()?;
        let scenario = &self.scenario;
        let sessions = self.history.check_sessions(|key| !scenario.is_sequential(key));
        let ordered = self.history.check_order(|key| scenario.is_sequential(key));
        Ok(sessions.map_err(Failure::Session)?.and(ordered?))
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
        if std::mem::replace(&mut self.programs[worker].waiting, Waiting::No) == Waiting::Return {
            self.come_back(cluster, worker);
        }
        self.chase(cluster);
        let plan = match self.programs[worker].next.take() {
            Some(plan) => plan,
            None if self.stop_over(cluster, worker)? => return Ok(()),
            None => {
                self.tick(cluster, worker);
                self.programs[worker].calls_left -= 1;
                let mut plan = Plan::draw(&mut self.dice, &self.scenario, self.small_keys);
                if let Act::Access(kind) = plan.act {
                    self.obey(worker, &mut plan, kind);
                }
                plan
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
                self.order(cluster, &plan.keys, to);
                cluster.wake(worker, 0);
                Ok(())
            }
            Act::Promote(to) => {
                self.promote(cluster, &plan.keys, to);
                cluster.wake(worker, 0);
                Ok(())
            }
            Act::Intend => {
                self.announce(cluster, worker, plan.keys, Caller::Worker)?;
                let pause_ns = self.scenario.intents.map_or(0, |announcing| announcing.pause_ns);
                let pauses = self.dice.once_in(4);
                cluster.wake(worker, if pauses { pause_ns } else { 0 });
                Ok(())
            }
            Act::Replicate(wanted) => {
                cluster.replicate(worker, &plan.keys, wanted);
                cluster.wake(worker, 0);
                Ok(())
            }
        }
    }

    pub(super) fn note_pull(&mut self, worker: usize, key: Key, now_ns: Option<u64>) -> Note {
        if self.scenario.registers().contains(&key.0) {
            Note::Read(self.registers.pull(worker, key))
        } else if self.scenario.is_clipped(key) {
            Note::Scaled
        } else {
            let clock = self.programs[worker].clock;
            let need = if self.scenario.is_asked() && self.scenario.is_fixed(key) {
                clock
            } else if self.scenario.is_clocked() {
                clock.saturating_sub(self.bound)
            } else {
                0
            };
            Note::Pull(self.history.pull(worker, key, now_ns), self.staleness.need(need))
        }
    }

    /// A worker adds to a key; appends the update.
    fn note_push(
        &mut self,
        worker: usize,
        key: Key,
        len: usize,
        now_ns: Option<u64>,
        values: &mut Vec<E>,
    ) -> Note {
        let workers = self.scenario.all_workers();
        lanes::push(worker, workers, len, values);
        if !self.scenario.is_sequential(key) {
            // Of all sizes, or what was added could be told exactly from the sums before and after.
            let size = f64::from(1 << self.dice.below(DUST_SIZES));
            lanes::scatter(values, (self.dice.below(2_001) as f64 - 1_000.0) / (1_001.0 * size));
        }
        if self.scenario.is_clipped(key) {
            self.pushes.entry(key).or_insert_with(|| vec![0; workers])[worker] += 1;
            return Note::Set;
        }
        self.staleness.push(worker, key, self.programs[worker].clock);
        Note::Push(self.history.push(worker, key, now_ns))
    }

    fn access(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        kind: AccessKind,
        keys: Vec<Key>,
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let node = NodeId((worker / self.scenario.workers) as u16);
        let sets = kind == AccessKind::Set && keys.iter().all(|key| self.scenario.may_set(node, *key));
        let kind = if kind == AccessKind::Set && !sets { AccessKind::Pull } else { kind };
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let mut notes = Vec::with_capacity(keys.len());
        for key in &keys {
            let len = cluster.layout().len(*key);
            notes.push(match kind {
                AccessKind::Pull => self.note_pull(worker, *key, now_ns),
                AccessKind::Push => self.note_push(worker, *key, len, now_ns, &mut values),
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
            Waiting::Synchronised(waiting) if waiting == op => {
                cluster.reach().mark(Marker::Synchronized);
                if self.scenario.is_asked() {
                    self.set_clock(worker, self.programs[worker].clock + 1);
                }
                self.settle(cluster, worker, Waiting::No);
            }
            Waiting::For(_)
            | Waiting::Synchronised(_)
            | Waiting::No
            | Waiting::Others
            | Waiting::Return
            | Waiting::Over => {}
        }
        Ok(())
    }

    /// Lets the worker wait, or go on if there is nothing to wait for.
    pub(super) fn settle(&mut self, cluster: &mut Cluster<E>, worker: usize, waiting: Waiting) {
        let program = &mut self.programs[worker];
        let waits = match waiting {
            Waiting::For(op) | Waiting::Synchronised(op) => {
                program.flights.iter().any(|flight| flight.op == op)
            }
            Waiting::ForAll | Waiting::Room => !program.flights.is_empty(),
            Waiting::No | Waiting::Others | Waiting::Return | Waiting::Over => false,
        };
        if waits {
            program.waiting = waiting;
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

    pub(super) fn learn(
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
                Note::Scaled => {
                    self.check_scaled(*key, &values[at..at + len])?;
                }
                Note::Pull(id, need) => {
                    self.read(*key, &values[at..at + len])?;
                    self.history.pulled(*id, &self.lanes, now_ns);
                    let lanes = &self.lanes;
                    let fresh = self.staleness.pulled(worker, *key, *need, lanes);
                    fresh.map_err(|finding| cluster.violation(finding))?;
                    cluster.note(|| format!("worker {worker} saw {key:?} {lanes:?}"));
                }
                Note::Read(id) => self.registers.pulled(*id, &values[at..at + len])?,
            }
            at += len;
        }
        Ok(())
    }

    /// A value after everything has come to rest.
    pub(super) fn ended(&mut self, cluster: &mut Cluster<E>, key: Key, value: &[E]) -> Result<(), Failure> {
        if self.scenario.registers().contains(&key.0) {
            return Ok(self.registers.ended(key, value)?);
        }
        if self.scenario.is_clipped(key) {
            let scaled = self.check_scaled(key, value)?;
            if scaled {
                cluster.reach().mark(Marker::Clipped);
            }
            return Ok(());
        }
        self.read(key, value)?;
        self.history.ended(key, &self.lanes);
        Ok(())
    }

    fn read(&mut self, key: Key, value: &[E]) -> Result<(), Failure> {
        let dusty = !self.scenario.is_sequential(key);
        let read = if dusty { lanes::read_dusty } else { lanes::read };
        Ok(read(key, value, &mut self.lanes)?)
    }

    /// Returns whether something is missing.
    fn check_scaled(&mut self, key: Key, value: &[E]) -> Result<bool, Failure> {
        self.lanes.fill(0);
        let most = self.pushes.get(&key).unwrap_or(&self.lanes);
        lanes::read_scaled(key, value, most)?;
        Ok(value.iter().zip(most).any(|(count, most)| count.to_f64() < f64::from(*most) - 0.1))
    }
}
