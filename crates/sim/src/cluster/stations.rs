//! The stations of a cluster: which input a channel handles next, its timer, and the rests between its looks,
//! as threads of nodes take them ([`LookTimer`](intendant_engine::LookTimer)).
//!
//! Timers alone do not keep a run alive. When no other event is left, each timer expires once or twice more;
//! if that has no effect, the run is over.

use super::agenda::Agenda;
use super::event::Event;
use super::station::Station;
use crate::facility::Load;
use crate::reach::{Marker, Reach};
use intendant_core::{Element, Tick};
use intendant_engine::{ChannelReport, Input, ManagementStats};
use std::ops::{Index, IndexMut};

/// A source of inputs of a channel.
pub(super) enum Source {
    Timer,
    Inbox,
    /// The node at this place of [`Station::senders`].
    Sender(usize),
}

/// What a channel does in a turn, for the timer of its looks.
pub(super) enum LookOrInput {
    /// It looks; when its next round was due before.
    Look(Tick),
    Input,
}

/// The channels of all nodes with their threads. They are numbered by node, then channel.
pub(super) struct Stations<E> {
    stations: Vec<Station<E>>,
    channels: usize,
    /// Pending timer events.
    timers: usize,
    /// Timer events and ticks that have happened.
    ticks: u64,
    /// Channels that are handling a tick.
    ticking: usize,
    /// Timer events without effect since the last activity, and the time of that activity.
    idle_timers: usize,
    last_activity_ns: u64,
}

impl<E> Index<usize> for Stations<E> {
    type Output = Station<E>;

    #[inline]
    fn index(&self, station: usize) -> &Station<E> {
        &self.stations[station]
    }
}

impl<E> IndexMut<usize> for Stations<E> {
    #[inline]
    fn index_mut(&mut self, station: usize) -> &mut Station<E> {
        &mut self.stations[station]
    }
}

impl<E: Element> Stations<E> {
    /// The stations of nodes with this many channels each.
    pub(super) fn new(stations: Vec<Station<E>>, channels: usize) -> Self {
        Self { stations, channels, timers: 0, ticks: 0, ticking: 0, idle_timers: 0, last_activity_ns: 0 }
    }

    /// The number of a channel's station.
    pub(super) fn number(&self, node: usize, channel: usize) -> usize {
        node * self.channels + channel
    }

    /// Node and channel of a station.
    pub(super) fn place(&self, station: usize) -> (usize, usize) {
        (station / self.channels, station % self.channels)
    }

    /// All stations.
    pub(super) fn all(&self) -> &[Station<E>] {
        &self.stations
    }

    /// All stations.
    pub(super) fn all_mut(&mut self) -> &mut [Station<E>] {
        &mut self.stations
    }

    /// Busy time of the channels of a node.
    pub(super) fn busy_ns(&self, node: usize) -> u64 {
        let channels = &self.stations[node * self.channels..(node + 1) * self.channels];
        channels.iter().map(|station| station.thread.load().busy_ns).sum()
    }

    /// Load of the channels' threads so far.
    pub(super) fn load(&self) -> Load {
        let mut load = Load::default();
        self.stations.iter().for_each(|station| load.merge(&station.thread.load()));
        load
    }

    /// Management counters of all channels.
    pub(super) fn management(&self) -> ManagementStats {
        let mut sum = ManagementStats::default();
        self.stations.iter().for_each(|station| sum.merge(station.engine.management()));
        sum
    }

    /// Sum of the reports of all channels.
    pub(super) fn report(&self) -> ChannelReport {
        let mut report = ChannelReport::default();
        self.stations.iter().for_each(|station| report.merge(station.engine.report()));
        report
    }

    /// Whether all channels sleep.
    pub(super) fn sleep(&self) -> bool {
        self.stations.iter().all(|station| station.engine.is_asleep())
    }

    /// Picks a random source among those with an input; `None` if no input waits, or the channel handles one.
    pub(super) fn choose(&self, station: usize, agenda: &mut Agenda, reach: &mut Reach) -> Option<Source> {
        let station = &self.stations[station];
        if station.current.is_some() {
            return None;
        }
        let (timer, inbox) = (usize::from(station.timer.is_due), usize::from(!station.inbox.is_empty()));
        let count = timer + inbox + station.senders.len();
        let nth = match count {
            0 => return None,
            1 => 0,
            _ => {
                reach.mark(Marker::CrowdedChannel);
                agenda.choose(count)
            }
        };
        Some(if nth < timer {
            Source::Timer
        } else if nth < timer + inbox {
            Source::Inbox
        } else {
            Source::Sender(nth - timer - inbox)
        })
    }

    /// Timer events and ticks that have happened.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// When a channel's tick is due, its rest included.
    fn tick_due(&self, station: usize) -> Option<Tick> {
        let Station { engine, looks, .. } = &self.stations[station];
        Some(looks.next(engine.due()?))
    }

    /// Sets a channel's timer to the time that the channel names.
    pub(super) fn set_timer(&mut self, station: usize, agenda: &mut Agenda) {
        let Some(Tick(due_us)) = self.tick_due(station) else { return };
        let at_ns = due_us.saturating_mul(1_000).max(agenda.now_ns());
        let timer = &mut self.stations[station].timer;
        if timer.is_due || timer.at_ns == Some(at_ns) {
            return;
        }
        timer.at_ns = Some(at_ns);
        self.timers += 1;
        agenda.schedule(at_ns, Event::Due { station: station as u32 });
    }

    /// A timer event happens. Returns whether the channel is to handle a tick.
    pub(super) fn expire(&mut self, station: usize, agenda: &mut Agenda) -> bool {
        self.timers -= 1;
        self.ticks += 1;
        let now_ns = agenda.now_ns();
        let timer = &mut self.stations[station].timer;
        if timer.at_ns != Some(now_ns) {
            return false;
        }
        timer.at_ns = None;
        self.idle_timers += 1;
        if self.tick_due(station).is_some_and(|due| due.0.saturating_mul(1_000) <= now_ns) {
            self.stations[station].timer.is_due = true;
            return true;
        }
        self.set_timer(station, agenda);
        false
    }

    /// A channel takes a tick as its next input.
    pub(super) fn take_tick(&mut self, station: usize) {
        self.stations[station].timer.is_due = false;
        self.ticking += 1;
    }

    /// A channel is about to handle the input that its thread has worked on.
    pub(super) fn begins(&mut self, station: usize, input: &Input) -> LookOrInput {
        let Station { engine, looks, .. } = &mut self.stations[station];
        if matches!(input, Input::Tick) {
            self.ticks += 1;
            self.ticking -= 1;
            return LookOrInput::Look(engine.next_round());
        }
        // A request for a report is no activity.
        if !matches!(input, Input::Settle) && looks.stir() {
            engine.hasten_round();
        }
        LookOrInput::Input
    }

    /// A channel has handled an input, and its thread has been charged for what follows.
    pub(super) fn ends(&mut self, station: usize, what: LookOrInput) {
        let station = &mut self.stations[station];
        // The thread also does what follows from the input, which begins now.
        let end_ns = station.thread.end_ns();
        let busy = station.thread.load().busy_ns / 1_000;
        let took = busy - std::mem::replace(&mut station.known_busy, busy);
        match what {
            LookOrInput::Input => station.looks.worked(took),
            LookOrInput::Look(before) => {
                let round = (station.engine.next_round() != before).then_some(station.sent);
                if let Some(earliest) = station.looks.looked(Tick(end_ns / 1_000), took, round) {
                    station.engine.postpone_round(earliest);
                }
            }
        }
    }

    /// Notes an event. Whether an input has an effect is known only after it ([`Stations::acted`]).
    pub(super) fn note_event(&mut self, event: Event, now_ns: u64) {
        if !matches!(event, Event::Due { .. } | Event::Turn { .. }) {
            self.acted(now_ns);
        }
    }

    /// Notes activity: something that is no timer without effect.
    pub(super) fn acted(&mut self, now_ns: u64) {
        self.idle_timers = 0;
        self.last_activity_ns = now_ns;
    }

    /// Time of the last activity.
    pub(super) fn last_activity_ns(&self) -> u64 {
        self.last_activity_ns
    }

    /// Whether only timers without effect are left, if `pending` events are to come.
    pub(super) fn only_timers_are_left(&self, pending: usize) -> bool {
        // A channel that is awake may be about to act on an intent, even if other channels tick more often.
        pending == self.timers + self.ticking
            && self.idle_timers > self.idle_timers_max()
            && self.stations.iter().all(|station| station.engine.is_asleep() && !station.has_input())
    }

    /// Number of consecutive timers without effect after which the run is over.
    fn idle_timers_max(&self) -> usize {
        2 * self.stations.len()
    }
}
