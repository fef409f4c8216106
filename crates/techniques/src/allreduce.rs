//! Sparse all-reduce: the mechanism that synchronises static replicas. Every node has a static replica of
//! each static key.
//!
//! In a round every node contributes what its workers added to its copies since its last contribution, and
//! receives the sum of all contributions, its own included. Nodes exchange updated keys only [Träff 2010], by
//! recursive doubling [Thakur 2003], as NuPS does [thesis §4.2]. Of N nodes, p = 2^k ≤ N < 2p take part in
//! the doubling. Each of the r = N − p *extra* nodes p + i sends its contribution to node i, which takes part
//! for both.
//!
//! | step | node | has | event | does |
//! | --- | --- | --- | --- | --- |
//! | 0 | extra p + i | | start | *fold*: its contribution → i |
//! | 0 | i < r | no fold yet | start | *call*: nothing → p + i |
//! | 0 | extra p + i | not started | *call* | is called: the caller of this module starts the round |
//! | 0 | extra p + i | started | *call* | nothing: the messages have crossed |
//! | 0 | i < r | started | *fold* of p + i | adds it to its own; continues with step 1 |
//! | 1…k | i < p | the steps before | | *sum* of what it has → i xor 2^(step−1) |
//! | 1…k | i < p | sent its sum | *sum* of i xor 2^(step−1) | adds it; continues with the next step |
//! | 1…k | i < p | not as far | *sum* of i xor 2^(step−1) | keeps it; is called if it has not started |
//! | k + 1 | i < r | step k | | *unfold*: the result → p + i; the round is complete |
//! | k + 1 | extra p + i | started | *unfold* of i | the round is complete |
//!
//! A round takes p·k + 2r messages, and a call for each extra node that starts after its partner. If all
//! nodes that are called start, then one node that starts makes all others start: a node of the doubling
//! learns of the round by the sum that it receives, and an extra node, which receives none, is called. So a
//! cluster without updates sends nothing, and a round that one node starts completes.
//!
//! **All nodes get the same bits.** Before step s, nodes whose ranks differ in their lowest s − 1 bits only
//! (a group) have the same bits. In step s two groups exchange their sums: each of their nodes adds the same
//! two operands, that of the lower ranks first, so all of them have the same bits again. In other words, N
//! determines one tree of additions, the same on all nodes. (The order of operands matters for the payload of
//! a NaN at most.) A key that one operand lacks is copied from the other. Extra nodes receive the result as
//! it is.
//!
//! **How far a node may be ahead.** No node completes a round to which another node has not contributed, so
//! no node is two rounds ahead of another. A node that has completed round t may start t + 1, and even reach
//! its last step, while a partner is still in t: all nodes have the partner's contribution, but messages to
//! the partner are in flight. Messages between two nodes do not overtake each other, so only two kinds of
//! messages arrive a round early: the sum of a step of which, in round t, this node has sent its half and
//! received the other; and a call, if the unfold has arrived and [`AllReduce::advance`] has not used it yet.
//! Folds and unfolds answer each other across rounds and are never early. [`AllReduce::receive`] keeps
//! exactly these messages and refuses all others, so it keeps the sums of k steps of two rounds at most.
//!
//! **Parts** of a message are added as they arrive, if the node waits for the message: they are in the cache
//! then, and the memory that they arrived in is free for the next ones.
//!
//! Messages from one node to another must arrive in the order in which they were sent: all frames of an
//! all-reduce use one channel.
//!
//! The caller decides when to start a round, keeps the copies, and turns messages into frames.

mod deltas;
mod error;
#[cfg(test)]
mod tests;

pub use deltas::{Deltas, Part};
pub use error::{AllReduceError, PartError};

use deltas::{Adding, Memory};
use intendant_core::{Element, NodeId};
use std::sync::Arc;

/// A message that the caller must send, even if it has no updates.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<E> {
    /// The receiver.
    pub to: NodeId,
    /// Round of the all-reduce.
    pub round: u32,
    /// Step of the round; see the table of the [module](self).
    pub step: u8,
    /// The updates. A sender may split them into parts, in order. They may be as large as the model, so they
    /// are shared.
    pub deltas: Arc<Deltas<E>>,
}

/// How much of one message has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing yet.
    Expected,
    /// Some parts.
    Arriving,
    /// All of it.
    Arrived,
    /// All of it, and [`AllReduce::advance`] has used it.
    Used,
}

/// One message.
#[derive(Clone, Debug)]
struct Slot {
    progress: Progress,
    /// The last index that has arrived.
    last: Option<u32>,
    /// The parts that have arrived and are not in the sum.
    parts: Vec<Part>,
}

impl Slot {
    const fn new() -> Self {
        Self { progress: Progress::Expected, last: None, parts: Vec::new() }
    }
}

/// A round that this node has started.
#[derive(Clone, Debug)]
struct Running<E> {
    /// Sum of the contributions that this node knows so far.
    sum: Arc<Deltas<E>>,
    /// The sum with those parts that have arrived of the message that the node waits for; `None` before the
    /// first part.
    adding: Option<Adding<E>>,
    /// The step whose message the node waits for; it has sent its own message of this step.
    step: u8,
}

/// One node's part in the rounds of an all-reduce.
///
/// Pass every part of a message to [`receive`](Self::receive), then call [`advance`](Self::advance). Call it
/// after [`start`](Self::start) as well. If [`is_called`](Self::is_called) is true, start the round.
#[derive(Clone, Debug)]
pub struct AllReduce<E> {
    node: usize,
    nodes: usize,
    /// k: nodes 0 to 2^k − 1 take part in the doubling.
    doublings: u8,
    lens: Arc<[u32]>,
    round: u32,
    running: Option<Running<E>>,
    /// Messages of this round, by step.
    now: Vec<Slot>,
    /// Messages of the round after the running one.
    next: Vec<Slot>,
    memory: Memory<E>,
}

impl<E: Element> AllReduce<E> {
    /// The part of `node` in the all-reduce of `nodes` nodes; `lens` says how many elements each static key
    /// has. The first round is 0.
    ///
    /// # Panics
    /// If `node` is not one of `nodes` nodes.
    #[must_use]
    pub fn new(node: NodeId, nodes: usize, lens: Arc<[u32]>) -> Self {
        assert!(node.index() < nodes, "node {node} of {nodes}");
        let doublings = nodes.ilog2() as u8;
        let mut new = Self {
            node: node.index(),
            nodes,
            doublings,
            lens,
            round: 0,
            running: None,
            now: Vec::new(),
            next: Vec::new(),
            memory: Memory::default(),
        };
        (new.now, new.next) = (new.slots(), new.slots());
        new
    }

    /// The running round, or the one that starts next. The first is 0; after `u32::MAX` it is 0 again.
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// Whether this node has contributed to a round that is not complete here.
    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether another node has started the round that starts next here: this node must start it as well,
    /// even with nothing to contribute. False while a round is running.
    pub fn is_called(&self) -> bool {
        self.running.is_none() && !self.is_idle()
    }

    /// Whether nothing is running and nothing of the next round has arrived.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.now.iter().all(|slot| slot.progress == Progress::Expected)
    }

    /// No updates, in memory that is not shared: for a contribution. It may be memory of an earlier round.
    pub fn fresh(&mut self) -> Arc<Deltas<E>> {
        self.memory.take()
    }

    /// Takes back a contribution or the result of a round. Messages in flight may still share it.
    pub fn recycle(&mut self, deltas: Arc<Deltas<E>>) {
        self.memory.put(deltas);
    }

    /// Starts the round with this node's contribution, which must be well-formed. Appends the messages to
    /// send to `out`. Call [`advance`](Self::advance) next.
    pub fn start(&mut self, own: Arc<Deltas<E>>, out: &mut Vec<Step<E>>) {
        intendant_core::strict_assert!(!self.is_running(), "round {} is running", self.round);
        intendant_core::strict_assert!(
            self.check(&own.indices, own.values.len(), None) == Ok(()),
            "own contribution is malformed"
        );
        if self.is_extra() {
            self.send(0, own, out);
            self.running = Some(Running { sum: Arc::default(), adding: None, step: self.unfold() });
        } else if self.peer(0).is_some() {
            if self.now[0].progress == Progress::Expected {
                self.send(0, Arc::default(), out);
            }
            self.running = Some(Running { sum: own, adding: None, step: 0 });
        } else {
            self.send_sum(1, &own, out);
            self.running = Some(Running { sum: own, adding: None, step: 1 });
        }
    }

    /// Takes a part of a message of another node; `last` ends the message. Keeps messages that are early.
    ///
    /// # Errors
    /// If the other node breaks the protocol. The state is unchanged then.
    pub fn receive(
        &mut self,
        from: NodeId,
        round: u32,
        step: u8,
        last: bool,
        part: Part,
    ) -> Result<(), AllReduceError> {
        let early = self.check_step(from, round, step)?;
        let slots = if early { &self.next } else { &self.now };
        let Slot { progress, last: before, .. } = &slots[usize::from(step)];
        if matches!(progress, Progress::Arrived | Progress::Used) {
            return Err(AllReduceError::AfterEnd { round, step });
        }
        if self.is_extra() && step == 0 && !(last && part.indices.is_empty()) {
            return Err(AllReduceError::CallWithUpdates { round });
        }
        self.check(&part.indices, part.elements::<E>(), *before)
            .map_err(|part| AllReduceError::Malformed { round, step, part })?;
        let slot = &mut if early { &mut self.next } else { &mut self.now }[usize::from(step)];
        slot.progress = if last { Progress::Arrived } else { Progress::Arriving };
        if let Some(index) = part.indices.last() {
            slot.last = Some(*index);
            slot.parts.push(part);
        }
        Ok(())
    }

    /// Goes on with the round as far as possible and appends the messages to send to `out`. Returns the sum
    /// of all nodes' contributions if the round is complete: the same bits on every node. The caller may
    /// start the next round then.
    pub fn advance(&mut self, out: &mut Vec<Step<E>>) -> Option<Arc<Deltas<E>>> {
        let Running { mut sum, mut adding, mut step } = self.running.take()?;
        let unfold = self.unfold();
        // An extra node waits for the last step only.
        while step < unfold || self.is_extra() {
            let parts = std::mem::take(&mut self.now[usize::from(step)].parts);
            if !parts.is_empty() {
                let adding = adding.get_or_insert_with(|| Adding::new(self.memory.take(), &sum));
                self.add(step, adding, &sum, &parts);
            }
            let progress = &mut self.now[usize::from(step)].progress;
            if *progress != Progress::Arrived {
                self.running = Some(Running { sum, adding, step });
                return None;
            }
            *progress = Progress::Used;
            if let Some(adding) = adding.take() {
                let sum_before = std::mem::take(&mut sum);
                sum = adding.finish(&sum_before);
                self.memory.put(sum_before);
            }
            if self.is_extra() {
                break;
            }
            step += 1;
            self.send_sum(step, &sum, out);
        }
        self.round = self.round.wrapping_add(1);
        self.now = std::mem::take(&mut self.next);
        self.next = self.slots();
        Some(sum)
    }

    /// Adds parts of the message of `step` to the sum, which was `sum` before the message.
    fn add(&self, step: u8, adding: &mut Adding<E>, sum: &Deltas<E>, parts: &[Part]) {
        let is_after = self.peer(step).is_some_and(|peer| peer < self.node);
        let len = |index: u32| self.lens[index as usize] as usize;
        for part in parts {
            if is_after {
                adding.add(sum, part, len, |own, theirs| theirs + own);
            } else {
                adding.add(sum, part, len, |own, theirs| own + theirs);
            }
        }
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::new(); usize::from(self.unfold()) + 1]
    }

    /// The step after the doubling.
    const fn unfold(&self) -> u8 {
        self.doublings + 1
    }

    const fn is_extra(&self) -> bool {
        self.node >> self.doublings != 0
    }

    /// The node with which this node exchanges messages in `step`.
    fn peer(&self, step: u8) -> Option<usize> {
        let power = 1 << self.doublings;
        if (1..=self.doublings).contains(&step) {
            return (!self.is_extra()).then(|| self.node ^ (1 << (step - 1)));
        }
        if step > self.unfold() {
            return None;
        }
        if self.is_extra() {
            Some(self.node - power)
        } else {
            Some(self.node + power).filter(|extra| *extra < self.nodes)
        }
    }

    fn send(&self, step: u8, deltas: Arc<Deltas<E>>, out: &mut Vec<Step<E>>) {
        if let Some(peer) = self.peer(step) {
            out.push(Step { to: NodeId(peer as u16), round: self.round, step, deltas });
        }
    }

    /// Sends the sum that a node of the doubling sends when it reaches `step`.
    fn send_sum(&self, step: u8, sum: &Arc<Deltas<E>>, out: &mut Vec<Step<E>>) {
        if self.peer(step).is_some() {
            self.send(step, Arc::clone(sum), out);
        }
    }

    /// Whether the message is of the round after the running one. Refuses a message that cannot arrive in
    /// this state.
    fn check_step(&self, from: NodeId, round: u32, step: u8) -> Result<bool, AllReduceError> {
        let unfold = self.unfold();
        // Only extra nodes receive the last step.
        let expected = self.peer(step).filter(|_| self.is_extra() || step < unfold);
        if expected != Some(from.index()) {
            return Err(AllReduceError::NotItsStep { step, node: NodeId(self.node as u16) });
        }
        let begun = |step: u8| self.now[usize::from(step)].progress != Progress::Expected;
        let has =
            |step: u8| matches!(self.now[usize::from(step)].progress, Progress::Arrived | Progress::Used);
        let early = round != self.round;
        let known = match &self.running {
            _ if early && round != self.round.wrapping_add(1) => false,
            // The partner calls before it unfolds, and unfolds after it has received the fold.
            None if self.is_extra() => !early && step == 0,
            Some(_) if self.is_extra() && early => step == 0 && has(unfold),
            Some(_) if self.is_extra() => step == unfold || !begun(unfold),
            // The step that this node waits for is included: its message may have arrived and not be used
            // yet.
            Some(running) if early => (1..=running.step).contains(&step) && has(step),
            None | Some(_) => !early,
        };
        if !known {
            let (running, node) = (self.is_running(), NodeId(self.node as u16));
            return Err(AllReduceError::OutOfTurn { round, step, node, running, at: self.round });
        }
        Ok(early)
    }

    /// Checks that updates of the keys `indices`, with `elements` elements together, are well-formed and
    /// continue the updates up to index `before`.
    fn check(&self, indices: &[u32], elements: usize, before: Option<u32>) -> Result<(), PartError> {
        let (mut last, mut expected) = (before, 0);
        for index in indices.iter().copied() {
            let Some(len) = self.lens.get(index as usize) else {
                return Err(PartError::NoSuchKey { index, keys: self.lens.len() });
            };
            if let Some(last) = last.filter(|last| *last >= index) {
                return Err(PartError::Unordered { index, after: last });
            }
            last = Some(index);
            expected += *len as usize;
        }
        if elements != expected { Err(PartError::Elements { elements, expected }) } else { Ok(()) }
    }
}
