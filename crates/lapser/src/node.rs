//! The protocol of one node.

use crate::consumer::Consumer;
use crate::farewell::Farewells;
use crate::producer::Producer;
use crate::turn::Turn;
use crate::{Answer, Directory, Effect, FinishError, GetError, Pace, SetError, StartError, Stats};
use hashbrown::HashMap;
use intendant_segment::Segment;

/// The protocol of one node: the items that it produces and consumes, and the end.
///
/// There are four kinds of methods:
///
/// - of workers: [`set`](Self::set), [`begin_batch`](Self::begin_batch), [`end_batch`](Self::end_batch),
///   [`get`](Self::get), [`prefetch`](Self::prefetch), [`value`](Self::value), [`finish`](Self::finish). `op`
///   is a number of the caller's choice that comes back in the [`Answer`].
/// - of the window: [`done`](Self::done), [`failed`](Self::failed), [`hint`](Self::hint),
///   [`closed`](Self::closed);
/// - of the control plane: [`met`](Self::met), [`meeting_failed`](Self::meeting_failed);
/// - of time: [`check`](Self::check), due at [`next_check`](Self::next_check).
///
/// Methods append [`Effect`]s, which the caller executes in order before it calls the node again. All methods
/// with a segment take the segment that the node was made with, or a clone of it, and panic if the segment is
/// shorter.
///
/// The node relies on these promises of the window, and on nothing else. Writes of one node to another arrive
/// in order. Every operation ends with `done` or `failed`, including operations on nodes that are gone. After
/// `done` of a write, the write does not access the other segment any more. After `failed` or `closed` of a
/// node, nothing from it arrives.
#[derive(Debug)]
pub struct Node {
    rank: usize,
    /// The role of each key at this node.
    keys: HashMap<u64, Role, foldhash::fast::FixedState>,
    producer: Producer,
    consumer: Consumer,
    farewells: Farewells,
    /// For each node, the reason why it is gone, if it is.
    closed: Vec<Option<String>>,
    phase: Phase,
    stats: Stats,
}

/// The role of a key at a node, and the index of its item there.
#[derive(Clone, Copy, Debug)]
enum Role {
    Produced(usize),
    Consumed(usize),
}

/// The phase of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The node was told to finish, and operations are in flight.
    Flushing {
        op: u64,
        /// Whether it has told the others that it has finished.
        told: bool,
    },
    /// No operation is in flight; other nodes may not be this far yet.
    Meeting {
        op: u64,
    },
    Released,
}

impl Node {
    /// Makes node `rank` of a directory, with its segment, which must be zeroed beyond the head.
    ///
    /// # Errors
    /// If the directory has no such node, or the segment is too short for its items.
    pub fn new(
        directory: &Directory,
        rank: usize,
        segment: &Segment,
        pace: Pace,
    ) -> Result<Self, StartError> {
        let nodes = directory.nodes();
        let needed = directory.words(rank).ok_or(StartError::Rank { rank, nodes })?;
        if segment.words() < needed {
            return Err(StartError::Segment { rank, words: segment.words(), needed });
        }
        let (producer, consumer) = (Producer::new(directory, rank), Consumer::new(directory, rank, pace));
        let farewells = Farewells::new(directory, rank, producer.writes());
        let produced = producer.keys().enumerate().map(|(index, key)| (key, Role::Produced(index)));
        let consumed = consumer.keys().enumerate().map(|(index, key)| (key, Role::Consumed(index)));
        let keys = produced.chain(consumed).collect();
        let closed = vec![None; nodes];
        let (phase, stats) = (Phase::Running, Stats::default());
        Ok(Self { rank, keys, producer, consumer, farewells, closed, phase, stats })
    }

    /// The rank of this node.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Counts of the node's work.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Stores `value` as the item's value of `clock` [Lapser Alg. 3.1 and 3.4]. [`Answer::Set`] comes at
    /// once, or, if writes of the previous value are in flight, when they have ended: the node does not
    /// change memory from which a window writes.
    ///
    /// # Errors
    /// If this node does not produce the item or has finished, the value has another length, `clock` is not
    /// above the last one, a set of the item waits already, or the slot cannot have the value. There is no
    /// answer then.
    pub fn set(
        &mut self,
        segment: &Segment,
        op: u64,
        key: u64,
        clock: u64,
        value: &[u64],
        out: &mut Vec<Effect>,
    ) -> Result<(), SetError> {
        if self.phase != Phase::Running {
            return Err(SetError::Finished { key });
        }
        let Some(Role::Produced(index)) = self.keys.get(&key).copied() else {
            return Err(SetError::NotProduced { key });
        };
        let (producer, _, mut turn) = self.parts(segment, 0, out);
        producer.set(&mut turn, index, op, clock, value)
    }

    /// Begins a batch: a consumer gets one hint for all sets until [`end_batch`](Self::end_batch), instead of
    /// one for each set. The last write to each node begins at the end of the batch, or when a set of its
    /// item waits for it. A node has one batch at a time: in a batch, and after [`finish`](Self::finish),
    /// this call has no effect.
    pub fn begin_batch(&mut self) {
        if self.phase == Phase::Running {
            self.producer.begin_batch();
        }
    }

    /// Ends the batch. The call has no effect outside of a batch.
    pub fn end_batch(&mut self, out: &mut Vec<Effect>) {
        self.producer.end_batch(out);
    }

    /// Asks for a value of the item whose clock is at least `clock - slack`, or at least 0 if that is
    /// negative [Lapser §3.1.3.C]. The answer is [`Answer::Got`], at once if this node has such a value;
    /// otherwise the node waits or reads for as long as the newest value that it has is too old *or* torn,
    /// and answers [`Answer::NotGot`] if the producer is gone, or has finished with an older value.
    /// (Algorithms 3.2 and 3.3 of the source are printed with the opposite relation and with *and*.)
    ///
    /// An item that was never set has clock 0 and a value of zeros. The node can also get its own items: a
    /// get that needs a later clock than [`last_set`](Self::last_set) waits for a set of this node.
    ///
    /// # Errors
    /// If this node neither consumes nor produces the item, or was told to finish. There is no answer then.
    #[expect(clippy::too_many_arguments, reason = "the operation of the source, time, and where effects go")]
    pub fn get(
        &mut self,
        segment: &Segment,
        now_ns: u64,
        op: u64,
        key: u64,
        clock: u64,
        slack: u64,
        out: &mut Vec<Effect>,
    ) -> Result<(), GetError> {
        let role = self.role(key)?;
        self.stats.gets += 1;
        let wanted = clock.saturating_sub(slack);
        let (producer, consumer, mut turn) = self.parts(segment, now_ns, out);
        match role {
            Role::Produced(index) => producer.get(&mut turn, index, op, wanted),
            Role::Consumed(index) => consumer.get(&mut turn, index, op, wanted),
        }
        Ok(())
    }

    /// Clock of the newest value that this node has stored for an item that it produces; 0 if it has stored
    /// none. `None` if this node does not produce the item.
    #[must_use]
    pub fn last_set(&self, key: u64) -> Option<u64> {
        match self.keys.get(&key) {
            Some(Role::Produced(index)) => Some(self.producer.clock(*index)),
            Some(Role::Consumed(_)) | None => None,
        }
    }

    /// Begins a read of the item if a [`get`](Self::get) with the same arguments would have to read, and
    /// waits for nothing. The call has no effect if values are only pushed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn prefetch(
        &mut self,
        segment: &Segment,
        key: u64,
        clock: u64,
        slack: u64,
        out: &mut Vec<Effect>,
    ) -> Result<(), GetError> {
        let Role::Consumed(index) = self.role(key)? else { return Ok(()) };
        let wanted = clock.saturating_sub(slack);
        let (_, consumer, mut turn) = self.parts(segment, 0, out);
        consumer.prefetch(&mut turn, index, wanted);
        Ok(())
    }

    /// Copies the newest value that this node has of the item. Returns its clock. Directly after
    /// [`Answer::Got`], it is the value of the answer.
    ///
    /// # Errors
    /// If this node neither consumes nor produces the item, `into` does not have the length of its values, or
    /// another node has written the slot of an own item.
    pub fn value(&self, segment: &Segment, key: u64, into: &mut [u64]) -> Result<u64, GetError> {
        match self.keys.get(&key) {
            Some(Role::Produced(index)) => self.producer.value(segment, *index, into),
            Some(Role::Consumed(index)) => self.consumer.value(*index, into),
            None => Err(GetError::NotConsumed { key }),
        }
    }

    /// Ends the work of this node [Lapser §3.1.2, `lapser_finish`]: waits until its own operations have
    /// ended, tells all nodes that it sets nothing more, asks to meet them ([`Effect::Meet`]), and releases
    /// the segment ([`Effect::Release`]). Other nodes can read from it and write to it until they all have
    /// met. It answers its waiting gets with an error. Gets of other nodes for values that will not come also
    /// end with an error.
    ///
    /// # Errors
    /// If the method was called before.
    pub fn finish(&mut self, segment: &Segment, op: u64, out: &mut Vec<Effect>) -> Result<(), FinishError> {
        if self.phase != Phase::Running {
            return Err(FinishError::Twice);
        }
        self.phase = Phase::Flushing { op, told: false };
        let (producer, consumer, mut turn) = self.parts(segment, 0, out);
        producer.end_batch(turn.out);
        producer.end(&mut turn);
        consumer.end(&mut turn);
        self.flush(segment, out);
        Ok(())
    }

    /// The window has executed operation `id`.
    ///
    /// # Panics
    /// If no such operation is in flight.
    pub fn done(&mut self, segment: &Segment, now_ns: u64, id: u64, out: &mut Vec<Effect>) {
        let (producer, consumer, mut turn) = self.parts(segment, now_ns, out);
        if !is_write(id) {
            consumer.landed(&mut turn, id)
        } else if turn.farewells.owns(id) {
            turn.farewells.written(id)
        } else {
            producer.written(&mut turn, id)
        }
        self.flush(segment, out);
    }

    /// The window could not execute operation `id` on `node`, which counts as gone from now on.
    ///
    /// # Panics
    /// If no such operation is in flight, or there is no such node.
    pub fn failed(&mut self, segment: &Segment, id: u64, node: usize, reason: &str, out: &mut Vec<Effect>) {
        // The other node is closed first, so that nothing new is written to it.
        self.closed(segment, node, reason, out);
        let (producer, consumer, mut turn) = self.parts(segment, 0, out);
        if !is_write(id) {
            consumer.read_failed(id)
        } else if turn.farewells.owns(id) {
            turn.farewells.written(id)
        } else {
            producer.written(&mut turn, id)
        }
        self.flush(segment, out);
    }

    /// Handles a hint that another node has written something. Any node may have given the hint, and the
    /// value for which it was given may have been seen before, may be overwritten, or may be incomplete.
    pub fn hint(&mut self, segment: &Segment, hint: u32, out: &mut Vec<Effect>) {
        let (_, consumer, mut turn) = self.parts(segment, 0, out);
        consumer.hint(&mut turn, hint);
    }

    /// Handles the end of node `node`. Gets that need a value that has not come from it fail. This node
    /// neither writes to it nor reads from it any more. The first reason counts.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn closed(&mut self, segment: &Segment, node: usize, reason: &str, out: &mut Vec<Effect>) {
        self.closed[node].get_or_insert_with(|| reason.to_owned());
        let (producer, consumer, mut turn) = self.parts(segment, 0, out);
        producer.closed(&mut turn, node);
        consumer.closed(&mut turn, node);
    }

    /// The latest time for the next call of [`check`](Self::check); `None` if no get waits for time to pass.
    /// A caller that polls may call it earlier.
    #[must_use]
    pub fn next_check(&self) -> Option<u64> {
        self.consumer.next_check()
    }

    /// Looks again at the items for which gets have waited long enough.
    pub fn check(&mut self, segment: &Segment, now_ns: u64, out: &mut Vec<Effect>) {
        let (_, consumer, mut turn) = self.parts(segment, now_ns, out);
        consumer.check(&mut turn);
    }

    /// Reports that all nodes have met. The call has no effect unless this node waits for the meeting.
    pub fn met(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Meeting { op } = self.phase {
            self.release(op, Ok(()), out);
        }
    }

    /// Reports that the nodes will not meet, because `node` is gone. The call has no effect unless this node
    /// waits for the meeting.
    pub fn meeting_failed(&mut self, node: usize, reason: &str, out: &mut Vec<Effect>) {
        if let Phase::Meeting { op } = self.phase {
            let error = FinishError::PeerLost { node, reason: reason.to_owned() };
            self.release(op, Err(error), out);
        }
    }

    /// Says farewell, and then goes on to the meeting, if the node finishes and none of its operations is in
    /// flight.
    fn flush(&mut self, segment: &Segment, out: &mut Vec<Effect>) {
        let Phase::Flushing { op, told } = self.phase else { return };
        if self.producer.is_busy() || self.consumer.is_busy() || self.farewells.is_busy() {
            return;
        }
        // No node leaves in good order before it has met this node, so a node that is gone is lost.
        let lost = self.closed.iter().enumerate().find_map(|(node, why)| Some((node, why.clone()?)));
        if let Some((node, reason)) = lost {
            self.release(op, Err(FinishError::PeerLost { node, reason }), out);
            return;
        }
        if !told {
            self.phase = Phase::Flushing { op, told: true };
            self.farewells.say(segment, out);
            return self.flush(segment, out);
        }
        self.phase = Phase::Meeting { op };
        out.push(Effect::Meet);
    }

    fn release(&mut self, op: u64, result: Result<(), FinishError>, out: &mut Vec<Effect>) {
        self.phase = Phase::Released;
        out.push(Effect::Release);
        out.push(Effect::Answer(Answer::Finished { op, result }));
    }

    fn role(&self, key: u64) -> Result<Role, GetError> {
        if self.phase != Phase::Running {
            return Err(GetError::Finished { key });
        }
        self.keys.get(&key).copied().ok_or(GetError::NotConsumed { key })
    }

    fn parts<'a>(
        &'a mut self,
        segment: &'a Segment,
        now_ns: u64,
        out: &'a mut Vec<Effect>,
    ) -> (&'a mut Producer, &'a mut Consumer, Turn<'a>) {
        let (closed, farewells, stats) = (&self.closed, &mut self.farewells, &mut self.stats);
        let turn = Turn { segment, now_ns, closed, farewells, stats, out };
        (&mut self.producer, &mut self.consumer, turn)
    }
}

/// Whether `id` is that of a write.
const fn is_write(id: u64) -> bool {
    id % 2 == 1
}
