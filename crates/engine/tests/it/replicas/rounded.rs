//! Deltas and values as bfloat16: what is rounded, what stays behind, and when nothing is rounded.

use super::super::cluster::{Cluster, K, Setup};
use super::replication::policy;
use intendant_core::{Precision, WorkerId};
use intendant_engine::{Input, ReplicationConfig, Storage};
use intendant_techniques::Role;
use intendant_wire::Message;

fn cluster() -> Cluster {
    let replication = ReplicationConfig { precision: Precision::Bf16, ..ReplicationConfig::default() };
    let (storage, policy) = (Storage::Dense, policy(false));
    Cluster::new(Setup { nodes: 3, workers: 1, channels: 1, keys: 3, storage, policy, replication }, 0)
}

impl Cluster {
    /// Adds `number` to the lane of node `me`'s worker. 257 has one bit more than a bfloat16.
    fn add(&mut self, me: usize, number: f32) {
        let mut update = vec![0.0; self.setup.len()];
        update[me] = number;
        let worker = &mut self.workers[me].local;
        assert_eq!(worker.worker(), WorkerId(0));
        let started = self.nodes[me].push(worker, &[K], &update).expect("the key exists");
        assert!(started.submissions.is_empty(), "the copy serves it");
    }

    /// The number in lane `me` of the copy of node `node`.
    fn sum(&self, node: usize, me: usize) -> f32 {
        self.nodes[node].inspect().copy(K).expect("a copy")[me]
    }

    /// Delivers a message about replicas. Returns its name, and how its elements are written.
    fn deliver_elements(&mut self, from: usize, to: usize) -> (&'static str, Precision) {
        let len = self.setup.len();
        let (precision, bytes) = match self.link(from, to).front() {
            Some(Input::Message { message: Message::ReplicaRequest(request), .. }) => {
                (request.precision, request.values.len())
            }
            Some(Input::Message { message: Message::ReplicaUpdate(update), .. }) => {
                (update.precision, update.values.len())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes, len * if precision == ROUNDED { 2 } else { 4 });
        (self.deliver(from, to), precision)
    }
}

const ROUNDED: Precision = Precision::Bf16;
const EXACT: Precision = Precision::Exact;

#[test]
fn what_a_delta_leaves_out_waits_for_the_next_one() {
    let mut c = cluster();
    c.replicate(1);
    assert_eq!((c.deliver(1, 0), c.deliver_elements(0, 1)), ("Ask", ("SetUp", ROUNDED)));
    c.add(1, 257.0);
    c.round(1);
    assert_eq!(c.deliver_elements(1, 0), ("Delta", ROUNDED));
    assert_eq!((c.sum(0, 1), c.sum(1, 1)), (256.0, 257.0));
    c.round(0);
    assert_eq!(c.deliver_link(0, 1), ["Acknowledged"]);
    assert_eq!(c.sum(1, 1), 257.0);
    // The remainder alone is no reason to send a delta.
    (0..3).for_each(|_| c.round(1));
    assert_eq!(c.under_way(), 0);
    c.add(1, 2.0);
    c.round(1);
    assert_eq!(c.deliver_elements(1, 0), ("Delta", ROUNDED));
    assert_eq!((c.sum(0, 1), c.sum(1, 1)), (259.0, 259.0));
    c.deliver_all();
    c.quiesce(20);
    assert_eq!(c.bits(0), c.bits(1));
}

#[test]
fn a_refresh_rounds_the_value_and_keeps_what_a_delta_has_left_out() {
    let mut c = cluster();
    c.set_up(1);
    c.add(1, 257.0);
    c.round(1);
    assert_eq!(c.deliver_elements(1, 0), ("Delta", ROUNDED));
    c.deliver_all();
    c.add(0, 1027.0);
    c.round(0);
    // 1027 lies between 1024 and 1032.
    assert_eq!(c.deliver_elements(0, 1), ("Refresh", ROUNDED));
    assert_eq!([c.sum(1, 0), c.sum(1, 1)], [1024.0, 257.0]);
    assert_eq!([c.sum(0, 0), c.sum(0, 1)], [1027.0, 256.0], "the main copy is exact");
    // At rest, all copies have all.
    c.quiesce(20);
    assert_eq!([c.sum(0, 0), c.sum(0, 1)], [1027.0, 257.0]);
    assert_eq!(c.bits(0), c.bits(1));
}

#[test]
fn a_cluster_that_comes_to_rest_sends_what_is_missing_exactly_and_once() {
    let mut c = cluster();
    c.set_up(1);
    c.set_up(2);
    c.add(1, 257.0);
    c.round(1);
    c.deliver_all();
    for node in 0..3 {
        c.handle(node, Input::Settle);
    }
    assert_eq!(c.deliver_elements(1, 0), ("Delta", EXACT));
    assert_eq!(c.sum(0, 1), 257.0);
    assert_eq!(c.deliver_elements(0, 1), ("Refresh", EXACT));
    assert_eq!(c.deliver_elements(0, 2), ("Refresh", EXACT));
    c.deliver_all();
    c.quiesce(20);
    assert!(c.bits(1) == c.bits(0) && c.bits(2) == c.bits(0));
    let before = c.delivered;
    for node in 0..3 {
        c.handle(node, Input::Settle);
        c.round(node);
    }
    assert_eq!((c.under_way(), c.delivered), (0, before), "there is nothing left to send");
}

#[test]
fn a_replica_that_ends_sends_what_is_left_before_it_is_dropped() {
    let mut c = cluster();
    c.set_up(1);
    c.add(1, 257.0);
    c.round(1);
    c.deliver_all();
    assert_eq!((c.sum(0, 1), c.under_way()), (256.0, 0));
    c.unreplicate(1);
    assert_eq!(c.deliver_elements(1, 0), ("Delta", EXACT));
    assert_eq!(c.sum(0, 1), 257.0);
    c.deliver_all();
    assert_eq!((c.role(1, K), c.role(0, K)), (Role::Absent, Role::Owner));
    // Updates of a replica that is to end are sent exactly as well.
    c.set_up(1);
    c.add(1, 257.0);
    c.unreplicate(1);
    c.round(1);
    assert_eq!(c.deliver_elements(1, 0), ("Delta", EXACT));
    assert_eq!(c.sum(0, 1), 514.0);
    c.deliver_all();
    assert_eq!(c.role(1, K), Role::Absent);
}

#[test]
fn a_replica_that_becomes_the_main_copy_keeps_what_is_left() {
    for merged in [false, true] {
        let mut c = cluster();
        c.set_up(1);
        c.set_up(2);
        c.add(1, 257.0);
        c.round(1);
        if merged {
            assert_eq!(c.deliver(1, 0), "Delta");
        }
        c.relocate(0, 1);
        c.deliver_all();
        assert_eq!((c.role(1, K), c.sum(1, 1)), (Role::Hub, 257.0), "merged: {merged}");
        c.quiesce(20);
        assert_eq!(c.bits(1), c.bits(2));
    }
}
