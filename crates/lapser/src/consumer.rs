//! The items that a node consumes: gets, the values that answer them, and the reads that renew values.
//!
//! A value comes from an image: the content of a slot that the producer has written, or the result of a read.
//! The node takes the value once the checksum shows that the image is whole and the clock shows that it is
//! newer. It then keeps the value outside of the segment, so that no write and no read can tear it.

use crate::directory::{self, ANY, CopySlots};
use crate::turn::Turn;
use crate::waits::Waits;
use crate::{Answer, Directory, Effect, GetError, Item, Pace, Variant};
use intendant_segment::Segment;
use intendant_segment::slot::{self, Torn};
use std::collections::BTreeSet;

/// The items that a node consumes.
#[derive(Debug)]
pub(crate) struct Consumer {
    variant: Variant,
    pace: Pace,
    /// Number of different hints.
    hints: u32,
    items: Vec<Consumed>,
    /// The values taken so far, of all items.
    values: Vec<u64>,
    /// Room for one image.
    image: Vec<u64>,
    /// Items for which gets wait.
    waiting: BTreeSet<usize>,
    /// Items at which the node will look again by itself, by time.
    due: BTreeSet<(u64, usize)>,
    reading: usize,
}

/// An item.
#[derive(Debug)]
struct Consumed {
    item: Item,
    producer: usize,
    /// The incarnation of the producer.
    incarnation: u64,
    /// Place of the slot in the producer's segment.
    remote: usize,
    slots: CopySlots,
    /// The declared slack: by how much pushes may be behind.
    slack: u64,
    /// Clock of the last push that was seen.
    pushed: u64,
    /// Where the value is in `values`.
    value: usize,
    /// Clock of the value; 0 if there is none.
    clock: u64,
    /// Whether a read is in flight.
    reading: bool,
    /// Whether the producer was known to have finished when the read began.
    last: bool,
    /// Whether the item was read since the waiting gets began to wait.
    again: bool,
    /// The number of torn reads in succession.
    torn: u32,
    pause_ns: u64,
    due_ns: Option<u64>,
    /// Whether a read is due at `due_ns`, after a pause. Only a push of the item ends the pause earlier.
    pausing: bool,
    waits: Waits,
}

impl Consumer {
    pub(crate) fn new(directory: &Directory, rank: usize, pace: Pace) -> Self {
        let variant = directory.settings().variant;
        let (mut items, mut values, mut image) = (Vec::new(), 0, 0);
        for entry in directory.entries() {
            let consumers = directory.consumers_of(entry);
            let Ok(at) = consumers.binary_search_by_key(&rank, |consumer| consumer.node) else { continue };
            items.push(Consumed {
                item: entry.item,
                producer: entry.producer,
                incarnation: directory.incarnation(entry.producer).unwrap_or(0),
                remote: entry.at,
                slots: variant.copy(consumers[at].copy, entry.item.words),
                slack: consumers[at].slack,
                pushed: 0,
                value: values,
                clock: 0,
                reading: false,
                last: false,
                again: false,
                torn: 0,
                pause_ns: pace.reread_ns_min,
                due_ns: None,
                pausing: false,
                waits: Waits::default(),
            });
            values += entry.item.words;
            image = image.max(slot::words(entry.item.words));
        }
        Self {
            variant,
            pace,
            hints: directory.settings().hints,
            items,
            values: vec![0; values],
            image: vec![0; image],
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            reading: 0,
        }
    }

    /// The keys, in the order of their indices.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.items.iter().map(|item| item.item.key)
    }

    /// Whether a read is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.reading > 0
    }

    /// When [`check`](Self::check) is due.
    pub(crate) fn next_check(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// Begins a get of item `index` that needs a value of clock `wanted` or later.
    pub(crate) fn get(&mut self, turn: &mut Turn<'_>, index: usize, op: u64, wanted: u64) {
        self.look(turn, index);
        let item = &mut self.items[index];
        if item.clock >= wanted {
            turn.stats.gets_at_once += 1;
            turn.out.push(Effect::Answer(Answer::Got { op, key: item.item.key, clock: item.clock }));
            return;
        }
        item.waits.push(op, wanted);
        self.waiting.insert(index);
        if turn.closed[item.producer].is_some() {
            self.fail_lost(turn, index);
        } else if self.must_read(turn, index) {
            self.read(turn, index);
        } else if !self.is_over(turn, index) && !self.is_pursued(index) {
            self.arm(index, turn.now_ns.saturating_add(self.pace.recheck_ns));
        }
    }

    /// Whether the node must read item `index`, for which a get waits: either the item is not pushed at all,
    /// or the value that the get needs will not be pushed, because the copy is new enough for the declared
    /// slack or because the producer has finished.
    fn must_read(&self, turn: &mut Turn<'_>, index: usize) -> bool {
        let item = &self.items[index];
        match self.variant {
            Variant::Push => false,
            Variant::Pull => true,
            Variant::PushBySlack => {
                let promised = item.pushed.saturating_add(item.slack);
                item.waits.lowest().is_some_and(|wanted| wanted <= promised)
                    || turn.has_finished(item.producer)
            }
        }
    }

    /// Whether a read is in flight, or a look is due later.
    fn is_pursued(&self, index: usize) -> bool {
        self.items[index].reading || self.items[index].due_ns.is_some()
    }

    /// Fails the gets of a pushed item that need more than its producer will set. Returns whether no get
    /// waits any more.
    fn is_over(&mut self, turn: &mut Turn<'_>, index: usize) -> bool {
        if self.variant.reads() || !turn.has_finished(self.items[index].producer) {
            return false;
        }
        // This look comes after the farewell, which comes after all pushes.
        let torn = turn.stats.torn_looks;
        self.look(turn, index);
        if turn.stats.torn_looks == torn {
            self.fail_over(turn, index);
        }
        !self.waiting.contains(&index)
    }

    /// Begins a read of item `index`, unless a value of clock `wanted` or later is there or a read is in
    /// flight.
    pub(crate) fn prefetch(&mut self, turn: &mut Turn<'_>, index: usize, wanted: u64) {
        self.look(turn, index);
        let item = &self.items[index];
        if item.clock < wanted && self.variant.reads() && turn.closed[item.producer].is_none() {
            self.read(turn, index);
            self.items[index].again = self.waiting.contains(&index);
        }
    }

    /// Copies the value of item `index`. Returns its clock.
    pub(crate) fn value(&self, index: usize, into: &mut [u64]) -> Result<u64, GetError> {
        let item = &self.items[index];
        let Item { key, words } = item.item;
        if into.len() != words {
            return Err(GetError::Length { key, words: into.len(), expected: words });
        }
        into.copy_from_slice(&self.values[item.value..item.value + words]);
        Ok(item.clock)
    }

    /// Handles the end of a read, whose image is now in the segment.
    ///
    /// # Panics
    /// If no such read is in flight.
    pub(crate) fn landed(&mut self, turn: &mut Turn<'_>, id: u64) {
        let index = self.read_ended(id);
        let item = &self.items[index];
        let Some(landing) = item.slots.landing else { return };
        let before = item.clock;
        match self.take(turn.segment, index, landing) {
            Ok(()) | Err(Torn::Unset) => {
                self.items[index].torn = 0;
                if self.items[index].clock > before {
                    self.items[index].pause_ns = self.pace.reread_ns_min;
                }
                self.answer(turn, index);
                if self.waiting.contains(&index) {
                    turn.stats.stale_reads += 1;
                    if self.items[index].last {
                        self.fail_over(turn, index);
                    } else {
                        self.read_later(turn, index);
                    }
                }
            }
            Err(Torn::Changed) => self.torn(turn, index),
            Err(Torn::Foreign) => self.fail_unreadable(turn, index, Torn::Foreign.to_string()),
        }
    }

    /// Handles a torn image of a read: reads again, the first time at once.
    fn torn(&mut self, turn: &mut Turn<'_>, index: usize) {
        turn.stats.torn_reads += 1;
        let item = &mut self.items[index];
        item.torn = item.torn.saturating_add(1);
        if item.waits.is_empty() {
            return;
        }
        if item.torn >= self.pace.torn_reads_max {
            let reason = format!("{} reads in succession were torn", item.torn);
            item.torn = 0;
            self.fail_unreadable(turn, index, reason);
        } else if item.torn == 1 {
            self.read(turn, index);
        } else {
            self.read_later(turn, index);
        }
    }

    /// Handles the failure of a read.
    ///
    /// # Panics
    /// If no such read is in flight.
    pub(crate) fn read_failed(&mut self, id: u64) {
        self.read_ended(id);
    }

    fn read_ended(&mut self, id: u64) -> usize {
        let index = usize::try_from(id >> 1).ok().filter(|index| *index < self.items.len());
        let index = index.filter(|index| self.items[*index].reading);
        let Some(index) = index else { panic!("the window reports read {id}, which is not in flight") };
        self.items[index].reading = false;
        self.reading -= 1;
        index
    }

    /// Looks at the items with this hint for which gets wait. A hint only says that a look may be worthwhile.
    pub(crate) fn hint(&mut self, turn: &mut Turn<'_>, hint: u32) {
        let hinted: Vec<usize> = if hint == ANY {
            self.waiting.iter().copied().collect()
        } else {
            let of_hint = directory::hinted(hint, self.hints, self.items.len());
            of_hint.filter(|index| !self.items[*index].waits.is_empty()).collect()
        };
        turn.stats.hints += 1;
        let mut answered = 0;
        for index in hinted {
            let before = self.items[index].pushed;
            answered += self.look(turn, index);
            if !self.waiting.contains(&index) {
                continue;
            }
            let item = &self.items[index];
            let is_told = item.pushed > before || !item.pausing;
            if !self.must_read(turn, index) {
                answered += u64::from(self.is_over(turn, index));
            } else if is_told {
                self.read(turn, index);
            }
        }
        turn.stats.hints_in_vain += u64::from(answered == 0);
    }

    /// Looks at the items whose time is up, and reads them unless the variant pushes every value.
    pub(crate) fn check(&mut self, turn: &mut Turn<'_>) {
        while let Some((_, index)) = self.due.first().copied().filter(|(due, _)| *due <= turn.now_ns) {
            self.disarm(index);
            turn.stats.late_looks += self.look(turn, index);
            if !self.waiting.contains(&index) {
                continue;
            }
            if self.variant.reads() {
                self.read(turn, index);
            } else if !self.is_over(turn, index) {
                // At least one nanosecond later, so that this loop ends.
                self.arm(index, turn.now_ns.saturating_add(self.pace.recheck_ns.max(1)));
            }
        }
    }

    /// Handles the end of a producer: uses the values that it has written before, and fails gets that need
    /// newer values.
    pub(crate) fn closed(&mut self, turn: &mut Turn<'_>, node: usize) {
        let of_node = |index: &usize| self.items[*index].producer == node;
        let of_node: Vec<usize> = self.waiting.iter().copied().filter(of_node).collect();
        for index in of_node {
            self.look(turn, index);
            self.fail_lost(turn, index);
        }
    }

    /// Fails all gets that wait.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        for index in std::mem::take(&mut self.waiting) {
            self.fail(turn, index, |item, _| GetError::Finished { key: item.item.key });
        }
    }

    /// Takes the pushed value if it is newer, and answers the gets for which it is new enough. Returns the
    /// number of answered gets. The node hashes the value of the slot only if the slot's clock has changed.
    fn look(&mut self, turn: &mut Turn<'_>, index: usize) -> u64 {
        let item = &mut self.items[index];
        let Some(pushed) = item.slots.pushed else { return 0 };
        let clock = slot::peek_clock(turn.segment, pushed);
        if clock == item.clock {
            item.pushed = clock;
            return 0;
        }
        match self.take(turn.segment, index, pushed) {
            Ok(()) => {
                self.items[index].pushed = clock;
                return self.answer(turn, index);
            }
            Err(Torn::Unset) => return self.answer(turn, index),
            Err(Torn::Changed) => turn.stats.torn_looks += 1,
            Err(Torn::Foreign) => self.fail_unreadable(turn, index, Torn::Foreign.to_string()),
        }
        0
    }

    /// Copies an image out of the segment, and takes its value if it is whole and newer.
    fn take(&mut self, segment: &Segment, index: usize, at: usize) -> Result<(), Torn> {
        let item = &mut self.items[index];
        let Item { key, words } = item.item;
        let image = &mut self.image[..slot::words(words)];
        segment.read(at, image);
        match slot::decode(item.incarnation, key, words, image) {
            Ok(clock) if clock > item.clock => {
                let value = &image[slot::HEADER..slot::HEADER + words];
                self.values[item.value..item.value + words].copy_from_slice(value);
                item.clock = clock;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(torn) => Err(torn),
        }
    }

    /// Answers the gets of item `index` for which its value is new enough. Returns the number of answered
    /// gets.
    fn answer(&mut self, turn: &mut Turn<'_>, index: usize) -> u64 {
        let item = &mut self.items[index];
        let answered = item.waits.answer(item.item.key, item.clock, turn.out);
        if item.waits.is_empty() {
            self.forget(index);
        }
        answered
    }

    fn fail_lost(&mut self, turn: &mut Turn<'_>, index: usize) {
        let closed = turn.closed;
        self.fail(turn, index, |item, wanted| GetError::PeerLost {
            key: item.item.key,
            node: item.producer,
            reason: closed[item.producer].clone().unwrap_or_default(),
            wanted,
            clock: item.clock,
        });
    }

    fn fail_over(&mut self, turn: &mut Turn<'_>, index: usize) {
        self.fail(turn, index, |item, wanted| GetError::ProducerFinished {
            key: item.item.key,
            node: item.producer,
            wanted,
            clock: item.clock,
        });
    }

    fn fail_unreadable(&mut self, turn: &mut Turn<'_>, index: usize, reason: String) {
        self.fail(turn, index, |item, _| GetError::Unreadable {
            key: item.item.key,
            node: item.producer,
            reason: reason.clone(),
        });
    }

    fn fail(&mut self, turn: &mut Turn<'_>, index: usize, why: impl Fn(&Consumed, u64) -> GetError) {
        let mut waits = std::mem::take(&mut self.items[index].waits);
        waits.fail(turn.out, |wanted| why(&self.items[index], wanted));
        self.forget(index);
    }

    /// Notes that no get waits for item `index` any more.
    fn forget(&mut self, index: usize) {
        self.waiting.remove(&index);
        self.items[index].again = false;
        self.disarm(index);
    }

    /// Begins a read, unless one is in flight.
    fn read(&mut self, turn: &mut Turn<'_>, index: usize) {
        self.disarm(index);
        let last = turn.has_finished(self.items[index].producer);
        let item = &mut self.items[index];
        let Some(into) = item.slots.landing.filter(|_| !item.reading) else { return };
        (item.reading, item.last) = (true, last);
        turn.stats.rereads += u64::from(item.again);
        item.again = true;
        self.reading += 1;
        turn.stats.reads += 1;
        turn.out.push(Effect::Read {
            from: item.producer,
            remote: item.remote,
            into,
            words: slot::words(item.item.words),
            id: (index as u64) << 1,
        });
    }

    /// Schedules another read after a pause, which doubles each time.
    fn read_later(&mut self, turn: &mut Turn<'_>, index: usize) {
        let item = &mut self.items[index];
        let pause_ns = item.pause_ns;
        item.pause_ns = pause_ns.saturating_mul(2).min(self.pace.reread_ns_max).max(1);
        self.arm(index, turn.now_ns.saturating_add(pause_ns));
        self.items[index].pausing = true;
    }

    fn arm(&mut self, index: usize, due_ns: u64) {
        self.disarm(index);
        self.items[index].due_ns = Some(due_ns);
        self.due.insert((due_ns, index));
    }

    fn disarm(&mut self, index: usize) {
        self.items[index].pausing = false;
        if let Some(due_ns) = self.items[index].due_ns.take() {
            self.due.remove(&(due_ns, index));
        }
    }
}
