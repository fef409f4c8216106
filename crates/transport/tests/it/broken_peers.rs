//! Peers that passed the handshake and then misbehave or die: the link is lost with a reason, and everything
//! else goes on.

use crate::common::{
    LOOPBACK, PATIENCE, Socket, bind, dial, identity, kinds, lost, next, next_frame, raw_hello,
};
use bytes::Bytes;
use intendant_core::limits::FRAME_BYTES_MAX;
use intendant_core::{NodeId, random};
use intendant_transport::socket::{Listener, Mesh};
use intendant_transport::{Address, Fabric, FabricEvent, LinkError, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A peer of rank 0 that is only a socket.
async fn raw_peer(address: Address, nodes: u16) -> Box<dyn Socket> {
    let mut stream = dial(address).await;
    stream.write_all(&raw_hello(&identity(0, nodes, 1), nodes - 1, 0)).await.expect("a hello");
    let mut verdict = [0; 24];
    stream.read_exact(&mut verdict).await.expect("a verdict");
    assert_eq!(verdict[8], 0, "refused with code {}", verdict[8]);
    stream.write_all(b"INTENDNT").await.expect("a confirmation");
    stream
}

/// A fabric of rank 1 and its raw peer.
async fn pair(kind: Transport) -> (Fabric, Box<dyn Socket>, Mesh) {
    let listener = bind(kind);
    let address = listener.address();
    let own = identity(1, 2, 1);
    let roster = [LOOPBACK.into(), address];
    let (mesh, peer) = tokio::join!(listener.mesh(&own, &roster, PATIENCE), raw_peer(address, 2));
    let mut mesh = mesh.expect("the peer is there");
    let fabric = mesh.take_builders().remove(0).finish().expect("in a runtime").into();
    (fabric, peer, mesh)
}

#[tokio::test]
async fn an_oversize_length_loses_the_link() {
    for kind in kinds() {
        for announced in [FRAME_BYTES_MAX as u32 + 1, u32::MAX - 1, 1 << 31] {
            let (mut fabric, mut peer, _mesh) = pair(kind).await;
            peer.write_all(&announced.to_le_bytes()).await.expect("four bytes");
            let error = lost(&mut fabric).await;
            assert!(matches!(error, LinkError::FrameTooLong { bytes, .. } if bytes == announced), "{error}");
            assert!(error.to_string().contains(&format!("{announced} bytes was announced")), "{error}");
        }
    }
}

#[tokio::test]
async fn what_came_before_the_fault_still_counts() {
    for kind in kinds() {
        let (mut fabric, mut peer, _mesh) = pair(kind).await;
        peer.write_all(b"\x02\0\0\0ok\0\0\0\0\xff\xff\xff\xfe").await.expect("a few bytes");
        assert_eq!(next_frame(&mut fabric).await, (NodeId(0), Bytes::from_static(b"ok")));
        assert_eq!(next_frame(&mut fabric).await, (NodeId(0), Bytes::new()));
        assert!(matches!(lost(&mut fabric).await, LinkError::FrameTooLong { .. }));
    }
}

#[tokio::test]
async fn an_end_inside_a_frame_is_told_apart_from_one_between_frames() {
    for kind in kinds() {
        for (says, truncated) in [(&b"\x05\0\0\0abc"[..], Some(7)), (b"\x05\0", Some(2)), (b"", None)] {
            let (mut fabric, mut peer, _mesh) = pair(kind).await;
            peer.write_all(says).await.expect("a few bytes");
            drop(peer);
            let error = lost(&mut fabric).await;
            match truncated {
                Some(expected) => {
                    assert!(matches!(error, LinkError::Truncated { bytes } if bytes == expected), "{error}")
                }
                None => assert!(matches!(error, LinkError::Vanished), "{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_reset_inside_a_frame_loses_the_link() {
    for kind in kinds() {
        let (mut fabric, mut peer, _mesh) = pair(kind).await;
        fabric.send(NodeId(0), Bytes::from_static(b"unread"));
        assert!(fabric.try_next().is_none());
        peer.write_all(b"\x05\0\0\0abc").await.expect("a few bytes");
        peer.reset();
        assert!(matches!(lost(&mut fabric).await, LinkError::Io(_)));
    }
}

#[tokio::test]
async fn a_peer_that_resets_while_frames_wait_is_lost_once() {
    for kind in kinds() {
        let (mut fabric, peer, _mesh) = pair(kind).await;
        for _ in 0..4 {
            fabric.send(NodeId(0), Bytes::from(vec![1; FRAME_BYTES_MAX]));
        }
        fabric.try_flush();
        assert!(fabric.try_next().is_none());
        peer.reset();
        assert!(matches!(lost(&mut fabric).await, LinkError::Io(_)));
        assert_eq!(fabric.backlog_bytes(NodeId(0)), 0);
        assert!(fabric.try_next().is_none());
        fabric.close();
        assert!(matches!(next(&mut fabric).await, FabricEvent::Finished));
    }
}

#[tokio::test]
async fn bytes_after_the_goodbye_lose_the_link() {
    for kind in kinds() {
        let (mut fabric, mut peer, _mesh) = pair(kind).await;
        peer.write_all(b"\xff\xff\xff\xff\x01\0\0\0a").await.expect("a few bytes");
        assert!(matches!(lost(&mut fabric).await, LinkError::AfterGoodbye { bytes: 5 }));
    }
}

#[tokio::test]
async fn an_orderly_peer_is_not_lost() {
    for kind in kinds() {
        let (mut fabric, mut peer, _mesh) = pair(kind).await;
        peer.write_all(b"\x01\0\0\0a\xff\xff\xff\xff").await.expect("a few bytes");
        peer.shutdown().await.expect("a half-close");
        assert_eq!(next_frame(&mut fabric).await.1, "a");
        assert!(matches!(next(&mut fabric).await, FabricEvent::Closed { peer: NodeId(0) }));
        fabric.send(NodeId(0), Bytes::from_static(b"bye"));
        fabric.close();
        assert!(matches!(next(&mut fabric).await, FabricEvent::Finished));
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).await.expect("an orderly end");
        assert_eq!(answer, b"\x03\0\0\0bye\xff\xff\xff\xff");
    }
}

/// Frames cut into single bytes and odd pieces by the sender's socket arrive whole.
#[tokio::test]
async fn a_trickle_becomes_frames() {
    for kind in kinds() {
        let (mut fabric, mut peer, _mesh) = pair(kind).await;
        peer.write_at_once();
        let sender = tokio::spawn(async move {
            let stream = b"\x03\0\0\0abc\0\0\0\0\x04\0\0\0defg";
            for byte in stream {
                peer.write_all(&[*byte]).await.expect("one byte");
                tokio::task::yield_now().await;
            }
            peer
        });
        for expected in ["abc", "", "defg"] {
            assert_eq!(next_frame(&mut fabric).await.1, expected);
        }
        drop(sender.await);
        assert!(matches!(lost(&mut fabric).await, LinkError::Vanished));
    }
}

/// Random bytes in place of frames: whatever they mean, the fabric survives and the link ends.
#[tokio::test]
async fn garbage_ends_the_link_and_nothing_else() {
    for kind in kinds() {
        for seed in 0..40 {
            let (mut fabric, mut peer, _mesh) = pair(kind).await;
            let garbage: Vec<u8> = (0..200 + seed).map(|i| (random::stream(seed, &[i]) % 7) as u8).collect();
            peer.write_all(&garbage).await.expect("a few bytes");
            drop(peer);
            let mut frame_bytes = 0;
            let error = loop {
                match next(&mut fabric).await {
                    FabricEvent::Frame { frame, .. } => frame_bytes += 4 + frame.len(),
                    FabricEvent::Lost { error, .. } => break error,
                    other @ (FabricEvent::Closed { .. } | FabricEvent::Finished) => {
                        panic!("garbage is no goodbye: {other:?}")
                    }
                }
            };
            let unread = if let LinkError::Truncated { bytes } = error { bytes } else { 0 };
            let whole = matches!(error, LinkError::Truncated { .. } | LinkError::Vanished);
            assert!(whole || matches!(error, LinkError::FrameTooLong { .. }), "{error}");
            assert!(
                !whole || frame_bytes + unread == garbage.len(),
                "{frame_bytes} + {unread} bytes of {}",
                garbage.len()
            );
        }
    }
}

#[tokio::test]
async fn one_broken_peer_does_not_touch_the_link_to_another() {
    for kind in kinds() {
        let listeners: Vec<Listener> = (0..2).map(|_| bind(kind)).collect();
        let roster = [LOOPBACK.into(), listeners[0].address(), listeners[1].address()];
        let mut listeners = listeners.into_iter();
        let (second, third) = (listeners.next().expect("two"), listeners.next().expect("two"));
        let (ids, to_second) = ([identity(1, 3, 1), identity(2, 3, 1)], async {
            let mut stream = dial(roster[1]).await;
            stream.write_all(&raw_hello(&identity(0, 3, 1), 1, 0)).await.expect("a hello");
            stream.read_exact(&mut [0; 24]).await.expect("a verdict");
            stream.write_all(b"INTENDNT").await.expect("a confirmation");
            stream
        });
        let (second, third, mut to_third, _to_second) = tokio::join!(
            second.mesh(&ids[0], &roster, PATIENCE),
            third.mesh(&ids[1], &roster, PATIENCE),
            raw_peer(roster[2], 3),
            to_second
        );
        let fabric = |mesh: &mut Mesh| -> Fabric {
            mesh.take_builders().remove(0).finish().expect("in a runtime").into()
        };
        let (mut second, mut third) = (second.expect("complete"), third.expect("complete"));
        let (mut a, mut b) = (fabric(&mut second), fabric(&mut third));
        to_third.write_all(&[0xfe; 64]).await.expect("garbage");
        assert!(matches!(lost(&mut b).await, LinkError::FrameTooLong { .. }));
        a.send(NodeId(2), Bytes::from_static(b"are you there?"));
        b.send(NodeId(1), Bytes::from_static(b"yes"));
        let (at_a, at_b) = tokio::join!(next_frame(&mut a), next_frame(&mut b));
        assert_eq!((at_a.1, at_b.1), (Bytes::from_static(b"yes"), Bytes::from_static(b"are you there?")));
    }
}
