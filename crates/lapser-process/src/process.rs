//! A node that sets and gets items: the protocol, driven over a window with blocking calls.

use crate::error::Error;
use crate::members::Members;
use intendant_control::MonotonicClock;
use intendant_core::NodeId;
use intendant_lapser::{Answer, Directory, Effect, FinishError, GetError, Node, Stats};
use intendant_membership::Aborter;
use intendant_onesided::{Event, Window, WindowError};
use intendant_segment::Segment;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// How long a node sleeps before it checks whether the cluster has ended: a node that hangs closes nothing,
/// and only the control plane notices it.
const LOOK: Duration = Duration::from_millis(50);

/// A value to get, with a clock of at least `clock - slack`, or at least 0 if that is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// The key.
    pub key: u64,
    /// The clock.
    pub clock: u64,
    /// By how much the value may be older.
    pub slack: u64,
}

/// The bytes that a node has moved, as whole slots (the values, and 32 bytes for each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes written to other nodes.
    pub written_bytes: u64,
    /// Bytes read from other nodes, including torn and stale reads.
    pub read_bytes: u64,
}

/// A node that sets items and gets those of others. It belongs to one thread, and its calls block only that
/// thread.
///
/// A node that is dropped without [`Process::finish`] is lost to the others: their calls fail.
pub struct Process<W: Window> {
    members: Members,
    directory: Directory,
    driver: Driver<W>,
    /// Room for a value.
    value: Vec<u64>,
}

impl<W: Window> Process<W> {
    pub(crate) fn new(members: Members, directory: Directory, window: W, node: Node) -> Self {
        let driver = Driver {
            segment: window.local().clone(),
            window,
            node,
            clock: MonotonicClock::start(),
            effects: Vec::new(),
            answers: Vec::new(),
            events: Vec::new(),
            next: 0,
            op: 0,
            traffic: Traffic::default(),
            meets: false,
        };
        Self { members, directory, driver, value: Vec::new() }
    }

    /// This node.
    #[must_use]
    pub const fn rank(&self) -> NodeId {
        self.members.rank
    }

    /// Number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.members.nodes
    }

    /// The places of all items.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Counts of the protocol's work on this node.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.driver.node.stats()
    }

    /// The bytes that this node has moved.
    #[must_use]
    pub const fn traffic(&self) -> Traffic {
        self.driver.traffic
    }

    /// A handle with which any thread can end the cluster.
    #[must_use]
    pub fn aborter(&self) -> Aborter {
        Aborter::new(&self.members.membership, &self.members.health)
    }

    /// Waits until every node has called this with the same name. Returns their payloads by rank. The
    /// payloads go through the control plane, so this is for data that is exchanged once, not in every
    /// iteration.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn gather(&self, name: &str, payload: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.members.gather(name, payload)
    }

    /// Sets an item that this node produces. Returns when the value is stored; the writes to other nodes go
    /// on.
    ///
    /// # Errors
    /// If this node does not produce the item, the value has another length, or `clock` is not above the last
    /// one; or [`Error::Failed`] if the cluster has ended.
    pub fn set(&mut self, key: u64, clock: u64, value: &[u64]) -> Result<(), Error> {
        let Self { members, driver, .. } = self;
        members.check()?;
        driver.catch_up(members)?;
        let set = driver.set(members, key, clock, value);
        driver.look();
        set
    }

    /// Sets several items, each once, in this order. `fill` appends the value of the item at a place in
    /// `keys`. A consumer is woken once, when the last value that it needs has been written to it, instead of
    /// once per value.
    ///
    /// # Errors
    /// As [`Process::set`]; the items before the refused one have been set then.
    pub fn set_all(
        &mut self,
        keys: &[u64],
        clock: u64,
        mut fill: impl FnMut(usize, &mut Vec<u64>),
    ) -> Result<(), Error> {
        let Self { members, driver, value, .. } = self;
        members.check()?;
        // The node first learns which writes have ended, so that no set waits for one of them.
        driver.catch_up(members)?;
        driver.node.begin_batch();
        let set = keys.iter().enumerate().try_for_each(|(at, key)| {
            value.clear();
            fill(at, value);
            driver.set(members, *key, clock, value)
        });
        driver.node.end_batch(&mut driver.effects);
        let ended = driver.act(members);
        driver.look();
        set.and(ended)
    }

    /// Gets several items. `take` is called for each, in any order, with its place in `wants`, the clock and
    /// the value that came. A node can get its own items as well.
    ///
    /// Items of one producer should be in the order in which it sets them. The node gets the last item of
    /// each stretch of them first, and the others when that item has come, so it does not read in vain items
    /// that are not there yet. Any other order is also correct, but slower.
    ///
    /// # Errors
    /// If this node neither consumes nor produces an item, or produces it and has not set the wanted value,
    /// for which it would wait for itself; if a producer has finished with an older value; [`Error::Failed`],
    /// which names the node, if a producer is gone before its value has come. `take` may have been called for
    /// some items.
    pub fn get_all(&mut self, wants: &[Get], mut take: impl FnMut(usize, u64, &[u64])) -> Result<(), Error> {
        let Self { members, directory, driver, value } = self;
        members.check()?;
        let (mut left, first) = (wants.len(), driver.ops(wants.len()));
        let mut turns = Turns::new(directory, wants);
        while left > 0 {
            match turns.next() {
                Some(get) => driver.get(members, first + get as u64, wants[get])?,
                None => driver.step(members)?,
            }
            left -= driver.deliver(members, directory, first, value, &mut |get, clock, value| {
                turns.came(get);
                take(get, clock, value);
            })?;
        }
        driver.look();
        Ok(())
    }

    /// Gets one item; see [`Process::get_all`]. Returns the clock of the value.
    ///
    /// # Errors
    /// As [`Process::get_all`], and if `value` does not have the length of the item's values.
    pub fn get(&mut self, key: u64, clock: u64, slack: u64, value: &mut [u64]) -> Result<u64, Error> {
        if let Some(expected) = self.directory.value_words(key).filter(|words| *words != value.len()) {
            return Err(Error::from(GetError::Length { key, words: value.len(), expected }));
        }
        let mut came = 0;
        self.get_all(&[Get { key, clock, slack }], |_, clock, words| {
            value.copy_from_slice(words);
            came = clock;
        })?;
        Ok(came)
    }

    /// Begins the reads that [`Process::get_all`] with the same arguments would have to begin. The call waits
    /// for nothing, and has no effect if values are only pushed.
    ///
    /// # Errors
    /// If this node neither consumes nor produces an item; [`Error::Failed`] if the cluster has ended.
    pub fn prefetch(&mut self, wants: &[Get]) -> Result<(), Error> {
        let Self { members, driver, .. } = self;
        members.check()?;
        for Get { key, clock, slack } in wants {
            let began = driver.node.prefetch(&driver.segment, *key, *clock, *slack, &mut driver.effects);
            began.map_err(Error::from)?;
            driver.act(members)?;
        }
        driver.look();
        Ok(())
    }

    /// Advances the operations that this node has begun, and waits for nothing. Every other call also does
    /// this once: this method is for programs that compute for long between calls. Over RDMA, a node may have
    /// begun more writes than the card takes at once; the other writes go to the card when an earlier write
    /// has ended and the node looks.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn progress(&mut self) -> Result<(), Error> {
        let Self { members, driver, .. } = self;
        members.check()?;
        driver.catch_up(members)
    }

    /// Ends the work of this node: waits until its own operations have ended and all nodes have come to the
    /// same point. Then it releases the memory and leaves the cluster together with the others.
    ///
    /// # Errors
    /// [`Error::Failed`] if a node is lost before that.
    pub fn finish(self) -> Result<(), Error> {
        let Self { members, mut driver, .. } = self;
        let op = driver.ops(1);
        let began = driver.node.finish(&driver.segment, op, &mut driver.effects);
        began.map_err(Error::from)?;
        driver.act(&members)?;
        let result = loop {
            let finished = driver.answers.drain(..).find_map(|answer| match answer {
                Answer::Finished { result, .. } => Some(result),
                Answer::Set { .. } | Answer::NotSet { .. } | Answer::Got { .. } | Answer::NotGot { .. } => {
                    None
                }
            });
            if let Some(result) = finished {
                break result;
            }
            if std::mem::take(&mut driver.meets) {
                members.gather("intendant:finish", &[])?;
                driver.node.met(&mut driver.effects);
                driver.act(&members)?;
            } else {
                driver.step(&members)?;
            }
        };
        match result {
            Ok(()) => {
                drop(driver);
                members.leave()
            }
            Err(FinishError::PeerLost { node, reason }) => Err(members.lost(node, &reason)),
            Err(error) => Err(Error::from(error)),
        }
    }
}

/// Items of a stretch. In longer stretches, fewer gets wait on behalf of others; in shorter ones, values come
/// while their producer computes the next ones.
const STRETCH: usize = 256;

/// The order in which gets begin.
#[derive(Debug)]
struct Turns {
    /// Places of the gets, producer by producer.
    order: Vec<usize>,
    /// For each producer, the range in `order` of the gets that have not begun or are awaited.
    left: Vec<Range<usize>>,
    /// The last gets of the stretches that others wait for, and their producers.
    awaited: BTreeMap<usize, usize>,
    /// Gets that can begin.
    ready: Vec<usize>,
}

impl Turns {
    fn new(directory: &Directory, wants: &[Get]) -> Self {
        // If no node produces an item, the get itself refuses it.
        let producer = |get: &Get| directory.producer(get.key).unwrap_or(usize::MAX);
        let producers: Vec<usize> = wants.iter().map(producer).collect();
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|get| producers[*get]);
        let (mut left, mut first) = (Vec::new(), 0);
        for stretch in order.chunk_by(|one, next| producers[*one] == producers[*next]) {
            left.push(first..first + stretch.len());
            first += stretch.len();
        }
        let mut turns = Self { order, left, awaited: BTreeMap::new(), ready: Vec::new() };
        (0..turns.left.len()).for_each(|number| turns.begin(number));
        turns
    }

    /// The next get to begin.
    fn next(&mut self) -> Option<usize> {
        self.ready.pop()
    }

    /// Begins the next stretch of a producer.
    fn begin(&mut self, number: usize) {
        if let Some(last) = self.stretch(number).next_back() {
            let get = self.order[last];
            self.awaited.insert(get, number);
            self.ready.push(get);
        }
    }

    fn stretch(&self, number: usize) -> Range<usize> {
        let Range { start, end } = self.left[number];
        start..end.min(start + STRETCH)
    }

    /// Notes that the value of a get has come.
    fn came(&mut self, get: usize) {
        let Some(number) = self.awaited.remove(&get) else { return };
        let Range { start, end } = self.stretch(number);
        self.ready.extend_from_slice(&self.order[start..end - 1]);
        self.left[number].start = end;
        self.begin(number);
    }
}

/// The protocol, and the window and clock on which it runs.
struct Driver<W> {
    window: W,
    /// The segment of the window.
    segment: Segment,
    node: Node,
    clock: MonotonicClock,
    effects: Vec<Effect>,
    /// The answers of the last call of the node. They are taken before the next call.
    answers: Vec<Answer>,
    /// The events of the window, and the number of them that the node already knows.
    events: Vec<Event>,
    next: usize,
    /// Number of the next call. Calls that end with an error leave gets in the node, whose answers come
    /// later, so numbers are not used again.
    op: u64,
    traffic: Traffic,
    /// Whether the node waits for all others.
    meets: bool,
}

impl<W: Window> Driver<W> {
    /// Nanoseconds since the start.
    fn now(&self) -> u64 {
        1_000 * self.clock.now().0
    }

    /// Reserves numbers for `count` operations: the returned number and those that follow it.
    fn ops(&mut self, count: usize) -> u64 {
        let first = self.op;
        self.op += count as u64;
        first
    }

    /// Lets the window go on. [`Self::step`] handles its events.
    fn look(&mut self) {
        self.window.poll(&mut self.events);
    }

    /// Tells the node everything that has happened, and waits for nothing.
    fn catch_up(&mut self, members: &Members) -> Result<(), Error> {
        self.look();
        while self.take_event(members)? {}
        Ok(())
    }

    /// Executes the effects of the last call of the node. After an error, it tells the node that the
    /// remaining operations have failed, so that the node does not wait for them.
    fn act(&mut self, members: &Members) -> Result<(), Error> {
        let mut result = Ok(());
        loop {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                let (id, other, begun) = match effect {
                    Effect::Read { from, remote, into, words, id } => {
                        self.traffic.read_bytes += 8 * words as u64;
                        let begin = |window: &mut W| window.read(from, remote, into, words, id);
                        (id, from, result.is_ok().then(|| self.begin(members, begin)))
                    }
                    Effect::Write { to, local, remote, words, hint, id } => {
                        self.traffic.written_bytes += 8 * words as u64;
                        let begin = |window: &mut W| window.write(to, local, remote, words, hint, id);
                        (id, to, result.is_ok().then(|| self.begin(members, begin)))
                    }
                    Effect::Answer(answer) => {
                        self.answers.push(answer);
                        continue;
                    }
                    Effect::Meet => {
                        self.meets = true;
                        continue;
                    }
                    // The window is dropped when the node has finished.
                    Effect::Release => continue,
                };
                match begun {
                    Some(Ok(())) => continue,
                    Some(Err(error)) => result = Err(error),
                    None => {}
                }
                self.node.failed(&self.segment, id, other, "it was not begun", &mut self.effects);
            }
            if self.effects.is_empty() {
                self.effects = effects;
                return result;
            }
        }
    }

    /// Sets an item; waits until it is set.
    fn set(&mut self, members: &Members, key: u64, clock: u64, value: &[u64]) -> Result<(), Error> {
        let op = self.ops(1);
        let began = self.node.set(&self.segment, op, key, clock, value, &mut self.effects);
        began.map_err(Error::from)?;
        self.act(members)?;
        loop {
            for answer in self.answers.drain(..) {
                match answer {
                    Answer::Set { op: of } if of == op => return Ok(()),
                    Answer::NotSet { op: of, error } if of == op => {
                        return Err(Error::from(error));
                    }
                    // These belong to earlier calls that have ended with an error.
                    Answer::Set { .. }
                    | Answer::NotSet { .. }
                    | Answer::Got { .. }
                    | Answer::NotGot { .. }
                    | Answer::Finished { .. } => {}
                }
            }
            self.step(members)?;
        }
    }

    /// Begins to get an item.
    fn get(&mut self, members: &Members, op: u64, Get { key, clock, slack }: Get) -> Result<(), Error> {
        let wanted = clock.saturating_sub(slack);
        if let Some(last) = self.node.last_set(key).filter(|last| *last < wanted) {
            return Err(Error::OwnNotSet { key, wanted, last });
        }
        let now = self.now();
        let began = self.node.get(&self.segment, now, op, key, clock, slack, &mut self.effects);
        began.map_err(Error::from)?;
        self.act(members)
    }

    /// Begins an operation as soon as the window has room for it, and waits until the card that executes it
    /// has room as well: afterwards the caller may compute, or wait for other nodes, for long.
    fn begin(
        &mut self,
        members: &Members,
        operation: impl Fn(&mut W) -> Result<(), WindowError>,
    ) -> Result<(), Error> {
        loop {
            match operation(&mut self.window) {
                Err(WindowError::Full { .. }) => {
                    members.check()?;
                    self.window.wait(LOOK).map_err(Error::from)?;
                    self.window.poll(&mut self.events);
                }
                began => {
                    began.map_err(Error::from)?;
                    break;
                }
            }
        }
        while self.window.is_behind() {
            members.check()?;
            self.window.wait(LOOK).map_err(Error::from)?;
            self.window.poll(&mut self.events);
        }
        Ok(())
    }

    /// Tells the node one event. Returns whether there was one.
    fn take_event(&mut self, members: &Members) -> Result<bool, Error> {
        let now = self.now();
        let Self { node, segment, effects, .. } = self;
        let Some(event) = self.events.get(self.next) else {
            self.events.clear();
            self.next = 0;
            return Ok(false);
        };
        self.next += 1;
        match event {
            Event::Done(id) => node.done(segment, now, *id, effects),
            Event::Failed { id, node: other, reason } => node.failed(segment, *id, *other, reason, effects),
            Event::Hint(hint) => node.hint(segment, *hint, effects),
            Event::Closed { node: other, reason } => node.closed(segment, *other, reason, effects),
        }
        self.act(members)?;
        Ok(true)
    }

    /// Tells the node one event, or waits until something has happened, or may have.
    fn step(&mut self, members: &Members) -> Result<(), Error> {
        if self.take_event(members)? {
            return Ok(());
        }
        self.look();
        if !self.events.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let sleep = match self.node.next_check() {
            Some(at) if at <= now => {
                self.node.check(&self.segment, now, &mut self.effects);
                return self.act(members);
            }
            Some(at) => LOOK.min(Duration::from_nanos(at - now)),
            None => LOOK,
        };
        members.check()?;
        self.window.wait(sleep).map_err(Error::from)?;
        Ok(())
    }

    /// Passes the values that have come to `take`, for gets that are numbered from `first` on. Returns the
    /// number of values.
    fn deliver(
        &mut self,
        members: &Members,
        directory: &Directory,
        first: u64,
        value: &mut Vec<u64>,
        take: &mut impl FnMut(usize, u64, &[u64]),
    ) -> Result<usize, Error> {
        let mut delivered = 0;
        for answer in self.answers.drain(..) {
            match answer {
                Answer::Got { op, .. } | Answer::NotGot { op, .. } if op < first => {
                    // This belongs to an earlier call, which has ended with an error.
                }
                Answer::Got { op, key, .. } => {
                    value.resize(directory.value_words(key).unwrap_or(0), 0);
                    let clock = self.node.value(&self.segment, key, value).map_err(Error::from)?;
                    take((op - first) as usize, clock, value);
                    delivered += 1;
                }
                Answer::NotGot { error: GetError::PeerLost { node, reason, .. }, .. } => {
                    return Err(members.lost(node, &reason));
                }
                Answer::NotGot { error, .. } => return Err(Error::from(error)),
                // No other call waits.
                Answer::Set { .. } | Answer::NotSet { .. } | Answer::Finished { .. } => {}
            }
        }
        Ok(delivered)
    }
}
