//! Peers that use rings and misbehave, end, or cannot use them. This file implements the layout of the memory
//! and the handshake independently of the product's code.

use crate::common::{LOOPBACK, PATIENCE, bind, identity, lost, next, next_frame, raw_hello};
use bytes::Bytes;
use intendant_core::NodeId;
use intendant_segment::{Segment, passing};
use intendant_transport::socket::{Links, Mesh, UnixName};
use intendant_transport::{Address, Fabric, FabricEvent, LinkError, Transport};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};

/// A dialler of rank 0 that is only a socket and memory. It writes the first ring and reads the second.
struct Raw {
    socket: UnixStream,
    memory: Segment,
    written: u64,
}

/// Words of a ring, in memory that holds two rings.
fn ring_words(memory: &Segment) -> usize {
    memory.words() / 2
}

impl Raw {
    /// Connects, and answers the offer of rings with `confirmation`.
    async fn connect(address: Address, confirmation: &[u8; 8]) -> Self {
        let name = address.unix.expect("it has a Unix socket");
        let mut socket = UnixStream::connect(format!("\0intendant-{name}")).await.expect("the gate listens");
        let mut hello = raw_hello(&identity(0, 2, 1), 1, 0);
        hello[61] = 1;
        socket.write_all(&hello).await.expect("a hello");
        let mut verdict = [0; 24];
        let received = socket
            .async_io(Interest::READABLE, || passing::receive(&socket, &mut verdict))
            .await
            .expect("a verdict");
        assert_eq!((received.bytes, verdict[8]), (24, 0));
        let [memory] = <[_; 1]>::try_from(received.descriptors).expect("one descriptor");
        let memory = Segment::open(memory).expect("memory of rings");
        socket.write_all(confirmation).await.expect("a confirmation");
        Self { socket, memory, written: 0 }
    }

    /// Writes whole words into the first ring, without publishing them.
    fn place(&mut self, bytes: &[u8]) {
        let mut words = bytes.to_vec();
        words.resize(bytes.len().next_multiple_of(8), 0);
        self.memory.write_bytes(32 + self.written as usize / 8, &words);
        self.written += bytes.len() as u64;
    }

    fn publish(&self, position: u64) {
        self.memory.store(0, position, Ordering::Release);
    }

    async fn ring(&mut self) {
        self.socket.write_all(&[0]).await.expect("the node lives");
    }
}

/// A fabric of rank 1 and its raw peer.
async fn pair(confirmation: &[u8; 8]) -> (Fabric, Raw, Mesh) {
    let listener = bind(Transport::Shm);
    let address = listener.address();
    let own = identity(1, 2, 1);
    let roster = [LOOPBACK.into(), address];
    let (mesh, peer) =
        tokio::join!(listener.mesh(&own, &roster, PATIENCE), Raw::connect(address, confirmation));
    let mut mesh = mesh.expect("the peer is there");
    let fabric = mesh.take_builders().remove(0).finish().expect("in a runtime").into();
    (fabric, peer, mesh)
}

#[tokio::test]
async fn frames_go_through_the_ring_and_a_sleeper_is_woken() {
    let (mut fabric, mut peer, mesh) = pair(b"INTRINGS").await;
    assert_eq!((mesh.links().shm, mesh.links().unix), (1, 0));
    peer.place(b"\x04\0\0\0ring\x01\0\0\0a");
    peer.publish(13);
    let all = async { (next_frame(&mut fabric).await.1, next_frame(&mut fabric).await.1) };
    assert_eq!(all.await, (Bytes::from_static(b"ring"), Bytes::from_static(b"a")));
    // The node has read everything, and has published that.
    assert_eq!(peer.memory.load(8, Ordering::Acquire), 13);
    // The node falls asleep and announces that, and a doorbell wakes it.
    let sleeps = tokio::time::timeout(std::time::Duration::from_millis(1), fabric.next());
    assert!(sleeps.await.is_err(), "nothing was sent");
    assert_eq!(peer.memory.swap(16, 0, Ordering::Relaxed), 1, "no peer would know that it sleeps");
    let waiting = tokio::spawn(async move { (next_frame(&mut fabric).await.1, fabric) });
    tokio::task::yield_now().await;
    // Bytes 13 to 21 of the stream: the end of word 1, word 2.
    peer.memory.write_bytes(32 + 1, b"\x01\0\0\0a\x03\0\0\0bye\0\0\0\0");
    peer.publish(20);
    peer.ring().await;
    let (frame, mut fabric) = waiting.await.expect("a frame");
    assert_eq!(frame, "bye");
    // The node's frames come through the second ring.
    fabric.send(NodeId(0), Bytes::from_static(b"answer"));
    fabric.try_flush();
    let second = ring_words(&peer.memory);
    assert_eq!(peer.memory.load(second, Ordering::Acquire), 10);
    let mut bytes = [0; 16];
    peer.memory.read_bytes(second + 32, &mut bytes);
    assert_eq!(&bytes[..10], b"\x06\0\0\0answer");
}

#[tokio::test]
async fn a_peer_that_declines_keeps_its_socket() {
    let (mut fabric, mut peer, mesh) = pair(b"INTENDNT").await;
    assert_eq!((mesh.links().shm, mesh.links().unix), (0, 1));
    peer.socket.write_all(b"\x02\0\0\0ok").await.expect("a frame");
    assert_eq!(next_frame(&mut fabric).await.1, "ok");
    fabric.send(NodeId(0), Bytes::from_static(b"yes"));
    fabric.try_flush();
    let mut answer = [0; 7];
    peer.socket.read_exact(&mut answer).await.expect("a frame");
    assert_eq!(&answer, b"\x03\0\0\0yes");
}

/// Sends `descriptors` to a node of rank 0 that asks for rings. Returns the node's confirmation and its
/// links.
async fn offered(case: u64, descriptors: &[BorrowedFd<'_>]) -> ([u8; 8], Links) {
    let name = UnixName::new(u128::from(std::process::id()) << 64 | 0x0ffe_0000 | u128::from(case));
    let gate = UnixListener::bind(format!("\0intendant-{name}")).expect("a name of this process");
    let listener = bind(Transport::Auto);
    let roster = [listener.address(), Address { tcp: LOOPBACK, unix: Some(name) }];
    let own = identity(0, 2, 1);
    let acceptor = async {
        let (mut socket, _) = gate.accept().await.expect("a dialler");
        let mut hello = [0; 72];
        socket.read_exact(&mut hello).await.expect("a hello");
        assert_eq!(hello[61], 1, "it asks for rings");
        let verdict = [&b"INTENDNT"[..], &[0; 16]].concat();
        socket.writable().await.expect("it lives");
        assert_eq!(passing::send(&socket, &verdict, descriptors).expect("it has room"), verdict.len());
        let mut confirmation = [0; 8];
        socket.read_exact(&mut confirmation).await.expect("a confirmation");
        socket.write_all(b"\x02\0\0\0ok").await.expect("a frame, or six doorbells");
        (confirmation, socket)
    };
    let (mesh, (confirmation, _socket)) = tokio::join!(listener.mesh(&own, &roster, PATIENCE), acceptor);
    let mut mesh = mesh.expect("the peer is there");
    let mut fabric: Fabric = mesh.take_builders().remove(0).finish().expect("in a runtime").into();
    if mesh.links().unix == 1 {
        assert_eq!(next_frame(&mut fabric).await.1, "ok");
    }
    (confirmation, mesh.links())
}

/// If a dialler gets no descriptor, or one that is no memory for rings, the connection stays a Unix socket.
#[tokio::test]
async fn a_dialler_that_gets_no_memory_keeps_its_socket() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let rings = Segment::shared(2 * (32 + (256 << 10) / 8)).expect("memory");
    let small = Segment::shared(64).expect("memory");
    let (pipe, _end) = std::io::pipe().expect("a pipe");
    let loose = memfd_create("loose", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&loose, 8 * rings.words() as u64).expect("memory");
    let (rings, small) = (rings.fd().expect("shared"), small.fd().expect("shared"));
    let over_unix = Links { unix: 1, ..Links::default() };
    let unusable: [&[BorrowedFd<'_>]; 5] =
        [&[], &[pipe.as_fd()], &[loose.as_fd()], &[small], &[rings, small]];
    for (case, descriptors) in (0..).zip(unusable) {
        assert_eq!(offered(case, descriptors).await, (*b"INTENDNT", over_unix), "case {case}");
    }
    assert_eq!(offered(9, &[rings]).await, (*b"INTRINGS", Links { shm: 1, ..Links::default() }));
}

/// A connection uses rings only if both sides want them.
#[tokio::test]
async fn a_node_without_rings_is_reached_over_its_socket() {
    for transports in [[Transport::Auto, Transport::Unix], [Transport::Unix, Transport::Shm]] {
        let listeners = transports.map(bind);
        let roster = [0, 1].map(|node: usize| listeners[node].address());
        let [one, other] = listeners;
        let (first, second) = (identity(0, 2, 2), identity(1, 2, 2));
        let (one, other) =
            tokio::join!(one.mesh(&first, &roster, PATIENCE), other.mesh(&second, &roster, PATIENCE));
        for mesh in [one, other] {
            assert_eq!(mesh.expect("both are there").links(), Links { unix: 2, ..Links::default() });
        }
    }
}

#[tokio::test]
async fn positions_that_no_peer_in_order_has_lose_the_link() {
    // Positions farther ahead than the ring can hold and, after 16 bytes were read, positions behind.
    for position in [u64::MAX, 1 << 63, 1 << 32, (256 << 10) - 7, 15, 0] {
        let (mut fabric, mut peer, _mesh) = pair(b"INTRINGS").await;
        if position < 16 {
            peer.place(b"\x0c\0\0\0twelve bytes");
            peer.publish(16);
            assert_eq!(next_frame(&mut fabric).await.1, "twelve bytes");
        }
        peer.publish(position);
        peer.ring().await;
        let error = lost(&mut fabric).await;
        assert!(matches!(&error, LinkError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData));
        assert!(error.to_string().contains(&format!("byte {position} of a ring")), "{error}");
    }
}

#[tokio::test]
async fn a_reader_that_claims_more_than_was_written_loses_the_link() {
    for position in [11, u64::MAX] {
        let (mut fabric, peer, _mesh) = pair(b"INTRINGS").await;
        let second = ring_words(&peer.memory);
        fabric.send(NodeId(0), Bytes::from_static(b"answer"));
        fabric.try_flush();
        peer.memory.store(second + 8, position, Ordering::Release);
        // A frame for which there is room only if the peer has read.
        fabric.send(NodeId(0), Bytes::from(vec![1; 300 << 10]));
        fabric.try_flush();
        let error = lost(&mut fabric).await;
        assert!(error.to_string().contains(&format!("byte {position} of a ring")), "{error}");
    }
}

#[tokio::test]
async fn what_a_peer_wrote_before_it_ended_still_counts() {
    for (rest, truncated) in [(&b""[..], None), (b"\x05\0\0\0abc", Some(7))] {
        let (mut fabric, mut peer, _mesh) = pair(b"INTRINGS").await;
        let said = [b"\x02\0\0\0ok", rest].concat();
        peer.place(&said);
        peer.publish(said.len() as u64);
        drop(peer);
        assert_eq!(next_frame(&mut fabric).await.1, "ok");
        match (lost(&mut fabric).await, truncated) {
            (LinkError::Vanished, None) => {}
            (LinkError::Truncated { bytes }, Some(expected)) => assert_eq!(bytes, expected),
            (error, _) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_peer_that_ends_with_the_ring_full_is_lost_once() {
    let (mut fabric, peer, _mesh) = pair(b"INTRINGS").await;
    for _ in 0..8 {
        fabric.send(NodeId(0), Bytes::from(vec![1; 100 << 10]));
    }
    let waits = tokio::time::timeout(std::time::Duration::from_millis(1), fabric.next());
    assert!(waits.await.is_err(), "nothing was sent");
    assert!(fabric.backlog_bytes(NodeId(0)) > 400 << 10);
    let second = ring_words(&peer.memory);
    assert_eq!(
        peer.memory.load(second + 24, Ordering::Relaxed),
        1,
        "no peer would know that it waits for room"
    );
    drop(peer);
    lost(&mut fabric).await;
    assert_eq!(fabric.backlog_bytes(NodeId(0)), 0);
    fabric.close();
    assert!(matches!(next(&mut fabric).await, FabricEvent::Finished));
}

/// Doorbells without a reason wake the node, which finds nothing and goes on.
#[tokio::test]
async fn a_flood_of_doorbells_harms_nothing() {
    let (mut fabric, mut peer, _mesh) = pair(b"INTRINGS").await;
    peer.socket.write_all(&[0; 50_000]).await.expect("the socket has room");
    peer.place(b"\x02\0\0\0ok");
    peer.publish(6);
    assert_eq!(next_frame(&mut fabric).await.1, "ok");
    peer.socket.write_all(&[0; 50_000]).await.expect("the socket has room");
    drop(peer);
    lost(&mut fabric).await;
}
