//! Turns: a channel takes an input, its engine handles it, and its thread executes the actions that follow.

use super::Machinery;
use crate::cluster::event::{Event, Happened};
use crate::cluster::messages::describe_message;
use crate::cluster::probe::Probe;
use crate::cluster::station::InboxItem;
use crate::cluster::stations::Source;
use crate::cluster::worker::Delivery;
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Element, WorkerId};
use intendant_engine::{Action, Input, LocalAccess};
use intendant_wire::Message;

impl<E: Element, P: Probe<E>> Machinery<E, P> {
    /// Starts the next input of a channel whose thread is idle and has an input.
    pub(super) fn begin_turn(&mut self, station: usize) -> Result<(), Violation> {
        let Some(source) = self.stations.choose(station, &mut self.agenda, &mut self.reach) else {
            return Ok(());
        };
        let (node, channel) = self.stations.place(station);
        let machine = self.delays.machine;
        let mut submitted = 0;
        let (came_ns, work_ns, input) = match source {
            Source::Timer => {
                self.stations.take_tick(station);
                (self.agenda.now_ns(), machine.input(0, 0), Input::Tick)
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
                let message = self.connections.unpack((from.index(), node, channel), frame);
                let message = message.map_err(|finding| self.violation(finding))?;
                self.received(&message);
                let (keys, value_bytes) = (message.key_count(), message.value_bytes());
                // Values that are compressed are as long as others when they are handled.
                let other_bytes = frame_bytes.saturating_sub(value_bytes) as u64;
                let bytes = other_bytes + self.delays.charge.bytes(value_bytes);
                (came_ns, machine.input(keys as u64, bytes), Input::Message { from, message })
            }
        };
        let now_ns = self.agenda.now_ns();
        let random_ns = self.agenda.draw(self.delays.turn);
        let work_ns = random_ns + self.processors.at_pace(now_ns, node, work_ns);
        let station_state = &mut self.stations[station];
        let end_ns = self.processors.serve(node, &mut station_state.thread, (came_ns, now_ns), work_ns);
        station_state.current = Some(input);
        self.agenda.schedule(end_ns, Event::Turn { station: station as u32 });
        Ok(())
    }

    /// Whether the input is a worker's access that comes through a queue because all accesses do, without
    /// messages between processes.
    fn is_queued(&self, input: &Input) -> bool {
        self.access == LocalAccess::Queue && !self.delays.ipc && matches!(input, Input::Submit(_))
    }

    /// Prolongs what a channel's thread does by `work_ns`, if it begins at `at_ns`. Returns its new end.
    fn prolong(&mut self, station: usize, at_ns: u64, work_ns: u64) -> u64 {
        let (node, _) = self.stations.place(station);
        let work_ns = self.processors.at_pace(at_ns, node, work_ns);
        let done_ns = self.processors.prolong(node, &mut self.stations[station].thread, work_ns);
        debug_assert_eq!(done_ns, at_ns + work_ns, "a thread does one thing at a time");
        done_ns
    }

    /// Charges a channel for `synced` keys that it synchronised in addition to those of its input: each is
    /// looked up and copied. Returns when that is done.
    fn sync(&mut self, station: usize, synced: u64) -> u64 {
        let now_ns = self.agenda.now_ns();
        if synced == 0 {
            return now_ns;
        }
        let delays = &self.delays;
        let bytes = delays.charge.bytes(synced as usize * self.value_bytes_mean);
        let work_ns = delays.machine.input(synced, bytes) - delays.machine.input(0, 0);
        self.prolong(station, now_ns, work_ns)
    }

    /// A channel has finished its input: lets the engine handle it, executes the actions, and starts the next
    /// input.
    pub(super) fn turn(&mut self, station: usize) -> Result<Happened, Violation> {
        let (node, channel) = self.stations.place(station);
        let input = self.stations[station].current.take().expect("a turn per input");
        self.agenda.note(|| format!("n{node}/c{channel} takes {}", describe(&input)));
        let mut actions = std::mem::take(&mut self.actions);
        let (probe, mut seen) = self.observed();
        probe.before_input(&mut seen, station, &input);
        let synced_before = self.stations[station].engine.management().synced_keys;
        let held_back_before = self.stations[station].engine.management().held_back;
        let syncs_itself = keys_to_synchronise(&input);
        self.pending_decisions -= usize::from(is_decision(&input));
        let reports = matches!(input, Input::Settle);
        let is_tick = matches!(input, Input::Tick);
        let round = self.stations.begins(station, &input);
        let is_queued = self.is_queued(&input);
        let handled = self.stations[station].engine.handle(self.agenda.now(), input, &mut actions);
        handled.map_err(|error| self.violation(("protocol", error.to_string())))?;
        self.record_turn(station);
        if !(is_tick && actions.is_empty()) {
            self.stations.acted(self.agenda.now_ns());
        }
        let (probe, mut seen) = self.observed();
        let checked = probe.after_input(&mut seen, station, &actions);
        checked.map_err(|finding| self.violation(finding))?;
        let synced = self.stations[station].engine.management().synced_keys - synced_before;
        if self.stations[station].engine.management().held_back > held_back_before {
            self.reach.mark(Marker::HeldBack);
        }
        let mut at_ns = self.sync(station, synced.saturating_sub(syncs_itself));
        if is_queued && actions.iter().any(|action| matches!(action, Action::Send { .. })) {
            at_ns = self.prolong(station, at_ns, self.delays.machine.queued_elsewhere());
        }
        for action in actions.drain(..) {
            at_ns = self.act(at_ns, station, action)?;
        }
        self.actions = actions;
        let mut happened = Happened::Internal;
        if reports {
            happened = Happened::Reported(self.stations[station].engine.report());
        }
        self.stations.ends(station, round);
        self.stations.set_timer(station, &mut self.agenda);
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
    fn act(&mut self, at_ns: u64, station: usize, action: Action) -> Result<u64, Violation> {
        let (node, channel) = self.stations.place(station);
        match action {
            Action::Send { to, message } => {
                let value_bytes = self.delays.charge.bytes(message.value_bytes());
                self.stations[station].sent += 1;
                let done_ns = self.prolong(station, at_ns, self.delays.machine.send(value_bytes));
                self.agenda
                    .note(|| format!("n{node}/c{channel} sends to n{to}: {}", describe_message(&message)));
                let Self { connections, agenda, reach, recorder, .. } = self;
                let (link, bytes) =
                    connections.send(done_ns, (node, to.index(), channel), &message, agenda, reach);
                if let Some(recorder) = recorder {
                    recorder.sent(link, bytes);
                }
                Ok(done_ns)
            }
            Action::Complete { worker, completion } => {
                let worker = self.worker_number(node, worker)?;
                let mut done_ns = at_ns;
                if self.delays.ipc {
                    let bytes = self.delays.charge.bytes(completion.values.len());
                    done_ns = self.prolong(station, at_ns, self.delays.machine.send(bytes));
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
        self.workers.number(node, worker).ok_or_else(|| {
            let what = format!("a completion for {worker:?} of n{node}, which does not exist");
            self.violation(("replies", what))
        })
    }
}

/// Whether an input is a decision of a node ([`Machinery::pending_decisions`]).
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
