//! The rows of the table in `intendant_techniques::replication`, one by one, with the order of arrivals in hand.

use super::cluster::{Cluster, Setup};
use super::replication::policy;
use intendant_core::{Key, NodeId};
use intendant_engine::{Input, ReplicationConfig, Storage};
use intendant_techniques::Role;
use intendant_wire::Message;

/// At home on node 0.
const K: Key = Key(0);

fn cluster(workers: usize) -> Cluster {
    let (storage, copies) = (Storage::Dense, ReplicationConfig::default());
    let setup = Setup { nodes: 3, workers, channels: 1, keys: 3, storage, policy: policy(false), copies };
    Cluster::new(setup, 0)
}

impl Cluster {
    /// Delivers the next message from one node to another; says what it was.
    fn hand(&mut self, from: usize, to: usize) -> String {
        let Some(Input::Message { message, .. }) = self.next(to, from) else {
            panic!("nothing is under way")
        };
        let mut name = format!("{message:?}").split('(').next().expect("a name").to_owned();
        if let Message::ReplicaRequest(sync) = message {
            name = format!("{:?}", sync.kind);
        } else if let Message::ReplicaUpdate(news) = message {
            name = format!("{:?}", news.kind);
        }
        assert!(self.deliver(to, from));
        name
    }

    /// What is under way from one node to another, in order.
    fn hand_all(&mut self, from: usize, to: usize) -> Vec<String> {
        let mut names = Vec::new();
        while self.next(to, from).is_some() {
            names.push(self.hand(from, to));
        }
        names
    }

    /// What the workers of a node have handed to its channel.
    fn take_in(&mut self, node: usize) {
        while self.deliver(node, node) {}
    }

    fn round(&mut self, node: usize) {
        self.now.0 += 1_000;
        self.handle(node, Input::Tick);
    }

    fn replicate(&mut self, node: usize) {
        self.handle(node, Input::Replicate { keys: vec![K] });
    }

    fn unreplicate(&mut self, node: usize) {
        self.handle(node, Input::Unreplicate { keys: vec![K] });
    }

    fn relocate(&mut self, from: usize, to: u16) {
        self.handle(from, Input::Relocate { keys: vec![K], to: NodeId(to) });
    }

    /// Node `node` gets a replica from node 0.
    fn set_up(&mut self, node: usize) {
        self.replicate(node);
        assert_eq!((self.hand(node, 0), self.hand(0, node)), ("Ask".into(), "SetUp".into()));
        assert_eq!((self.role(node, K), self.role(0, K)), (Role::Replica, Role::Hub));
    }

    fn bits(&self, node: usize) -> Vec<u32> {
        self.nodes[node].peek_copy(K).expect("a copy").into_iter().map(f32::to_bits).collect()
    }

    fn pushed_by(&self, node: usize, me: usize) -> f32 {
        self.nodes[node].peek_copy(K).expect("a copy")[me]
    }

    fn end(mut self) {
        self.drain();
        self.quiesce(20);
        self.check_end();
    }
}

#[test]
fn who_knows_all_but_its_own_update_is_acknowledged_and_hears_no_echo() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!(c.hand(1, 0), "Delta");
    c.round(0);
    assert_eq!(c.hand_all(0, 1), ["Acknowledged"]);
    assert_eq!(c.bits(0), c.bits(1));
    c.round(0);
    c.round(1);
    assert_eq!(c.under_way(), 0);
    c.end();
}

#[test]
fn the_others_are_told_in_the_next_round_and_nobody_twice() {
    let mut c = cluster(1);
    c.set_up(1);
    c.set_up(2);
    c.push(1, K);
    c.push(2, K);
    c.round(1);
    c.round(2);
    assert_eq!((c.hand(1, 0), c.hand(2, 0)), ("Delta".into(), "Delta".into()));
    // What node 2 added came to a main copy that it did not know.
    assert_eq!((c.hand(0, 1), c.hand(0, 2)), ("Acknowledged".into(), "Refresh".into()));
    c.round(0);
    assert_eq!((c.hand(0, 1), c.under_way()), ("Refresh".into(), 0));
    assert!(c.bits(1) == c.bits(0) && c.bits(2) == c.bits(0));
    c.end();
}

#[test]
fn news_keep_what_is_in_flight_and_what_came_since() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.push(1, K);
    c.push(0, K);
    c.round(0);
    assert_eq!(c.hand(0, 1), "Refresh");
    assert_eq!((c.pushed_by(1, 0), c.pushed_by(1, 1)), (1.0, 2.0));
    assert_eq!(c.hand(1, 0), "Delta");
    assert_eq!(c.hand(0, 1), "Acknowledged");
    assert_eq!((c.pushed_by(0, 1), c.pushed_by(1, 1)), (1.0, 2.0));
    c.end();
}

#[test]
fn a_holder_that_becomes_owner_adds_what_was_not_merged_and_its_ghost_comes_back_to_it() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.push(1, K);
    c.relocate(0, 1);
    assert_eq!(c.hand(0, 1), "HandOver");
    assert_eq!((c.role(1, K), c.pushed_by(1, 1)), (Role::Owner, 2.0));
    assert_eq!(c.hand_all(1, 0), ["Delta"], "the home knows that it has handed the key over");
    assert_eq!((c.hand(0, 1), c.pushed_by(1, 1)), ("Delta".into(), 2.0));
    assert_eq!(c.under_way(), 0);
    c.end();
}

#[test]
fn a_holder_that_becomes_owner_does_not_add_what_was_merged() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!(c.hand(1, 0), "Delta");
    // The acknowledgement is slow; the key comes another way.
    c.push(1, K);
    c.relocate(0, 2);
    assert_eq!(c.hand(0, 2), "HandOver");
    c.relocate(2, 1);
    assert_eq!((c.hand(2, 1), c.pushed_by(1, 1)), ("HandOver".into(), 2.0));
    assert_eq!((c.hand(0, 1), c.pushed_by(1, 1)), ("Acknowledged".into(), 2.0));
    c.end();
}

#[test]
fn a_ghost_is_merged_by_no_later_owner() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.relocate(0, 1);
    assert_eq!(c.hand(0, 1), "HandOver");
    c.relocate(1, 2);
    assert_eq!(c.hand(1, 2), "HandOver");
    // Node 1 is a holder again when its delta gets there.
    c.replicate(1);
    assert_eq!((c.hand(1, 2), c.hand(2, 1)), ("Ask".into(), "SetUp".into()));
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Delta".into(), "Delta".into()));
    assert_eq!((c.hand(1, 2), c.pushed_by(2, 1)), ("Delta".into(), 1.0));
    assert!(c.next(1, 2).is_none(), "nobody answers a ghost");
    c.end();
}

#[test]
fn registrations_move_with_the_key() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Delta".into(), "Acknowledged".into()));
    c.push(1, K);
    c.round(1);
    c.relocate(0, 2);
    assert_eq!((c.hand(0, 2), c.role(2, K)), ("HandOver".into(), Role::Hub));
    assert_eq!((c.hand(1, 0), c.hand(0, 2)), ("Delta".into(), "Delta".into()));
    assert_eq!(c.pushed_by(2, 1), 2.0);
    let hub = c.channels[2].hub(K).expect("it has a holder");
    assert_eq!((hub.holders().len(), hub.holders()[0].seq), (1, 2));
    // Node 2 does not know what node 0 has told.
    assert_eq!(c.hand(2, 1), "Refresh");
    assert_eq!(c.bits(1), c.bits(2));
    c.end();
}

#[test]
fn a_late_ask_makes_a_holder_of_nobody() {
    let mut c = cluster(1);
    c.replicate(1);
    c.relocate(0, 1);
    assert_eq!((c.hand(0, 1), c.role(1, K)), ("HandOver".into(), Role::Owner));
    c.relocate(1, 2);
    assert_eq!(c.hand(1, 2), "HandOver");
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Ask".into(), "Ask".into()));
    assert_eq!((c.hand(1, 2), c.role(2, K)), ("Ask".into(), Role::Hub));
    assert_eq!((c.hand(2, 1), c.role(1, K)), ("SetUp".into(), Role::Absent));
    assert_eq!((c.hand(1, 2), c.role(2, K)), ("Drop".into(), Role::Owner));
    assert_eq!(c.hand(2, 1), "Dropped");
    c.end();
}

#[test]
fn a_replica_that_is_wanted_again_does_not_listen_to_the_end_of_its_first_life() {
    let mut c = cluster(1);
    c.set_up(1);
    c.unreplicate(1);
    c.push(1, K);
    c.replicate(1);
    assert_eq!(c.hand_all(1, 0), ["Drop", "Ask"]);
    assert_eq!((c.hand(0, 1), c.role(1, K)), ("Dropped".into(), Role::Replica));
    c.push(1, K);
    assert_eq!((c.hand(0, 1), c.pushed_by(1, 1)), ("SetUp".into(), 2.0));
    c.round(1);
    assert_eq!((c.hand(1, 0), c.pushed_by(0, 1)), ("Delta".into(), 2.0));
    assert_eq!(c.channels[0].hub(K).expect("it has a holder").holders()[0].generation, 2);
    c.end();
}

#[test]
fn what_was_added_after_the_drop_is_delivered_under_a_new_epoch() {
    let mut c = cluster(1);
    c.set_up(1);
    c.unreplicate(1);
    c.push(1, K);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Drop".into(), "Dropped".into()));
    assert_eq!(c.role(1, K), Role::Replica);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Ask".into(), "SetUp".into()));
    assert_eq!(c.under_way(), 0, "updates travel in rounds");
    c.round(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Delta".into(), "Acknowledged".into()));
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Drop".into(), "Dropped".into()));
    assert_eq!((c.role(1, K), c.role(0, K), c.pushed_by(0, 1)), (Role::Absent, Role::Owner, 1.0));
    c.end();
}

/// Not once per round trip, or giving up what is added to all the time would cost more than keeping it.
#[test]
fn what_is_added_to_a_replica_that_is_to_end_travels_in_rounds() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.unreplicate(1);
    assert_eq!(c.under_way(), 0, "there is something to be sent, and it is not time");
    for round in 1..=5 {
        c.round(1);
        assert_eq!(c.hand(1, 0), "Delta");
        c.push(1, K);
        assert_eq!(c.hand(0, 1), "Acknowledged");
        assert_eq!((c.under_way(), c.pushed_by(0, 1)), (0, round as f32));
    }
    // Now it is left alone.
    c.round(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Delta".into(), "Acknowledged".into()));
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Drop".into(), "Dropped".into()));
    assert_eq!((c.role(1, K), c.role(0, K), c.pushed_by(0, 1)), (Role::Absent, Role::Owner, 6.0));
    c.end();
}

#[test]
fn a_holder_has_what_its_worker_is_told() {
    let mut c = cluster(1);
    // The worker adds before there is a copy, and the copy is made before that gets there.
    c.push(1, K);
    c.replicate(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Ask".into(), "SetUp".into()));
    c.take_in(1);
    // Served here, since the channel looks again.
    assert_eq!((c.under_way(), c.pushed_by(1, 1)), (0, 1.0));
    c.end();
    let mut c = cluster(1);
    c.push(1, K);
    c.replicate(1);
    c.take_in(1);
    assert_eq!(c.hand_all(1, 0), ["Ask", "Request"]);
    assert_eq!(c.hand_all(0, 1), ["SetUp", "Refresh", "Response"]);
    assert_eq!(c.bits(1), c.bits(0));
    c.end();
}

#[test]
fn a_replica_does_not_end_while_the_owner_may_still_answer_its_node() {
    let mut c = cluster(1);
    c.replicate(1);
    c.push(1, K);
    c.take_in(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Ask".into(), "SetUp".into()));
    c.unreplicate(1);
    assert_eq!(c.hand_all(1, 0), ["Request"], "no drop yet");
    assert_eq!(c.hand_all(0, 1), ["Refresh", "Response"]);
    assert_eq!(c.hand_all(1, 0), ["Drop"]);
    c.end();
}

#[test]
fn a_set_goes_to_the_owner_and_the_copy_comes_back_with_it() {
    let mut c = cluster(2);
    c.set_up(1);
    // Workers 2 and 3 are at node 1.
    c.push(2, K);
    c.set(2, K);
    c.take_in(1);
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Delta".into(), "Acknowledged".into()));
    // The copy is closed: what others add to it would keep it from ending.
    c.push(3, K);
    c.take_in(1);
    assert!(!c.pull_if_local(3, K));
    assert_eq!((c.hand(1, 0), c.hand(0, 1)), ("Drop".into(), "Dropped".into()));
    let sent = c.hand_all(1, 0);
    assert_eq!(sent, ["Request", "Request", "Ask"], "wanted still");
    assert_eq!(c.hand_all(0, 1), ["Response", "Response", "SetUp"]);
    let value = c.nodes[1].peek_copy(K).expect("a replica");
    assert_eq!((value[2], value[3], value[5 + 2]), (0.0, 1.0, 1.0));
    assert_eq!(c.bits(0), c.bits(1));
    c.end();
}
