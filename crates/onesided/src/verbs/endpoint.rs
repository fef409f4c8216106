//! A node before it is connected.

use super::address::{Address, Remote};
use super::peer::Peer;
use super::window::now;
use super::{Card, VerbsError, VerbsWindow};
use crate::mapped::NODES_MAX;
use intendant_segment::Segment;
use intendant_verbs::{Access, Completions, DeviceError, Memory, Pair, QueuePair, Room};
use std::io;
use std::sync::Arc;

/// The operations for which a queue pair has room, if the card has it.
const OPERATIONS: usize = 256;
/// The hints that a node can take from each other node before it looks, if the card has room.
const HINTS: usize = 256;
/// A window with room for fewer operations or hints is refused.
const ROOM_MIN: usize = 8;
/// The bits of a packet number.
const PACKET_MASK: u32 = 0x00ff_ffff;

/// A node that has registered its memory and made its queue pairs, but does not know the other nodes yet.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) address: Address,
    pub(super) memory: Memory,
    pub(super) counters: Memory,
    pub(super) completions: Arc<Completions>,
    /// The queue pairs by number of node; `None` for this node.
    pairs: Vec<Option<QueuePair>>,
    card: Card,
    operations: usize,
}

impl Endpoint {
    /// Registers `segment` with the card and makes a queue pair for each other node. `incarnation` is the
    /// number of the run, the same on all nodes, so that nodes of different runs do not connect.
    ///
    /// The memory is locked: it is not swapped out. A segment that only this process has works as well as a
    /// shared one; [`Segment::shared`] serves windows of both kinds at once.
    ///
    /// # Errors
    /// If `rank` or `nodes` is out of range, if the process may not lock this much memory, if the card has no
    /// room for this many nodes, or if the driver refuses.
    pub fn new(
        card: Card,
        segment: Segment,
        rank: usize,
        nodes: usize,
        incarnation: u64,
    ) -> Result<Self, VerbsError> {
        if rank >= nodes || nodes > NODES_MAX {
            return Err(VerbsError::Rank { rank, nodes, nodes_max: NODES_MAX });
        }
        let device = card.name().to_owned();
        let system = |action| {
            let device = device.clone();
            move |source| VerbsError::from(DeviceError::System { device, action, source })
        };
        let (operations, hints) = room(&card, nodes)?;
        let domain = card.domain()?;
        let memory = Memory::new(&domain, segment, Access::ReadAndWrite)?;
        // For each node: the number of hints that were taken from it, and the word to which this node reads
        // that node's counter.
        let counters = Segment::new(2 * nodes)
            .map_err(io::Error::other)
            .map_err(system("making memory for counters"))?;
        let counters = Memory::new(&domain, counters, Access::Read)?;
        let completions = Completions::new(&domain, (nodes - 1).max(1) * (operations + hints))
            .map_err(system("making a queue of completions (ibv_create_cq)"))?;
        let mut packets = [0; 4];
        getrandom::fill(&mut packets)
            .map_err(|error| io::Error::other(error.to_string()))
            .map_err(system("drawing a random number"))?;
        let first_packet = u32::from_le_bytes(packets) & PACKET_MASK;
        let room = Room { operations, receptions: hints };
        let (mut pairs, mut numbers) = (Vec::new(), Vec::new());
        let segments = || [&memory, &counters].map(|memory| memory.segment().clone());
        for node in 0..nodes {
            let pair = (node != rank)
                .then(|| {
                    QueuePair::new(&domain, &completions, room, Access::ReadAndWrite, segments().to_vec())
                })
                .transpose()
                .map_err(system("making a queue pair (ibv_create_qp)"))?;
            numbers.push(
                pair.as_ref().map_or(Pair::default(), |pair| Pair { number: pair.number(), first_packet }),
            );
            pairs.push(pair);
        }
        let words = memory.segment().words() as u64;
        let remote = Remote { segment: memory.place(), words, counters: counters.place() };
        // `hints` is at most HINTS.
        let (path, hints, rank) = (card.path(), hints as u16, rank as u32);
        let address = Address { path, hints, rank, incarnation, memory: remote, pairs: numbers };
        Ok(Self { address, memory, counters, completions, pairs, card, operations })
    }

    /// The address that the other nodes need before they connect.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Connects to all nodes. `addresses` are those of all nodes, by number, including this node's.
    ///
    /// When this returns, this node answers the others, but they may not yet answer this one: let the nodes
    /// meet (a barrier, or a second gather) before the first of them begins an operation.
    ///
    /// # Errors
    /// If the addresses do not match each other, are of different runs, or cannot be reached.
    pub fn connect(self, addresses: &[Address]) -> Result<VerbsWindow, VerbsError> {
        let rank = self.address.rank as usize;
        let nodes = self.pairs.len();
        if addresses.len() != nodes {
            let what = format!("there are {} addresses for {nodes} nodes", addresses.len());
            return Err(VerbsError::Mixed { node: rank, what });
        }
        let mut peers = Vec::with_capacity(nodes);
        for (node, (pair, address)) in self.pairs.into_iter().zip(addresses).enumerate() {
            fits(&self.address, node, address).map_err(|what| VerbsError::Mixed { node, what })?;
            let Some(pair) = pair else {
                peers.push(None);
                continue;
            };
            let system = |action| {
                let device = self.card.name().to_owned();
                move |source| VerbsError::from(DeviceError::System { device, action, source })
            };
            let first = self.address.pairs[node].first_packet;
            for _ in 0..self.address.hints {
                let action = "making room for hints (ibv_post_recv)";
                pair.receive(Peer::receive_id(node)).map_err(system(action))?;
            }
            let asked = self.card.limits().reads_asked.max(1);
            let action = "connecting a queue pair: is there a route to the other node? (ibv_modify_qp)";
            pair.connect(&self.address.path, first, &address.path, address.pairs[rank], asked)
                .map_err(system(action))?;
            peers.push(Some(Peer::new(node, pair, address, self.operations, now())));
        }
        let part_bytes_max = self.card.message_bytes_max();
        Ok(VerbsWindow::new(rank, self.memory, self.counters, self.completions, peers, part_bytes_max))
    }
}

/// The room for operations and for hints of each queue pair.
fn room(card: &Card, nodes: usize) -> Result<(usize, usize), VerbsError> {
    let (limits, peers) = (card.limits(), (nodes - 1).max(1));
    let small = |what, limit, needed| VerbsError::TooSmall {
        device: card.name().to_owned(),
        what,
        limit,
        needed,
        nodes,
    };
    if limits.pairs < peers {
        return Err(small("queue pairs", limits.pairs, peers));
    }
    let each = limits.operations.min(limits.completions / (2 * peers));
    if each < ROOM_MIN {
        return Err(small(
            "places in queues",
            limits.completions.min(limits.operations),
            2 * peers * ROOM_MIN,
        ));
    }
    Ok((OPERATIONS.min(each), HINTS.min(each)))
}

/// Checks that the address of a node fits this node. The error says what does not fit.
fn fits(own: &Address, node: usize, address: &Address) -> Result<(), String> {
    if address.rank as usize != node {
        return Err(format!("it is that of node {}", address.rank));
    }
    if address.pairs.len() != own.pairs.len() {
        return Err(format!(
            "it is one of {} nodes, this one is one of {}",
            address.pairs.len(),
            own.pairs.len()
        ));
    }
    if address.incarnation != own.incarnation {
        return Err(format!("it is of run {}, this node is of run {}", address.incarnation, own.incarnation));
    }
    if node == own.rank as usize && address != own {
        return Err("it is not the one that this node has made".to_owned());
    }
    if address.path.ethernet != own.path.ethernet {
        let kind = |ethernet| if ethernet { "Ethernet (RoCE)" } else { "InfiniBand" };
        return Err(format!(
            "its port is one of {}, this one's of {}",
            kind(address.path.ethernet),
            kind(own.path.ethernet)
        ));
    }
    if usize::try_from(address.memory.words).is_err() || address.memory.words > u64::MAX / 8 {
        return Err(format!("its segment has {} words, which are too many", address.memory.words));
    }
    Ok(())
}
