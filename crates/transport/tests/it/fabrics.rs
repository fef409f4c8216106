//! The promises of every flavour: order, content, traffic both ways at once, fairness, and how links end.

use crate::common::{Flavour, PATIENCE, builders, content, fabrics, kinds, next, next_frame};
use bytes::Bytes;
use intendant_core::limits::FRAME_BYTES_MAX;
use intendant_core::{NodeId, random};
use intendant_transport::{Fabric, FabricBuilder, FabricEvent, LinkError, Sent};
use std::thread;

/// All flavours that this system has.
fn flavours() -> impl Iterator<Item = Flavour> {
    std::iter::once(Flavour::Local).chain(kinds().into_iter().map(Flavour::Socket))
}

/// A plan of frame lengths: empty ones, many small ones, around every internal threshold, large and largest.
fn lengths(stream: u64) -> Vec<usize> {
    let pick = |i: u64, n: usize| (random::stream(stream, &[i, 1]) % n as u64) as usize;
    let mut lengths: Vec<usize> = (0..2_000)
        .map(|i| match pick(i, 40) {
            0 => 0,
            1 => 2_040 + pick(i + 7, 20),
            2 => 65_530 + pick(i + 7, 12),
            3 => pick(i + 7, 300_000),
            _ => pick(i + 7, 200),
        })
        .collect();
    lengths[700] = 1 << 20;
    lengths[1_000] = FRAME_BYTES_MAX;
    lengths[1_001] = 0;
    lengths
}

/// Sends everything to everyone before reading anything, then reads until all have left.
async fn exchange(mut fabric: Fabric, seed: u64, over_unix: bool) {
    let (own, nodes) = (fabric.rank().index(), fabric.nodes());
    let stream = |from: usize, to: usize| random::stream(seed, &[from as u64, to as u64]);
    let mut expected = Sent::default();
    for peer in (0..nodes).filter(|peer| *peer != own) {
        for (index, len) in lengths(stream(own, peer)).into_iter().enumerate() {
            let mut frame = content(stream(own, peer), index as u64, len);
            if index % 3 == 0 {
                let cut = random::stream(seed, &[index as u64, 2]) as usize % (len + 1);
                let rest = frame.split_off(cut);
                fabric.send_parts(NodeId(peer as u16), frame, rest);
            } else {
                fabric.send(NodeId(peer as u16), frame);
            }
            expected.messages += 1;
            expected.bytes += len as u64;
        }
    }
    if over_unix {
        expected.unix_bytes = expected.bytes;
    }
    assert_eq!(fabric.sent(), expected);
    fabric.close();
    let mut arrived = vec![0; nodes];
    loop {
        match next(&mut fabric).await {
            FabricEvent::Frame { from, frame } => {
                let (stream, index) = (stream(from.index(), own), arrived[from.index()]);
                let len = lengths(stream)[index];
                assert!(
                    frame == content(stream, index as u64, len),
                    "frame {index} from {from:?}, {} bytes",
                    frame.len()
                );
                arrived[from.index()] += 1;
            }
            FabricEvent::Closed { peer } => {
                assert_eq!(arrived[peer.index()], lengths(stream(peer.index(), own)).len())
            }
            FabricEvent::Lost { peer, error } => panic!("lost {peer:?}: {error}"),
            FabricEvent::Finished => break,
        }
    }
    assert_eq!(arrived.iter().sum::<usize>(), 2_000 * (nodes - 1));
}

fn in_runtime<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

#[test]
fn frames_arrive_complete_and_in_order_when_all_write_first() {
    for flavour in flavours() {
        for seed in 0..2 {
            let (builders, meshes) = in_runtime(builders(flavour, 3, 1));
            let over_unix = meshes.first().is_some_and(|mesh| mesh.links().unix + mesh.links().shm > 0);
            let threads: Vec<_> = builders
                .into_iter()
                .flatten()
                .map(|builder: FabricBuilder| {
                    thread::spawn(move || {
                        in_runtime(async {
                            exchange(builder.finish().expect("in a runtime"), seed, over_unix).await
                        })
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no node failed");
            }
        }
    }
}

#[tokio::test]
async fn channels_do_not_mix() {
    for flavour in flavours() {
        let (builders, _meshes) = builders(flavour, 2, 3).await;
        let mut fabrics: Vec<Vec<Fabric>> = builders
            .into_iter()
            .map(|node| node.into_iter().map(|b| b.finish().expect("in a runtime")).collect())
            .collect();
        for channel in (0..3).rev() {
            fabrics[0][channel].send(NodeId(1), content(9, channel as u64, 100));
            fabrics[0][channel].try_flush();
        }
        let mut nodes = fabrics.into_iter();
        let (senders, receivers) = (nodes.next().expect("two nodes"), nodes.next().expect("two nodes"));
        for (channel, (mut sender, mut receiver)) in senders.into_iter().zip(receivers).enumerate() {
            let arrived = tokio::select! {
                arrived = next_frame(&mut receiver) => arrived,
                event = sender.next() => panic!("no node sent to the sender: {event:?}"),
            };
            assert_eq!(arrived, (NodeId(0), content(9, channel as u64, 100)));
        }
    }
}

#[tokio::test]
async fn large_frames_leave_before_all_is_flushed() {
    for kind in kinds() {
        let (mut fabrics, _meshes) = fabrics(Flavour::Socket(kind), 3).await;
        let [a, b, c] = &mut fabrics[..] else { panic!("three nodes") };
        let frame = |index| content(5, index, 20_000);
        // The runtime knows that a socket is writable only after the first wait for it.
        for (index, peer) in [(0, &mut *b), (1, &mut *c)] {
            a.send(NodeId(1 + index), frame(u64::from(index)));
            let arrived = tokio::select! {
                arrived = next_frame(peer) => arrived,
                event = a.next() => panic!("no node sent to a: {event:?}"),
            };
            assert_eq!(arrived, (NodeId(0), frame(u64::from(index))));
        }
        // From here on no caller flushes. The first frame may wait for a second one to the same peer, but
        // only until another peer gets a frame.
        a.send(NodeId(1), frame(2));
        a.send(NodeId(2), frame(3));
        assert_eq!(next_frame(b).await, (NodeId(0), frame(2)));
        a.send(NodeId(2), frame(4));
        assert_eq!(next_frame(c).await, (NodeId(0), frame(3)));
        assert_eq!(next_frame(c).await, (NodeId(0), frame(4)));
    }
}

#[tokio::test]
async fn a_channel_whose_writes_are_blocked_keeps_reading() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 3).await;
        let [a, b, c] = &mut fabrics[..] else { panic!("three nodes") };
        let large = content(1, 1, FRAME_BYTES_MAX);
        for _ in 0..8 {
            a.send(NodeId(1), large.clone());
        }
        for index in 0..1_000 {
            c.send(NodeId(0), content(2, index, 50));
            c.try_flush();
            if index % 10 == 0 {
                assert!(c.try_next().is_none());
            }
        }
        for index in 0..1_000 {
            let arrived = tokio::select! {
                arrived = next_frame(a) => arrived,
                event = c.next() => panic!("no node sent to c: {event:?}"),
            };
            assert_eq!(arrived, (NodeId(2), content(2, index, 50)));
        }
        assert!(
            a.backlog_bytes(NodeId(1)) > FRAME_BYTES_MAX,
            "b has not read and cannot have taken this much"
        );
        for _ in 0..8 {
            let arrived = tokio::select! {
                arrived = next_frame(b) => arrived,
                event = a.next() => panic!("no node sent to a: {event:?}"),
            };
            assert!(arrived == (NodeId(0), large.clone()));
        }
        assert_eq!(a.backlog_bytes(NodeId(1)), 0);
    }
}

#[tokio::test]
async fn a_peer_that_floods_does_not_silence_another() {
    for kind in kinds() {
        let (mut fabrics, _meshes) = fabrics(Flavour::Socket(kind), 3).await;
        let [a, b, c] = &mut fabrics[..] else { panic!("three nodes") };
        let flood = 4_000;
        for index in 0..flood {
            a.send(NodeId(1), content(1, index, 16 << 10));
        }
        c.send(NodeId(1), Bytes::from_static(b"me too"));
        // Before the first read, both have written as much as the sockets take.
        for sender in [&mut *a, &mut *c] {
            let written = tokio::time::timeout(std::time::Duration::from_millis(20), sender.next()).await;
            assert!(written.is_err(), "no node sent to the senders");
        }
        let mut before = 0;
        loop {
            let (from, _) = tokio::select! {
                arrived = next_frame(b) => arrived,
                event = a.next() => panic!("no node sent to a: {event:?}"),
            };
            if from == NodeId(2) {
                break;
            }
            before += 1;
        }
        assert!(before < 100, "{before} of {flood} frames of the flood came first");
    }
}

#[tokio::test]
async fn frames_still_reach_a_peer_that_has_said_goodbye() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 2).await;
        let [a, b] = &mut fabrics[..] else { panic!("two nodes") };
        b.send(NodeId(0), Bytes::from_static(b"last words"));
        b.close();
        b.close();
        b.send(NodeId(0), Bytes::from_static(b"too late"));
        let first = tokio::select! {
            first = next_frame(a) => first,
            event = b.next() => panic!("a has not said anything: {event:?}"),
        };
        assert_eq!(first, (NodeId(1), Bytes::from_static(b"last words")));
        assert!(matches!(next(a).await, FabricEvent::Closed { peer: NodeId(1) }));
        a.send(NodeId(1), Bytes::from_static(b"one more"));
        a.close();
        let (last, finished) = tokio::join!(next_frame(b), next(a));
        assert_eq!(last, (NodeId(0), Bytes::from_static(b"one more")));
        assert!(matches!(finished, FabricEvent::Finished));
        assert!(matches!(next(b).await, FabricEvent::Closed { peer: NodeId(0) }));
        assert!(matches!(next(b).await, FabricEvent::Finished));
        assert!(b.try_next().is_none() && a.try_next().is_none());
    }
}

#[tokio::test]
async fn a_fabric_that_is_dropped_is_a_lost_peer() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 3).await;
        let c = fabrics.pop().expect("three nodes");
        let [a, b] = &mut fabrics[..] else { panic!("two nodes are left") };
        drop(c);
        for fabric in [&mut *a, &mut *b] {
            let event = next(fabric).await;
            assert!(
                matches!(event, FabricEvent::Lost { peer: NodeId(2), error: LinkError::Vanished }),
                "{event:?}"
            );
            fabric.send(NodeId(2), Bytes::from_static(b"into the void"));
            assert_eq!(fabric.backlog_bytes(NodeId(2)), 0);
        }
        // The other link is untouched, and a lost peer does not keep the rest from finishing.
        a.send(NodeId(1), Bytes::from_static(b"still here"));
        a.close();
        b.close();
        let (frame, closed) = tokio::join!(next_frame(b), next(a));
        assert_eq!(frame.1, "still here");
        assert!(matches!(closed, FabricEvent::Closed { peer: NodeId(1) }));
        assert!(matches!(next(b).await, FabricEvent::Closed { peer: NodeId(0) }));
        let (last_of_a, last_of_b) = tokio::join!(next(a), next(b));
        assert!(matches!((last_of_a, last_of_b), (FabricEvent::Finished, FabricEvent::Finished)));
    }
}

#[tokio::test]
async fn a_builder_that_is_dropped_is_a_lost_peer() {
    for flavour in flavours() {
        let (mut builders, _meshes) = builders(flavour, 2, 1).await;
        drop(builders.pop());
        let mut a = builders.remove(0).remove(0).finish().expect("in a runtime");
        assert!(matches!(next(&mut a).await, FabricEvent::Lost { peer: NodeId(1), .. }));
    }
}

#[tokio::test]
async fn frames_that_a_leaving_peer_does_not_wait_for_are_told() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 2).await;
        let mut b = fabrics.pop().expect("two nodes");
        let mut a = fabrics.pop().expect("two nodes");
        b.close();
        let closed = tokio::select! {
            closed = next(&mut a) => closed,
            event = b.next() => panic!("a has not said anything: {event:?}"),
        };
        assert!(matches!(closed, FabricEvent::Closed { peer: NodeId(1) }));
        drop(b);
        // Over a socket the first write may still succeed; the peer's system answers it with a reset.
        let lost = tokio::time::timeout(PATIENCE, async {
            loop {
                a.send(NodeId(1), Bytes::from_static(b"wait"));
                if let Some(event) = a.try_next() {
                    return event;
                }
                tokio::task::yield_now().await;
            }
        });
        let lost = lost.await.expect("the loss must be told");
        assert!(matches!(lost, FabricEvent::Lost { peer: NodeId(1), .. }), "{lost:?}");
    }
}

#[tokio::test]
async fn frames_to_a_peer_that_left_unnoticed_are_told() {
    let (mut fabrics, _) = fabrics(Flavour::Local, 2).await;
    let mut b = fabrics.pop().expect("two nodes");
    let a = &mut fabrics[0];
    b.close();
    drop(b);
    a.send(NodeId(1), Bytes::from_static(b"hello?"));
    assert!(matches!(next(a).await, FabricEvent::Closed { peer: NodeId(1) }));
    assert!(matches!(next(a).await, FabricEvent::Lost { peer: NodeId(1), error: LinkError::Vanished }));
    a.send(NodeId(1), Bytes::from_static(b"hello?"));
    assert!(a.try_next().is_none(), "a loss is told once");
}

#[tokio::test]
async fn a_node_alone_finishes_at_once() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 1).await;
        assert!(fabrics[0].try_next().is_none());
        fabrics[0].close();
        assert!(matches!(next(&mut fabrics[0]).await, FabricEvent::Finished));
    }
}

#[tokio::test]
async fn dropping_the_future_of_an_event_loses_nothing() {
    for flavour in flavours() {
        let (mut fabrics, _meshes) = fabrics(flavour, 2).await;
        let [a, b] = &mut fabrics[..] else { panic!("two nodes") };
        let mut arrived = 0;
        for index in 0..5_000 {
            a.send(NodeId(1), content(3, index, 1_000));
        }
        let all = tokio::time::timeout(PATIENCE, async {
            while arrived < 5_000 {
                tokio::select! {
                    biased;
                    event = a.next() => panic!("no node sent to a: {event:?}"),
                    () = tokio::task::yield_now() => {}
                }
                tokio::select! {
                    biased;
                    event = b.next() => {
                        let FabricEvent::Frame { frame, .. } = event else { panic!("{event:?}") };
                        assert!(frame == content(3, arrived, 1_000));
                        arrived += 1;
                    }
                    () = tokio::task::yield_now() => {}
                }
            }
        });
        all.await.expect("all frames must arrive");
    }
}

#[tokio::test]
#[should_panic(expected = "frame from n0 to n0")]
async fn a_frame_to_oneself_is_a_mistake() {
    let (mut fabrics, _meshes) = fabrics(Flavour::Local, 2).await;
    fabrics[0].send(NodeId(0), Bytes::new());
}

#[tokio::test]
#[should_panic(expected = "was to be sent")]
async fn an_oversize_frame_is_a_mistake_on_every_fabric() {
    let (mut fabrics, _meshes) = fabrics(Flavour::Local, 2).await;
    fabrics[0].send(NodeId(1), Bytes::from(vec![0; FRAME_BYTES_MAX + 1]));
}

/// Heartbeats that wait behind data do not make their sender count as lost.
#[tokio::test]
async fn data_that_arrives_counts_as_a_sign_of_life() {
    for kind in kinds() {
        let (mut fabrics, meshes) = fabrics(Flavour::Socket(kind), 3).await;
        let arrivals = meshes[1].arrivals();
        let counts = || [0, 2].map(|peer| arrivals.count(NodeId(peer)));
        assert_eq!(counts(), [0, 0]);
        let [a, b, _c] = &mut fabrics[..] else { panic!("three nodes") };
        let mut before = 0;
        for index in 0..3 {
            a.send(NodeId(1), content(3, index, 10));
            let arrived = tokio::select! {
                arrived = next_frame(b) => arrived,
                event = a.next() => panic!("no node sent to a: {event:?}"),
            };
            assert_eq!(arrived, (NodeId(0), content(3, index, 10)));
            let [from_a, from_c] = counts();
            assert!(from_a > before && from_c == 0, "{from_a} after {before}; {from_c}");
            before = from_a;
        }
    }
}
