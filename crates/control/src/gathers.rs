//! The open gathers: the contributions of each node, by name.
//!
//! A round of a name needs no number. A node contributes once, gets the contributions of all nodes, and only
//! then may contribute again; messages to and from a node keep their order. So every message for a name
//! belongs to the open round of that name. A node that contributes twice to a round breaks the protocol.
//!
//! This module has no streams and no clock. The coordinator sends the messages that [`Gathers::contribute`]
//! returns.

use crate::proto::{Contribution, Gathered, gathered::Piece};
use bytes::Bytes;
use intendant_core::{NodeId, Tick};
use std::collections::BTreeMap;

/// The most bytes that one node may contribute to one round.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The most bytes of a piece. It is so small that beats behind it are not late even at 10 Mbit/s.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The most bytes of a message on the control plane: two pieces with room to spare. Longer messages are
/// refused before memory is allocated.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a name.
pub(super) const NAME_BYTES_MAX: usize = 200;

/// The most names that may be open at the same time: far more than any program needs, and a bound on the cost
/// of a faulty node.
const OPEN_MAX: usize = 1024;

/// Time before a round that stays open is mentioned in the log; doubled each time.
const MENTION_US: u64 = 30_000_000;

/// All open rounds of a cluster.
#[derive(Debug)]
pub(super) struct Gathers {
    nodes: usize,
    open: BTreeMap<String, Round>,
}

#[derive(Debug)]
struct Round {
    since: Tick,
    mention_us: u64,
    complete: usize,
    payloads: Vec<Payload>,
}

#[derive(Clone, Debug, Default)]
struct Payload {
    pieces: Vec<Bytes>,
    bytes: usize,
    complete: bool,
}

/// A round that is open, for tools.
pub(super) struct Open<'a> {
    pub(super) name: &'a str,
    pub(super) since: Tick,
    pub(super) missing: Vec<NodeId>,
}

impl Gathers {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, open: BTreeMap::new() }
    }

    /// Takes a piece of a contribution. If it completes the round, returns the messages for every node.
    ///
    /// # Errors
    /// If node `from` broke the protocol; the rest of the sentence that starts with its name.
    pub(super) fn contribute(
        &mut self,
        now: Tick,
        from: NodeId,
        part: Contribution,
    ) -> Result<Option<Vec<Gathered>>, String> {
        let Contribution { name, payload, last } = part;
        if name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "gathers under a name of {} bytes; {NAME_BYTES_MAX} are allowed",
                name.len()
            ));
        }
        if !self.open.contains_key(&name) && self.open.len() == OPEN_MAX {
            return Err(format!("opens '{name}' while {OPEN_MAX} gathers are open"));
        }
        let round = self.open.entry(name.clone()).or_insert_with(|| Round {
            since: now,
            mention_us: MENTION_US,
            complete: 0,
            payloads: vec![Payload::default(); self.nodes],
        });
        let own = &mut round.payloads[from.index()];
        if own.complete {
            return Err(format!("contributed twice to one round of '{name}'"));
        }
        own.bytes += payload.len();
        if payload.len() > PIECE_BYTES || own.bytes > PAYLOAD_BYTES_MAX {
            return Err(format!("contributed more than {PAYLOAD_BYTES_MAX} bytes to '{name}'"));
        }
        own.pieces.push(payload);
        if !last {
            return Ok(None);
        }
        own.complete = true;
        round.complete += 1;
        if round.complete < self.nodes {
            return Ok(None);
        }
        Ok(self.open.remove(&name).map(|round| pack(&name, round.payloads)))
    }

    /// A round to which `node` has not contributed and in which another node waits. Returns its name and the
    /// lowest waiting node.
    pub(super) fn waiting_for(&self, node: NodeId) -> Option<(&str, NodeId)> {
        self.open.iter().filter(|(_, round)| !round.payloads[node.index()].complete).find_map(
            |(name, round)| {
                let waits = round.payloads.iter().position(|payload| payload.complete)?;
                Some((name.as_str(), NodeId(waits as u16)))
            },
        )
    }

    /// Forgets all rounds.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// The open rounds.
    pub(super) fn open(&self) -> impl Iterator<Item = Open<'_>> {
        self.open.iter().map(|(name, round)| Open { name, since: round.since, missing: round.missing() })
    }

    /// Sentences about rounds that have been open for long, for the log: a round may wait for a slow node, or
    /// for ever because the program's nodes take different branches, and only the user can distinguish these.
    pub(super) fn mentions(&mut self, now: Tick) -> Vec<String> {
        let mut sentences = Vec::new();
        for (name, round) in &mut self.open {
            let waited = now.0.saturating_sub(round.since.0);
            if waited >= round.mention_us {
                round.mention_us *= 2;
                let missing = round.missing();
                let seconds = waited / 1_000_000;
                sentences
                    .push(format!("'{name}' has been waiting for {seconds} s; not there yet: {missing:?}"));
            }
        }
        sentences
    }
}

impl Round {
    fn missing(&self) -> Vec<NodeId> {
        let nodes = (0..).map(NodeId).zip(&self.payloads);
        nodes.filter(|(_, payload)| !payload.complete).map(|(node, _)| node).collect()
    }
}

/// Cuts a contribution into messages.
pub(super) fn cut(name: &str, payload: Vec<u8>) -> impl Iterator<Item = Contribution> {
    let payload = Bytes::from(payload);
    let pieces = payload.len().div_ceil(PIECE_BYTES).max(1);
    (0..pieces).map(move |piece| {
        let end = payload.len().min((piece + 1) * PIECE_BYTES);
        let part = payload.slice(piece * PIECE_BYTES..end);
        Contribution { name: name.to_owned(), payload: part, last: piece + 1 == pieces }
    })
}

/// Packs all contributions into messages: small ones of many nodes share one.
fn pack(name: &str, payloads: Vec<Payload>) -> Vec<Gathered> {
    let mut messages = Vec::new();
    let mut message = Gathered { name: name.to_owned(), pieces: Vec::new() };
    let mut bytes = 0;
    for (rank, payload) in (0u32..).zip(payloads) {
        let last = payload.pieces.len();
        for (index, piece) in (1..).zip(payload.pieces) {
            bytes += piece.len();
            message.pieces.push(Piece { rank, payload: piece, last: index == last });
            if bytes >= PIECE_BYTES {
                messages.push(std::mem::replace(
                    &mut message,
                    Gathered { name: name.to_owned(), pieces: Vec::new() },
                ));
                bytes = 0;
            }
        }
    }
    if !message.pieces.is_empty() {
        messages.push(message);
    }
    messages
}

/// The receiving end of one round at a node.
#[derive(Debug)]
pub(super) struct Assembly {
    payloads: Vec<Vec<u8>>,
    complete: usize,
}

impl Assembly {
    pub(super) fn new(nodes: usize) -> Self {
        Self { payloads: vec![Vec::new(); nodes], complete: 0 }
    }

    /// Appends pieces. Returns whether all contributions are complete.
    ///
    /// # Errors
    /// If the coordinator names a node that does not exist; the rest of the sentence that starts with its
    /// name.
    pub(super) fn take(&mut self, pieces: Vec<Piece>) -> Result<bool, String> {
        for piece in pieces {
            let Some(payload) = self.payloads.get_mut(piece.rank as usize) else {
                return Err(format!("sent a contribution of node {}, which does not exist", piece.rank));
            };
            payload.extend_from_slice(&piece.payload);
            self.complete += usize::from(piece.last);
        }
        Ok(self.complete == self.payloads.len())
    }

    /// The contributions, by rank.
    pub(super) fn into_payloads(self) -> Vec<Vec<u8>> {
        self.payloads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Tick = Tick(0);

    fn contribute(gathers: &mut Gathers, node: u16, name: &str, payload: Vec<u8>) -> Option<Vec<Gathered>> {
        let mut done = None;
        for part in cut(name, payload) {
            assert!(done.is_none(), "complete before the last piece");
            done = gathers.contribute(T0, NodeId(node), part).unwrap();
        }
        done
    }

    fn assemble(nodes: usize, messages: Vec<Gathered>) -> Vec<Vec<u8>> {
        let mut assembly = Assembly::new(nodes);
        let count = messages.len();
        for (index, message) in (1..).zip(messages) {
            use prost::Message;
            assert!(message.encoded_len() < MESSAGE_BYTES_MAX);
            assert_eq!(assembly.take(message.pieces).unwrap(), index == count);
        }
        assembly.into_payloads()
    }

    #[test]
    fn payloads_of_all_sizes_come_back_in_order_of_ranks() {
        let sizes = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, PAYLOAD_BYTES_MAX];
        let payloads: Vec<Vec<u8>> =
            sizes.iter().map(|&size| (0..size).map(|i| (i * 31 + size) as u8).collect()).collect();
        let mut gathers = Gathers::new(sizes.len());
        let mut done = None;
        for node in (0..sizes.len()).rev() {
            assert!(done.is_none());
            done = contribute(&mut gathers, node as u16, "x", payloads[node].clone());
        }
        assert_eq!(assemble(sizes.len(), done.unwrap()), payloads);
        assert_eq!(gathers.open().count(), 0);
    }

    #[test]
    fn names_are_apart_and_rounds_follow_each_other() {
        let mut gathers = Gathers::new(2);
        assert!(contribute(&mut gathers, 0, "a", vec![1]).is_none());
        assert!(contribute(&mut gathers, 1, "b", vec![2]).is_none());
        assert_eq!(gathers.waiting_for(NodeId(0)), Some(("b", NodeId(1))));
        assert_eq!(assemble(2, contribute(&mut gathers, 1, "a", vec![3]).unwrap()), [[1], [3]]);
        assert!(contribute(&mut gathers, 1, "a", vec![4]).is_none());
        assert_eq!(assemble(2, contribute(&mut gathers, 0, "a", vec![5]).unwrap()), [[5], [4]]);
        assert_eq!(assemble(2, contribute(&mut gathers, 0, "b", vec![6]).unwrap()), [[6], [2]]);
        assert_eq!(gathers.waiting_for(NodeId(0)), None);
    }

    #[test]
    fn what_a_node_must_not_send_is_refused() {
        let part = |name: &str, bytes: usize, last| Contribution {
            name: name.to_owned(),
            payload: vec![0; bytes].into(),
            last,
        };
        let mut gathers = Gathers::new(2);
        gathers.contribute(T0, NodeId(0), part("x", 1, true)).unwrap();
        let twice = gathers.contribute(T0, NodeId(0), part("x", 1, true)).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
        let long = gathers.contribute(T0, NodeId(0), part(&"n".repeat(201), 1, true)).unwrap_err();
        assert!(long.contains("201 bytes"), "{long}");
        assert!(gathers.contribute(T0, NodeId(0), part("big", PIECE_BYTES + 1, true)).is_err());
        for _ in 0..PAYLOAD_BYTES_MAX / PIECE_BYTES {
            gathers.contribute(T0, NodeId(1), part("sum", PIECE_BYTES, false)).unwrap();
        }
        assert!(gathers.contribute(T0, NodeId(1), part("sum", 1, true)).is_err());
        for name in gathers.open().count()..OPEN_MAX {
            gathers.contribute(T0, NodeId(1), part(&format!("n{name}"), 0, true)).unwrap();
        }
        assert!(gathers.contribute(T0, NodeId(1), part("one more", 0, true)).is_err());
    }

    #[test]
    fn a_round_that_stays_open_is_mentioned_ever_more_rarely() {
        let mut gathers = Gathers::new(3);
        contribute(&mut gathers, 1, "epoch", Vec::new());
        let mentions: Vec<u64> =
            (0..300).filter(|&second| !gathers.mentions(Tick(second * 1_000_000)).is_empty()).collect();
        assert_eq!(mentions, [30, 60, 120, 240]);
        assert_eq!(
            gathers.mentions(Tick(500_000_000)),
            ["'epoch' has been waiting for 500 s; not there yet: [n0, n2]"]
        );
    }
}
