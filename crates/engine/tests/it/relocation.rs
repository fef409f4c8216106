//! Relocation, one engine at a time or three of them with links in hand: who says what, and what waits for what.

use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{Action, Channel, Input, Local, ReplicationConfig, Shared, SharedConfig, Storage};
use intendant_techniques::{Initiator, Policy, Role, Technique};
use intendant_wire::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Three nodes; links and inboxes are emptied by hand, so that every order of arrivals can be played.
struct Cluster {
    layout: Arc<Layout>,
    nodes: Vec<Arc<Shared<f32>>>,
    channels: Vec<Channel<f32>>,
    workers: Vec<Local<f32>>,
    /// By sender, then receiver.
    links: Vec<VecDeque<Message>>,
    now: Tick,
}

/// At home on node 0.
const K: Key = Key(1);

impl Cluster {
    fn new(policy: Policy, storage: Storage) -> Self {
        let layout = Layout::builder().range("k", 9, 2).nodes(3).shards(4).order(KeyOrder::Range);
        let layout = Arc::new(layout.build().unwrap());
        let node = |node| {
            Arc::new(Shared::new(SharedConfig {
                node: NodeId(node),
                layout: Arc::clone(&layout),
                init: Arc::new(|key, value: &mut [f32]| value.fill(key.0 as f32)),
                storage,
                policy,
                replication: ReplicationConfig::default(),
                workers: 1,
            }))
        };
        let nodes: Vec<_> = (0..3).map(node).collect();
        Self {
            channels: nodes.iter().map(|n| Channel::new(ChannelId(0), Arc::clone(n))).collect(),
            workers: (0..3).map(|_| Local::new(WorkerId(0), &layout)).collect(),
            links: vec![VecDeque::new(); 9],
            now: Tick(0),
            nodes,
            layout,
        }
    }

    fn lapse() -> Self {
        Self::new(Technique::Lapse.policy(), Storage::Dense)
    }

    fn handle(&mut self, node: usize, input: Input) {
        let mut actions = Vec::new();
        self.now.0 += 1;
        self.channels[node].handle(self.now, input, &mut actions).unwrap();
        for action in actions {
            match action {
                Action::Send { to, message } => self.links[3 * node + to.index()].push_back(message),
                Action::Complete { completion, .. } => {
                    self.workers[node].complete(completion, &self.layout, None);
                }
                Action::CompleteSnapshot { .. } => unreachable!("nobody asked"),
            }
        }
    }

    fn localize(&mut self, node: usize) {
        let started = self.nodes[node].localize(&mut self.workers[node], &[K], self.now).unwrap();
        for (_, submission) in started.submissions {
            self.handle(node, Input::Submit(submission));
        }
    }

    fn push(&mut self, node: usize, by: f32) {
        let started = self.nodes[node].push(&mut self.workers[node], &[K], &[by, by]).unwrap();
        for (_, submission) in started.submissions {
            self.handle(node, Input::Submit(submission));
        }
    }

    /// Delivers the next message from one node to another.
    fn deliver(&mut self, from: usize, to: usize) -> String {
        let message = self.links[3 * from + to].pop_front().expect("something is under way");
        let name = format!("{message:?}");
        self.handle(to, Input::Message { from: NodeId(from as u16), message });
        name.split('(').next().unwrap().to_owned()
    }

    fn deliver_all(&mut self) -> usize {
        let mut delivered = 0;
        while let Some(link) = (0..9).find(|link| !self.links[*link].is_empty()) {
            self.deliver(link / 3, link % 3);
            delivered += 1;
        }
        delivered
    }

    fn under_way(&self) -> usize {
        self.links.iter().map(VecDeque::len).sum()
    }

    fn role(&self, node: usize) -> Role {
        self.nodes[node].slot(K).role
    }

    /// The only node that has the key, and its value.
    fn owner(&self) -> (usize, f32) {
        let owners: Vec<_> = (0..3).filter_map(|n| Some((n, self.nodes[n].peek(K)?[0]))).collect();
        assert_eq!(owners.len(), 1, "one owner: {owners:?}");
        owners[0]
    }
}

#[test]
fn two_messages_if_the_home_is_the_owner_and_three_if_not() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut c = Cluster::new(Technique::Lapse.policy(), storage);
        c.localize(1);
        assert_eq!(
            (c.deliver(1, 0), c.deliver(0, 1), c.under_way()),
            ("Localize".into(), "HandOver".into(), 0)
        );
        assert_eq!(c.owner(), (1, 1.0));
        c.localize(2);
        let steps = [c.deliver(2, 0), c.deliver(0, 1), c.deliver(1, 2)];
        assert_eq!((steps.join(" ").as_str(), c.under_way()), ("Localize Relocate HandOver", 0));
        assert_eq!(c.owner(), (2, 1.0));
        // The home itself: two messages, since nobody needs to be asked.
        c.localize(0);
        assert_eq!(
            (c.deliver(0, 2), c.deliver(2, 0), c.under_way()),
            ("Relocate".into(), "HandOver".into(), 0)
        );
        assert_eq!(c.owner(), (0, 1.0));
        let held: usize = c.nodes.iter().map(|n| n.held()).sum();
        let expected = if storage == Storage::Dense { 9 } else { 1 };
        assert_eq!(held, expected, "a key that leaves gives its memory back");
        assert!((0..3).all(|n| c.workers[n].is_idle() && c.channels[n].report().outstanding == 0));
        c.localize(0);
        assert_eq!(c.under_way(), 0, "it is here");
    }
}

#[test]
fn accesses_queue_at_the_requester_and_are_served_in_order() {
    let mut c = Cluster::lapse();
    c.localize(1);
    // Of the requester's own worker, and by the home, which routes to the requester as soon as it has heard of it.
    c.push(1, 10.0);
    c.deliver(1, 0);
    c.push(2, 100.0);
    c.push(0, 1000.0);
    c.deliver(2, 0);
    let (hand_over, rest): (Vec<_>, Vec<_>) =
        c.links[1].drain(..).partition(|m| matches!(m, Message::HandOver(_)));
    assert_eq!((hand_over.len(), rest.len()), (1, 2));
    // Even if the hand-over came last, nothing would be lost.
    c.links[1].extend(rest.into_iter().chain(hand_over));
    c.deliver(0, 1);
    c.deliver(0, 1);
    assert_eq!(c.role(1), Role::Arriving);
    assert_eq!(c.channels[1].management().queued, 3);
    c.deliver(0, 1);
    assert_eq!((c.role(1), c.owner()), (Role::Owner, (1, 1111.0)));
    c.deliver_all();
    let stats = c.channels[1].management();
    assert_eq!((stats.relocations, stats.relocation.count(), stats.blocking.count()), (1, 1, 3));
    assert_eq!(stats.forwards, [1, 1, 0, 0], "the home's own came straight, the third node's over the home");
    assert!((0..3).all(|n| c.workers[n].is_idle()));
}

#[test]
fn a_conflict_is_served_in_the_order_in_which_the_home_hears_of_it() {
    let mut c = Cluster::lapse();
    c.localize(1);
    c.push(1, 10.0);
    c.localize(2);
    c.deliver(1, 0);
    c.deliver(2, 0);
    // The order to leave comes before the key does, if we let it.
    c.links[1].swap(0, 1);
    assert_eq!(c.deliver(0, 1), "Relocate");
    assert_eq!(c.role(1), Role::Leaving);
    // What a worker wants now goes after the key; so does a second wish for it.
    c.push(1, 100.0);
    assert_eq!(c.channels[1].management().localization_conflicts, 1);
    c.localize(1);
    c.localize(1);
    assert_eq!(c.role(1), Role::Arriving);
    c.push(1, 1000.0);
    assert_eq!(c.deliver(0, 1), "HandOver");
    assert_eq!(c.role(1), Role::Arriving, "it was here, for one access, and will come back");
    c.deliver_all();
    assert_eq!(c.owner(), (1, 1111.0));
    assert_eq!(c.channels[1].management().relocations, 2);
    assert_eq!(c.nodes[0].slot(K).hint(), Some(NodeId(1)), "the home knows");
    assert!((0..3).all(|n| c.workers[n].is_idle() && c.channels[n].arriving() == 0));
}

#[test]
fn a_request_may_come_back_to_where_it_was_made() {
    let policy = Technique::Lapse.policy().with(None, Some(true));
    let mut c = Cluster::new(policy, Storage::Dense);
    c.localize(2);
    c.deliver_all();
    c.push(1, 10.0);
    c.deliver_all();
    assert_eq!(c.nodes[1].slot(K).hint(), Some(NodeId(2)), "learnt from the answer");
    c.localize(0);
    c.deliver_all();
    // Straight to where it is no more, while the node asks for the key.
    c.push(1, 100.0);
    c.localize(1);
    c.deliver(1, 0);
    c.deliver(0, 1);
    assert_eq!(c.owner(), (1, 11.0));
    c.deliver(1, 2);
    c.deliver(2, 0);
    assert_eq!(c.deliver(0, 1), "Request");
    assert_eq!((c.owner(), c.workers[1].is_idle()), ((1, 111.0), true));
    assert_eq!(c.deliver_all(), 0, "nobody answers himself by message");
}

#[test]
fn values_that_are_not_here_are_left_alone_by_a_pull_of_what_is() {
    let mut c = Cluster::lapse();
    let mut values = [9.0; 4];
    let mut here = Vec::new();
    let keys = [Key(8), K];
    c.nodes[0].pull_if_local(&mut c.workers[0], &keys, &mut values, &mut here).unwrap();
    assert_eq!((here.as_slice(), values), (&[false, true][..], [9.0, 9.0, 1.0, 1.0]));
    let stats = c.workers[0].stats();
    assert_eq!((stats.pull_keys, stats.local, stats.remote), (1, 1, 0));
    let wrong = c.nodes[0].pull_if_local(&mut c.workers[0], &keys, &mut [0.0; 3], &mut here);
    assert!(wrong.is_err());
}

fn by_owners(storage: Storage) -> Cluster {
    Cluster::new(
        Policy { name: "test", relocation: Some(Initiator::Owner), ..Technique::Lapse.policy() },
        storage,
    )
}

#[test]
fn an_owner_hands_over_at_once_and_the_new_owner_tells_the_home() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut c = by_owners(storage);
        c.handle(0, Input::Relocate { keys: vec![K], to: NodeId(1) });
        assert_eq!((c.deliver(0, 1), c.under_way()), ("HandOver".into(), 0), "the home knows already");
        c.handle(1, Input::Relocate { keys: vec![K], to: NodeId(2) });
        // Not here any more: nothing to do.
        c.handle(0, Input::Relocate { keys: vec![K], to: NodeId(2) });
        // The home is behind; the old owner knows the way, and the key is there first.
        c.push(0, 10.0);
        assert_eq!(c.deliver(0, 1), "Request");
        assert_eq!((c.deliver(1, 2), c.deliver(1, 2)), ("HandOver".into(), "Request".into()));
        assert_eq!(c.owner(), (2, 11.0));
        assert_eq!(c.deliver(2, 0), "Moved");
        assert_eq!(c.nodes[0].slot(K).hint(), Some(NodeId(2)));
        c.deliver_all();
        assert!(c.workers[0].is_idle());
        let started = c.nodes[0].localize(&mut c.workers[0], &[K], Tick(0)).unwrap();
        assert!(started.op.is_none() && started.submissions.is_empty(), "keys do not move on request");
    }
}

#[test]
fn old_news_do_not_overwrite_newer() {
    let mut c = by_owners(Storage::Dense);
    c.handle(0, Input::Relocate { keys: vec![K], to: NodeId(1) });
    c.deliver(0, 1);
    c.handle(1, Input::Relocate { keys: vec![K], to: NodeId(2) });
    c.deliver(1, 2);
    c.handle(2, Input::Relocate { keys: vec![K], to: NodeId(1) });
    c.deliver(2, 1);
    // Node 1 tells the home that it has the key before node 2's news, which are older, get there.
    c.deliver(1, 0);
    assert_eq!(c.deliver(2, 0), "Moved");
    assert_eq!((c.nodes[0].slot(K).hint(), c.nodes[0].slot(K).counter), (Some(NodeId(1)), 3));
}
