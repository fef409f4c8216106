//! Which diallers a node admits and refuses, and what it tells them: over real sockets, while a cluster is at
//! work.

use crate::common::{
    LOOPBACK, PATIENCE, bind, cluster, dial, identity, kinds, next, next_frame, raw_hello, stranger,
};
use bytes::Bytes;
use intendant_core::{ElementType, NodeId};
use intendant_transport::socket::{Identity, Links, Listener, Mesh};
use intendant_transport::{
    Address, Fabric, FabricEvent, HandshakeError, Token, Transport, TransportError, UnixName,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Two nodes that exchange frames until told to stop; then they check that nothing was lost and say goodbye.
struct Work {
    stop: tokio::sync::oneshot::Sender<()>,
    done: tokio::task::JoinHandle<u64>,
}

impl Work {
    fn start(mut a: Fabric, mut b: Fabric) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let done = tokio::spawn(async move {
            let mut rounds = 0u64;
            while stopped.try_recv().is_err() {
                a.send(b.rank(), rounds.to_le_bytes().to_vec().into());
                b.send(a.rank(), rounds.to_le_bytes().to_vec().into());
                let (at_a, at_b) = tokio::join!(next_frame(&mut a), next_frame(&mut b));
                assert_eq!(at_a.1, &rounds.to_le_bytes()[..]);
                assert_eq!(at_b.1, &rounds.to_le_bytes()[..]);
                rounds += 1;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            a.close();
            b.close();
            let (at_a, at_b) = tokio::join!(next(&mut a), next(&mut b));
            for event in [at_a, at_b] {
                assert!(matches!(event, FabricEvent::Closed { .. }), "{event:?}");
            }
            rounds
        });
        Self { stop, done }
    }

    /// Stops the work and returns the number of rounds; the test fails if a link failed.
    async fn finish(self) -> u64 {
        self.stop.send(()).expect("the work must not have ended early");
        self.done.await.expect("the running cluster must not be touched")
    }
}

/// The handshake error in the error of a refused dialler.
fn refusal(error: &TransportError) -> &HandshakeError {
    let TransportError::Refused { error, .. } = error else { panic!("not refused, but: {error}") };
    error
}

fn spoiled(rank: u16, spoil: fn(&mut Identity)) -> Identity {
    let mut identity = identity(rank, 3, 1);
    spoil(&mut identity);
    identity
}

#[tokio::test]
async fn strangers_learn_why_and_the_cluster_works_on() {
    for kind in kinds() {
        use HandshakeError as E;
        let (mut meshes, roster) = cluster(kind, 3, 1).await;
        let mut fabrics: Vec<Fabric> = Vec::new();
        for mesh in &mut meshes {
            fabrics.push(mesh.take_builders().remove(0).finish().expect("in a runtime").into());
        }
        let idle = fabrics.remove(0);
        let (a, b) = (fabrics.remove(0), fabrics.remove(0));
        let work = Work::start(a, b);

        type Case = (fn(&mut Identity), fn(&E) -> bool, &'static str);
        let cases: [Case; 9] = [
            (
                |i| i.protocol = 9,
                |e| matches!(e, E::Protocol { ours: 9, theirs: 1 }),
                "ours is 9, theirs is 1",
            ),
            (|i| i.token = Token::from_bytes([8; 32]), |e| matches!(e, E::Token), "tokens differ"),
            (|i| i.token = Token::open(), |e| matches!(e, E::Token), "tokens differ"),
            (
                |i| i.cluster = 0xc2,
                |e| matches!(e, E::Cluster { ours: 0xc2, theirs: 0xc1 }),
                "another cluster",
            ),
            (|i| i.layout = 0x1b, |e| matches!(e, E::Layout { ours: 0x1b, theirs: 0x1a }), "layouts differ"),
            (
                |i| i.element = ElementType::F64,
                |e| matches!(e, E::Element { ours: ElementType::F64, theirs: 4 }),
                "ours is f64, theirs is f32",
            ),
            (
                |i| i.channels = 2,
                |e| matches!(e, E::Channels { ours: 2, theirs: 1 }),
                "ours is 2, theirs is 1",
            ),
            (
                |_| {},
                |e| matches!(e, E::Duplicate { rank: NodeId(0), .. }),
                "rank 0 is taken by another process",
            ),
            (
                |i| i.rank = NodeId(1),
                |e| matches!(e, E::Duplicate { rank: NodeId(1), .. }),
                "rank 1 is taken",
            ),
        ];
        let mut told = Vec::new();
        for (spoil, expected, text) in cases {
            let error = stranger(spoiled(0, spoil), &roster, PATIENCE).await;
            assert!(expected(refusal(&error)), "{error:?}");
            assert!(error.to_string().contains(text), "{error}");
            told.push(refusal(&error).to_string());
        }
        // Another number of nodes needs another roster; so does a list that is out of order.
        let error = stranger(spoiled(0, |i| i.nodes = 2), &roster[..2], PATIENCE).await;
        assert!(matches!(refusal(&error), E::Nodes { ours: 2, theirs: 3 }), "{error:?}");
        told.push(error.to_string());
        let error = stranger(identity(0, 3, 1), &[roster[0], roster[2], roster[2]], PATIENCE).await;
        let wrong = E::WrongNode { meant: NodeId(1), reached: NodeId(2) };
        assert!(error.to_string().contains(&wrong.to_string()), "{error:?}");
        assert!(error.to_string().contains(&format!("node 1 at {} refuses", roster[2].tcp)), "{error}");
        told.push(error.to_string());
        // A second process with the highest rank dials no other node. It learns which nodes are missing.
        let error = stranger(identity(2, 3, 1), &roster, Duration::from_millis(50)).await;
        assert!(
            error.to_string().contains("missing: node 0 at") && error.to_string().contains("node 1 at"),
            "{error}"
        );
        told.push(error.to_string());

        // The two cases of `Token`, and those of `Duplicate`, have one message each, except for the rank; all
        // other messages differ.
        told.sort();
        told.dedup();
        assert_eq!(told.len(), 11, "{told:#?}");
        assert!(
            told.iter().all(|text| !text.contains("0808") && !text.contains("0707")),
            "a token was shown: {told:#?}"
        );
        assert!(work.finish().await > 0);
        drop(idle);
    }
}

/// The answer to raw bytes, up to the end of the connection.
async fn verdict(address: Address, says: &[u8]) -> Vec<u8> {
    let mut stream = dial(address).await;
    stream.write_all(says).await.expect("the socket takes this much");
    let mut answer = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    end.expect("the gate must hang up").expect("in order");
    answer
}

#[tokio::test]
async fn raw_bytes_are_answered_in_words_that_every_version_knows() {
    for kind in kinds() {
        let (mut meshes, roster) = cluster(kind, 3, 2).await;
        let _builders = meshes[1].take_builders();
        let hello = |spoil: fn(&mut Identity), to: u16, channel: u16| {
            let mut identity = identity(0, 3, 2);
            spoil(&mut identity);
            raw_hello(&identity, to, channel)
        };
        let code = async |says: Vec<u8>| {
            let answer = verdict(roster[1], &says).await;
            assert_eq!((answer.len(), &answer[..8]), (24, &b"INTENDNT"[..]));
            (answer[8], u64::from_le_bytes(answer[16..].try_into().expect("eight bytes")))
        };
        assert_eq!(code(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec()).await, (1, 0));
        assert_eq!(code(vec![0; 5_000]).await, (1, 0));
        // A node understands only the first twelve bytes of another version, so they must suffice.
        assert_eq!(code(hello(|i| i.protocol = 2, 1, 0)[..12].to_vec()).await, (2, 1));
        // A node looks at nothing but the token until the token is right.
        assert_eq!(
            code(hello(|i| (i.token, i.layout, i.nodes) = (Token::from_bytes([1; 32]), 5, 7), 9, 9)).await,
            (3, 0)
        );
        assert_eq!(code(hello(|i| i.rank = NodeId(3), 1, 0)).await, (10, 3));
        assert_eq!(code(hello(|i| i.rank = NodeId(2), 1, 0)).await, (11, 1));
        assert_eq!(code(hello(|_| {}, 1, 2)).await, (12, 2));
        assert_eq!(code(hello(|i| i.rank = NodeId(1), 1, 0)).await, (13, 0));
        assert_eq!(code(hello(|_| {}, 1, 1)).await, (13, 0));
    }
}

#[tokio::test]
async fn silent_and_slow_diallers_do_not_delay_good_ones() {
    for kind in kinds() {
        let listener = bind(kind);
        let address = listener.address();
        let good = bind(kind);
        let roster = [good.address(), address];
        let (mine, theirs) = (identity(1, 2, 1), identity(0, 2, 1));
        let other = roster;
        let accepting = tokio::spawn(async move { listener.mesh(&mine, &other, PATIENCE).await });
        // More diallers than the gate examines at a time, all before the good one: some are silent, some send
        // a byte at a time.
        let mut crowd = Vec::new();
        for index in 0..300 {
            let mut stream = dial(address).await;
            if index % 2 == 0 {
                stream.write_all(b"I").await.expect("one byte");
            }
            crowd.push(stream);
        }
        let joined = good.mesh(&theirs, &roster, Duration::from_secs(30)).await;
        assert!(joined.is_ok(), "{joined:?}");
        assert!(accepting.await.expect("no panic").is_ok());
        assert_eq!(crowd.len(), 300);
    }
}

#[tokio::test]
async fn a_dialler_that_gives_up_leaves_its_place_to_the_next() {
    for kind in kinds() {
        let listener = bind(kind);
        let good = bind(kind);
        let roster = [good.address(), listener.address()];
        // These diallers wait in the queue of the operating system, because the gate is not open yet; then
        // they leave without a confirmation.
        for _ in 0..3 {
            let mut stream = dial(roster[1]).await;
            stream.write_all(&raw_hello(&identity(0, 2, 1), 1, 0)).await.expect("a hello");
        }
        let (mine, theirs) = (identity(1, 2, 1), identity(0, 2, 1));
        let (accepted, joined) =
            tokio::join!(listener.mesh(&mine, &roster, PATIENCE), good.mesh(&theirs, &roster, PATIENCE));
        let mut a = accepted
            .expect("the good one is there")
            .take_builders()
            .remove(0)
            .finish()
            .expect("in a runtime")
            .into();
        let mut b: Fabric =
            joined.expect("accepted").take_builders().remove(0).finish().expect("in a runtime").into();
        b.send(NodeId(1), Bytes::from_static(b"it is me"));
        let arrived = tokio::select! {
            arrived = next_frame(&mut a) => arrived,
            event = b.next() => panic!("no node sent to b: {event:?}"),
        };
        assert_eq!(arrived.1, "it is me");
    }
}

#[tokio::test]
async fn a_handshake_under_way_makes_the_next_wait_and_not_fail() {
    for kind in kinds() {
        let listener = bind(kind);
        let good = bind(kind);
        let roster = [good.address(), listener.address()];
        let (mine, theirs) = (identity(1, 2, 1), identity(0, 2, 1));
        let accepting = tokio::spawn(async move { listener.mesh(&mine, &roster, PATIENCE).await });
        let hello = raw_hello(&theirs, 1, 0);
        // This dialler is welcome, but does not confirm.
        let mut undecided = dial(roster[1]).await;
        undecided.write_all(&hello).await.expect("a hello");
        let mut welcome = [0; 24];
        undecided.read_exact(&mut welcome).await.expect("a verdict");
        assert_eq!(welcome[8], 0);
        let second = verdict(roster[1], &hello).await;
        assert_eq!(second[8], 14);
        let leave = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(undecided);
        };
        let (joined, ()) = tokio::join!(good.mesh(&theirs, &roster, PATIENCE), leave);
        assert!(joined.is_ok(), "{joined:?}");
        assert!(accepting.await.expect("no panic").is_ok());
    }
}

#[tokio::test]
async fn a_mesh_that_is_dropped_or_fails_frees_its_port_and_name() {
    for kind in kinds() {
        let (meshes, mut roster) = cluster(kind, 2, 1).await;
        drop(meshes);
        let failed = bind(kind);
        roster.push(failed.address());
        let error = failed.mesh(&identity(2, 3, 1), &roster, Duration::from_millis(10)).await;
        assert!(matches!(error, Err(TransportError::Incomplete { .. })), "{error:?}");
        for address in roster {
            let freed = async {
                while TcpStream::connect(address.tcp).await.is_ok() {
                    tokio::task::yield_now().await;
                }
                let Some(name) = address.unix else { return };
                while UnixStream::connect(format!("\0intendant-{name}")).await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, freed).await.expect("the gate must close");
        }
    }
}

#[tokio::test]
async fn nodes_may_come_in_any_order() {
    let listeners: Vec<Listener> = (0..4).map(|_| bind(Transport::Tcp)).collect();
    let roster: Vec<Address> = listeners.iter().map(Listener::address).collect();
    // The addresses are known, but three of them do not listen yet.
    let mut listeners: Vec<Option<Listener>> = listeners.into_iter().map(Some).collect();
    for rank in [1, 2, 3] {
        listeners[rank] = None;
    }
    let mut joining = tokio::task::JoinSet::new();
    for rank in [0, 3, 1, 2] {
        let listener = listeners[rank]
            .take()
            .unwrap_or_else(|| Listener::bind(roster[rank].tcp, Transport::Tcp).expect("free again"));
        let roster = roster.clone();
        joining.spawn(async move {
            listener.mesh(&identity(rank as u16, 4, 2), &roster, PATIENCE).await.map(|_| ())
        });
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    while let Some(joined) = joining.join_next().await {
        joined.expect("no panic").expect("all came");
    }
}

#[tokio::test]
async fn who_is_missing_is_named() {
    let unused = bind(Transport::Auto).address();
    let silent = bind(Transport::Auto);
    let listener = bind(Transport::Auto);
    let roster = [LOOPBACK.into(), listener.address(), unused, silent.address()];
    let error =
        listener.mesh(&identity(1, 4, 2), &roster, Duration::from_millis(300)).await.expect_err("alone");
    let TransportError::Incomplete { missing, .. } = &error else { panic!("{error}") };
    assert_eq!(missing.iter().map(|m| m.peer).collect::<Vec<_>>(), [NodeId(0), NodeId(2), NodeId(3)]);
    assert!(missing[0].reason.contains("has dialled for 0 of 2 channels"), "{error}");
    assert!(missing[1].reason.contains("refused"), "{error}");
    assert!(missing[2].reason.contains("no answer yet"), "{error}");
    assert!(error.to_string().contains(&format!("node 2 at {}", unused.tcp)), "{error}");
}

#[tokio::test]
async fn another_service_at_the_address_is_recognised() {
    let service = tokio::net::TcpListener::bind(LOOPBACK).await.expect("a free port");
    let listener = bind(Transport::Auto);
    let roster = [listener.address(), service.local_addr().expect("bound").into()];
    let serve = async {
        let (mut stream, _) = service.accept().await.expect("a dialler");
        stream.write_all(b"220 mail.example.org ESMTP ready\r\n").await.expect("a greeting");
        stream
    };
    let own = identity(0, 2, 1);
    let (joined, _stream) = tokio::join!(listener.mesh(&own, &roster, PATIENCE), serve);
    let error = joined.expect_err("not a node");
    assert!(matches!(refusal(&error), HandshakeError::NotIntendant), "{error}");
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_is_dialled() {
    let mesh = async |identity: Identity, addresses: usize| {
        let listener = bind(Transport::Auto);
        listener
            .mesh(&identity, &vec![LOOPBACK.into(); addresses], PATIENCE)
            .await
            .expect_err("contradicts itself")
            .to_string()
    };
    assert!(mesh(identity(0, 3, 1), 2).await.contains("2 addresses for a cluster of 3 nodes"));
    assert!(mesh(identity(3, 3, 1), 3).await.contains("rank 3 in a cluster of 3 nodes"));
    assert!(mesh(identity(0, 1, 0), 1).await.contains("0 channels"));
    // Without a token, a node serves only loopback addresses.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = spoiled(0, |i| i.token = Token::open());
    let listener = Listener::bind(everywhere, Transport::Auto).expect("a free port");
    let error = listener.mesh(&open, &[LOOPBACK.into(); 3], PATIENCE).await.expect_err("open to everyone");
    assert!(error.to_string().contains("has no token"), "{error}");
}

#[test]
fn a_port_in_use_is_named() {
    let first = bind(Transport::Tcp);
    let taken = first.address().tcp;
    let error = Listener::bind(taken, Transport::Auto).expect_err("the port is taken").to_string();
    assert!(error.contains(&taken.to_string()) && error.contains("in use"), "{error}");
}

#[tokio::test]
async fn a_dialler_that_confirms_with_other_bytes_gets_no_link() {
    for kind in kinds() {
        let listener = bind(kind);
        let good = bind(kind);
        let roster = [good.address(), listener.address()];
        let (mine, theirs) = (identity(1, 2, 1), identity(0, 2, 1));
        let accepting = tokio::spawn(async move { listener.mesh(&mine, &roster, PATIENCE).await });
        let mut other = dial(roster[1]).await;
        other.write_all(&raw_hello(&theirs, 1, 0)).await.expect("a hello");
        let mut verdict = [0; 24];
        other.read_exact(&mut verdict).await.expect("a verdict");
        assert_eq!(verdict[8], 0, "the hello is right");
        other.write_all(b"INTENDED").await.expect("eight bytes");
        let mut rest = Vec::new();
        let end = tokio::time::timeout(PATIENCE, other.read_to_end(&mut rest)).await;
        end.expect("the gate hangs up").expect("in order");
        let joined = good.mesh(&theirs, &roster, PATIENCE).await;
        assert!(joined.is_ok(), "the place is free for the node itself: {joined:?}");
        assert!(accepting.await.expect("no panic").is_ok());
    }
}

/// The paused clock stands still while a socket is ready, so deadlines pass in their order and nothing
/// depends on how fast this machine is.
#[tokio::test(start_paused = true)]
async fn silent_connections_of_a_crowd_are_cut_before_those_that_came_earlier() {
    for kind in kinds() {
        let listener = bind(kind);
        let roster = [LOOPBACK.into(), listener.address()];
        let mine = identity(1, 2, 1);
        let _accepting = tokio::spawn(async move { listener.mesh(&mine, &roster, PATIENCE).await.map(drop) });
        let mut crowd = Vec::new();
        for _ in 0..100 {
            crowd.push(dial(roster[1]).await);
        }
        let bytes = crowd[99].read(&mut [0]).await.expect("the gate hangs up in order");
        assert_eq!(bytes, 0);
        let first = timeout(Duration::ZERO, crowd[0].read(&mut [0])).await;
        assert!(first.is_err(), "it still has time");
    }
}

/// The collected log of the thread that runs the test.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_strangers_leaves_a_few_lines_in_the_log() {
    for kind in kinds() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let (mut meshes, roster) = cluster(kind, 2, 1).await;
        let _builders = meshes[1].take_builders();
        for _ in 0..300 {
            assert_eq!(verdict(roster[1], b"GET / HTTP/1.1\r\n\r\n").await.len(), 24);
        }
        let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
        let lines = text.lines().filter(|line| line.contains("refused a connection")).count();
        assert!((1..20).contains(&lines), "{lines} lines: {text}");
    }
}

/// Connects two nodes that listen already and have each other's addresses from `roster`.
async fn meet(listeners: [Listener; 2], roster: [Address; 2]) -> [Mesh; 2] {
    let [one, other] = listeners;
    let (first, second) = (identity(0, 2, 2), identity(1, 2, 2));
    let (one, other) =
        tokio::join!(one.mesh(&first, &roster, PATIENCE), other.mesh(&second, &roster, PATIENCE));
    [one.expect("both are there"), other.expect("both are there")]
}

/// A node of another host knows the name of a Unix socket, but its own host has no socket of this name. The
/// same is true in another network namespace of the same host, because an abstract name belongs to its
/// namespace: dialling it there fails with the same error.
#[tokio::test]
async fn a_name_that_does_not_exist_here_means_tcp() {
    let listeners = [bind(Transport::Auto), bind(Transport::Auto)];
    let mut roster = [0, 1].map(|node: usize| listeners[node].address());
    roster[1].unix = Some(UnixName::new(1));
    for mesh in meet(listeners, roster).await {
        assert_eq!(mesh.links(), Links { tcp: 2, unix: 0, shm: 0, rdma: 0 });
    }
}

#[tokio::test]
async fn one_node_that_asks_for_tcp_is_enough() {
    for transports in [[Transport::Auto, Transport::Tcp], [Transport::Tcp, Transport::Auto]] {
        let listeners = transports.map(bind);
        let roster = [0, 1].map(|node: usize| listeners[node].address());
        for mesh in meet(listeners, roster).await {
            assert_eq!(mesh.links(), Links { tcp: 2, unix: 0, shm: 0, rdma: 0 });
        }
    }
}

/// The name may belong to another process by now.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_unix_socket_that_hangs_up_means_tcp() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = UnixName::new(u128::from(std::process::id()) << 64 | 0xdead);
    let place = SocketAddr::from_abstract_name(format!("intendant-{name}")).expect("a short name");
    let service = UnixListener::bind_addr(&place).expect("a name of this process");
    let hang_up = std::thread::spawn(move || service.accept().map(drop));
    let listeners = [bind(Transport::Auto), bind(Transport::Auto)];
    let mut roster = [0, 1].map(|node: usize| listeners[node].address());
    roster[1].unix = Some(name);
    for mesh in meet(listeners, roster).await {
        assert_eq!(mesh.links(), Links { tcp: 2, unix: 0, shm: 0, rdma: 0 });
    }
    hang_up.join().expect("no panic").expect("it was dialled");
}

/// On a system that keeps users apart, a process of another user could take the name of a node that has
/// ended. A node must not send it the token. Credentials belong to a thread, so two threads suffice for the
/// test. Without the right to become another user, there is nothing to test.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_of_other_users_use_tcp() {
    use rustix::process::{Uid, geteuid};
    if !geteuid().is_root() {
        return;
    }
    let other = |work: Box<dyn FnOnce(tokio::runtime::Runtime) + Send>| {
        std::thread::spawn(move || {
            let stranger = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(stranger, stranger, stranger).expect("root may");
            work(tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));
        })
    };
    for theirs in [0, 1] {
        let (told, heard) = tokio::sync::oneshot::channel();
        let (tell, hear) = tokio::sync::oneshot::channel::<[Address; 2]>();
        let thread = other(Box::new(move |runtime| {
            runtime.block_on(async {
                let listener = bind(Transport::Auto);
                told.send(listener.address()).expect("it is awaited");
                let roster = hear.await.expect("it is told");
                let mesh = listener.mesh(&identity(theirs, 2, 1), &roster, PATIENCE).await;
                assert_eq!(mesh.expect("both are there").links(), Links { tcp: 1, unix: 0, shm: 0, rdma: 0 });
            });
        }));
        let (listener, their_address) = (bind(Transport::Auto), heard.await.expect("it listens"));
        let mut roster = [listener.address(); 2];
        roster[usize::from(theirs)] = their_address;
        tell.send(roster).expect("it is awaited");
        let mesh = listener.mesh(&identity(1 - theirs, 2, 1), &roster, PATIENCE).await;
        assert_eq!(mesh.expect("both are there").links(), Links { tcp: 1, unix: 0, shm: 0, rdma: 0 });
        thread.join().expect("no panic");
    }
    // If a process of another user dials nevertheless, the node closes the connection.
    let (_meshes, roster) = cluster(Transport::Auto, 2, 1).await;
    let thread = other(Box::new(move |runtime| {
        runtime.block_on(async {
            assert_eq!(verdict(roster[1], b"").await, b"");
        });
    }));
    tokio::task::spawn_blocking(|| thread.join().expect("no panic")).await.expect("no panic");
}
