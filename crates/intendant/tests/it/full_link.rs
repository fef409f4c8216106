//! Links that are full or work in one direction only: heartbeats are late or lost although both nodes run.
//!
//! A proxy between node 1 and the coordinator holds bytes back, in the directions that the test chooses.

use intendant::control::{Control, DataPlane, FailureKind, Introduction};
use intendant::{ElementType, Key, Layout, Node, NodeConfig, NodeId, Rendezvous, Technique};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The directions in which the proxy holds bytes back.
#[derive(Clone, Default)]
struct Held {
    to_coordinator: Arc<AtomicBool>,
    to_node: Arc<AtomicBool>,
}

fn pause(ms: u64) {
    let (_keep, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_millis(ms));
}

/// Copies bytes. While `held` is set, bytes that have been read wait.
fn copy(mut from: TcpStream, mut to: TcpStream, held: Arc<AtomicBool>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while held.load(Ordering::Relaxed) {
            pause(5);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The rendezvous of nodes 0 and 1; node 1 connects through a proxy.
fn meeting(held: &Held) -> [Rendezvous; 2] {
    let [coordinator, proxy] = ["127.0.0.1:0"; 2].map(|any| TcpListener::bind(any).unwrap());
    let (far, near) = (coordinator.local_addr().unwrap(), proxy.local_addr().unwrap().port());
    let held = held.clone();
    // The test does not wait for this thread, because a test that fails must not hang.
    thread::spawn(move || {
        while let Ok((node, _)) = proxy.accept() {
            let Ok(coordinator) = TcpStream::connect(far) else { return };
            let (from, to) = (node.try_clone().unwrap(), coordinator.try_clone().unwrap());
            let (forth, back) = (held.to_coordinator.clone(), held.to_node.clone());
            thread::spawn(move || copy(from, to, forth));
            thread::spawn(move || copy(coordinator, node, back));
        }
    });
    [
        Rendezvous::new(NodeId(0), 2, "127.0.0.1", far.port()).listener(coordinator),
        Rendezvous::new(NodeId(1), 2, "127.0.0.1", near),
    ]
}

#[test]
fn data_keeps_nodes_alive_whose_heartbeats_are_late() {
    let held = Held::default();
    let layout = Layout::builder().range("value", 64, 4).build().unwrap();
    let mut config = NodeConfig::new(layout, Arc::new(|_, value: &mut [f32]| value.fill(1.0)));
    // Every access to a key of the other node is a message there and back. Reads of windows would send no
    // bytes.
    config.cluster.technique = Technique::Classic;
    config.windows = false;
    let joining = meeting(&held).map(|place| {
        let config = config.clone();
        thread::spawn(move || Node::join(config, place).unwrap())
    });
    let mut nodes = joining.map(|node| node.join().unwrap());
    let mut worker = nodes[1].workers().remove(0);
    let (keys, mut values) = ((0..64).map(Key).collect::<Vec<_>>(), vec![0.0; 64 * 4]);
    held.to_coordinator.store(true, Ordering::Relaxed);
    held.to_node.store(true, Ordering::Relaxed);
    // The loop lasts well beyond the five seconds of silence after which a node counts as lost.
    for _ in 0..80 {
        worker.pull(&keys, &mut values).unwrap();
        pause(100);
    }
    held.to_coordinator.store(false, Ordering::Relaxed);
    held.to_node.store(false, Ordering::Relaxed);
    drop(worker);
    Node::shutdown_all(nodes.into()).unwrap();
}

#[test]
fn a_node_that_gives_up_the_coordinator_is_not_blamed_by_it() {
    let held = Held::default();
    let joining = meeting(&held).map(|place| {
        let introduction = Introduction {
            protocol: 1,
            version: "0.1.0".into(),
            layout: 7,
            settings: Vec::new(),
            data: Some(DataPlane {
                element: ElementType::F32,
                channels: 1,
                address: SocketAddr::from(([127, 0, 0, 1], 9)).into(),
            }),
        };
        thread::spawn(move || Control::join(place, introduction).unwrap().0)
    });
    let [zero, one] = joining.map(|control| control.join().unwrap());
    held.to_node.store(true, Ordering::Relaxed);
    let at_zero = zero.gather("never", Vec::new()).unwrap_err();
    assert_eq!((at_zero.kind, at_zero.node), (FailureKind::PeerLost, None), "{at_zero}");
    assert!(
        at_zero.reason.starts_with("node 1 gave up because it did not hear the coordinator"),
        "{at_zero}"
    );
    let at_one = one.failure().unwrap();
    assert_eq!(at_one.node, Some(NodeId(0)), "{at_one}");
    held.to_node.store(false, Ordering::Relaxed);
}
