//! The events between the calls of workers: channels handle inputs and execute the actions that follow, and
//! workers take completions.

use super::messages::describe_message;
use super::{Checks, Cluster, Delivery, Event, Happened, InboxItem};
use crate::invariants::{Invariants, Violation};
use crate::reach::Marker;
use intendant_core::{Element, NodeId, Tick, WorkerId};
use intendant_engine::{Action, Input};
use intendant_wire::Message;

/// A source of inputs of a channel.
enum Source {
    Timer,
    Inbox,
    Node(usize),
}

impl<E: Element> Cluster<E> {
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
        let mut checked = self.invariants.progress.step(self.trace.events() - self.ticks, self.ticks);
        if self.checks == Checks::EveryStep {
            checked = checked.and_then(|()| {
                let Invariants { owners, ledger, .. } = &mut self.invariants;
                owners.step(&self.nodes, ledger)
            });
        }
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

    fn enqueue(&mut self, worker: usize, channel: usize) -> Result<Happened, Violation> {
        let item = self.worker_states[worker].to_channels[channel].arrive().expect("an item per event");
        let station = self.station(self.node_of(worker), channel);
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, worker, item));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// Picks a random source among those with an input.
    fn choose(&mut self, station: usize) -> Option<Source> {
        let Self { stations, dice, reach, .. } = self;
        let station = &stations[station];
        let ready = |at: usize| match at {
            0 => station.timer.is_due,
            1 => !station.inbox.is_empty(),
            _ => !station.received[at - 2].is_empty(),
        };
        let sources = station.received.len() + 2;
        let count = (0..sources).filter(|at| ready(*at)).count();
        let nth = match count {
            0 => return None,
            1 => 0,
            _ => {
                reach.mark(Marker::CrowdedChannel);
                dice.below(count as u64) as usize
            }
        };
        let at = (0..sources).filter(|at| ready(*at)).nth(nth)?;
        Some(match at {
            0 => Source::Timer,
            1 => Source::Inbox,
            _ => Source::Node(at - 2),
        })
    }

    /// Starts the next input of a channel whose thread is idle and has an input.
    pub(super) fn begin_turn(&mut self, station: usize) -> Result<(), Violation> {
        if self.stations[station].current.is_some() {
            return Ok(());
        }
        let Some(source) = self.choose(station) else { return Ok(()) };
        let node = station / self.layout.channels();
        let machine = self.delays.machine;
        let mut submitted = 0;
        let (came_ns, work_ns, input) = match source {
            Source::Timer => {
                self.stations[station].timer.is_due = false;
                self.ticking += 1;
                (self.now_ns(), machine.input(0, 0), Input::Tick)
            }
            Source::Inbox => {
                let (came_ns, worker, item) =
                    self.stations[station].inbox.pop_front().expect("the inbox has something");
                let input = match item {
                    InboxItem::Access(submission) => {
                        self.invariants.replies.handled(station, worker, submission.op);
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
                    InboxItem::Snapshot(ask) => {
                        if ask.owner.index() != node {
                            self.invariants.bounded.snapshot(station, true);
                        }
                        Input::Snapshot(ask)
                    }
                };
                // The worker has copied the values; the channel does not copy them again before it sends
                // them.
                (came_ns, machine.input(submitted as u64, 0), input)
            }
            Source::Node(from) => {
                let (came_ns, frame) =
                    self.stations[station].received[from].pop_front().expect("something was received");
                let (from, frame_bytes) = (NodeId(from as u16), frame.len());
                let message = Message::decode(frame).map_err(|error| {
                    self.violation(("protocol", format!("{from:?} sent an invalid frame: {error}")))
                })?;
                self.received(station, &message);
                let (keys, value_bytes) = (message.key_count(), message.value_bytes());
                let bytes = (frame_bytes - value_bytes) as u64 + self.delays.charge.bytes(value_bytes);
                (came_ns, machine.input(keys as u64, bytes), Input::Message { from, message })
            }
        };
        let now_ns = self.now_ns();
        let work_ns = self.delays.turn.draw(&mut self.dice) + self.at_pace(now_ns, node, work_ns);
        let thread = &mut self.stations[station].thread;
        let awake_ns = if thread.is_free(now_ns) { now_ns + machine.wake_ns } else { now_ns };
        let (_, end_ns) = thread.serve(came_ns, awake_ns, work_ns);
        self.stations[station].current = Some(input);
        self.queue.schedule(end_ns, Event::Turn { station: station as u32 }, &mut self.dice);
        Ok(())
    }

    /// Duration of `work_ns` on a thread of `node`, faults included, if it begins at `at_ns`.
    pub(super) fn at_pace(&self, at_ns: u64, node: usize, work_ns: u64) -> u64 {
        work_ns * self.faults.slowdown(at_ns, node)
    }

    /// A channel has finished its input: lets the engine handle it, executes the actions, and starts the next
    /// input.
    fn turn(&mut self, station: usize) -> Result<Happened, Violation> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        let input = self.stations[station].current.take().expect("a turn per input");
        self.trace.line(self.queue.now_ns(), || format!("n{node}/c{channel} takes {}", describe(&input)));
        let mut actions = std::mem::take(&mut self.actions);
        self.before_input(station, &input);
        let reports = matches!(input, Input::Settle);
        let is_tick = matches!(input, Input::Tick);
        self.ticks += u64::from(is_tick);
        self.ticking -= usize::from(is_tick);
        let now = Tick(self.queue.now_ns() / 1000);
        let handled = self.stations[station].engine.handle(now, input, &mut actions);
        handled.map_err(|error| self.violation(("protocol", error.to_string())))?;
        if !(is_tick && actions.is_empty()) {
            self.idle_timers = 0;
            self.last_activity_ns = self.queue.now_ns();
        }
        self.after_input(station, &actions)?;
        self.check_intents(station).map_err(|finding| self.violation(finding))?;
        if is_tick {
            self.check_urgent(station).map_err(|finding| self.violation(finding))?;
        }
        let mut at_ns = self.now_ns() + self.sync_work(station);
        for action in actions.drain(..) {
            at_ns = self.act(at_ns, node, channel, action)?;
        }
        self.actions = actions;
        let mut happened = Happened::Internal;
        // A report walks everything that the channel holds, which is too expensive for every input of runs
        // that measure.
        if reports || self.checks == Checks::EveryStep {
            let report = self.stations[station].engine.report();
            let waiting = self.invariants.replies.waiting(station);
            let awaited = self.invariants.ledger.awaited_by(station);
            let arrivals = (self.stations[station].engine.arriving(), awaited);
            let checked = self.invariants.bounded.handled(station, report, waiting, arrivals);
            checked.map_err(|finding| self.violation(finding))?;
            if reports {
                happened = Happened::Reported(report);
            }
        }
        self.set_timer(station);
        self.begin_turn(station)?;
        Ok(happened)
    }

    fn received(&mut self, station: usize, message: &Message) {
        if let Message::Response(_) = message {
            self.reach.mark(Marker::RemoteServed);
        }
        if let Message::SnapshotPart(part) = message {
            self.invariants.bounded.snapshot(station, false);
            if part.next.is_some() {
                self.reach.mark(Marker::SnapshotParts);
            }
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
                let done_ns = self.stations[station].thread.extend(work_ns);
                debug_assert_eq!(done_ns, at_ns + work_ns, "a thread does one thing at a time");
                self.send(done_ns, node, to.index(), channel, &message)?;
                Ok(done_ns)
            }
            Action::Complete { worker, completion } => {
                let station = self.station(node, channel);
                let worker = self.worker_number(node, worker)?;
                let answered =
                    self.invariants.replies.answered(station, worker, completion.op, &completion.positions);
                answered.map_err(|finding| self.violation(finding))?;
                self.deliver_at(at_ns, worker, channel, Delivery::Access(completion));
                Ok(at_ns)
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
        self.work(worker, self.delays.machine.copy(self.delays.charge.bytes(bytes)));
        let state = &mut self.worker_states[worker];
        match delivery {
            Delivery::Access(completion) => {
                let sink = state.sink.as_mut().map(|(op, values)| (*op, &mut values[..]));
                state.local.complete(completion.clone(), &self.layout, sink);
                let (op, done) = (completion.op, state.local.is_done(completion.op));
                self.trace.line(self.queue.now_ns(), || {
                    let end = if done { ", done" } else { "" };
                    format!("worker {worker} takes {op:?} positions {:?}{end}", completion.positions)
                });
                Happened::Answered { worker, op, done }
            }
            Delivery::Part(part) => Happened::Part { worker, part },
        }
    }
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
