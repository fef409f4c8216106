//! Items that are exchanged by the protocol of Lapser.
//!
//! A node gets the items that a step needs one after the other. With the variants that read, it begins the
//! reads of later items ahead ([`Node::prefetch`]), up to the number of gets that may be outstanding. If this
//! is one, a get waits only for its own read, as in the source's program.

use super::thread::{Got, Own, Thread};
use bpmf::{Item, Model, Need};
use intendant_lapser::{Answer, Directory, Effect, Node, Pace, Stats, Variant};
use intendant_segment::{Segment, slot};
use intendant_sim::onesided::{Input, OneSided};
use intendant_train::TrainError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The exchange of one node.
pub(super) struct Lapser {
    node: Node,
    variant: Variant,
    segment: Segment,
    model: Arc<Model>,
    /// The slots that operations of this node copy from or to, by their places in the segment.
    slots: BTreeMap<usize, Item>,
    /// The place of the slot of each item that this node produces, by key.
    produced: BTreeMap<u64, usize>,
    /// The clock of the value that the block has, by key.
    clocks: BTreeMap<u64, u64>,
    /// Reads in flight.
    reads: BTreeMap<u64, Item>,
    needs: Vec<Need>,
    /// The number of needs that were got, and the number whose reads have begun.
    got: usize,
    asked: usize,
    gets_max: usize,
    /// Whether a get or a set waits for its answer.
    waits: bool,
    /// The time for which the next look is scheduled.
    look_ns: Option<u64>,
    op: u64,
    out: Vec<Effect>,
    words: Vec<u64>,
    values: Vec<f64>,
}

/// A mistake of the caller; it ends the run.
fn broken(error: impl std::fmt::Display) -> TrainError {
    TrainError::Stopped(format!("the simulation of Lapser failed: {error}"))
}

impl Lapser {
    pub(super) fn new(
        directory: &Directory,
        rank: usize,
        segment: &Segment,
        model: &Arc<Model>,
        gets_max: usize,
    ) -> Result<Self, TrainError> {
        let node = Node::new(directory, rank, segment, Pace::default()).map_err(TrainError::usage)?;
        let (mut slots, mut produced) = (BTreeMap::new(), BTreeMap::new());
        for key in 0..model.keys() {
            let Some(item) = model.item(key) else { continue };
            if directory.producer(key) == Some(rank) {
                let at = directory.produced_at(key).unwrap_or(0);
                slots.insert(at, item);
                produced.insert(key, at);
            }
            let landing = directory.copy_at(key, rank).and_then(|copy| copy.landing);
            slots.extend(landing.map(|at| (at, item)));
        }
        Ok(Self {
            node,
            variant: directory.settings().variant,
            segment: segment.clone(),
            model: Arc::clone(model),
            slots,
            produced,
            clocks: BTreeMap::new(),
            reads: BTreeMap::new(),
            needs: Vec::new(),
            got: 0,
            asked: 0,
            gets_max,
            waits: false,
            look_ns: None,
            op: 0,
            out: Vec::new(),
            words: Vec::new(),
            values: Vec::new(),
        })
    }

    pub(super) const fn stats(&self) -> Stats {
        self.node.stats()
    }

    /// The items that the next step needs.
    pub(super) fn begin(&mut self, needs: Vec<Need>) {
        self.needs = needs;
        (self.got, self.asked) = (0, 0);
    }

    /// Begins the next get.
    pub(super) fn gets(
        &mut self,
        thread: &mut Thread,
        network: &mut OneSided<Own>,
    ) -> Result<Got, TrainError> {
        if self.got == self.needs.len() {
            return Ok(Got::All);
        }
        let until = self.needs.len().min(self.got + self.gets_max);
        for at in self.asked.max(self.got + 1)..until {
            let (key, least) = (self.model.key(self.needs[at].item), self.needs[at].least());
            self.node.prefetch(&self.segment, key, least, 0, &mut self.out).map_err(broken)?;
        }
        self.asked = until;
        self.execute(thread, network)?;
        let need = self.needs[self.got];
        let (key, now_ns) = (self.model.key(need.item), network.now_ns());
        self.op += 1;
        let got = self.node.get(&self.segment, now_ns, self.op, key, need.least(), 0, &mut self.out);
        got.map_err(broken)?;
        self.waits = true;
        self.execute(thread, network)?;
        Ok(if self.waits { Got::Waits } else { Got::Some })
    }

    /// Sets an item that the block has computed. Returns whether it is set already.
    pub(super) fn set(
        &mut self,
        thread: &mut Thread,
        item: Item,
        clock: u64,
        network: &mut OneSided<Own>,
    ) -> Result<bool, TrainError> {
        let key = self.model.key(item);
        self.values.clear();
        thread.block.value(item, &mut self.values);
        self.words.clear();
        self.words.extend(self.values.iter().map(|value| value.to_bits()));
        let at = self.produced.get(&key).copied().unwrap_or(0);
        let mut before = vec![0; slot::words(self.words.len())];
        self.segment.read(at, &mut before);
        self.op += 1;
        let set = self.node.set(&self.segment, self.op, key, clock, &self.words, &mut self.out);
        set.map_err(broken)?;
        network.storing(thread.rank, at, &before, thread.costs.checked_ns(item));
        self.waits = true;
        self.execute(thread, network)?;
        Ok(!self.waits)
    }

    /// Handles an input. Returns whether the answer for which the thread waits has arrived.
    pub(super) fn learn(
        &mut self,
        thread: &mut Thread,
        input: &Input<Own>,
        network: &mut OneSided<Own>,
    ) -> Result<bool, TrainError> {
        let (waited, now_ns) = (self.waits, network.now_ns());
        match input {
            Input::Done(id) => {
                if let Some(item) = self.reads.remove(id) {
                    // The image is copied and checked.
                    network.computing(thread.rank, thread.costs.checked_ns(item));
                }
                self.node.done(&self.segment, now_ns, *id, &mut self.out);
            }
            Input::Hint { hint, .. } => self.node.hint(&self.segment, *hint, &mut self.out),
            Input::Own(Own::Look) => {
                self.look_ns = None;
                self.node.check(&self.segment, now_ns, &mut self.out);
            }
            Input::Own(Own::Go) | Input::Failed { .. } | Input::Closed(_) => {}
        }
        self.execute(thread, network)?;
        Ok(waited && !self.waits)
    }

    fn execute(&mut self, thread: &mut Thread, network: &mut OneSided<Own>) -> Result<(), TrainError> {
        let rank = thread.rank;
        for effect in std::mem::take(&mut self.out) {
            match effect {
                Effect::Read { from, remote, into, words, id } => {
                    let item = self.item_at(into)?;
                    self.reads.insert(id, item);
                    thread.reads(network, thread.costs.slot_bytes(item));
                    network.read(rank, from, remote, into, words, id);
                }
                Effect::Write { to, local, remote, words, hint, id } => {
                    let item = self.item_at(local)?;
                    thread.writes(network, thread.costs.slot_bytes(item));
                    network.write(rank, to, local, remote, words, hint, id, 0);
                }
                Effect::Answer(Answer::Got { key, clock, .. }) => {
                    self.waits = false;
                    self.got += 1;
                    self.take(thread, network, key, clock)?;
                }
                Effect::Answer(Answer::Set { .. }) => self.waits = false,
                Effect::Answer(Answer::NotGot { error, .. }) => return Err(broken(error)),
                Effect::Answer(Answer::NotSet { error, .. }) => return Err(broken(error)),
                Effect::Answer(Answer::Finished { .. }) | Effect::Meet | Effect::Release => {}
            }
        }
        if let Some(due_ns) = self.node.next_check()
            && self.look_ns.is_none_or(|look_ns| due_ns < look_ns)
        {
            self.look_ns = Some(due_ns);
            network.schedule(rank, due_ns, Own::Look);
        }
        Ok(())
    }

    fn item_at(&self, at: usize) -> Result<Item, TrainError> {
        self.slots.get(&at).copied().ok_or_else(|| broken(format!("no slot begins at word {at}")))
    }

    /// Hands the value of a get to the block, unless the block has it already.
    fn take(
        &mut self,
        thread: &mut Thread,
        network: &mut OneSided<Own>,
        key: u64,
        clock: u64,
    ) -> Result<(), TrainError> {
        let Some(item) = self.model.item(key) else { return Err(broken(format!("no item has key {key}"))) };
        if self.clocks.insert(key, clock) == Some(clock) {
            network.computing(thread.rank, thread.costs.call_ns());
            return Ok(());
        }
        self.words.clear();
        self.words.resize(self.model.words(item), 0);
        self.node.value(&self.segment, key, &mut self.words).map_err(broken)?;
        self.values.clear();
        self.values.extend(self.words.iter().map(|word| f64::from_bits(*word)));
        thread.block.put(item, &self.values).map_err(broken)?;
        // Images from reads were checked when they arrived.
        let busy_ns = match self.variant {
            Variant::Pull => thread.costs.call_ns() + thread.costs.copied_ns(item),
            Variant::Push | Variant::PushBySlack => thread.costs.checked_ns(item),
        };
        network.computing(thread.rank, busy_ns);
        Ok(())
    }
}
