//! The connections between nodes, and the way of a frame: through the sender's NIC, over the connection,
//! through the receiver's NIC.

use super::agenda::Agenda;
use super::event::Event;
use crate::delays::Delays;
use crate::facility::Load;
use crate::faults::Faults;
use crate::invariants::{Fifo, Finding};
use crate::lane::Lane;
use crate::machine::Charge;
use crate::network::{Network, Nic};
use crate::reach::{Marker, Reach};
use bytes::Bytes;
use intendant_engine::NetworkStats;
use intendant_wire::{Message, Packer, Packing, Saved, Unpacker};

/// A connection: one direction between two nodes, for one channel.
struct Link {
    /// Its two ends.
    packer: Packer,
    unpacker: Unpacker,
    /// Frames on their way to the receiver's NIC.
    under_way: Lane<Frame>,
    /// Frames that the receiver's NIC takes in.
    coming_in: Lane<Frame>,
}

impl Link {
    fn new(packing: Packing, element_bytes: usize) -> Self {
        Self {
            packer: Packer::new(packing, element_bytes),
            unpacker: Unpacker::new(element_bytes),
            under_way: Lane::default(),
            coming_in: Lane::default(),
        }
    }
}

/// A frame in flight on a connection.
struct Frame {
    /// Number of the frame on its connection.
    number: u64,
    frame: Bytes,
    /// Charged length.
    bytes: u64,
    /// Time at which its last byte reaches the receiver's NIC.
    sent_ns: u64,
}

/// A frame that was received.
pub(super) struct Received {
    /// The sending node.
    pub(super) from: usize,
    /// The receiving node, and the channel.
    pub(super) to: usize,
    pub(super) channel: usize,
    pub(super) frame: Bytes,
}

/// All connections, and the NICs of all nodes.
pub(super) struct Connections {
    network: Network,
    charge: Charge,
    faults: Faults,
    nodes: usize,
    channels: usize,
    nics: Vec<Nic>,
    /// By sender, then receiver, then channel.
    links: Vec<Link>,
    fifo: Fifo,
    traffic: NetworkStats,
    sent_value_bytes: u64,
}

impl Connections {
    /// Connections between `nodes` nodes with `channels` channels each, on which nothing was sent yet.
    pub(super) fn new(
        delays: &Delays,
        faults: Faults,
        (nodes, channels): (usize, usize),
        packing: Packing,
        element_bytes: usize,
    ) -> Self {
        let links = nodes * nodes * channels;
        Self {
            network: delays.network,
            charge: delays.charge,
            faults,
            nodes,
            channels,
            nics: vec![Nic::default(); nodes],
            links: (0..links).map(|_| Link::new(packing, element_bytes)).collect(),
            fifo: Fifo::new(links),
            traffic: NetworkStats::default(),
            sent_value_bytes: 0,
        }
    }

    /// Number of connections.
    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    fn link(&self, from: usize, to: usize, channel: usize) -> usize {
        (from * self.nodes + to) * self.channels + channel
    }

    /// Sender, receiver and channel of a connection.
    pub(super) fn ends(&self, link: usize) -> (usize, usize, usize) {
        let pair = link / self.channels;
        (pair / self.nodes, pair % self.nodes, link % self.channels)
    }

    /// What all nodes have sent so far, in charged bytes.
    pub(super) fn traffic(&self) -> NetworkStats {
        self.traffic
    }

    /// Bytes of the elements in these messages, not charged with any factor.
    pub(super) fn sent_value_bytes(&self) -> u64 {
        self.sent_value_bytes
    }

    /// Load of the sending and of the receiving halves of all NICs so far.
    pub(super) fn load(&self) -> (Load, Load) {
        let (mut sending, mut receiving) = (Load::default(), Load::default());
        for nic in &self.nics {
            sending.merge(&nic.sending.load());
            receiving.merge(&nic.receiving.load());
        }
        (sending, receiving)
    }

    /// Number of frames that are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.links.iter().map(|link| link.under_way.len() + link.coming_in.len()).sum()
    }

    /// A channel sends a message at `at_ns`, which is not in the past. Returns the connection, and the
    /// charged length of the frame.
    pub(super) fn send(
        &mut self,
        at_ns: u64,
        (from, to, channel): (usize, usize, usize),
        message: &Message,
        agenda: &mut Agenda,
        reach: &mut Reach,
    ) -> (usize, u64) {
        let link = self.link(from, to, channel);
        let value_bytes = message.value_bytes();
        let (frame, bytes) = self.pack(link, message, value_bytes, reach);
        agenda.record(&frame);
        self.sent_value_bytes += value_bytes as u64;
        let number = self.fifo.sent(link);
        let latency_ns = agenda.draw(self.network.latency) + self.faults.more_latency_ns(at_ns, from, to);
        let occupied_ns = self.occupied_ns(at_ns, from, bytes);
        let (start_ns, end_ns) = self.nics[from].sending.serve(at_ns, 0, occupied_ns);
        let item = Frame { number, frame, bytes, sent_ns: end_ns + latency_ns };
        let connection = &mut self.links[link];
        let due_ns = connection.under_way.send(item, start_ns + latency_ns);
        if connection.under_way.len() + connection.coming_in.len() > 1 {
            reach.mark(Marker::CrowdedConnection);
        }
        agenda.schedule(due_ns, Event::Front { link: link as u32 });
        (link, bytes)
    }

    /// The frame of a message for a connection, and its charged bytes.
    fn pack(
        &mut self,
        link: usize,
        message: &Message,
        value_bytes: usize,
        reach: &mut Reach,
    ) -> (Bytes, u64) {
        let mut saved = Saved::default();
        let (head, values) = self.links[link].packer.pack(message, &mut saved);
        let plain = saved.unpacked as usize;
        let charged_values = self.charge.bytes(value_bytes);
        let unpacked_bytes = (plain - value_bytes) as u64 + charged_values;
        // What is compressed is charged in proportion.
        let (frame_bytes, by_compression) = if saved.compression > 0 {
            let charged =
                |bytes: u64| (u128::from(bytes) * u128::from(unpacked_bytes) / plain as u128) as u64;
            (charged(head.len() as u64), charged(saved.compression))
        } else {
            (head.len() as u64 + charged_values, 0)
        };
        for (marker, bytes) in [
            (Marker::RunSent, saved.runs),
            (Marker::ListReused, saved.key_lists),
            (Marker::Compressed, saved.compression),
        ] {
            if bytes > 0 {
                reach.mark(marker);
            }
        }
        self.traffic.merge(&NetworkStats {
            messages: 1,
            bytes: frame_bytes,
            unpacked_bytes,
            saved_by_runs: saved.runs,
            saved_by_key_lists: saved.key_lists,
            saved_by_compression: by_compression,
            unix_bytes: 0,
        });
        let frame = if values.is_empty() { head } else { [head, values].concat().into() };
        (frame, frame_bytes)
    }

    fn occupied_ns(&self, at_ns: u64, node: usize, bytes: u64) -> u64 {
        self.network.occupied_ns(bytes) * self.faults.nic_slowdown(at_ns, node)
    }

    /// The first byte of a frame reaches the receiver's NIC. Returns the frame if it is received at once.
    ///
    /// # Errors
    /// As [`Connections::arrive`].
    pub(super) fn front(&mut self, link: usize, agenda: &mut Agenda) -> Result<Option<Received>, Finding> {
        let now_ns = agenda.now_ns();
        let (from, to, _) = self.ends(link);
        if let Some(healed_ns) = self.faults.partitioned_until_ns(now_ns, from, to) {
            // The frame is retransmitted when the partition heals. An event takes the oldest frame of its
            // connection when it executes, so frames stay in order.
            agenda.schedule(healed_ns, Event::Front { link: link as u32 });
            return Ok(None);
        }
        let connection = &mut self.links[link];
        let item = connection.under_way.arrive().expect("a frame per event");
        if !self.network.is_limited() {
            connection.coming_in.send(item, now_ns);
            return self.arrive(link).map(Some);
        }
        let occupied_ns = self.occupied_ns(now_ns, to, item.bytes);
        let (_, end_ns) = self.nics[to].receiving.serve(now_ns, 0, occupied_ns);
        // The last byte cannot be received before it has been sent.
        let at_ns = end_ns.max(item.sent_ns);
        let due_ns = self.links[link].coming_in.send(item, at_ns);
        agenda.schedule(due_ns, Event::Arrive { link: link as u32 });
        Ok(None)
    }

    /// The last byte of a frame is received.
    ///
    /// # Errors
    /// If the connection has not kept the order of its frames.
    pub(super) fn arrive(&mut self, link: usize) -> Result<Received, Finding> {
        let item = self.links[link].coming_in.arrive().expect("a frame per event");
        self.fifo.arrived(link, item.number)?;
        let (from, to, channel) = self.ends(link);
        Ok(Received { from, to, channel, frame: item.frame })
    }

    /// The message of a frame that was received.
    ///
    /// # Errors
    /// What is wrong with the frame.
    pub(super) fn unpack(
        &mut self,
        (from, to, channel): (usize, usize, usize),
        frame: Bytes,
    ) -> Result<Message, Finding> {
        let link = self.link(from, to, channel);
        let unpacked = self.links[link].unpacker.unpack(frame);
        unpacked.map_err(|error| ("protocol", format!("n{from} sent an invalid frame: {error}")))
    }
}
