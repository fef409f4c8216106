//! What happens between the calls of workers.

use super::{Cluster, Delivery, Errand, Event, Happened};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Element, NodeId, Tick, WorkerId};
use intendant_engine::{Action, Input};
use intendant_wire::Message;

/// One of the queues that a channel takes its inputs from.
enum Source {
    Inbox,
    Node(usize),
}

impl<E: Element> Cluster<E> {
    /// Lets the next event happen, and checks the invariants. `None` if nothing is left to happen.
    ///
    /// # Errors
    /// If an invariant is broken, or an engine refuses what a peer sent.
    #[expect(clippy::should_implement_trait, reason = "a step can fail, and the caller acts between steps")]
    pub fn next(&mut self) -> Result<Option<Happened>, Violation> {
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
        };
        self.trace.event(self.queue.now_ns(), kind, who, what);
        let checked = self.invariants.progress.step(self.trace.events());
        let checked = checked.and_then(|()| self.invariants.owners.step(&self.nodes));
        checked.map_err(|finding| self.violation(finding))?;
        let happened = match event {
            Event::Awake { worker } => Happened::Awake(worker as usize),
            Event::Loaded { worker } => Happened::Loaded(worker as usize),
            Event::Enqueue { worker, channel } => self.enqueue(worker as usize, channel as usize),
            Event::Arrive { link } => self.arrive(link as usize)?,
            Event::Turn { station } => self.turn(station as usize)?,
            Event::Deliver { worker, channel } => self.deliver(worker as usize, channel as usize),
            Event::Intake { worker } => self.intake(worker as usize),
            Event::Report { station } => Happened::Reported(self.stations[station as usize].engine.report()),
        };
        Ok(Some(happened))
    }

    fn enqueue(&mut self, worker: usize, channel: usize) -> Happened {
        let errand = self.posts[worker].errands[channel].arrive().expect("an errand per event");
        let station = self.station(self.node_of(worker), channel);
        self.stations[station].inbox.push_back((worker, errand));
        self.schedule_turn(station);
        Happened::Internal
    }

    fn arrive(&mut self, link: usize) -> Result<Happened, Violation> {
        let (number, frame) = self.links[link].frames.arrive().expect("a frame per event");
        self.invariants.fifo.arrived(link, number).map_err(|finding| self.violation(finding))?;
        let channels = self.layout.channels();
        let (from, to) = (link / channels / self.nodes.len(), link / channels % self.nodes.len());
        let station = self.station(to, link % channels);
        self.stations[station].received[from].push_back(frame);
        self.schedule_turn(station);
        Ok(Happened::Internal)
    }

    fn schedule_turn(&mut self, station: usize) {
        let after_ns = self.delays.turn.draw(&mut self.dice);
        self.schedule(after_ns, Event::Turn { station: station as u32 });
    }

    /// The source that a channel looks at next: any that has something.
    fn choose(&mut self, station: usize) -> Source {
        let Self { stations, dice, reach, .. } = self;
        let station = &stations[station];
        let ready = |at: usize| {
            if at == 0 { !station.inbox.is_empty() } else { !station.received[at - 1].is_empty() }
        };
        let sources = station.received.len() + 1;
        let count = (0..sources).filter(|at| ready(*at)).count();
        if count > 1 {
            reach.mark(Marker::CrowdedChannel);
        }
        let nth = dice.below(count.max(1) as u64) as usize;
        match (0..sources).filter(|at| ready(*at)).nth(nth) {
            None => unreachable!("a turn per input"),
            Some(0) => Source::Inbox,
            Some(at) => Source::Node(at - 1),
        }
    }

    /// A channel handles one input.
    fn turn(&mut self, station: usize) -> Result<Happened, Violation> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        // Of a submission: how many keys it has.
        let mut submitted = None;
        let input = match self.choose(station) {
            Source::Inbox => {
                let (worker, errand) =
                    self.stations[station].inbox.pop_front().expect("the inbox has something");
                match errand {
                    Errand::Access(submission) => {
                        self.invariants.replies.handled(station, worker, submission.op);
                        submitted = Some(submission.keys.len());
                        Input::Submit(submission)
                    }
                    Errand::Snapshot(ask) => {
                        if ask.owner.index() != node {
                            self.invariants.bounded.snapshot(station, true);
                        }
                        Input::Snapshot(ask)
                    }
                }
            }
            Source::Node(from) => {
                let frame =
                    self.stations[station].received[from].pop_front().expect("something was received");
                let from = NodeId(from as u16);
                match Message::decode(frame) {
                    Ok(message) => {
                        self.received(station, &message);
                        Input::Message { from, message }
                    }
                    Err(error) => {
                        return Err(
                            self.violation(("protocol", format!("{from:?} sent a bad frame: {error}")))
                        );
                    }
                }
            }
        };
        self.trace.line(self.queue.now_ns(), || format!("n{node}/c{channel} takes {}", describe(&input)));
        let mut actions = std::mem::take(&mut self.actions);
        let now = Tick(self.queue.now_ns() / 1000);
        let handled = self.stations[station].engine.handle(now, input, &mut actions);
        handled.map_err(|error| self.violation(("protocol", error.to_string())))?;
        self.mark(submitted, &actions);
        for action in actions.drain(..) {
            self.act(node, channel, action)?;
        }
        self.actions = actions;
        let report = self.stations[station].engine.report();
        let waiting = self.invariants.replies.waiting(station);
        self.invariants
            .bounded
            .handled(station, report, waiting)
            .map_err(|finding| self.violation(finding))?;
        Ok(Happened::Internal)
    }

    fn received(&mut self, station: usize, message: &Message) {
        match message {
            Message::Request(_)
            | Message::SnapshotRequest(_)
            | Message::Localize(_)
            | Message::Relocate(_)
            | Message::HandOver(_)
            | Message::Moved(_) => {}
            Message::Response(_) => self.reach.mark(Marker::RemoteServed),
            Message::SnapshotPart(part) => {
                self.invariants.bounded.snapshot(station, false);
                if part.next.is_some() {
                    self.reach.mark(Marker::SnapshotParts);
                }
            }
        }
    }

    /// Notes what the actions of one input tell about it.
    fn mark(&mut self, submitted: Option<usize>, actions: &[Action]) {
        let (mut sent, mut completed) = (0, 0);
        let mut last = None;
        for action in actions {
            match action {
                Action::Send { to, message: Message::Request(request) } => {
                    sent += request.keys.len();
                    let same = Some((*to, request.origin, request.kind, request.hops));
                    if last == same {
                        self.reach.mark(Marker::SplitFrame);
                    }
                    last = same;
                    match request.hops {
                        0 => {}
                        1 => self.reach.mark(Marker::ForwardedOnce),
                        _ => self.reach.mark(Marker::ForwardedAgain),
                    }
                }
                Action::Complete { completion, .. } => completed += completion.positions.len(),
                Action::Send { .. } | Action::CompleteSnapshot { .. } => {}
            }
        }
        if let Some(keys) = submitted {
            if completed > 0 {
                self.reach.mark(Marker::InboxRace);
            }
            if sent + completed < keys {
                self.reach.mark(Marker::Chained);
            }
        }
    }

    fn act(&mut self, node: usize, channel: usize, action: Action) -> Result<(), Violation> {
        match action {
            Action::Send { to, message } => self.send(node, to.index(), channel, &message),
            Action::Complete { worker, completion } => {
                let station = self.station(node, channel);
                let post = self.post(node, worker)?;
                let answered =
                    self.invariants.replies.answered(station, post, completion.op, &completion.positions);
                answered.map_err(|finding| self.violation(finding))?;
                self.hand(post, channel, Delivery::Access(completion));
                Ok(())
            }
            Action::CompleteSnapshot { worker, part } => {
                let post = self.post(node, worker)?;
                self.hand(post, channel, Delivery::Part(part));
                Ok(())
            }
        }
    }

    fn post(&self, node: usize, worker: WorkerId) -> Result<usize, Violation> {
        if worker.index() < self.workers_per_node {
            return Ok(node * self.workers_per_node + worker.index());
        }
        Err(self.violation(("replies", format!("an answer for {worker:?} of n{node}, which does not exist"))))
    }

    fn send(&mut self, from: usize, to: usize, channel: usize, message: &Message) -> Result<(), Violation> {
        if let Message::Request(request) = message {
            self.invariants.hops.sent(request).map_err(|finding| self.violation(finding))?;
        }
        let frame = message.encode();
        self.trace.bytes(&frame);
        self.trace.line(self.queue.now_ns(), || {
            format!("n{from}/c{channel} sends to n{to}: {}", describe_message(message))
        });
        self.messages += 1;
        self.bytes += frame.len() as u64;
        let link = self.link(from, to, channel);
        let number = self.invariants.fifo.sent(link);
        let occupied_ns = frame.len() as u64 * self.delays.network_ns_per_kib / 1024;
        let latency_ns = self.delays.network.draw(&mut self.dice);
        let now_ns = self.now_ns();
        let connection = &mut self.links[link];
        connection.busy_until_ns = connection.busy_until_ns.max(now_ns) + occupied_ns;
        let due_ns = connection.frames.send((number, frame), connection.busy_until_ns + latency_ns);
        if connection.frames.len() > 1 {
            self.reach.mark(Marker::CrowdedConnection);
        }
        self.queue.schedule(due_ns, Event::Arrive { link: link as u32 }, &mut self.dice);
        Ok(())
    }

    fn hand(&mut self, worker: usize, channel: usize, delivery: Delivery) {
        let at_ns = self.now_ns() + self.delays.deliver.draw(&mut self.dice);
        let due_ns = self.posts[worker].results[channel].send(delivery, at_ns);
        let event = Event::Deliver { worker: worker as u32, channel: channel as u32 };
        self.queue.schedule(due_ns, event, &mut self.dice);
    }

    fn deliver(&mut self, worker: usize, channel: usize) -> Happened {
        let post = &mut self.posts[worker];
        let delivery = post.results[channel].arrive().expect("a completion per event");
        post.queue.push_back(delivery);
        let after_ns = self.delays.intake.draw(&mut self.dice);
        self.schedule(after_ns, Event::Intake { worker: worker as u32 });
        Happened::Internal
    }

    fn intake(&mut self, worker: usize) -> Happened {
        let post = &mut self.posts[worker];
        match post.queue.pop_front().expect("a completion per event") {
            Delivery::Access(completion) => {
                let sink = post.sink.as_mut().map(|(op, values)| (*op, &mut values[..]));
                post.local.complete(&completion, &self.layout, sink);
                let (op, done) = (completion.op, post.local.is_done(completion.op));
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

/// An input in a few words.
fn describe(input: &Input) -> String {
    match input {
        Input::Submit(s) => format!("{:?} {:?} {:?} of {:?}", s.op, s.kind, s.keys, s.worker),
        Input::Relocate { keys, to } => format!("the decision to move {keys:?} to n{to}"),
        Input::Snapshot(ask) => format!("a snapshot ask of {:?} for n{}", ask.worker, ask.owner),
        Input::Message { from, message } => format!("from {from:?}: {}", describe_message(message)),
    }
}

fn describe_message(message: &Message) -> String {
    match message {
        Message::Request(r) => {
            let (node, worker, op) = (r.origin.node, r.origin.worker, r.origin.op);
            format!("{:?} {:?} for {node:?} {worker:?} {op:?}, {} hops", r.kind, r.keys, r.hops)
        }
        Message::Response(r) => format!("answer to {:?} {:?}, positions {:?}", r.worker, r.op, r.positions),
        Message::SnapshotRequest(r) => {
            format!("snapshot of {:?}..{:?} for {:?}", r.start, r.end, r.origin.node)
        }
        Message::Localize(m) => format!("localize {:?}", m.keys),
        Message::Relocate(m) => {
            format!("order to hand {:?} over to {:?}, counters {:?}", m.keys, m.to, m.counters)
        }
        Message::HandOver(m) => format!("hand-over of {:?}, counters {:?}", m.keys, m.counters),
        Message::Moved(m) => format!("news that {:?} moved here, counters {:?}", m.keys, m.counters),
        Message::SnapshotPart(p) => format!("snapshot part of {} keys for {:?}", p.keys.len(), p.worker),
    }
}
