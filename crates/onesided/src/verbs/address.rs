//! The address that a node sends to the others before they connect.

use super::VerbsError;
use intendant_verbs::{Pair, Path, Place};

const MAGIC: [u8; 8] = *b"ITDVRB01";
/// Bytes before the queue pairs.
const HEAD: usize = 8 + 4 + 2 + 2 + 4 + 4 + 8 + 16 + 8 + 8 + 4 + 4 + 8;
/// Bytes of a queue pair: its number, and the number of its first packet.
const PAIR: usize = 4 + 4;

/// Where the memory and the queue pairs of a node are, as bytes for a gather.
///
/// A process that has the address can read and write the node's segment: send it only to the nodes of the
/// run.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) path: Path,
    /// The most hints that the node can take from each other node before it looks; at most 65,535.
    pub(super) hints: u16,
    pub(super) rank: u32,
    /// The number of the run: windows of different runs do not connect.
    pub(super) incarnation: u64,
    pub(super) memory: Remote,
    /// For each node, the queue pair to which it connects.
    pub(super) pairs: Vec<Pair>,
}

/// Memory of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    /// Its segment.
    pub(super) segment: Place,
    pub(super) words: u64,
    /// The counters: for each node, the number of hints that were taken from it.
    pub(super) counters: Place,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The keys of the memory are left out.
        formatter
            .debug_struct("Address")
            .field("rank", &self.rank)
            .field("nodes", &self.pairs.len())
            .finish_non_exhaustive()
    }
}

impl Address {
    /// The address as bytes, little-endian; 80 bytes and 8 per node.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { path, hints, rank, incarnation, memory, pairs } = self;
        let mut bytes = Vec::with_capacity(HEAD + PAIR * pairs.len());
        bytes.extend(MAGIC);
        bytes.extend([u8::from(cfg!(target_endian = "big")), u8::from(path.ethernet), path.mtu, path.reads]);
        bytes.extend(path.lid.to_le_bytes());
        bytes.extend(hints.to_le_bytes());
        bytes.extend(rank.to_le_bytes());
        bytes.extend((pairs.len() as u32).to_le_bytes());
        bytes.extend(incarnation.to_le_bytes());
        bytes.extend(path.gid);
        bytes.extend(memory.segment.address.to_le_bytes());
        bytes.extend(memory.words.to_le_bytes());
        bytes.extend(memory.segment.key.to_le_bytes());
        bytes.extend(memory.counters.key.to_le_bytes());
        bytes.extend(memory.counters.address.to_le_bytes());
        for pair in pairs {
            bytes.extend(pair.number.to_le_bytes());
            bytes.extend(pair.first_packet.to_le_bytes());
        }
        bytes
    }

    /// Reads an address from its bytes.
    ///
    /// # Errors
    /// If the bytes are not an address of this version from a machine of this byte order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VerbsError> {
        let wrong = |what| VerbsError::Address { bytes: bytes.len(), what };
        let mut rest = Rest(bytes);
        let head = "it is too short";
        if rest.take().ok_or_else(|| wrong(head))? != MAGIC {
            return Err(wrong("it is of another version, or no address"));
        }
        let [order, ethernet, mtu, reads] = rest.take().ok_or_else(|| wrong(head))?;
        if order != u8::from(cfg!(target_endian = "big")) {
            return Err(wrong("the machine of the node has another byte order"));
        }
        let mut parse = || -> Option<(Self, u32)> {
            let (lid, hints) = (u16::from_le_bytes(rest.take()?), u16::from_le_bytes(rest.take()?));
            let (rank, nodes) = (u32::from_le_bytes(rest.take()?), u32::from_le_bytes(rest.take()?));
            let incarnation = u64::from_le_bytes(rest.take()?);
            let gid = rest.take()?;
            let (segment, words) = (u64::from_le_bytes(rest.take()?), u64::from_le_bytes(rest.take()?));
            let keys = [u32::from_le_bytes(rest.take()?), u32::from_le_bytes(rest.take()?)];
            let counters = u64::from_le_bytes(rest.take()?);
            let place = |address, key| Place { address, key };
            let memory =
                Remote { segment: place(segment, keys[0]), words, counters: place(counters, keys[1]) };
            let path = Path { gid, lid, ethernet: ethernet != 0, mtu, reads };
            Some((Self { path, hints, rank, incarnation, memory, pairs: Vec::new() }, nodes))
        };
        let (mut address, nodes) = parse().ok_or_else(|| wrong(head))?;
        if !(1..=5).contains(&mtu) || reads == 0 || address.hints == 0 {
            return Err(wrong("it has an impossible packet size, or room for no read or hint"));
        }
        if Some(rest.0.len()) != (nodes as usize).checked_mul(PAIR) {
            return Err(wrong("its length does not fit to its number of nodes"));
        }
        while let (Some(number), Some(packet)) = (rest.take(), rest.take()) {
            let pair = Pair { number: u32::from_le_bytes(number), first_packet: u32::from_le_bytes(packet) };
            address.pairs.push(pair);
        }
        Ok(address)
    }
}

/// Bytes that were not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}
