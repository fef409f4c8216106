//! A network of one-sided operations between segments, in virtual time.
//!
//! A node reads and writes the segments of others without any input of theirs: an operation occupies halves
//! of NICs ([`Network`]) and takes latency, and no thread of its target. What hardware does not promise does
//! not hold here:
//!
//! - Each line (64 bytes) of a read is sampled at a moment of its own, and lines land in random order. So do
//!   lines of a write. A read or a look at memory can therefore see a mixture of several values.
//! - What a node's processor stores becomes visible to NICs word by word, in random order, until the store is
//!   complete ([`OneSided::storing`]).
//! - Hints can be lost, and equal ones that wait for a busy node are merged.
//! - A node can die in the middle of operations. Of those that it had begun, any part may be executed; those
//!   of others fail, with any part of a read in the reader's memory.
//!
//! What holds: a node's writes to another one and their hints arrive in order, each operation of a living
//! node ends, and after a node was told that another one is gone, nothing arrives from there.

mod operation;

use crate::dice::Dice;
use crate::facility::Load;
use crate::network::{Network, Nic};
use crate::queue::Queue;
use crate::reach::{Marker, Reach};
use crate::spread::Spread;
use crate::trace::Trace;
use intendant_segment::Segment;
use operation::{Direction, LINE_WORDS, Operation};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

/// Parameters of a network of one-sided operations.
#[derive(Clone, Debug, PartialEq)]
pub struct OneSidedConfig {
    /// Latency, bandwidth and headers.
    pub network: Network,
    /// By how much the moment at which a line is sampled or lands is later than the NIC requires.
    pub line: Spread,
    /// One in so many hints is lost; 0 if none is, 1 if all are.
    pub hints_lost_once_in: u64,
    /// From a node's end until another node knows of it, and until an operation on it fails.
    pub detect: Spread,
    /// The seed.
    pub seed: u64,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

/// What happens next at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<T> {
    /// The node, which is alive and idle.
    pub node: usize,
    /// What it learns.
    pub input: Input<T>,
}

/// An input of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<T> {
    /// Its operation was executed.
    Done(u64),
    /// Its operation failed.
    Failed {
        /// The operation.
        id: u64,
        /// The other node.
        node: usize,
        /// Why.
        reason: &'static str,
    },
    /// Another node's write has arrived.
    Hint {
        /// The hint.
        hint: u32,
        /// For checks: the node that wrote.
        from: usize,
        /// For checks: first word that it wrote.
        remote: usize,
        /// For checks: the tag of the write.
        tag: u64,
    },
    /// Another node is gone.
    Closed(usize),
    /// An input that [`OneSided::schedule`] was given.
    Own(T),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alive,
    /// Alive; its segment cannot be accessed any more.
    Released,
    Gone,
}

struct Peer<T> {
    segment: Segment,
    nic: Nic,
    state: State,
    busy_until_ns: u64,
    /// Inputs that wait until the node is idle.
    backlog: VecDeque<Input<T>>,
    /// Words of stores that are not visible to NICs yet: word, old value, and when the new one is visible.
    hidden: Vec<(usize, u64, u64)>,
}

enum Event<T> {
    Input {
        node: usize,
        input: Input<T>,
    },
    Idle {
        node: usize,
    },
    /// An operation reaches its target.
    Arrives(u64),
    /// A line is copied from the segment where it is to the NIC.
    Sampled {
        op: u64,
        line: usize,
    },
    /// The data of a read return to the reader.
    Returns(u64),
    /// A line is copied from the NIC to the segment where it is to be.
    Landed {
        op: u64,
        line: usize,
    },
    /// The node that began the operation learns its end.
    Ends(u64),
}

/// Segments of several nodes, and the operations between them.
pub struct OneSided<T> {
    config: OneSidedConfig,
    peers: Vec<Peer<T>>,
    queue: Queue<Event<T>>,
    dice: Dice,
    trace: Trace,
    reach: Reach,
    operations: BTreeMap<u64, Operation>,
    begun: u64,
    /// By sender and receiver: when the last write arrives, and when its last line has landed.
    arrives_ns: Vec<Vec<u64>>,
    landed_ns: Vec<Vec<u64>>,
    /// Operations that accessed a released segment: who, and whose.
    trespasses: Vec<(usize, usize)>,
    /// What the next operation is charged for, if not for its words.
    charged: Option<u64>,
}

/// Why operations on nodes that are gone fail.
const GONE: &str = "connection lost";
/// Why operations on released segments fail.
const RELEASED: &str = "remote access error (status 10)";

impl<T> OneSided<T> {
    /// A network between `segments`, one per node.
    #[must_use]
    pub fn new(config: OneSidedConfig, segments: Vec<Segment>) -> Self {
        let nodes = segments.len();
        let (dice, trace) = (Dice::new(config.seed), Trace::new(config.trace));
        let peer = |segment| Peer {
            segment,
            nic: Nic::default(),
            state: State::Alive,
            busy_until_ns: 0,
            backlog: VecDeque::new(),
            hidden: Vec::new(),
        };
        Self {
            config,
            peers: segments.into_iter().map(peer).collect(),
            queue: Queue::new(),
            dice,
            trace,
            reach: Reach::default(),
            operations: BTreeMap::new(),
            begun: 0,
            arrives_ns: vec![vec![0; nodes]; nodes],
            landed_ns: vec![vec![0; nodes]; nodes],
            trespasses: Vec::new(),
            charged: None,
        }
    }

    /// The segment of a node.
    #[must_use]
    pub fn segment(&self, node: usize) -> &Segment {
        &self.peers[node].segment
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.trace.events()
    }

    /// Hash of all events so far, and of the words that were copied.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// The load of a node's NIC: its sending and its receiving half.
    #[must_use]
    pub fn load(&self, node: usize) -> (Load, Load) {
        (self.peers[node].nic.sending.load(), self.peers[node].nic.receiving.load())
    }

    /// The reach markers.
    pub fn reach(&mut self) -> &mut Reach {
        &mut self.reach
    }

    /// The random choices, for callers that draw from the same stream.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// Appends a line to the readable trace, if there is one.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now_ns(), text);
    }

    /// The readable trace; empty if there is none.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }

    /// The operations so far that accessed a released segment of a node: which node began them, and whose
    /// segment it was.
    #[must_use]
    pub fn trespasses(&self) -> &[(usize, usize)] {
        &self.trespasses
    }

    /// Whether a write has changed a part of the `words` words at `at` of a node's segment, and not all of
    /// it.
    #[must_use]
    pub fn is_landing(&self, node: usize, at: usize, words: usize) -> bool {
        let writes = self.operations.values().filter(|operation| {
            operation.is_write() && operation.to == node && operation.has_landed_partly()
        });
        writes.into_iter().any(|write| write.remote < at + words && at < write.remote + write.words)
    }

    /// Whether an operation of `node`, or one on its segment, has been executed partly.
    #[must_use]
    pub fn is_inside(&self, node: usize) -> bool {
        let mut partly = self.operations.values().filter(|operation| operation.has_landed_partly());
        partly.any(|operation| operation.by == node || operation.other() == node)
    }

    /// Whether an operation of `node` is in flight.
    #[must_use]
    pub fn is_in_flight(&self, node: usize) -> bool {
        self.operations.values().any(|operation| operation.by == node)
    }

    /// Gives `node` an input of the caller's at `at_ns`, or when it is idle.
    pub fn schedule(&mut self, node: usize, at_ns: u64, input: T) {
        let at_ns = at_ns.max(self.queue.now_ns());
        self.queue.schedule(at_ns, Event::Input { node, input: Input::Own(input) }, &mut self.dice);
    }

    /// `node` stores for `for_ns`: its words at `at` were `before`. NICs see each word that has changed from
    /// a random moment on. The node begins nothing else before the end.
    pub fn storing(&mut self, node: usize, at: usize, before: &[u64], for_ns: u64) {
        let now_ns = self.queue.now_ns();
        let peer = &mut self.peers[node];
        let from_ns = peer.busy_until_ns.max(now_ns);
        peer.busy_until_ns = from_ns + for_ns;
        peer.hidden.retain(|(_, _, until_ns)| *until_ns > now_ns);
        for (word, old) in before.iter().enumerate() {
            if peer.segment.load(at + word, Ordering::Relaxed) != *old {
                let visible_ns = self.dice.between(now_ns, peer.busy_until_ns);
                peer.hidden.push((at + word, *old, visible_ns));
            }
        }
    }

    /// `node` computes for `for_ns`, after what it does already. Its inputs wait, and operations that it
    /// begins start at the end.
    pub fn computing(&mut self, node: usize, for_ns: u64) {
        self.storing(node, 0, &[], for_ns);
    }

    /// The next operation occupies NICs for `bytes` bytes instead of those of its words: runs that compute
    /// with short values are charged for long ones.
    pub fn charge_next(&mut self, bytes: u64) {
        self.charged = Some(bytes);
    }

    /// `node` begins to read `words` words at `remote` of `from` into its words at `into`.
    pub fn read(&mut self, node: usize, from: usize, remote: usize, into: usize, words: usize, id: u64) {
        let operation = Operation::new(Direction::Read, (node, id), (from, node), (remote, into), words);
        let op = self.begin(operation);
        // The request: no data.
        let sent_ns = self.send(node, 0);
        let at_ns = sent_ns + self.config.network.latency.draw(&mut self.dice);
        self.queue.schedule(at_ns, Event::Arrives(op), &mut self.dice);
    }

    /// `node` begins to write `words` words at `local` to the words of `to` at `remote`; then the hint. The
    /// tag comes back with the hint.
    #[expect(clippy::too_many_arguments, reason = "the operation of a window, and a tag")]
    pub fn write(
        &mut self,
        node: usize,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
        tag: u64,
    ) {
        let direction = Direction::Write { hint, tag };
        let operation = Operation::new(direction, (node, id), (node, to), (local, remote), words);
        let lines = operation.lines();
        let bytes = self.charged.unwrap_or(operation.bytes);
        let op = self.begin(operation);
        let from_ns = self.peers[node].busy_until_ns.max(self.queue.now_ns());
        let sent_ns = self.send(node, bytes);
        for line in 0..lines {
            let at_ns = self.dice.between(from_ns, sent_ns);
            self.queue.schedule(at_ns, Event::Sampled { op, line }, &mut self.dice);
        }
        let at_ns = sent_ns + self.config.network.latency.draw(&mut self.dice) + 1;
        let arrives_ns = &mut self.arrives_ns[node][to];
        // Later than the one before, as events of one time have no order.
        *arrives_ns = at_ns.max(*arrives_ns + 1);
        self.queue.schedule(*arrives_ns, Event::Arrives(op), &mut self.dice);
    }

    /// The segment of `node` is deregistered: operations on it fail from now on.
    pub fn release(&mut self, node: usize) {
        self.note(|| format!("n{node} releases its segment"));
        self.peers[node].state = State::Released;
    }

    /// `node` ends, in good order or not. Its operations stop at any point, those of others on it fail, and
    /// all others learn that it is gone.
    pub fn end(&mut self, node: usize) {
        if self.peers[node].state == State::Gone {
            return;
        }
        self.note(|| format!("n{node} ends"));
        let now_ns = self.queue.now_ns();
        self.peers[node].state = State::Gone;
        self.peers[node].backlog.clear();
        let mut failed = Vec::new();
        for (op, operation) in &mut self.operations {
            if operation.has_landed_partly() && (operation.by == node || operation.other() == node) {
                self.reach.mark(Marker::DiedInside);
            }
            if operation.by != node && operation.other() == node && !operation.has_landed() {
                operation.failed = Some(GONE);
                failed.push(*op);
            }
        }
        for op in failed {
            let at_ns = now_ns + self.config.detect.draw(&mut self.dice);
            self.queue.schedule(at_ns, Event::Ends(op), &mut self.dice);
        }
        for other in (0..self.peers.len()).filter(|other| *other != node) {
            // What has arrived lands before the end is known.
            let landed_ns = self.landed_ns[node][other] + 1;
            let at_ns = (now_ns + self.config.detect.draw(&mut self.dice)).max(landed_ns);
            let input = Input::Closed(node);
            self.queue.schedule(at_ns, Event::Input { node: other, input }, &mut self.dice);
        }
    }

    /// Goes on to the next input of a node; `None` if nothing will happen any more.
    #[expect(clippy::should_implement_trait, reason = "operations begin between two steps")]
    pub fn next(&mut self) -> Option<Step<T>> {
        loop {
            let step = match self.queue.next()? {
                Event::Input { node, input } => self.offer(node, input),
                Event::Idle { node } => self.idle(node),
                Event::Arrives(op) => {
                    self.arrives(op);
                    None
                }
                Event::Sampled { op, line } => {
                    self.sampled(op, line);
                    None
                }
                Event::Returns(op) => {
                    self.lands(op);
                    None
                }
                Event::Landed { op, line } => {
                    self.landed(op, line);
                    None
                }
                Event::Ends(op) => self.ends(op),
            };
            if let Some(step) = step {
                return Some(step);
            }
        }
    }

    fn begin(&mut self, mut operation: Operation) -> u64 {
        self.begun += 1;
        operation.bytes = self.charged.take().unwrap_or(operation.bytes);
        self.note(|| format!("n{} begins {operation}", operation.by));
        self.operations.insert(self.begun, operation);
        self.begun
    }

    /// Occupies the sending half of a node's NIC when the node is idle. Returns when the bytes are sent.
    fn send(&mut self, node: usize, bytes: u64) -> u64 {
        let occupied_ns = self.config.network.occupied_ns(bytes);
        let peer = &mut self.peers[node];
        let from_ns = peer.busy_until_ns.max(self.queue.now_ns());
        peer.nic.sending.serve(from_ns, from_ns, occupied_ns).1
    }

    /// Gives a node an input, now or when it is idle.
    fn offer(&mut self, node: usize, input: Input<T>) -> Option<Step<T>> {
        let now_ns = self.queue.now_ns();
        let peer = &mut self.peers[node];
        if peer.state == State::Gone {
            return None;
        }
        if peer.busy_until_ns <= now_ns && peer.backlog.is_empty() {
            return Some(self.step(node, input));
        }
        if let Input::Hint { hint, .. } = input {
            let same =
                |waiting: &Input<T>| matches!(waiting, Input::Hint { hint: other, .. } if *other == hint);
            if peer.backlog.iter().any(same) {
                self.reach.mark(Marker::HintMerged);
                return None;
            }
        }
        if peer.backlog.is_empty() {
            let at_ns = peer.busy_until_ns;
            self.queue.schedule(at_ns, Event::Idle { node }, &mut self.dice);
        }
        self.peers[node].backlog.push_back(input);
        None
    }

    /// Gives a node the next input that waits.
    fn idle(&mut self, node: usize) -> Option<Step<T>> {
        let now_ns = self.queue.now_ns();
        let peer = &mut self.peers[node];
        if peer.busy_until_ns > now_ns {
            let at_ns = peer.busy_until_ns;
            self.queue.schedule(at_ns, Event::Idle { node }, &mut self.dice);
            return None;
        }
        let input = peer.backlog.pop_front()?;
        if !peer.backlog.is_empty() {
            self.queue.schedule(now_ns, Event::Idle { node }, &mut self.dice);
        }
        Some(self.step(node, input))
    }

    fn step(&mut self, node: usize, input: Input<T>) -> Step<T> {
        let (kind, detail) = match &input {
            Input::Done(id) => (0, *id as u32),
            Input::Failed { id, .. } => (1, *id as u32),
            Input::Hint { hint, .. } => (2, *hint),
            Input::Closed(other) => (3, *other as u32),
            Input::Own(_) => (4, 0),
        };
        self.trace.event(self.queue.now_ns(), kind, node as u32, detail);
        Step { node, input }
    }

    fn arrives(&mut self, op: u64) {
        let Some(operation) = self.operations.get_mut(&op) else { return };
        if operation.failed.is_some() {
            return;
        }
        let (by, other) = (operation.by, operation.other());
        if self.peers[by].state == State::Gone {
            // The rest of what a node had begun when it ended.
            self.operations.remove(&op);
            return;
        }
        match self.peers[other].state {
            State::Alive => {}
            State::Released => {
                self.trespass(op, by, other);
                return;
            }
            State::Gone => {
                operation.failed = Some(GONE);
                let at_ns = self.queue.now_ns() + self.config.detect.draw(&mut self.dice);
                self.queue.schedule(at_ns, Event::Ends(op), &mut self.dice);
                return;
            }
        }
        if operation.is_write() {
            self.lands(op);
            return;
        }
        let (lines, bytes) = (operation.lines(), operation.bytes);
        let now_ns = self.queue.now_ns();
        let occupied_ns = self.config.network.occupied_ns(bytes);
        let (from_ns, until_ns) = self.peers[other].nic.sending.serve(now_ns, now_ns, occupied_ns);
        let mut last_ns = until_ns;
        for line in 0..lines {
            let at_ns = self.dice.between(from_ns, until_ns) + self.config.line.draw(&mut self.dice);
            last_ns = last_ns.max(at_ns);
            self.queue.schedule(at_ns, Event::Sampled { op, line }, &mut self.dice);
        }
        let at_ns = last_ns + 1 + self.config.network.latency.draw(&mut self.dice);
        self.queue.schedule(at_ns, Event::Returns(op), &mut self.dice);
    }

    /// An operation accesses a released segment.
    fn trespass(&mut self, op: u64, by: usize, other: usize) {
        self.trespasses.push((by, other));
        let Some(operation) = self.operations.get_mut(&op) else { return };
        operation.failed = Some(RELEASED);
        let at_ns = self.queue.now_ns() + self.config.network.latency.draw(&mut self.dice);
        self.queue.schedule(at_ns, Event::Ends(op), &mut self.dice);
    }

    fn sampled(&mut self, op: u64, line: usize) {
        let now_ns = self.queue.now_ns();
        let Some(operation) = self.operations.get_mut(&op) else { return };
        if operation.failed.is_some() {
            return;
        }
        let (by, from) = (operation.by, operation.from);
        if self.peers[from].state == State::Released {
            self.trespass(op, by, from);
            return;
        }
        let peer = &self.peers[from];
        operation.sampled[line] = true;
        for word in operation.line(line) {
            let at = operation.source + word;
            let hidden = peer.hidden.iter().find(|(hidden, _, until_ns)| *hidden == at && *until_ns > now_ns);
            operation.data[word] = match hidden {
                Some((_, old, _)) => *old,
                None => peer.segment.load(at, Ordering::Relaxed),
            };
        }
    }

    /// The data of an operation have come where they are to land.
    fn lands(&mut self, op: u64) {
        let now_ns = self.queue.now_ns();
        let Some(operation) = self.operations.get(&op) else { return };
        if operation.failed.is_some() {
            return;
        }
        let (by, to, lines, is_write) = (operation.by, operation.to, operation.lines(), operation.is_write());
        let occupied_ns = self.config.network.occupied_ns(operation.bytes);
        // Writes of one node land one after the other.
        let from_ns = if is_write { now_ns.max(self.landed_ns[by][to] + 1) } else { now_ns };
        let (from_ns, until_ns) = self.peers[to].nic.receiving.serve(now_ns, from_ns, occupied_ns);
        let mut last_ns = until_ns;
        for line in 0..lines {
            let at_ns = self.dice.between(from_ns, until_ns) + self.config.line.draw(&mut self.dice);
            last_ns = last_ns.max(at_ns);
            self.queue.schedule(at_ns, Event::Landed { op, line }, &mut self.dice);
        }
        if is_write {
            self.landed_ns[by][to] = last_ns;
        }
    }

    fn landed(&mut self, op: u64, line: usize) {
        let now_ns = self.queue.now_ns();
        let Some(operation) = self.operations.get_mut(&op) else { return };
        if operation.failed.is_some() {
            return;
        }
        let (by, to) = (operation.by, operation.to);
        match self.peers[to].state {
            State::Alive => {}
            State::Released => {
                self.trespass(op, by, to);
                return;
            }
            // The read of a node that has ended, or a write that fails soon.
            State::Gone => return,
        }
        // Of what a node has sent when it ended, any part may be lost.
        let lost = self.peers[by].state == State::Gone && self.dice.once_in(2);
        operation.landed += 1;
        if !lost {
            let words = operation.line(line);
            for word in words.clone() {
                self.peers[to].segment.store(
                    operation.target() + word,
                    operation.data[word],
                    Ordering::Relaxed,
                );
            }
            for word in words {
                self.trace.bytes(&operation.data[word].to_le_bytes());
            }
        }
        if !operation.has_landed() {
            return;
        }
        let (from, remote, direction) = (operation.from, operation.remote, operation.direction);
        let ends_ns = match direction {
            Direction::Read => now_ns,
            // The acknowledgement.
            Direction::Write { .. } => now_ns + self.config.network.latency.draw(&mut self.dice),
        };
        self.queue.schedule(ends_ns, Event::Ends(op), &mut self.dice);
        if let Direction::Write { hint: Some(hint), tag } = direction
            && self.peers[by].state != State::Gone
        {
            let once_in = self.config.hints_lost_once_in;
            if once_in > 0 && self.dice.once_in(once_in) {
                self.reach.mark(Marker::HintLost);
                return;
            }
            let input = Input::Hint { hint, from, remote, tag };
            // At once: the next write of the node lands later.
            self.queue.schedule(now_ns, Event::Input { node: to, input }, &mut self.dice);
        }
    }

    fn ends(&mut self, op: u64) -> Option<Step<T>> {
        let operation = self.operations.remove(&op)?;
        let (id, node) = (operation.id, operation.other());
        let Some(reason) = operation.failed else { return self.offer(operation.by, Input::Done(id)) };
        // A read that fails may have left any part of its data.
        if !operation.is_write() {
            for line in 0..operation.lines() {
                if operation.sampled[line] && self.dice.once_in(2) {
                    for word in operation.line(line) {
                        let at = operation.target() + word;
                        self.peers[operation.to].segment.store(at, operation.data[word], Ordering::Relaxed);
                    }
                }
            }
        }
        self.offer(operation.by, Input::Failed { id, node, reason })
    }
}

const _: () = assert!(LINE_WORDS * 8 == 64, "a line has 64 bytes");
