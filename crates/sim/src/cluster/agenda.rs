//! The agenda: the events to come, in the order of virtual time, all random choices, and the record of what
//! has happened.

use super::event::Event;
use crate::dice::Dice;
use crate::invariants::{Finding, Violation};
use crate::queue::Queue;
use crate::spread::Spread;
use crate::trace::Trace;
use intendant_core::Tick;

/// The agenda of a cluster. It owns the only source of randomness, which also orders events of the same time.
pub(super) struct Agenda {
    queue: Queue<Event>,
    dice: Dice,
    trace: Trace,
}

impl Agenda {
    /// An empty agenda at virtual time 0. With `lines`, the record is readable.
    pub(super) fn new(dice: Dice, lines: bool) -> Self {
        Self { queue: Queue::new(), dice, trace: Trace::new(lines) }
    }

    /// The virtual time.
    pub(super) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// The virtual time, as engines know it.
    pub(super) fn now(&self) -> Tick {
        Tick(self.queue.now_ns() / 1000)
    }

    /// Schedules an event at `at_ns`, which is not in the past.
    pub(super) fn schedule(&mut self, at_ns: u64, event: Event) {
        self.queue.schedule(at_ns, event, &mut self.dice);
    }

    /// Draws a duration.
    #[inline]
    pub(super) fn draw(&mut self, spread: Spread) -> u64 {
        spread.draw(&mut self.dice)
    }

    /// A random number below `count`.
    pub(super) fn choose(&mut self, count: usize) -> usize {
        self.dice.below(count as u64) as usize
    }

    /// Takes the next event, and records it; `None` if there is none.
    pub(super) fn next(&mut self) -> Option<Event> {
        let event = self.queue.next()?;
        let (kind, who, what) = match event {
            Event::Awake { worker } => (0, worker, 0),
            Event::Loaded { worker } => (1, worker, 0),
            Event::Enqueue { worker, channel } => (2, worker, channel),
            Event::Arrive { link } => (3, link, 0),
            Event::Turn { station } => (4, station, 0),
            Event::Deliver { worker, channel } => (5, worker, channel),
            Event::Intake { worker } => (6, worker, 0),
            Event::Report { station } => (7, station, 0),
            Event::Front { link } => (8, link, 0),
            Event::Due { station } => (9, station, 0),
            Event::Woken { station } => (10, station, 0),
        };
        self.trace.event(self.queue.now_ns(), kind, who, what);
        Some(event)
    }

    /// Time of the next event.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.queue.next_ns()
    }

    /// Number of events to come.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The next events, as far as [`Queue::upcoming`] tells.
    pub(super) fn upcoming(&self) -> impl Iterator<Item = &Event> {
        self.queue.upcoming()
    }

    /// Number of events that have happened.
    pub(super) fn events(&self) -> u64 {
        self.trace.events()
    }

    /// Records the content of a message.
    #[inline]
    pub(super) fn record(&mut self, frame: &[u8]) {
        self.trace.bytes(frame);
    }

    /// Hash of all that was recorded, except for lines.
    pub(super) fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Adds a line to the record if it is readable.
    #[inline]
    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.queue.now_ns(), text);
    }

    /// Whether the record is readable.
    #[inline]
    pub(super) fn has_notes(&self) -> bool {
        self.trace.has_lines()
    }

    /// Takes the lines so far.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }

    /// Adds the current time and event number to a finding.
    pub(super) fn violation(&self, (check, what): Finding) -> Violation {
        Violation { check, at_ns: self.queue.now_ns(), event: self.trace.events(), what }
    }
}
