//! The events between the calls of workers: channels handle inputs and execute the actions that follow, and
//! workers take completions.

use super::event::{Event, Happened};
use super::messages::describe_message;
use super::station::InboxItem;
use super::worker::Delivery;
use super::{Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Element, Tick, WorkerId};
use intendant_engine::{Action, Input, LocalAccess};
use intendant_wire::Message;

/// A source of inputs of a channel.
enum Source {
    Timer,
    Inbox,
    /// The node at this place of [`Station::senders`](super::station::Station::senders).
    Sender(usize),
}

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Executes the next event and checks the invariants. `None` if only timers without effect are left.
    ///
    /// # Errors
    /// If an invariant is broken, or an engine refuses what a peer sent.
    #[expect(clippy::should_implement_trait, reason = "a step can fail, and the caller acts between steps")]
    #[inline(never)]
    pub fn next(&mut self) -> Result<Option<Happened>, Violation> {
        if self.only_timers_are_left() { Ok(None) } else { self.step() }
    }

    /// Like [`Cluster::next`], but also executes timers without effect.
    pub(super) fn step(&mut self) -> Result<Option<Happened>, Violation> {
        let Some(event) = self.queue.next() else { return Ok(None) };
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
        self.note_activity(event);
        let checked = self.progress.step(self.trace.events() - self.ticks, self.ticks).and_then(|()| {
            let (probe, mut seen) = self.observed();
            probe.event(&mut seen)
        });
        checked.map_err(|finding| self.violation(finding))?;
        let happened = match event {
            Event::Awake { worker } => Happened::Awake(worker as usize),
            Event::Loaded { worker } => Happened::Loaded(worker as usize),
            Event::Enqueue { worker, channel } => self.enqueue(worker as usize, channel as usize)?,
            Event::Front { link } => self.front(link as usize)?,
            Event::Arrive { link } => self.arrive(link as usize)?,
            Event::Turn { station } => self.turn(station as usize)?,
            Event::Deliver { worker, channel } => self.deliver(worker as usize, channel as usize),
            Event::Intake { worker } => self.intake(worker as usize),
            Event::Report { station } => self.report(station as usize)?,
            Event::Due { station } => self.due(station as usize)?,
            Event::Woken { station } => self.woken(station as usize)?,
        };
        Ok(Some(happened))
    }

    /// The workers whose programs or loaders (`true`) continue in the next events, as far as the queue tells
    /// at once: [`Queue::upcoming`](crate::queue::Queue::upcoming). `None` for other events.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = Option<(usize, bool)>> {
        self.queue.upcoming().map(|event| match *event {
            Event::Awake { worker } => Some((worker as usize, false)),
            Event::Loaded { worker } => Some((worker as usize, true)),
            Event::Enqueue { .. }
            | Event::Front { .. }
            | Event::Arrive { .. }
            | Event::Turn { .. }
            | Event::Deliver { .. }
            | Event::Intake { .. }
            | Event::Report { .. }
            | Event::Woken { .. }
            | Event::Due { .. } => None,
        })
    }

    fn enqueue(&mut self, worker: usize, channel: usize) -> Result<Happened, Violation> {
        let item = self.worker_states[worker].to_channels[channel].arrive().expect("an item per event");
        let station = self.station(self.node_of(worker), channel);
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, item));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// Picks a random source among those with an input.
    fn choose(&mut self, station: usize) -> Option<Source> {
        let Self { stations, dice, reach, .. } = self;
        let station = &stations[station];
        let (timer, inbox) = (usize::from(station.timer.is_due), usize::from(!station.inbox.is_empty()));
        let count = timer + inbox + station.senders.len();
        let nth = match count {
            0 => return None,
            1 => 0,
            _ => {
                reach.mark(Marker::CrowdedChannel);
                dice.below(count as u64) as usize
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

    /// Starts the next input of a channel whose thread is idle and has an input.
    pub(super) fn begin_turn(&mut self, station: usize) -> Result<(), Violation> {
        if self.stations[station].current.is_some() {
            return Ok(());
        }
        let node = station / self.layout.channels();
        let Some(source) = self.choose(station) else { return Ok(()) };
        let machine = self.delays.machine;
        let mut submitted = 0;
        let (came_ns, work_ns, input) = match source {
            Source::Timer => {
                self.stations[station].timer.is_due = false;
                self.ticking += 1;
                (self.now_ns(), machine.input(0, 0), Input::Tick)
            }
            Source::Inbox => {
                let (came_ns, item) =
                    self.stations[station].inbox.pop_front().expect("the inbox has something");
                let mut received_ns = 0;
                let input = match item {
                    InboxItem::Access(submission) => {
                        if self.delays.ipc {
                            let values = self.delays.charge.bytes(submission.value_bytes());
                            received_ns = machine.input(0, values);
                        }
                        submitted = submission.keys().len();
                        Input::Submit(submission)
                    }
                    InboxItem::Relocate(keys, to) => {
                        submitted = keys.len();
                        Input::Relocate { keys, to }
                    }
                    InboxItem::Replicate(keys, wanted) => {
                        submitted = keys.len();
                        if wanted { Input::Replicate { keys } } else { Input::Unreplicate { keys } }
                    }
                    InboxItem::Clock(clock) => Input::Clock(clock),
                    InboxItem::Wake => Input::Wake,
                    InboxItem::Report => Input::Settle,
                    InboxItem::Snapshot(ask) => Input::Snapshot(ask),
                };
                // The worker has copied the values; the channel does not copy them again before it sends
                // them.
                let keys = submitted as u64;
                let work_ns =
                    if self.is_queued(&input) { machine.queued(keys) } else { machine.input(keys, 0) };
                (came_ns, work_ns + received_ns, input)
            }
            Source::Sender(at) => {
                let (from, came_ns, frame) = self.stations[station].take_received(at);
                let frame_bytes = frame.len();
                let link = self.link(from.index(), node, station % self.layout.channels());
                let message = self.links[link].unpacker.unpack(frame).map_err(|error| {
                    self.violation(("protocol", format!("{from:?} sent an invalid frame: {error}")))
                })?;
                self.received(&message);
                let (keys, value_bytes) = (message.key_count(), message.value_bytes());
                // Values that are compressed are as long as others when they are handled.
                let other_bytes = frame_bytes.saturating_sub(value_bytes) as u64;
                let bytes = other_bytes + self.delays.charge.bytes(value_bytes);
                (came_ns, machine.input(keys as u64, bytes), Input::Message { from, message })
            }
        };
        let now_ns = self.now_ns();
        let work_ns = self.delays.turn.draw(&mut self.dice) + self.at_pace(now_ns, node, work_ns);
        let waking = self.stations[station].thread.is_free(now_ns);
        let mut from_ns = if waking { now_ns + machine.wake_ns } else { now_ns };
        if let Some(core) = self.shared_core(node) {
            from_ns = core.channel_from(from_ns);
        }
        let (_, end_ns) = self.stations[station].thread.serve(came_ns, from_ns, work_ns);
        if let Some(core) = self.shared_core(node) {
            core.channel_worked(work_ns + if waking { machine.wake_ns } else { 0 }, end_ns);
        }
        self.stations[station].current = Some(input);
        self.queue.schedule(end_ns, Event::Turn { station: station as u32 }, &mut self.dice);
        Ok(())
    }

    /// Whether the input is a worker's access that comes through a queue because all accesses do, without
    /// messages between processes.
    fn is_queued(&self, input: &Input) -> bool {
        self.access == LocalAccess::Queue && !self.delays.ipc && matches!(input, Input::Submit(_))
    }

    /// Duration of `work_ns` on a thread of `node`, faults included, if it begins at `at_ns`.
    pub(super) fn at_pace(&self, at_ns: u64, node: usize, work_ns: u64) -> u64 {
        work_ns * self.faults.slowdown(at_ns, node)
    }

    /// Prolongs what a channel's thread does by `work_ns`. Returns its new end.
    pub(super) fn prolong(&mut self, station: usize, work_ns: u64) -> u64 {
        let end_ns = self.stations[station].thread.extend(work_ns);
        if let Some(core) = self.shared_core(station / self.layout.channels()) {
            core.channel_worked(work_ns, end_ns);
        }
        end_ns
    }

    /// A channel has finished its input: lets the engine handle it, executes the actions, and starts the next
    /// input.
    fn turn(&mut self, station: usize) -> Result<Happened, Violation> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        let input = self.stations[station].current.take().expect("a turn per input");
        self.trace.line(self.queue.now_ns(), || format!("n{node}/c{channel} takes {}", describe(&input)));
        let mut actions = std::mem::take(&mut self.actions);
        let (probe, mut seen) = self.observed();
        probe.before_input(&mut seen, station, &input);
        let synced_before = self.stations[station].engine.management().synced_keys;
        let held_back_before = self.stations[station].engine.management().held_back;
        let syncs_itself = keys_to_synchronise(&input);
        self.pending_decisions -= usize::from(is_decision(&input));
        let reports = matches!(input, Input::Settle);
        let is_tick = matches!(input, Input::Tick);
        self.ticks += u64::from(is_tick);
        self.ticking -= usize::from(is_tick);
        let now = Tick(self.queue.now_ns() / 1000);
        let round = self.begins_look(station, &input);
        let is_queued = self.is_queued(&input);
        let handled = self.stations[station].engine.handle(now, input, &mut actions);
        handled.map_err(|error| self.violation(("protocol", error.to_string())))?;
        self.record_turn(station);
        if !(is_tick && actions.is_empty()) {
            self.idle_timers = 0;
            self.last_activity_ns = self.queue.now_ns();
        }
        let (probe, mut seen) = self.observed();
        let checked = probe.after_input(&mut seen, station, &actions);
        checked.map_err(|finding| self.violation(finding))?;
        let synced = self.stations[station].engine.management().synced_keys - synced_before;
        if self.stations[station].engine.management().held_back > held_back_before {
            self.reach.mark(Marker::HeldBack);
        }
        let mut at_ns = self.now_ns() + self.sync_work(station, synced.saturating_sub(syncs_itself));
        if is_queued && actions.iter().any(|action| matches!(action, Action::Send { .. })) {
            let work_ns = self.at_pace(at_ns, node, self.delays.machine.queued_elsewhere());
            at_ns = self.prolong(station, work_ns);
        }
        for action in actions.drain(..) {
            at_ns = self.act(at_ns, node, channel, action)?;
        }
        self.actions = actions;
        let mut happened = Happened::Internal;
        if reports {
            happened = Happened::Reported(self.stations[station].engine.report());
        }
        self.ends_look(station, round);
        self.set_timer(station);
        self.begin_turn(station)?;
        Ok(happened)
    }

    fn received(&mut self, message: &Message) {
        if let Message::Response(_) = message {
            self.reach.mark(Marker::RemoteServed);
        }
        if let Message::SnapshotPart(part) = message
            && part.next.is_some()
        {
            self.reach.mark(Marker::SnapshotParts);
        }
    }

    /// Executes an action on a channel's thread, beginning at `at_ns`. Returns when it is done.
    fn act(&mut self, at_ns: u64, node: usize, channel: usize, action: Action) -> Result<u64, Violation> {
        match action {
            Action::Send { to, message } => {
                let value_bytes = message.value_bytes();
                let work_ns = self.delays.machine.send(self.delays.charge.bytes(value_bytes));
                let work_ns = self.at_pace(at_ns, node, work_ns);
                let station = self.station(node, channel);
                self.stations[station].sent += 1;
                let done_ns = self.prolong(station, work_ns);
                debug_assert_eq!(done_ns, at_ns + work_ns, "a thread does one thing at a time");
                self.send(done_ns, node, to.index(), channel, &message)?;
                Ok(done_ns)
            }
            Action::Complete { worker, completion } => {
                let station = self.station(node, channel);
                let worker = self.worker_number(node, worker)?;
                let mut done_ns = at_ns;
                if self.delays.ipc {
                    let bytes = self.delays.charge.bytes(completion.values.len());
                    let work_ns = self.at_pace(at_ns, node, self.delays.machine.send(bytes));
                    done_ns = self.prolong(station, work_ns);
                }
                self.deliver_at(done_ns, worker, channel, Delivery::Access(completion));
                Ok(done_ns)
            }
            Action::CompleteSnapshot { worker, part } => {
                let worker = self.worker_number(node, worker)?;
                self.deliver_at(at_ns, worker, channel, Delivery::Part(part));
                Ok(at_ns)
            }
        }
    }

    fn worker_number(&self, node: usize, worker: WorkerId) -> Result<usize, Violation> {
        if worker.index() < self.workers_per_node {
            return Ok(node * self.workers_per_node + worker.index());
        }
        Err(self
            .violation(("replies", format!("a completion for {worker:?} of n{node}, which does not exist"))))
    }

    fn deliver_at(&mut self, at_ns: u64, worker: usize, channel: usize, delivery: Delivery) {
        let at_ns = at_ns + self.delays.deliver.draw(&mut self.dice);
        let due_ns = self.worker_states[worker].from_channels[channel].send(delivery, at_ns);
        let event = Event::Deliver { worker: worker as u32, channel: channel as u32 };
        self.queue.schedule(due_ns, event, &mut self.dice);
    }

    fn deliver(&mut self, worker: usize, channel: usize) -> Happened {
        let state = &mut self.worker_states[worker];
        let delivery = state.from_channels[channel].arrive().expect("a completion per event");
        state.queue.push_back(delivery);
        let after_ns = self.delays.intake.draw(&mut self.dice);
        self.schedule(after_ns, Event::Intake { worker: worker as u32 });
        Happened::Internal
    }

    fn intake(&mut self, worker: usize) -> Happened {
        let delivery = self.worker_states[worker].queue.pop_front().expect("a completion per event");
        let bytes = match &delivery {
            Delivery::Access(completion) => completion.values.len(),
            Delivery::Part(part) => part.values.len(),
        };
        let (machine, charged) = (self.delays.machine, self.delays.charge.bytes(bytes));
        let is_message = self.delays.ipc && matches!(delivery, Delivery::Access(_));
        let received_ns = if is_message { machine.input(0, charged) } else { 0 };
        self.work(worker, machine.copy(charged) + received_ns);
        let state = &mut self.worker_states[worker];
        match delivery {
            Delivery::Access(completion) => {
                let sink = state.sink.as_mut().map(|(op, values)| (*op, &mut values[..]));
                let op = completion.op;
                let positions = self.trace.has_lines().then(|| completion.positions.clone());
                state.local.complete(completion, &self.layout, sink);
                let done = state.local.is_done(op);
                self.trace.line(self.queue.now_ns(), || {
                    let end = if done { ", done" } else { "" };
                    format!("worker {worker} takes {op:?} positions {:?}{end}", positions.unwrap_or_default())
                });
                Happened::Answered { worker, op, done }
            }
            Delivery::Part(part) => Happened::Part { worker, part },
        }
    }
}

/// Whether an input is a decision of a node ([`Cluster::pending_decisions`]).
fn is_decision(input: &Input) -> bool {
    matches!(input, Input::Relocate { .. } | Input::Replicate { .. } | Input::Unreplicate { .. })
}

/// Number of keys that an input about replicas synchronises itself: its own keys.
fn keys_to_synchronise(input: &Input) -> u64 {
    let Input::Message { message, .. } = input else { return 0 };
    let about_replicas = matches!(message, Message::ReplicaRequest(_) | Message::ReplicaUpdate(_));
    if about_replicas { message.key_count() as u64 } else { 0 }
}

/// A short description of `input`, for traces.
fn describe(input: &Input) -> String {
    match input {
        Input::Submit(s) => format!("{:?} {:?} {:?} of {:?}", s.op, s.kind(), s.keys(), s.worker),
        Input::Relocate { keys, to } => format!("the decision to relocate {keys:?} to n{to}"),
        Input::Replicate { keys } => format!("the decision to replicate {keys:?}"),
        Input::Unreplicate { keys } => format!("the decision to drop replicas of {keys:?}"),
        Input::Clock(clock) => format!("{clock:?}"),
        Input::Tick => "a tick".to_owned(),
        Input::Wake => "a wake-up".to_owned(),
        Input::Settle => "a request for a report".to_owned(),
        Input::Snapshot(ask) => format!("a snapshot request of {:?} to n{}", ask.worker, ask.owner),
        Input::Message { from, message } => format!("from {from:?}: {}", describe_message(message)),
    }
}
