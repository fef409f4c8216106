//! The handshake of two nodes before the first frame: bytes and verdicts, without I/O.
//!
//! ```text
//! dialler   hello    magic [8] · protocol u32 · token [32] · cluster u64 · layout u64 · element u8
//!                    · asks u8 · from u16 · to u16 · nodes u16 · channels u16 · channel u16 (72 bytes)
//! acceptor  verdict  magic [8] · code u8 · 0 [7] · what the acceptor has u64                     (24 bytes)
//! dialler   confirm  magic [8]                                                                    (8 bytes)
//! ```
//! `asks` is 1 if the dialler asks for rings in shared memory, which it does over Unix sockets only. The
//! acceptor's verdict then brings a descriptor of their memory, unless the acceptor has none to give. If the
//! dialler can use it, it confirms with another magic. So each side knows what the other one does.
//!
//! `asks` is 2 if the dialler asks for RDMA, which it does over plain TCP only. An offer (`rdma.rs`) follows
//! the verdict, empty if the acceptor has none. If the dialler can connect to it, it confirms with a third
//! magic, and its own offer. The acceptor then has the last word: the same magic if it is connected,
//! otherwise the usual one.
//!
//! Numbers are little-endian. The hello's first twelve bytes and the verdict never change, so that any two
//! versions can detect that they differ. The acceptor reads nothing behind the token before it has verified
//! the token. A link exists once the confirmation is there: a dialler that gave up early leaves nothing
//! behind.

use crate::tls::is_tls_answer;
use crate::{TOKEN_BYTES, TlsError, Token};
use bytes::{Buf, BufMut};
use intendant_core::{ChannelId, ElementType, NodeId, limits};
use std::io;

/// The magic bytes that start a hello and a verdict; alone, they are the usual confirmation.
pub(crate) const MAGIC: [u8; 8] = *b"INTENDNT";

/// The confirmation of a dialler that uses the rings whose memory it has received.
pub(crate) const MAGIC_RINGS: [u8; 8] = *b"INTRINGS";

/// The confirmation of a dialler that is connected over RDMA, and the last word of an acceptor that is.
pub(crate) const MAGIC_RDMA: [u8; 8] = *b"INTVERBS";

/// Magic and protocol version, which every version understands.
pub(crate) const PREAMBLE_BYTES: usize = MAGIC.len() + 4;

/// Bytes of a hello.
pub(crate) const HELLO_BYTES: usize = PREAMBLE_BYTES + TOKEN_BYTES + 8 + 8 + 2 + 5 * 2;

/// Bytes of a verdict.
pub(crate) const VERDICT_BYTES: usize = MAGIC.len() + 8 + 8;

/// A node's rank, and its view of its cluster. All nodes of a cluster agree on everything
/// but the rank.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Version of the protocol spoken after the handshake.
    pub protocol: u32,
    /// The number of the run that the nodes belong to; a process left over from another run has another
    /// number.
    pub cluster: u64,
    /// The secret of the cluster.
    pub token: Token,
    /// [`intendant_core::Layout::digest`].
    pub layout: u64,
    /// Element type of all values.
    pub element: ElementType,
    /// This node.
    pub rank: NodeId,
    /// Nodes of the cluster, from 1.
    pub nodes: u16,
    /// Channels of each node, from 1.
    pub channels: u16,
}

/// Why two nodes do not connect. Each side reports it from its own point of view: `ours` is the value of this
/// process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first bytes of the other side are not those of this protocol.
    #[error("the other side does not speak this protocol; does another service use the address?")]
    NotIntendant,
    /// Protocol versions differ.
    #[error(
        "protocol versions differ: ours is {ours}, theirs is {theirs}; run the same release on every node"
    )]
    Protocol {
        /// Here.
        ours: u32,
        /// There.
        theirs: u32,
    },
    /// Tokens differ. Neither is shown.
    #[error("the cluster tokens differ; give every node the same token")]
    Token,
    /// The nodes belong to different runs.
    #[error("the other side belongs to another cluster: ours is {ours:016x}, theirs is {theirs:016x}")]
    Cluster {
        /// Here.
        ours: u64,
        /// There.
        theirs: u64,
    },
    /// The nodes would disagree about keys or their homes.
    #[error(
        "the layouts differ: ours is {ours:016x}, theirs is {theirs:016x}; start every node with the same \
         model, data and options"
    )]
    Layout {
        /// Digest here.
        ours: u64,
        /// Digest there.
        theirs: u64,
    },
    /// The nodes use different element types.
    #[error(
        "element types differ: ours is {ours}, theirs is {}; start every node with the same one",
        Element(*.theirs)
    )]
    Element {
        /// Here.
        ours: ElementType,
        /// Tag there, which may be of a type that is not known here.
        theirs: u8,
    },
    /// The nodes expect clusters of different sizes.
    #[error("numbers of nodes differ: ours is {ours}, theirs is {theirs}")]
    Nodes {
        /// Here.
        ours: u16,
        /// There.
        theirs: u16,
    },
    /// The nodes have different numbers of channels.
    #[error("numbers of channels differ: ours is {ours}, theirs is {theirs}")]
    Channels {
        /// Here.
        ours: u16,
        /// There.
        theirs: u16,
    },
    /// The address belongs to another node than the dialler believed.
    #[error("node {meant} was dialled and node {reached} answered; the list of addresses is wrong")]
    WrongNode {
        /// The node that the dialler wanted.
        meant: NodeId,
        /// The node that answered.
        reached: NodeId,
    },
    /// The dialler's rank does not exist.
    #[error("rank {rank} does not exist in a cluster of {nodes} nodes")]
    Rank {
        /// Rank of the dialler.
        rank: NodeId,
        /// Nodes of the cluster.
        nodes: u16,
    },
    /// The lower rank dials. If a higher rank dials, that is a programming error or a stranger.
    #[error("node {dialler} dialled node {acceptor}, but of two nodes the lower rank dials")]
    Direction {
        /// The node that dialled.
        dialler: NodeId,
        /// The node that was dialled.
        acceptor: NodeId,
    },
    /// The channel does not exist.
    #[error("channel {channel} does not exist; there are {channels}")]
    Channel {
        /// The channel asked for.
        channel: ChannelId,
        /// Channels of each node.
        channels: u16,
    },
    /// A node with this rank is connected already.
    #[error("rank {rank} is taken by another process (channel {channel}); give every process its own rank")]
    Duplicate {
        /// The rank.
        rank: NodeId,
        /// The channel.
        channel: ChannelId,
    },
    /// Another handshake for the same link has not ended yet. The dialler tries again.
    #[error("another connection of node {rank} for channel {channel} is being set up")]
    Busy {
        /// The rank.
        rank: NodeId,
        /// The channel.
        channel: ChannelId,
    },
    /// A verdict with a code that this version does not know.
    #[error(
        "refused for a reason that this version does not know (code {code}); run the same release on every \
         node"
    )]
    Unknown {
        /// The code.
        code: u8,
    },
    /// The process at the other end of a Unix socket belongs to another user.
    #[error("the other side runs as user {theirs}, this process as user {ours}; run all nodes as one user")]
    User {
        /// Here.
        ours: u32,
        /// There.
        theirs: u32,
    },
    /// The other side said nothing for too long.
    #[error("the other side did not answer in time")]
    Timeout,
    /// The other side closed the connection in the middle of the handshake.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// The nodes do not agree on a TLS connection.
    #[error(transparent)]
    Tls(TlsError),
    /// The connection broke, or could not be made.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<TlsError> for HandshakeError {
    fn from(error: TlsError) -> Self {
        match error {
            // Another attempt may succeed.
            TlsError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            TlsError::Io(error) => Self::Io(error),
            TlsError::PlainPeer
            | TlsError::TlsPeer
            | TlsError::Theirs { .. }
            | TlsError::Ours { .. }
            | TlsError::Protocol { .. } => Self::Tls(error),
        }
    }
}

struct Element(u8);

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match ElementType::from_tag(self.0) {
            Some(element) => element.fmt(f),
            None => write!(f, "unknown (tag {})", self.0),
        }
    }
}

/// What a dialler asks for beside the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Nothing = 0,
    Rings = 1,
    Rdma = 2,
}

impl Asks {
    /// An unknown byte counts as [`Asks::Nothing`].
    fn of_byte(byte: u8) -> Self {
        [Self::Rings, Self::Rdma].into_iter().find(|asks| *asks as u8 == byte).unwrap_or(Self::Nothing)
    }
}

/// The first message of a dialler.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) token: Token,
    pub(crate) cluster: u64,
    pub(crate) layout: u64,
    pub(crate) element: u8,
    pub(crate) asks: Asks,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) nodes: u16,
    pub(crate) channels: u16,
    pub(crate) channel: ChannelId,
}

impl Hello {
    /// The hello of the node with this identity to `to`.
    pub(crate) fn new(identity: &Identity, to: NodeId, channel: ChannelId, asks: Asks) -> Self {
        Self {
            protocol: identity.protocol,
            token: identity.token.clone(),
            cluster: identity.cluster,
            layout: identity.layout,
            element: identity.element as u8,
            asks,
            from: identity.rank,
            to,
            nodes: identity.nodes,
            channels: identity.channels,
            channel,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.put_slice(&MAGIC);
        bytes.put_u32_le(self.protocol);
        bytes.put_slice(self.token.bytes());
        bytes.put_u64_le(self.cluster);
        bytes.put_u64_le(self.layout);
        bytes.put_u8(self.element);
        bytes.put_u8(self.asks as u8);
        for word in [self.from.0, self.to.0, self.nodes, self.channels, self.channel.0] {
            bytes.put_u16_le(word);
        }
        bytes
    }

    /// Everything after the preamble.
    pub(crate) fn decode(protocol: u32, rest: &[u8; HELLO_BYTES - PREAMBLE_BYTES]) -> Self {
        let mut bytes = &rest[..];
        let mut token = [0; TOKEN_BYTES];
        bytes.copy_to_slice(&mut token);
        let (cluster, layout, element, asks) =
            (bytes.get_u64_le(), bytes.get_u64_le(), bytes.get_u8(), Asks::of_byte(bytes.get_u8()));
        let mut word = || bytes.get_u16_le();
        let (from, to) = (NodeId(word()), NodeId(word()));
        let (nodes, channels, channel) = (word(), word(), ChannelId(word()));
        Self {
            protocol,
            token: Token::from_bytes(token),
            cluster,
            layout,
            element,
            asks,
            from,
            to,
            nodes,
            channels,
            channel,
        }
    }
}

/// Checks the part that every version understands; yields the protocol version.
pub(crate) fn check_preamble(
    identity: &Identity,
    preamble: &[u8; PREAMBLE_BYTES],
) -> Result<u32, HandshakeError> {
    let mut bytes = &preamble[..];
    let mut magic = [0; MAGIC.len()];
    bytes.copy_to_slice(&mut magic);
    let (ours, theirs) = (identity.protocol, bytes.get_u32_le());
    if magic != MAGIC {
        return Err(HandshakeError::NotIntendant);
    }
    if ours != theirs { Err(HandshakeError::Protocol { ours, theirs }) } else { Ok(theirs) }
}

/// Checks a hello against the acceptor's identity; the order is part of the protocol.
pub(crate) fn check_hello(identity: &Identity, hello: &Hello) -> Result<(), HandshakeError> {
    use HandshakeError as E;
    if !identity.token.matches(&hello.token) {
        return Err(E::Token);
    }
    let refusal = if identity.cluster != hello.cluster {
        E::Cluster { ours: identity.cluster, theirs: hello.cluster }
    } else if identity.layout != hello.layout {
        E::Layout { ours: identity.layout, theirs: hello.layout }
    } else if identity.element as u8 != hello.element {
        E::Element { ours: identity.element, theirs: hello.element }
    } else if identity.nodes != hello.nodes {
        E::Nodes { ours: identity.nodes, theirs: hello.nodes }
    } else if identity.channels != hello.channels {
        E::Channels { ours: identity.channels, theirs: hello.channels }
    } else if identity.rank != hello.to {
        E::WrongNode { meant: hello.to, reached: identity.rank }
    } else if hello.from.0 >= identity.nodes {
        E::Rank { rank: hello.from, nodes: identity.nodes }
    } else if hello.channel.0 >= identity.channels {
        E::Channel { channel: hello.channel, channels: identity.channels }
    } else if hello.from == identity.rank {
        E::Duplicate { rank: hello.from, channel: hello.channel }
    } else if hello.from > identity.rank {
        E::Direction { dialler: hello.from, acceptor: identity.rank }
    } else {
        return Ok(());
    };
    Err(refusal)
}

/// The verdict that sends the dialler `refusal`, or admits it. `None` if the acceptor must not answer the
/// dialler.
pub(crate) fn encode_verdict(refusal: Option<&HandshakeError>) -> Option<[u8; VERDICT_BYTES]> {
    use HandshakeError as E;
    let (code, value) = match refusal {
        None => (0, 0),
        Some(refusal) => match refusal {
            E::NotIntendant => (1, 0),
            E::Protocol { ours, .. } => (2, u64::from(*ours)),
            E::Token => (3, 0),
            E::Cluster { ours, .. } => (4, *ours),
            E::Layout { ours, .. } => (5, *ours),
            E::Element { ours, .. } => (6, *ours as u64),
            E::Nodes { ours, .. } => (7, u64::from(*ours)),
            E::Channels { ours, .. } => (8, u64::from(*ours)),
            E::WrongNode { reached, .. } => (9, u64::from(reached.0)),
            E::Rank { nodes, .. } => (10, u64::from(*nodes)),
            E::Direction { acceptor, .. } => (11, u64::from(acceptor.0)),
            E::Channel { channels, .. } => (12, u64::from(*channels)),
            E::Duplicate { .. } => (13, 0),
            E::Busy { .. } => (14, 0),
            E::User { .. } | E::Tls(_) | E::Unknown { .. } | E::Timeout | E::Closed | E::Io(_) => {
                return None;
            }
        },
    };
    let mut verdict = [0; VERDICT_BYTES];
    verdict[..8].copy_from_slice(&MAGIC);
    verdict[8] = code;
    verdict[16..].copy_from_slice(&value.to_le_bytes());
    Some(verdict)
}

/// The error that the verdict on `hello` means for the dialler with this identity.
pub(crate) fn decode_verdict(
    identity: &Identity,
    hello: &Hello,
    verdict: &[u8; VERDICT_BYTES],
) -> Result<(), HandshakeError> {
    use HandshakeError as E;
    let mut bytes = &verdict[..];
    let mut magic = [0; MAGIC.len()];
    bytes.copy_to_slice(&mut magic);
    if is_tls_answer(magic[0]) {
        return Err(TlsError::TlsPeer.into());
    }
    if magic != MAGIC {
        return Err(E::NotIntendant);
    }
    let code = bytes.get_u8();
    bytes.advance(7);
    let theirs = bytes.get_u64_le();
    let (rank, channel) = (hello.from, hello.channel);
    Err(match code {
        0 => return Ok(()),
        1 => E::NotIntendant,
        2 => E::Protocol { ours: identity.protocol, theirs: theirs as u32 },
        3 => E::Token,
        4 => E::Cluster { ours: identity.cluster, theirs },
        5 => E::Layout { ours: identity.layout, theirs },
        6 => E::Element { ours: identity.element, theirs: theirs as u8 },
        7 => E::Nodes { ours: identity.nodes, theirs: theirs as u16 },
        8 => E::Channels { ours: identity.channels, theirs: theirs as u16 },
        9 => E::WrongNode { meant: hello.to, reached: NodeId(theirs as u16) },
        10 => E::Rank { rank, nodes: theirs as u16 },
        11 => E::Direction { dialler: rank, acceptor: NodeId(theirs as u16) },
        12 => E::Channel { channel, channels: theirs as u16 },
        13 => E::Duplicate { rank, channel },
        14 => E::Busy { rank, channel },
        code => E::Unknown { code },
    })
}

/// Checks an identity on its own. The error says in words what is wrong.
pub(crate) fn check_identity(identity: &Identity) -> Result<(), String> {
    let (rank, nodes, channels) = (identity.rank, identity.nodes, identity.channels);
    if !(1..=limits::NODES_MAX).contains(&usize::from(nodes)) {
        Err(format!("a cluster of {nodes} nodes; allowed are 1 to {}", limits::NODES_MAX))
    } else if rank.0 >= nodes {
        Err(format!("rank {rank} in a cluster of {nodes} nodes; ranks count from 0"))
    } else if !(1..=limits::CHANNELS_MAX).contains(&usize::from(channels)) {
        Err(format!("{channels} channels; allowed are 1 to {}", limits::CHANNELS_MAX))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(rank: u16) -> Identity {
        Identity {
            protocol: 1,
            cluster: 7,
            token: Token::from_bytes([9; TOKEN_BYTES]),
            layout: 5,
            element: ElementType::F32,
            rank: NodeId(rank),
            nodes: 4,
            channels: 2,
        }
    }

    fn split(bytes: &[u8]) -> (&[u8; PREAMBLE_BYTES], &[u8; HELLO_BYTES - PREAMBLE_BYTES]) {
        let (preamble, rest) = bytes.split_first_chunk().unwrap();
        (preamble, rest.try_into().unwrap())
    }

    /// One changed field per refusal, in the order of the checks. Each hello has all later faults as well, so
    /// the test finds a check that comes too late.
    #[test]
    fn faults_are_found_in_their_order() {
        let (dialler, acceptor) = (identity(1), identity(2));
        let mut hello = Hello::new(&dialler, NodeId(2), ChannelId(1), Asks::Nothing);
        let verdict = |hello: &Hello| {
            let bytes = hello.encode();
            let (preamble, rest) = split(&bytes);
            let checked = check_preamble(&acceptor, preamble)
                .and_then(|protocol| check_hello(&acceptor, &Hello::decode(protocol, rest)));
            let refusal = checked.expect_err("has a fault");
            let told = decode_verdict(&dialler, hello, &encode_verdict(Some(&refusal)).unwrap()).unwrap_err();
            (format!("{refusal:?}"), told)
        };
        type Fault = (fn(&mut Hello), &'static str);
        let faults: [Fault; 10] = [
            (|h| h.from = NodeId(3), "Direction"),
            (|h| h.from = NodeId(2), "Duplicate"),
            (|h| h.channel = ChannelId(2), "Channel {"),
            (|h| h.from = NodeId(4), "Rank"),
            (|h| h.to = NodeId(3), "WrongNode"),
            (|h| h.channels = 3, "Channels"),
            (|h| h.nodes = 5, "Nodes"),
            (|h| h.element = 8, "Element"),
            (|h| h.layout = 6, "Layout"),
            (|h| h.cluster = 8, "Cluster"),
        ];
        for (spoil, name) in faults {
            spoil(&mut hello);
            let (refusal, told) = verdict(&hello);
            assert!(refusal.starts_with(name), "{refusal} in place of {name}");
            assert!(format!("{told:?}").starts_with(name), "the dialler was told {told:?}");
        }
        hello.token = Token::from_bytes([8; TOKEN_BYTES]);
        assert_eq!(verdict(&hello).0, "Token");
        hello.protocol = 2;
        assert!(verdict(&hello).0.starts_with("Protocol"));
    }

    #[test]
    fn both_sides_report_their_own_point_of_view() {
        let (mut dialler, acceptor) = (identity(1), identity(2));
        dialler.layout = 0xabc;
        let hello = Hello::new(&dialler, NodeId(2), ChannelId(0), Asks::Nothing);
        let refusal = check_hello(&acceptor, &hello).unwrap_err();
        let told = decode_verdict(&dialler, &hello, &encode_verdict(Some(&refusal)).unwrap()).unwrap_err();
        assert!(
            refusal.to_string().contains("ours is 0000000000000005, theirs is 0000000000000abc"),
            "{refusal}"
        );
        assert!(told.to_string().contains("ours is 0000000000000abc, theirs is 0000000000000005"), "{told}");
    }

    #[test]
    fn a_good_hello_is_welcome() {
        let hello = Hello::new(&identity(1), NodeId(2), ChannelId(1), Asks::Nothing);
        let bytes = hello.encode();
        let (preamble, rest) = split(&bytes);
        assert_eq!(check_preamble(&identity(2), preamble).unwrap(), 1);
        assert!(check_hello(&identity(2), &Hello::decode(1, rest)).is_ok());
        assert!(decode_verdict(&identity(1), &hello, &encode_verdict(None).unwrap()).is_ok());
    }

    /// The bytes are a promise to other versions: a change here needs a new protocol version, and the first
    /// twelve bytes never change.
    #[test]
    fn a_hello_on_the_wire() {
        let bytes = Hello::new(&identity(1), NodeId(2), ChannelId(1), Asks::Nothing).encode();
        let mut expected = b"INTENDNT\x01\0\0\0".to_vec();
        expected.extend_from_slice(&[9; 32]);
        expected
            .extend_from_slice(b"\x07\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x04\0\x01\0\x02\0\x04\0\x02\0\x01\0");
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len(), HELLO_BYTES);
    }

    proptest! {
        #[test]
        fn random_bytes_are_never_welcome(
            bytes in proptest::collection::vec(any::<u8>(), HELLO_BYTES),
            known in 0usize..=PREAMBLE_BYTES) {
            let mut bytes = bytes;
            bytes[..known].copy_from_slice(&b"INTENDNT\x01\0\0\0"[..known]);
            let (preamble, rest) = split(&bytes);
            let welcome = check_preamble(&identity(2), preamble)
                .and_then(|protocol| check_hello(&identity(2), &Hello::decode(protocol, rest)));
            prop_assert!(welcome.is_err());
        }

        #[test]
        fn any_verdict_is_understood_or_refused(
            bytes in proptest::array::uniform24(any::<u8>()),
            magic: bool,
        ) {
            let mut bytes = bytes;
            if magic {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            let hello = Hello::new(&identity(1), NodeId(2), ChannelId(1), Asks::Nothing);
            let welcome = decode_verdict(&identity(1), &hello, &bytes).is_ok();
            prop_assert_eq!(welcome, magic && bytes[8] == 0);
        }
    }

    #[test]
    fn identities_out_of_range_are_refused() {
        let spoiled = |spoil: fn(&mut Identity)| {
            let mut identity = identity(1);
            spoil(&mut identity);
            check_identity(&identity).unwrap_err()
        };
        assert!(check_identity(&identity(3)).is_ok());
        assert!(spoiled(|i| i.rank = NodeId(4)).contains("rank 4"));
        assert!(spoiled(|i| i.nodes = 0).contains("0 nodes"));
        assert!(spoiled(|i| i.nodes = 1025).contains("1025 nodes"));
        assert!(spoiled(|i| i.channels = 0).contains("0 channels"));
        assert!(spoiled(|i| i.channels = 65).contains("65 channels"));
    }
}
