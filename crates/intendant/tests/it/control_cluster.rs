//! The control plane over real sockets, with several nodes in one process: joining, refusals, gathers, and
//! every way to end.

use intendant::control::{
    Control, DataPlane, Failure, FailureKind, HealthError, Introduction, JoinError, Presence, Roster, State,
    health,
};
use intendant::{ElementType, Endpoint, Error, NodeId, Rendezvous, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn introduction(rank: u16) -> Introduction {
    Introduction {
        protocol: 1,
        version: "0.1.0".into(),
        layout: 0xfeed,
        settings: vec![("--seed".into(), "1".into())],
        data: Some(DataPlane {
            element: ElementType::F32,
            channels: 1,
            address: SocketAddr::from(([127, 0, 0, 1], 10_000 + rank)).into(),
        }),
    }
}

/// Node 1 with another data plane.
fn of_data(change: impl Fn(&mut DataPlane)) -> Introduction {
    let mut introduction = introduction(1);
    introduction.data.iter_mut().for_each(change);
    introduction
}

/// The rendezvous of every rank, at a meeting place on a port of its own.
fn meeting(nodes: usize, token: Option<&Token>) -> Vec<Rendezvous> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    (0..nodes as u16)
        .map(|rank| {
            let mut rendezvous = Rendezvous::new(NodeId(rank), nodes, "127.0.0.1", port);
            if let Some(token) = token {
                rendezvous = rendezvous.token(token.clone());
            }
            match listener.take() {
                Some(listener) => rendezvous.listener(listener),
                None => rendezvous,
            }
        })
        .collect()
}

fn join_all(meeting: &[Rendezvous]) -> Vec<(Control, Roster)> {
    let joins: Vec<_> = meeting
        .iter()
        .cloned()
        .map(|place| thread::spawn(move || Control::join(place.clone(), introduction(place.rank().0))))
        .collect();
    joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
}

fn cluster(nodes: usize) -> Vec<Control> {
    join_all(&meeting(nodes, None)).into_iter().map(|(control, _)| control).collect()
}

/// Calls `run` on every node at the same time. Returns the results by rank.
fn on_all<R: Send>(nodes: &[Control], run: impl Fn(usize, &Control) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            nodes.iter().enumerate().map(|(rank, control)| scope.spawn(move || run(rank, control))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn leave_all(nodes: &[Control]) {
    assert_eq!(on_all(nodes, |_, control| control.leave()), vec![Ok(()); nodes.len()]);
}

#[test]
fn everybody_gets_the_same_roster_and_leaves_in_order() {
    let joined = join_all(&meeting(4, Some(&Token::from_bytes([7; 32]))));
    let roster = joined[0].1.clone();
    assert!(joined.iter().all(|(_, other)| *other == roster));
    let expected: Vec<_> = (0..4).filter_map(|rank| Some(introduction(rank).data?.address)).collect();
    assert_eq!(roster.nodes, expected);
    let nodes: Vec<_> = joined.into_iter().map(|(control, _)| control).collect();
    assert_eq!(nodes.iter().map(Control::rank).collect::<Vec<_>>(), (0..4).map(NodeId).collect::<Vec<_>>());
    leave_all(&nodes);
    assert!(nodes.iter().all(|control| control.failure().is_none()));
    let after = nodes[1].gather("late", vec![]).unwrap_err();
    assert_eq!((after.kind, after.node), (FailureKind::Left, Some(NodeId(1))));
}

#[test]
fn a_node_alone_is_a_cluster() {
    let nodes = cluster(1);
    assert_eq!(nodes[0].gather("x", vec![1, 2]), Ok(vec![vec![1, 2]]));
    leave_all(&nodes);
}

#[test]
fn gathers_under_several_names_and_in_a_loop_return_what_everybody_brought() {
    const ROUNDS: u32 = 200;
    let nodes = cluster(4);
    on_all(&nodes, |rank, control| {
        thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let word = |rank: usize| format!("{name} {round} {rank}").into_bytes();
                        let all = control.gather(name, word(rank)).unwrap();
                        assert_eq!(all, (0..4).map(word).collect::<Vec<_>>());
                    }
                });
            }
        });
    });
    leave_all(&nodes);
}

#[test]
fn payloads_up_to_the_limit_pass_and_larger_ones_harm_only_their_call() {
    const MAX: usize = 16 << 20;
    let nodes = cluster(2);
    let results = on_all(&nodes, |rank, control| {
        let too_large = control.gather("x", vec![0; MAX + 1]).unwrap_err();
        assert_eq!(too_large.kind, FailureKind::Misuse);
        assert_eq!(control.gather(&"n".repeat(201), vec![]).unwrap_err().kind, FailureKind::Misuse);
        control.gather("x", vec![rank as u8 + 1; MAX * (1 - rank)]).unwrap()
    });
    for all in results {
        assert_eq!(all, [vec![1; MAX], vec![]]);
    }
    leave_all(&nodes);
}

#[test]
fn two_threads_of_a_node_cannot_wait_under_one_name() {
    let nodes = cluster(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| nodes[0].gather("x", vec![]));
        // Either of the two calls may come first. The call that comes later is refused, and the other one
        // waits.
        let second = scope.spawn(|| nodes[0].gather("x", vec![]));
        let other = || nodes[1].gather("x", vec![]);
        let refused = loop {
            if first.is_finished() {
                break first.join().unwrap();
            }
            if second.is_finished() {
                let refused = second.join().unwrap();
                assert!(other().is_ok());
                assert!(first.join().unwrap().is_ok());
                assert_eq!(refused.unwrap_err().kind, FailureKind::Misuse);
                return;
            }
            thread::yield_now();
        };
        assert!(other().is_ok());
        assert!(second.join().unwrap().is_ok());
        assert_eq!(refused.unwrap_err().kind, FailureKind::Misuse);
    });
    leave_all(&nodes);
}

#[test]
fn every_difference_is_refused_by_name_while_the_cluster_runs_on() {
    let token = Token::from_bytes([1; 32]);
    let places = meeting(3, Some(&token));
    let nodes: Vec<_> = join_all(&places).into_iter().map(|(control, _)| control).collect();
    let Endpoint { host, port } = places[0].coordinator().clone();
    let (host, port) = (host.as_str(), port);
    let place =
        |rank: u16, nodes: usize| Rendezvous::new(NodeId(rank), nodes, host, port).token(token.clone());
    let refused = |place: Rendezvous, introduction: Introduction| match Control::join(place, introduction) {
        Ok(_) => panic!("a stranger was let in"),
        Err(error) => error,
    };
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let steps = scope.spawn(|| {
            let stopped = std::sync::Mutex::new(stopped);
            let rounds = on_all(&nodes, |rank, control| {
                let mut rounds = 0;
                loop {
                    // This also ends when the test has panicked, which drops the sender. On a busy machine
                    // all strangers may have been refused before the first step.
                    let done = rank == 0
                        && rounds > 0
                        && stopped.lock().unwrap().try_recv() != Err(mpsc::TryRecvError::Empty);
                    rounds += 1;
                    if control.gather("step", vec![u8::from(done)]).unwrap()[0] == [1] {
                        return rounds;
                    }
                }
            });
            leave_all(&nodes);
            rounds
        });

        let wrong = refused(
            Rendezvous::new(NodeId(1), 3, host, port).token(Token::from_bytes([2; 32])),
            introduction(1),
        );
        assert!(
            matches!(wrong, JoinError::Token { ours: "another token than the cluster's", .. }),
            "{wrong}"
        );
        let none = refused(Rendezvous::new(NodeId(1), 3, host, port), introduction(1));
        assert!(matches!(none, JoinError::Token { ours: "none is set", .. }), "{none}");
        // The coordinator checks the token first, so that a stranger does not learn what else would be wrong.
        let both = Introduction { protocol: 9, ..introduction(1) };
        let first = refused(Rendezvous::new(NodeId(1), 3, host, port), both);
        assert!(matches!(first, JoinError::Token { .. }), "{first}");

        let error =
            refused(place(1, 3), Introduction { protocol: 2, version: "9".into(), ..introduction(1) });
        assert!(matches!(&error, JoinError::Protocol { cluster: 1, ours: 2, .. }), "{error}");
        assert!(error.to_string().contains("0.1.0") && error.to_string().contains("intendant 9"), "{error}");
        let error = refused(place(1, 3), Introduction { layout: 0xbeef, ..introduction(1) });
        assert!(matches!(error, JoinError::Layout { cluster: 0xfeed, ours: 0xbeef }), "{error}");
        let error = refused(place(1, 3), of_data(|data| data.element = ElementType::F64));
        let types = (ElementType::F32, ElementType::F64);
        assert!(matches!(error, JoinError::Element { cluster, ours } if (cluster, ours) == types), "{error}");
        let error = refused(place(1, 3), of_data(|data| data.channels = 4));
        assert!(matches!(error, JoinError::Channels { cluster: 1, ours: 4 }), "{error}");
        let error = refused(place(1, 4), introduction(1));
        assert!(matches!(error, JoinError::WorldSize { cluster: 3, ours: 4 }), "{error}");
        let error = refused(place(3, 3), introduction(3));
        assert!(matches!(error, JoinError::Rank { rank: 3, nodes: 3 }), "{error}");
        let error = refused(place(2, 3), introduction(9));
        assert!(
            matches!(&error, JoinError::DuplicateRank { rank: 2, detail } if detail == "127.0.0.1:10002"),
            "{error}"
        );

        stop.send(()).unwrap();
        let rounds = steps.join().unwrap();
        assert!(rounds[0] > 1 && rounds.iter().all(|&count| count == rounds[0]), "{rounds:?}");
    });
}

/// Checks that both nodes end long before the deadline, and that programs end with exit code 2.
fn both_are_refused(places: &[Rendezvous], other: Introduction, differs: &str) {
    thread::scope(|scope| {
        let zero = scope.spawn(|| Control::join(places[0].clone(), introduction(0)));
        let one = Control::join(places[1].clone(), other).map(drop).unwrap_err();
        let zero = zero.join().unwrap().map(drop).unwrap_err();
        for error in [zero, one] {
            let text = error.to_string();
            assert!(text.contains(differs), "expected '{differs}' in '{text}'");
            assert_eq!(Error::from(error).exit_code(), 2, "{text}");
        }
    });
}

#[test]
fn a_node_that_differs_ends_a_forming_cluster_on_all_sides() {
    let seed = Introduction { settings: vec![("--seed".into(), "2".into())], ..introduction(1) };
    both_are_refused(&meeting(2, None), seed, "--seed is ");
    both_are_refused(&meeting(2, None), Introduction { layout: 1, ..introduction(1) }, "layout");
    let float = of_data(|data| data.element = ElementType::F64);
    both_are_refused(&meeting(2, None), float, "f64");
    both_are_refused(&meeting(2, None), of_data(|data| data.channels = 3), "channels");
    let mut places = meeting(2, None);
    let Endpoint { host, port } = places[0].coordinator().clone();
    places[1] = Rendezvous::new(NodeId(1), 3, host, port);
    both_are_refused(&places, introduction(1), "WORLD_SIZE");
}

#[test]
fn a_node_with_another_token_ends_a_forming_cluster_on_all_sides() {
    let (ours, theirs) = (Token::from_bytes([1; 32]), Token::from_bytes([2; 32]));
    for (zero, one) in [(Some(&ours), Some(&theirs)), (Some(&ours), None), (None, Some(&theirs))] {
        let mut places = meeting(2, zero);
        let Endpoint { host, port } = places[0].coordinator().clone();
        places[1] = Rendezvous::new(NodeId(1), 2, host, port);
        if let Some(token) = one {
            places[1] = places[1].clone().token(token.clone());
        }
        both_are_refused(&places, introduction(1), "token");
    }
}

#[test]
fn those_who_do_not_come_are_named_to_everybody() {
    let places: Vec<_> =
        meeting(4, None).into_iter().map(|place| place.deadline(Duration::from_secs(5))).collect();
    thread::scope(|scope| {
        for rank in [0, 2] {
            let place = places[rank].clone();
            scope.spawn(move || {
                let error = Control::join(place, introduction(rank as u16)).unwrap_err();
                let JoinError::Incomplete { missing, nodes: 4, .. } = &error else { panic!("{error}") };
                assert_eq!(*missing, [NodeId(1), NodeId(3)]);
                assert!(error.to_string().contains("nodes 1, 3 did not join"), "{error}");
            });
        }
    });
}

/// A port without a listener that stays taken as long as the socket lives. Processes started meanwhile do not
/// inherit it.
fn port_without_listener() -> (OwnedFd, u16) {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

#[test]
fn a_node_that_finds_no_coordinator_says_where_it_looked() {
    let (_held, silent) = port_without_listener();
    let alone = Rendezvous::new(NodeId(1), 2, "127.0.0.1", silent).deadline(Duration::from_secs(1));
    let error = Control::join(alone, introduction(1)).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{silent}")), "{error}");

    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Rendezvous::new(NodeId(1), 2, "127.0.0.1", mute.local_addr().unwrap().port());
    let error = Control::join(place.deadline(Duration::from_secs(1)), introduction(1)).unwrap_err();
    assert!(error.to_string().contains("says nothing"), "{error}");

    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Rendezvous::new(NodeId(1), 2, "127.0.0.1", web.local_addr().unwrap().port());
    thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = web.accept().unwrap();
        // This reads the whole request first: if it were cut short, that would count as a broken connection,
        // not as an answer.
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        while stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {}
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let error = Control::join(place, introduction(1)).unwrap_err();
    assert!(matches!(error, JoinError::NotACoordinator { .. }), "{error}");
}

/// A coordinator that has too many connections, or something between the nodes, may end a connection. The
/// node then asks again.
#[test]
fn a_connection_that_breaks_before_the_answer_is_replaced() {
    let mut places = meeting(2, None).into_iter();
    let (zero, one) = (places.next().unwrap(), places.next().unwrap());
    let zero_address = zero.coordinator().port;
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let detour = Rendezvous::new(NodeId(1), 2, "127.0.0.1", middle.local_addr().unwrap().port());
    drop(one);
    // The test does not wait for this thread, because a test that fails must not hang.
    thread::spawn(move || {
        let (mut first, _) = middle.accept().unwrap();
        let _ = first.read(&mut [0; 16]).unwrap();
        drop(first);
        let (near, _) = middle.accept().unwrap();
        let far = TcpStream::connect(("127.0.0.1", zero_address)).unwrap();
        let (mut near_in, mut far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut near_in, &mut far_out);
            let _ = far_out.shutdown(std::net::Shutdown::Write);
        });
        let (mut near_out, mut far_in) = (near, far);
        let _ = std::io::copy(&mut far_in, &mut near_out);
        let _ = near_out.shutdown(std::net::Shutdown::Write);
    });
    thread::scope(|scope| {
        let zero = scope.spawn(|| Control::join(zero, introduction(0)).unwrap().0);
        let (one, _) = Control::join(detour, introduction(1)).unwrap();
        leave_all(&[zero.join().unwrap(), one]);
    });
}

#[test]
fn silent_connections_are_closed_and_keep_no_node_out() {
    let token = Token::from_bytes([9; 32]);
    let places = meeting(3, Some(&token));
    let join = |rank: usize| {
        let place = places[rank].clone();
        thread::spawn(move || Control::join(place, introduction(rank as u16)).unwrap().0)
    };
    let address = ("127.0.0.1", places[0].coordinator().port);
    let (zero, one) = (join(0), join(1));
    let flood: Vec<_> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
    let nodes = [zero, one, join(2)].map(|join| join.join().unwrap());
    for mut silent in flood {
        // The timeout is a safety net: the coordinator is far quicker. What it sends before it hangs up does
        // not matter.
        silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        match silent.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
    // The nodes' own connections are as old as the silent ones, and still stand.
    assert_eq!(on_all(&nodes, |_, control| control.gather("x", vec![]).is_ok()), [true; 3]);
    leave_all(&nodes);
}

#[test]
fn node_0_names_a_port_that_is_in_use_and_stays_on_loopback_without_a_token() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let error = Control::join(Rendezvous::new(NodeId(0), 1, "127.0.0.1", address.port()), introduction(0));
    let error = error.unwrap_err();
    assert!(matches!(error, JoinError::PortInUse { address: named } if named == address), "{error}");
    assert!(error.to_string().contains(&address.port().to_string()), "{error}");

    let wide = || TcpListener::bind("0.0.0.0:0").unwrap();
    let listener = wide();
    let port = listener.local_addr().unwrap().port();
    let open = Rendezvous::new(NodeId(0), 1, "127.0.0.1", port).listener(listener);
    let error = Control::join(open, introduction(0)).unwrap_err();
    assert!(matches!(error, JoinError::Open { .. }), "{error}");
    let listener = wide();
    let port = listener.local_addr().unwrap().port();
    let guarded =
        Rendezvous::new(NodeId(0), 1, "127.0.0.1", port).listener(listener).token(Token::from_bytes([3; 32]));
    let (node, _) = Control::join(guarded, introduction(0)).unwrap();
    leave_all(&[node]);
}

/// All nodes but `who` wait in a gather, and `who` calls `act`. Returns the failures that the waiting nodes
/// got.
fn while_all_wait(nodes: Vec<Control>, who: usize, act: impl FnOnce(Control)) -> Vec<Failure> {
    let mut nodes = nodes;
    let actor = nodes.remove(who);
    thread::scope(|scope| {
        let waits: Vec<_> = nodes
            .iter()
            .map(|control| scope.spawn(move || control.gather("never", vec![]).unwrap_err()))
            .collect();
        act(actor);
        waits.into_iter().map(|wait| wait.join().unwrap()).collect()
    })
}

#[test]
fn an_abort_by_any_node_reaches_every_waiting_node() {
    for who in [0, 2] {
        let nodes = cluster(4);
        let failure = Failure {
            kind: FailureKind::Aborted,
            node: Some(NodeId(who as u16)),
            reason: "loss is NaN in epoch 3".into(),
        };
        let got = while_all_wait(nodes, who, |actor| {
            let (told, tell) = mpsc::channel();
            actor.on_failure(move |failure| told.send(failure.clone()).unwrap());
            actor.abort("loss is NaN in epoch 3");
            assert_eq!(tell.recv().unwrap(), failure);
            assert_eq!(actor.gather("x", vec![]), Err(failure.clone()));
            assert_eq!(actor.leave(), Err(failure.clone()));
        });
        assert_eq!(got, vec![failure; 3]);
    }
}

#[test]
fn a_node_that_is_dropped_without_leaving_is_lost() {
    for who in [0, 3] {
        let got = while_all_wait(cluster(4), who, drop);
        for failure in got {
            assert_eq!(
                (failure.kind, failure.node),
                (FailureKind::PeerLost, Some(NodeId(who as u16))),
                "{failure}"
            );
            assert_eq!(failure.reason, "closed its connection without leaving");
        }
    }
}

#[test]
fn a_node_that_leaves_while_others_wait_for_it_is_a_disagreement() {
    let got = while_all_wait(cluster(3), 1, |actor| {
        let failure = actor.leave().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Disagreement);
    });
    for failure in got {
        assert_eq!((failure.kind, failure.node), (FailureKind::Disagreement, Some(NodeId(1))), "{failure}");
        assert!(failure.reason.contains("'never'"), "{failure}");
    }
}

#[test]
fn a_lost_data_connection_ends_the_cluster_naming_the_accused() {
    let got = while_all_wait(cluster(3), 0, |actor| {
        actor.report_lost(NodeId(2), "connection reset by peer");
        let failure = actor.gather("x", vec![]).unwrap_err();
        assert_eq!((failure.kind, failure.node), (FailureKind::PeerLost, Some(NodeId(2))));
    });
    for failure in got {
        assert_eq!(failure.to_string(), "node 2 is lost to node 0: connection reset by peer");
    }
}

#[test]
fn who_died_first_is_named_not_whose_connection_broke_next() {
    let mut nodes = cluster(4);
    // Node 1 dies; node 2 lost its connection to node 3, which is ending because of that.
    nodes[2].report_lost(NodeId(3), "connection reset by peer");
    drop(nodes.remove(1));
    for node in &nodes {
        assert_eq!(node.gather("x", vec![]).unwrap_err().node, Some(NodeId(1)));
    }
}

#[test]
fn the_last_handle_may_go_in_its_own_failure_callback() {
    let nodes = cluster(2);
    let mut nodes = nodes.into_iter();
    let (zero, one) = (nodes.next().unwrap(), std::sync::Arc::new(nodes.next().unwrap()));
    let (told, tell) = mpsc::channel();
    let held = std::sync::Mutex::new(Some(one.clone()));
    one.on_failure(move |_| {
        drop(held.lock().unwrap().take());
        told.send(()).unwrap();
    });
    drop(one);
    zero.abort("over");
    tell.recv().unwrap();
}

#[test]
fn health_is_told_to_tools_that_have_the_token() {
    let token = Token::from_bytes([5; 32]);
    let places = meeting(2, Some(&token));
    let nodes: Vec<_> = join_all(&places).into_iter().map(|(control, _)| control).collect();
    let address = places[0].coordinator().to_string();
    assert!(matches!(health(&address, None, None), Err(HealthError::Token { .. })));
    thread::scope(|scope| {
        let wait = scope.spawn(|| nodes[1].gather("epoch", vec![]));
        let seen = loop {
            let seen = health(&address, Some(&token), None).unwrap();
            if !seen.gathers.is_empty() {
                break seen;
            }
        };
        assert_eq!((seen.state, seen.failure), (State::Running, None));
        assert!(seen.members.iter().all(|member| member.presence == Presence::Present));
        assert_eq!(
            (seen.gathers[0].name.as_str(), seen.gathers[0].missing.as_slice()),
            ("epoch", &[NodeId(0)][..])
        );
        nodes[0].gather("epoch", vec![]).unwrap();
        wait.join().unwrap().unwrap();
    });
    leave_all(&nodes);
    drop(nodes);
    assert!(matches!(health(&address, Some(&token), None), Err(HealthError::Unreachable { .. })));
}
