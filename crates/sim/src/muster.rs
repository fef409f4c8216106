//! Processes that look for the next view of a run, in virtual time: messages are late or lost, processes die
//! or stand still, and some do not reach others.
//!
//! What a process asks, answers and decides is that of real runs (`intendant_views`); this module is their
//! network and their clock. It executes the programs of the processes, one step at a time. [`agree`] is how
//! long they take to agree when one is lost.

use crate::dice::Dice;
use intendant_core::{Tick, random};
use intendant_views::{Answer, Asked, Ballot, Muster, NoAnswer, Notice, Offer, Process, View, World, find};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Until a system says that no process is at a port.
const REFUSAL_US: u64 = 1_000;

/// For so long processes look for the next view.
const AGREE_US_MAX: u64 = 60_000_000;

/// The program of a process.
pub type Program = Pin<Box<dyn Future<Output = ()>>>;

/// What happens next.
enum Event {
    Wake(u64),
    Question { ask: u64, from: u64, at: SocketAddr, offer: Box<Offer> },
    Answer { ask: u64, to: u64, answer: Box<Result<Answer, NoAnswer>> },
    Late { ask: u64, to: u64 },
}

/// A process as others see it.
#[derive(Debug)]
pub struct Seen {
    /// What it answers.
    pub muster: Muster,
    /// Whether it has not died or ended.
    pub lives: bool,
    /// Whether its machine dies with it, so that nothing answers at its address.
    pub is_silent: bool,
    /// Until then it stands still.
    pub frozen_until: u64,
    /// Its side, while the network is divided.
    pub side: u8,
    /// Changes of what it has promised, accepted and learned.
    pub changes: u64,
    /// It dies at this change.
    pub dies_at: Option<u64>,
    /// The last one.
    position: Position,
}

/// What a process has promised, accepted and learned.
type Position = (Ballot, Option<Ballot>, u64);

impl Seen {
    /// A process that lives.
    #[must_use]
    pub const fn new(muster: Muster) -> Self {
        let position = (Ballot { view: 0, round: 0, leader: 0 }, None, 0);
        Self {
            muster,
            lives: true,
            is_silent: false,
            frozen_until: 0,
            side: 0,
            changes: 0,
            dies_at: None,
            position,
        }
    }
}

/// The state of the network. Times are in microseconds.
pub struct Net {
    /// The time.
    pub now: u64,
    /// All randomness.
    pub dice: Dice,
    /// The processes, by id.
    pub seen: BTreeMap<u64, Seen>,
    /// Until then, the sides do not reach each other.
    pub divided_until: u64,
    /// Processes that do not reach each other, until then.
    pub unlinked: Vec<(u64, u64, u64)>,
    /// The views that were chosen, by number, as the processes have learned.
    pub chosen: BTreeMap<u64, View>,
    /// Two views with one number.
    pub apart: Option<String>,
    /// Longest delay of a message.
    delay_us: u64,
    /// One of so many messages is lost; 0 for none.
    loses: u64,
    /// Hash of all events.
    pub hash: u64,
    /// Their number.
    pub events: u64,
    queue: BTreeMap<(u64, u64), Event>,
    number: u64,
    /// Places where views could meet.
    places: u32,
    awaited: BTreeSet<u64>,
    answers: BTreeMap<u64, Result<Answer, NoAnswer>>,
}

/// The process with this id, on a machine of its own. Ids are below 64,536.
#[must_use]
pub fn process(id: u64) -> Process {
    process_on(id, id)
}

/// The process with this id, on this machine.
#[must_use]
pub fn process_on(id: u64, machine: u64) -> Process {
    let machine = Ipv4Addr::new(127, 1, (machine >> 8) as u8, machine as u8);
    Process { id, address: SocketAddr::from((machine, 1_000 + id as u16)) }
}

/// Its id, by its address.
fn id_at(address: SocketAddr) -> u64 {
    u64::from(address.port()).saturating_sub(1_000)
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("now", &self.now).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Net {
    /// A network without processes. Messages take up to `delay_us`, and one of `loses` is lost; 0 for none.
    #[must_use]
    pub fn new(dice: Dice, delay_us: u64, loses: u64) -> Self {
        Self {
            now: 0,
            dice,
            seen: BTreeMap::new(),
            divided_until: 0,
            unlinked: Vec::new(),
            chosen: BTreeMap::new(),
            apart: None,
            delay_us,
            loses,
            hash: 0,
            events: 0,
            queue: BTreeMap::new(),
            number: 0,
            places: 0,
            awaited: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn schedule(&mut self, at: u64, event: Event) {
        let number = self.next_number();
        self.queue.insert((at, number), event);
    }

    /// Wakes a process at a time.
    pub fn wake(&mut self, id: u64, at: u64) {
        self.schedule(at, Event::Wake(id));
    }

    /// Whether both processes live, the second does not stand still, and messages get from one to the other.
    #[must_use]
    pub fn reaches(&self, from: u64, to: u64) -> bool {
        let is_cut = self.is_cut(from, to);
        let (Some(from), Some(to)) = (self.seen.get(&from), self.seen.get(&to)) else { return false };
        from.lives && to.lives && self.now >= to.frozen_until && !is_cut
    }

    /// Whether no message gets from one process to another one.
    fn is_cut(&self, from: u64, to: u64) -> bool {
        let side = |id: u64| self.seen.get(&id).map(|seen| seen.side);
        let is_divided = self.now < self.divided_until && side(from) != side(to);
        let link = (from.min(to), from.max(to));
        is_divided || self.unlinked.iter().any(|(a, b, until)| (*a, *b) == link && self.now < *until)
    }

    /// Looks whether a process has another position than before. There is one view at most with each number.
    fn look(&mut self, id: u64) {
        let Some(seen) = self.seen.get_mut(&id) else { return };
        let me = seen.muster.me();
        let accepted = me.vote.accepted().map(|(ballot, _)| *ballot);
        let position = (me.vote.promised(), accepted, me.last.as_ref().map_or(0, |view| view.number));
        if position == seen.position {
            return;
        }
        (seen.position, seen.changes) = (position, seen.changes + 1);
        if seen.dies_at == Some(seen.changes) {
            seen.lives = false;
        }
        if let Some(view) = &me.last {
            let known = self.chosen.entry(view.number).or_insert_with(|| view.clone());
            if known != view {
                self.apart.get_or_insert(format!("two views have one number: {known:?}, and {view:?}"));
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        self.loses > 0 && self.dice.once_in(self.loses)
    }

    fn delay(&mut self) -> u64 {
        1 + self.dice.below(self.delay_us)
    }

    /// Sends the offer of a process.
    fn ask(&mut self, from: u64, at: SocketAddr, within_us: u64) -> u64 {
        let ask = self.next_number();
        self.awaited.insert(ask);
        self.schedule(self.now + within_us, Event::Late { ask, to: from });
        if let Some(seen) = self.seen.get_mut(&from) {
            let offer = Box::new(seen.muster.me().clone());
            let arrives = self.now + self.delay();
            self.schedule(arrives, Event::Question { ask, from, at, offer });
        }
        ask
    }

    /// A question arrives.
    fn arrive(&mut self, ask: u64, from: u64, at: SocketAddr, offer: Box<Offer>) {
        let (to, now) = (id_at(at), self.now);
        if self.is_cut(from, to) || self.is_lost() {
            return;
        }
        let (answer, after) = match self.seen.get_mut(&to) {
            // Its system takes the question in, and the process answers when it goes on.
            Some(seen) if seen.lives && now < seen.frozen_until => {
                let until = seen.frozen_until;
                return self.schedule(until, Event::Question { ask, from, at, offer });
            }
            Some(seen) if seen.lives => {
                (Ok(seen.muster.answer(Tick(now), Asked::Offer(*offer))), self.delay())
            }
            Some(seen) if seen.is_silent => return,
            Some(_) | None => (Err(NoAnswer::Gone), REFUSAL_US),
        };
        self.look(to);
        if !self.is_lost() {
            self.schedule(now + after, Event::Answer { ask, to: from, answer: Box::new(answer) });
        }
    }

    /// The next event; the process that goes on with it.
    fn next(&mut self, end: u64) -> Option<Option<u64>> {
        let ((at, _), event) = self.queue.first_entry().filter(|next| next.key().0 <= end)?.remove_entry();
        self.now = at;
        self.events += 1;
        let (kind, id) = match &event {
            Event::Wake(id) => (0, *id),
            Event::Question { ask, .. } => (1, *ask),
            Event::Answer { ask, .. } => (2, *ask),
            Event::Late { ask, .. } => (3, *ask),
        };
        self.hash = random::stream(self.hash, &[at, kind, id]);
        Some(match event {
            Event::Wake(id) => Some(id),
            Event::Question { ask, from, at, offer } => {
                self.arrive(ask, from, at, offer);
                None
            }
            Event::Answer { ask, to, answer } => self.awaited.remove(&ask).then(|| {
                self.answers.insert(ask, *answer);
                to
            }),
            Event::Late { ask, to } => self.awaited.remove(&ask).then(|| {
                self.answers.insert(ask, Err(NoAnswer::Late));
                to
            }),
        })
    }
}

/// What a process sees of the network.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The network.
    pub net: Rc<RefCell<Net>>,
    /// The process.
    pub id: u64,
}

impl Outside {
    /// Looks at the network, or changes it.
    pub fn with<R>(&self, act: impl FnOnce(&mut Net) -> R) -> R {
        act(&mut self.net.borrow_mut())
    }

    /// Whether the system of another process closes its connections, because it is dead.
    #[must_use]
    pub fn is_closed(&self, id: u64) -> bool {
        self.with(|net| net.seen.get(&id).is_some_and(|seen| !seen.lives && !seen.is_silent))
    }

    async fn answer(&self, ask: u64) -> Result<Answer, NoAnswer> {
        poll_fn(|_| {
            let answer = self.net.borrow_mut().answers.remove(&ask);
            answer.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl World for Outside {
    fn now(&self) -> Tick {
        Tick(self.net.borrow().now)
    }

    fn muster<R>(&self, act: impl FnOnce(&mut Muster) -> R) -> R {
        let mut net = self.net.borrow_mut();
        act(&mut net.seen.get_mut(&self.id).expect("a process is seen as long as it runs").muster)
    }

    async fn sleep(&self, us: u64) {
        let until = self.with(|net| {
            let until = net.now + us;
            net.wake(self.id, until);
            until
        });
        poll_fn(|_| if self.net.borrow().now >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    async fn offer(&self, at: SocketAddr, within_us: u64) -> Result<Answer, NoAnswer> {
        let ask = self.with(|net| net.ask(self.id, at, within_us));
        self.answer(ask).await
    }

    fn listen(&self) -> io::Result<SocketAddr> {
        // Each has an address of its own.
        let place = self.with(|net| {
            net.places += 1;
            net.places
        });
        Ok(SocketAddr::from((Ipv4Addr::from_bits(u32::from(Ipv4Addr::LOCALHOST) + place), 1)))
    }

    fn say(&self, _notice: Notice) {}
}

/// Executes the programs until the time `end`. Those that have ended, or whose processes are dead, are
/// removed.
pub fn execute(net: &Rc<RefCell<Net>>, programs: &mut BTreeMap<u64, Program>, end: u64) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let Some(next) = net.borrow_mut().next(end) else { return };
        let Some(id) = next else { continue };
        let (lives, frozen_until) = match net.borrow().seen.get(&id) {
            Some(seen) => (seen.lives, seen.frozen_until),
            None => (false, 0),
        };
        if !lives {
            programs.remove(&id);
            continue;
        }
        let now = net.borrow().now;
        if now < frozen_until {
            net.borrow_mut().wake(id, frozen_until);
            continue;
        }
        if let Some(program) = programs.get_mut(&id)
            && program.as_mut().poll(&mut context).is_ready()
        {
            programs.remove(&id);
        }
        net.borrow_mut().look(id);
    }
}

/// How long the nodes of a view take that has lost one, from the loss until all others have found the next
/// view; `None` if they cannot go on. Messages take up to `delay_us`. All of them notice the loss at once.
#[must_use]
pub fn agree(nodes: usize, lost: u16, delay_us: u64, seed: u64) -> Option<u64> {
    let net = Rc::new(RefCell::new(Net::new(Dice::new(seed), delay_us, 0)));
    let ids = 0..nodes as u64;
    let first = View::first(ids.clone().map(process).collect());
    let found = Rc::new(RefCell::new(Vec::new()));
    let mut programs: BTreeMap<u64, Program> = BTreeMap::new();
    for id in ids.filter(|id| *id != u64::from(lost)) {
        let mut muster = Muster::new(Offer::of(process(id), Some(first.clone())));
        muster.entered(&first);
        muster.lose([u64::from(lost)]);
        net.borrow_mut().seen.insert(id, Seen::new(muster));
        net.borrow_mut().wake(id, 0);
        let (outside, found) = (Outside { net: Rc::clone(&net), id }, Rc::clone(&found));
        programs.insert(
            id,
            Box::pin(async move {
                if find(&outside, None, AGREE_US_MAX).await.is_ok() {
                    found.borrow_mut().push(outside.now().0);
                }
            }),
        );
    }
    execute(&net, &mut programs, AGREE_US_MAX);
    let found = found.borrow();
    let all = found.len() + 1 == nodes;
    found.iter().max().copied().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_agree_within_a_tenth_of_a_second() {
        for (nodes, lost) in [(3, 0), (4, 3), (8, 0), (64, 17)] {
            let us = agree(nodes, lost, 100, 1).expect("more than half are left");
            assert!((1_000..150_000).contains(&us), "{nodes} nodes without {lost}: {us} us");
        }
        assert_eq!(agree(2, 0, 100, 1), None, "half of the nodes, without node 0");
        assert!(agree(2, 1, 100, 1).is_some());
    }
}
