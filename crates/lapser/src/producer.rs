//! The items that a node produces: sets, and the writes that push them.

use crate::batch::{Batch, Write};
use crate::directory::Consumer;
use crate::turn::Turn;
use crate::waits::Waits;
use crate::{Answer, Directory, Effect, GetError, Item, SetError, Variant};
use intendant_segment::Segment;
use intendant_segment::slot::{self, Written};
use std::ops::Range;

/// The items that a node produces.
#[derive(Debug)]
pub(crate) struct Producer {
    incarnation: u64,
    variant: Variant,
    items: Vec<Produced>,
    /// The consumers of the items, by item.
    targets: Vec<Target>,
    /// Writes that have not ended, and sets that wait for them.
    unfinished: usize,
    batch: Option<Batch>,
}

/// An item.
#[derive(Debug)]
struct Produced {
    item: Item,
    /// Place of its slot.
    at: usize,
    /// What this node has written to the slot. Other nodes can write the slot itself by mistake.
    written: Written,
    /// Writes that have not ended. The slot belongs to the window while there are any.
    writing: usize,
    /// A set that waits for these writes.
    next: Option<Next>,
    targets: Range<usize>,
    waits: Waits,
}

/// A set that waits.
#[derive(Debug)]
struct Next {
    op: u64,
    clock: u64,
    value: Box<[u64]>,
}

/// A consumer of an item.
#[derive(Debug)]
struct Target {
    /// Index of the item.
    of: usize,
    consumer: Consumer,
    /// Place of the slot in the consumer's segment.
    remote: usize,
    /// Clock of the value that was last written to the consumer.
    pushed: u64,
    /// Whether a write has not ended.
    writing: bool,
}

impl Producer {
    pub(crate) fn new(directory: &Directory, rank: usize) -> Self {
        let variant = directory.settings().variant;
        let incarnation = directory.incarnation(rank).unwrap_or(0);
        let (items, targets) = (Vec::new(), Vec::new());
        let mut producer = Self { incarnation, variant, items, targets, unfinished: 0, batch: None };
        for entry in directory.entries().iter().filter(|entry| entry.producer == rank) {
            let (of, first) = (producer.items.len(), producer.targets.len());
            for consumer in directory.consumers_of(entry) {
                if let Some(remote) = variant.copy(consumer.copy, entry.item.words).pushed {
                    producer.targets.push(Target {
                        of,
                        consumer: *consumer,
                        remote,
                        pushed: 0,
                        writing: false,
                    });
                }
            }
            producer.items.push(Produced {
                item: entry.item,
                at: entry.at,
                written: Written::default(),
                writing: 0,
                next: None,
                targets: first..producer.targets.len(),
                waits: Waits::default(),
            });
        }
        producer
    }

    /// The keys, in the order of their indices.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.items.iter().map(|item| item.item.key)
    }

    /// The number of different writes; each write has a number below it.
    pub(crate) fn writes(&self) -> usize {
        self.targets.len()
    }

    /// Clock of the last value of item `index`; 0 if there is none.
    pub(crate) fn clock(&self, index: usize) -> u64 {
        self.items[index].written.clock()
    }

    /// Whether a write has not ended, or a set waits for one.
    pub(crate) fn is_busy(&self) -> bool {
        self.unfinished > 0
    }

    /// Sets item `index`, now or as soon as the window has written its current value to all consumers.
    pub(crate) fn set(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        op: u64,
        clock: u64,
        value: &[u64],
    ) -> Result<(), SetError> {
        let item = &mut self.items[index];
        let Item { key, words } = item.item;
        if value.len() != words {
            return Err(SetError::Length { key, words: value.len(), expected: words });
        }
        if item.next.is_some() {
            return Err(SetError::Waiting { key });
        }
        let last = item.written.clock();
        if clock <= last {
            return Err(SetError::Clock { key, clock, last });
        }
        if item.writing > 0 {
            item.next = Some(Next { op, clock, value: value.into() });
            self.unfinished += 1;
            turn.stats.sets_waited += 1;
            // The set also waits for the item's held-back writes, so they must begin.
            if let Some(batch) = &mut self.batch {
                batch.release(item.at, turn.out);
            }
            return Ok(());
        }
        self.store(turn, index, op, clock, value)
    }

    /// Stores a value in the slot, from which no write in flight reads, and pushes it.
    fn store(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        op: u64,
        clock: u64,
        value: &[u64],
    ) -> Result<(), SetError> {
        let item = &mut self.items[index];
        let key = item.item.key;
        let slot = (self.incarnation, key);
        slot::set_known(turn.segment, item.at, slot, &mut item.written, clock, value)
            .map_err(|source| SetError::Slot { key, source })?;
        turn.stats.sets += 1;
        self.push(turn, index);
        turn.out.push(Effect::Answer(Answer::Set { op }));
        let item = &mut self.items[index];
        item.waits.answer(key, clock, turn.out);
        Ok(())
    }

    /// Writes the slot to its consumers: to all, or to those whose copy would become too old.
    fn push(&mut self, turn: &mut Turn<'_>, index: usize) {
        let item = &mut self.items[index];
        let (words, clock) = (slot::words(item.item.words), item.written.clock());
        for number in item.targets.clone() {
            let target = &mut self.targets[number];
            let due = match self.variant {
                Variant::Push => true,
                Variant::PushBySlack => clock > target.pushed.saturating_add(target.consumer.slack),
                Variant::Pull => false,
            };
            if !due || turn.closed[target.consumer.node].is_some() {
                continue;
            }
            target.pushed = clock;
            target.writing = true;
            item.writing += 1;
            self.unfinished += 1;
            turn.stats.writes += 1;
            let write = Write {
                to: target.consumer.node,
                local: item.at,
                remote: target.remote,
                words,
                hint: Some(target.consumer.hint),
                id: id_of(number),
            };
            match &mut self.batch {
                Some(batch) => batch.hold(write, turn.out),
                None => turn.out.push(write.into()),
            }
        }
    }

    pub(crate) fn begin_batch(&mut self) {
        self.batch.get_or_insert_default();
    }

    pub(crate) fn end_batch(&mut self, out: &mut Vec<Effect>) {
        if let Some(batch) = self.batch.take() {
            batch.end(out);
        }
    }

    /// Handles the end of a consumer: nothing more is written to it.
    pub(crate) fn closed(&mut self, turn: &mut Turn<'_>, node: usize) {
        if let Some(write) = self.batch.as_mut().and_then(|batch| batch.drop_write(node)) {
            self.written(turn, write.id);
        }
    }

    /// Handles the end of the write `id`, successful or not.
    ///
    /// # Panics
    /// If no such write is in flight.
    pub(crate) fn written(&mut self, turn: &mut Turn<'_>, id: u64) {
        let target = usize::try_from(id >> 1).ok().and_then(|number| self.targets.get_mut(number));
        let target = target.filter(|target| target.writing);
        let Some(target) = target else { panic!("the window reports write {id}, which is not in flight") };
        target.writing = false;
        let index = target.of;
        let item = &mut self.items[index];
        item.writing -= 1;
        self.unfinished -= 1;
        if item.writing > 0 {
            return;
        }
        let Some(next) = item.next.take() else { return };
        self.unfinished -= 1;
        if let Err(error) = self.store(turn, index, next.op, next.clock, &next.value) {
            turn.out.push(Effect::Answer(Answer::NotSet { op: next.op, error }));
        }
    }

    /// Begins a get of the own item `index`, which waits until the node has set a new enough value.
    pub(crate) fn get(&mut self, turn: &mut Turn<'_>, index: usize, op: u64, wanted: u64) {
        let item = &mut self.items[index];
        item.waits.push(op, wanted);
        turn.stats.gets_at_once += item.waits.answer(item.item.key, item.written.clock(), turn.out);
    }

    /// Copies the value of item `index`. Returns its clock.
    pub(crate) fn value(&self, segment: &Segment, index: usize, into: &mut [u64]) -> Result<u64, GetError> {
        let item = &self.items[index];
        let Item { key, words } = item.item;
        if into.len() != words {
            return Err(GetError::Length { key, words: into.len(), expected: words });
        }
        let clock = item.written.clock();
        if clock == 0 {
            into.fill(0);
            return Ok(0);
        }
        match slot::read(segment, item.at, self.incarnation, key, into) {
            Ok(found) if found == clock => Ok(clock),
            Ok(_) => Err(GetError::Overwritten { key, found: slot::Torn::Changed }),
            Err(found) => Err(GetError::Overwritten { key, found }),
        }
    }

    /// Fails all gets that wait.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        for item in &mut self.items {
            item.waits.fail(turn.out, |_| GetError::Finished { key: item.item.key });
        }
    }
}

/// The id of the write to target `number`. The ids of reads are even.
const fn id_of(number: usize) -> u64 {
    (number as u64) << 1 | 1
}
