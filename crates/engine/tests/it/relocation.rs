//! Relocation: each test chooses the order of deliveries.

use super::cluster::{Cluster, K, Setup};
use super::node::{Node, config, layout};
use intendant_core::{Key, NodeId, Tick};
use intendant_engine::{Channel, Input, ReplicationConfig, Storage};
use intendant_techniques::{Initiator, Location, Policy, Role, Technique};
use intendant_wire::Message;

fn cluster(policy: Policy, storage: Storage) -> Cluster {
    let replication = ReplicationConfig::default();
    Cluster::new(Setup { nodes: 3, workers: 1, channels: 1, keys: 9, storage, policy, replication }, 0)
}

fn lapse() -> Cluster {
    cluster(Technique::Lapse.policy(), Storage::Dense)
}

fn by_owners(storage: Storage) -> Cluster {
    let policy = Policy { name: "test", relocation: Some(Initiator::Owner), ..Technique::Lapse.policy() };
    cluster(policy, storage)
}

impl Cluster {
    /// The worker of a node localizes [`K`].
    fn localize_at(&mut self, node: usize) {
        self.localize(node, K);
        self.deliver_submissions(node);
    }

    /// The worker of a node pushes to [`K`].
    fn push_at(&mut self, node: usize) {
        self.push(node, K);
        self.deliver_submissions(node);
    }

    /// The owner of [`K`], and the number of pushes of each worker in its value.
    fn owner(&self) -> (usize, [f32; 3]) {
        let (owner, value) = self.main(K);
        (owner, [value[0], value[1], value[2]])
    }

    /// Whether the worker has no operation under way.
    fn is_idle(&mut self, node: usize) -> bool {
        self.receive_all(node);
        self.workers[node].local.is_idle()
    }

    /// Checks that no message is under way, no worker waits and no key is about to arrive; then the sums.
    fn end_idle(mut self) {
        assert_eq!(self.under_way(), 0);
        assert!((0..3).all(|node| self.is_idle(node)));
        let waits = |channel: &Channel<f32>| channel.report().outstanding + channel.arriving() as u64;
        assert!(self.channels.iter().all(|channel| waits(channel) == 0));
        self.end();
    }
}

#[test]
fn a_relocation_takes_two_messages_if_the_home_is_the_owner_and_three_if_not() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut c = cluster(Technique::Lapse.policy(), storage);
        // In a sparse store, the value does not exist yet.
        c.localize_at(1);
        assert_eq!((c.deliver(1, 0), c.deliver(0, 1), c.under_way()), ("Localize", "HandOver", 0));
        assert_eq!(c.owner(), (1, [0., 0., 0.]));
        c.push_at(1);
        c.localize_at(2);
        let steps = [c.deliver(2, 0), c.deliver(0, 1), c.deliver(1, 2)];
        assert_eq!((steps, c.under_way()), (["Localize", "Relocate", "HandOver"], 0));
        assert_eq!(c.owner(), (2, [0., 1., 0.]));
        // The home itself needs two messages: it knows the owner.
        c.localize_at(0);
        assert_eq!((c.deliver(0, 2), c.deliver(2, 0), c.under_way()), ("Relocate", "HandOver", 0));
        assert_eq!(c.owner(), (0, [0., 1., 0.]));
        let held: usize = c.nodes.iter().map(|n| n.inspect().held()).sum();
        let expected = if storage == Storage::Dense { 9 } else { 1 };
        assert_eq!(held, expected, "a node frees the memory of a key that leaves");
        c.localize_at(0);
        assert_eq!(c.under_way(), 0, "the key is here");
        c.end_idle();
    }
}

#[test]
fn a_requester_queues_accesses_until_the_key_arrives() {
    let mut c = lapse();
    c.localize_at(1);
    // The requester's own worker accesses the key, and the home, which routes to the requester as soon as it
    // has handled the request.
    c.push_at(1);
    c.deliver(1, 0);
    c.push_at(2);
    c.push_at(0);
    c.deliver(2, 0);
    let is_hand_over = |input: &Input| matches!(input, Input::Message { message: Message::HandOver(_), .. });
    let (hand_over, rest): (Vec<_>, Vec<_>) = c.link(0, 1).drain(..).partition(is_hand_over);
    assert_eq!((hand_over.len(), rest.len()), (1, 2));
    // The hand-over arrives last.
    c.link(0, 1).extend(rest.into_iter().chain(hand_over));
    c.deliver(0, 1);
    c.deliver(0, 1);
    assert_eq!(c.role(1, K), Role::Arriving);
    assert_eq!(c.channels[1].management().queued, 3);
    c.deliver(0, 1);
    assert_eq!((c.role(1, K), c.owner()), (Role::Owner, (1, [1., 1., 1.])));
    c.deliver_all();
    let stats = c.channels[1].management();
    assert_eq!((stats.relocations, stats.relocation.count(), stats.blocking.count()), (1, 1, 3));
    assert_eq!(
        stats.forwards,
        [1, 1, 0, 0],
        "the access of the home came directly, that of node 2 over the home"
    );
    c.end_idle();
}

#[test]
fn the_home_orders_conflicting_localizations() {
    let mut c = lapse();
    c.localize_at(1);
    c.push_at(1);
    c.localize_at(2);
    c.deliver(1, 0);
    c.deliver(2, 0);
    // The instruction to hand the key over arrives before the key.
    c.link(0, 1).swap(0, 1);
    assert_eq!(c.deliver(0, 1), "Relocate");
    assert_eq!(c.role(1, K), Role::Leaving);
    // Accesses from now on follow the key, and so does a second localization.
    c.push_at(1);
    assert_eq!(c.channels[1].management().localization_conflicts, 1);
    c.localize_at(1);
    c.localize_at(1);
    assert_eq!(c.role(1, K), Role::Arriving);
    c.push_at(1);
    assert_eq!(c.deliver(0, 1), "HandOver");
    assert_eq!(c.role(1, K), Role::Arriving, "the key was here for one access, and will come back");
    c.deliver_all();
    assert_eq!(c.owner(), (1, [0., 3., 0.]));
    assert_eq!(c.channels[1].management().relocations, 2);
    assert_eq!(c.nodes[0].inspect().slot(K).hint(), Some(NodeId(1)), "the home knows the owner");
    c.end_idle();
}

#[test]
fn a_node_serves_its_own_request_that_comes_back() {
    let policy = Technique::Lapse.policy().with(None, Some(true));
    let mut c = cluster(policy, Storage::Dense);
    c.localize_at(2);
    c.deliver_all();
    c.push_at(1);
    c.deliver_all();
    assert_eq!(c.nodes[1].inspect().slot(K).hint(), Some(NodeId(2)), "the answer names the owner");
    c.localize_at(0);
    c.deliver_all();
    // The request goes to the previous owner, while the node localizes the key.
    c.push_at(1);
    c.localize_at(1);
    c.deliver(1, 0);
    c.deliver(0, 1);
    assert_eq!(c.owner(), (1, [0., 1., 0.]));
    c.deliver(1, 2);
    c.deliver(2, 0);
    assert_eq!(c.deliver(0, 1), "Request");
    assert_eq!((c.owner(), c.is_idle(1)), ((1, [0., 2., 0.]), true));
    assert_eq!(c.under_way(), 0, "a node sends itself no answer");
    c.end_idle();
}

#[test]
fn a_local_pull_leaves_the_values_of_remote_keys_unchanged() {
    let mut node = Node::new(config(0, &layout(3, 9, 2), Technique::Lapse.policy()));
    let mut values = [9.0; 4];
    let mut here = Vec::new();
    let keys = [Key(8), Key(1)];
    node.shared.pull_if_local(&mut node.worker, &keys, &mut values, &mut here).unwrap();
    assert_eq!((here.as_slice(), values), (&[false, true][..], [9.0, 9.0, 1.0, 1.0]));
    let stats = node.worker.stats();
    assert_eq!((stats.pull_keys, stats.local, stats.remote), (1, 1, 0));
    let wrong = node.shared.pull_if_local(&mut node.worker, &keys, &mut [0.0; 3], &mut here);
    assert!(wrong.is_err());
}

#[test]
fn an_owner_hands_over_at_once_and_the_new_owner_informs_the_home() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut c = by_owners(storage);
        c.relocate(0, 1);
        assert_eq!((c.deliver(0, 1), c.under_way()), ("HandOver", 0), "the home was the owner");
        c.relocate(1, 2);
        // A node that is not the owner does nothing.
        c.relocate(0, 2);
        // The home knows only the previous owner, which forwards the request behind the key.
        c.push_at(0);
        assert_eq!(c.deliver(0, 1), "Request");
        assert_eq!((c.deliver(1, 2), c.deliver(1, 2)), ("HandOver", "Request"));
        assert_eq!(c.owner(), (2, [1., 0., 0.]));
        assert_eq!(c.deliver(2, 0), "Moved");
        assert_eq!(c.nodes[0].inspect().slot(K).hint(), Some(NodeId(2)));
        c.deliver_all();
        let started = c.nodes[0].localize(&mut c.workers[0].local, &[K], Tick(0)).unwrap();
        assert!(started.op.is_none() && started.submissions.is_empty(), "workers do not move keys");
        c.end_idle();
    }
}

#[test]
fn an_older_location_does_not_overwrite_a_newer_one() {
    let mut c = by_owners(Storage::Dense);
    c.relocate(0, 1);
    c.deliver(0, 1);
    c.relocate(1, 2);
    c.deliver(1, 2);
    c.relocate(2, 1);
    c.deliver(2, 1);
    // Node 1 informs the home before the older message of node 2 arrives.
    c.deliver(1, 0);
    assert_eq!(c.deliver(2, 0), "Moved");
    assert_eq!(
        (c.nodes[0].inspect().slot(K).hint(), c.nodes[0].inspect().slot(K).counter),
        (Some(NodeId(1)), 3)
    );
    c.deliver_all();
    c.end_idle();
}

fn located(location: Location) -> Cluster {
    cluster(Technique::Lapse.policy().located(Some(location)).with(None, None), Storage::Dense)
}

/// Row "location request" of the table in `intendant_techniques::location`: two messages more than a static
/// partition; and what happens if the key leaves after the answer.
#[test]
fn a_node_asks_the_home_where_a_key_is() {
    let mut c = located(Location::Request);
    c.localize_at(2);
    assert_eq!((c.deliver(2, 0), c.deliver(0, 2), c.under_way()), ("Localize", "HandOver", 0));
    c.push_at(1);
    let steps = [c.deliver(1, 0), c.deliver(0, 1), c.deliver(1, 2), c.deliver(2, 1)];
    assert_eq!((steps, c.under_way()), (["Locate", "Located", "Request", "Response"], 0));
    assert_eq!(c.owner(), (2, [0., 1., 0.]));
    c.push_at(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Locate", "Located"));
    c.localize_at(0);
    assert_eq!((c.deliver(0, 2), c.deliver(2, 0)), ("Relocate", "HandOver"));
    let steps = [c.deliver(1, 2), c.deliver(2, 0), c.deliver(0, 1)];
    assert_eq!((steps, c.under_way()), (["Request", "Request", "Response"], 0), "the home is asked again");
    assert_eq!(c.owner(), (0, [0., 2., 0.]));
    c.end_idle();
}

/// Row "broadcast relocations": the new owner tells all nodes but the old one, and what comes too late
/// follows the key.
#[test]
fn all_nodes_learn_where_a_key_has_moved() {
    let mut c = located(Location::BroadcastRelocations);
    c.localize_at(1);
    assert_eq!((c.deliver(1, 0), c.deliver(0, 1)), ("Localize", "HandOver"));
    // Node 2 does not know yet: its localize follows the key.
    c.localize_at(2);
    assert_eq!((c.deliver(2, 0), c.deliver(0, 1)), ("Localize", "Localize"));
    assert_eq!((c.deliver(1, 2), c.deliver(1, 2)), ("Moved", "HandOver"));
    assert_eq!((c.deliver(2, 0), c.under_way()), ("Moved", 0));
    c.push_at(0);
    let steps = [c.deliver(0, 2), c.deliver(2, 0)];
    assert_eq!((steps, c.under_way()), (["Request", "Response"], 0));
    assert_eq!(c.owner(), (2, [1., 0., 0.]));
    c.end_idle();
}

/// Row "broadcast operations": all nodes get an access, the owner alone executes it, also if the key moves
/// between two deliveries.
#[test]
fn an_access_that_all_nodes_get_is_executed_once() {
    let mut c = located(Location::BroadcastOperations);
    c.push_at(1);
    assert_eq!((c.deliver(1, 2), c.deliver(1, 0), c.deliver(0, 1)), ("Request", "Request", "Response"));
    assert_eq!((c.owner(), c.under_way()), ((0, [0., 1., 0.]), 0));
    // Node 2 has ignored the access before the key arrives there, and node 0 gets it after the key has left.
    c.push_at(1);
    assert_eq!(c.deliver(1, 2), "Request");
    c.localize_at(2);
    assert_eq!((c.deliver(2, 1), c.deliver(2, 0), c.deliver(0, 2)), ("Localize", "Localize", "HandOver"));
    assert_eq!((c.deliver(1, 0), c.owner()), ("Request", (2, [0., 1., 0.])), "no owner has executed it");
    assert_eq!(c.deliver(2, 1), "Void");
    c.deliver_all();
    assert_eq!(c.owner(), (2, [0., 2., 0.]));
    c.end_idle();
}
