//! The rows of the table in `intendant_techniques::replication`: each test chooses the order of deliveries.

use super::super::cluster::{Cluster, K, Setup};
use super::replication::policy;
use intendant_engine::{Input, ReplicationConfig, Storage};
use intendant_techniques::Role;

fn cluster(workers: usize) -> Cluster {
    let (storage, replication) = (Storage::Dense, ReplicationConfig::default());
    let setup =
        Setup { nodes: 3, workers, channels: 1, keys: 3, storage, policy: policy(false), replication };
    Cluster::new(setup, 0)
}

impl Cluster {
    /// The time of the next round comes, and the node starts it.
    pub(super) fn round(&mut self, node: usize) {
        self.now.0 += 1_000;
        self.handle(node, Input::Tick);
    }

    /// Node 0 sets up a replica at `node`.
    pub(super) fn set_up(&mut self, node: usize) {
        self.replicate(node);
        assert_eq!((self.deliver(node, 0), self.deliver(0, node)), ("Ask", "SetUp"));
        assert_eq!((self.role(node, K), self.role(0, K)), (Role::Replica, Role::Hub));
    }

    pub(super) fn bits(&self, node: usize) -> Vec<u32> {
        self.nodes[node].inspect().copy(K).expect("a copy").into_iter().map(f32::to_bits).collect()
    }

    /// The number of pushes of a worker that the copy at a node contains.
    fn pushed_by(&self, node: usize, me: usize) -> f32 {
        self.nodes[node].inspect().copy(K).expect("a copy")[me]
    }
}

#[test]
fn a_holder_that_lacks_no_update_is_acknowledged_without_a_value() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!(c.deliver(1, 0), "Delta");
    c.round(0);
    assert_eq!(c.deliver_link(0, 1), ["Acknowledged"]);
    assert_eq!(c.bits(0), c.bits(1));
    c.round(0);
    c.round(1);
    assert_eq!(c.under_way(), 0);
    c.end();
}

#[test]
fn an_owner_sends_each_update_once_to_the_other_holders() {
    let mut c = cluster(1);
    c.set_up(1);
    c.set_up(2);
    c.push(1, K);
    c.push(2, K);
    c.round(1);
    c.round(2);
    assert_eq!((c.deliver(1, 0), c.deliver(2, 0)), ("Delta", "Delta"));
    // The update of node 2 reached a main copy with an update that node 2 lacks.
    assert_eq!((c.deliver(0, 1), c.deliver(0, 2)), ("Acknowledged", "Refresh"));
    c.round(0);
    assert_eq!((c.deliver(0, 1), c.under_way()), ("Refresh", 0));
    assert!(c.bits(1) == c.bits(0) && c.bits(2) == c.bits(0));
    c.end();
}

#[test]
fn a_refresh_keeps_the_delta_in_flight_and_the_updates_since() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.push(1, K);
    c.push(0, K);
    c.round(0);
    assert_eq!(c.deliver(0, 1), "Refresh");
    assert_eq!((c.pushed_by(1, 0), c.pushed_by(1, 1)), (1.0, 2.0));
    assert_eq!(c.deliver(1, 0), "Delta");
    assert_eq!(c.deliver(0, 1), "Acknowledged");
    assert_eq!((c.pushed_by(0, 1), c.pushed_by(1, 1)), (1.0, 2.0));
    c.end();
}

#[test]
fn a_promoted_holder_adds_its_delta_that_was_not_merged_and_ignores_its_ghost() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.push(1, K);
    c.relocate(0, 1);
    assert_eq!(c.deliver(0, 1), "HandOver");
    assert_eq!((c.role(1, K), c.pushed_by(1, 1)), (Role::Owner, 2.0));
    assert_eq!(c.deliver_link(1, 0), ["Delta"], "the home forwards the delta to the new owner");
    assert_eq!((c.deliver(0, 1), c.pushed_by(1, 1)), ("Delta", 2.0));
    assert_eq!(c.under_way(), 0);
    c.end();
}

#[test]
fn a_promoted_holder_does_not_add_its_delta_that_was_merged() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!(c.deliver(1, 0), "Delta");
    // The key arrives from node 2 before the acknowledgement of node 0.
    c.push(1, K);
    c.relocate(0, 2);
    assert_eq!(c.deliver(0, 2), "HandOver");
    c.relocate(2, 1);
    assert_eq!((c.deliver(2, 1), c.pushed_by(1, 1)), ("HandOver", 2.0));
    assert_eq!((c.deliver(0, 1), c.pushed_by(1, 1)), ("Acknowledged", 2.0));
    c.end();
}

#[test]
fn no_later_owner_merges_a_ghost() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    c.relocate(0, 1);
    assert_eq!(c.deliver(0, 1), "HandOver");
    c.relocate(1, 2);
    assert_eq!(c.deliver(1, 2), "HandOver");
    // Node 1 is a holder again when its delta arrives.
    c.replicate(1);
    assert_eq!((c.deliver(1, 2), c.deliver(2, 1)), ("Ask", "SetUp"));
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Delta", "Delta"));
    assert_eq!((c.deliver(1, 2), c.pushed_by(2, 1)), ("Delta", 1.0));
    assert!(c.link(2, 1).is_empty(), "the owner does not answer a ghost");
    c.end();
}

#[test]
fn registrations_move_with_the_key() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.round(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Delta", "Acknowledged"));
    c.push(1, K);
    c.round(1);
    c.relocate(0, 2);
    assert_eq!((c.deliver(0, 2), c.role(2, K)), ("HandOver", Role::Hub));
    assert_eq!((c.deliver(1, 0), c.deliver(0, 2)), ("Delta", "Delta"));
    assert_eq!(c.pushed_by(2, 1), 2.0);
    let hub = c.channels[2].hub(K).expect("it has a holder");
    assert_eq!((hub.holders().len(), hub.holders()[0].seq), (1, 2));
    // Node 2 does not know which value node 0 has sent.
    assert_eq!(c.deliver(2, 1), "Refresh");
    assert_eq!(c.bits(1), c.bits(2));
    c.end();
}

#[test]
fn a_node_answers_the_registration_of_a_late_ask_with_a_drop() {
    let mut c = cluster(1);
    c.replicate(1);
    c.relocate(0, 1);
    assert_eq!((c.deliver(0, 1), c.role(1, K)), ("HandOver", Role::Owner));
    c.relocate(1, 2);
    assert_eq!(c.deliver(1, 2), "HandOver");
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Ask", "Ask"));
    assert_eq!((c.deliver(1, 2), c.role(2, K)), ("Ask", Role::Hub));
    assert_eq!((c.deliver(2, 1), c.role(1, K)), ("SetUp", Role::Absent));
    assert_eq!((c.deliver(1, 2), c.role(2, K)), ("Drop", Role::Owner));
    assert_eq!(c.deliver(2, 1), "Dropped");
    c.end();
}

#[test]
fn a_revived_replica_ignores_the_end_of_its_first_registration() {
    let mut c = cluster(1);
    c.set_up(1);
    c.unreplicate(1);
    c.push(1, K);
    c.replicate(1);
    assert_eq!(c.deliver_link(1, 0), ["Drop", "Ask"]);
    assert_eq!((c.deliver(0, 1), c.role(1, K)), ("Dropped", Role::Replica));
    c.push(1, K);
    assert_eq!((c.deliver(0, 1), c.pushed_by(1, 1)), ("SetUp", 2.0));
    c.round(1);
    assert_eq!((c.deliver(1, 0), c.pushed_by(0, 1)), ("Delta", 2.0));
    assert_eq!(c.channels[0].hub(K).expect("it has a holder").holders()[0].generation, 2);
    c.end();
}

#[test]
fn a_holder_sends_updates_from_after_its_drop_in_a_new_generation() {
    let mut c = cluster(1);
    c.set_up(1);
    c.unreplicate(1);
    c.push(1, K);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Drop", "Dropped"));
    assert_eq!(c.role(1, K), Role::Replica);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Ask", "SetUp"));
    assert_eq!(c.under_way(), 0, "updates travel in rounds");
    c.round(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Delta", "Acknowledged"));
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Drop", "Dropped"));
    assert_eq!((c.role(1, K), c.role(0, K), c.pushed_by(0, 1)), (Role::Absent, Role::Owner, 1.0));
    c.end();
}

/// With one delta per round trip, dropping a replica with steady updates would cost more than keeping it.
#[test]
fn a_holder_sends_the_updates_of_an_unwanted_replica_in_rounds() {
    let mut c = cluster(1);
    c.set_up(1);
    c.push(1, K);
    c.unreplicate(1);
    assert_eq!(c.under_way(), 0, "the update waits for the next round");
    for round in 1..=5 {
        c.round(1);
        assert_eq!(c.deliver(1, 0), "Delta");
        c.push(1, K);
        assert_eq!(c.deliver(0, 1), "Acknowledged");
        assert_eq!((c.under_way(), c.pushed_by(0, 1)), (0, round as f32));
    }
    // No more updates.
    c.round(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Delta", "Acknowledged"));
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Drop", "Dropped"));
    assert_eq!((c.role(1, K), c.role(0, K), c.pushed_by(0, 1)), (Role::Absent, Role::Owner, 6.0));
    c.end();
}

#[test]
fn a_replica_contains_the_writes_of_its_nodes_workers() {
    let mut c = cluster(1);
    // The worker pushes before its node has a replica, and the channel handles the push afterwards.
    c.push(1, K);
    c.replicate(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Ask", "SetUp"));
    c.deliver_submissions(1);
    // The channel looks again and serves the push on the replica.
    assert_eq!((c.under_way(), c.pushed_by(1, 1)), (0, 1.0));
    c.end();
    let mut c = cluster(1);
    c.push(1, K);
    c.replicate(1);
    c.deliver_submissions(1);
    assert_eq!(c.deliver_link(1, 0), ["Ask", "Request"]);
    assert_eq!(c.deliver_link(0, 1), ["SetUp", "Refresh", "Response"]);
    assert_eq!(c.bits(1), c.bits(0));
    c.end();
}

#[test]
fn a_holder_keeps_its_replica_while_an_access_to_the_owner_is_outstanding() {
    let mut c = cluster(1);
    c.replicate(1);
    c.push(1, K);
    c.deliver_submissions(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Ask", "SetUp"));
    c.unreplicate(1);
    assert_eq!(c.deliver_link(1, 0), ["Request"], "no drop yet");
    assert_eq!(c.deliver_link(0, 1), ["Refresh", "Response"]);
    assert_eq!(c.deliver_link(1, 0), ["Drop"]);
    c.end();
}

#[test]
fn a_set_ends_the_replica_and_a_new_one_contains_it() {
    let mut c = cluster(2);
    c.set_up(1);
    // Workers 2 and 3 are at node 1.
    c.push(2, K);
    c.set(2, K);
    c.deliver_submissions(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Delta", "Acknowledged"));
    // The replica is closed: further pushes to it would delay its end.
    c.push(3, K);
    c.deliver_submissions(1);
    assert!(!c.pull_if_local(3, K));
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Drop", "Dropped"));
    let sent = c.deliver_link(1, 0);
    assert_eq!(sent, ["Request", "Request", "Ask"], "the node still wants a replica");
    assert_eq!(c.deliver_link(0, 1), ["Response", "Response", "SetUp"]);
    let value = c.nodes[1].inspect().copy(K).expect("a replica");
    assert_eq!((value[2], value[3], value[5 + 2]), (0.0, 1.0, 1.0));
    assert_eq!(c.bits(0), c.bits(1));
    c.end();
}

/// The significantly modified filter: a round sends what changes a copy enough, and what ends.
#[test]
fn a_round_holds_back_what_is_not_significant() {
    let (storage, mut replication) = (Storage::Dense, ReplicationConfig::default());
    replication.significant = Some(0.3);
    let setup =
        Setup { nodes: 3, workers: 1, channels: 1, keys: 3, storage, policy: policy(false), replication };
    let mut c = Cluster::new(setup, 0);
    c.set_up(1);
    let (mut sent, mut held) = (0.0, 0);
    // A push changes the copy by less and less of its norm.
    for pushes in 1..=9u8 {
        c.push(1, K);
        let copy = |node: usize| c.nodes[node].inspect().copy(K).expect("a copy");
        let norm = |value: &mut dyn Iterator<Item = f32>| value.map(|x| x * x).sum::<f32>().sqrt();
        let change = norm(&mut copy(1).iter().zip(copy(0)).map(|(here, main)| here - main));
        let is_significant = change >= 0.3 * norm(&mut copy(1).into_iter());
        c.round(1);
        if is_significant {
            assert_eq!(c.deliver(1, 0), "Delta", "push {pushes}");
            c.round(0);
            assert_eq!(c.deliver_link(0, 1), ["Acknowledged"]);
            sent = f32::from(pushes);
        } else {
            held += 1;
        }
        assert_eq!((c.under_way(), c.pushed_by(0, 1), c.pushed_by(1, 1)), (0, sent, f32::from(pushes)));
        assert!(c.stats().held_back >= held, "{:?}", c.stats());
    }
    assert!(held >= 2 && sent > 2.0, "{held} rounds have held back, {sent} pushes are sent");
    if sent == 9.0 {
        c.push(1, K);
    }
    let pushed = c.pushed_by(1, 1);
    // Each round looks again.
    let before = c.stats().held_back;
    c.round(1);
    assert_eq!((c.under_way(), c.stats().held_back), (0, before + 1));
    c.unreplicate(1);
    c.round(1);
    assert_eq!((c.deliver(1, 0), c.pushed_by(0, 1)), ("Delta", pushed), "a replica that ends sends all");
    // A delta counts all its updates, including those that were held back before.
    assert_eq!(c.stats().unsent.sum_us(), pushed as u64);
    c.end();
}
