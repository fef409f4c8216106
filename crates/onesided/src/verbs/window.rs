//! A window to nodes that a network card reaches.

use super::peer::{Kind, Local, Peer, RECOUNT, Work};
use crate::window::{check_hint, check_places};
use crate::{Event, WaitError, Window, WindowError};
use intendant_segment::Segment;
use intendant_verbs::{Completion, Completions, Memory};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Operations are split into parts of at most this size, so that each part ends in time on slow networks.
const PART_BYTES_MAX: usize = 1 << 20;
/// Time between two checks for silent nodes.
const TICK: Duration = Duration::from_millis(100);
/// How long a dropped window waits until its goodbye has reached the other nodes.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// Time between two looks during this wait.
const GOODBYE_LOOK: Duration = Duration::from_millis(10);

/// A window to nodes that an RDMA card reaches, by reliable connections.
///
/// The card executes the operations: the processor of neither node copies anything. An operation has ended
/// when [`Event::Done`] reports it; the other card has then acknowledged a write, and the other node may see
/// it a little later. For each node, 1,024 operations may wait for the card; further operations are refused
/// ([`WindowError::Full`]). They go to the card when the caller polls or waits.
///
/// The caller need not care about hints to a node that does not look: at most 256 hints are in flight, and
/// the window keeps the others, coalesces them, and sends them later. No hint is lost while both nodes live.
///
/// The window notices that a node has ended, or cannot be reached, when an operation with it fails. It probes
/// each node from which it has heard nothing for a second. Both happen only in calls of
/// [`poll`](Window::poll) or [`wait`](Window::wait); time without such calls does not count as silence of
/// other nodes. Cards retry for half a second to a few seconds before they give up. The window does not
/// notice a stopped node (SIGSTOP), because its card answers.
#[derive(Debug)]
pub struct VerbsWindow {
    rank: usize,
    /// The other nodes by number; `None` for this node. The field is before the memory, so that queue pairs
    /// end first.
    peers: Vec<Option<Peer>>,
    completions: Arc<Completions>,
    counters: Memory,
    memory: Memory,
    part_words_max: usize,
    /// Events that were not polled yet.
    events: Vec<Event>,
    hints: Vec<u32>,
    taken: Vec<Completion>,
    next_tick: Instant,
    last_look: Instant,
}

#[expect(clippy::disallowed_methods, reason = "bounds of time for other nodes; no protocol depends on it")]
pub(super) fn now() -> Instant {
    Instant::now()
}

impl VerbsWindow {
    pub(super) fn new(
        rank: usize,
        memory: Memory,
        counters: Memory,
        completions: Arc<Completions>,
        peers: Vec<Option<Peer>>,
        message_bytes_max: usize,
    ) -> Self {
        let part_words_max = (PART_BYTES_MAX.min(message_bytes_max) / size_of::<u64>()).max(1);
        let (events, hints, taken) = (Vec::new(), Vec::new(), Vec::new());
        let last_look = now();
        let next_tick = last_look + TICK;
        Self {
            rank,
            peers,
            completions,
            counters,
            memory,
            part_words_max,
            events,
            hints,
            taken,
            next_tick,
            last_look,
        }
    }

    /// Ends the connection to a node that has ended, as the caller knows for example from the control plane.
    /// [`Event::Closed`] follows, as if this window had noticed the end. The call has no effect if `node` is
    /// not the number of another node.
    pub fn close(&mut self, node: usize) {
        if let Some(Some(peer)) = self.peers.get_mut(node) {
            peer.end(format!("node {node} has ended"), now());
        }
    }

    /// Checks that node and words exist.
    fn check(&self, node: usize, local: usize, remote: usize, words: usize) -> Result<(), WindowError> {
        let peer = match self.peers.get(node) {
            None => return Err(WindowError::Node { node, nodes: self.peers.len() }),
            Some(None) => return Err(WindowError::Own { node }),
            Some(Some(peer)) => peer,
        };
        let there = usize::try_from(peer.remote.words).unwrap_or(usize::MAX);
        check_places(words, [(node, remote, there), (self.rank, local, self.local().words())])?;
        if peer.is_open() && peer.is_full() {
            return Err(WindowError::Full { node, operations: peer.operations() });
        }
        Ok(())
    }

    /// The other nodes, and the parts of the window that they use.
    fn parts(&mut self) -> (&mut Vec<Option<Peer>>, Local<'_>, &mut Vec<Event>) {
        let local = Local {
            rank: self.rank,
            nodes: self.peers.len(),
            memory: &self.memory,
            counters: &self.counters,
            part_words_max: self.part_words_max,
            now: now(),
        };
        (&mut self.peers, local, &mut self.events)
    }

    fn begin(&mut self, node: usize, work: Work) {
        let (peers, local, events) = self.parts();
        if let Some(Some(peer)) = peers.get_mut(node) {
            if work.words == 0 && peer.is_open() && !matches!(work.kind, Kind::Write(Some(_))) {
                events.push(Event::Done(work.id));
            } else {
                peer.begin(work, &local, events);
            }
        }
    }

    /// Takes all completions that have arrived.
    fn drain(&mut self) -> io::Result<()> {
        let mut again = true;
        while again {
            again = false;
            loop {
                let mut taken = std::mem::take(&mut self.taken);
                let more = self.completions.take(&mut taken)?;
                taken.drain(..).for_each(|completion| self.completed(completion));
                self.taken = taken;
                if !more {
                    break;
                }
            }
            // A queue pair that has just failed may have brought hints after the last look.
            let now = now();
            for at in 0..self.peers.len() {
                let Some(Some(peer)) = self.peers.get_mut(at) else { continue };
                if !peer.is_ending() {
                    continue;
                }
                if peer.was_seen() {
                    report(&mut self.hints, &mut self.events);
                    peer.settle(now, &mut self.events);
                } else {
                    again = true;
                }
            }
        }
        report(&mut self.hints, &mut self.events);
        Ok(())
    }

    fn completed(&mut self, completion: Completion) {
        let (node, is_hint) = Peer::of_id(completion.id);
        let (peers, local, events) = self.parts();
        let Some(Some(peer)) = peers.get_mut(node) else { return };
        if is_hint {
            let hint = peer.received(completion.result, &local);
            self.hints.extend(hint);
        } else {
            peer.sent(completion.result.map(|_| ()), &local, events);
        }
    }

    /// Checks silent nodes, and sets the time of the next check.
    fn tick(&mut self) {
        let (peers, local, events) = self.parts();
        for peer in peers.iter_mut().flatten() {
            peer.tick(&local, events);
        }
        let now = local.now;
        self.next_tick = now + self.tick_time();
    }

    fn tick_time(&self) -> Duration {
        let late = self.peers.iter().flatten().any(|peer| peer.is_open() && peer.has_late_hints());
        if late { RECOUNT } else { TICK }
    }

    fn look(&mut self) -> io::Result<()> {
        // Completions come first: an operation that has ended since the last look is a sign of life, however
        // long ago that look was.
        self.drain()?;
        let now = now();
        let unseen = now.saturating_duration_since(self.last_look).saturating_sub(TICK);
        self.last_look = now;
        if !unseen.is_zero() {
            self.peers.iter_mut().flatten().for_each(|peer| peer.excuse(unseen, now));
        }
        if now >= self.next_tick {
            self.tick();
            self.drain()?;
        }
        Ok(())
    }
}

/// Reports hints that came since the last look, equal hints once.
fn report(hints: &mut Vec<u32>, events: &mut Vec<Event>) {
    hints.sort_unstable();
    hints.dedup();
    events.extend(hints.drain(..).map(Event::Hint));
}

impl Window for VerbsWindow {
    fn local(&self) -> &Segment {
        self.memory.segment()
    }

    fn nodes(&self) -> usize {
        self.peers.len()
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn read(
        &mut self,
        from: usize,
        remote: usize,
        into: usize,
        words: usize,
        id: u64,
    ) -> Result<(), WindowError> {
        self.check(from, into, remote, words)?;
        self.begin(from, Work { id, kind: Kind::Read, local: into, remote, words });
        Ok(())
    }

    fn write(
        &mut self,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
    ) -> Result<(), WindowError> {
        self.check(to, local, remote, words)?;
        check_hint(hint)?;
        self.begin(to, Work { id, kind: Kind::Write(hint), local, remote, words });
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Event>) {
        if let Err(error) = self.look() {
            // Without completions, this node hears nothing more from any node.
            let now = now();
            for peer in self.peers.iter_mut().flatten() {
                peer.end(format!("the card of this node does not answer: {error}"), now);
                peer.settle(now, &mut self.events);
            }
        }
        out.append(&mut self.events);
    }

    fn is_behind(&self) -> bool {
        self.peers.iter().flatten().any(Peer::is_behind)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, WaitError> {
        let end = now().checked_add(timeout);
        loop {
            if !self.events.is_empty() {
                return Ok(true);
            }
            self.completions.arm()?;
            self.look()?;
            if !self.events.is_empty() {
                return Ok(true);
            }
            let now = now();
            let left = end.map_or(timeout, |end| end.saturating_duration_since(now));
            if left.is_zero() {
                return Ok(false);
            }
            self.completions.sleep(left.min(self.next_tick.saturating_duration_since(now)))?;
        }
    }
}

impl Drop for VerbsWindow {
    fn drop(&mut self) {
        let end = now() + GOODBYE_MAX;
        loop {
            if self.look().is_err() {
                return;
            }
            let (peers, local, _) = self.parts();
            let mut all = true;
            for peer in peers.iter_mut().flatten() {
                all &= peer.say_goodbye(&local);
            }
            if all || local.now >= end {
                return;
            }
            // An error here only shortens the wait; the loop still ends in time.
            let _ = self.completions.arm();
            let _ = self.completions.sleep(GOODBYE_LOOK);
        }
    }
}
