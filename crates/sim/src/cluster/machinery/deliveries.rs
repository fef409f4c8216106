//! The work of workers, and the ways between workers and channels.

use super::Machinery;
use crate::cluster::event::{Event, Happened};
use crate::cluster::probe::Probe;
use crate::cluster::station::InboxItem;
use crate::cluster::worker::Delivery;
use crate::invariants::Violation;
use intendant_core::{ChannelId, Element};

impl<E: Element, P: Probe<E>> Machinery<E, P> {
    /// Occupies a worker for `work_ns`, after its work so far.
    pub(in crate::cluster) fn work(&mut self, worker: usize, work_ns: u64) {
        let Self { workers, stations, processors, .. } = self;
        let node = workers.node_of(worker);
        let state = &mut workers[worker];
        let start_ns = state.free_ns.max(self.agenda.now_ns());
        // The channels of the node delay the worker by what they have done since its last work.
        let stolen_ns = processors.stolen_ns(|| {
            let busy_ns = stations.busy_ns(node);
            busy_ns - std::mem::replace(&mut state.charged_channel_ns, busy_ns)
        });
        let (work_ns, end_ns) = processors.work(node, start_ns, work_ns, stolen_ns);
        state.free_ns = end_ns;
        state.busy_ns += work_ns;
    }

    /// Charges a worker for a call. The cluster no longer rests.
    pub(in crate::cluster) fn charge_call(&mut self, worker: usize, keys: usize, bytes: usize) {
        self.rests = false;
        let work_ns = self.delays.machine.call(keys as u64, self.delays.charge.bytes(bytes));
        self.work(worker, work_ns);
    }

    /// A worker sends an item to a channel of its node.
    pub(in crate::cluster) fn send_to_channel(&mut self, worker: usize, channel: usize, item: InboxItem) {
        if let InboxItem::Access(submission) = &item
            && self.delays.ipc
        {
            self.work(worker, self.delays.machine.send(self.delays.charge.bytes(submission.value_bytes())));
        }
        // A call submits its deferred keys at its end.
        let free_ns = self.workers[worker].free_ns.max(self.agenda.now_ns());
        let at_ns = free_ns + self.agenda.draw(self.delays.enqueue);
        let due_ns = self.workers[worker].to_channels[channel].send(item, at_ns);
        self.agenda.schedule(due_ns, Event::Enqueue { worker: worker as u32, channel: channel as u32 });
    }

    /// A worker or loader wakes channels of its node.
    pub(in crate::cluster) fn wake_channels(&mut self, node: usize, channels: &[ChannelId]) {
        for channel in channels {
            self.rests = false;
            let station = self.stations.number(node, channel.index()) as u32;
            let at_ns = self.agenda.now_ns() + self.agenda.draw(self.delays.enqueue);
            self.agenda.schedule(at_ns, Event::Woken { station });
        }
    }

    /// An item of a worker reaches the inbox of a channel.
    pub(super) fn enqueue(&mut self, worker: usize, channel: usize) -> Result<(), Violation> {
        let item = self.workers[worker].to_channels[channel].arrive().expect("an item per event");
        self.put(self.stations.number(self.workers.node_of(worker), channel), item)
    }

    /// A channel puts something into the queue of a worker at `at_ns`.
    pub(super) fn deliver_at(&mut self, at_ns: u64, worker: usize, channel: usize, delivery: Delivery) {
        let at_ns = at_ns + self.agenda.draw(self.delays.deliver);
        let due_ns = self.workers[worker].from_channels[channel].send(delivery, at_ns);
        self.agenda.schedule(due_ns, Event::Deliver { worker: worker as u32, channel: channel as u32 });
    }

    /// It reaches the queue.
    pub(super) fn deliver(&mut self, worker: usize, channel: usize) {
        let state = &mut self.workers[worker];
        let delivery = state.from_channels[channel].arrive().expect("a completion per event");
        state.queue.push_back(delivery);
        let at_ns = self.agenda.now_ns() + self.agenda.draw(self.delays.intake);
        self.agenda.schedule(at_ns, Event::Intake { worker: worker as u32 });
    }

    /// The worker takes it from the queue.
    pub(super) fn intake(&mut self, worker: usize) -> Happened {
        let delivery = self.workers[worker].queue.pop_front().expect("a completion per event");
        let bytes = match &delivery {
            Delivery::Access(completion) => completion.values.len(),
            Delivery::Part(part) => part.values.len(),
        };
        let (machine, charged) = (self.delays.machine, self.delays.charge.bytes(bytes));
        let is_message = self.delays.ipc && matches!(delivery, Delivery::Access(_));
        let received_ns = if is_message { machine.input(0, charged) } else { 0 };
        self.work(worker, machine.copy(charged) + received_ns);
        let state = &mut self.workers[worker];
        match delivery {
            Delivery::Access(completion) => {
                let sink = state.sink.as_mut().map(|(op, values)| (*op, &mut values[..]));
                let op = completion.op;
                let positions = self.agenda.has_notes().then(|| completion.positions.clone());
                state.local.complete(completion, &self.layout, sink);
                let done = state.local.is_done(op);
                self.agenda.note(|| {
                    let end = if done { ", done" } else { "" };
                    format!("worker {worker} takes {op:?} positions {:?}{end}", positions.unwrap_or_default())
                });
                Happened::Answered { worker, op, done }
            }
            Delivery::Part(part) => Happened::Part { worker, part },
        }
    }
}
