//! The connection to another node: its operations in flight, and the room for hints.

use super::address::{Address, Remote};
use crate::Event;
use intendant_verbs::{Memory, QueuePair};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The most operations that wait for a place in the queue of the card. Further operations are refused.
pub(super) const WAITING_MAX: usize = 1024;
/// After this long without a sign of life of a node, this node reads its counter. Without operations in
/// flight, nothing else would show that the node has ended.
const PROBE: Duration = Duration::from_secs(1);
/// A card usually gives up an operation by itself sooner. This bound is for cards that do not.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time between two looks at the counter of a node that does not take its hints.
pub(super) const RECOUNT: Duration = Duration::from_millis(1);
/// Places that operations of the caller leave free: one for a counter, one for the goodbye.
const RESERVED: usize = 2;
/// The hint that a node sends when its window is dropped.
const GOODBYE: u32 = 1 << 31;

/// An operation that has begun and is not wholly in the queue of the card yet.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) id: u64,
    pub(super) kind: Kind,
    /// The rest of the operation: the word here, the word there, and the number of words.
    pub(super) local: usize,
    pub(super) remote: usize,
    pub(super) words: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Read,
    Write(Option<u32>),
}

/// An entry of the card's queue.
#[derive(Debug)]
enum Posted {
    /// A part of an operation, but not its last one.
    Part,
    /// The last part of the operation with this id.
    Last(u64),
    /// The counter of the node is being read.
    Count,
    /// A hint alone, whose words were written before.
    Hint,
    Goodbye,
}

#[derive(Debug)]
enum State {
    Open,
    /// The queue pair has failed, and the card returns the operations in flight.
    Ending {
        reason: String,
        since: Instant,
        /// Whether this node has looked for completions since.
        seen: bool,
    },
    Closed {
        reason: String,
    },
}

/// The parts of the window that a peer uses.
pub(super) struct Local<'a> {
    /// This node.
    pub(super) rank: usize,
    pub(super) nodes: usize,
    pub(super) memory: &'a Memory,
    pub(super) counters: &'a Memory,
    pub(super) part_words_max: usize,
    pub(super) now: Instant,
}

#[derive(Debug)]
pub(super) struct Peer {
    node: usize,
    /// `None` if closed.
    pair: Option<QueuePair>,
    pub(super) remote: Remote,
    state: State,
    waiting: VecDeque<Work>,
    posted: VecDeque<Posted>,
    /// The greatest length of `posted`, without the reserved places.
    posted_max: usize,
    /// The time when the last operation ended, or when the first of those in flight began; at first, the time
    /// when the connection was made.
    progress: Instant,
    /// The number of hints for which the node has room.
    hints_max: u64,
    hints_sent: u64,
    /// How many hints the node had taken when its counter was last read.
    hints_taken: u64,
    /// Hints whose words were written when the node had no room for hints.
    hints_late: BTreeSet<u32>,
    counting: bool,
    /// The next read of the counter may not be earlier, if a time is given.
    next_count: Option<Instant>,
    /// The number of hints that were taken from the node.
    received: u64,
}

impl Peer {
    pub(super) fn new(
        node: usize,
        pair: QueuePair,
        address: &Address,
        operations: usize,
        now: Instant,
    ) -> Self {
        Self {
            node,
            pair: Some(pair),
            remote: address.memory,
            state: State::Open,
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            posted_max: operations.saturating_sub(RESERVED),
            progress: now,
            hints_max: u64::from(address.hints),
            hints_sent: 0,
            hints_taken: 0,
            hints_late: BTreeSet::new(),
            counting: false,
            next_count: None,
            received: 0,
        }
    }

    /// The id of all receptions of a node's hints.
    pub(super) fn receive_id(node: usize) -> u64 {
        (node as u64) << 1 | 1
    }

    /// The id of all operations with the node. They end in the order in which they were begun.
    fn send_id(&self) -> u64 {
        (self.node as u64) << 1
    }

    /// The node of a completion, and whether the completion is that of a hint.
    pub(super) fn of_id(id: u64) -> (usize, bool) {
        ((id >> 1) as usize, id & 1 == 1)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. })
    }

    /// Whether this node has looked for completions since the connection began to end. From now on, the
    /// answer is yes.
    pub(super) fn was_seen(&mut self) -> bool {
        match &mut self.state {
            State::Ending { seen, .. } => std::mem::replace(seen, true),
            State::Open | State::Closed { .. } => true,
        }
    }

    /// The number of operations in flight.
    pub(super) fn operations(&self) -> usize {
        self.posted.len() + self.waiting.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Whether operations wait for the card.
    pub(super) fn is_behind(&self) -> bool {
        self.is_open() && !self.waiting.is_empty()
    }

    /// Whether hints wait for room.
    pub(super) fn has_late_hints(&self) -> bool {
        !self.hints_late.is_empty()
    }

    fn failed(&self, id: u64) -> Event {
        let node = self.node;
        let reason = match &self.state {
            State::Ending { reason, .. } | State::Closed { reason } => reason.clone(),
            State::Open => format!("node {node} has ended"),
        };
        Event::Failed { id, node, reason }
    }

    /// Begins an operation, or reports that it has failed.
    pub(super) fn begin(&mut self, work: Work, local: &Local<'_>, events: &mut Vec<Event>) {
        if self.is_open() {
            self.waiting.push_back(work);
            self.advance(local, events);
        } else {
            events.push(self.failed(work.id));
        }
    }

    /// Gives the card the operations for which it has room.
    fn advance(&mut self, local: &Local<'_>, events: &mut Vec<Event>) {
        if let Err(error) = self.post(local, events) {
            self.end(format!("node {}: the card refuses an operation: {error}", self.node), local.now);
        }
    }

    fn post(&mut self, local: &Local<'_>, events: &mut Vec<Event>) -> io::Result<()> {
        while self.is_open() && self.posted.len() < self.posted_max {
            if self.hint_room() > 0
                && let Some(hint) = self.hints_late.pop_first()
            {
                self.post_hint(hint, Posted::Hint, local)?;
                continue;
            }
            let Some(work) = self.waiting.front_mut() else { break };
            let words = work.words.min(local.part_words_max);
            let (id, at, remote) = (work.id, work.local, work.remote);
            (work.local, work.remote, work.words) = (at + words, remote + words, work.words - words);
            let last = work.words == 0;
            let hint = match work.kind {
                Kind::Write(Some(hint)) if last => Some(hint),
                Kind::Write(_) | Kind::Read => None,
            };
            let read = matches!(work.kind, Kind::Read);
            let posted = if last { Posted::Last(id) } else { Posted::Part };
            if last {
                self.waiting.pop_front();
            }
            let place = self.remote.segment.word(remote);
            let now_hint = hint.filter(|_| self.hint_room() > 0);
            if let (Some(hint), None) = (hint, now_hint) {
                self.hints_late.insert(hint);
                if words == 0 {
                    events.push(Event::Done(id));
                    continue;
                }
            }
            let Some(pair) = &self.pair else { break };
            let begun = if read {
                pair.read(self.send_id(), local.memory, at, words, place)
            } else {
                pair.write(self.send_id(), local.memory, at, words, place, now_hint)
            };
            if let Err(error) = begun {
                if last {
                    // The operation is reported when the connection has ended.
                    self.waiting.push_front(Work { id, kind: Kind::Read, local: 0, remote: 0, words: 0 });
                }
                return Err(error);
            }
            self.hints_sent += u64::from(now_hint.is_some());
            self.posted_one(posted, local.now);
        }
        if self.is_open() && self.wants_count(local.now) {
            self.counting = true;
            let Some(pair) = &self.pair else { return Ok(()) };
            let place = self.remote.counters.word(local.rank);
            pair.read(self.send_id(), local.counters, local.nodes + self.node, 1, place)?;
            self.posted_one(Posted::Count, local.now);
        }
        Ok(())
    }

    fn posted_one(&mut self, posted: Posted, now: Instant) {
        if self.posted.is_empty() {
            self.progress = now;
        }
        self.posted.push_back(posted);
    }

    fn post_hint(&mut self, hint: u32, posted: Posted, local: &Local<'_>) -> io::Result<()> {
        let Some(pair) = &self.pair else { return Ok(()) };
        pair.write(self.send_id(), local.memory, 0, 0, self.remote.segment, Some(hint))?;
        self.hints_sent += 1;
        self.posted_one(posted, local.now);
        Ok(())
    }

    /// Hints that may be sent; one place is left for the goodbye.
    fn hint_room(&self) -> u64 {
        (self.hints_max - 1).saturating_sub(self.hints_sent - self.hints_taken)
    }

    fn wants_count(&self, now: Instant) -> bool {
        if self.counting || self.said_goodbye() {
            return false;
        }
        let low = self.hint_room() < self.hints_max / 2 && self.next_count.is_none_or(|next| now >= next);
        let quiet = self.posted.is_empty() && now - self.progress >= PROBE;
        low || quiet
    }

    /// Handles the end of an operation with the node.
    pub(super) fn sent(&mut self, result: Result<(), String>, local: &Local<'_>, events: &mut Vec<Event>) {
        // A card may report operations of a queue pair after the pair was given up.
        let Some(posted) = self.posted.pop_front() else { return };
        if let Err(status) = &result {
            self.end(format!("node {} has ended or cannot be reached: {status}", self.node), local.now);
        }
        self.progress = local.now;
        match posted {
            Posted::Last(id) => events.push(if result.is_ok() { Event::Done(id) } else { self.failed(id) }),
            Posted::Count => {
                self.counting = false;
                if result.is_ok() {
                    self.counted(local);
                }
            }
            Posted::Part | Posted::Hint | Posted::Goodbye => {}
        }
        self.advance(local, events);
    }

    fn counted(&mut self, local: &Local<'_>) {
        // Acquire: the card has written the word.
        let taken = local.counters.segment().load(local.nodes + self.node, Ordering::Acquire);
        self.next_count = (taken == self.hints_taken).then(|| local.now + RECOUNT);
        // Another node writes the counter: an impossible value is ignored.
        if (self.hints_taken..=self.hints_sent).contains(&taken) {
            self.hints_taken = taken;
        }
    }

    /// Handles a reception from the node. Returns the hint, if it is one.
    pub(super) fn received(&mut self, result: Result<Option<u32>, String>, local: &Local<'_>) -> Option<u32> {
        if matches!(self.state, State::Closed { .. }) || (self.is_ending() && result.is_err()) {
            return None;
        }
        match result {
            Ok(Some(hint)) if hint < crate::HINTS => {
                if let Some(pair) = &self.pair
                    && self.is_open()
                {
                    if let Err(error) = pair.receive(Self::receive_id(self.node)) {
                        self.end(format!("node {}: no room for hints: {error}", self.node), local.now);
                    } else {
                        self.received += 1;
                        // Release: the room exists before the node reads that it does.
                        local.counters.segment().store(self.node, self.received, Ordering::Release);
                    }
                }
                Some(hint)
            }
            Ok(Some(GOODBYE)) => {
                self.end(format!("node {} has ended", self.node), local.now);
                None
            }
            Ok(_) => {
                self.end(format!("node {} has sent what no window sends", self.node), local.now);
                None
            }
            Err(status) => {
                self.end(format!("node {} has ended or cannot be reached: {status}", self.node), local.now);
                None
            }
        }
    }

    /// Ends the connection. The card returns the operations in flight.
    pub(super) fn end(&mut self, reason: String, now: Instant) {
        if !self.is_open() {
            return;
        }
        self.state = State::Ending { reason, since: now, seen: false };
        if let Some(pair) = &self.pair
            && pair.fail().is_err()
        {
            self.give_up();
        }
    }

    /// Drops the queue pair; the card then accesses no memory for it. (If the card refuses, the memory stays
    /// mapped: see `QueuePair`.)
    fn give_up(&mut self) {
        self.pair = None;
    }

    /// Reports the end of the node, once the card has returned all operations.
    pub(super) fn settle(&mut self, now: Instant, events: &mut Vec<Event>) {
        let State::Ending { reason, since, .. } = &self.state else { return };
        let reason = reason.clone();
        if !self.posted.is_empty() && self.pair.is_some() && now - *since < SILENCE_MAX {
            return;
        }
        self.give_up();
        for posted in std::mem::take(&mut self.posted) {
            if let Posted::Last(id) = posted {
                events.push(self.failed(id));
            }
        }
        for work in std::mem::take(&mut self.waiting) {
            events.push(self.failed(work.id));
        }
        self.hints_late.clear();
        self.state = State::Closed { reason: reason.clone() };
        events.push(Event::Closed { node: self.node, reason });
    }

    /// Does not count the time `unseen`, in which this node did not look, as silence of the other node: this
    /// node could not notice what the other node did.
    pub(super) fn excuse(&mut self, unseen: Duration, now: Instant) {
        if !self.posted.is_empty() {
            self.progress = self.progress.checked_add(unseen).map_or(now, |later| later.min(now));
        }
    }

    /// Does what is due as time passes.
    pub(super) fn tick(&mut self, local: &Local<'_>, events: &mut Vec<Event>) {
        if !self.is_open() {
            return;
        }
        if !self.posted.is_empty() && local.now - self.progress >= SILENCE_MAX {
            let seconds = SILENCE_MAX.as_secs();
            self.end(format!("node {} has not answered for {seconds} s", self.node), local.now);
            return;
        }
        self.advance(local, events);
    }

    /// Tells the node that this node ends, if everything else is with the card. Returns whether nothing is
    /// left to do or to wait for.
    pub(super) fn say_goodbye(&mut self, local: &Local<'_>) -> bool {
        if !self.is_open() {
            return true;
        }
        if self.waiting.is_empty() && self.hints_late.is_empty() && !self.said_goodbye() {
            if self.post_hint(GOODBYE, Posted::Goodbye, local).is_err() {
                return true;
            }
            // After the goodbye, nothing else begins.
            self.posted_max = 0;
        }
        self.said_goodbye() && self.posted.is_empty()
    }

    fn said_goodbye(&self) -> bool {
        self.posted_max == 0
    }
}
