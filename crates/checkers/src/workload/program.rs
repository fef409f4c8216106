//! The programs of a random workload: each worker makes random calls, waits for operations, and records what
//! it saw.

mod in_place;
mod intents;
mod moves;
mod stops;

use super::call::{Call, CallKind};
use super::{Failure, Scenario, tally};
use crate::checker::Checked;
use crate::history::{History, RecordId, Summary};
use crate::lanes;
use crate::registers::{ReadId, Registers};
use crate::staleness::{Need, Staleness};
use intendant_core::{Combine, Element, Key, NodeId, Timing, random};
use intendant_sim::Dice;
use intendant_sim::cluster::{CallOutcome, Caller, Wait};
use intendant_sim::reach::Marker;
use intendant_wire::{AccessKind, OpId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of sizes of dust on updates: below 1, 1/2, 1/4 and so on.
const DUST_SIZES: u64 = 12;

/// How a key of a call is recorded, by the checker that judges it.
#[derive(Clone, Copy)]
enum KeyRecord {
    Push(RecordId),
    Pull(RecordId, Need),
    Set,
    Read(ReadId),
    /// A pull of a value whose updates are clipped.
    Scaled,
}

/// An outstanding operation of a worker.
struct OutstandingOp {
    op: OpId,
    keys: Vec<Key>,
    /// Parallel to `keys`; empty if the operation accesses no values.
    records: Vec<KeyRecord>,
}

/// What a worker waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// Nothing: a wake-up is scheduled.
    No,
    For(OpId),
    ForAll,
    Synchronised(OpId),
    /// Until its outstanding bytes admit its next call.
    Room,
    /// Until all workers have reached its stop.
    Others,
    /// Nothing: a wake-up is scheduled, at which it leaves a meeting.
    Return,
    Over,
}

/// The state of a worker's program.
struct Program {
    calls: u64,
    calls_left: u64,
    clock: u32,
    /// Number of stops that it has passed.
    stops: usize,
    outstanding: Vec<OutstandingOp>,
    next: Option<Call>,
    waiting: Waiting,
}

/// The intents of a worker that it or its loader has signalled.
#[derive(Default)]
struct Announced {
    windows: Vec<(Vec<Key>, Range<u32>)>,
    loader_left: u64,
}

/// The programs of all workers, and the checkers that judge what they see.
pub(super) struct Programs<E> {
    scenario: Scenario,
    dice: Dice,
    programs: Vec<Program>,
    history: History,
    registers: Registers,
    staleness: Staleness,
    /// Pushes by key and worker, of keys whose updates are clipped.
    pushes: BTreeMap<Key, Vec<u32>>,
    /// With rules, the number of pushes of each key.
    tally: BTreeMap<Key, u32>,
    /// The present staleness bound.
    bound: u32,
    /// A two-step relocation: key, intermediate node, final node.
    two_step: Option<(Key, NodeId, NodeId)>,
    /// Number of keys with lanes, without those with huge values.
    small_keys: u64,
    /// The signalled intents, by worker.
    announced: Vec<Announced>,
    /// Number of workers that have not reached the stop.
    left: usize,
    values: Vec<E>,
    lanes: Vec<u32>,
}

impl<E: Element> Programs<E> {
    pub(super) fn new(scenario: &Scenario, cluster: &mut Checked<E>) -> Self {
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
                outstanding: Vec::new(),
                next: None,
                waiting: Waiting::No,
            })
            .collect();
        (0..workers).for_each(|worker| cluster.wake(worker, 0));
        let loader_left = scenario.intents.map_or(0, |settings| settings.loader);
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
            tally: BTreeMap::new(),
            bound: scenario.replication.staleness,
            two_step: None,
            announced: (0..workers).map(|_| Announced { loader_left, ..Announced::default() }).collect(),
            small_keys: scenario.lanes[..2].iter().map(|(keys, _)| keys).sum(),
            left: workers,
            values: Vec::new(),
            lanes: vec![0; workers],
            scenario: scenario.clone(),
        }
    }

    /// Checks what workers saw; first the rules that do not depend on order.
    pub(super) fn check(&self) -> Result<Summary, Failure> {
        self.history.check_sums()?;
        self.registers.check()?;
        let scenario = &self.scenario;
        let sessions =
            self.history.check_sessions(|key| scenario.shows_own_pushes() && !scenario.is_sequential(key));
        let ordered = self.history.check_order(|key| scenario.is_sequential(key));
        Ok(sessions.map_err(Failure::Session)?.and(ordered?))
    }

    /// Describes what each worker waits for.
    pub(super) fn waiting(&self) -> String {
        let waiting = self.programs.iter().enumerate().filter(|(_, p)| p.waiting != Waiting::Over);
        let each: Vec<String> =
            waiting.map(|(worker, p)| format!("worker {worker} waits: {:?}", p.waiting)).collect();
        each.join(", ")
    }

    /// Continues a worker: it leaves a meeting, visits a stop, or makes its next call.
    pub(super) fn step(&mut self, cluster: &mut Checked<E>, worker: usize) -> Result<(), Failure> {
        if std::mem::replace(&mut self.programs[worker].waiting, Waiting::No) == Waiting::Return {
            self.leave_meeting(cluster, worker);
        }
        self.continue_two_step(cluster);
        let call = match self.programs[worker].next.take() {
            Some(call) => call,
            None if self.visit_stop(cluster, worker)? => return Ok(()),
            None => {
                self.maybe_advance_clock(cluster, worker);
                self.programs[worker].calls_left -= 1;
                let mut call = Call::draw(&mut self.dice, &self.scenario, self.small_keys);
                if let CallKind::Access(kind) = call.kind {
                    self.use_announced_keys(worker, &mut call, kind);
                }
                call
            }
        };
        if !cluster.admits(worker, &call.keys) {
            cluster.reach().mark(Marker::AdmissionWaited);
            let program = &mut self.programs[worker];
            (program.next, program.waiting) = (Some(call), Waiting::Room);
            return Ok(());
        }
        self.call(cluster, worker, call)
    }

    fn call(&mut self, cluster: &mut Checked<E>, worker: usize, call: Call) -> Result<(), Failure> {
        match call.kind {
            CallKind::Access(AccessKind::Push) if self.is_in_place(worker) => {
                self.update_in_place(cluster, worker, call.keys)
            }
            CallKind::Access(kind) => self.access(cluster, worker, kind, call.keys),
            CallKind::Localize { wait } => self.localize(cluster, worker, call.keys, wait),
            CallKind::IfLocal => self.pull_if_local(cluster, worker, &call.keys),
            CallKind::Relocate(to) => {
                self.relocate(cluster, &call.keys, to);
                cluster.wake(worker, 0);
                Ok(())
            }
            CallKind::Promote(to) => {
                self.promote(cluster, &call.keys, to);
                cluster.wake(worker, 0);
                Ok(())
            }
            CallKind::Intend => {
                self.announce(cluster, worker, call.keys, Caller::Worker)?;
                let pause_ns = self.scenario.intents.map_or(0, |settings| settings.pause_ns);
                let pauses = self.dice.once_in(4);
                cluster.wake(worker, if pauses { pause_ns } else { 0 });
                Ok(())
            }
            CallKind::Replicate(wanted) => {
                cluster.replicate(worker, &call.keys, wanted);
                cluster.wake(worker, 0);
                Ok(())
            }
        }
    }

    fn record_pull(&mut self, worker: usize, key: Key, now_ns: Option<u64>) -> KeyRecord {
        if self.scenario.registers().contains(&key.0) {
            KeyRecord::Read(self.registers.pull(worker, key))
        } else if self.scenario.is_clipped(key) {
            KeyRecord::Scaled
        } else {
            let clock = self.programs[worker].clock;
            let need = if self.scenario.is_asked() && self.scenario.has_static_replicas(key) {
                clock
            } else if self.scenario.is_clocked() {
                clock.saturating_sub(self.bound)
            } else {
                0
            };
            KeyRecord::Pull(self.history.pull(worker, key, now_ns), self.staleness.need(need))
        }
    }

    /// Records a push of a worker, and appends its update to `values`.
    fn record_push(
        &mut self,
        worker: usize,
        key: Key,
        len: usize,
        now_ns: Option<u64>,
        values: &mut Vec<E>,
    ) -> KeyRecord {
        let workers = self.scenario.all_workers();
        // Dust has all sizes; otherwise the update could be recovered exactly from the sums before and after
        // it.
        let dice = &mut self.dice;
        let mut dust = || {
            let size = f64::from(1 << dice.below(DUST_SIZES));
            (dice.below(2_001) as f64 - 1_000.0) / (1_001.0 * size)
        };
        let (start, unit) = (values.len(), self.scenario.unit());
        match self.scenario.combine {
            Combine::Sum => {
                lanes::push(worker, workers, len, values);
                lanes::scale(&mut values[start..], unit);
                if !self.scenario.is_sequential(key) {
                    lanes::scatter(values, dust());
                }
            }
            Combine::AdaGrad => {
                values.extend((0..len / 2).map(|_| E::from_f64(dust())));
                lanes::push(worker, workers, len / 2, values);
                lanes::scale(&mut values[start + len / 2..], unit);
            }
        }
        if self.scenario.rules.is_some() {
            tally::count(values);
            *self.tally.entry(key).or_insert(0) += 1;
        }
        if self.scenario.is_clipped(key) {
            self.pushes.entry(key).or_insert_with(|| vec![0; workers])[worker] += 1;
            return KeyRecord::Set;
        }
        self.staleness.push(worker, key, self.programs[worker].clock);
        KeyRecord::Push(self.history.push(worker, key, now_ns))
    }

    fn access(
        &mut self,
        cluster: &mut Checked<E>,
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
        let mut records = Vec::with_capacity(keys.len());
        for key in &keys {
            let len = cluster.layout().visible(*key);
            records.push(match kind {
                AccessKind::Pull => self.record_pull(worker, *key, now_ns),
                AccessKind::Push => self.record_push(worker, *key, len, now_ns, &mut values),
                AccessKind::Set => {
                    let tag = self.registers.set(worker, *key);
                    values.resize(values.len() + len, E::from_f64(f64::from(tag)));
                    KeyRecord::Set
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
        let CallOutcome { op, values } = called?;
        let Some(op) = op else {
            self.record_results(cluster, worker, &keys, &records, &values)?;
            cluster.wake(worker, 0);
            return Ok(());
        };
        let outstanding = &mut self.programs[worker].outstanding;
        let mut others = outstanding.iter().filter(|operation| !operation.records.is_empty());
        if others.clone().next().is_some() {
            cluster.reach().mark(Marker::AsyncOverlap);
        }
        if others.any(|operation| operation.keys.iter().any(|key| keys.contains(key))) {
            cluster.reach().mark(Marker::KeyOverlap);
        }
        outstanding.push(OutstandingOp { op, keys, records });
        if cluster.local(worker).is_done(op) {
            // A pull that completed at once, but keeps its values until the worker takes them.
            self.complete(cluster, worker, op)?;
        }
        let outstanding = &self.programs[worker].outstanding;
        let oldest = outstanding.first().map_or(Waiting::No, |operation| Waiting::For(operation.op));
        let next = if blocking {
            Waiting::For(op)
        } else if outstanding.len() >= self.scenario.in_flight_max {
            oldest
        } else {
            match self.dice.below(16) {
                0 => Waiting::ForAll,
                1 => oldest,
                _ => Waiting::No,
            }
        };
        self.wait_or_wake(cluster, worker, next);
        Ok(())
    }

    /// Records a completed operation, and continues its worker if it waits for it.
    pub(super) fn answered(
        &mut self,
        cluster: &mut Checked<E>,
        worker: usize,
        op: OpId,
    ) -> Result<(), Failure> {
        self.complete(cluster, worker, op)?;
        match self.programs[worker].waiting {
            Waiting::Room => {
                self.programs[worker].waiting = Waiting::No;
                cluster.wake(worker, 0);
            }
            Waiting::For(waiting) if waiting == op => self.wait_or_wake(cluster, worker, Waiting::No),
            Waiting::ForAll => self.wait_or_wake(cluster, worker, Waiting::ForAll),
            Waiting::Synchronised(waiting) if waiting == op => {
                cluster.reach().mark(Marker::Synchronized);
                if self.scenario.is_asked() {
                    self.set_clock(worker, self.programs[worker].clock + 1);
                }
                self.wait_or_wake(cluster, worker, Waiting::No);
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

    /// Lets the worker wait, or schedules its wake-up if there is nothing to wait for.
    fn wait_or_wake(&mut self, cluster: &mut Checked<E>, worker: usize, waiting: Waiting) {
        let program = &mut self.programs[worker];
        let waits = match waiting {
            Waiting::For(op) | Waiting::Synchronised(op) => {
                program.outstanding.iter().any(|operation| operation.op == op)
            }
            Waiting::ForAll | Waiting::Room => !program.outstanding.is_empty(),
            Waiting::No | Waiting::Others | Waiting::Return | Waiting::Over => false,
        };
        if waits {
            program.waiting = waiting;
        } else {
            program.waiting = Waiting::No;
            cluster.wake(worker, 0);
        }
    }

    /// Records the results of a completed operation.
    fn complete(&mut self, cluster: &mut Checked<E>, worker: usize, op: OpId) -> Result<(), Failure> {
        let outstanding = &mut self.programs[worker].outstanding;
        let at = outstanding
            .iter()
            .position(|operation| operation.op == op)
            .expect("operations are answered once");
        let OutstandingOp { keys, records, .. } = outstanding.remove(at);
        let values = cluster.take_pulled(worker, op).unwrap_or_default();
        self.record_results(cluster, worker, &keys, &records, &values)
    }

    /// Passes the values of pulls to the checkers.
    fn record_results(
        &mut self,
        cluster: &mut Checked<E>,
        worker: usize,
        keys: &[Key],
        records: &[KeyRecord],
        values: &[E],
    ) -> Result<(), Failure> {
        let now_ns = Some(cluster.now_ns());
        let mut at = 0;
        for (key, record) in keys.iter().zip(records) {
            let len = cluster.layout().visible(*key);
            match record {
                KeyRecord::Push(id) => self.history.pushed(*id, now_ns),
                KeyRecord::Set => {}
                KeyRecord::Scaled => {
                    self.check_scaled(*key, &values[at..at + len])?;
                }
                KeyRecord::Pull(id, need) => {
                    self.read(*key, &values[at..at + len], self.scenario.is_rounded())?;
                    self.history.pulled(*id, &self.lanes, now_ns);
                    let lanes = &self.lanes;
                    let fresh = self.staleness.pulled(worker, *key, *need, lanes);
                    fresh.map_err(|finding| cluster.violation(finding))?;
                    cluster.note(|| format!("worker {worker} saw {key:?} {lanes:?}"));
                }
                KeyRecord::Read(id) => {
                    self.registers.pulled(*id, self.scenario.counted(&values[at..at + len]))?;
                }
            }
            at += len;
        }
        Ok(())
    }

    /// Records the final row of a key.
    pub(super) fn record_final(
        &mut self,
        cluster: &mut Checked<E>,
        key: Key,
        row: &[E],
    ) -> Result<(), Failure> {
        let value = match cluster.layout().rule(key) {
            None => row,
            Some(rule) => {
                let pushes = self.tally.get(&key).copied().unwrap_or(0);
                // A clock is reached once, and all workers come to rest at stops and at the end.
                let clocks = self.programs.iter().map(|program| program.clock).max().unwrap_or(0);
                let most = match rule.timing() {
                    Timing::Push => u32::MAX,
                    Timing::Clock => clocks + self.scenario.stops.len() as u32 + 1,
                };
                let exact = rule.timing() == Timing::Push && self.scenario.is_sequential(key);
                tally::check(key, rule, row, pushes, most, exact)?
            }
        };
        if self.scenario.registers().contains(&key.0) {
            return Ok(self.registers.ended(key, self.scenario.counted(value))?);
        }
        if self.scenario.is_clipped(key) {
            let scaled = self.check_scaled(key, value)?;
            if scaled {
                cluster.reach().mark(Marker::Clipped);
            }
            return Ok(());
        }
        self.read(key, value, false)?;
        self.history.ended(key, &self.lanes);
        Ok(())
    }

    /// Decodes a value, whose elements may be `rounded`, into `self.lanes`.
    fn read(&mut self, key: Key, value: &[E], rounded: bool) -> Result<(), Failure> {
        let counted = self.scenario.counted(value);
        lanes::check_dust(key, &value[..value.len() - counted.len()])?;
        let dusty = !self.scenario.is_sequential(key) && self.scenario.combine == Combine::Sum;
        let read = if dusty { lanes::read_dusty } else { lanes::read };
        if !self.scenario.is_rounded() {
            return Ok(read(key, counted, &mut self.lanes)?);
        }
        let others = 1 + usize::from(dusty);
        let counted = lanes::in_units(key, counted, others, self.scenario.unit(), rounded)?;
        Ok(read(key, &counted, &mut self.lanes)?)
    }

    /// Checks a value with clipped updates. Returns whether a part of the pushes is missing.
    fn check_scaled(&mut self, key: Key, value: &[E]) -> Result<bool, Failure> {
        self.lanes.fill(0);
        let most = self.pushes.get(&key).unwrap_or(&self.lanes);
        lanes::read_scaled(key, value, most)?;
        Ok(value.iter().zip(most).any(|(count, most)| count.to_f64() < f64::from(*most) - 0.1))
    }
}
