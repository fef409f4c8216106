//! Tests of the coordinator in virtual time: each test passes events to the coordinator and compares all
//! actions that it returns.

use super::*;
use crate::failure::{FailureKind, REASON_BYTES_MAX};
use crate::proto::{Abort, Beat, Contribution, Leave, Lost, gathered};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

fn expected(nodes: usize) -> Expected {
    Expected {
        protocol: 7,
        version: "1.2.3".into(),
        nodes,
        layout: 0xabc,
        data: Some((ElementType::F32, 2)),
        settings: settings(),
        deadline_us: 60 * SECOND,
    }
}

fn settings() -> Vec<(String, String)> {
    [("--seed", "1"), ("--dim", "8")].map(|(name, value)| (name.into(), value.into())).to_vec()
}

fn join(rank: u32, nodes: u32) -> Join {
    Join {
        protocol: 7,
        version: "1.2.3".into(),
        rank,
        nodes,
        layout: 0xabc,
        element: 4,
        channels: 2,
        data_address: format!("127.0.0.1:{}", 1000 + rank),
        data_socket: if rank == 1 { String::new() } else { format!("{:032x}", 7 + rank) },
        settings: settings().into_iter().map(|(name, value)| Setting { name, value }).collect(),
    }
}

struct Cluster {
    coordinator: Coordinator,
    now: Tick,
}

impl Cluster {
    /// All nodes have joined.
    fn running(nodes: u32) -> Self {
        let mut cluster = Self::joining(nodes);
        for rank in 0..nodes {
            let mut out = Vec::new();
            cluster.coordinator.join(cluster.now, join(rank, nodes), &mut out).unwrap();
        }
        cluster
    }

    fn joining(nodes: u32) -> Self {
        Self { coordinator: Coordinator::new(Tick(0), expected(nodes as usize), 99), now: Tick(0) }
    }

    fn refusal(&mut self, join: Join) -> (refused::Why, u64, u64, String) {
        let mut out = Vec::new();
        let refused = self.coordinator.join(self.now, join, &mut out).unwrap_err();
        assert!(!self.is_running() || out.is_empty(), "a refusal does not disturb a cluster that runs");
        (refused.why(), refused.cluster, refused.joining, refused.detail.clone())
    }

    fn is_running(&self) -> bool {
        matches!(self.coordinator.phase, Phase::Running)
    }

    fn receive(&mut self, from: u16, kind: from_member::Kind) -> Vec<Action> {
        let mut out = Vec::new();
        self.coordinator.receive(self.now, NodeId(from), FromMember { kind: Some(kind) }, &mut out);
        out
    }

    fn hung_up(&mut self, node: u16) -> Vec<Action> {
        let mut out = Vec::new();
        self.coordinator.hung_up(self.now, NodeId(node), Hangup::Gone, &mut out);
        out
    }

    /// Lets time pass in usual turns, with beats of the nodes `beating`. Returns what the coordinator sent
    /// other than beats.
    fn pass(&mut self, us: u64, beating: &[u16]) -> Vec<Action> {
        let end = self.now.after(us);
        let mut sent = Vec::new();
        while self.now < end {
            self.now = self.now.after(250 * MS);
            if self.now.0.is_multiple_of(SECOND) {
                for &node in beating {
                    sent.extend(self.receive(node, from_member::Kind::Beat(Beat {})));
                }
            }
            self.coordinator.turn(self.now, &mut sent);
        }
        sent.retain(|action| !matches!(action, Action::Send { message: to_member::Kind::Beat(_), .. }));
        sent
    }
}

/// The nodes that are told of a failure, and the failure, in order. Lines of the log are left out.
fn failures(actions: &[Action]) -> Vec<(u16, Failure)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Send { to, message: to_member::Kind::Failed(failed) } => {
                Some((to.0, Failure::from_wire(failed)))
            }
            Action::Send { .. } | Action::HangUp { .. } | Action::Note(_) | Action::Warning(_) => None,
        })
        .collect()
}

fn told(nodes: &[u16], failure: &Failure) -> Vec<(u16, Failure)> {
    nodes.iter().map(|&node| (node, failure.clone())).collect()
}

#[test]
fn the_roster_goes_out_when_the_last_node_is_there() {
    let mut cluster = Cluster::joining(3);
    let mut out = Vec::new();
    cluster.coordinator.join(Tick(0), join(2, 3), &mut out).unwrap();
    cluster.coordinator.join(Tick(0), join(0, 3), &mut out).unwrap();
    let waits = |to: u16, missing: &[u16]| Action::Send {
        to: NodeId(to),
        message: waiting(&missing.iter().copied().map(NodeId).collect::<Vec<_>>()),
    };
    assert_eq!(out, [waits(2, &[0, 1]), waits(0, &[1])]);
    out.clear();
    cluster.coordinator.join(Tick(0), join(1, 3), &mut out).unwrap();
    let addresses = ["127.0.0.1:1000", "127.0.0.1:1001", "127.0.0.1:1002"].map(str::to_owned).to_vec();
    let sockets = [format!("{:032x}", 7), String::new(), format!("{:032x}", 9)].to_vec();
    let complete = Complete { cluster: 99, data_addresses: addresses, data_sockets: sockets };
    let complete = to_member::Kind::Complete(complete);
    let expected = [0, 1, 2].map(|to| Action::Send { to: NodeId(to), message: complete.clone() });
    assert_eq!(out, expected);
}

#[test]
fn each_difference_is_refused_with_both_values_and_no_member_is_affected() {
    use refused::Why;
    let mut cluster = Cluster::running(2);
    let base = || join(1, 2);
    let none = String::new;
    assert_eq!(cluster.refusal(Join { protocol: 8, ..base() }), (Why::Protocol, 7, 8, "1.2.3".into()));
    assert_eq!(cluster.refusal(Join { nodes: 3, ..base() }), (Why::WorldSize, 2, 3, none()));
    assert_eq!(cluster.refusal(Join { rank: 2, ..base() }), (Why::Rank, 2, 2, none()));
    assert_eq!(cluster.refusal(Join { rank: u32::MAX, ..base() }), (Why::Rank, 2, u32::MAX.into(), none()));
    assert_eq!(cluster.refusal(Join { layout: 1, ..base() }), (Why::Layout, 0xabc, 1, none()));
    assert_eq!(cluster.refusal(Join { element: 8, ..base() }), (Why::Element, 4, 8, none()));
    assert_eq!(cluster.refusal(Join { channels: 1, ..base() }), (Why::Channels, 2, 1, none()));
    assert_eq!(cluster.refusal(base()), (Why::DuplicateRank, 0, 1, "127.0.0.1:1001".into()));
    assert_eq!(cluster.pass(20 * SECOND, &[0, 1]), []);
    for address in ["", "0.0.0.0:5", "127.0.0.1:0", "nonsense"] {
        let mut empty = Cluster::joining(2);
        let refused = empty.refusal(Join { data_address: address.into(), ..base() });
        assert_eq!(refused.0, Why::Address, "{address}");
    }
    // Nodes without a data plane have no data address.
    let bare =
        Join { element: 0, channels: 0, data_address: String::new(), data_socket: String::new(), ..base() };
    assert_eq!(Cluster::joining(2).refusal(bare.clone()).0, Why::Element);
    let without = || Coordinator::new(Tick(0), Expected { data: None, ..expected(2) }, 99);
    let mut out = Vec::new();
    let refused = without().join(Tick(0), Join { element: 4, ..bare.clone() }, &mut out);
    assert_eq!(refused.expect_err("it has a data plane").why(), Why::Element);
    let mut without = without();
    out.clear();
    without.join(Tick(0), bare.clone(), &mut out).expect("no data plane");
    without.join(Tick(0), Join { rank: 0, ..bare }, &mut out).expect("no data plane");
    let complete = Complete { cluster: 99, data_addresses: Vec::new(), data_sockets: Vec::new() };
    let complete = to_member::Kind::Complete(complete);
    assert!(out.contains(&Action::Send { to: NodeId(1), message: complete }), "{out:?}");
    let path = Join { data_socket: "/run/node.sock".into(), ..base() };
    assert_eq!(Cluster::joining(2).refusal(path).0, Why::Address);
}

#[test]
fn those_who_do_not_come_are_named() {
    let mut cluster = Cluster::joining(4);
    let mut out = Vec::new();
    cluster.coordinator.join(Tick(0), join(0, 4), &mut out).unwrap();
    cluster.coordinator.join(Tick(0), join(2, 4), &mut out).unwrap();
    let before = cluster.pass(59 * SECOND, &[0, 2]);
    assert!(before.iter().all(|action| matches!(
        action,
        Action::Send { message: to_member::Kind::Waiting(Waiting { missing }), .. } if *missing == [1, 3]
    )));
    let after = cluster.pass(2 * SECOND, &[0, 2]);
    let missing: Vec<_> = after
        .iter()
        .filter_map(|action| match action {
            Action::Send { to, message: to_member::Kind::Failed(failed) } => {
                Some((to.0, failed.missing.clone()))
            }
            Action::Send { .. } | Action::HangUp { .. } | Action::Note(_) | Action::Warning(_) => None,
        })
        .collect();
    assert_eq!(missing, [(2, vec![1, 3]), (0, vec![1, 3])]);
}

#[test]
fn a_broken_stream_ends_the_cluster_at_once_and_node_0_is_told_last() {
    let mut cluster = Cluster::running(4);
    let failure = Failure::lost(NodeId(2), "closed its connection without leaving");
    assert_eq!(failures(&cluster.hung_up(2)), told(&[1, 3], &failure));
    assert_eq!(failures(&cluster.hung_up(1)), []);
    assert!(!cluster.coordinator.finished());
    assert_eq!(failures(&cluster.hung_up(3)), told(&[0], &failure));
    assert!(cluster.coordinator.finished());
    let late = cluster.refusal(join(1, 4));
    assert_eq!(
        (late.0, late.3.as_str()),
        (refused::Why::Over, "node 2 closed its connection without leaving")
    );
}

#[test]
fn a_silent_node_is_named_after_five_seconds_and_cannot_hold_up_the_news() {
    let mut cluster = Cluster::running(3);
    assert_eq!(cluster.pass(5 * SECOND, &[0, 2]), []);
    let failure = Failure::lost(NodeId(1), "stopped answering for 5.2 s");
    assert_eq!(failures(&cluster.pass(250 * MS, &[0, 2])), told(&[1, 2], &failure));
    assert_eq!(cluster.hung_up(2), []);
    assert_eq!(failures(&cluster.pass(500 * MS, &[])), told(&[0], &failure));
}

#[test]
fn a_coordinator_that_was_stopped_blames_no_node() {
    let mut cluster = Cluster::running(3);
    cluster.pass(3 * SECOND, &[0, 1, 2]);
    cluster.now = cluster.now.after(30 * SECOND);
    assert_eq!(cluster.pass(4 * SECOND, &[0, 1, 2]), []);
    assert_eq!(failures(&cluster.pass(6 * SECOND, &[0, 1]))[0].1.node, Some(NodeId(2)));
}

#[test]
fn gathers_complete_in_order_of_ranks() {
    let mut cluster = Cluster::running(2);
    let part = |byte: u8| {
        from_member::Kind::Contribution(Contribution {
            name: "x".into(),
            payload: vec![byte].into(),
            last: true,
        })
    };
    assert_eq!(cluster.receive(1, part(11)), []);
    let sent = cluster.receive(0, part(10));
    let piece = |rank: u32, byte: u8| gathered::Piece { rank, payload: vec![byte].into(), last: true };
    let gathered = proto::Gathered { name: "x".into(), pieces: vec![piece(0, 10), piece(1, 11)] };
    let message = to_member::Kind::Gathered(gathered);
    assert_eq!(sent, [0, 1].map(|to| Action::Send { to: NodeId(to), message: message.clone() }));
}

#[test]
fn a_node_that_left_is_a_failure_only_if_another_node_waits_for_it() {
    let part = || {
        from_member::Kind::Contribution(Contribution { name: "x".into(), payload: vec![].into(), last: true })
    };
    let leave = || from_member::Kind::Leave(Leave {});
    let mut cluster = Cluster::running(3);
    assert_eq!(cluster.receive(1, leave()), []);
    assert_eq!(cluster.hung_up(1), []);
    assert_eq!(cluster.pass(20 * SECOND, &[0, 2]), []);
    let failure = Failure::disagreement(NodeId(1), "left the cluster while node 2 waits for it in 'x'");
    let sent = cluster.receive(2, part());
    assert_eq!(failures(&sent), told(&[2], &failure));

    let mut reversed = Cluster::running(3);
    assert_eq!(reversed.receive(2, part()), []);
    assert_eq!(failures(&reversed.receive(1, leave())), told(&[1, 2], &failure));
}

#[test]
fn when_everybody_has_left_everybody_is_told_node_0_last() {
    let mut cluster = Cluster::running(3);
    let leave = || from_member::Kind::Leave(Leave {});
    assert_eq!(cluster.receive(0, leave()), []);
    assert_eq!(cluster.receive(2, leave()), []);
    let closed = |to: u16| {
        [
            Action::Send { to: NodeId(to), message: to_member::Kind::Closed(Closed {}) },
            Action::HangUp { to: NodeId(to) },
        ]
    };
    let mut sent = cluster.receive(1, leave());
    sent.retain(|action| !matches!(action, Action::Note(_)));
    assert_eq!(sent, [closed(1), closed(2)].concat());
    assert_eq!(cluster.hung_up(2), []);
    assert_eq!(cluster.hung_up(1), closed(0));
    assert!(cluster.coordinator.finished());
}

#[test]
fn the_most_accused_node_is_blamed_unless_the_coordinator_knows_better() {
    let lost = |rank: u32| from_member::Kind::Lost(Lost { rank, reason: "reset".into() });
    let all = [0, 1, 2, 3];
    let mut cluster = Cluster::running(4);
    for (from, accused) in [(2, 0), (0, 2), (0, 2), (1, 2), (2, 1)] {
        assert_eq!(cluster.receive(from, lost(accused)), []);
    }
    assert_eq!(cluster.pass(REPORT_US - 250 * MS, &all), []);
    let failure = Failure::lost(NodeId(2), "is lost to node 0: reset");
    assert_eq!(failures(&cluster.pass(250 * MS, &all)), told(&[1, 2, 3], &failure));

    let mut better = Cluster::running(4);
    better.receive(0, lost(1));
    let sent = failures(&better.hung_up(3));
    assert_eq!(sent[0].1.node, Some(NodeId(3)));

    let mut left = Cluster::running(4);
    left.receive(1, from_member::Kind::Leave(Leave {}));
    left.receive(0, lost(1));
    assert_eq!(left.pass(10 * SECOND, &all), []);
}

#[test]
fn an_abort_reaches_everybody_with_its_reason() {
    let mut cluster = Cluster::running(3);
    let reason = "é".repeat(5000);
    let sent = failures(&cluster.receive(1, from_member::Kind::Abort(Abort { reason })));
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((sent[0].1.kind, sent[0].1.node), (FailureKind::Aborted, Some(NodeId(1))));
    assert_eq!(sent[0].1.reason.len(), REASON_BYTES_MAX);
    assert_eq!(cluster.receive(2, from_member::Kind::Abort(Abort { reason: "late".into() })), []);
}

#[test]
fn messages_out_of_turn_are_the_senders_fault() {
    let leave = from_member::Kind::Leave(Leave {});
    let mut early = Cluster::joining(3);
    let mut out = Vec::new();
    early.coordinator.join(Tick(0), join(1, 3), &mut out).unwrap();
    assert_eq!(failures(&early.receive(1, leave))[0].1.node, Some(NodeId(1)));

    let mut twice = Cluster::running(2);
    assert_eq!(failures(&twice.receive(1, from_member::Kind::Join(join(1, 2))))[0].1.node, Some(NodeId(1)));

    let mut ghost = Cluster::running(2);
    let lost = from_member::Kind::Lost(Lost { rank: 70_000, reason: String::new() });
    assert_eq!(failures(&ghost.receive(1, lost))[0].1.node, Some(NodeId(1)));
}

#[test]
fn health_tells_who_is_there_and_what_is_awaited() {
    let mut cluster = Cluster::running(2);
    cluster.receive(
        1,
        from_member::Kind::Contribution(Contribution {
            name: "x".into(),
            payload: vec![].into(),
            last: true,
        }),
    );
    cluster.now = Tick(1500 * MS);
    let health = cluster.coordinator.health(cluster.now);
    assert_eq!((health.state(), health.cluster), (health_reply::State::Running, 99));
    assert_eq!(health.members.iter().map(|member| member.silent_ms).collect::<Vec<_>>(), [1500, 1500]);
    assert_eq!((health.gathers[0].missing.clone(), health.gathers[0].waiting_ms), (vec![0], 1500));
    cluster.hung_up(1);
    assert_eq!(
        cluster.coordinator.health(cluster.now).failure,
        "node 1 closed its connection without leaving"
    );
}

#[test]
fn a_gather_that_stays_open_is_a_warning() {
    let mut cluster = Cluster::running(2);
    let part = Contribution { name: "epoch".into(), payload: Default::default(), last: true };
    assert_eq!(cluster.receive(1, from_member::Kind::Contribution(part)), []);
    let warning = Action::Warning("'epoch' has been waiting for 30 s; not there yet: [n0]".to_owned());
    assert_eq!(cluster.pass(31 * SECOND, &[0, 1]), [warning]);
}

#[test]
fn who_comes_after_a_failure_learns_of_it() {
    let mut cluster = Cluster::joining(3);
    let mut out = Vec::new();
    cluster.coordinator.join(Tick(0), join(0, 3), &mut out).unwrap();
    cluster.coordinator.join(Tick(0), join(1, 3), &mut out).unwrap();
    cluster.hung_up(1);
    let refused = cluster.coordinator.join(Tick(0), join(2, 3), &mut out).unwrap_err();
    let failure = Failure::lost(NodeId(1), "closed its connection without leaving");
    assert_eq!((refused.why(), refused.failure), (refused::Why::Over, Some(failure.to_wire())));
}

/// Node 0 of three has joined, and node 1 tries to join with a difference. Returns node 1's refusal and the
/// failures that the coordinator sends to the members.
fn forming_with(difference: impl FnOnce(&mut Join)) -> (Refused, Vec<(u16, Failure)>) {
    let mut cluster = Cluster::joining(3);
    let mut out = Vec::new();
    cluster.coordinator.join(Tick(0), join(0, 3), &mut out).unwrap();
    out.clear();
    let mut other = join(1, 3);
    difference(&mut other);
    let refused = cluster.coordinator.join(Tick(0), other, &mut out).unwrap_err();
    assert!(!cluster.coordinator.finished(), "node 2 does not know yet");
    let late = cluster.refusal(join(2, 3));
    assert_eq!(late.0, refused::Why::Over);
    assert!(cluster.coordinator.finished());
    (*refused, failures(&out))
}

#[test]
fn a_difference_ends_a_forming_cluster_at_once_by_name() {
    type Case = (fn(&mut Join), &'static str);
    let cases: [Case; 7] = [
        (
            |join| join.settings[0].value = "2".into(),
            "node 1 and node 0 were started differently: --seed is 1 on node 0 and 2 on node 1",
        ),
        (|join| join.settings.truncate(1), "--dim is 8 on node 0 and not set on node 1"),
        (|join| join.layout = 1, "its layout differs"),
        (|join| join.element = 8, "its values are f64, and those of node 0 f32"),
        (|join| join.channels = 3, "it has 3 channels, and node 0 2"),
        (|join| join.nodes = 4, "it was started for 4 nodes, and node 0 for 3"),
        (|join| join.rank = 0, "another process has joined as node 0"),
    ];
    for (difference, words) in cases {
        let (_, told) = forming_with_any_rank(difference);
        let [(0, failure)] = &told[..] else { panic!("{words}: {told:?}") };
        assert_eq!(failure.kind, FailureKind::Mismatch, "{words}");
        assert!(failure.to_string().contains(words), "{failure}");
    }
    let (refused, _) = forming_with(|join| join.settings[0].value = "2".into());
    let pair = (refused.cluster_setting.unwrap(), refused.joining_setting.unwrap());
    let setting = |value: &str| Setting { name: "--seed".into(), value: value.into() };
    assert_eq!(pair, (setting("1"), setting("2")));
}

/// As [`forming_with`], but does not check which nodes know of the end.
fn forming_with_any_rank(difference: fn(&mut Join)) -> (Refused, Vec<(u16, Failure)>) {
    let mut cluster = Cluster::joining(3);
    let mut out = Vec::new();
    cluster.coordinator.join(Tick(0), join(0, 3), &mut out).unwrap();
    out.clear();
    let mut other = join(1, 3);
    difference(&mut other);
    let refused = cluster.coordinator.join(Tick(0), other, &mut out).unwrap_err();
    (*refused, failures(&out))
}

#[test]
fn another_token_ends_a_forming_cluster_unless_the_node_comes_with_the_right_one() {
    let mut cluster = Cluster::joining(2);
    cluster.coordinator.join(cluster.now, join(0, 2), &mut Vec::new()).unwrap();
    // Neither the rank of a node that has joined nor another number of nodes has an effect.
    cluster.coordinator.shut_out(cluster.now, 0, 2);
    cluster.coordinator.shut_out(cluster.now, 1, 3);
    cluster.coordinator.shut_out(cluster.now, 7, 2);
    assert_eq!(failures(&cluster.pass(10 * SECOND, &[0])), []);
    cluster.coordinator.shut_out(cluster.now, 1, 2);
    assert_eq!(failures(&cluster.pass(TOKEN_GRACE_US - 250 * MS, &[0])), []);
    let told = failures(&cluster.pass(250 * MS, &[0]));
    assert_eq!((told.len(), told[0].0, told[0].1.kind), (1, 0, FailureKind::Mismatch));
    assert!(told[0].1.to_string().starts_with("node 1 cannot join: its token"), "{}", told[0].1);

    let mut recovered = Cluster::joining(3);
    recovered.coordinator.join(recovered.now, join(0, 3), &mut Vec::new()).unwrap();
    recovered.coordinator.shut_out(recovered.now, 1, 3);
    recovered.coordinator.join(recovered.now, join(1, 3), &mut Vec::new()).unwrap();
    assert_eq!(failures(&recovered.pass(10 * SECOND, &[0, 1])), []);
}

#[test]
fn data_is_a_sign_of_life() {
    let mut cluster = Cluster::running(2);
    for _ in 0..20 {
        cluster.coordinator.heard(cluster.now, NodeId(1));
        assert_eq!(cluster.pass(SECOND, &[0]), []);
    }
    assert_eq!(failures(&cluster.pass(6 * SECOND, &[0]))[0].1.node, Some(NodeId(1)));
}

#[test]
fn a_node_that_gave_up_is_not_blamed() {
    let mut cluster = Cluster::running(3);
    let gave_up = from_member::Kind::GaveUp(proto::GaveUp { silent_ms: 5_250 });
    let told = failures(&cluster.receive(1, gave_up));
    assert_eq!(told.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 2]);
    let failure = &told[0].1;
    assert_eq!((failure.kind, failure.node), (FailureKind::PeerLost, None));
    assert!(failure.reason.starts_with("node 1 gave up because it did not hear"), "{failure}");
}
