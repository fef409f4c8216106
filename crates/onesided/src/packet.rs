//! The packets that nodes send each other before they are connected: introductions, and descriptors of
//! memory.

use intendant_segment::passing;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use subtle::ConstantTimeEq;

/// Name and version of the protocol.
const MAGIC: [u8; 8] = *b"ITDWIN01";
const SECRET: usize = 32;
/// Bytes of an introduction: the magic, the secret, rank and number of nodes as 32 bits, little-endian.
const BYTES: usize = MAGIC.len() + SECRET + 4 + 4;

/// The secret of a run: its nodes know it, and other processes do not.
#[derive(Clone, Copy)]
pub struct Secret([u8; SECRET]);

impl Secret {
    /// Makes a secret of these bytes, which should be random, and different for each run.
    #[must_use]
    pub const fn new(bytes: [u8; SECRET]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// The identity of a node, and its proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction {
    pub(crate) secret: Secret,
    pub(crate) rank: u32,
    pub(crate) nodes: u32,
}

impl Introduction {
    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let (magic, rest) = bytes.split_at_mut(MAGIC.len());
        let (secret, rest) = rest.split_at_mut(SECRET);
        let (rank, nodes) = rest.split_at_mut(4);
        magic.copy_from_slice(&MAGIC);
        secret.copy_from_slice(&self.secret.0);
        rank.copy_from_slice(&self.rank.to_le_bytes());
        nodes.copy_from_slice(&self.nodes.to_le_bytes());
        bytes
    }

    /// The rank of a node that knows the secret; `None` if the packet is no introduction with this secret.
    ///
    /// # Errors
    /// If the node knows the secret, and is of a run with another number of nodes.
    pub(crate) fn rank_of(&self, packet: &[u8]) -> Result<Option<usize>, String> {
        let Ok(packet) = <&[u8; BYTES]>::try_from(packet) else { return Ok(None) };
        let (magic, rest) = packet.split_at(MAGIC.len());
        let (secret, rest) = rest.split_at(SECRET);
        let (Some(rank), Some(nodes)) = (rest.first_chunk(), rest.last_chunk()) else { return Ok(None) };
        if *magic != MAGIC || !bool::from(secret.ct_eq(&self.secret.0)) {
            return Ok(None);
        }
        let nodes = u32::from_le_bytes(*nodes);
        if nodes != self.nodes {
            return Err(format!("it is one of {nodes} nodes, this one is one of {}", self.nodes));
        }
        Ok(Some(u32::from_le_bytes(*rank) as usize))
    }

    /// Sends the introduction, with memory or without. The call does not wait, because this is one of the
    /// first packets of the socket.
    pub(crate) fn send(&self, socket: &OwnedFd, memory: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        passing::send(socket, &self.encode(), memory).map(|_| ()).map_err(|error| errno(&error))
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A packet that a socket has received.
pub(crate) struct Packet {
    bytes: [u8; BYTES + 1],
    length: usize,
    /// Whether descriptors are missing, because this process cannot have all of them.
    pub(crate) truncated: bool,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Packet {
    /// Receives a packet; `None` if there is none yet. An empty packet means that the socket has been closed.
    /// Of a packet that is longer than any introduction, only a part arrives, and this part is no
    /// introduction.
    pub(crate) fn receive(socket: &OwnedFd) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; BYTES + 1];
        match passing::receive(socket, &mut bytes) {
            Ok(passing::Received { bytes: length, truncated, descriptors }) => {
                Ok(Some(Self { bytes, length, truncated, descriptors }))
            }
            Err(error) => match errno(&error) {
                Errno::AGAIN | Errno::INTR => Ok(None),
                error => Err(error),
            },
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.min(self.bytes.len())]
    }
}
