//! A node that waits for others logs this, at the level that programs show by default.

use intendant::control::{Control, DataPlane, Introduction, JoinError};
use intendant::{ElementType, NodeId, Rendezvous};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn join(place: Rendezvous) -> JoinError {
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
    Control::join(place, introduction).map(drop).unwrap_err()
}

#[test]
fn a_node_that_waits_for_others_says_for_whom() {
    let log = Log::default();
    let writer = log.clone();
    // The nodes have threads of their own, so the logger is that of the whole program.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test logs");
    let says = |sentence: &str| String::from_utf8_lossy(&log.0.lock().unwrap()).contains(sentence);
    let deadline = Duration::from_secs(5);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let zero = Rendezvous::new(NodeId(0), 3, "127.0.0.1", port).listener(listener).deadline(deadline);
    assert!(matches!(join(zero), JoinError::Incomplete { .. }));
    assert!(says("waiting for nodes 1, 2 of 3 nodes to join"));

    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let one = Rendezvous::new(NodeId(1), 2, "127.0.0.1", port).deadline(deadline);
    assert!(matches!(join(one), JoinError::Unreachable { .. }));
    assert!(says(&format!("waiting for node 0, which accepts connections at 127.0.0.1:{port}")));
}
