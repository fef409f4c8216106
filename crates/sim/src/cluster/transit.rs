//! The way of a frame: through the sender's NIC, over the connection, through the receiver's NIC.

use super::event::{Event, Happened};
use super::links::Frame;
use super::messages::describe_message;
use super::{Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use bytes::Bytes;
use intendant_core::Element;
use intendant_engine::NetworkStats;
use intendant_wire::{Message, Saved};

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// A channel sends a message at `at_ns`, which is not in the past.
    pub(super) fn send(
        &mut self,
        at_ns: u64,
        from: usize,
        to: usize,
        channel: usize,
        message: &Message,
    ) -> Result<(), Violation> {
        let link = self.link(from, to, channel);
        let value_bytes = message.value_bytes();
        let (frame, bytes) = self.pack(link, message, value_bytes);
        self.trace.bytes(&frame);
        self.trace.line(self.queue.now_ns(), || {
            format!("n{from}/c{channel} sends to n{to}: {}", describe_message(message))
        });
        self.sent_value_bytes += value_bytes as u64;
        self.record_frame(link, bytes);
        let number = self.fifo.sent(link);
        let latency_ns =
            self.delays.network.latency.draw(&mut self.dice) + self.faults.more_latency_ns(at_ns, from, to);
        let occupied_ns = self.occupied_ns(at_ns, from, bytes);
        let (start_ns, end_ns) = self.nics[from].sending.serve(at_ns, 0, occupied_ns);
        let item = Frame { number, frame, bytes, sent_ns: end_ns + latency_ns };
        let connection = &mut self.links[link];
        let due_ns = connection.under_way.send(item, start_ns + latency_ns);
        if connection.under_way.len() + connection.coming_in.len() > 1 {
            self.reach.mark(Marker::CrowdedConnection);
        }
        self.queue.schedule(due_ns, Event::Front { link: link as u32 }, &mut self.dice);
        Ok(())
    }

    /// The frame of a message for a connection, and its charged bytes.
    fn pack(&mut self, link: usize, message: &Message, value_bytes: usize) -> (Bytes, u64) {
        let mut saved = Saved::default();
        let (head, values) = self.links[link].packer.pack(message, &mut saved);
        let plain = saved.unpacked as usize;
        let charged_values = self.delays.charge.bytes(value_bytes);
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
                self.reach.mark(marker);
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
        self.delays.network.occupied_ns(bytes) * self.faults.nic_slowdown(at_ns, node)
    }

    /// The first byte of a frame reaches the receiver's NIC.
    pub(super) fn front(&mut self, link: usize) -> Result<Happened, Violation> {
        let now_ns = self.now_ns();
        let (from, to) = self.ends(link);
        if let Some(healed_ns) = self.faults.partitioned_until_ns(now_ns, from, to) {
            // The frame is retransmitted when the partition heals. An event takes the oldest frame of its
            // connection when it executes, so frames stay in order.
            self.queue.schedule(healed_ns, Event::Front { link: link as u32 }, &mut self.dice);
            return Ok(Happened::Internal);
        }
        let connection = &mut self.links[link];
        let item = connection.under_way.arrive().expect("a frame per event");
        if !self.delays.network.is_limited() {
            connection.coming_in.send(item, now_ns);
            return self.arrive(link);
        }
        let occupied_ns = self.occupied_ns(now_ns, to, item.bytes);
        let (_, end_ns) = self.nics[to].receiving.serve(now_ns, 0, occupied_ns);
        // The last byte cannot be received before it has been sent.
        let at_ns = end_ns.max(item.sent_ns);
        let due_ns = self.links[link].coming_in.send(item, at_ns);
        self.queue.schedule(due_ns, Event::Arrive { link: link as u32 }, &mut self.dice);
        Ok(Happened::Internal)
    }

    /// The last byte of a frame is received.
    pub(super) fn arrive(&mut self, link: usize) -> Result<Happened, Violation> {
        let item = self.links[link].coming_in.arrive().expect("a frame per event");
        self.fifo.arrived(link, item.number).map_err(|finding| self.violation(finding))?;
        let (from, to) = self.ends(link);
        let station = self.station(to, link % self.layout.channels());
        let now_ns = self.now_ns();
        self.stations[station].receive(from, now_ns, item.frame);
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }
}
