//! Connections over RDMA with a peer that this file implements independently of the product's code. Without a
//! card, the tests print that and do nothing, or fail if `REQUIRE_VERBS` is set; `scripts/rxe.sh` sets it.

use crate::common::{LOOPBACK, PATIENCE, bind, identity, kinds, lost, next_frame, raw_hello};
use bytes::Bytes;
use intendant_core::NodeId;
use intendant_segment::Segment;
use intendant_transport::socket::Mesh;
use intendant_transport::{Address, Fabric, LinkError, Transport};
use intendant_verbs::{Access, Card, Completion, Completions, Memory, Pair, Path, QueuePair, Room};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Few and small pieces, so that a frame needs several of them, and room is soon used up.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 512;
/// The first word of outgoing messages: they use the last piece of memory.
const OUT: usize = PIECES * PIECE_BYTES / 8;

/// Rank 0 of two nodes.
struct Raw {
    socket: TcpStream,
    pair: QueuePair,
    completions: Arc<Completions>,
    memory: Memory,
    /// Messages for which the node had room at first.
    room: u16,
    /// Messages of the node: the bytes and the credits of each.
    came: Vec<(usize, u32)>,
    bytes: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Raw {
    /// Dials, and asks for RDMA. Returns the node's offer.
    async fn dial(address: Address) -> (TcpStream, [u8; 36]) {
        let mut socket = TcpStream::connect(address.tcp).await.expect("the gate listens");
        let mut hello = raw_hello(&identity(0, 2, 1), 1, 0);
        // The byte `asks` is behind magic, protocol, token, cluster, layout and element.
        hello[8 + 4 + 32 + 8 + 8 + 1] = 2;
        socket.write_all(&hello).await.expect("a hello");
        let mut answer = [0; 24 + 36];
        socket.read_exact(&mut answer).await.expect("a verdict and an offer");
        assert_eq!(answer[8], 0, "refused");
        (socket, answer[24..].try_into().expect("36 bytes"))
    }

    async fn connect(address: Address) -> Self {
        let (socket, offer) = Self::dial(address).await;
        assert_eq!(offer[0], 1, "the node offers RDMA");
        let card = Card::find(None, None).expect("a card");
        let domain = card.domain().expect("a domain");
        let segment = Segment::new(OUT + PIECE_BYTES / 8).expect("memory");
        let memory = Memory::new(&domain, segment, Access::Local).expect("it may be locked");
        let completions = Completions::new(&domain, 64).expect("a queue");
        let room = Room { operations: 32, receptions: PIECES };
        let segments = vec![memory.segment().clone()];
        let pair =
            QueuePair::new(&domain, &completions, room, Access::Local, segments).expect("a queue pair");
        let own = card.path();
        let gid = offer[20..].try_into().expect("16 bytes");
        let lid = u16::from_le_bytes([offer[4], offer[5]]);
        let peer = Path { gid, lid, ethernet: offer[1] != 0, mtu: offer[2], reads: offer[3] };
        let theirs = Pair { number: word(&offer, 12), first_packet: word(&offer, 16) };
        pair.connect(&own, 77, &peer, theirs, 1).expect("a way to the node");
        let room = u16::from_le_bytes([offer[6], offer[7]]);
        let raw = Self { socket, pair, completions, memory, room, came: Vec::new(), bytes: Vec::new() };
        (0..PIECES).for_each(|piece| raw.make_room(piece));
        let mut answer = b"INTVERBS".to_vec();
        answer.extend([1, u8::from(own.ethernet), own.mtu, own.reads]);
        answer.extend(own.lid.to_le_bytes());
        answer.extend((PIECES as u16).to_le_bytes());
        for number in [PIECE_BYTES as u32, raw.pair.number(), 77] {
            answer.extend(number.to_le_bytes());
        }
        answer.extend(own.gid);
        let mut raw = raw;
        raw.socket.write_all(&answer).await.expect("an answer");
        let mut last_word = [0; 8];
        raw.socket.read_exact(&mut last_word).await.expect("the last word");
        assert_eq!(&last_word, b"INTVERBS");
        raw
    }

    fn make_room(&self, piece: usize) {
        let at = piece * PIECE_BYTES / 8;
        self.pair.receive_into(piece as u64, &self.memory, at, PIECE_BYTES).expect("a place for a message");
    }

    /// Sends a message, and returns once it has arrived at the node.
    async fn send(&mut self, bytes: &[u8], credits: u32) {
        let mut words = bytes.to_vec();
        words.resize(bytes.len().next_multiple_of(8), 0);
        self.memory.segment().write_bytes(OUT, &words);
        self.pair.send(u64::MAX, &self.memory, OUT, bytes.len(), credits).expect("it is sent");
        while !self.look() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Handles the completions that have arrived. Returns whether a message of this peer has arrived at the
    /// node.
    fn look(&mut self) -> bool {
        let (mut taken, mut arrived) = (Vec::new(), false);
        self.completions.take(&mut taken).expect("the queue works");
        for Completion { id, result, bytes } in taken {
            let credits = result.expect("no message fails");
            if id == u64::MAX {
                arrived = true;
                continue;
            }
            let mut words = vec![0; bytes.next_multiple_of(8)];
            self.memory.segment().read_bytes(id as usize * PIECE_BYTES / 8, &mut words);
            self.bytes.extend(&words[..bytes]);
            self.came.push((bytes, credits.expect("each message tells of room")));
            self.make_room(id as usize);
        }
        arrived
    }
}

/// A fabric of rank 1 and its raw peer; `None` without a card.
async fn pair() -> Option<(Fabric, Raw, Mesh)> {
    if !kinds().contains(&Transport::Verbs) {
        return None;
    }
    let listener = bind(Transport::Verbs);
    let address = listener.address();
    let own = identity(1, 2, 1);
    let roster = [LOOPBACK.into(), address];
    let (mesh, peer) = tokio::join!(listener.mesh(&own, &roster, PATIENCE), Raw::connect(address));
    let mut mesh = mesh.expect("the peer is there");
    assert_eq!((mesh.links().rdma, mesh.links().tcp), (1, 0));
    let fabric = mesh.take_builders().remove(0).finish().expect("in a runtime").into();
    Some((fabric, peer, mesh))
}

/// Lets the fabric work for a moment, in which no event may come.
async fn nothing_comes(fabric: &mut Fabric) {
    let waits = tokio::time::timeout(Duration::from_millis(20), fabric.next());
    assert!(waits.await.is_err(), "nothing was sent");
}

#[tokio::test]
async fn no_more_messages_are_sent_than_the_peer_has_room_for() {
    let Some((mut fabric, mut peer, _mesh)) = pair().await else { return };
    let frame: Vec<u8> = (0..5_000_u32).map(|at| (at % 251) as u8).collect();
    fabric.send(NodeId(0), frame.clone().into());
    nothing_comes(&mut fabric).await;
    peer.look();
    // The last credit is reserved for reporting room.
    assert_eq!(peer.came, [(PIECE_BYTES, 0); PIECES - 1]);
    assert!(fabric.backlog_bytes(NodeId(0)) > 0);
    peer.came.clear();
    // The peer reports that it has made room, and sends a frame: the node goes on writing, and passes the
    // frame on.
    peer.send(b"\x02\0\0\0ok", 3).await;
    assert_eq!(next_frame(&mut fabric).await, (NodeId(0), Bytes::from_static(b"ok")));
    for _ in 0..100 {
        if peer.bytes.len() >= 4 + frame.len() {
            break;
        }
        nothing_comes(&mut fabric).await;
        peer.look();
        let free = peer.came.len() as u32;
        peer.came.clear();
        if free > 0 {
            peer.send(b"", free).await;
        }
    }
    assert_eq!(peer.bytes[..4], 5_000_u32.to_le_bytes());
    assert!(peer.bytes[4..] == frame, "{} bytes came", peer.bytes.len());
    assert_eq!(fabric.backlog_bytes(NodeId(0)), 0);
}

/// The node sends no frames that could carry credits. The peer sends more messages than the node had room for
/// at first.
#[tokio::test]
async fn a_node_that_only_reads_tells_of_room() {
    let Some((mut fabric, mut peer, _mesh)) = pair().await else { return };
    let half = u32::from(peer.room) / 2;
    let mut credits = 0;
    for _ in 0..3 {
        for _ in 0..half {
            peer.send(b"\x02\0\0\0ok", std::mem::take(&mut credits)).await;
            assert_eq!(next_frame(&mut fabric).await.1, "ok");
        }
        for _ in 0..100 {
            peer.look();
            if !peer.came.is_empty() {
                break;
            }
            nothing_comes(&mut fabric).await;
        }
        assert_eq!(peer.came, [(0, half)]);
        peer.came.clear();
        credits = 1;
    }
}

#[tokio::test]
async fn a_peer_that_counts_its_room_wrongly_is_lost() {
    for credits in [1, PIECES as u32, u32::MAX] {
        let Some((mut fabric, mut peer, _mesh)) = pair().await else { return };
        peer.send(b"\x02\0\0\0ok", credits).await;
        // The node passes on what came.
        assert_eq!(next_frame(&mut fabric).await, (NodeId(0), Bytes::from_static(b"ok")));
        let error = lost(&mut fabric).await;
        assert!(error.to_string().contains("the peer counts its room wrongly"), "{error}");
    }
}

#[tokio::test]
async fn a_peer_that_ends_is_lost_after_what_it_has_sent() {
    for (rest, truncated) in [(&b""[..], None), (b"\x05\0\0\0abc", Some(7))] {
        let Some((mut fabric, mut peer, _mesh)) = pair().await else { return };
        peer.send(&[b"\x02\0\0\0ok", rest].concat(), 0).await;
        drop(peer);
        assert_eq!(next_frame(&mut fabric).await.1, "ok");
        match (lost(&mut fabric).await, truncated) {
            (LinkError::Vanished, None) => {}
            (LinkError::Truncated { bytes }, Some(expected)) => assert_eq!(bytes, expected),
            (error, _) => panic!("{error}"),
        }
    }
}

/// The process of the peer is gone, although its socket is not: the card reports it.
#[tokio::test]
async fn a_peer_whose_card_does_not_answer_is_lost() {
    let Some((mut fabric, peer, _mesh)) = pair().await else { return };
    let Raw { pair, socket: _socket, .. } = peer;
    drop(pair);
    fabric.send(NodeId(0), Bytes::from_static(b"hello?"));
    let error = lost(&mut fabric).await;
    assert!(error.to_string().contains("RDMA: transport retry counter exceeded"), "{error}");
}

#[tokio::test]
async fn a_peer_that_uses_the_socket_as_well_is_lost() {
    let Some((mut fabric, mut peer, _mesh)) = pair().await else { return };
    peer.socket.write_all(b"\x02\0\0\0ok").await.expect("a few bytes");
    let error = lost(&mut fabric).await;
    assert!(error.to_string().contains("bytes beside it"), "{error}");
}

#[tokio::test]
async fn a_peer_that_declines_keeps_its_socket() {
    if !kinds().contains(&Transport::Verbs) {
        return;
    }
    let listener = bind(Transport::Verbs);
    let address = listener.address();
    let own = identity(1, 2, 1);
    let roster = [LOOPBACK.into(), address];
    let declines = async {
        let (mut socket, offer) = Raw::dial(address).await;
        assert_eq!(offer[0], 1, "the node offers RDMA");
        socket.write_all(b"INTENDNT\x02\0\0\0ok").await.expect("a confirmation and a frame");
        socket
    };
    let (mesh, _socket) = tokio::join!(listener.mesh(&own, &roster, PATIENCE), declines);
    let mut mesh = mesh.expect("the peer is there");
    assert_eq!((mesh.links().rdma, mesh.links().tcp), (0, 1));
    let mut fabric: Fabric = mesh.take_builders().remove(0).finish().expect("in a runtime").into();
    assert_eq!(next_frame(&mut fabric).await.1, "ok");
}
